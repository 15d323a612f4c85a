/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "cma_side.h"
#include "rdma/cma/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- between two processes ---- */

static void bytes_move_both_ways_between_processes(void **state)
{
    struct side *s = *state;
    struct peer_process *p = peer_start();
    unsigned char *local = map_memory(LEN);
    assert_string_equal(peer_ask(p, "own cma %zu", LEN), "ok");
    assert_string_equal(peer_ask(p, "fill 11"), "ok");
    const char *token = strdup(peer_ask(p, "open 0 %zu", LEN));
    assert_int_equal(moved_by(s->mover, token, TRANSFER_READ, 0, local, LEN), 0);
    assert_true(is_all(local, LEN, 0x11));
    memset(local, 0x22, LEN);
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, local, LEN), 0);
    assert_string_equal(peer_ask(p, "is 22"), "yes");
    /* every start and end that is not a page's */
    memset(local, 0x33, LEN);
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 1, local, 4097), 0);
    assert_string_equal(peer_ask(p, "is 22"), "1");
    assert_string_equal(peer_ask(p, "guards"), "yes");
    free((void *)token);
    unmap_memory(local, LEN);
    peer_stop(p);
}

static void a_transfer_of_many_pieces_arrives_whole(void **state)
{
    struct side *s = *state;
    size_t len = 3 * LIMIT_WINDOW_PIECE_LEN + 12345;
    unsigned char *from = map_memory((len + 4095) & ~(size_t)4095);
    struct peer_process *p = peer_start();
    memset(from, 0x5a, len);
    assert_string_equal(peer_ask(p, "own cma %zu", len), "ok");
    const char *token = strdup(peer_ask(p, "open 0 %zu", len));
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, from, len), 0);
    assert_string_equal(peer_ask(p, "is 5a"), "yes");
    assert_string_equal(peer_ask(p, "guards"), "yes");
    free((void *)token);
    unmap_memory(from, (len + 4095) & ~(size_t)4095);
    peer_stop(p);
}

static void nothing_moves_after_the_owner_withdrew(void **state)
{
    struct side *s = *state;
    char byte = 0x77;
    struct peer_process *p = peer_start();
    assert_string_equal(peer_ask(p, "own cma 4096"), "ok");
    const char *token = strdup(peer_ask(p, "open 0 4096"));
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, &byte, 1), 0);
    assert_string_equal(peer_ask(p, "withdraw"), "ok");
    assert_string_equal(peer_ask(p, "fill 00"), "ok");
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, &byte, 1), S3R_E_RDMA_PEER);
    assert_int_equal(moved_by(s->mover, token, TRANSFER_READ, 0, &byte, 1), S3R_E_RDMA_PEER);
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, NULL, 0), S3R_E_RDMA_PEER);
    assert_string_equal(peer_ask(p, "is 00"), "yes");
    free((void *)token);
    peer_stop(p);
}

static int with_token(struct side *s, const struct token *t, size_t len)
{
    char text[LIMIT_TOKEN_LEN_MAX];
    unsigned char *local = map_memory(LEN);
    memset(local, 0xee, LEN);
    assert_int_equal(token_print(t, text, sizeof text), 0);
    int rc = moved_by(s->mover, text, TRANSFER_WRITE, 0, local, len);
    assert_int_equal(moved_by(s->mover, text, TRANSFER_READ, 0, local, len), rc);
    assert_true(is_all(local, LEN, 0xee));
    unmap_memory(local, LEN);
    return rc;
}

