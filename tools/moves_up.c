/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/moves.h"

#include "base/crc64.h"
#include "base/limits.h"
#include "base/num.h"
#include "client/copy.h"
#include "tools/compare.h"
#include "tools/file.h"
#include "tools/journal.h"
#include "tools/metadata.h"
#include "tools/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct up {
    struct job job;
    char *from, *to; /* for people */
    int root;
    bool is_link_fine;
    char *name, *bucket, *key;
    int fd;
    struct stat st; /* of the source, when it was opened */
    size_t piece_len;
    struct headers headers;
    char *id;                  /* of a multipart upload */
    struct client_part *parts; /* number 0: not there yet */
    struct journal journal;
    bool is_saved;   /* in the journal: the upload can go on in another run */
    bool is_unknown; /* the journal names an upload that nobody could be asked about */
};

static void up_free(struct job *j)
{
    struct up *u = (struct up *)j;
    if (u->fd >= 0)
        close(u->fd);
    journal_close(&u->journal);
    headers_fini(&u->headers);
    free(u->from);
    free(u->to);
    free(u->name);
    free(u->bucket);
    free(u->key);
    free(u->id);
    free(u->parts);
    free(u);
}

static int local_error(struct up *u, struct diag *diag, int error)
{
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s: %s", u->from, errno_text(error));
}

/* ---- the source ---- */

