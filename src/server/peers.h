/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - which address a token may make the server reach.
 * Does:     the HTTP peer's own address, or both this host's, or a network that the operator
 *           lists; names without an address only when that provider is listed.
 * Not here: the token's text (rdma/token.h).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   false.
 * Limits:   none. */
#ifndef S3R_SERVER_PEERS_H
#define S3R_SERVER_PEERS_H

#include "base/attr.h"
#include "base/error.h"
#include "rdma/token.h"

#include <stdbool.h>

/* `allowed` is --rdma-peers, checked by peers_check(). */
bool peers_allow(const struct token *token, const struct sockaddr *peer,
                 const char *allowed) MUST_CHECK;
/* Is the list well-formed? */
int peers_check(const char *allowed, struct diag *diag) MUST_CHECK;

#endif
