/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "cma_side.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>

/* ---- servers and clients that are killed or stopped ---- */

static void an_owner_killed_in_the_middle_is_an_error_of_that_transfer(void **state)
{
    struct side *s = *state;
    size_t len = 64 * MIB;
    unsigned char *local = map_memory(len);
    memset(local, 1, len);
    for (int round = scaled(50); round > 0; round--) {
        int rc;
        struct peer_process *p = peer_start();
        assert_string_equal(peer_ask(p, "own cma %zu", len), "ok");
        const char *token = strdup(peer_ask(p, "open 0 %zu", len));
        assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, local, 1), 0);
        pid_t killer = fork();
        if (killer == 0) {
            usleep((useconds_t)(random_u64() % 5000));
            kill(p->pid, SIGKILL);
            _exit(0);
        }
        do {
            rc = moved_by(s->mover, token, TRANSFER_WRITE, 0, local, len);
        } while (!rc);
        assert_true(rc == S3R_E_RDMA_PEER || rc == S3R_E_RDMA_TRANSFER);
        waitpid(killer, NULL, 0);
        peer_kill(p);
        assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, local, 1), S3R_E_RDMA_PEER);
        free((void *)token);
    }
    unmap_memory(local, len);
}

static void a_stopped_owner_delays_nobody(void **state)
{
    struct side *s = *state;
    struct peer_process *p = peer_start();
    unsigned char *local = map_memory(LEN);
    memset(local, 0x66, LEN);
    assert_string_equal(peer_ask(p, "own cma %zu", LEN), "ok");
    const char *token = strdup(peer_ask(p, "open 0 %zu", LEN));
    peer_freeze(p);
    assert_int_equal(moved_by(s->mover, token, TRANSFER_WRITE, 0, local, LEN), 0);
    peer_thaw(p);
    assert_string_equal(peer_ask(p, "is 66"), "yes");
    free((void *)token);
    unmap_memory(local, LEN);
    peer_stop(p);
}

/* Waits until a peer has written the first byte of the window. */
static void await_byte(const struct side *s, unsigned char value)
{
    while (*(const volatile unsigned char *)s->memory != value)
        usleep(100);
}

/* A living server that holds a mark delays a withdraw for as long as the machine keeps it from
 * running: S3R_E_BUSY, and the caller asks again. */
static void withdraw_at_last(struct owner_window *w)
{
    int rc;
    do
        rc = owner_window_withdraw(w, NULL);
    while (rc == S3R_E_BUSY);
    assert_int_equal(rc, 0);
}

/* More of them than a slot has entries: what the dead held is used again. */
static void servers_killed_in_the_middle_hold_up_neither_withdrawal_nor_others(void **state)
{
    struct side *s = *state;
    struct owner_window *w = opened(s, 0, LEN);
    for (int round = 0; round < 2 * SLOT_HOLDERS; round++) {
        struct peer_process *p = peer_start();
        assert_string_equal(peer_ask(p, "serve cma"), "ok");
        peer_tell(p, "flood 5%x 4 %s", round % 16, owner_window_token(w));
        await_byte(s, (unsigned char)(0x50 + round % 16));
        usleep((useconds_t)(random_u64() % 3000));
        peer_kill(p);
    }
    char byte = 1;
    assert_int_equal(moved_by(s->mover, owner_window_token(w), TRANSFER_WRITE, 0, &byte, 1), 0);
    assert_int_equal(owner_window_withdraw(w, NULL), 0);
    owner_window_close(w);
}

/* One round: a server writes the window for ever and is stopped at some moment. With a small window
 * that is often outside of the copy, with a large one at its end. */
static bool stop_withdraw_continue(struct side *s, struct peer_process *p)
{
    struct diag diag = {""};
    struct owner_window *w = opened(s, 0, (size_t)64 << 2 * (random_u64() % 8));
    peer_tell(p, "flood ee 2 %s", owner_window_token(w));
    await_byte(s, 0xee);
    usleep((useconds_t)(random_u64() % 3000));
    peer_freeze(p);
    int rc = owner_window_withdraw(w, &diag);
    bool was_busy = rc == S3R_E_BUSY;
    if (was_busy) {
        /* as told: it may still write, so nothing is claimed about the memory yet */
        assert_true(diag.text[0] != '\0');
        peer_thaw(p);
        withdraw_at_last(w);
    } else {
        assert_int_equal(rc, 0);
    }
    memset(s->memory, 0x11, LEN);
    peer_thaw(p);
    assert_string_equal(peer_hear(p), "RDMA_PEER");
    assert_true(is_all(s->memory, LEN, 0x11));
    owner_window_close(w);
    return was_busy;
}

static void nothing_lands_after_withdrawal_from_a_server_that_was_stopped(void **state)
{
    struct side *s = *state;
    int busy = 0, rounds = scaled(40);
    struct peer_process *p = peer_start();
    assert_string_equal(peer_ask(p, "serve cma"), "ok");
    for (int i = 0; i < rounds; i++)
        busy += stop_withdraw_continue(s, p);
    print_message("%d of %d times the server was stopped inside a piece\n", busy, rounds);
    peer_stop(p);
}

