/* SPDX-License-Identifier: Apache-2.0 */
#include "client/stage.h"

#include "base/pages.h"
#include "rdma/gpu.h"

int stage_open(void *device, size_t len, bool is_filled, struct diag *diag, struct stage *ret_stage)
{
    void *host = pages_alloc(len);
    if (host == NULL)
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
    pages_free(s->host, s->len);
    *s = (struct stage){0};
}
