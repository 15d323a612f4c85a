/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_stand_in.h - a libcuda.so.1 without a GPU: the calls of the real one that are used here, and
 * these. Memory of its device is a memfd that the program has mapped without any right to touch it;
 * what is in it only copies can tell. Loaded, not linked.
 *
 * CUDA_STAND_IN_REFUSES in the environment, looked at each time, is a list of what fails: "dtoh",
 * "htod", "dmabuf", "order", "context". */
#ifndef S3R_TESTS_CUDA_STAND_IN_H
#define S3R_TESTS_CUDA_STAND_IN_H

#include <stddef.h>

typedef unsigned long long CUdeviceptr;

/* As a program of the driver's would call them. */
int cuMemAlloc_v2(CUdeviceptr *ret_ptr, size_t len);
int cuMemAllocManaged(CUdeviceptr *ret_ptr, size_t len, unsigned flags);
int cuMemFree_v2(CUdeviceptr ptr);
/* The calling thread needs a context for it. */
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t len);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t len);

/* Its own. Memory without a context, as what is mapped by hand is. */
int stand_in_alloc_mapped(CUdeviceptr *ret_ptr, size_t len);
/* Where the device's memory can be seen. */
void *stand_in_shadow(CUdeviceptr ptr);
/* "dtoh", "htod", "dmabuf", "order": how often so far; "contexts": pushed now, "retained" now. */
unsigned stand_in_count(const char *what);

#endif
