/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/provider.h"

#include "base/clock.h"

int transfer_may_go_on(const struct transfer *t, struct diag *diag)
{
    if (t->is_cancelled && t->is_cancelled(t->cancel_arg))
        return diag_fail(diag, S3R_E_CANCELLED, "the request went away");
    if (t->deadline_ns != 0 && clock_mono_ns() >= t->deadline_ns)
        return diag_fail(diag, S3R_E_RDMA_DEADLINE, "the RDMA transfer missed its deadline");
    return 0;
}
