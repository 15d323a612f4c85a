/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/provider.h"

#include "base/clock.h"
#include "rdma/cma/cma.h"
#include "rdma/loop/loop.h"
#include "rdma/ofi/ofi.h"

#include <string.h>

int transfer_may_go_on(const struct transfer *t, struct diag *diag)
{
    if (t->is_cancelled && t->is_cancelled(t->cancel_arg))
        return diag_fail(diag, S3R_E_CANCELLED, "the request went away");
    if (t->deadline_ns != 0 && clock_mono_ns() >= t->deadline_ns)
        return diag_fail(diag, S3R_E_RDMA_DEADLINE, "the RDMA transfer missed its deadline");
    return 0;
}

/* One row per provider; loop is there for whoever names it. */
static const struct {
    const struct mover_ops *mover;
    const struct owner_ops *owner;
} providers[] = {
    {&cma_mover_ops, &cma_owner_ops},
    {&ofi_mover_ops, &ofi_owner_ops},
    {&loop_mover_ops, &loop_owner_ops},
};

const struct mover_ops *provider_mover(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(providers); i++) {
        if (strcmp(providers[i].mover->name, name) == 0)
            return providers[i].mover;
    }
    return NULL;
}

const struct owner_ops *provider_owner(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(providers); i++) {
        if (strcmp(providers[i].owner->name, name) == 0)
            return providers[i].owner;
    }
    return NULL;
}
