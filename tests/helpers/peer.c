/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers/peer.h"

#include "unit/cm.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Tests lie in tests/unit of the build folder, the helper beside it. */
static void helper_path(char *out, size_t size)
{
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(out, size, "%s/../helpers/rdma_peer", self);
}

struct peer_process *peer_start(void)
{
    char path[600];
    int in[2], out[2];
    struct peer_process *p = calloc(1, sizeof *p);
    assert_non_null(p);
    helper_path(path, sizeof path);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    p->pid = fork();
    if (p->pid == 0) {
        /* A failed test leaves none behind, stopped ones least of all. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    assert_true(p->pid > 0);
    close(in[0]);
    close(out[1]);
    p->to = fdopen(in[1], "w");
    p->from = fdopen(out[0], "r");
    assert_non_null(p->to);
    assert_non_null(p->from);
    setvbuf(p->to, NULL, _IOLBF, 0);
    return p;
}

static void tell(struct peer_process *p, const char *fmt, va_list args)
{
    vfprintf(p->to, fmt, args);
    fputc('\n', p->to);
    fflush(p->to);
}

void peer_tell(struct peer_process *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    tell(p, fmt, args);
    va_end(args);
}

const char *peer_hear(struct peer_process *p)
{
    if (!fgets(p->reply, sizeof p->reply, p->from))
        p->reply[0] = '\0';
    p->reply[strcspn(p->reply, "\n")] = '\0';
    return p->reply;
}

const char *peer_ask(struct peer_process *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    tell(p, fmt, args);
    va_end(args);
    return peer_hear(p);
}

static int end(struct peer_process *p)
{
    int status;
    fclose(p->to);
    fclose(p->from);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    free(p);
    return status;
}

void peer_stop(struct peer_process *p)
{
    assert_int_equal(end(p), 0);
}

void peer_freeze(const struct peer_process *p)
{
    siginfo_t info;
    assert_int_equal(kill(p->pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)p->pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
    assert_int_equal(info.si_code, CLD_STOPPED);
}

void peer_thaw(const struct peer_process *p)
{
    assert_int_equal(kill(p->pid, SIGCONT), 0);
}

void peer_kill(struct peer_process *p)
{
    kill(p->pid, SIGKILL);
    end(p);
}
