/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/cma/process.h"

#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#define STAT_START_FIELD 22
#define STAT_LEN_MAX 1024

/* The second field is the program's name and may hold anything, ") R 1" included: count from the
 * last parenthesis, which ends it. */
static bool parse_start(const char *stat, uint64_t *ret_start)
{
    const char *s = strrchr(stat, ')');
    if (!s)
        return false;
    for (int field = 2; field < STAT_START_FIELD; field++) {
        s = strchr(s + 1, ' ');
        if (!s)
            return false;
    }
    s++;
    return num_parse_dec(s, strcspn(s, " \n"), UINT64_MAX >> PROCESS_PID_BITS, ret_start);
}

bool process_read_start(int proc_fd, uint64_t *ret_start)
{
    char stat[STAT_LEN_MAX];
    CLEANUP(closep) int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, stat, sizeof stat - 1);
    if (n <= 0) {
        errno = n == 0 ? ESRCH : errno;
        return false;
    }
    stat[n] = '\0';
    return parse_start(stat, ret_start);
}

int process_self(struct diag *diag, process_id *ret_id)
{
    uint64_t start;
    CLEANUP(closep) int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || !process_read_start(fd, &start))
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "/proc/self/stat cannot be read: %s",
                         strerrordesc_np(errno));
    *ret_id = process_id_of((uint64_t)getpid(), start);
    return 0;
}

/* The leader of a process may be a zombie while others of its threads still copy: only the pidfd
 * knows when the last one is gone. */
static bool has_exited(uint64_t pid)
{
    CLEANUP(closep) int fd = pidfd_open((pid_t)pid, 0);
    if (fd < 0)
        return errno == ESRCH || errno == EINVAL;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

/* Is what is mounted at /proc that of our own pid namespace? A program may have changed its root or
 * its mounts since the table was opened. */
static bool is_proc_ours(void)
{
    char link[16];
    uint64_t pid;
    ssize_t n = readlink("/proc/self", link, sizeof link);
    return n > 0 && (size_t)n < sizeof link && num_parse_dec(link, (size_t)n, INT32_MAX, &pid) &&
           (pid_t)pid == getpid();
}

bool process_is_gone(process_id id)
{
    char path[32];
    uint64_t start, pid = process_pid(id);
    if (pid == 0 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH) || has_exited(pid))
        return true;
    /* Somebody has the pid. What /proc does not show proves nothing. */
    snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)pid);
    CLEANUP(closep) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && is_proc_ours() && process_read_start(fd, &start) &&
           start != process_start(id);
}

int process_ptrace_scope(void)
{
    char digit;
    CLEANUP(closep) int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &digit, 1) != 1 || digit < '0' || digit > '3')
        return 0;
    return digit - '0';
}
