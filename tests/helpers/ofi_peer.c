// SPDX-License-Identifier: Apache-2.0
#include "../helpers/ofi_peer.h"

#include "base/clock.h"
#include "base/hex.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOWS_MAX 16
#define PAGE 4096
/* The C library sets it whenever anybody sets a disposition. */
#define SA_RESTORER_BIT 0x04000000

struct guarded guarded_new(size_t len, int fill)
{
    size_t inner = (len + PAGE - 1) / PAGE * PAGE + (len == 0 ? PAGE : 0);
    struct guarded g = {.len = len, .map_len = inner + 2 * PAGE};
    g.map = mmap(NULL, g.map_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(g.map != MAP_FAILED);
    assert(mprotect((char *)g.map + PAGE, inner, PROT_READ | PROT_WRITE) == 0);
    /* Its end lies at the end of the last page, so that one byte too many is a fault. */
    g.bytes = (unsigned char *)g.map + PAGE + inner - len;
    memset((char *)g.map + PAGE, fill, inner);
    return g;
}

void guarded_free(struct guarded *g)
{
    if (g->map)
        munmap(g->map, g->map_len);
    *g = (struct guarded){0};
}

static unsigned char pattern_byte(size_t i, unsigned seed)
{
    return (unsigned char)((i * 2654435761u >> 13) ^ (i >> 3) ^ seed * 31 ^ i);
}

void pattern_fill(unsigned char *p, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        p[i] = pattern_byte(i, seed);
}

long pattern_differs(const unsigned char *p, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != pattern_byte(i, seed))
            return (long)i;
    return -1;
}

