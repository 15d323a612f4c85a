/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/gpu.h"

#include "base/num.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* The few facts of CUDA's driver interface that are used; no header and no link of it. */
enum { CU_SUCCESS = 0, CU_INVALID_VALUE = 1, CU_NOT_INITIALIZED = 3, CU_DEINITIALIZED = 4 };
enum { CU_NO_DEVICE = 100, CU_INVALID_CONTEXT = 201 };
enum {
    CU_ATTRIBUTE_CONTEXT = 1,
    CU_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_ATTRIBUTE_IS_MANAGED = 8,
    CU_ATTRIBUTE_DEVICE_ORDINAL = 9,
};
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };
enum { CU_HANDLE_DMA_BUF_FD = 1 };

typedef unsigned long long device_ptr;

static struct {
    int (*get_attribute)(void *data, int attribute, device_ptr ptr);
    int (*set_attribute)(const void *value, int attribute, device_ptr ptr);
    int (*error_name)(int error, const char **ret_name);
    int (*copy_to_host)(void *to, device_ptr from, size_t len);
    int (*copy_from_host)(device_ptr to, const void *from, size_t len);
    int (*wait_for_stream)(void *stream);
    int (*device_get)(int *ret_device, int ordinal);
    int (*primary_retain)(void **ret_context, int device);
    int (*primary_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **ret_context);
    int (*get_handle)(void *ret_handle, device_ptr ptr, size_t len, int type, device_ptr flags);
} cuda;
static bool is_complete;

static void load(void)
{
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
        {"cuPointerGetAttribute", &cuda.get_attribute},
        {"cuMemcpyDtoH_v2", &cuda.copy_to_host},
        {"cuMemcpyHtoD_v2", &cuda.copy_from_host},
        {"cuStreamSynchronize", &cuda.wait_for_stream},
        {"cuDeviceGet", &cuda.device_get},
        {"cuDevicePrimaryCtxRetain", &cuda.primary_retain},
        {"cuDevicePrimaryCtxRelease_v2", &cuda.primary_release},
        {"cuCtxPushCurrent_v2", &cuda.context_push},
        {"cuCtxPopCurrent_v2", &cuda.context_pop},
        /* what older drivers lack comes last */
        {"cuPointerSetAttribute", &cuda.set_attribute},
        {"cuGetErrorName", &cuda.error_name},
        {"cuMemGetHandleForAddressRange", &cuda.get_handle},
    };
    const size_t needed = 9;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    is_complete = library != NULL;
    for (size_t i = 0; library != NULL && i < ARRAY_LEN(rows); i++) {
        void *symbol = dlsym(library, rows[i].name);
        memcpy(rows[i].slot, &symbol, sizeof(symbol));
        is_complete &= symbol != NULL || i >= needed;
    }
}

static void load_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
}

static int driver_fail(struct diag *diag, const char *what, int error)
{
    const char *name = NULL;
    if (cuda.error_name == NULL || cuda.error_name(error, &name) != CU_SUCCESS || name == NULL)
        name = "error";
    return diag_fail(diag, S3R_E_INTERNAL, "the GPU's driver, %s: %s (%d)", what, name, error);
}

static int no_such_call(struct diag *diag, const char *what)
{
    return diag_fail(diag, S3R_E_INTERNAL, "the GPU's driver (libcuda.so.1) has no call for %s",
                     what);
}

/* ---- what memory it is ---- */

/* A driver without a context has handed out no pointer; one that does not know the pointer says
 * "invalid value": both mean ordinary memory. */
static enum gpu_memory type_without_attribute(int error)
{
    switch (error) {
    case CU_INVALID_VALUE:
    case CU_NOT_INITIALIZED:
    case CU_DEINITIALIZED:
    case CU_NO_DEVICE:
    case CU_INVALID_CONTEXT:
        return GPU_HOST;
    default:
        return GPU_UNKNOWN;
    }
}

enum gpu_memory gpu_memory_type(const void *ptr)
{
    device_ptr at = (uintptr_t)ptr;
    unsigned type = 0, is_managed = 0;
    if (ptr == NULL)
        return GPU_UNKNOWN;
    load_once();
    if (cuda.get_attribute == NULL)
        return GPU_HOST;
    if (cuda.get_attribute(&is_managed, CU_ATTRIBUTE_IS_MANAGED, at) == CU_SUCCESS && is_managed)
        return GPU_MANAGED;
    int error = cuda.get_attribute(&type, CU_ATTRIBUTE_MEMORY_TYPE, at);
    if (error != CU_SUCCESS)
        return type_without_attribute(error);
    if (type == CU_MEMORY_DEVICE)
        return GPU_DEVICE;
    return type == CU_MEMORY_HOST ? GPU_HOST : GPU_UNKNOWN;
}

