/* SPDX-License-Identifier: Apache-2.0 */
/* accesslog.h - one `key=value` line per request.
 * Does:     composes the line when the reply was sent or the connection was lost.
 * Not here: the sink (base/log.h).
 * Units:    bytes; milliseconds.
 * Owns:     nothing.
 * Threads:  event threads.
 * Errors:   none.
 * Limits:   LOG_LINE_MAX. Tokens, signatures and keys are never in it. */
#ifndef S3R_SERVER_ACCESSLOG_H
#define S3R_SERVER_ACCESSLOG_H

#include "server/request.h"

/* `error` is handed in: a worker that outlives its connection may be about to write r->error. */
void accesslog_write(const struct request *r, int error, bool is_sent);

#endif
