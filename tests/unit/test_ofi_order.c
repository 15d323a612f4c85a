/* SPDX-License-Identifier: Apache-2.0 */
/* What ThreadSanitizer can follow of libfabric: windows whose memory is looked at when they have
 * been settled and withdrawn. */
#include "cm.h"

#include "ofi_side.h"

#include <signal.h>

#define LEN 65536

/* Another thread moves the bytes, and that it is done is known from another process: only a lock
 * that both threads take makes an order of it. */
static void after_a_settled_withdraw_the_memory_is_the_callers(void **state)
{
    char hex[2 * sizeof(struct token) + 1];
    struct side s = side_open(DEVICE, LEN, 0);
    peers[0] = peer_start();
    expect(peer_ask(&peers[0], "mover tcp"), "ok");
    for (unsigned i = 0; i < 20; i++) {
        pattern_fill(s.memory.bytes, LEN, i);
        struct out o = window_new(&s, 0, LEN);
        token_to_hex(&o.token, hex);
        expect(peer_ask(&peers[0], "move r 0 %d %u %d %s", LEN, i, PATIENT_MS, hex), "ok");
        window_end(&s, &o, true);
        memset(s.memory.bytes, 0, LEN);
        o = window_new(&s, 0, LEN);
        token_to_hex(&o.token, hex);
        expect(peer_ask(&peers[0], "move w 0 %d %u %d %s", LEN, i + 1, PATIENT_MS, hex), "ok");
        window_end(&s, &o, true);
        assert_int_equal(pattern_differs(s.memory.bytes, LEN, i + 1), -1);
    }
    side_close(&s);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_main();
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        WITH_PEERS(after_a_settled_withdraw_the_memory_is_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
