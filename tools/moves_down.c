/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/moves.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/limits.h"
#include "base/num.h"
#include "tools/compare.h"
#include "tools/file.h"
#include "tools/partial.h"
#include "tools/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct down {
    struct job job;
    char *from, *to; /* for people */
    char *bucket, *key;
    int root;
    char *name;
    uint64_t len;
    int64_t time_ms;
    char if_match[ETAG_SIZE + 2]; /* pins the pieces to one version */
    bool has_crc64;
    uint64_t crc64; /* the server's */
    size_t piece_len;
    struct place place;
    struct partial partial;
    uint64_t *crcs; /* of the pieces */
    bool is_open;   /* partial */
};

static void down_free(struct job *j)
{
    struct down *d = (struct down *)j;
    place_fini(&d->place);
    free(d->from);
    free(d->to);
    free(d->bucket);
    free(d->key);
    free(d->name);
    free(d->crcs);
    free(d);
}

static int local_error(const struct down *d, struct diag *diag, int error)
{
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s: %s", d->to, errno_text(error));
}

/* ---- small ones: one request, one buffer ---- */

static int save_whole(struct down *d, const struct client_memory *memory, size_t len)
{
    struct download to = {.fd = -1};
    char path[PATH_MAX];
    place_path(&d->place, path);
    int error = download_init(&to, path);
    if (error == 0)
        error = download_write(&to, memory->ptr, len);
    if (error == 0)
        error = file_set_time(to.fd, d->time_ms);
    if (error == 0)
        error = download_commit(&to);
    download_fini(&to);
    return error == 0 ? 0 : local_error(d, &d->job.diag, error);
}

static void take_result(struct down *d, const struct client_result *result)
{
    int64_t wall_s;
    memcpy(d->job.etag, result->etag, sizeof(d->job.etag));
    d->job.is_verified = result->is_verified;
    d->job.has_crc64 = result->has_crc64;
    d->job.crc64 = result->crc64;
    const char *modified = headers_get(&result->headers, "last-modified");
    if (modified != NULL && clock_parse_http(modified, &wall_s) &&
        (d->time_ms == 0 || wall_s != d->time_ms / 1000))
        d->time_ms = wall_s * 1000;
}

/* S3R_E_BUFFER_TOO_SMALL: it has become larger since somebody asked for its length. */
static int get_whole(struct down *d, struct hand *h)
{
    struct client_memory memory;
    struct client_options options;
    struct client_result result = {0};
    int e = hand_memory(h, (size_t)max_u64(d->len, 1), &d->job.diag, &memory);
    if (e != 0)
        return e;
    hand_options(h, &options);
    options.is_exact = true;
    e = client_get(hand_cli(h)->client, d->bucket, d->key, CLIENT_WHOLE, &memory, &options,
                   &d->job.diag, &result);
    size_t len = (size_t)result.len;
    hand_moved(h, &d->job, &result);
    take_result(d, &result);
    client_result_fini(&result);
    if (e == S3R_E_RDMA_UNFENCED)
        hand_give_up_memory(h);
    return e == 0 ? save_whole(d, &memory, len) : e;
}

/* ---- large ones ---- */

static int stat_source(struct down *d, struct hand *h)
{
    struct client_result about = {0};
    int e = client_stat(hand_cli(h)->client, d->bucket, d->key, &d->job.diag, &about);
    hand_asked(h, &about);
    d->len = about.object_len;
    d->has_crc64 = about.has_crc64 && !hand_cli(h)->o.is_unverified;
    d->crc64 = about.crc64;
    d->if_match[0] = '\0';
    if (about.etag[0] != '\0')
        etag_quote(about.etag, d->if_match);
    if (e == 0)
        take_result(d, &about);
    client_result_fini(&about);
    return e;
}

static size_t piece_count(const struct down *d)
{
    return (size_t)((d->len + d->piece_len - 1) / d->piece_len);
}

/* The version is part of it, and the length of a piece: what was begun in another way is no start.
 */
static int open_partial(struct down *d, const struct cli *cli)
{
    struct text identity;
    char sizes[80];
    snprintf(sizes, sizeof(sizes), "%llu %zu", (unsigned long long)d->len, d->piece_len);
    const char *const texts[] = {cli->endpoint, d->bucket,     d->key,
                                 d->if_match,   d->place.name, sizes};
    text_init(&identity, 64 * KIB);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        text_add(&identity, texts[i], strlen(texts[i]) + 1);
    int e = text_error(&identity);
    int error =
        e == 0 ? partial_open(&d->place, identity.data, identity.len, piece_count(d), &d->partial)
               : 0;
    text_fini(&identity);
    if (e != 0 || error != 0)
        return e != 0 ? e : local_error(d, &d->job.diag, error);
    d->is_open = true;
    if (cli->o.is_resume_off || d->if_match[0] == '\0')
        memset(d->partial.pieces, 0, piece_count(d) * sizeof(*d->partial.pieces));
    return 0;
}

