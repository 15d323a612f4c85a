/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/num.h"
#include "client/object.h"
#include "client/pieces.h"
#include "client/stream.h"
#include "s3/etag.h"

#include <string.h>

/* Where a download's bytes go to: a function, or the memory that the pieces are parts of. */
struct download {
    struct pieces all;
    stream_write_fn *write; /* NULL: memory */
    void *arg;
    uint64_t off, end; /* of the object: what is asked for */
    uint64_t next_off; /* of the piece that is sent next */
    uint64_t done;     /* bytes that were delivered */
    uint64_t crc64;    /* of those, while it is known of each piece */
    bool is_crc_unknown;
    char etag[ETAG_SIZE];
};

/* ---- pieces ---- */

static int changed(struct piece *p)
{
    diag_clear(&p->diag);
    return diag_fail(&p->diag, S3R_E_CHANGED, "the object was replaced while it was read");
}

static int carry(struct pieces *all, struct piece *p)
{
    struct download *d = all->config.arg;
    int e = client_get(all->config.client, all->config.bucket, all->config.key, p->off, &p->memory,
                       &all->each, &p->diag, &p->result);
    if (e == S3R_E_PRECONDITION || e == S3R_E_INVALID_RANGE)
        return changed(p);
    if (e != 0)
        return e;
    /* A server that does not know conditions says by its ETag what it sent. */
    if (p->result.len != p->memory.len ||
        (p->result.etag[0] != '\0' && strcmp(p->result.etag, d->etag) != 0))
        return changed(p);
    p->crc64 = p->result.moved_crc64;
    return 0;
}

static int submit_next(struct download *d, struct piece *p)
{
    const struct pieces_config *config = &d->all.config;
    size_t len = (size_t)min_u64(config->piece_len, d->end - d->next_off);
    int e = piece_begin(p, 1, d->next_off, len);
    if (e != 0)
        return pieces_fail(&d->all, e, NULL);
    if (config->memory != NULL)
        p->memory.ptr = (char *)config->memory->ptr + (d->next_off - d->off);
    d->next_off += len;
    return piece_submit(p);
}

static int deliver(struct download *d, struct piece *p)
{
    struct diag diag = {0};
    size_t len = p->memory.len;
    d->crc64 = crc64_combine(d->crc64, p->crc64, len);
    d->is_crc_unknown |= !p->result.has_moved_crc64;
    if (d->write != NULL && d->write(d->arg, p->memory.ptr, len) != 0) {
        (void)diag_fail(&diag, S3R_E_ABORTED, "the function that takes the bytes gave up");
        return pieces_fail(&d->all, S3R_E_ABORTED, &diag);
    }
    d->done += len;
    p->is_ended = false;
    return 0;
}

/* In order: row i has every in_flight'th piece. */
static int get_pieces(struct download *d)
{
    unsigned rows = d->all.config.in_flight;
    int e = 0;
    for (unsigned i = 0; e == 0 && i < rows && d->next_off < d->end; i++) {
        struct piece *p = NULL;
        e = pieces_wait_row(&d->all, i, &p);
        if (e == 0)
            e = submit_next(d, p);
    }
    for (unsigned i = 0; e == 0 && d->off + d->done < d->end; i = (i + 1) % rows) {
        struct piece *p = NULL;
        e = pieces_wait_row(&d->all, i, &p);
        if (e == 0)
            e = deliver(d, p);
        if (e == 0 && d->next_off < d->end)
            e = submit_next(d, p);
    }
    if (e != 0)
        (void)!pieces_wait_all(&d->all);
    return e;
}

/* ---- the object ---- */

static int check_crc(const struct download *d, struct diag *diag, struct client_result *result)
{
    bool is_whole = d->off == 0 && d->end == result->object_len;
    if (!is_whole || !result->has_crc64 || d->is_crc_unknown)
        return 0;
    if (d->crc64 != result->crc64)
        return diag_fail(diag, S3R_E_BAD_DIGEST,
                         "the bytes that arrived do not match the object's checksum");
    result->is_verified = true;
    return 0;
}

