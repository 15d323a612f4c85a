/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/moves.h"

#include "base/limits.h"
#include "base/num.h"
#include "client/copy.h"

#include <stdlib.h>
#include <string.h>

#define COPY_PART_LEN (512 * MIB) /* no byte of it is in this process */

struct across {
    struct job job;
    char *from, *to; /* for people */
    char *bucket, *key, *to_bucket, *to_key;
    char if_match[ETAG_SIZE + 2]; /* "" for none */
    uint64_t len;
    size_t piece_len;
    char *id; /* of a multipart upload */
    struct client_part *parts;
    bool *has_crc64; /* each part's */
};

static void across_free(struct job *j)
{
    struct across *a = (struct across *)j;
    free(a->from);
    free(a->to);
    free(a->bucket);
    free(a->key);
    free(a->to_bucket);
    free(a->to_key);
    free(a->id);
    free(a->parts);
    free(a->has_crc64);
    free(a);
}

static const char *pin(const struct across *a)
{
    return a->if_match[0] != '\0' ? a->if_match : NULL;
}

static void take_result(struct across *a, const struct client_result *result)
{
    memcpy(a->job.etag, result->etag, sizeof(a->job.etag));
    a->job.has_crc64 = result->has_crc64;
    a->job.crc64 = result->crc64;
}

static int copy_whole(struct across *a, struct hand *h)
{
    const struct client_place from = {a->bucket, a->key}, to = {a->to_bucket, a->to_key};
    struct client_result result = {0};
    int e = client_copy(hand_cli(h)->client, &from, &to, pin(a), &a->job.diag, &result);
    hand_asked(h, &result);
    take_result(a, &result);
    client_result_fini(&result);
    return e;
}

/* ---- in parts ---- */

static size_t piece_count(const struct across *a)
{
    return (size_t)((a->len + a->piece_len - 1) / a->piece_len);
}

/* Of a copy in parts nothing goes along by itself. */
static int copy_headers(struct across *a, struct hand *h, struct headers *ret_headers)
{
    struct client_result about = {0};
    int e = client_stat(hand_cli(h)->client, a->bucket, a->key, &a->job.diag, &about);
    hand_asked(h, &about);
    for (size_t i = 0; i < about.headers.count && e == 0; i++) {
        const struct header *row = &about.headers.rows[i];
        static const char *const names[] = {"content-type",        "cache-control",
                                            "content-disposition", "content-encoding",
                                            "content-language",    "expires"};
        bool is_taken = strncmp(row->name, "x-amz-meta-", 11) == 0;
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            is_taken = is_taken || strcmp(row->name, names[k]) == 0;
        if (is_taken)
            e = headers_add(ret_headers, row->name, row->value);
    }
    client_result_fini(&about);
    return e;
}

static int begin_parts(struct across *a, struct hand *h)
{
    struct headers headers = {0};
    const struct client_options options = {.headers = &headers};
    uint64_t least = align_up((a->len + LIMIT_PARTS_MAX - 1) / LIMIT_PARTS_MAX, MIB);
    uint64_t piece_len = hand_cli(h)->o.part_len > 0 ? hand_cli(h)->o.part_len : COPY_PART_LEN;
    a->piece_len = (size_t)max_u64(piece_len, least);
    a->parts = calloc(piece_count(a), sizeof(*a->parts));
    a->has_crc64 = calloc(piece_count(a), sizeof(*a->has_crc64));
    if (a->parts == NULL || a->has_crc64 == NULL)
        return S3R_E_NOMEM;
    int e = copy_headers(a, h, &headers);
    if (e == 0)
        e = client_upload_create(hand_cli(h)->client, a->to_bucket, a->to_key, &options,
                                 &a->job.diag, &a->id);
    headers_fini(&headers);
    if (e == 0)
        a->job.pieces = piece_count(a);
    return e;
}