static void forged_tokens_are_refused_and_touch_nothing(void **state)
{
    struct side *s = *state;
    struct token good, t;
    struct peer_process *p = peer_start(), *other = peer_start();
    assert_string_equal(peer_ask(p, "own cma 65536"), "ok");
    assert_string_equal(peer_ask(p, "fill 01"), "ok");
    assert_string_equal(peer_ask(other, "own cma 65536"), "ok");
    assert_string_equal(peer_ask(other, "fill 01"), "ok");
    assert_string_not_equal(peer_ask(other, "open 0 65536"), "");
    peer_ask(p, "open 4096 8192");
    assert_int_equal(token_parse(p->reply, strlen(p->reply), NULL, &good), 0);

    t = good;
    t.cma.key ^= 1;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    t = good;
    t.cma.key = 0;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    for (t = good, t.cma.slot = 1; t.cma.slot; t.cma.slot *= 2)
        assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    t = good;
    t.cma.pid = (uint64_t)other->pid;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    t = good;
    t.cma.start++;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    t = good;
    t.cma.start = UINT64_MAX;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    t = good;
    t.cma.pid = INT32_MAX;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_PEER);
    t = good;
    t.cma.pid = 1;
    assert_int_not_equal(with_token(s, &t, 8192), 0);
    t = good;
    t.size += 4096;
    assert_int_equal(with_token(s, &t, 12288), S3R_E_RDMA_BOUNDS);
    assert_int_equal(with_token(s, &t, 4096), S3R_E_RDMA_BOUNDS);
    t = good;
    t.addr -= 4096;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_BOUNDS);
    t = good;
    t.addr += 4096;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_BOUNDS);
    t = good;
    t.addr = UINT64_MAX - 8192;
    assert_int_equal(with_token(s, &t, 8192), S3R_E_RDMA_BOUNDS);
    assert_int_equal(with_token(s, &good, 8193), S3R_E_RDMA_BOUNDS);

    assert_string_equal(peer_ask(p, "is 01"), "yes");
    assert_string_equal(peer_ask(p, "guards"), "yes");
    assert_string_equal(peer_ask(other, "is 01"), "yes");
    assert_string_equal(peer_ask(other, "guards"), "yes");
    peer_stop(p);
    peer_stop(other);
}

static void a_pid_of_another_kind_of_process_is_refused(void **state)
{
    struct side *s = *state;
    struct diag diag = {""};
    /* a process of ours without a table: the process that started this one, most likely */
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    char path[32];
    uint64_t start;
    snprintf(path, sizeof path, "/proc/%d", pid);
    CLEANUP(closep) int fd = open(path, O_PATH | O_DIRECTORY);
    assert_true(process_read_start(fd, &start));
    struct token t = {.scheme = TOKEN_CMA, .addr = 4096, .size = 1};
    t.cma = (struct token_cma){.pid = (uint64_t)pid, .start = start, .key = 1};
    char byte;
    uint64_t moved;
    struct transfer tr = {.token = &t, .local = &byte, .len = 1};
    assert_int_equal(mover_transfer(s->mover, NULL, &tr, &diag, &moved), S3R_E_RDMA_PEER);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    diag_clear(&diag);
    assert_int_equal(mover_transfer(s->mover, NULL, &tr, &diag, &moved), S3R_E_RDMA_PEER);
}

static void a_process_that_executes_another_program_is_out_of_reach(void **state)
{
    struct side *s = *state;
    int ready[2];
    char text[LIMIT_TOKEN_LEN_MAX] = "", byte = 1;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct owner *o;
        struct owner_window *w;
        static char memory[4096];
        if (owner_open("cma", NULL, NULL, &o) || owner_register(o, memory, sizeof memory, NULL) ||
            owner_window_open(o, memory, 0, sizeof memory, NULL, &w))
            _exit(1);
        const char *token = owner_window_token(w);
        if (write(ready[1], token, strlen(token)) < 0)
            _exit(1);
        raise(SIGSTOP);
        execl("/bin/sleep", "sleep", "100", (char *)NULL);
        _exit(1);
    }
    assert_true(read(ready[0], text, sizeof text - 1) > 0);
    assert_int_equal(moved_by(s->mover, text, TRANSFER_WRITE, 0, &byte, 1), 0);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    kill(pid, SIGCONT);
    /* The pipe ends when the new program has taken the old one's place. */
    close(ready[1]);
    assert_int_equal(read(ready[0], text + strlen(text), 1), 0);
    assert_int_equal(moved_by(s->mover, text, TRANSFER_WRITE, 0, &byte, 1), S3R_E_RDMA_PEER);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
}

static bool is_cancelled_later(void *arg)
{
    int *pieces = arg;
    return --*pieces < 0;
}