/* `result` is that of a HEAD. */
static int run(struct download *d, struct pieces_config *config, const struct stream_options *plan,
               struct diag *diag, struct client_result *result)
{
    char quoted[ETAG_SIZE + 2];
    struct client_options each = plan->each != NULL ? *plan->each : (struct client_options){0};
    etag_quote(d->etag, quoted);
    each.if_match = quoted;
    each.if_none_match = NULL;
    each.headers = NULL;
    each.is_crc_wanted = !each.is_unverified;
    config->each = &each;
    config->piece_len = plan->piece_len;
    config->in_flight = plan->in_flight;
    config->retries = plan->retries;
    config->carry = carry;
    config->arg = d;
    d->next_off = d->off;
    int e = pieces_init(&d->all, config);
    if (e == 0)
        e = get_pieces(d);
    pieces_report(&d->all, diag, result);
    result->len = d->done;
    if (e == 0)
        e = check_crc(d, diag, result);
    bool is_unfenced = d->all.is_unfenced && config->memory != NULL;
    pieces_fini(&d->all);
    return e != 0 && is_unfenced ? S3R_E_RDMA_UNFENCED : e;
}

static int stat_object(const struct pieces_config *config, const struct client_options *each,
                       struct diag *diag, struct client_result *result)
{
    static const struct client_options defaults;
    int e = object_simple(config->client, "HEAD", config->bucket, config->key,
                          each != NULL ? each : &defaults, diag, result);
    if (e == 0 && result->etag[0] == '\0')
        e = diag_fail(diag, S3R_E_BAD_REPLY, "the object has no ETag to know its version by");
    return e;
}

/* Cuts the range at the object's end. */
static int set_range(struct download *d, uint64_t off, uint64_t len,
                     const struct client_result *stat, struct diag *diag)
{
    if (off > stat->object_len || (off == stat->object_len && off > 0 && len > 0))
        return diag_fail(diag, S3R_E_INVALID_RANGE,
                         "the range begins at %llu, the object has %llu bytes",
                         (unsigned long long)off, (unsigned long long)stat->object_len);
    d->off = off;
    d->end = len > stat->object_len - off ? stat->object_len : off + len;
    memcpy(d->etag, stat->etag, sizeof(d->etag));
    return 0;
}

int stream_get(struct client *c, const char *bucket, const char *key, uint64_t off, uint64_t len,
               stream_write_fn *write, void *arg, const struct stream_options *options,
               struct diag *diag, struct client_result *result)
{
    struct stream_options plan;
    struct download d = {.write = write, .arg = arg};
    struct pieces_config config = {.client = c, .bucket = bucket, .key = key};
    int e = pieces_plan(options, STREAM_PIECE_LEN, 1, STREAM_UNKNOWN, diag, &plan);
    if (e == 0)
        e = stat_object(&config, plan.each, diag, result);
    if (e == 0)
        e = set_range(&d, off, len, result, diag);
    return e == 0 ? run(&d, &config, &plan, diag, result) : e;
}

/* ---- into memory ---- */

static int get_split(struct pieces_config *config, const struct stream_options *plan, uint64_t off,
                     struct diag *diag, struct client_result *result)
{
    struct download d = {0};
    const struct client_memory *m = config->memory;
    bool is_whole = off == CLIENT_WHOLE;
    int e = stat_object(config, plan->each, diag, result);
    if (e == 0 && is_whole && result->object_len > m->len)
        return diag_fail(diag, S3R_E_BUFFER_TOO_SMALL, "the object has %llu bytes, the buffer %zu",
                         (unsigned long long)result->object_len, m->len);
    if (e == 0)
        e = set_range(&d, is_whole ? 0 : off, m->len, result, diag);
    return e == 0 ? run(&d, config, plan, diag, result) : e;
}

int stream_get_memory(struct client *c, const char *bucket, const char *key, uint64_t off,
                      const struct client_memory *memory, const struct stream_options *options,
                      struct diag *diag, struct client_result *result)
{
    struct stream_options plan;
    struct pieces_config config = {.client = c, .bucket = bucket, .key = key, .memory = memory};
    int e = pieces_plan(options, STREAM_MEMORY_PIECE_LEN, 1, STREAM_UNKNOWN, diag, &plan);
    if (e != 0)
        return e;
    if (memory->len <= stream_whole_max(options))
        return client_get(c, bucket, key, off, memory, plan.each, diag, result);
    return get_split(&config, &plan, off, diag, result);
}
