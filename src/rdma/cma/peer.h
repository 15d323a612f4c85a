/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - other processes' window tables, as a server sees them.
 * Does:     finds the table of the process that a token names, checks that it is what it should be
 *           before it is mapped, keeps the mapping for the next transfers, says before each piece
 *           whether it is still that process's.
 * Not here: marks (table.h), copying (mover.c).
 * Units:    none.
 * Owns:     peers_get() lends until peers_put().
 * Threads:  any; owner for create and destroy, which comes after the last put.
 * Errors:   S3R_E_RDMA_PEER (no such process, no table), S3R_E_TOKEN_DECLINED (another user's,
 * another pid namespace's), S3R_E_RDMA_UNAVAILABLE (the kernel does not let us look), S3R_E_BUSY.
 * Limits:   PEERS_MAX tables at a time, least recently used dropped first;
 *           PEER_DESCRIPTORS_MAX descriptors looked at in one process, PEER_TABLES_MAX of its
 * tables.
 *
 * The descriptor kept of a peer is that of its directory in /proc: it stays with that process when
 * its pid is used again. Looking up the table's descriptor through it tells at little cost whether
 * the process lives, is not a zombie, has not executed another program (the descriptor is
 * close-on-exec), and has not closed its table. */
#ifndef S3R_RDMA_CMA_PEER_H
#define S3R_RDMA_CMA_PEER_H

#include "base/attr.h"
#include "base/error.h"
#include "rdma/cma/table.h"
#include "rdma/token.h"

#define PEERS_MAX 256
#define PEER_DESCRIPTORS_MAX 65536
#define PEER_TABLES_MAX 16

struct peers;
struct peer;

int peers_create(struct peers **ret_peers) MUST_CHECK;
void peers_destroy(struct peers *peers);
/* The table with the window that the token names; where no table of the process has that, another
 * of its tables. A process has several when several copies of this library are loaded in it. */
int peers_get(struct peers *peers, const struct token_cma *token, struct diag *diag,
              struct peer **ret_peer) MUST_CHECK;
void peers_put(struct peers *peers, struct peer *peer);
/* For people. */
unsigned peers_count(struct peers *peers);

struct table *peer_table(struct peer *peer);
/* Is the table still that of the living process? */
bool peer_is_current(const struct peer *peer) MUST_CHECK;

#endif