static void deadline_and_cancellation_stop_between_pieces(void **state)
{
    struct side *s = *state;
    size_t len = 2 * LIMIT_WINDOW_PIECE_LEN;
    unsigned char *all = map_memory(2 * len);
    struct owner_window *w;
    struct token token;
    uint64_t moved;
    int pieces = 2; /* the mover looks once, then before each piece */
    assert_int_equal(owner_register(s->owner, all, len, NULL), 0);
    assert_int_equal(owner_window_open(s->owner, all, 0, len, NULL, &w), 0);
    assert_int_equal(token_parse(owner_window_token(w), strlen(owner_window_token(w)), NULL,
                                 &token),
                     0);
    struct transfer t = {.token = &token,
                         .local = all + len,
                         .len = len,
                         .is_cancelled = is_cancelled_later,
                         .cancel_arg = &pieces};
    memset(all + len, 0x44, len);
    assert_int_equal(mover_transfer(s->mover, NULL, &t, NULL, &moved), S3R_E_CANCELLED);
    assert_int_equal(moved, LIMIT_WINDOW_PIECE_LEN);
    assert_true(is_all(all, LIMIT_WINDOW_PIECE_LEN, 0x44));
    assert_true(is_all(all + LIMIT_WINDOW_PIECE_LEN, LIMIT_WINDOW_PIECE_LEN, 0));
    t.is_cancelled = NULL;
    t.deadline_ns = clock_mono_ns() - 1;
    assert_int_equal(mover_transfer(s->mover, NULL, &t, NULL, &moved), S3R_E_RDMA_DEADLINE);
    assert_int_equal(moved, 0);
    owner_window_close(w);
    assert_int_equal(owner_deregister(s->owner, all), 0);
    unmap_memory(all, 2 * len);
}

/* ---- memory ---- */

static void memory_that_is_read_only_can_be_read_and_not_written(void **state)
{
    struct side *s = *state;
    struct owner_window *w;
    char byte = 0;
    unsigned char *memory = map_memory(4096);
    memory[0] = 0x21;
    assert_int_equal(mprotect(memory, 4096, PROT_READ), 0);
    assert_int_equal(owner_register(s->owner, memory, 4096, NULL), 0);
    assert_int_equal(owner_window_open(s->owner, memory, 0, 4096, NULL, &w), 0);
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_READ, 0, &byte, 1), 0);
    assert_int_equal(byte, 0x21);
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, &byte, 1),
                     S3R_E_RDMA_TRANSFER);
    owner_window_close(w);
    assert_int_equal(owner_deregister(s->owner, memory), 0);
    unmap_memory(memory, 4096);
}

static void memory_that_is_gone_is_an_error_of_that_transfer(void **state)
{
    struct side *s = *state;
    struct owner_window *w;
    unsigned char *memory = map_memory(3 * 4096), *local = map_memory(3 * 4096);
    assert_int_equal(owner_register(s->owner, memory, 3 * 4096, NULL), 0);
    assert_int_equal(owner_window_open(s->owner, memory, 0, 3 * 4096, NULL, &w), 0);
    assert_int_equal(munmap(memory + 4096, 4096), 0);
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, local, 3 * 4096),
                     S3R_E_RDMA_TRANSFER);
    /* and so is local memory that cannot be read */
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, local - 1, 2),
                     S3R_E_RDMA_TRANSFER);
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, local, 4096), 0);
    owner_window_close(w);
    assert_int_equal(owner_deregister(s->owner, memory), 0);
    munmap(memory - 4096, 5 * 4096);
    unmap_memory(local, 3 * 4096);
}

/* ---- forks ---- */

