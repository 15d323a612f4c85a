/* SPDX-License-Identifier: Apache-2.0 */
/* recent.h - which blocks of large files were read lately.
 * Does:     tells a block that is read for the first time from one that is read again while memory
 *           could still hold it: the first passes the page cache by, the second had better stay.
 *           A pass over more than memory holds finds nothing again and so pushes nothing out.
 * Not here: reading (file_in.c).
 * Units:    bytes; blocks of LIMIT_BLOCK_LEN.
 * Owns:     8 bytes for each block within reach.
 * Threads:  any.
 * Errors:   S3R_E_NOMEM.
 * Limits:   of blocks that share a slot the last one is remembered; a stranger's block is taken for
 *           one that was read before once in 2^32. Both cost speed only. */
#ifndef S3R_STORE_RECENT_H
#define S3R_STORE_RECENT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recent;

/* What memory may hold of the page cache: half of the machine's, or of the control group's. */
uint64_t recent_default_reach(void);
/* `reach`: how many bytes are read between two reads of a block that still counts as read again. */
int recent_create(uint64_t reach, struct recent **ret_recent) MUST_CHECK;
void recent_destroy(struct recent *r);
/* Remembers `blocks` (at least 1) from `block` on. Was the first of them read within reach? */
bool recent_again(struct recent *r, uint64_t file_id, uint64_t block, size_t blocks);

#endif
