/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - a copy in host memory of what lies, or is to lie, in a GPU's.
 * Does:     host memory as long as a transfer's, filled from the GPU's, delivered into it.
 * Not here: when a transfer needs one (carry_memory.h); the copying itself (rdma/gpu.h).
 * Units:    bytes.
 * Owns:     the host memory until stage_close(). The GPU's stays the caller's.
 * Threads:  owner.
 * Errors:   S3R_E_NOMEM; S3R_E_INTERNAL with the words of the GPU's driver.
 * Limits:   none of its own. */
#ifndef S3R_CLIENT_STAGE_H
#define S3R_CLIENT_STAGE_H

#include "base/attr.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* All zeroes: there is none. */
struct stage {
    void *device;
    void *host; /* from a page boundary */
    size_t len;
};

/* Zeroed; with `is_filled` what the GPU's memory holds now. `len` is more than 0. */
int stage_open(void *device, size_t len, bool is_filled, struct diag *diag,
               struct stage *ret_stage) MUST_CHECK;
/* The first `len` bytes into the GPU's memory. */
int stage_deliver(const struct stage *s, size_t len, struct diag *diag) MUST_CHECK;
void stage_close(struct stage *s);

#endif
