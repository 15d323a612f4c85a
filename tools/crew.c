/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/crew.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/pages.h"
#include "tools/crew_report.h"
#include "tools/file.h"
#include "tools/show.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_LEN_MIN (64 * KIB)
/* So many jobs in a row without an answer from the server: the others are not even tried. */
#define SILENCE_MAX 4

struct hand {
    struct crew *crew;
    pthread_t thread;
    struct client_memory memory; /* ptr NULL: none yet */
    _Atomic uint64_t in_flight;  /* of the call that runs, for the bar */
};

/* An upload to take back. */
struct orphan {
    struct orphan *next;
    char *bucket, *key, *id;
};

struct crew {
    struct cli *cli;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, *last; /* lock: not begun yet */
    struct job *open;         /* lock: begun, with pieces to give; the newest first */
    size_t busy;              /* lock: hands at work */
    bool is_given_up;         /* lock */
    unsigned silences;        /* lock */
    struct orphan *orphans;   /* lock */
    struct crew_sums sums;    /* lock */
    struct crew_bar bar;      /* lock */
    struct hand hands[CREW_MAX];
    size_t hand_count;
};

int crew_create(struct cli *cli, struct crew **ret_crew)
{
    struct crew *crew = calloc(1, sizeof(*crew));
    if (crew == NULL)
        return S3R_E_NOMEM;
    crew->cli = cli;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, NULL);
    crew->hand_count = cli->o.parallel > 0 ? (size_t)cli->o.parallel : CREW_DEFAULT;
    for (size_t i = 0; i < crew->hand_count; i++)
        crew->hands[i].crew = crew;
    crew_bar_init(&crew->bar, cli);
    crew->sums.start_ns = clock_mono_ns();
    *ret_crew = crew;
    return 0;
}

static void release_memory(struct hand *h)
{
    if (h->memory.region != NULL)
        client_deregister(h->crew->cli->client, h->memory.region);
    pages_free(h->memory.ptr, h->memory.len);
    h->memory = (struct client_memory){0};
}

static void free_jobs(struct job *j)
{
    while (j != NULL) {
        struct job *next = j->next;
        j->kind->free(j);
        j = next;
    }
}

