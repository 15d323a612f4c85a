/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h - a download under way: a hidden file beside its target, and a list of what it holds.
 * Does:     pieces in any order from many threads; what an earlier run left is found again and
 *           offered with its checksum; the target appears whole or not at all.
 * Not here: comparing those checksums, and the object's (moves_down.c).
 * Units:    bytes.
 * Owns:     a partial owns its descriptors until partial_commit(), _keep() or _discard().
 * Threads:  partial_write() and partial_add() any; the others owner.
 * Errors:   0 or an errno.
 * Limits:   LIMIT_PARTS_MAX pieces.
 * Both files belong to the user who runs this, have one name and are locked while in use: in a
 * folder that others may write, too, theirs are not taken for ours. */
#ifndef S3R_TOOLS_PARTIAL_H
#define S3R_TOOLS_PARTIAL_H

#include "base/attr.h"
#include "tools/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct partial_piece {
    bool is_there; /* said to be; the bytes are to be compared with crc64 */
    uint64_t crc64;
};

struct partial {
    const struct place *place;
    int fd, list; /* list -1: it cannot go on later */
    char name[64], list_name[64];
    struct partial_piece *pieces;
    size_t count;
};

/* `identity`: what is downloaded, its version included. */
int partial_open(const struct place *place, const void *identity, size_t identity_len, size_t count,
                 struct partial *ret_partial) MUST_CHECK;
int partial_write(const struct partial *p, const void *bytes, size_t len, uint64_t off) MUST_CHECK;
int partial_read(const struct partial *p, void *bytes, size_t len, uint64_t off) MUST_CHECK;
/* The piece is written. */
int partial_add(const struct partial *p, size_t index, uint64_t crc64) MUST_CHECK;
/* Cut to `len`, synced, renamed. On an error it is discarded. `time_ms` of the file, 0: now. */
int partial_commit(struct partial *p, uint64_t len, int64_t time_ms) MUST_CHECK;
/* For the next run; true when there can be one. */
bool partial_keep(struct partial *p);
void partial_discard(struct partial *p);
/* Modification time of an open file. */
int file_set_time(int fd, int64_t time_ms) MUST_CHECK;

#endif
