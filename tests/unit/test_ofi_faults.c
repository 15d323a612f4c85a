// SPDX-License-Identifier: Apache-2.0
#include "ofi_side.h"

#include "../helpers/gate.h"

#include "base/limits.h"

#include <assert.h>
#include <signal.h>
#include <sys/mman.h>

/* A writer's first piece is the first LIMIT_WINDOW_PIECE_LEN bytes: the gate holds inside of it. */
#define HALF_PIECE (5 * MIB)
/* A reader asks for all the pieces that it may have in flight at once, so that no later request
 * ends the connection by being refused, and hardly any of the answers pass. */
#define PIECES_LEN (OFI_PIECES_MAX * MIB)
#define BEGINNING (64 * KIB)
static_assert(HALF_PIECE < LIMIT_WINDOW_PIECE_LEN, "inside the first piece");

/* Waits until byte `at` is no longer `fill`: what the gate let pass is being received. */
static void await_arrival(const unsigned char *bytes, size_t at, int fill)
{
    while (((const volatile unsigned char *)bytes)[at] == (unsigned char)fill)
        pause_ms(1);
}

/* A peer writes 64 MiB and is held up in the middle of a message, the window withdrawn, the rest
 * let go. Returns how many bytes changed after the withdraw. */
static size_t writer_held_up(struct side *s, bool is_settled)
{
    size_t len = s->memory.len;
    char hex[2 * sizeof(struct token) + 1];
    CLEANUP(freep) unsigned char *then = malloc(len);
    memset(s->memory.bytes, 0x44, len);
    struct out o = window_new(s, 0, len);
    struct token t = o.token;
    struct gate *gate = gate_open(&t, GATE_TO_OWNER, HALF_PIECE);
    token_to_hex(&t, hex);
    peer_send(&peers[0], "move w 0 %zu 5 %d %s", len, PATIENT_MS, hex);
    gate_await_held(gate);
    await_arrival(s->memory.bytes, 4 * MIB + 12345, 0x44);
    assert_fill(s->memory.bytes + HALF_PIECE, len - HALF_PIECE, 0x44);
    window_end(s, &o, is_settled);
    memcpy(then, s->memory.bytes, len);
    gate_release(gate);
    expect(peer_answer(&peers[0]), "RDMA_PEER");
    gate_close(gate);
    size_t changed = 0;
    for (size_t i = 0; i < len; i++)
        changed += then[i] != s->memory.bytes[i];
    return changed;
}

static void a_writer_held_up_in_a_message_lands_nothing_after_the_withdraw(void **state)
{
    struct side s = side_open(DEVICE, 64 * MIB, 0x44);
    peers[0] = peer_start();
    expect(peer_ask(&peers[0], "mover tcp"), "ok");
    for (int i = 0; i < 3; i++)
        assert_int_equal(writer_held_up(&s, false), 0);
    /* And the same peer can write again at once. */
    struct out o = window_new(&s, 0, s.memory.len);
    char hex[2 * sizeof(struct token) + 1];
    token_to_hex(&o.token, hex);
    expect(peer_ask(&peers[0], "move w 0 %zu 6 %d %s", s.memory.len, PATIENT_MS, hex), "ok");
    assert_int_equal(pattern_differs(s.memory.bytes, s.memory.len, 6), -1);
    window_end(&s, &o, true);
    side_close(&s);
}

/* Why a withdraw closes the endpoint: if this ever fails, libfabric learnt to fence, and a withdraw
 * may become cheaper. */
static void closing_a_region_alone_does_not_stop_a_message_half_received(void **state)
{
    struct side s = side_open(DEVICE, 64 * MIB, 0x44);
    peers[0] = peer_start();
    expect(peer_ask(&peers[0], "mover tcp"), "ok");
    assert_true(writer_held_up(&s, true) > 0);
    side_close(&s);
}

/* A peer reads and is held up in the middle, the window withdrawn, the memory given back and used
 * for something else, the peer let go. What it gets may be whole, if the kernel had taken a copy of
 * all of it by then. */
