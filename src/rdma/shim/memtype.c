/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "s3rdma.h"

#include <dlfcn.h>
#include <pthread.h>

/* The few facts of CUDA's driver interface that are used; no header and no link of it. */
enum { CU_SUCCESS = 0, CU_INVALID_VALUE = 1, CU_NOT_INITIALIZED = 3, CU_DEINITIALIZED = 4 };
enum { CU_NO_DEVICE = 100, CU_INVALID_CONTEXT = 201 };
enum { CU_ATTRIBUTE_MEMORY_TYPE = 2, CU_ATTRIBUTE_IS_MANAGED = 8 };
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };

typedef int attribute_fn(void *data, int attribute, unsigned long long pointer);

enum { TYPE_HOST = 0, TYPE_MANAGED = 1, TYPE_DEVICE = 2, TYPE_UNKNOWN = 3 };

static attribute_fn *get_attribute;

static void load(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (cuda)
        *(void **)&get_attribute = dlsym(cuda, "cuPointerGetAttribute");
}

/* A driver without a context has handed out no pointer; one that does not know the pointer says
 * "invalid value": both mean ordinary memory. */
static int type_without_attribute(int error)
{
    switch (error) {
    case CU_INVALID_VALUE:
    case CU_NOT_INITIALIZED:
    case CU_DEINITIALIZED:
    case CU_NO_DEVICE:
    case CU_INVALID_CONTEXT:
        return TYPE_HOST;
    default:
        return TYPE_UNKNOWN;
    }
}

int s3rdma_client_memory_type(const void *ptr)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned long long at = (uintptr_t)ptr;
    unsigned type = 0, is_managed = 0;
    if (!ptr)
        return TYPE_UNKNOWN;
    pthread_once(&once, load);
    if (!get_attribute)
        return TYPE_HOST;
    if (get_attribute(&is_managed, CU_ATTRIBUTE_IS_MANAGED, at) == CU_SUCCESS && is_managed)
        return TYPE_MANAGED;
    int error = get_attribute(&type, CU_ATTRIBUTE_MEMORY_TYPE, at);
    if (error != CU_SUCCESS)
        return type_without_attribute(error);
    if (type == CU_MEMORY_DEVICE)
        return TYPE_DEVICE;
    return type == CU_MEMORY_HOST ? TYPE_HOST : TYPE_UNKNOWN;
}
