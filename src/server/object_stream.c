/* SPDX-License-Identifier: Apache-2.0 */
#include "server/object_stream.h"

#include "base/log.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

/* While one block goes out the next one is read. */
struct block {
    struct buffer *buffer;
    uint64_t off; /* in the object */
    size_t len;   /* 0: nothing read */
};

struct object_stream {
    struct request *r;
    uint64_t begin, end; /* of the range, in the object */
    struct block now, next;
    uint64_t read_off; /* where the next read starts */
    int error;
};

int object_stream_create(struct request *r, uint64_t off, uint64_t len,
                         struct object_stream **ret_stream)
{
    struct object_stream *st = calloc(1, sizeof *st);
    if (!st)
        return S3R_E_NOMEM;
    st->now.buffer = buffer_take(r->server->blocks);
    st->next.buffer = buffer_take(r->server->blocks);
    if (!st->now.buffer || !st->next.buffer) {
        object_stream_destroy(st);
        return S3R_E_NOMEM;
    }
    st->r = r;
    st->begin = st->read_off = off;
    st->end = off + len;
    *ret_stream = st;
    return 0;
}

void object_stream_destroy(struct object_stream *st)
{
    if (!st)
        return;
    buffer_give(st->now.buffer);
    buffer_give(st->next.buffer);
    free(st);
}

/* The first read ends at a block boundary, so that all others are whole blocks. */
static int read_block(struct object_stream *st, struct block *b)
{
    uint64_t until = min_u64(st->end, align_down(st->read_off, LIMIT_BLOCK_LEN) + BODY_BLOCK_LEN);
    size_t len = (size_t)(until - st->read_off);
    int rc = store_lease_read(st->r->lease, st->read_off, b->buffer->bytes, len, &st->r->diag);
    if (rc)
        return rc;
    b->off = st->read_off;
    b->len = len;
    st->read_off = until;
    return 0;
}

int object_stream_prime(struct object_stream *st)
{
    return st->begin == st->end ? 0 : read_block(st, &st->now);
}

static void work_read(struct request *r)
{
    r->stream->error = read_block(r->stream, &r->stream->next);
}

/* Starts reading the next block if there is one and nobody does. */
static int read_ahead(struct object_stream *st)
{
    if (st->next.len || st->read_off >= st->end)
        return 0;
    return request_work(st->r, POOL_DISK, work_read);
}

static bool block_has(const struct block *b, uint64_t off)
{
    return b->len && off >= b->off && off < b->off + b->len;
}

ssize_t object_stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
    struct object_stream *st = arg;
    uint64_t off = st->begin + pos;
    if (!block_has(&st->now, off)) {
        if (request_wait(st->r))
            return 0;
        if (!st->error && !st->next.len) {
            int rc = read_ahead(st);
            if (rc) /* else the worker has `error` now */
                st->error = rc;
            if (request_wait(st->r))
                return 0;
        }
        if (st->error || !block_has(&st->next, off)) {
            log_error("object read failed in the middle of a reply: id=%s error=%s: %s", st->r->id,
                      error_name(st->error), diag_text(&st->r->diag, st->error));
            st->r->error = st->error;
            return HTTP_STREAM_FAILED;
        }
        struct block was = st->now;
        st->now = st->next;
        st->next = (struct block){.buffer = was.buffer};
        int rc = read_ahead(st);
        if (rc)
            log_debug("no read-ahead: %s", error_name(rc));
    }
    size_t within = (size_t)(off - st->now.off);
    size_t n = (size_t)min_u64(max, st->now.len - within);
    memcpy(buf, st->now.buffer->bytes + within, n);
    st->r->bytes_out += n;
    return (ssize_t)n;
}
