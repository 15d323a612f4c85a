/* SPDX-License-Identifier: Apache-2.0 */
/* carry_memory.h - where the bytes of a transfer lie, for carry.c alone.
 * Does:     registers the caller's memory for a window; of a GPU's memory that no rail takes, or
 *           that HTTP or a checksum is to read or write, makes a copy in host memory and delivers
 *           it at the end; the checksum of a PUT.
 * Not here: windows and requests (carry.c); the copy itself (stage.h).
 * Units:    bytes.
 * Owns:     the registration made for the call, and the copy, until carry_memory_close().
 * Threads:  owner of the transfer.
 * Errors:   S3R_E_NOMEM, S3R_E_INTERNAL (the GPU's driver), S3R_E_INVALID_ARGUMENT (memory that it
 *           cannot tell).
 * Limits:   none of its own. */
#ifndef S3R_CLIENT_CARRY_MEMORY_H
#define S3R_CLIENT_CARRY_MEMORY_H

#include "client/carry.h"

/* First of all. *ret_is_open: windows can be opened; false: they cannot, the result says why. */
int carry_memory_open(struct carry_run *r, bool *ret_is_open) MUST_CHECK;
/* From now on the bytes lie in host memory, whosever they are; for no window more. */
int carry_memory_copy(struct carry_run *r) MUST_CHECK;
/* That, and a PUT has its checksum: for HTTP. */
int carry_memory_read(struct carry_run *r) MUST_CHECK;
/* No window is open. What lingers stays. */
void carry_memory_deregister(struct carry_run *r);
/* Last of all: delivers what a GET that ended with `error` 0 brought. The transfer's error. */
int carry_memory_close(struct carry_run *r, int error) MUST_CHECK;

void carry_say_why(const struct carry_run *r, enum client_reason reason, const char *why);

#endif