static void nothing_lands_after_withdrawal_under_load(void **state)
{
    struct side *s = *state;
    struct peer_process *p = peer_start();
    assert_string_equal(peer_ask(p, "serve cma"), "ok");
    for (int i = scaled(500); i > 0; i--) {
        struct owner_window *w = opened(s, 0, LEN);
        peer_tell(p, "flood ee 4 %s", owner_window_token(w));
        usleep((useconds_t)(random_u64() % 2000));
        withdraw_at_last(w);
        memset(s->memory, 0x11, LEN);
        assert_string_equal(peer_hear(p), "RDMA_PEER");
        assert_true(is_all(s->memory, LEN, 0x11));
        owner_window_close(w);
    }
    peer_stop(p);
}

/* ---- the table ---- */

struct racer {
    struct slot *slot;
    atomic_int *inside;
    atomic_bool *is_over;
    uint64_t key;
};

static void *race_main(void *arg)
{
    const struct racer *r = arg;
    struct slot_mark mark;
    process_id self;
    assert_int_equal(process_self(NULL, &self), 0);
    while (!atomic_load(r->is_over)) {
        if (slot_mark(r->slot, self, r->key, &mark))
            continue;
        atomic_fetch_add(r->inside, 1);
        atomic_fetch_sub(r->inside, 1);
        slot_unmark(&mark);
    }
    return NULL;
}

static void no_mark_survives_a_withdrawal(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    assert_non_null(table);
    atomic_int inside = 0;
    atomic_bool is_over = false;
    pthread_t threads[4];
    process_id self;
    struct racer r = {.slot = &table->slots[7], .inside = &inside, .is_over = &is_over, .key = 42};
    assert_int_equal(process_self(NULL, &self), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_main, &r), 0);
    for (uint32_t round = 1, rounds = (uint32_t)scaled(5000); round < rounds; round++) {
        slot_open(r.slot, round, 42, 1, 2);
        sched_yield();
        assert_int_equal(slot_withdraw(r.slot, round, self, 60 * NS_PER_S), 0);
        assert_int_equal(atomic_load(&inside), 0);
        slot_free(r.slot, round);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SLOT_HOLDERS; i++)
        assert_int_equal(atomic_load(&r.slot->holders[i]), 0);
    free(table);
}

static void only_the_marks_of_the_dead_are_cleared(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    struct slot_mark mine, theirs;
    process_id self;
    assert_int_equal(process_self(NULL, &self), 0);
    /* same pid, another start: that process is gone */
    process_id gone = process_id_of(process_pid(self), process_start(self) - 1);
    struct slot *slot = &table->slots[0];
    slot_open(slot, 1, 9, 1, 2);
    assert_int_equal(slot_mark(slot, gone, 9, &theirs), 0);
    assert_int_equal(slot_mark(slot, self, 9, &mine), 0);
    assert_int_equal(slot_withdraw(slot, 1, self, 20 * NS_PER_MS), S3R_E_BUSY);
    assert_int_equal(slot_mark(slot, self, 9, &theirs), S3R_E_RDMA_PEER);
    slot_unmark(&mine);
    assert_int_equal(slot_withdraw(slot, 1, self, 20 * NS_PER_MS), 0);
    free(table);
}

static void all_entries_taken_by_the_living_is_busy_by_the_dead_is_not(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    struct slot_mark marks[SLOT_HOLDERS], one;
    process_id self;
    assert_int_equal(process_self(NULL, &self), 0);
    process_id gone = process_id_of(process_pid(self), process_start(self) - 1);
    struct slot *slot = &table->slots[0];
    slot_open(slot, 1, 9, 1, 2);
    for (int i = 0; i < SLOT_HOLDERS; i++)
        assert_int_equal(slot_mark(slot, i == 5 ? gone : self, 9, &marks[i]), 0);
    assert_int_equal(slot_mark(slot, self, 9, &one), 0);
    assert_int_equal(one.entry, 5);
    assert_int_equal(slot_mark(slot, self, 9, &marks[5]), S3R_E_BUSY);
    free(table);
}

struct tamper {
    volatile unsigned char *table;
    size_t len;
    atomic_bool is_over;
};

static void *tamper_main(void *arg)
{
    struct tamper *t = arg;
    unsigned seed = (unsigned)random_u64();
    while (!atomic_load(&t->is_over)) {
        /* mostly around the slots in use */
        size_t at = (size_t)rand_r(&seed) % 4 ? 4096 + (size_t)rand_r(&seed) % 512
                                              : (size_t)rand_r(&seed) % t->len;
        t->table[at] = (unsigned char)rand_r(&seed);
    }
    return NULL;
}

