/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - starts rdma_peer (see there for what it can be told) and talks to it. */
#ifndef S3R_TESTS_PEER_H
#define S3R_TESTS_PEER_H

#include "base/attr.h"

#include <stdio.h>
#include <sys/types.h>

struct peer_process {
    pid_t pid;
    FILE *to, *from;
    char reply[2048]; /* the last line, without its end */
};

/* Fails the test when it cannot be started. */
struct peer_process *peer_start(void);
/* Sends a command. */
void peer_tell(struct peer_process *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Waits for a line; "" when the process is gone. */
const char *peer_hear(struct peer_process *p);
/* Both. */
const char *peer_ask(struct peer_process *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Ends it (it closes what it has open) and fails the test when it did not end well. */
void peer_stop(struct peer_process *p);
/* SIGSTOP, and waits until all its threads have stopped. */
void peer_freeze(const struct peer_process *p);
void peer_thaw(const struct peer_process *p);
/* SIGKILL, and waits until it is gone. */
void peer_kill(struct peer_process *p);

#endif
