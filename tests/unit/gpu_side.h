/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_side.h - what the tests of a GPU's memory share: the stand-in for its driver, loaded. */
#ifndef S3R_TESTS_GPU_SIDE_H
#define S3R_TESTS_GPU_SIDE_H

#include "unit/cm.h"

#include "helpers/cuda_stand_in.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REFUSES "CUDA_STAND_IN_REFUSES"

static struct {
    __typeof__(&cuMemAlloc_v2) alloc;
    __typeof__(&stand_in_alloc_mapped) alloc_mapped;
    __typeof__(&cuMemAllocManaged) alloc_managed;
    __typeof__(&cuMemFree_v2) free;
    __typeof__(&stand_in_shadow) shadow;
    __typeof__(&stand_in_count) count;
} gpu;

/* Loaded by its path, it is what the name libcuda.so.1 then stands for in this process. */
static inline void gpu_load(void)
{
    char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    snprintf(strrchr(path, '/'), 64, "/../helpers/libcuda_stand_in.so");
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL)
        fail_msg("%s", dlerror());
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
        {"cuMemAlloc_v2", &gpu.alloc},
        {"stand_in_alloc_mapped", &gpu.alloc_mapped},
        {"cuMemAllocManaged", &gpu.alloc_managed},
        {"cuMemFree_v2", &gpu.free},
        {"stand_in_shadow", &gpu.shadow},
        {"stand_in_count", &gpu.count},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *symbol = dlsym(driver, rows[i].name);
        assert_non_null(symbol);
        memcpy(rows[i].slot, &symbol, sizeof symbol);
    }
}

/* Memory of the device: nothing here may touch it but by its shadow. */
static inline void *device_alloc(size_t len)
{
    CUdeviceptr ptr;
    assert_int_equal(gpu.alloc(&ptr, len), 0);
    return (void *)(uintptr_t)ptr;
}

static inline void device_free(void *ptr)
{
    assert_int_equal(gpu.free((uintptr_t)ptr), 0);
}

static inline unsigned char *shadow_of(const void *ptr)
{
    unsigned char *shadow = gpu.shadow((uintptr_t)ptr);
    assert_non_null(shadow);
    return shadow;
}

static inline void assert_no_context_is_left(void)
{
    assert_int_equal(gpu.count("contexts"), 0);
    assert_int_equal(gpu.count("retained"), 0);
}

#endif