static int begin_pieces(struct down *d, struct hand *h)
{
    const struct cli *cli = hand_cli(h);
    int e = move_piece_len(cli, d->len, &d->job.diag, &d->piece_len);
    if (e != 0)
        return e;
    d->crcs = calloc(piece_count(d), sizeof(*d->crcs));
    if (d->crcs == NULL)
        return S3R_E_NOMEM;
    e = open_partial(d, cli);
    if (e == 0)
        d->job.pieces = piece_count(d);
    return e;
}

static bool is_there(struct down *d, size_t index, const struct client_memory *memory, uint64_t off)
{
    const struct partial_piece *piece = &d->partial.pieces[index];
    return piece->is_there && partial_read(&d->partial, memory->ptr, memory->len, off) == 0 &&
           crc64_update(0, memory->ptr, memory->len) == piece->crc64;
}

static int get_piece(struct down *d, struct hand *h, uint64_t off,
                     const struct client_memory *memory, struct diag *diag)
{
    struct client_options options;
    struct client_result result = {0};
    hand_options(h, &options);
    options.if_match = d->if_match[0] != '\0' ? d->if_match : NULL;
    int e =
        client_get(hand_cli(h)->client, d->bucket, d->key, off, memory, &options, diag, &result);
    uint64_t got = result.len;
    hand_moved(h, &d->job, &result);
    client_result_fini(&result);
    if (e == S3R_E_RDMA_UNFENCED)
        hand_give_up_memory(h);
    if (e == S3R_E_PRECONDITION) {
        diag_clear(diag);
        return diag_fail(diag, e, "the object was replaced meanwhile");
    }
    if (e == 0 && got != memory->len)
        return diag_fail(diag, S3R_E_BAD_REPLY, "the object ended early");
    return e;
}

static int save_piece(struct down *d, size_t index, uint64_t off,
                      const struct client_memory *memory, struct diag *diag)
{
    int error = partial_write(&d->partial, memory->ptr, memory->len, off);
    if (error == 0)
        error = partial_add(&d->partial, index, d->crcs[index]);
    return error == 0 ? 0 : local_error(d, diag, error);
}

static int down_piece(struct job *j, struct hand *h, size_t index)
{
    struct down *d = (struct down *)j;
    struct diag diag = {0};
    struct client_memory memory;
    uint64_t off = (uint64_t)index * d->piece_len;
    int e = hand_memory(h, (size_t)min_u64(d->piece_len, d->len - off), &diag, &memory);
    if (e == 0 && is_there(d, index, &memory, off)) {
        d->crcs[index] = d->partial.pieces[index].crc64;
        hand_kept(h, j, memory.len);
        return 0;
    }
    if (e == 0)
        e = get_piece(d, h, off, &memory, &diag);
    if (e == 0) {
        d->crcs[index] = crc64_update(0, memory.ptr, memory.len);
        e = save_piece(d, index, off, &memory, &diag);
    }
    if (e != 0)
        hand_says(h, j, &diag, e);
    return e;
}

static int verify(struct down *d)
{
    uint64_t crc = 0, left = d->len;
    for (size_t i = 0; i < piece_count(d); i++) {
        uint64_t len = min_u64(left, d->piece_len);
        crc = crc64_combine(crc, d->crcs[i], len);
        left -= len;
    }
    if (d->has_crc64 && crc != d->crc64)
        return diag_fail(&d->job.diag, S3R_E_BAD_DIGEST,
                         "the bytes that arrived do not match the object's checksum");
    d->job.has_crc64 = true;
    d->job.crc64 = crc;
    d->job.is_verified = d->has_crc64;
    return 0;
}

/* ---- the job ---- */

/* The file that is there already. If its bytes are the object's, its time becomes the object's,
 * too, so that the next look at it is a quick one. */
