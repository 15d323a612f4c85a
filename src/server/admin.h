/* SPDX-License-Identifier: Apache-2.0 */
/* admin.h - what lives under /minio/: metrics and health.
 * Does:     answers at once, on the event thread.
 * Not here: the counters (metrics.h).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  event threads.
 * Errors:   S3R_E_NO_SUCH_KEY, S3R_E_METHOD_NOT_ALLOWED, those of authentication when metrics are
 *           not public.
 * Limits:   none. */
#ifndef S3R_SERVER_ADMIN_H
#define S3R_SERVER_ADMIN_H

#include "server/request.h"

bool admin_is_meant(const struct request *r);
/* 0: the reply is composed. */
int admin_answer(struct request *r) MUST_CHECK;

#endif
