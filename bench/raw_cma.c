/* SPDX-License-Identifier: Apache-2.0 */
/* raw_cma - the wire of `cma` bare: one process copies into or out of another's memory, nothing
 * else. raw_cma write|read LENGTH MS write: process_vm_writev, what a GET comes down to; read:
 * process_vm_readv, a PUT. Prints one line of name=value; the bytes are compared at the end. */
#include "base/error.h"
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OURS = 0x5a, THEIRS = 0xa5 };

struct job {
    bool is_write;
    uint64_t len, ms;
    pid_t pid;
    char *local, *remote;
};

static int copy_once(void *arg)
{
    struct job *job = arg;
    size_t done = 0;
    while (done < job->len) {
        struct iovec local = {job->local + done, job->len - done};
        struct iovec remote = {job->remote + done, job->len - done};
        ssize_t n = job->is_write ? process_vm_writev(job->pid, &local, 1, &remote, 1, 0)
                                  : process_vm_readv(job->pid, &local, 1, &remote, 1, 0);
        if (n <= 0) {
            fprintf(stderr, "raw_cma: %s: %s\n", job->is_write ? "write" : "read",
                    errno_text(n < 0 ? errno : EFAULT));
            return S3R_E_RDMA_TRANSFER;
        }
        done += (size_t)n;
    }
    return 0;
}

/* Tells where its memory is, waits for the end, and looks at what has become of it. */
static int own(int in, int out, void *arg)
{
    const struct job *job = arg;
    char *memory = measure_memory(job->len, THEIRS);
    char end;
    if (memory == NULL || write(out, &memory, sizeof memory) != sizeof memory)
        return 1;
    if (read(in, &end, 1) != 0)
        return 1;
    return !measure_is_all(memory, job->len, job->is_write ? OURS : THEIRS);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    struct other other = {0};
    struct measured m;
    if (argc != 4 || (strcmp(argv[1], "write") != 0 && strcmp(argv[1], "read") != 0) ||
        !measure_parse(argv[2], argv[3], &job.len, &job.ms)) {
        fprintf(stderr, "usage: raw_cma write|read LENGTH MS\n");
        return 2;
    }
    job.is_write = strcmp(argv[1], "write") == 0;
    if (other_start(own, &job, &other) != 0)
        return 1;
    job.pid = other.pid;
    job.local = measure_memory(job.len, OURS);
    bool is_ready =
        job.local != NULL && read(other.from, &job.remote, sizeof job.remote) == sizeof job.remote;
    bool is_done = is_ready && measure(job.ms, other.pid, copy_once, &job, &m) == 0;
    bool is_right = other_end(&other) == 0 && is_done &&
                    measure_is_all(job.local, job.len, job.is_write ? OURS : THEIRS);
    if (is_right)
        measure_print(argv[1], "raw", job.len, &m);
    else if (is_done)
        fprintf(stderr, "raw_cma: the bytes that arrived are not those that were sent\n");
    return !is_right;
}
