/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h - a client's half: memory opened to servers, window by window.
 * Does:     opens a device list, counts registrations by address on every rail, mints a window and
 *           its token on rails in turn, withdraws and fences, keeps account of rails that failed.
 * Not here: HTTP, and what a reply means (client/); handles (shim.c of s3rdma.h).
 * Units:    bytes.
 * Owns:     the registered memory stays the caller's and must outlive the registration; windows and
 *           their token text belong to whoever opened them until owner_window_close().
 * Threads:  any. After fork() a child's copy refuses everything but close (S3R_E_RDMA_UNAVAILABLE).
 * Errors:   S3R_E_RDMA_UNAVAILABLE, _REGISTER, _NOT_FOUND, _BOUNDS, S3R_E_INVALID_ARGUMENT (no
 * memory, a length that wraps, the same address with another length), S3R_E_BUSY (see withdraw; all
 *           windows are in use).
 * Limits:   windows per process: OWNER_WINDOWS_MAX. */
#ifndef S3R_RDMA_OWNER_H
#define S3R_RDMA_OWNER_H

#include "rdma/provider.h"

#define OWNER_WINDOWS_MAX 65536

struct owner;
struct owner_window;

/* devices NULL: S3RDMA_DEVICE, else every verbs device with an ACTIVE port. `local_addr` as in
 * provider.h. */
int owner_open(const char *devices, const struct sockaddr *local_addr, struct diag *diag,
               struct owner **ret_owner) MUST_CHECK;
/* Ends (waiting until it is certain) what is still registered and open. A window that was still out
 * can then only be closed. */
void owner_close(struct owner *o);
int owner_rail_count(const struct owner *o);
int owner_healthy_count(struct owner *o);
void owner_describe(struct owner *o, int rail, char *out, size_t size);

/* Overlapping another registration is allowed; the same address again must have the same length
 * and is counted. A GPU's memory is registered on the rails that reach it, and windows in it are
 * theirs; S3R_E_RDMA_REGISTER: there is none. */
int owner_register(struct owner *o, void *ptr, size_t len, struct diag *diag) MUST_CHECK;
/* Withdraws and fences the region's windows when it was the last count. S3R_E_BUSY: as
 * owner_window_withdraw(); the region is still registered, call again. */
int owner_deregister(struct owner *o, void *ptr) MUST_CHECK;
/* Bytes registered now, for gauges. */
uint64_t owner_registered_len(struct owner *o);

/* A window over [off, off + len) of the region registered at ptr. */
int owner_window_open(struct owner *o, void *ptr, uint64_t off, uint64_t len, struct diag *diag,
                      struct owner_window **ret_window) MUST_CHECK;
/* NUL-terminated; lives as long as the window. */
const char *owner_window_token(const struct owner_window *w);
/* The IP that the token's rail has, to bind HTTP to: false when it has none. */
bool owner_window_address(const struct owner_window *w,
                          struct sockaddr_storage *ret_addr) MUST_CHECK;
/* The server's reply said that the transfer is complete (or that none was begun): a withdraw is
 * then quick on every rail. Without this call it fences, which on some rails costs the process
 * whatever else it has in flight there. Never after a failure or without a reply. */
void owner_window_settle(struct owner_window *w);
/* After 0 nothing lands in the window any more. S3R_E_BUSY after a bounded wait: a server that was
 * stopped in the middle may still write when it goes on, so the memory must not be used; call
 * again. */
int owner_window_withdraw(struct owner_window *w, struct diag *diag) MUST_CHECK;
/* Withdraws (waiting until it is certain) and frees. NULL is fine. */
void owner_window_close(struct owner_window *w);
/* A transport fault of the window's rail: it is skipped for a while (with backoff); when no rail
 * is left all are tried again. */
void owner_window_blame(struct owner_window *w);

#endif
