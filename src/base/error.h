/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - the error codes of the whole project, and the text that goes with one.
 * Does:     codes from errors.def, their class, HTTP status, S3 code, text; `struct diag`, in
 *           which the first who detects a fault says what was wrong.
 * Not here: printing S3 error documents (s3/xml.h); logging (base/log.h).
 * Units:    codes are negative; 0 is success.
 * Owns:     a diag is the caller's; the strings here are static.
 * Threads:  any.
 * Errors:   none.
 * Limits:   S3R_DIAG_MAX bytes of text, cut, never overrun. */
#ifndef S3R_BASE_ERROR_H
#define S3R_BASE_ERROR_H

#include "base/attr.h"

enum error_class { ERR_CLASS_REQUEST, ERR_CLASS_PEER, ERR_CLASS_DEVICE, ERR_CLASS_STORE };

enum {
    S3R_ERR_BASE_ = 0,
#define ERR(name, class, status, code, text) S3R_ERR_INDEX_##name,
#include "base/errors.def"
#undef ERR
    S3R_ERR_END_
};

enum {
#define ERR(name, class, status, code, text) S3R_E_##name = -(int)S3R_ERR_INDEX_##name,
#include "base/errors.def"
#undef ERR
};

#define S3R_DIAG_MAX 400

/* What went wrong, for a person. Zero-initialise; empty text means "the code says it all". */
struct diag {
    char text[S3R_DIAG_MAX];
};

/* "NO_SUCH_KEY"; "UNKNOWN" for a code that is not in the table. */
const char *error_name(int code);
enum error_class error_class_of(int code);
int error_http_status(int code);
const char *error_s3_code(int code);
/* The table's own text. */
const char *error_text(int code);
/* The code whose S3 code is `s3_code`, first match; 0 when none. */
int error_from_s3_code(const char *s3_code);

/* Writes the text (unless one is there already: the first who detects a fault knows most) and
 * returns `code`, so that a function can `return diag_fail(diag, S3R_E_X, "...")`. diag may be
 * NULL. */
int diag_fail(struct diag *diag, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Text for `code`: what the diag says, else the table's. */
const char *diag_text(const struct diag *diag, int code);
void diag_clear(struct diag *diag);
/* What an errno means; static text, in no memory that threads share. */
const char *errno_text(int err);

#endif
