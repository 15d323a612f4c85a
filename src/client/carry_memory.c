/* SPDX-License-Identifier: Apache-2.0 */
#include "client/carry_memory.h"

#include "base/crc64.h"
#include "base/log.h"
#include "rdma/gpu.h"
#include "rdma/owner.h"

#include <stdio.h>

void carry_say_why(const struct carry_run *r, enum client_reason reason, const char *why)
{
    r->job->result->reason = reason;
    snprintf(r->job->result->why, sizeof(r->job->result->why), "%s", why);
}

static int copy(struct carry_run *r)
{
    int e = stage_open(r->memory.ptr, r->memory.len, r->question.is_put, r->job->diag, &r->stage);
    if (e != 0)
        return e;
    r->is_device = r->can_copy = false;
    r->rails_left = 0; /* a window would be of the region there was */
    r->memory = (struct client_memory){.ptr = r->stage.host, .len = r->stage.len};
    r->job->result->is_staged = true;
    return 0;
}

int carry_memory_copy(struct carry_run *r)
{
    return r->is_device ? copy(r) : 0;
}

/* Of a PUT, as soon as its bytes can be read. */
static int add_checksum(struct carry_run *r)
{
    struct reply_question *q = &r->question;
    if (!q->is_put || r->is_device || q->has_checksum)
        return 0;
    q->crc64 = crc64_update(0, r->memory.ptr, r->memory.len);
    q->has_checksum = true;
    return call_add_crc64(r->job->call, q->crc64);
}

/* False, with the reason said, when there is to be no window. */
static bool is_rdma_possible(struct carry_run *r)
{
    const struct carry *job = r->job;
    struct diag diag = {0};
    if (job->client->is_rdma_off || job->options->is_rdma_off) {
        carry_say_why(r, CLIENT_REASON_OFF, "RDMA was not wanted");
        return false;
    }
    if (r->memory.len < job->options->http_below && !job->options->is_rdma_required) {
        carry_say_why(r, CLIENT_REASON_THRESHOLD, "fewer bytes than the threshold for RDMA");
        return false;
    }
    if (r->memory.len > LIMIT_DC_WINDOW_LEN_MAX) {
        carry_say_why(r, CLIENT_REASON_TOO_LARGE,
                      "more than 4294967295 bytes are too many for a window");
        return false;
    }
    r->owner = client_owner(job->client, &diag);
    if (r->owner == NULL)
        carry_say_why(r, CLIENT_REASON_NO_DEVICE, diag_text(&diag, S3R_E_RDMA_UNAVAILABLE));
    return r->owner != NULL;
}

static int find_base(struct carry_run *r, struct diag *diag)
{
    r->base = r->memory.region != NULL ? r->memory.region : r->memory.ptr;
    if (r->memory.region != NULL)
        return 0;
    /* There is no registration of no bytes, but a window of none is a transfer like any other. */
    static char nothing;
    size_t len = r->memory.len > 0 ? r->memory.len : 1;
    r->base = r->memory.len > 0 ? r->memory.ptr : &nothing;
    int e = owner_register(r->owner, r->base, len, diag);
    r->is_registered = e == 0;
    return e;
}

/* As it is or, where no rail takes memory of a GPU's driver, its copy. */
static int find_memory(struct carry_run *r, bool *ret_is_open)
{
    struct diag diag = {0};
    int e = find_base(r, &diag);
    if (e != 0 && r->can_copy) {
        log_debug("a GPU's memory is staged: %s", diag_text(&diag, e));
        diag_clear(&diag);
        e = copy(r);
        if (e != 0)
            return e;
        e = find_base(r, &diag);
    }
    if (e != 0)
        carry_say_why(r, CLIENT_REASON_NO_DEVICE, diag_text(&diag, e));
    *ret_is_open = e == 0;
    return 0;
}

static int look_at_memory(struct carry_run *r)
{
    enum gpu_memory type = r->memory.len > 0 ? gpu_memory_type(r->memory.ptr) : GPU_HOST;
    r->is_device = type == GPU_DEVICE;
    r->can_copy = gpu_can_copy(type);
    return type != GPU_UNKNOWN ? 0
                               : diag_fail(r->job->diag, S3R_E_INVALID_ARGUMENT,
                                           "the GPU's driver cannot say what memory that is");
}

int carry_memory_open(struct carry_run *r, bool *ret_is_open)
{
    bool is_open = false;
    int e = look_at_memory(r);
    if (e == 0 && is_rdma_possible(r))
        e = find_memory(r, &is_open);
    if (e == 0)
        e = add_checksum(r);
    if (e == 0)
        *ret_is_open = is_open;
    return e;
}

int carry_memory_read(struct carry_run *r)
{
    int e = carry_memory_copy(r);
    return e == 0 ? add_checksum(r) : e;
}

void carry_memory_deregister(struct carry_run *r)
{
    if (r->is_registered && !r->is_unfenced && owner_deregister(r->owner, r->base) != 0)
        log_warn("a registration was gone before its time");
    r->is_registered = false;
}

int carry_memory_close(struct carry_run *r, int error)
{
    carry_memory_deregister(r);
    if (error == 0 && r->stage.host != NULL && !r->question.is_put)
        error = stage_deliver(&r->stage, r->job->result->len, r->job->diag);
    stage_close(&r->stage);
    return error;
}
