/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - what objects and parts of uploads have in common.
 * Does:     headers that a caller adds; a PUT of memory to any target; calls without a body.
 * Not here: the calls themselves (client.h).
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  owner of the call.
 * Errors:   as client.h.
 * Limits:   LIMIT_PART_LEN_MAX for one PUT. */
#ifndef S3R_CLIENT_OBJECT_H
#define S3R_CLIENT_OBJECT_H

#include "client/call.h"
#include "client/carry.h"

/* Names that a request gets here, or that would change what it is. */
bool object_is_reserved(const char *name);
int object_add_options(struct call *call, const struct client_options *options,
                       struct diag *diag) MUST_CHECK;
/* A call without a body either way. */
int object_simple(struct client *c, const char *method, const char *bucket, const char *key,
                  const struct client_options *options, struct diag *diag,
                  struct client_result *result) MUST_CHECK;

/* A transfer and the call that it sends. `carry` has memory, options, diag and result before it
 * begins; whatever begin returned, call_fini() ends it. */
struct object_job {
    struct carry carry;
    struct call call;
    bool is_needless; /* a range of no bytes: done */
};

struct object_part {
    const char *upload_id;
    unsigned number;
};

int object_get_begin(struct object_job *j, struct client *c, const char *bucket, const char *key,
                     uint64_t off) MUST_CHECK;
/* `part` NULL: the object. */
int object_put_begin(struct object_job *j, struct client *c, const char *bucket, const char *key,
                     const struct object_part *part) MUST_CHECK;
/* What a part that was moved leaves for the end of its upload. */
int object_part_end(const struct client_result *result, unsigned number, size_t len,
                    struct diag *diag, struct client_part *ret_part) MUST_CHECK;

#endif
