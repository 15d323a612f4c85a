/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/num.h"
#include "client/api.h"
#include "client/pieces.h"
#include "client/stream.h"

#include <stdlib.h>
#include <string.h>

/* Where an upload's bytes come from: a function, or the memory that the pieces are parts of. */
struct source {
    stream_read_fn *read; /* NULL: memory */
    void *arg;
    uint64_t len, done; /* len may be STREAM_UNKNOWN */
    bool is_at_end;
};

struct upload {
    struct pieces all;
    struct source source;
    char *id;
    struct client_part *parts; /* by number: pieces.lock */
    size_t cap;
    unsigned count;
};

/* ---- the source ---- */

static int gave_up(struct pieces *all, int error, const char *why)
{
    struct diag diag = {0};
    (void)diag_fail(&diag, error, "%s", why);
    return pieces_fail(all, error, &diag);
}

static int read_from_function(struct upload *u, struct piece *p, size_t want)
{
    struct source *s = &u->source;
    size_t len = 0;
    while (len < want && !s->is_at_end) {
        int64_t n = s->read(s->arg, (char *)p->memory.ptr + len, want - len);
        if (n < 0)
            return gave_up(&u->all, S3R_E_ABORTED, "the function that gives the bytes gave up");
        if ((uint64_t)n > want - len)
            return gave_up(&u->all, S3R_E_INVALID_ARGUMENT,
                           "the function says that it gave more bytes than there was room for");
        s->is_at_end = n == 0;
        len += (size_t)n;
    }
    if (s->len != STREAM_UNKNOWN && len < want)
        return gave_up(&u->all, S3R_E_ABORTED,
                       "the function that gives the bytes ended before the length that was told");
    p->memory.len = len;
    return 0;
}

static int too_many(struct upload *u)
{
    struct diag diag = {0};
    int e = diag_fail(&diag, S3R_E_ENTITY_TOO_LARGE,
                      "more than %d pieces of %llu bytes: longer pieces are needed",
                      LIMIT_PARTS_MAX, (unsigned long long)u->all.config.piece_len);
    return pieces_fail(&u->all, e, &diag);
}

/* The next piece; of no bytes at the end. */
static int fill(struct upload *u, struct piece *p)
{
    struct source *s = &u->source;
    const struct client_memory *m = u->all.config.memory;
    uint64_t left = s->len != STREAM_UNKNOWN ? s->len - s->done : u->all.config.piece_len;
    size_t want = (size_t)min_u64(left, u->all.config.piece_len);
    /* A buffer is made with the first piece, and no later one is longer. */
    int e = piece_begin(p, u->count + 1, s->done, want > 0 ? want : 1);
    if (e != 0)
        return pieces_fail(&u->all, e, NULL);
    p->memory.len = want;
    if (m != NULL)
        p->memory.ptr = (char *)m->ptr + s->done;
    else if ((e = read_from_function(u, p, want)) != 0)
        return e;
    if (u->count == LIMIT_PARTS_MAX && p->memory.len > 0)
        return too_many(u);
    s->done += p->memory.len;
    s->is_at_end |= p->memory.len < u->all.config.piece_len || s->done == s->len;
    return 0;
}

/* ---- parts ---- */

/* A part, or where no upload was begun the whole object. */
static int carry(struct pieces *all, struct piece *p)
{
    struct upload *u = all->config.arg;
    const struct pieces_config *config = &all->config;
    if (u->id == NULL)
        return client_put(config->client, config->bucket, config->key, &p->memory, &all->each,
                          &p->diag, &p->result);
    int e = client_upload_part(config->client, config->bucket, config->key, u->id, p->number,
                               &p->memory, &all->each, &p->diag, &p->result, &p->part);
    if (e != 0)
        return e;
    pthread_mutex_lock(&all->lock);
    u->parts[p->number - 1] = p->part;
    pthread_mutex_unlock(&all->lock);
    return 0;
}

static int submit(struct upload *u, struct piece *p)
{
    if (u->count == u->cap) {
        size_t cap = u->cap > 0 ? 2 * u->cap : 64;
        pthread_mutex_lock(&u->all.lock);
        struct client_part *parts = realloc(u->parts, cap * sizeof(*parts));
        if (parts != NULL) {
            u->parts = parts;
            u->cap = cap;
        }
        pthread_mutex_unlock(&u->all.lock);
        if (parts == NULL)
            return pieces_fail(&u->all, S3R_E_NOMEM, NULL);
    }
    u->count++;
    return piece_submit(p);
}

/* The first piece is filled. */
static int send_parts(struct upload *u, struct piece *p)
{
    int e = 0;
    while (e == 0 && p->memory.len > 0) {
        e = submit(u, p);
        if (e != 0 || u->source.is_at_end)
            break;
        e = pieces_wait_any(&u->all, &p);
        if (e == 0)
            e = fill(u, p);
    }
    int error = pieces_wait_all(&u->all);
    return error != 0 ? error : e;
}

