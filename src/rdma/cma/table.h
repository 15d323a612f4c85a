/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the window table: what one process lets others read and write, in shared memory.
 * Does:     the layout, and the steps by which servers mark a window in use and its owner withdraws
 *           it, such that both cannot win.
 * Not here: finding another process's table (peer.h); slots and keys of one's own (owner.c).
 * Units:    bytes; identities as in process.h.
 * Owns:     nothing; the mapping is peer.c's or owner.c's.
 * Threads:  any, in any number of processes; no lock, nobody ever waits for anybody else to run.
 * Errors:   S3R_E_RDMA_PEER (withdrawn, never was, or damaged), S3R_E_BUSY.
 * Limits:   TABLE_SLOTS windows, SLOT_HOLDERS pieces in one of them at a time.
 *
 * A memfd named TABLE_NAME of TABLE_LEN bytes, sealed against resizing, descriptor close-on-exec:
 *
 *      0  header: magic, version, length, slots, slot length, the owner's identity
 *   4096  TABLE_SLOTS slots of 128 bytes:
 *             0  word        bits 0..1 the state, 8..15 a mark for each holder entry,
 *                            32..63 the generation, one more each time the slot is opened
 *             8  key, address, length, directions      (64 bits each; written while not open)
 *            40  unused
 *            64  SLOT_HOLDERS identities of 64 bits: who has, or is about to set, that mark
 *
 * A server about to move a piece (mark):
 *   1. finds the word open and the key right,
 *   2. takes a holder entry: compare-and-swap 0 -> its identity,
 *   3. sets that entry's mark in the word: compare-and-swap, only in the word it saw, that is in
 *      the same generation and still open.
 * The piece done: it clears the mark, then the entry. So a mark always has an identity beside it,
 * and a server that dies anywhere leaves nothing that cannot be judged.
 *
 * The owner (withdraw) sets the state in the same word, after which step 3 fails for everybody;
 * then it waits for the marks to go. A mark whose holder is gone is taken over: compare-and-swap of
 * that identity -> one's own, which only one can win, and then cleared like one's own. A holder
 * that is stopped keeps its mark: it may be inside the copy or about to start it, so the memory is
 * not free.
 *
 * To a server all that it reads here is hostile: it uses each value once, after the mark, and the
 * worst that an owner can do by changing them is to lose its own window. */
#ifndef S3R_RDMA_CMA_TABLE_H
#define S3R_RDMA_CMA_TABLE_H

#include "base/attr.h"
#include "base/error.h"
#include "rdma/cma/process.h"
#include "rdma/owner.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_NAME "s3rdma-windows"
#define TABLE_MAGIC UINT64_C(0x31306e6977723373) /* "s3rwin01" */
#define TABLE_VERSION 1
#define TABLE_SLOTS OWNER_WINDOWS_MAX
#define TABLE_HEADER_LEN 4096
#define SLOT_HOLDERS 8

struct table_header {
    _Atomic uint64_t magic, version, len, slots, slot_len, owner;
};

enum slot_state { SLOT_FREE = 0, SLOT_OPEN = 1, SLOT_WITHDRAWN = 2 };

struct slot {
    _Atomic uint64_t word;
    _Atomic uint64_t key, addr, len, directions;
    uint64_t unused[3];
    _Atomic uint64_t holders[SLOT_HOLDERS];
};

struct table {
    struct table_header header;
    char unused[TABLE_HEADER_LEN - sizeof(struct table_header)];
    struct slot slots[TABLE_SLOTS];
};

#define TABLE_LEN sizeof(struct table)

static_assert(sizeof(struct slot) == 128, "as told above");
static_assert(offsetof(struct slot, key) == 8 && offsetof(struct slot, directions) == 32, "");
static_assert(offsetof(struct slot, holders) == 64, "as told above");
static_assert(offsetof(struct table, slots) == TABLE_HEADER_LEN, "as told above");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "no lock may be shared between processes");

/* What a server was told, and what it found. */
struct slot_mark {
    struct slot *slot;
    process_id self;
    unsigned entry;
    uint64_t addr, len, directions;
};

#define SLOT_READS 1u  /* a server may read the window */
#define SLOT_WRITES 2u /* a server may write it */

/* The server's side. S3R_E_BUSY: all entries are taken by processes that live; try again. */
int slot_mark(struct slot *slot, process_id self, uint64_t key,
              struct slot_mark *ret_mark) MUST_CHECK;
void slot_unmark(const struct slot_mark *mark);

/* The owner's side, each window under a lock of the owner's. */
void slot_open(struct slot *slot, uint32_t generation, uint64_t key, uint64_t addr, uint64_t len);
/* Waits up to `wait_ns` for the marks to go: 0 or S3R_E_BUSY. Can be called again. */
int slot_withdraw(struct slot *slot, uint32_t generation, process_id self,
                  int64_t wait_ns) MUST_CHECK;
/* After a withdraw that returned 0. */
void slot_free(struct slot *slot, uint32_t generation);

#endif
