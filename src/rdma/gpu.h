/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - memory of a GPU, as its driver (libcuda.so.1, opened at run time) knows it.
 * Does:     tells what memory a pointer is; copies between a GPU's memory and the host's; lends a
 *           GPU's memory to adapters as a dma-buf.
 * Not here: registering it (owner.h); when a transfer takes a copy (client/stage.h).
 * Units:    bytes.
 * Owns:     the driver stays loaded; an export's descriptor is the caller's.
 * Threads:  any, with or without a context of the driver's.
 * Errors:   S3R_E_INTERNAL with the driver's words.
 * Limits:   where there is no driver all memory is the host's; to the driver that of a forked child
 *           is, too. */
#ifndef S3R_RDMA_GPU_H
#define S3R_RDMA_GPU_H

#include "base/attr.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are those of s3rdma_client_memory_type(). */
enum gpu_memory {
    GPU_HOST = 0,
    GPU_MANAGED = 1, /* the processor can use it as any other; its pages move when a GPU does */
    GPU_DEVICE = 2,  /* no processor may touch it */
    GPU_UNKNOWN = 3, /* NULL, or the driver cannot tell */
};

enum gpu_memory gpu_memory_type(const void *ptr);
/* Memory that the driver hands out, and can copy. */
static inline bool gpu_can_copy(enum gpu_memory type)
{
    return type == GPU_MANAGED || type == GPU_DEVICE;
}
/* Is there a driver at all? */
bool gpu_has_driver(void);
/* The number of the GPU that has the memory; 0 where the driver does not say. */
int gpu_ordinal(const void *device);

/* When they return, the bytes are there for everybody. */
int gpu_copy_to_host(void *host, const void *device, size_t len, struct diag *diag) MUST_CHECK;
int gpu_copy_from_host(void *device, const void *host, size_t len, struct diag *diag) MUST_CHECK;

struct gpu_export {
    int fd;       /* a dma-buf, close-on-exec */
    uint64_t off; /* of the memory in it */
};

/* Whole pages, so it can show more than the memory: who registers it names offset and length. */
int gpu_export(const void *device, size_t len, struct diag *diag,
               struct gpu_export *ret_export) MUST_CHECK;
/* From now on the driver's own copies into the memory are done when it says so: an adapter does not
 * wait for them. */
int gpu_order_copies(void *device, struct diag *diag) MUST_CHECK;

#endif
