/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h - what the reply to a request with a token means.
 * Does:     the rules of every known server in one place: moved, declined, failed, an S3 error that
 *           is final; may the object be in the body; is a rail at fault. Pure functions.
 * Not here: acting on it (carry.h).
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none: what cannot be understood is a judgement too.
 * Limits:   none. */
#ifndef S3R_CLIENT_REPLY_H
#define S3R_CLIENT_REPLY_H

#include "client/client.h"
#include "client/http.h"

enum reply_verdict {
    REPLY_MOVED,     /* by RDMA; the count is right as far as one can know */
    REPLY_FINAL,     /* an S3 error that asking by HTTP would not change */
    REPLY_ASK_AGAIN, /* by HTTP, for `reason` */
};

struct reply_question {
    bool is_put, has_checksum; /* of a PUT: the checksum of the memory was sent */
    uint64_t crc64;            /* that one */
    bool is_ranged;
    uint64_t off, window_len;
};

struct reply_judgement {
    enum reply_verdict verdict;
    enum client_reason reason;
    bool is_rail_at_fault; /* a transport fault: the rail is to be skipped for a while */
    bool may_other_rail;   /* the same with another rail's token can succeed */
    bool is_bounds;        /* the object may be larger than the window */
    uint64_t moved;
    char why[200];
};

/* A complete reply; `s3_code` of its document, "" if none. */
void reply_judge(const struct reply_question *q, const struct http_reply *reply,
                 const char *s3_code, struct reply_judgement *ret);
/* Before the first byte of a body: is this the object, sent along with a decline? */
bool reply_body_is_object(const struct reply_question *q, const struct http_reply *reply);
/* Does the head of a reply to a GET promise all that was asked for, and tell where it ends? NULL,
 * or what is wrong with it. */
const char *reply_flaw_of_head(const struct reply_question *q, const struct http_reply *reply);
/* The same once the body is there: of chunks nobody has said before how many bytes they have. */
const char *reply_flaw_of_body(const struct reply_question *q, const struct http_reply *reply,
                               uint64_t body_len);
/* Of a PUT of some bytes: is the ETag that of an empty object? */
bool reply_stored_nothing(const struct reply_question *q, const struct http_reply *reply);
/* The whole object's CRC-64/NVME, where it is named. */
bool reply_named_crc64(const struct headers *headers, uint64_t *ret_crc) MUST_CHECK;
/* 200 of "200" or "200:token", of "ok" too; 0 when the header is absent, -1 for anything else. */
int reply_parse(const struct headers *headers);
/* Does a 206 (or a reply with Content-Range) give bytes from q->off, and how many? */
bool reply_range_fits(const struct reply_question *q, const struct headers *headers,
                      uint64_t *ret_len) MUST_CHECK;

#endif