static int compare(struct down *d, struct hand *h)
{
    struct place p = {.dir = -1};
    struct diag *diag = &d->job.diag;
    int e = place_find(d->root, d->name, false, diag, &p);
    if (e != 0)
        return e;
    CLEANUP(closep)
    int fd = openat(p.dir, p.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int error = fd >= 0 ? 0 : errno;
    place_fini(&p);
    if (error != 0)
        return local_error(d, diag, error);
    e = compare_content(h, fd, d->len, d->bucket, d->key, diag, &d->job.is_same);
    if (e == 0 && d->job.is_same && !hand_cli(h)->o.is_dry_run)
        error = file_set_time(fd, d->time_ms);
    return e != 0 || error == 0 ? e : local_error(d, diag, error);
}

static int down_begin(struct job *j, struct hand *h)
{
    struct down *d = (struct down *)j;
    uint64_t small_max = hand_cli(h)->o.part_len > 0 ? hand_cli(h)->o.part_len : CREW_PART_LEN;
    int e = j->is_compared ? compare(d, h) : 0;
    if (e != 0 || j->is_same || hand_cli(h)->o.is_dry_run)
        return e;
    e = place_find(d->root, d->name, true, &j->diag, &d->place);
    if (e == 0)
        e = place_check_free(&d->place, d->name, &j->diag);
    if (e != 0)
        return e;
    if (d->len <= small_max)
        e = get_whole(d, h);
    if (e == S3R_E_BUFFER_TOO_SMALL)
        diag_clear(&j->diag);
    if (d->len <= small_max && e != S3R_E_BUFFER_TOO_SMALL)
        return e;
    e = stat_source(d, h);
    if (e != 0 || d->len > small_max)
        return e != 0 ? e : begin_pieces(d, h);
    return get_whole(d, h);
}

static int down_end(struct job *j, struct hand *h, int error)
{
    struct down *d = (struct down *)j;
    if (!d->is_open)
        return error;
    if (error == 0)
        error = verify(d);
    if (error == 0) {
        int e = partial_commit(&d->partial, d->len, d->time_ms);
        return e == 0 ? 0 : local_error(d, &j->diag, e);
    }
    bool may_go_on =
        move_may_go_on(error) && d->if_match[0] != '\0' && !hand_cli(h)->o.is_resume_off;
    if (!may_go_on || !partial_keep(&d->partial))
        partial_discard(&d->partial);
    return error;
}

static const struct job_kind down_kind = {"get", down_begin, down_piece, down_end, down_free};

int move_down(struct crew *crew, const struct far_place *from, const struct near_place *to,
              bool is_compared)
{
    struct down *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return S3R_E_NOMEM;
    *d = (struct down){
        .from = far_text(from->bucket, from->key),
        .to = near_text(to),
        .bucket = strdup(from->bucket),
        .key = strdup(from->key),
        .root = to->root,
        .name = strdup(to->name),
        .len = from->len,
        .time_ms = from->time_ms,
        .place.dir = -1,
    };
    d->job = (struct job){.kind = &down_kind,
                          .from = d->from,
                          .to = d->to,
                          .len = from->len,
                          .is_compared = is_compared};
    if (d->from == NULL || d->to == NULL || d->bucket == NULL || d->key == NULL ||
        d->name == NULL) {
        down_free(&d->job);
        return S3R_E_NOMEM;
    }
    crew_add(crew, &d->job);
    return 0;
}

int move_entry_down(struct crew *crew, const struct tree_entry *entry, const char *bucket,
                    const char *prefix, int root, const char *shown, bool is_compared)
{
    struct diag diag = {0};
    const char *name = entry->name;
    size_t len = strlen(name);
    char key[2 * LIMIT_KEY_LEN_MAX + 2];
    snprintf(key, sizeof(key), "%s%s", prefix, name);
    const struct far_place from = {.bucket = bucket,
                                   .key = key,
                                   .len = entry->len,
                                   .time_ms = entry->time_ms};
    const struct near_place to = {.root = root, .shown = shown, .name = name};
    const char *flaw = place_flaw(name);
    int e = 0;
    if (entry->len == 0 && len == 0)
        return 0; /* the folder that `prefix` names */
    if (entry->len == 0 && name[len - 1] == '/')
        e = crew_is_dry(crew) ? 0 : place_make_folder(root, name, &diag);
    else if (flaw != NULL)
        e = diag_fail(&diag, S3R_E_INVALID_ARGUMENT, "cannot be a file: %s", flaw);
    else
        return move_down(crew, &from, &to, is_compared);
    if (e != 0) {
        CLEANUP(freep) char *about = far_text(bucket, key);
        crew_fault(crew, about, e, &diag);
    }
    return 0;
}