/* One that got no answer is sent again: the server that has done it says so. */
static int complete(struct upload *u, struct diag *diag, struct client_result *result)
{
    const struct pieces_config *config = &u->all.config;
    int e = 0;
    for (int tries = 0; tries < 2; tries++) {
        diag_clear(diag);
        e = client_upload_complete(config->client, config->bucket, config->key, u->id, u->parts,
                                   u->count, config->each, diag, result);
        if (e != S3R_E_HTTP && e != S3R_E_TIMEOUT)
            break;
    }
    return e;
}

static void take_back(struct upload *u)
{
    const struct pieces_config *config = &u->all.config;
    struct diag diag = {0};
    char shown[200];
    int e = client_upload_abort(config->client, config->bucket, config->key, u->id, &diag);
    if (e != 0 && e != S3R_E_NO_SUCH_UPLOAD)
        log_warn("the upload %s could not be aborted: %s",
                 log_escape(u->id, strlen(u->id), shown, sizeof(shown)), diag_text(&diag, e));
}

static int put_parts(struct upload *u, struct piece *first, struct diag *diag,
                     struct client_result *result)
{
    const struct pieces_config *config = &u->all.config;
    struct diag why = {0};
    int e = client_upload_create(config->client, config->bucket, config->key, config->each, &why,
                                 &u->id);
    if (e != 0)
        return diag_fail(diag, e, "%s", diag_text(&why, e));
    e = send_parts(u, first);
    if (e == 0) {
        e = complete(u, &why, result);
        if (e != 0)
            (void)diag_fail(diag, e, "%s", diag_text(&why, e));
    }
    pieces_report(&u->all, diag, result);
    if (e != 0)
        take_back(u);
    return e;
}

/* ---- all of it ---- */

static int put_whole(struct upload *u, struct piece *p, struct diag *diag,
                     struct client_result *result)
{
    if (!api_may_retry_put(u->all.config.each))
        u->all.config.retries = 0;
    int e = piece_submit(p);
    if (e == 0)
        e = pieces_wait_all(&u->all);
    *result = p->result;
    p->result = (struct client_result){0};
    if (e != 0)
        (void)diag_fail(diag, e, "%s", diag_text(&p->diag, e));
    return e;
}

static int put(struct upload *u, struct diag *diag, struct client_result *result)
{
    struct piece *first = NULL;
    int e = pieces_wait_any(&u->all, &first);
    if (e == 0)
        e = fill(u, first);
    if (e != 0) {
        pieces_report(&u->all, diag, result);
        return e;
    }
    return u->source.is_at_end ? put_whole(u, first, diag, result)
                               : put_parts(u, first, diag, result);
}

static int run(struct pieces_config *config, const struct stream_options *plan, struct upload *u,
               struct diag *diag, struct client_result *result)
{
    config->each = plan->each;
    config->piece_len = plan->piece_len;
    config->in_flight = plan->in_flight;
    config->retries = plan->retries;
    config->carry = carry;
    config->arg = u;
    int e = pieces_init(&u->all, config);
    if (e == 0)
        e = put(u, diag, result);
    /* memory of the caller's, which it must learn about whatever failed first */
    bool is_unfenced = u->all.is_unfenced && config->memory != NULL;
    pieces_fini(&u->all);
    free(u->parts);
    free(u->id);
    return e != 0 && is_unfenced ? S3R_E_RDMA_UNFENCED : e;
}

int stream_put(struct client *c, const char *bucket, const char *key, uint64_t len,
               stream_read_fn *read, void *arg, const struct stream_options *options,
               struct diag *diag, struct client_result *result)
{
    struct stream_options plan;
    struct upload u = {.source = {.read = read, .arg = arg, .len = len}};
    struct pieces_config config = {.client = c, .bucket = bucket, .key = key};
    int e = pieces_plan(options, STREAM_PIECE_LEN, LIMIT_PART_LEN_MIN, len, diag, &plan);
    return e == 0 ? run(&config, &plan, &u, diag, result) : e;
}

int stream_put_memory(struct client *c, const char *bucket, const char *key,
                      const struct client_memory *memory, const struct stream_options *options,
                      struct diag *diag, struct client_result *result)
{
    struct stream_options plan;
    struct upload u = {.source = {.len = memory->len}};
    struct pieces_config config = {.client = c, .bucket = bucket, .key = key, .memory = memory};
    int e =
        pieces_plan(options, STREAM_MEMORY_PIECE_LEN, LIMIT_PART_LEN_MIN, memory->len, diag, &plan);
    if (e != 0)
        return e;
    if (memory->len <= stream_whole_max(options))
        return client_put(c, bucket, key, memory, plan.each, diag, result);
    return run(&config, &plan, &u, diag, result);
}
