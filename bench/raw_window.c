/* SPDX-License-Identifier: Apache-2.0 */
/* raw_window - a wire by its provider alone, without S3 around it: one window of another process's
 * memory, written or read again and again.
 *   raw_window DEVICE write|read LENGTH MS
 * DEVICE as in S3RDMA_DEVICE ("ofi:tcp": fi_write with delivery-complete, and fi_read; "cma").
 * Prints one line of name=value; the bytes are compared at the end. */
#include "base/error.h"
#include "measure.h"
#include "rdma/devices.h"
#include "rdma/provider.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OURS = 0x5a, THEIRS = 0xa5 };

struct job {
    struct device device;
    enum transfer_direction direction;
    uint64_t len, ms;
    const struct mover_ops *ops;
    void *mover, *registration;
    char *local;
    struct token token;
};

static int fail(const char *what, const struct diag *diag, int error)
{
    fprintf(stderr, "raw_window: %s: %s\n", what, diag_text(diag, error));
    return error;
}

static int wait_and_look(int in, const struct job *job, const char *memory)
{
    char end;
    if (read(in, &end, 1) != 0)
        return 1;
    return !measure_is_all(memory, job->len, job->direction == TRANSFER_WRITE ? OURS : THEIRS);
}

/* The client's side: opens a window, tells its token, waits for the end. */
static int own(int in, int out, void *arg)
{
    const struct job *job = arg;
    const struct owner_ops *ops = provider_owner(job->device.name);
    const struct sockaddr_in here = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct diag diag = {0};
    struct token token;
    void *owner, *region, *window;
    char *memory = measure_memory(job->len, THEIRS);
    if (memory == NULL)
        return 1;
    int rc = ops->open(job->device.rest, (const struct sockaddr *)&here, &diag, &owner);
    if (rc)
        return fail("owner", &diag, rc) != 0;
    rc = ops->region_add(owner, memory, job->len, &diag, &region);
    if (rc == 0) {
        rc = ops->window_open(owner, region, 0, job->len, &diag, &window, &token);
        if (rc == 0 && write(out, &token, sizeof token) != sizeof token)
            rc = S3R_E_INTERNAL;
    }
    if (rc)
        return fail("window", &diag, rc) != 0;
    rc = wait_and_look(in, job, memory);
    if (ops->window_withdraw(owner, window, &diag) == 0)
        ops->window_close(owner, window);
    ops->region_remove(owner, region);
    ops->close(owner);
    return rc;
}

static int transfer_once(void *arg)
{
    struct job *job = arg;
    struct diag diag = {0};
    const struct transfer t = {.direction = job->direction,
                               .token = &job->token,
                               .local = job->local,
                               .len = job->len,
                               .registration = job->registration};
    uint64_t moved;
    int rc = job->ops->transfer(job->mover, &t, &diag, &moved);
    if (rc == 0 && moved != job->len)
        rc = S3R_E_RDMA_TRANSFER;
    return rc == 0 ? 0 : fail("transfer", &diag, rc);
}

static bool parse(int argc, char **argv, struct job *job)
{
    struct diag diag = {0};
    struct device_list list = {0};
    if (argc != 5 || (strcmp(argv[2], "write") != 0 && strcmp(argv[2], "read") != 0) ||
        !measure_parse(argv[3], argv[4], &job->len, &job->ms)) {
        fprintf(stderr, "usage: raw_window DEVICE write|read LENGTH MS\n");
        return false;
    }
    job->direction = strcmp(argv[2], "write") == 0 ? TRANSFER_WRITE : TRANSFER_READ;
    int rc = device_list_parse(argv[1], &diag, &list);
    if (rc == 0 && list.count == 1 && list.at[0].kind == DEVICE_PROVIDER) {
        job->device = list.at[0];
        job->ops = provider_mover(job->device.name);
    }
    device_list_fini(&list);
    if (rc == 0 && job->ops == NULL)
        rc = diag_fail(&diag, S3R_E_RDMA_UNAVAILABLE,
                       "not one device of a provider, as cma or "
                       "ofi:tcp are");
    if (rc)
        fail(argv[1], &diag, rc);
    return job->ops != NULL;
}

/* The server's side. */
static int run(struct job *job, const struct other *other, struct measured *m)
{
    struct diag diag = {0};
    job->local = measure_memory(job->len, OURS);
    if (job->local == NULL ||
        read(other->from, &job->token, sizeof job->token) != (ssize_t)sizeof job->token)
        return S3R_E_INTERNAL;
    int rc = job->ops->open(job->device.rest, &diag, &job->mover);
    if (rc)
        return fail("mover", &diag, rc);
    rc = job->ops->memory_add(job->mover, job->local, job->len, &diag, &job->registration);
    if (rc == 0) {
        rc = measure(job->ms, other->pid, transfer_once, job, m);
        job->ops->memory_remove(job->mover, job->registration);
    } else {
        fail("registration", &diag, rc);
    }
    job->ops->close(job->mover);
    return rc;
}

int main(int argc, char **argv)
{
    static struct job job;
    struct other other = {0};
    struct measured m;
    if (!parse(argc, argv, &job))
        return 2;
    if (other_start(own, &job, &other) != 0)
        return 1;
    bool is_done = run(&job, &other, &m) == 0;
    bool is_right =
        other_end(&other) == 0 && is_done &&
        measure_is_all(job.local, job.len, job.direction == TRANSFER_WRITE ? OURS : THEIRS);
    if (is_right)
        measure_print(argv[2], "window", job.len, &m);
    else if (is_done)
        fprintf(stderr, "raw_window: the bytes that arrived are not those that were sent\n");
    return !is_right;
}
