/* SPDX-License-Identifier: Apache-2.0 */
/* header.h - the file STORE: which store this is, and who may use it.
 * Does:     reads, judges and creates it (docs/disk.md, "STORE"); holds the lock on the folder.
 * Not here: what is in the store.
 * Units:    bytes.
 * Owns:     the lock is held while its descriptor is open.
 * Threads:  owner.
 * Errors:   S3R_E_STORE_FORMAT for a newer format, unknown incompatible features, or a folder that
 *           holds something else; S3R_E_STORE_CORRUPT; S3R_E_STORE_LOCKED; S3R_E_STORE_FULL,
 *           S3R_E_STORE_IO. Nothing is changed before the format was accepted.
 * Limits:   none. */
#ifndef S3R_STORE_HEADER_H
#define S3R_STORE_HEADER_H

#include "base/attr.h"
#include "base/error.h"
#include "store/file.h"

struct header {
    uint8_t uuid[STORE_UUID_LEN];
    int64_t created_ms;
};

/* S3R_E_NO_SUCH_KEY when there is no STORE in `dir`. */
int header_read(const char *dir, struct diag *diag, struct header *ret_header) MUST_CHECK;
/* In a folder that holds nothing else. */
int header_create(const char *dir, struct diag *diag, struct header *ret_header) MUST_CHECK;
/* `is_shared`: other readers may have it too, and nothing is created. */
int header_lock(const char *dir, bool is_shared, struct diag *diag, int *ret_fd) MUST_CHECK;

#endif
