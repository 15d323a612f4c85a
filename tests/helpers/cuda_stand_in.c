/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers/cuda_stand_in.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3 };
enum { INVALID_CONTEXT = 201, NOT_SUPPORTED = 801 };
enum { CONTEXT = 1, MEMORY_TYPE = 2, SYNC_MEMOPS = 6, IS_MANAGED = 8, DEVICE_ORDINAL = 9 };
enum { HOST = 1, DEVICE = 2 };
enum { STACK_MAX = 8, ORDINAL = 3 };

enum kind { ALLOCATED, MAPPED, MANAGED };

struct allocation {
    struct allocation *next;
    char *device, *shadow;
    size_t len, mapped_len;
    enum kind kind;
    int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* lock */
static struct allocation *allocations;
static pid_t pid; /* of the process that has the device: 0 before the first allocation */
static struct {
    unsigned dtoh, htod, dmabuf, order, contexts, retained;
} counts;

static char own_context, primary_context;
static _Thread_local void *stack[STACK_MAX];
static _Thread_local int depth;

static bool refuses(const char *what)
{
    const char *list = getenv("CUDA_STAND_IN_REFUSES");
    return list != NULL && strstr(list, what) != NULL;
}

static void count(unsigned *what, int by)
{
    pthread_mutex_lock(&lock);
    *what += (unsigned)by;
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

static size_t whole_pages(size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (len + page - 1) / page * page;
}

static void drop(struct allocation *a)
{
    if (a->device != NULL)
        munmap(a->device, a->mapped_len);
    if (a->shadow != NULL && a->shadow != a->device)
        munmap(a->shadow, a->mapped_len);
    if (a->fd >= 0)
        close(a->fd);
    free(a);
}

static char *map(const struct allocation *a, int rights)
{
    void *p = mmap(NULL, a->mapped_len, rights, MAP_SHARED, a->fd, 0);
    return p != MAP_FAILED ? p : NULL;
}

static int allocate(CUdeviceptr *ret_ptr, size_t len, enum kind kind)
{
    struct allocation *a = len > 0 ? calloc(1, sizeof(*a)) : NULL;
    if (a == NULL)
        return len > 0 ? OUT_OF_MEMORY : INVALID_VALUE;
    a->len = len;
    a->mapped_len = whole_pages(len);
    a->kind = kind;
    a->fd = memfd_create("device memory", MFD_CLOEXEC);
    if (a->fd >= 0 && ftruncate(a->fd, (off_t)a->mapped_len) == 0) {
        a->shadow = map(a, PROT_READ | PROT_WRITE);
        a->device = kind == MANAGED ? a->shadow : map(a, PROT_NONE);
    }
    if (a->device == NULL || a->shadow == NULL) {
        drop(a);
        return OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&lock);
    pid = getpid();
    a->next = allocations;
    allocations = a;
    pthread_mutex_unlock(&lock);
    *ret_ptr = (uintptr_t)a->device;
    return SUCCESS;
}

int cuMemAlloc_v2(CUdeviceptr *ret_ptr, size_t len)
{
    return allocate(ret_ptr, len, ALLOCATED);
}

int cuMemAllocManaged(CUdeviceptr *ret_ptr, size_t len, unsigned flags)
{
    (void)flags;
    return allocate(ret_ptr, len, MANAGED);
}

int stand_in_alloc_mapped(CUdeviceptr *ret_ptr, size_t len)
{
    return allocate(ret_ptr, len, MAPPED);
}

int cuMemFree_v2(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    struct allocation **at = &allocations;
    while (*at != NULL && (uintptr_t)(*at)->device != ptr)
        at = &(*at)->next;
    struct allocation *a = *at;
    if (a != NULL)
        *at = a->next;
    pthread_mutex_unlock(&lock);
    if (a == NULL)
        return INVALID_VALUE;
    drop(a);
    return SUCCESS;
}

/* The allocation that [ptr, ptr + len) lies in, `end` the end of what counts as its. */
static struct allocation *find(CUdeviceptr ptr, size_t len, bool is_by_page)
{
    pthread_mutex_lock(&lock);
    struct allocation *a = allocations;
    while (a != NULL) {
        uintptr_t start = (uintptr_t)a->device;
        size_t size = is_by_page ? a->mapped_len : a->len;
        if (ptr >= start && ptr - start < size && len <= size - (ptr - start))
            break;
        a = a->next;
    }
    pthread_mutex_unlock(&lock);
    return a;
}

void *stand_in_shadow(CUdeviceptr ptr)
{
    struct allocation *a = find(ptr, 1, false);
    return a != NULL ? a->shadow + (ptr - (uintptr_t)a->device) : NULL;
}

/* ---- what is said of a pointer ---- */

/* Pointers that stand for what a driver may answer: test_memtype has the same. */
static const struct {
    CUdeviceptr pointer;
    int error;
    unsigned type, is_managed;
} rows[] = {
    {0x1000, 0, HOST, 0}, {0x2000, 0, DEVICE, 0},          {0x3000, 0, DEVICE, 1},
    {0x4000, 0, 4, 0},    {0x5000, INVALID_VALUE, 0, 0},   {0x6000, NOT_INITIALIZED, 0, 0},
    {0x8000, 999, 0, 0},  {0x7000, INVALID_CONTEXT, 0, 0},
};

static int attribute_of_row(void *data, int attribute, CUdeviceptr pointer)
{
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].pointer != pointer)
            continue;
        if (rows[i].error == 0)
            *(unsigned *)data = attribute == IS_MANAGED ? rows[i].is_managed : rows[i].type;
        return rows[i].error;
    }
    return INVALID_VALUE;
}

int cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
    if (pid != 0 && pid != getpid())
        return NOT_INITIALIZED; /* a forked child */
    const struct allocation *a = find(pointer, 1, false);
    if (a == NULL)
        return attribute_of_row(data, attribute, pointer);
    switch (attribute) {
    case CONTEXT:
        *(void **)data = a->kind == MAPPED ? NULL : &own_context;
        return SUCCESS;
    case MEMORY_TYPE:
        *(unsigned *)data = DEVICE;
        return SUCCESS;
    case IS_MANAGED:
        *(unsigned *)data = a->kind == MANAGED;
        return SUCCESS;
    case DEVICE_ORDINAL:
        *(int *)data = ORDINAL;
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

int cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer)
{
    if (refuses("order"))
        return NOT_SUPPORTED;
    if (attribute != SYNC_MEMOPS || *(const unsigned *)value != 1 ||
        find(pointer, 1, false) == NULL)
        return INVALID_VALUE;
    count(&counts.order, 1);
    return SUCCESS;
}

int cuGetErrorName(int error, const char **ret_name)
{
    *ret_name = error == INVALID_VALUE     ? "CUDA_ERROR_INVALID_VALUE"
                : error == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
                : error == NOT_SUPPORTED   ? "CUDA_ERROR_NOT_SUPPORTED"
                                           : NULL;
    return *ret_name != NULL ? SUCCESS : INVALID_VALUE;
}

/* ---- contexts ---- */

int cuCtxPushCurrent_v2(void *context)
{
    if (refuses("context") || depth == STACK_MAX ||
        (context != &own_context && context != &primary_context))
        return INVALID_CONTEXT;
    stack[depth++] = context;
    count(&counts.contexts, 1);
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void **ret_context)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *ret_context = stack[--depth];
    count(&counts.contexts, -1);
    return SUCCESS;
}

int cuDeviceGet(int *ret_device, int ordinal)
{
    *ret_device = 2 * ordinal;
    return ordinal == ORDINAL ? SUCCESS : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **ret_context, int device)
{
    if (device != 2 * ORDINAL)
        return INVALID_VALUE;
    *ret_context = &primary_context;
    count(&counts.retained, 1);
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    if (device != 2 * ORDINAL)
        return INVALID_VALUE;
    count(&counts.retained, -1);
    return SUCCESS;
}

/* ---- copies ---- */

int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t len)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    if (refuses("dtoh") || find(from, len, false) == NULL)
        return INVALID_VALUE;
    memcpy(to, stand_in_shadow(from), len);
    count(&counts.dtoh, 1);
    return SUCCESS;
}

/* As of memory that is not pinned: the last byte is there when the stream was waited for. */
static _Thread_local char *late_at;
static _Thread_local char late_byte;

int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t len)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    if (refuses("htod") || len == 0 || find(to, len, false) == NULL)
        return INVALID_VALUE;
    char *shadow = stand_in_shadow(to);
    memcpy(shadow, from, len - 1);
    late_at = shadow + len - 1;
    late_byte = ((const char *)from)[len - 1];
    count(&counts.htod, 1);
    return SUCCESS;
}

int cuStreamSynchronize(void *stream)
{
    if (stream != NULL || depth == 0)
        return INVALID_CONTEXT;
    if (late_at != NULL)
        *late_at = late_byte;
    late_at = NULL;
    return SUCCESS;
}

/* ---- for adapters ---- */

int cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr ptr, size_t len, int type,
                                  unsigned long long flags)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (refuses("dmabuf"))
        return NOT_SUPPORTED;
    struct allocation *a = find(ptr, len, true);
    if (depth == 0)
        return INVALID_CONTEXT;
    /* The real one's begins where it was asked to; a memfd cannot, so it must be the beginning. */
    if (a == NULL || a->kind == MANAGED || ptr != (uintptr_t)a->device || len % page != 0 ||
        type != 1 || flags != 0)
        return INVALID_VALUE;
    int fd = dup(a->fd);
    if (fd < 0)
        return OUT_OF_MEMORY;
    *(int *)ret_handle = fd;
    count(&counts.dmabuf, 1);
    return SUCCESS;
}

unsigned stand_in_count(const char *what)
{
    const struct {
        const char *name;
        const unsigned *count;
    } names[] = {
        {"dtoh", &counts.dtoh},   {"htod", &counts.htod},         {"dmabuf", &counts.dmabuf},
        {"order", &counts.order}, {"contexts", &counts.contexts}, {"retained", &counts.retained},
    };
    unsigned n = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, what) == 0)
            n = *names[i].count;
    pthread_mutex_unlock(&lock);
    return n;
}

#pragma GCC visibility pop