static void a_reader_held_up_in_a_message_gets_nothing_after_the_withdraw(void **state)
{
    peers[0] = peer_start();
    expect(peer_ask(&peers[0], "mover tcp"), "ok");
    for (int i = 0; i < 3; i++) {
        struct side s = side_open(DEVICE, PIECES_LEN, 0x55);
        char hex[2 * sizeof(struct token) + 1];
        struct out o = window_new(&s, 0, s.memory.len);
        struct token t = o.token;
        struct gate *gate = gate_open(&t, GATE_FROM_OWNER, BEGINNING);
        token_to_hex(&t, hex);
        peer_send(&peers[0], "move r 0 %zu 5 %d %s", s.memory.len, PATIENT_MS, hex);
        gate_await_held(gate);
        /* Nothing depends on it, but a fence that fences nothing is then found out: by now the
         * owner has seen all requests. */
        pause_ms(50);
        window_end(&s, &o, false);
        assert_true(mmap(s.memory.bytes, s.memory.len, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == s.memory.bytes);
        memset(s.memory.bytes, PEER_SECRET, s.memory.len);
        gate_release(gate);
        const char *answer = peer_answer(&peers[0]);
        if (!strstr(answer, " secret 0 "))
            fail_msg("%s", answer);
        gate_close(gate);
        side_close(&s);
    }
}

/* What happens to the owner in the middle of a transfer, from inside of it: the mover looks before
 * each piece. At the sixth look at most five of the eight pieces of a write are on their way. */
#define STRIKE_LOOK 6

struct strike {
    const struct peer *owner;
    int signal;
    int deadline_ms;             /* 0: none; counted from the strike */
    const struct steady *others; /* cancels when these have done five more transfers; NULL: never */
    struct transfer transfer;
    int looks;
    unsigned others_then;
};

static bool strike_look(void *arg)
{
    struct strike *s = arg;
    if (++s->looks == STRIKE_LOOK) {
        peer_strike(s->owner, s->signal);
        if (s->deadline_ms)
            s->transfer.deadline_ns = clock_mono_ns() + s->deadline_ms * NS_PER_MS;
        s->others_then = s->others ? steady_count(s->others) : 0;
    }
    return s->looks > STRIKE_LOOK && s->others && steady_count(s->others) >= s->others_then + 5;
}

static int move_struck(void *m, enum transfer_direction way, const struct token *t, void *local,
                       struct strike *strike)
{
    strike->transfer = (struct transfer){.direction = way,
                                         .token = t,
                                         .local = local,
                                         .len = t->size,
                                         .is_cancelled = strike_look,
                                         .cancel_arg = strike};
    uint64_t moved = 0;
    struct diag diag = {0};
    int rc = ofi_mover_ops.transfer(m, &strike->transfer, &diag, &moved);
    assert_true(rc != 0 && moved < t->size && strike->looks >= STRIKE_LOOK);
    return rc;
}

/* No deadline: without an error it would wait for ever. */
static void an_owner_killed_in_the_middle_is_an_error_without_a_deadline(void **state)
{
    void *m = mover_new();
    CLEANUP(freep) unsigned char *local = calloc(1, 64 * MIB);
    for (int i = 0; i < 6; i++) {
        peer_owner(&peers[0], 64 * MIB, 1);
        struct token t;
        peer_token(&peers[0], 0, 0, 64 * MIB, &t);
        struct strike strike = {.owner = &peers[0], .signal = SIGKILL};
        int rc = move_struck(m, i % 2 ? TRANSFER_READ : TRANSFER_WRITE, &t, local, &strike);
        assert_int_equal(rc, S3R_E_RDMA_PEER);
        /* The next one to the same, dead peer too: nobody listens. */
        assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, local, 4096, 0), S3R_E_RDMA_PEER);
        peer_stop(&peers[0]);
    }
    ofi_mover_ops.close(m);
}

static void a_dead_owner_of_an_idle_connection_is_an_error_without_a_deadline(void **state)
{
    void *m = mover_new();
    unsigned char local[4096] = {0};
    peer_owner(&peers[0], 4096, 1);
    struct token t;
    peer_token(&peers[0], 0, 0, 4096, &t);
    assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, local, 4096, PATIENT_MS), 0);
    peer_stop(&peers[0]);
    assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, local, 4096, 0), S3R_E_RDMA_PEER);
    ofi_mover_ops.close(m);
}

static void a_stopped_owner_ends_its_transfers_at_the_deadline(void **state)
{
    void *m = mover_new();
    CLEANUP(freep) unsigned char *local = calloc(1, 64 * MIB);
    peer_owner(&peers[0], 64 * MIB, 1);
    struct token t;
    peer_token(&peers[0], 0, 0, 64 * MIB, &t);
    for (int i = 0; i < 4; i++) {
        struct strike strike = {.owner = &peers[0], .signal = SIGSTOP, .deadline_ms = 100};
        enum transfer_direction way = i % 2 ? TRANSFER_READ : TRANSFER_WRITE;
        assert_int_equal(move_struck(m, way, &t, local, &strike), S3R_E_RDMA_DEADLINE);
        assert_true(clock_mono_ns() >= strike.transfer.deadline_ns);
        /* One that connects to the stopped owner as well. */
        assert_int_equal(move(m, way, &t, 0, local, 4096, 100), S3R_E_RDMA_DEADLINE);
        kill(peers[0].pid, SIGCONT);
        assert_int_equal(move(m, way, &t, 0, local, 4096, PATIENT_MS), 0);
    }
    ofi_mover_ops.close(m);
}

/* The transfer that the owner holds up ends only when others have gone on. */
static void a_stopped_owner_holds_up_nobody_else(void **state)
{
    void *m = mover_new();
    CLEANUP(freep) unsigned char *local = calloc(1, 64 * MIB);
    peer_owner(&peers[0], 64 * MIB, 1);
    peer_owner(&peers[1], 1 * MIB, 9);
    struct token stopped, other;
    peer_token(&peers[0], 0, 0, 64 * MIB, &stopped);
    peer_token(&peers[1], 0, 0, 1 * MIB, &other);
    struct steady steady;
    pthread_t thread = steady_start(&steady, m, &other, 1 * MIB);
    for (int i = 0; i < 4; i++) {
        struct strike strike = {.owner = &peers[0], .signal = SIGSTOP, .others = &steady};
        enum transfer_direction way = i % 2 ? TRANSFER_READ : TRANSFER_WRITE;
        assert_int_equal(move_struck(m, way, &stopped, local, &strike), S3R_E_CANCELLED);
        kill(peers[0].pid, SIGCONT);
    }
    steady_end(&steady, thread);
    ofi_mover_ops.close(m);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_main();
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        WITH_PEERS(a_writer_held_up_in_a_message_lands_nothing_after_the_withdraw),
        WITH_PEERS(closing_a_region_alone_does_not_stop_a_message_half_received),
        WITH_PEERS(a_reader_held_up_in_a_message_gets_nothing_after_the_withdraw),
        WITH_PEERS(an_owner_killed_in_the_middle_is_an_error_without_a_deadline),
        WITH_PEERS(a_dead_owner_of_an_idle_connection_is_an_error_without_a_deadline),
        WITH_PEERS(a_stopped_owner_ends_its_transfers_at_the_deadline),
        WITH_PEERS(a_stopped_owner_holds_up_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