void crew_destroyp(struct crew **crew)
{
    struct crew *c = *crew;
    if (c == NULL)
        return;
    free_jobs(c->first);
    for (size_t i = 0; i < c->hand_count; i++)
        release_memory(&c->hands[i]);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void crew_add(struct crew *crew, struct job *j)
{
    j->next = NULL;
    *(crew->last != NULL ? &crew->last->next : &crew->first) = j;
    crew->last = j;
    crew->sums.jobs++;
    crew->bar.total_len += j->len;
}

void crew_add_same(struct crew *crew, size_t count)
{
    crew->sums.same += count;
}

bool crew_is_dry(const struct crew *crew)
{
    return crew->cli->o.is_dry_run;
}

bool crew_is_clean(const struct crew *crew)
{
    return crew->sums.failed == 0 && crew->sums.cut == 0 && !is_stopped();
}

/* ---- errors ---- */

static void take_code(struct crew *crew, int code)
{
    if (crew->sums.failed++ == 0)
        crew->sums.code = code;
    else if (crew->sums.code != code)
        crew->sums.code = EXIT_FAILED;
}

void crew_note(struct crew *crew, const char *fmt, ...)
{
    char text[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    pthread_mutex_lock(&crew->lock);
    crew_bar_clear(&crew->bar);
    show_line(stderr, "s3rdma: %s", text);
    pthread_mutex_unlock(&crew->lock);
}

void crew_fault(struct crew *crew, const char *about, int error, const struct diag *diag)
{
    pthread_mutex_lock(&crew->lock);
    crew_bar_clear(&crew->bar);
    if (error != S3R_E_CANCELLED)
        take_code(crew, cli_fail(crew->cli, about, error, diag));
    pthread_mutex_unlock(&crew->lock);
}

/* ---- the hands' work ---- */

/* (lock) A job that has ended: counted, told, freed. */
static void finish(struct crew *crew, struct job *j, int error)
{
    crew->sums.kept_len += j->kept_len;
    if (error == 0 && j->is_same) {
        crew->sums.same++;
    } else if (error == 0) {
        crew->silences = 0;
        crew_bar_clear(&crew->bar);
        crew_tell_job(crew->cli, j);
        crew->sums.done++;
    } else if (error == S3R_E_CANCELLED) {
        crew->sums.cut++;
    } else {
        crew_bar_clear(&crew->bar);
        int code = cli_fail(crew->cli, j->from, error, &j->diag);
        take_code(crew, code);
        crew->silences = code == EXIT_NO_SERVER ? crew->silences + 1 : 0;
        crew->is_given_up = crew->is_given_up || crew->silences >= SILENCE_MAX;
    }
    crew->bar.done_len += j->len - min_u64(j->len, j->credited);
    j->kind->free(j);
}

static void unlink_open(struct crew *crew, struct job *j)
{
    for (struct job **p = &crew->open; *p != NULL; p = &(*p)->next)
        if (*p == j) {
            *p = j->next;
            return;
        }
}

/* (lock) After begin() or a piece. The last one out ends the job. */
static void settle(struct crew *crew, struct hand *h, struct job *j, int error)
{
    if (error != 0 && j->error == 0)
        j->error = error;
    if (j->error != 0 && j->given < j->pieces) {
        j->given = j->pieces;
        unlink_open(crew, j);
    }
    if (j->out > 0 || j->given < j->pieces)
        return;
    pthread_mutex_unlock(&crew->lock);
    int e = j->kind->end(j, h, j->error);
    pthread_mutex_lock(&crew->lock);
    finish(crew, j, e);
}

/* (lock) */
static void begin(struct crew *crew, struct hand *h)
{
    struct job *j = crew->first;
    crew->first = j->next;
    if (crew->first == NULL)
        crew->last = NULL;
    j->next = NULL;
    pthread_mutex_unlock(&crew->lock);
    int e = j->kind->begin(j, h);
    pthread_mutex_lock(&crew->lock);
    if (e == 0 && j->pieces > 0) {
        j->next = crew->open;
        crew->open = j;
        pthread_cond_broadcast(&crew->changed);
        return;
    }
    j->pieces = 0;
    settle(crew, h, j, e);
}

/* (lock) */
static void do_piece(struct crew *crew, struct hand *h)
{
    struct job *j = crew->open;
    size_t index = j->given++;
    if (j->given == j->pieces)
        unlink_open(crew, j);
    j->out++;
    pthread_mutex_unlock(&crew->lock);
    int e = is_stopped() ? S3R_E_CANCELLED : j->kind->piece(j, h, index);
    pthread_mutex_lock(&crew->lock);
    j->out--;
    settle(crew, h, j, e);
}

static void *work(void *arg)
{
    struct hand *h = arg;
    struct crew *crew = h->crew;
    pthread_mutex_lock(&crew->lock);
    while (true) {
        bool may_begin = crew->first != NULL && !is_stopped() && !crew->is_given_up;
        if (crew->open == NULL && !may_begin) {
            if (crew->busy == 0)
                break;
            pthread_cond_wait(&crew->changed, &crew->lock); /* a busy one may bring pieces */
            continue;
        }
        crew->busy++;
        if (crew->open != NULL)
            do_piece(crew, h);
        else
            begin(crew, h);
        crew->busy--;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* What was not begun. */
static void drop_rest(struct crew *crew)
{
    size_t dropped = 0;
    for (struct job *j = crew->first; j != NULL; j = j->next)
        dropped++;
    free_jobs(crew->first);
    crew->first = crew->last = NULL;
    crew->sums.cut += dropped;
    if (dropped > 0 && crew->is_given_up)
        crew_note(crew, "the server does not answer: %zu others were not tried", dropped);
}

static void orphan_free(struct orphan *o)
{
    free(o->bucket);
    free(o->key);
    free(o->id);
    free(o);
}

/* With ^C held off: not while others must still see it. */
static void take_back(struct crew *crew)
{
    ignore_stop(true);
    while (crew->orphans != NULL) {
        struct orphan *o = crew->orphans;
        struct diag diag = {0};
        crew->orphans = o->next;
        int e = client_upload_abort(crew->cli->client, o->bucket, o->key, o->id, &diag);
        if (e != 0 && e != S3R_E_NO_SUCH_UPLOAD)
            crew_note(crew, "could not abort the upload %.100s to %.100s: %s", o->id, o->bucket,
                      diag_text(&diag, e));
        orphan_free(o);
    }
    ignore_stop(false);
}

void crew_run(struct crew *crew)
{
    size_t started = 1; /* this thread is a hand, too */
    while (started < crew->hand_count &&
           pthread_create(&crew->hands[started].thread, NULL, work, &crew->hands[started]) == 0)
        started++;
    work(&crew->hands[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(crew->hands[i].thread, NULL);
    drop_rest(crew);
    crew_bar_clear(&crew->bar);
    take_back(crew);
}

int crew_report(struct crew *crew)
{
    crew_sums_report(&crew->sums, crew->cli);
    if (is_stopped())
        return EXIT_STOPPED;
    return crew->sums.failed > 0 ? crew->sums.code : EXIT_OK;
}

/* ---- for jobs ---- */

struct cli *hand_cli(const struct hand *h)
{
    return h->crew->cli;
}

static size_t buffer_len(size_t len)
{
    size_t n = BUFFER_LEN_MIN;
    while (n < len && n < CREW_PART_LEN)
        n *= 2;
    return n >= len ? n : (size_t)align_up(len, BUFFER_LEN_MIN);
}

int hand_memory(struct hand *h, size_t len, struct diag *diag, struct client_memory *ret_memory)
{
    if (h->memory.ptr == NULL || h->memory.len < len) {
        release_memory(h);
        size_t room = buffer_len(len);
        void *pages = pages_alloc(room);
        if (pages == NULL)
            return diag_fail(diag, S3R_E_NOMEM, "no memory for a buffer of %zu bytes", room);
        struct diag ignored = {0}; /* each call tries by itself, and says why it cannot */
        int e = client_register(h->crew->cli->client, pages, room, &ignored);
        h->memory = (struct client_memory){.ptr = pages, .len = room, .region = pages};
        if (e != 0)
            h->memory.region = NULL;
    }
    *ret_memory = h->memory;
    ret_memory->len = len;
    if (len == 0)
        ret_memory->region = NULL;
    return 0;
}

void hand_give_up_memory(struct hand *h)
{
    h->memory = (struct client_memory){0};
}

static void on_progress(void *arg, uint64_t bytes)
{
    struct hand *h = arg;
    struct crew *crew = h->crew;
    h->in_flight = bytes;
    if (!crew->bar.is_wanted || pthread_mutex_trylock(&crew->lock) != 0)
        return;
    uint64_t in_flight = 0;
    for (size_t i = 0; i < crew->hand_count; i++)
        in_flight += crew->hands[i].in_flight;
    crew_bar_draw(&crew->bar, &crew->sums, in_flight);
    pthread_mutex_unlock(&crew->lock);
}

void hand_options(struct hand *h, struct client_options *ret_options)
{
    const struct cli_options *o = &h->crew->cli->o;
    *ret_options = (struct client_options){
        .is_rdma_required = o->is_rdma_required,
        .is_unverified = o->is_unverified,
        .on_progress = on_progress,
        .progress_arg = h,
    };
}

/* (lock) Towards the bar, never more than was expected. */
static void credit(struct crew *crew, struct job *j, uint64_t len)
{
    uint64_t more = min_u64(len, j->len - min_u64(j->len, j->credited));
    j->credited += more;
    crew->bar.done_len += more;
}

void hand_moved(struct hand *h, struct job *j, const struct client_result *result)
{
    struct crew *crew = h->crew;
    h->in_flight = 0;
    pthread_mutex_lock(&crew->lock);
    crew_sums_add(&crew->sums, result);
    if (result->transport == CLIENT_RDMA)
        j->rdma_len += result->len;
    else if (result->transport == CLIENT_HTTP)
        j->http_len += result->len;
    if (result->transport != CLIENT_NONE)
        credit(crew, j, result->len);
    pthread_mutex_unlock(&crew->lock);
    on_progress(h, 0);
}

void hand_kept(struct hand *h, struct job *j, uint64_t len)
{
    pthread_mutex_lock(&h->crew->lock);
    j->kept_len += len;
    credit(h->crew, j, len);
    pthread_mutex_unlock(&h->crew->lock);
}

void hand_asked(struct hand *h, const struct client_result *result)
{
    pthread_mutex_lock(&h->crew->lock);
    h->crew->sums.requests += result->requests;
    pthread_mutex_unlock(&h->crew->lock);
}

void hand_says(struct hand *h, struct job *j, const struct diag *diag, int error)
{
    pthread_mutex_lock(&h->crew->lock);
    if (j->error == 0 && error != S3R_E_CANCELLED)
        (void)diag_fail(&j->diag, error, "%s", diag_text(diag, error));
    pthread_mutex_unlock(&h->crew->lock);
}

void hand_abort(struct hand *h, const char *bucket, const char *key, const char *upload_id)
{
    struct orphan *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return;
    *o = (struct orphan){.bucket = strdup(bucket), .key = strdup(key), .id = strdup(upload_id)};
    if (o->bucket == NULL || o->key == NULL || o->id == NULL) {
        orphan_free(o);
        return;
    }
    pthread_mutex_lock(&h->crew->lock);
    o->next = h->crew->orphans;
    h->crew->orphans = o;
    pthread_mutex_unlock(&h->crew->lock);
}
