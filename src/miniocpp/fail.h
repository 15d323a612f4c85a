/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h - errors as libminiocpp's callers know them.
 * Does:     this thread's last error; one of MINIOCPP_ERR_* for each of our codes.
 * Not here: the calls (capi.c).
 * Units:    none.
 * Owns:     the text, one for each thread.
 * Threads:  any.
 * Errors:   none.
 * Limits:   S3R_DIAG_MAX characters. */
#ifndef S3R_MINIOCPP_FAIL_H
#define S3R_MINIOCPP_FAIL_H

#include "base/error.h"

/* Keeps the text for miniocpp_last_error(); returns a MINIOCPP_ERR_*. */
int fail_with(const struct diag *diag, int code);

#endif
