/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - which bucket names and keys are allowed.
 * Does:     S3's rules for general purpose buckets; `minio` is reserved (health and metrics live
 *           under /minio/). A key is 1 to 1,024 bytes of UTF-8 without NUL, otherwise free.
 * Not here: decoding (s3/uri.h).
 * Units:    bytes.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   S3R_E_INVALID_BUCKET_NAME, S3R_E_KEY_TOO_LONG, S3R_E_INVALID_URI (empty, NUL, not
 *           UTF-8).
 * Limits:   LIMIT_BUCKET_LEN_MIN, LIMIT_BUCKET_LEN_MAX, LIMIT_KEY_LEN_MAX. */
#ifndef S3R_S3_NAMES_H
#define S3R_S3_NAMES_H

#include "base/attr.h"
#include "base/error.h"

#include <stddef.h>

int bucket_name_check(const char *name, size_t len, struct diag *diag) MUST_CHECK;
int key_check(const char *key, size_t len, struct diag *diag) MUST_CHECK;

#endif
