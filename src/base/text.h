/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - a byte buffer that grows up to a maximum, for headers, XML, log lines.
 * Does:     appends; remembers that something did not fit, so that callers check once, at the end.
 * Not here: object bytes (those live in registered or staging memory).
 * Units:    bytes; `len` leaves out the NUL that always follows.
 * Owns:     its memory, until text_fini() or text_take().
 * Threads:  owner.
 * Errors:   text_error(): S3R_E_NOMEM, S3R_E_ENTITY_TOO_LARGE; appends after an error do nothing.
 * Limits:   `max` given at text_init(). */
#ifndef S3R_BASE_TEXT_H
#define S3R_BASE_TEXT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* NULL until the first append */
    size_t len, cap, max;
    int error;
};

void text_init(struct text *t, size_t max);
void text_fini(struct text *t);
void text_add(struct text *t, const void *bytes, size_t len);
void text_str(struct text *t, const char *s);
void text_char(struct text *t, char c);
void text_fmt(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Empties it and forgets an error; keeps the memory. */
void text_reset(struct text *t);
int text_error(const struct text *t) MUST_CHECK;
/* Never NULL. */
const char *text_cstr(const struct text *t);
/* The caller frees the result (NUL-terminated); NULL after an error. The text is then empty. */
char *text_take(struct text *t);

#endif
