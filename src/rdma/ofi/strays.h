/* SPDX-License-Identifier: Apache-2.0 */
/* strays.h - the sockets at an endpoint's address, where closing them is not enough.
 * Does:     shuts down a listener and what it accepted, or only the latter, for a forked child too
 *           that has a copy of them (it would keep the port and go on accepting); closes what
 *           libfabric forgets: `net` of 1.17 leaves open, when it closes an endpoint, whoever has
 *           connected and not yet introduced itself.
 * Not here: anything about a socket that libfabric did close: numbers are taken anew at once, so a
 *           socket is known by its inode. No other descriptor of the process is asked anything: it
 *           may be another thread's, about to be closed and opened as something else.
 * Units:    none.
 * Owns:     struct strays its list, until strays_close().
 * Threads:  any. While the listener is open no other socket of this host gets its port, so what is
 *           found was accepted by it.
 * Errors:   none; without /proc or memory strays stay open.
 * Limits:   none. */
#ifndef S3R_RDMA_OFI_STRAYS_H
#define S3R_RDMA_OFI_STRAYS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct stray {
    int fd;
    ino_t inode;
};

struct strays {
    struct stray *list;
    size_t count, cap;
};

/* Finds and shuts down what has `listener`'s address. Call it while the listener is open and nobody
 * drives it. */
void strays_cut(const struct sockaddr_storage *listener, struct strays *ret_strays);
/* The same with the connections of an endpoint, but not its listener, that are watched through
 * `epoll_fd` or through an epoll descriptor which that one watches. False: it could not see all of
 * them (the listener was not among what it saw, or memory was short). */
bool strays_cut_watched(int epoll_fd, struct strays *ret_strays) MUST_CHECK;
/* Whether whoever they belong to has closed all of them. */
bool strays_are_gone(const struct strays *s);
/* Leaves the list empty. */
void strays_forget(struct strays *s);
/* The same, and closes what is still open. Call it after the endpoint was closed. */
void strays_close(struct strays *s);

#endif