static int run_child(struct side *s, struct owner_window *w)
{
    struct owner *o;
    struct mover *m;
    struct owner_window *own;
    struct diag diag = {""};
    static unsigned char memory[4096];
    char byte = 0x55;
    if (owner_window_withdraw(w, &diag) != S3R_E_RDMA_UNAVAILABLE || !strstr(diag.text, "fork"))
        return 2;
    if (owner_register(s->owner, memory, 1, NULL) != S3R_E_RDMA_UNAVAILABLE ||
        owner_window_open(s->owner, s->memory, 0, 1, NULL, &own) != S3R_E_RDMA_UNAVAILABLE ||
        owner_deregister(s->owner, s->memory) != S3R_E_RDMA_UNAVAILABLE ||
        owner_healthy_count(s->owner) != 0)
        return 3;
    if (moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, &byte, 1) !=
        S3R_E_RDMA_UNAVAILABLE)
        return 4;
    owner_window_close(w);
    owner_close(s->owner);
    mover_close(s->mover);
    if (owner_open("cma", NULL, NULL, &o) || mover_open("cma", NULL, &m) ||
        owner_register(o, memory, sizeof memory, NULL) ||
        owner_window_open(o, memory, 0, sizeof memory, NULL, &own) ||
        moved_by(m, owner_window_token(own), TRANSFER_WRITE, 0, &byte, 1) || memory[0] != 0x55)
        return 5;
    owner_window_close(own);
    owner_close(o);
    mover_close(m);
    return 0;
}

static void a_forked_child_refuses_the_parents_handles_and_opens_its_own(void **state)
{
    struct side *s = *state;
    int status;
    struct owner_window *w = opened(s, 0, LEN);
    char byte = 0x31;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_child(s, w));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    /* the parent's window is as it was */
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, &byte, 1), 0);
    assert_int_equal(s->memory[0], 0x31);
    owner_window_close(w);
}

/* ---- refusals of the kernel ---- */

static void deny_process_vm_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(77);
}

static int run_filtered(struct side *s, const char *token)
{
    struct mover *before, *after;
    struct diag diag = {""}, why = {""};
    struct token t;
    uint64_t moved;
    char byte = 1;
    if (token_parse(token, strlen(token), NULL, &t) || mover_open("cma", NULL, &before))
        return 2;
    deny_process_vm_calls();
    if (mover_open("cma", &diag, &after) != S3R_E_RDMA_UNAVAILABLE || !strstr(diag.text, "seccomp"))
        return 3;
    struct transfer tr = {.token = &t, .local = &byte, .len = 1};
    if (mover_transfer(before, NULL, &tr, &why, &moved) != S3R_E_RDMA_UNAVAILABLE ||
        !strstr(why.text, "seccomp"))
        return 4;
    mover_close(before);
    return 0;
}

static void a_copy_that_seccomp_denies_is_a_decline_that_says_so(void **state)
{
    struct side *s = *state;
    int status;
    struct owner_window *w = opened(s, 0, 4096);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_filtered(s, owner_window_token(w)));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    owner_window_close(w);
}

static int run_as_other_user(const char *token)
{
    struct mover *m;
    struct diag diag = {""};
    struct token t;
    uint64_t moved;
    char byte = 1;
    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 77;
    if (token_parse(token, strlen(token), NULL, &t) || mover_open("cma", NULL, &m))
        return 2;
    struct transfer tr = {.token = &t, .local = &byte, .len = 1};
    int rc = mover_transfer(m, NULL, &tr, &diag, &moved);
    mover_close(m);
    if (rc != S3R_E_TOKEN_DECLINED && rc != S3R_E_RDMA_UNAVAILABLE)
        return 3;
    return strstr(diag.text, "user") || strstr(diag.text, "Permission") ? 0 : 4;
}

static void another_users_process_is_declined(void **state)
{
    struct side *s = *state;
    int status;
    struct owner_window *w = opened(s, 0, 4096);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_as_other_user(owner_window_token(w)));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    assert_true(is_all(s->memory, 4096, 0));
    owner_window_close(w);
}

/* ---- nothing is left behind ---- */

static void descriptors_are_given_back(void **state)
{
    struct owner *o;
    struct mover *m;
    static unsigned char memory[4096];
    int before = count_descriptors();
    for (int i = 0; i < 100; i++) {
        struct owner_window *w;
        char byte = 1;
        assert_int_equal(owner_open("cma", NULL, NULL, &o), 0);
        assert_int_equal(mover_open("cma", NULL, &m), 0);
        assert_int_equal(owner_register(o, memory, sizeof memory, NULL), 0);
        assert_int_equal(owner_window_open(o, memory, 0, 1, NULL, &w), 0);
        assert_int_equal(moved_by(m, owner_window_token(w), TRANSFER_WRITE, 0, &byte, 1), 0);
        owner_window_close(w);
        owner_close(o);
        mover_close(m);
    }
    assert_int_equal(count_descriptors(), before);
}

