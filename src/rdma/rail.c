/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/rail.h"

#include "base/clock.h"
#include "base/log.h"
#include "rdma/gpu.h"

#define BLAME_FIRST_NS (1 * NS_PER_S)
#define BLAME_LONGEST_NS (60 * NS_PER_S)

bool rail_is_healthy(const struct rail *rail, int64_t now_ns)
{
    return now_ns >= rail->skipped_until_ns;
}

void rail_blame(struct rail *rail, int64_t now_ns)
{
    bool is_again = rail->backoff_ns != 0 && now_ns < rail->skipped_until_ns + rail->backoff_ns;
    if (!rail_is_healthy(rail, now_ns))
        return;
    rail->backoff_ns = is_again ? rail->backoff_ns * 2 : BLAME_FIRST_NS;
    if (rail->backoff_ns > BLAME_LONGEST_NS)
        rail->backoff_ns = BLAME_LONGEST_NS;
    rail->skipped_until_ns = now_ns + rail->backoff_ns;
}

/* ---- memory ---- */

/* Memory that is to be registered: a GPU's, and then perhaps shown by a dma-buf, or the host's. */
struct memory {
    void *ptr;
    size_t len;
    enum gpu_memory type;
    struct gpu_export export; /* fd -1: there is none */
};

static int add_device(const struct rail *rail, const struct memory *m, struct diag *diag,
                      void **ret_on)
{
    const struct owner_ops *ops = rail->ops;
    if (!ops->device_region_add)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "%s cannot reach a GPU's memory", ops->name);
    if (m->export.fd >= 0) {
        int rc = ops->device_region_add(rail->handle, m->ptr, m->len, &m->export, diag, ret_on);
        if (!rc)
            return 0;
        log_debug("rdma %s: not registered as a dma-buf: %s", ops->name, diag_text(diag, rc));
        diag_clear(diag);
    }
    return ops->device_region_add(rail->handle, m->ptr, m->len, NULL, diag, ret_on);
}

static int add(const struct rail *rail, const struct memory *m, struct diag *diag, void **ret_on)
{
    if (m->type == GPU_DEVICE)
        return add_device(rail, m, diag, ret_on);
    int rc = rail->ops->region_add(rail->handle, m->ptr, m->len, diag, ret_on);
    if (rc && m->type != GPU_MANAGED)
        log_warn("rdma %s: %zu bytes are not registered: %s", rail->ops->name, m->len,
                 diag_text(diag, rc));
    return rc;
}

/* Once for all rails; nothing is asked of the GPU's driver where none of them reaches a GPU. */
static int prepare_device(const struct rail *rails, int count, struct memory *m, struct diag *diag)
{
    struct diag why = {""};
    bool is_reached = false;
    for (int i = 0; i < count; i++)
        is_reached |= rails[i].ops->device_region_add != NULL;
    if (!is_reached)
        return 0;
    int rc = gpu_order_copies(m->ptr, diag);
    if (rc)
        return rc;
    rc = gpu_export(m->ptr, m->len, &why, &m->export);
    if (rc)
        log_debug("rdma: no dma-buf: %s", diag_text(&why, rc));
    return 0;
}

int rails_add_memory(const struct rail *rails, int count, void *ptr, size_t len, struct diag *diag,
                     void **ret_on, bool *ret_is_on)
{
    struct diag why = {""};
    struct memory m = {.ptr = ptr, .len = len, .type = gpu_memory_type(ptr), .export.fd = -1};
    int rc = S3R_E_RDMA_REGISTER, registered = 0;
    bool is_ready = m.type != GPU_DEVICE || prepare_device(rails, count, &m, &why) == 0;
    for (int i = 0; is_ready && i < count; i++) {
        diag_clear(&why);
        int failed = add(&rails[i], &m, &why, &ret_on[i]);
        ret_is_on[i] = failed == 0;
        registered += failed == 0;
        rc = failed ? failed : rc;
    }
    closep(&m.export.fd);
    if (registered > 0)
        return 0;
    rc = m.type == GPU_DEVICE ? S3R_E_RDMA_REGISTER : rc;
    return diag_fail(diag, rc, "%s", diag_text(&why, rc));
}