bool gpu_has_driver(void)
{
    load_once();
    return cuda.get_attribute != NULL;
}

int gpu_ordinal(const void *device)
{
    int ordinal = 0;
    if (gpu_has_driver() &&
        cuda.get_attribute(&ordinal, CU_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)device) != CU_SUCCESS)
        ordinal = 0;
    return ordinal;
}

/* ---- contexts ---- */

/* What this thread uses while it speaks of one pointer. */
struct visit {
    int device;
    bool is_retained;
};

/* Memory that is mapped by hand (cuMemMap) has no context: its device's primary one does. */
static int find_context(device_ptr at, struct visit *v, struct diag *diag, void **ret_context)
{
    int ordinal = 0;
    *ret_context = NULL;
    if (cuda.get_attribute(ret_context, CU_ATTRIBUTE_CONTEXT, at) == CU_SUCCESS &&
        *ret_context != NULL)
        return 0;
    int error = cuda.get_attribute(&ordinal, CU_ATTRIBUTE_DEVICE_ORDINAL, at);
    if (error == CU_SUCCESS)
        error = cuda.device_get(&v->device, ordinal);
    if (error == CU_SUCCESS)
        error = cuda.primary_retain(ret_context, v->device);
    v->is_retained = error == CU_SUCCESS;
    return error == CU_SUCCESS ? 0 : driver_fail(diag, "looking for a context", error);
}

static void leave(const struct visit *v)
{
    if (v->is_retained)
        (void)cuda.primary_release(v->device);
}

static int enter(device_ptr at, struct visit *v, struct diag *diag)
{
    void *context = NULL;
    *v = (struct visit){0};
    load_once();
    if (!is_complete)
        return no_such_call(diag, "copying");
    int e = find_context(at, v, diag, &context);
    if (e != 0)
        return e;
    int error = cuda.context_push(context);
    if (error == CU_SUCCESS)
        return 0;
    leave(v);
    return driver_fail(diag, "entering a context", error);
}

static void pop_and_leave(const struct visit *v)
{
    void *ignored = NULL;
    (void)cuda.context_pop(&ignored);
    leave(v);
}

/* ---- copies ---- */

/* It returns once the host's memory was read: where that is not pinned, before the last bytes have
 * arrived. */
static int copy_and_wait(device_ptr to, const void *from, size_t len)
{
    int error = cuda.copy_from_host(to, from, len);
    return error == CU_SUCCESS ? cuda.wait_for_stream(NULL) : error;
}

int gpu_copy_to_host(void *host, const void *device, size_t len, struct diag *diag)
{
    struct visit v;
    device_ptr at = (uintptr_t)device;
    int e = enter(at, &v, diag);
    if (e != 0)
        return e;
    int error = cuda.copy_to_host(host, at, len);
    pop_and_leave(&v);
    return error == CU_SUCCESS ? 0 : driver_fail(diag, "copying out of its memory", error);
}

int gpu_copy_from_host(void *device, const void *host, size_t len, struct diag *diag)
{
    struct visit v;
    device_ptr at = (uintptr_t)device;
    int e = enter(at, &v, diag);
    if (e != 0)
        return e;
    int error = copy_and_wait(at, host, len);
    pop_and_leave(&v);
    return error == CU_SUCCESS ? 0 : driver_fail(diag, "copying into its memory", error);
}

/* ---- for adapters ---- */

int gpu_export(const void *device, size_t len, struct diag *diag, struct gpu_export *ret_export)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)device, end;
    struct visit v;
    load_once();
    if (cuda.get_handle == NULL)
        return no_such_call(diag, "dma-bufs");
    if (!checked_add(at, len, &end) || !checked_add(end, page - 1, &end))
        return diag_fail(diag, S3R_E_INTERNAL, "no memory has %zu bytes there", len);
    uint64_t start = at - at % page;
    int fd = -1;
    int e = enter(at, &v, diag);
    if (e != 0)
        return e;
    int error =
        cuda.get_handle(&fd, start, (size_t)(end - end % page - start), CU_HANDLE_DMA_BUF_FD, 0);
    pop_and_leave(&v);
    if (error != CU_SUCCESS)
        return driver_fail(diag, "exporting its memory as a dma-buf", error);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    *ret_export = (struct gpu_export){.fd = fd, .off = at - start};
    return 0;
}

int gpu_order_copies(void *device, struct diag *diag)
{
    const unsigned is_on = 1;
    load_once();
    if (cuda.set_attribute == NULL)
        return no_such_call(diag, "the order of copies");
    int error = cuda.set_attribute(&is_on, CU_ATTRIBUTE_SYNC_MEMOPS, (uintptr_t)device);
    return error == CU_SUCCESS ? 0 : driver_fail(diag, "ordering copies", error);
}