/* In a process of its own, whose owner half is then in no state to be closed. */
static int run_tampered(struct side *s)
{
    struct owner *o;
    struct owner_window *w[4];
    struct tamper t = {.len = TABLE_LEN};
    pthread_t thread;
    char link[64], path[64];
    size_t len = 65536;
    unsigned char *memory = map_memory(len), *local = map_memory(len);
    if (owner_open("cma", NULL, NULL, &o) || owner_register(o, memory, len, NULL))
        return 10;
    for (int i = 0; i < 4; i++) {
        if (owner_window_open(o, memory, (uint64_t)i * 16384 + 4096, 8192, NULL, &w[i]))
            return 11;
    }
    int table_fd = -1;
    for (int fd = 3; fd < 256 && table_fd < 0; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n > 0 && memmem(link, (size_t)n, TABLE_NAME, strlen(TABLE_NAME)))
            table_fd = fd;
    }
    t.table = mmap(NULL, TABLE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, table_fd, 0);
    if (t.table == MAP_FAILED || pthread_create(&thread, NULL, tamper_main, &t))
        return 12;
    struct mover *m;
    if (mover_open("cma", NULL, &m))
        return 13;
    memset(local, 0xee, len);
    for (int i = scaled(100000); i > 0; i--) {
        uint64_t moved;
        struct token token;
        const char *text = owner_window_token(w[i % 4]);
        if (token_parse(text, strlen(text), NULL, &token))
            return 14;
        struct transfer tr = {.direction = i % 8 < 4 ? TRANSFER_WRITE : TRANSFER_READ,
                              .token = &token,
                              .local = local + 4096,
                              .len = 8192,
                              .deadline_ns = clock_mono_ns() + NS_PER_MS};
        int rc = mover_transfer(m, NULL, &tr, NULL, &moved);
        if (rc && rc != S3R_E_RDMA_PEER && rc != S3R_E_RDMA_BOUNDS && rc != S3R_E_BUSY &&
            rc != S3R_E_RDMA_DEADLINE)
            return 15;
        if (i % 64 == 0)
            memset(local + 4096, 0xee, 8192);
    }
    atomic_store(&t.is_over, true);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < len; i++) {
        bool is_window = i % 16384 >= 4096 && i % 16384 < 12288;
        if (!is_window && memory[i] != 0)
            return 16;
        if ((i < 4096 || i >= 12288) && local[i] != 0xee)
            return 17;
    }
    return 0;
}

static void a_table_full_of_garbage_leads_nowhere(void **state)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_tampered(*state));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- what is not a table ---- */

static int child_with_memfd(unsigned seals, size_t len, process_id *ret_id, int *ret_pipe)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        process_id self;
        int fd = memfd_create(TABLE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (process_self(NULL, &self) || ftruncate(fd, (off_t)len))
            _exit(1);
        struct table_header h = {0};
        atomic_store(&h.magic, TABLE_MAGIC);
        atomic_store(&h.version, TABLE_VERSION);
        atomic_store(&h.len, TABLE_LEN);
        atomic_store(&h.slots, TABLE_SLOTS);
        atomic_store(&h.slot_len, sizeof(struct slot));
        atomic_store(&h.owner, self);
        if (pwrite(fd, &h, sizeof h, 0) != sizeof h || fcntl(fd, F_ADD_SEALS, seals) ||
            write(ready[1], &self, sizeof self) != sizeof self)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], ret_id, sizeof *ret_id), sizeof *ret_id);
    close(ready[0]);
    *ret_pipe = ready[1];
    return pid;
}

static void only_a_sealed_table_of_the_right_size_is_mapped(void **state)
{
    static const struct {
        unsigned seals;
        size_t len;
        bool is_mapped;
    } rows[] = {
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, TABLE_LEN, true},
        {F_SEAL_GROW | F_SEAL_SEAL, TABLE_LEN, false},
        {F_SEAL_SHRINK | F_SEAL_GROW, TABLE_LEN, false},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 4096, false},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, TABLE_LEN + 4096, false},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_WRITE, TABLE_LEN, false},
    };
    struct side *s = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        process_id id;
        int pipe_fd;
        uint64_t moved;
        struct diag diag = {""};
        pid_t pid = child_with_memfd(rows[i].seals, rows[i].len, &id, &pipe_fd);
        struct token t = {.scheme = TOKEN_CMA};
        t.cma = (struct token_cma){.pid = process_pid(id), .start = process_start(id), .key = 1};
        struct transfer tr = {.token = &t};
        assert_int_equal(mover_transfer(s->mover, NULL, &tr, &diag, &moved), S3R_E_RDMA_PEER);
        assert_int_equal(strstr(diag.text, "no window table") == NULL, rows[i].is_mapped);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(pipe_fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SIDE(an_owner_killed_in_the_middle_is_an_error_of_that_transfer),
        WITH_SIDE(a_stopped_owner_delays_nobody),
        WITH_SIDE(servers_killed_in_the_middle_hold_up_neither_withdrawal_nor_others),
        WITH_SIDE(nothing_lands_after_withdrawal_from_a_server_that_was_stopped),
        WITH_SIDE(nothing_lands_after_withdrawal_under_load),
        cmocka_unit_test(no_mark_survives_a_withdrawal),
        cmocka_unit_test(only_the_marks_of_the_dead_are_cleared),
        cmocka_unit_test(all_entries_taken_by_the_living_is_busy_by_the_dead_is_not),
        WITH_SIDE(a_table_full_of_garbage_leads_nowhere),
        WITH_SIDE(only_a_sealed_table_of_the_right_size_is_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
