/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/num.h"
#include "base/pages.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Between two looks at the clock, so that looking costs nothing that could be seen. */
#define BATCH_NS (NS_PER_MS / 4)

bool measure_parse(const char *len_text, const char *ms_text, uint64_t *ret_len, uint64_t *ret_ms)
{
    return num_parse_dec(len_text, strlen(len_text), MEASURE_LEN_MAX, ret_len) && *ret_len > 0 &&
           num_parse_dec(ms_text, strlen(ms_text), MEASURE_MS_MAX, ret_ms) && *ret_ms > 0;
}

void *measure_memory(size_t len, int fill)
{
    void *p = pages_alloc(len);
    if (p == NULL) {
        perror("memory");
        return NULL;
    }
    return memset(p, fill, len);
}

bool measure_is_all(const void *memory, size_t len, int fill)
{
    const unsigned char *p = memory;
    return p[0] == (unsigned char)fill && memcmp(p, p + 1, len - 1) == 0;
}

double cpu_seconds_of(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int measure(uint64_t ms, pid_t peer, measure_fn *fn, void *arg, struct measured *ret)
{
    int rc = fn(arg);
    if (rc)
        return rc;
    struct measured m = {.cpu_seconds = -cpu_seconds_of(0),
                         .peer_cpu_seconds = peer ? -cpu_seconds_of(peer) : 0};
    int64_t start_ns = clock_mono_ns(), end_ns = start_ns + (int64_t)ms * NS_PER_MS;
    int64_t before_ns = start_ns, now_ns;
    uint64_t batch = 1;
    do {
        for (uint64_t i = 0; i < batch; i++) {
            rc = fn(arg);
            if (rc)
                return rc;
        }
        m.count += batch;
        now_ns = clock_mono_ns();
        if (now_ns - before_ns < BATCH_NS)
            batch *= 2;
        before_ns = now_ns;
    } while (now_ns < end_ns);
    m.seconds = (double)(now_ns - start_ns) / 1e9;
    m.cpu_seconds += cpu_seconds_of(0);
    m.peer_cpu_seconds += peer ? cpu_seconds_of(peer) : 0;
    *ret = m;
    return 0;
}

void measure_print(const char *op, const char *by, uint64_t len, const struct measured *m)
{
    double gb = (double)len * (double)m->count / 1e9;
    printf("op=%s by=%s length=%llu count=%llu seconds=%.6f gb_per_s=%.4f us_per_op=%.3f "
           "cpu_s_per_gb=%.4f peer_cpu_s_per_gb=%.4f\n",
           op, by, (unsigned long long)len, (unsigned long long)m->count, m->seconds,
           gb / m->seconds, m->seconds / (double)m->count * 1e6, m->cpu_seconds / gb,
           m->peer_cpu_seconds / gb);
}

int other_start(other_fn *fn, void *arg, struct other *ret)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        perror("pipe");
        return S3R_E_INTERNAL;
    }
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        return S3R_E_INTERNAL;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to[1]);
        close(from[0]);
        _exit(fn(to[0], from[1], arg));
    }
    close(to[0]);
    close(from[1]);
    *ret = (struct other){.pid = pid, .to = to[1], .from = from[0]};
    return 0;
}

int other_end(struct other *o)
{
    int status;
    closep(&o->to);
    closep(&o->from);
    if (o->pid <= 0 || waitpid(o->pid, &status, 0) != o->pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