struct peer peer_start(void)
{
    int to[2], from[2];
    assert(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    pid_t pid = fork();
    assert(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        execl("/proc/self/exe", "test_ofi", "peer", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    return (struct peer){.pid = pid, .to = fdopen(to[1], "w"), .from = fdopen(from[0], "r")};
}

void peer_send(struct peer *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(p->to, fmt, args);
    va_end(args);
    fputc('\n', p->to);
    fflush(p->to);
}

const char *peer_answer(struct peer *p)
{
    static _Thread_local char line[PEER_LINE_MAX];
    if (!fgets(line, sizeof(line), p->from))
        return "(no answer)";
    line[strcspn(line, "\n")] = '\0';
    return line;
}

const char *peer_ask(struct peer *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(p->to, fmt, args);
    va_end(args);
    fputc('\n', p->to);
    fflush(p->to);
    return peer_answer(p);
}

void peer_strike(const struct peer *p, int signal)
{
    siginfo_t info;
    assert(kill(p->pid, signal) == 0);
    assert(waitid(P_PID, (id_t)p->pid, &info, WEXITED | WSTOPPED | WNOWAIT) == 0);
}

void peer_stop(struct peer *p)
{
    if (!p->pid)
        return;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    fclose(p->to);
    fclose(p->from);
    *p = (struct peer){0};
}

void token_to_hex(const struct token *t, char *out)
{
    hex_encode(t, sizeof(*t), out);
}

void peer_token(struct peer *p, int window, size_t off, size_t len, struct token *ret_token)
{
    const char *hex = peer_ask(p, "window %d %zu %zu", window, off, len);
    assert(hex_decode(hex, strlen(hex), ret_token, sizeof(*ret_token)));
}

/* The other process. */

static struct {
    void *owner, *region, *windows[WINDOWS_MAX], *mover;
    struct guarded memory;
} me;

static void say_code(int rc, const struct diag *diag)
{
    printf("%s %s\n", rc ? error_name(rc) : "ok", rc ? diag_text(diag, rc) : "");
}

static void obey_owner(const char *device)
{
    struct diag diag = {0};
    int rc = ofi_owner_ops.open(device, NULL, &diag, &me.owner);
    say_code(rc, &diag);
}

static void obey_memory(size_t len, unsigned seed)
{
    struct diag diag = {0};
    me.memory = guarded_new(len, 0);
    pattern_fill(me.memory.bytes, len, seed);
    int rc = ofi_owner_ops.region_add(me.owner, me.memory.bytes, len, &diag, &me.region);
    say_code(rc, &diag);
}

static void obey_window(int i, size_t off, size_t len)
{
    struct diag diag = {0};
    struct token t;
    memset(&t, 0, sizeof(t));
    int rc = ofi_owner_ops.window_open(me.owner, me.region, off, len, &diag, &me.windows[i], &t);
    char hex[2 * sizeof(t) + 1];
    token_to_hex(&t, hex);
    if (rc == 0)
        puts(hex);
    else
        say_code(rc, &diag);
}

static void obey_withdraw(int i, bool is_settled)
{
    struct diag diag = {0};
    if (is_settled)
        ofi_owner_ops.window_settle(me.owner, me.windows[i]);
    int rc = ofi_owner_ops.window_withdraw(me.owner, me.windows[i], &diag);
    if (rc == 0)
        ofi_owner_ops.window_close(me.owner, me.windows[i]);
    say_code(rc, &diag);
}

static void obey_move(char *args)
{
    char way, hex[PEER_LINE_MAX];
    unsigned seed;
    size_t off, len;
    int deadline_ms;
    struct token token;
    if (sscanf(args, "%c %zu %zu %u %d %4095s", &way, &off, &len, &seed, &deadline_ms, hex) != 6 ||
        !hex_decode(hex, strlen(hex), &token, sizeof(token))) {
        puts("bad move");
        return;
    }
    struct guarded local = guarded_new(len, 0xEE);
    if (way == 'w')
        pattern_fill(local.bytes, len, seed);
    struct transfer t = {.direction = way == 'w' ? TRANSFER_WRITE : TRANSFER_READ,
                         .token = &token,
                         .window_off = off,
                         .local = local.bytes,
                         .len = len,
                         .deadline_ns = clock_mono_ns() + deadline_ms * NS_PER_MS};
    struct diag diag = {0};
    uint64_t moved = 0;
    int rc = ofi_mover_ops.transfer(me.mover, &t, &diag, &moved);
    long differs = rc == 0 ? pattern_differs(local.bytes, len, seed) : -1;
    size_t secret = 0;
    for (size_t i = 0; i < len && way == 'r'; i++)
        secret += local.bytes[i] == PEER_SECRET;
    printf("%s secret %zu %llu %ld %s\n", rc ? error_name(rc) : "ok", secret,
           (unsigned long long)moved, differs, rc ? diag_text(&diag, rc) : "");
    guarded_free(&local);
}

static void obey_signals(const char *device)
{
    struct sigaction before[_NSIG], after[_NSIG];
    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    struct diag diag = {0};
    for (int i = 1; i < _NSIG; i++)
        (void)sigaction(i, NULL, &before[i]);
    void *owner = NULL, *mover = NULL;
    int rc = ofi_owner_ops.open(device, NULL, &diag, &owner);
    if (rc == 0)
        rc = ofi_mover_ops.open(device, &diag, &mover);
    for (int i = 1; i < _NSIG; i++) {
        (void)sigaction(i, NULL, &after[i]);
        int changed = before[i].sa_flags ^ after[i].sa_flags;
        if (before[i].sa_handler != after[i].sa_handler || (changed & ~SA_RESTORER_BIT))
            rc = -i;
    }
    if (owner)
        ofi_owner_ops.close(owner);
    if (mover)
        ofi_mover_ops.close(mover);
    printf("%d %s\n", rc, diag.text);
}

static void obey(char *line)
{
    char word[16] = "", rest[PEER_LINE_MAX] = "";
    size_t a = 0, b = 0;
    int i = 0;
    unsigned seed = 0;
    sscanf(line, "%15s %4000[^\n]", word, rest);
    if (strcmp(word, "owner") == 0) {
        obey_owner(rest);
    } else if (strcmp(word, "mover") == 0) {
        struct diag diag = {0};
        int rc = ofi_mover_ops.open(rest, &diag, &me.mover);
        say_code(rc, &diag);
    } else if (strcmp(word, "memory") == 0 && sscanf(rest, "%zu %u", &a, &seed) == 2) {
        obey_memory(a, seed);
    } else if (strcmp(word, "window") == 0 && sscanf(rest, "%d %zu %zu", &i, &a, &b) == 3) {
        obey_window(i, a, b);
    } else if (strcmp(word, "withdraw") == 0 && sscanf(rest, "%d", &i) == 1) {
        obey_withdraw(i, false);
    } else if (strcmp(word, "settle") == 0 && sscanf(rest, "%d", &i) == 1) {
        obey_withdraw(i, true);
    } else if (strcmp(word, "check") == 0 && sscanf(rest, "%zu %zu %u", &a, &b, &seed) == 3) {
        printf("%ld\n", pattern_differs(me.memory.bytes + a, b, seed));
    } else if (strcmp(word, "move") == 0) {
        obey_move(rest);
    } else if (strcmp(word, "signals") == 0) {
        obey_signals(rest);
    } else {
        puts("bad command");
    }
    fflush(stdout);
}

int peer_main(void)
{
    static char line[PEER_LINE_MAX];
    while (fgets(line, sizeof(line), stdin))
        obey(line);
    return 0;
}
