/* SPDX-License-Identifier: Apache-2.0 */
#include "client/stage.h"

#include "base/log.h"
#include "rdma/gpu.h"

#include <sys/mman.h>

int stage_open(void *device, size_t len, bool is_filled, struct diag *diag, struct stage *ret_stage)
{
    void *host = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED)
        return diag_fail(diag, S3R_E_NOMEM, "no host memory for a copy of %zu bytes of a GPU's",
                         len);
    struct stage s = {.device = device, .host = host, .len = len};
    int e = is_filled ? gpu_copy_to_host(host, device, len, diag) : 0;
    if (e == 0)
        *ret_stage = s;
    else
        stage_close(&s);
    return e;
}

int stage_deliver(const struct stage *s, size_t len, struct diag *diag)
{
    return len > 0 ? gpu_copy_from_host(s->device, s->host, len, diag) : 0;
}

void stage_close(struct stage *s)
{
    if (s->host != NULL && munmap(s->host, s->len) != 0)
        log_warn("munmap of %zu bytes failed", s->len);
    *s = (struct stage){0};
}