static void tables_of_processes_that_are_gone_are_let_go(void **state)
{
    struct mover *m;
    char byte = 1;
    int before = count_descriptors();
    assert_int_equal(mover_open("cma", NULL, &m), 0);
    for (int i = 0; i < 10; i++) {
        struct peer_process *p = peer_start();
        assert_string_equal(peer_ask(p, "own cma 4096"), "ok");
        assert_int_equal(moved_by(m, peer_ask(p, "open 0 4096"), TRANSFER_WRITE, 0, &byte, 1), 0);
        peer_kill(p);
    }
    assert_true(count_descriptors() > before);
    struct token t = {.scheme = TOKEN_CMA, .cma = {.pid = 1, .start = 1}};
    uint64_t moved;
    struct transfer tr = {.token = &t};
    /* Dead ones are looked for once a second. */
    int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    do {
        usleep(10000);
        assert_int_not_equal(mover_transfer(m, NULL, &tr, NULL, &moved), 0);
    } while (count_descriptors() > before && clock_mono_ns() < until);
    assert_int_equal(count_descriptors(), before);
    mover_close(m);
}

/* A process that only has a window, until it is killed. */
static pid_t start_small_owner(char *ret_token, size_t size)
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static char memory[64];
        struct owner *o;
        struct owner_window *w;
        if (owner_open("cma", NULL, NULL, &o) || owner_register(o, memory, sizeof memory, NULL) ||
            owner_window_open(o, memory, 0, sizeof memory, NULL, &w))
            _exit(1);
        const char *token = owner_window_token(w);
        if (write(out[1], token, strlen(token) + 1) < 0)
            _exit(1);
        pause();
        _exit(0);
    }
    close(out[1]);
    assert_true(read(out[0], ret_token, size) > 0);
    close(out[0]);
    return pid;
}

static void more_processes_than_are_kept_are_served_all_the_same(void **state)
{
    enum { OWNERS = PEERS_MAX + 20 };
    static pid_t pids[OWNERS];
    static char text[OWNERS][128];
    struct mover *m;
    int before = count_descriptors();
    assert_int_equal(mover_open("cma", NULL, &m), 0);
    for (int i = 0; i < OWNERS; i++)
        pids[i] = start_small_owner(text[i], sizeof text[i]);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < OWNERS; i++) {
            char byte = 1;
            assert_int_equal(moved_by(m, text[i], TRANSFER_WRITE, 0, &byte, 1), 0);
        }
    }
    assert_int_equal(count_descriptors() - before, PEERS_MAX);
    for (int i = 0; i < OWNERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    mover_close(m);
    assert_int_equal(count_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SIDE(bytes_move_both_ways_between_processes),
        WITH_SIDE(a_transfer_of_many_pieces_arrives_whole),
        WITH_SIDE(nothing_moves_after_the_owner_withdrew),
        WITH_SIDE(forged_tokens_are_refused_and_touch_nothing),
        WITH_SIDE(a_pid_of_another_kind_of_process_is_refused),
        WITH_SIDE(a_process_that_executes_another_program_is_out_of_reach),
        WITH_SIDE(deadline_and_cancellation_stop_between_pieces),
        WITH_SIDE(memory_that_is_read_only_can_be_read_and_not_written),
        WITH_SIDE(memory_that_is_gone_is_an_error_of_that_transfer),
        WITH_SIDE(a_forked_child_refuses_the_parents_handles_and_opens_its_own),
        WITH_SIDE(a_copy_that_seccomp_denies_is_a_decline_that_says_so),
        WITH_SIDE(another_users_process_is_declined),
        cmocka_unit_test(descriptors_are_given_back),
        cmocka_unit_test(more_processes_than_are_kept_are_served_all_the_same),
        cmocka_unit_test(tables_of_processes_that_are_gone_are_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
