/* SPDX-License-Identifier: Apache-2.0 */
/* headers.h - the header fields of one request or reply.
 * Does:     a bounded list of (lower-case name, trimmed value) in the order of arrival.
 * Not here: what a header means; framing (server/http.c, client/http.c).
 * Units:    bytes.
 * Owns:     copies of names and values, until headers_fini(); a pointer handed out is good until
 *           its row is removed or replaced.
 * Threads:  owner.
 * Errors:   S3R_E_INVALID_REQUEST for a name that is no token or a value with CR, LF, NUL or
 *           another control character but the tabulator; S3R_E_HEADERS_TOO_LARGE; S3R_E_NOMEM.
 * Limits:   LIMIT_HEADERS_MAX rows, LIMIT_HEADERS_LEN_MAX bytes of names and values; twice that for
 *           a reply. */
#ifndef S3R_S3_HEADERS_H
#define S3R_S3_HEADERS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

struct header {
    char *name;  /* lower case */
    char *value; /* without blanks at both ends; bytes from 0x80 on are kept as they are */
};

/* All zeroes is an empty list. */
struct headers {
    struct header *rows;
    size_t count, cap, len;
    bool is_reply; /* it has what one request stored with an object, and more */
};

void headers_fini(struct headers *h);
int headers_add(struct headers *h, const char *name, const char *value) MUST_CHECK;
int headers_add_n(struct headers *h, const char *name, size_t name_len, const char *value,
                  size_t value_len) MUST_CHECK;
/* Replaces all rows of that name by one. */
int headers_set(struct headers *h, const char *name, const char *value) MUST_CHECK;
void headers_remove(struct headers *h, const char *name);

/* `name` in lower case. The first value, NULL when there is none. */
const char *headers_get(const struct headers *h, const char *name);
/* How many rows have that name: where a second one would be ambiguous, 2 is an error. */
size_t headers_count(const struct headers *h, const char *name);

#endif
