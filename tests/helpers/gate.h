/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - a relay between a mover and an owner that holds the stream at a chosen byte.
 * Does:     listens at a port of its own, connects on to the owner's, passes bytes both ways; of
 * one way it passes so many and then holds the rest until gate_release(). A test so knows that a
 * message is half-way, whatever the machine is busy with. Not here: what the bytes mean. Units:
 * bytes of the TCP stream, so a message's headers count, too. Owns:     gate_close() ends its
 * thread and all its connections. Threads:  owner. Errors:   fail the test. Limits: GATE_PAIRS_MAX
 * connections at a time. */
#ifndef S3R_TESTS_GATE_H
#define S3R_TESTS_GATE_H

#include "rdma/token.h"

#define GATE_PAIRS_MAX 16

enum gate_way {
    GATE_TO_OWNER,
    GATE_FROM_OWNER,
};

struct gate;
/* Makes `t`, the token of an owner at an IPv4 address, lead through the gate. */
struct gate *gate_open(struct token *t, enum gate_way way, size_t limit);
/* Returns when all that the limit allows has passed. */
void gate_await_held(struct gate *g);
void gate_release(struct gate *g);
void gate_close(struct gate *g);

#endif
