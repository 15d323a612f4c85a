/* SPDX-License-Identifier: Apache-2.0 */
/* shim.h - what the halves of libs3rdma.so.0 share.
 * Does:     this thread's last error; work-completion statuses for our codes.
 * Not here: the calls themselves (include/s3rdma.h).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   S3R_DIAG_MAX characters of text. */
#ifndef S3R_RDMA_SHIM_SHIM_H
#define S3R_RDMA_SHIM_SHIM_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Keeps the text for s3rdma_last_error(); returns -1, for calls that say so. */
int shim_fail(const struct diag *diag, int code);
/* Copies the text to a caller's buffer as well, cut at len - 1; out may be NULL. */
void shim_copy_text(char *out, size_t len, const char *text);
/* The number of an ibv_wc_status. */
int32_t shim_status(int code);

#endif