static int open_source(struct up *u)
{
    struct place p = {.dir = -1};
    struct diag *diag = &u->job.diag;
    if (u->is_link_fine) {
        u->fd = openat(u->root, u->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    } else {
        int e = place_find(u->root, u->name, false, diag, &p);
        if (e != 0)
            return e;
        u->fd = openat(p.dir, p.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    int error = errno;
    place_fini(&p);
    if (u->fd < 0)
        return local_error(u, diag, error);
    if (fstat(u->fd, &u->st) != 0)
        return local_error(u, diag, errno);
    if (!S_ISREG(u->st.st_mode))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s is no regular file", u->from);
    if ((uint64_t)u->st.st_size > LIMIT_OBJECT_LEN_MAX)
        return local_error(u, diag, EFBIG);
    return 0;
}

static int check_source(struct up *u)
{
    struct stat now;
    if (fstat(u->fd, &now) != 0)
        return local_error(u, &u->job.diag, errno);
    if (now.st_size != u->st.st_size || now.st_mtim.tv_sec != u->st.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != u->st.st_mtim.tv_nsec)
        return diag_fail(&u->job.diag, S3R_E_INCOMPLETE_BODY, "%s was changed meanwhile", u->from);
    return 0;
}

static int read_piece(struct up *u, uint64_t off, const struct client_memory *memory,
                      struct diag *diag)
{
    int error = read_at(u->fd, memory->ptr, memory->len, off);
    if (error == EIO)
        return diag_fail(diag, S3R_E_INCOMPLETE_BODY, "%s became shorter meanwhile", u->from);
    return error == 0 ? 0 : local_error(u, diag, error);
}

/* ---- an upload that can go on ---- */

/* What goes where, and how: another command is another upload. */
static int add_identity(const struct up *u, const struct cli *cli, struct text *out)
{
    char full[PATH_MAX];
    char link[40];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", u->fd);
    ssize_t len = readlink(link, full, sizeof(full));
    if (len <= 0 || (size_t)len >= sizeof(full))
        return S3R_E_INVALID_ARGUMENT;
    const char *const texts[] = {cli->endpoint, u->bucket, u->key};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        text_add(out, texts[i], strlen(texts[i]) + 1);
    text_add(out, full, (size_t)len);
    for (size_t i = 0; i < u->headers.count; i++) {
        text_add(out, "", 1);
        text_fmt(out, "%s: %s", u->headers.rows[i].name, u->headers.rows[i].value);
    }
    return text_error(out);
}

static void open_journal(struct up *u, const struct cli *cli)
{
    struct text identity;
    text_init(&identity, 64 * KIB);
    if (cli->o.is_resume_off || add_identity(u, cli, &identity) != 0 ||
        journal_open(identity.data, identity.len, &u->journal) != 0)
        u->journal.fd = -1;
    text_fini(&identity);
}

static void print_stamp(const struct up *u, char out[160])
{
    snprintf(out, 160, "%lld %lld.%09ld %llu %llu %zu", (long long)u->st.st_size,
             (long long)u->st.st_mtim.tv_sec, u->st.st_mtim.tv_nsec,
             (unsigned long long)u->st.st_dev, (unsigned long long)u->st.st_ino, u->piece_len);
}

static size_t piece_count(const struct up *u)
{
    return (size_t)(((uint64_t)u->st.st_size + u->piece_len - 1) / u->piece_len);
}

/* The parts that an upload of an earlier run has. False: there is none to go on with. */
static bool take_up(struct up *u, const struct cli *cli, const char *stamp)
{
    bool is_same = false;
    struct diag ignored = {0};
    struct client_part *parts = NULL;
    size_t count = 0;
    CLEANUP(freep) char *id = NULL;
    if (u->journal.fd < 0 || !journal_load(&u->journal, stamp, &id, &is_same))
        return false;
    if (!is_same) { /* of a file that is not there any more: its parts only cost space */
        if (client_upload_abort(cli->client, u->bucket, u->key, id, &ignored) != 0)
            diag_clear(&ignored);
        return false;
    }
    int e = client_upload_parts(cli->client, u->bucket, u->key, id, &ignored, &parts, &count);
    u->is_unknown = e != 0 && move_may_go_on(e);
    if (e != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (parts[i].number <= piece_count(u))
            u->parts[parts[i].number - 1] = parts[i];
    free(parts);
    u->id = STEAL(id);
    u->is_saved = true;
    return true;
}

static int begin_parts(struct up *u, struct hand *h)
{
    const struct cli *cli = hand_cli(h);
    char stamp[160];
    u->parts = calloc(piece_count(u), sizeof(*u->parts));
    if (u->parts == NULL)
        return S3R_E_NOMEM;
    open_journal(u, cli);
    print_stamp(u, stamp);
    if (!take_up(u, cli, stamp)) {
        const struct client_options options = {.headers = &u->headers};
        int e =
            client_upload_create(cli->client, u->bucket, u->key, &options, &u->job.diag, &u->id);
        if (e != 0)
            return e;
        u->is_saved = u->journal.fd >= 0 && journal_save(&u->journal, stamp, u->id) == 0;
    }
    u->job.pieces = piece_count(u);
    return 0;
}

static int put_part(struct up *u, struct hand *h, size_t index, const struct client_memory *memory,
                    struct diag *diag)
{
    struct client_options options;
    struct client_result result = {0};
    hand_options(h, &options);
    int e = client_upload_part(hand_cli(h)->client, u->bucket, u->key, u->id, (unsigned)index + 1,
                               memory, &options, diag, &result, &u->parts[index]);
    hand_moved(h, &u->job, &result);
    client_result_fini(&result);
    if (e == S3R_E_RDMA_UNFENCED)
        hand_give_up_memory(h);
    return e;
}

static int up_piece(struct job *j, struct hand *h, size_t index)
{
    struct up *u = (struct up *)j;
    struct diag diag = {0};
    struct client_memory memory;
    uint64_t off = (uint64_t)index * u->piece_len;
    size_t len = (size_t)min_u64(u->piece_len, (uint64_t)u->st.st_size - off);
    int e = hand_memory(h, len, &diag, &memory);
    if (e == 0)
        e = read_piece(u, off, &memory, &diag);
    const struct client_part *have = &u->parts[index];
    if (e == 0 && have->number != 0 && have->len == len &&
        have->crc64 == crc64_update(0, memory.ptr, len))
        hand_kept(h, j, len);
    else if (e == 0)
        e = put_part(u, h, index, &memory, &diag);
    if (e != 0)
        hand_says(h, j, &diag, e);
    return e;
}

static int complete(struct up *u, struct hand *h)
{
    struct client_result result = {0};
    int e = client_upload_complete(hand_cli(h)->client, u->bucket, u->key, u->id, u->parts,
                                   piece_count(u), NULL, &u->job.diag, &result);
    hand_asked(h, &result);
    memcpy(u->job.etag, result.etag, sizeof(u->job.etag));
    u->job.has_crc64 = result.has_crc64;
    u->job.crc64 = result.crc64;
    u->job.is_verified = result.is_verified;
    client_result_fini(&result);
    return e;
}

/* ---- the job ---- */

static int put_whole(struct up *u, struct hand *h)
{
    struct job *j = &u->job;
    struct client_memory memory;
    struct client_options options;
    struct client_result result = {0};
    int e = hand_memory(h, (size_t)u->st.st_size, &j->diag, &memory);
    if (e == 0)
        e = read_piece(u, 0, &memory, &j->diag);
    if (e == 0)
        e = check_source(u);
    if (e != 0)
        return e;
    hand_options(h, &options);
    options.headers = &u->headers;
    e = client_put(hand_cli(h)->client, u->bucket, u->key, &memory, &options, &j->diag, &result);
    hand_moved(h, j, &result);
    memcpy(j->etag, result.etag, sizeof(j->etag));
    j->has_crc64 = result.has_crc64;
    j->crc64 = result.crc64;
    j->is_verified = result.is_verified;
    client_result_fini(&result);
    if (e == S3R_E_RDMA_UNFENCED)
        hand_give_up_memory(h);
    return e;
}

static int up_begin(struct job *j, struct hand *h)
{
    struct up *u = (struct up *)j;
    const struct cli *cli = hand_cli(h);
    int e = open_source(u);
    if (e == 0 && j->is_compared)
        e = compare_content(h, u->fd, (uint64_t)u->st.st_size, u->bucket, u->key, &j->diag,
                            &j->is_same);
    if (e != 0 || j->is_same || cli->o.is_dry_run)
        return e;
    e = metadata_add(&cli->o, &u->headers, &j->diag);
    if (e == 0)
        e = move_piece_len(cli, (uint64_t)u->st.st_size, &j->diag, &u->piece_len);
    if (e != 0)
        return e;
    return (uint64_t)u->st.st_size <= u->piece_len ? put_whole(u, h) : begin_parts(u, h);
}

/* Parts of an upload that will not go on cost space: they are taken back. */
static int up_end(struct job *j, struct hand *h, int error)
{
    struct up *u = (struct up *)j;
    if (u->id == NULL) {
        if (!u->is_unknown)
            journal_drop(&u->journal);
        return error;
    }
    if (error == 0)
        error = check_source(u);
    if (error == 0)
        error = complete(u, h);
    if (error == 0 || error == S3R_E_NO_SUCH_UPLOAD) {
        journal_drop(&u->journal);
    } else if (!u->is_saved || !move_may_go_on(error)) {
        hand_abort(h, u->bucket, u->key, u->id);
        journal_drop(&u->journal);
    }
    return error;
}

static const struct job_kind up_kind = {"put", up_begin, up_piece, up_end, up_free};

int move_up(struct crew *crew, const struct near_place *from, uint64_t len,
            const struct far_place *to, bool is_compared)
{
    struct up *u = calloc(1, sizeof(*u));
    if (u == NULL)
        return S3R_E_NOMEM;
    *u = (struct up){
        .from = near_text(from),
        .to = far_text(to->bucket, to->key),
        .root = from->root,
        .is_link_fine = from->is_link_fine,
        .name = strdup(from->name),
        .bucket = strdup(to->bucket),
        .key = strdup(to->key),
        .fd = -1,
        .journal.fd = -1,
    };
    u->job = (struct job){
        .kind = &up_kind, .from = u->from, .to = u->to, .len = len, .is_compared = is_compared};
    if (u->from == NULL || u->to == NULL || u->name == NULL || u->bucket == NULL ||
        u->key == NULL) {
        up_free(&u->job);
        return S3R_E_NOMEM;
    }
    crew_add(crew, &u->job);
    return 0;
}
