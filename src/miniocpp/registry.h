/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the clients and the page-aligned memory of a process.
 * Does:     memory that is registered with a client when that first uses it, and stays so until
 *           it is freed or the client is; which clients there are.
 * Not here: transfers (capi.c); registrations for one call (client/carry.h).
 * Units:    bytes.
 * Owns:     the memory of memory_alloc(); of clients only the list.
 * Threads:  any. In a forked child the memory is there and registered with nobody.
 * Errors:   S3R_E_INVALID_ARGUMENT, S3R_E_NOMEM.
 * Limits:   none of its own. */
#ifndef S3R_MINIOCPP_REGISTRY_H
#define S3R_MINIOCPP_REGISTRY_H

#include "client/client.h"

/* A client as callers hold it. */
struct listed_client {
    struct client *client;
    void *handle;
    struct listed_client *next, **link; /* the registry's */
};

void registry_add_client(struct listed_client *c);
/* After the client's end: whoever frees memory waits for that. */
void registry_drop_client(struct listed_client *c);
/* The fewest usable rails that any client has; `most` where none has opened its devices. */
int registry_healthy_rails(int most);

struct memory_piece;

/* Page-aligned, zeroed. */
int memory_alloc(size_t size, void **ret_ptr) MUST_CHECK;
/* Foreign pointers are left alone. Waits for calls that use it. */
void memory_free(void *ptr);
/* The piece that [ptr, ptr + len) lies in, registered with the client where that can be, and held;
 * NULL: it is other memory. Memory that begins in a piece and leaves it is an error. */
int memory_use(struct listed_client *c, const void *ptr, size_t len, struct diag *diag,
               struct memory_piece **ret_piece, void **ret_region) MUST_CHECK;
/* `is_lost`: a server may still write it, so it is never given back to the system. */
void memory_release(struct memory_piece *piece, bool is_lost);

#endif
