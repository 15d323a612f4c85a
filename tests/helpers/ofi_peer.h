/* SPDX-License-Identifier: Apache-2.0 */
/* ofi_peer.h - another process with a libfabric owner or mover in it, driven over a pipe.
 * Does:     the test program runs itself again with the argument "peer"; that one obeys lines.
 * Not here: the tests.
 * Units:    bytes, milliseconds.
 * Owns:     peer_stop() ends the process.
 * Threads:  one for each peer.
 * Errors:   a peer that does not answer fails the test.
 * Limits:   lines of PEER_LINE_MAX. */
#ifndef S3R_TESTS_OFI_PEER_H
#define S3R_TESTS_OFI_PEER_H

#include "rdma/ofi/ofi.h"

#include <stdio.h>
#include <sys/types.h>

#define PEER_LINE_MAX 4096
/* A peer that reads says how many such bytes it got. */
#define PEER_SECRET 0xBB

/* Memory with a page that may not be touched on either side. */
struct guarded {
    unsigned char *bytes;
    size_t len, map_len;
    void *map;
};
struct guarded guarded_new(size_t len, int fill);
void guarded_free(struct guarded *g);
/* Byte i is a function of `seed` and i. */
void pattern_fill(unsigned char *p, size_t len, unsigned seed);
/* -1, or where it differs first. */
long pattern_differs(const unsigned char *p, size_t len, unsigned seed);

struct peer {
    pid_t pid;
    FILE *to, *from;
};
struct peer peer_start(void);
/* Sends one line, returns the answer's (in the peer's buffer of the calling thread). */
const char *peer_ask(struct peer *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
void peer_send(struct peer *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *peer_answer(struct peer *p);
/* SIGSTOP or SIGKILL: returns when all its threads have stopped, or it has ended. */
void peer_strike(const struct peer *p, int signal);
/* Ends it by SIGKILL, whatever it does. */
void peer_stop(struct peer *p);
void peer_token(struct peer *p, int window, size_t off, size_t len, struct token *ret_token);
void token_to_hex(const struct token *t, char *out);

/* The other program: obeys until its input ends. */
int peer_main(void);

#endif
