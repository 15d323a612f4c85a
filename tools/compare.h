/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - has a file the bytes of an object?
 * Does:     compares the CRC-64/NVME where the server names it, else an ETag that is an MD5.
 * Not here: lengths and times of listings (cmd_mirror.c).
 * Units:    bytes.
 * Owns:     nothing; the descriptor is borrowed, its position is not used.
 * Threads:  (hand)
 * Errors:   as client_stat(); reading errors are S3R_E_INVALID_ARGUMENT.
 * Limits:   none. */
#ifndef S3R_TOOLS_COMPARE_H
#define S3R_TOOLS_COMPARE_H

#include "tools/crew.h"

/* False also where nothing can be compared. */
int compare_content(struct hand *h, int fd, uint64_t len, const char *bucket, const char *key,
                    struct diag *diag, bool *ret_is_same) MUST_CHECK;

#endif
