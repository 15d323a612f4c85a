/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/gpu.h"
#include "s3rdma.h"

int s3rdma_client_memory_type(const void *ptr)
{
    return (int)gpu_memory_type(ptr);
}
