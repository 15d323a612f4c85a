/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - memory of whole pages, for bytes that a wire moves.
 * Does:     zeroed pages of this process; huge ones where the system has them and they fill some:
 *           finding another process's pages is a good part of what a copy out of or into it costs,
 *           and registering them of an adapter's.
 * Not here: memory that is used again and again (buffers.h, server/staging.h).
 * Units:    bytes; lengths are made whole pages.
 * Owns:     nothing; memory is the caller's until pages_free().
 * Threads:  any.
 * Errors:   NULL: no memory, also where a length cannot be made whole pages.
 * Limits:   none of its own. */
#ifndef S3R_BASE_PAGES_H
#define S3R_BASE_PAGES_H

#include "base/attr.h"

#include <stddef.h>

/* `len` 0 is one page. */
void *pages_alloc(size_t len) MUST_CHECK;
/* With the same length. NULL is fine. */
void pages_free(void *pages, size_t len);

#endif