static int across_begin(struct job *j, struct hand *h)
{
    struct across *a = (struct across *)j;
    const struct cli_options *o = &hand_cli(h)->o;
    uint64_t whole_max = o->part_len > 0 ? o->part_len : LIMIT_PART_LEN_MAX;
    return a->len <= whole_max ? copy_whole(a, h) : begin_parts(a, h);
}

static int across_piece(struct job *j, struct hand *h, size_t index)
{
    struct across *a = (struct across *)j;
    const struct client_place from = {a->bucket, a->key}, to = {a->to_bucket, a->to_key};
    const struct client_result asked = {.requests = 1};
    struct diag diag = {0};
    uint64_t off = (uint64_t)index * a->piece_len;
    int e = client_copy_part(hand_cli(h)->client, &from, &to, a->id, (unsigned)index + 1, off,
                             min_u64(a->piece_len, a->len - off), pin(a), &diag, &a->parts[index],
                             &a->has_crc64[index]);
    hand_asked(h, &asked);
    if (e != 0)
        hand_says(h, j, &diag, e);
    return e;
}

/* Where the replies did not name a part's checksum, the list of parts may. */
static int find_checksums(struct across *a, struct hand *h)
{
    struct client_part *known = NULL;
    size_t count = 0, missing = 0;
    for (size_t i = 0; i < piece_count(a); i++)
        missing += !a->has_crc64[i];
    if (missing == 0)
        return 0;
    int e = client_upload_parts(hand_cli(h)->client, a->to_bucket, a->to_key, a->id, &a->job.diag,
                                &known, &count);
    for (size_t i = 0; i < count; i++) {
        size_t index = known[i].number - 1;
        if (index < piece_count(a) && !a->has_crc64[index] &&
            strcmp(known[i].etag, a->parts[index].etag) == 0) {
            a->parts[index].crc64 = known[i].crc64;
            a->has_crc64[index] = true;
            missing--;
        }
    }
    free(known);
    if (e == 0 && missing > 0)
        return diag_fail(&a->job.diag, S3R_E_BAD_REPLY,
                         "the server does not name the checksums of copied parts");
    return e;
}

static int complete(struct across *a, struct hand *h)
{
    struct client_result result = {0};
    int e = find_checksums(a, h);
    if (e == 0)
        e = client_upload_complete(hand_cli(h)->client, a->to_bucket, a->to_key, a->id, a->parts,
                                   piece_count(a), NULL, &a->job.diag, &result);
    hand_asked(h, &result);
    take_result(a, &result);
    client_result_fini(&result);
    return e;
}

static int across_end(struct job *j, struct hand *h, int error)
{
    struct across *a = (struct across *)j;
    if (a->id == NULL)
        return error;
    if (error == 0)
        error = complete(a, h);
    if (error != 0)
        hand_abort(h, a->to_bucket, a->to_key, a->id);
    return error;
}

static const struct job_kind across_kind = {"copy", across_begin, across_piece, across_end,
                                            across_free};

int move_across(struct crew *crew, const struct far_place *from, const struct far_place *to)
{
    struct across *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return S3R_E_NOMEM;
    *a = (struct across){
        .from = far_text(from->bucket, from->key),
        .to = far_text(to->bucket, to->key),
        .bucket = strdup(from->bucket),
        .key = strdup(from->key),
        .to_bucket = strdup(to->bucket),
        .to_key = strdup(to->key),
        .len = from->len,
    };
    a->job = (struct job){.kind = &across_kind, .from = a->from, .to = a->to, .len = from->len};
    if (from->etag != NULL && from->etag[0] != '\0')
        etag_quote(from->etag, a->if_match);
    if (a->from == NULL || a->to == NULL || a->bucket == NULL || a->key == NULL ||
        a->to_bucket == NULL || a->to_key == NULL) {
        across_free(&a->job);
        return S3R_E_NOMEM;
    }
    crew_add(crew, &a->job);
    return 0;
}
