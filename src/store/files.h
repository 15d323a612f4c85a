/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - which data files there may be: ids, the open table, the drop table, readers.
 * Does:     hands out ids from ranges reserved durably; remembers who reads what, so that a file is
 *           unlinked when the last reader that began before its drop is gone; cleans up at start.
 * Not here: the files themselves (file.h).
 * Units:    counts.
 * Owns:     its tables.
 * Threads:  any.
 * Errors:   as store.h.
 * Limits:   FILES_RESERVE ids for each synced batch. */
#ifndef S3R_STORE_FILES_H
#define S3R_STORE_FILES_H

#include "base/attr.h"
#include "base/error.h"
#include "store/index.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Divides the 1,024 files of a folder. */
#define FILES_RESERVE 256
#define FILES_BUCKETS 1024

struct store;
struct files_entry;

struct files {
    pthread_mutex_t lock;
    uint64_t next, end; /* reserved and not handed out */
    uint64_t limit;     /* never reserved before */
    bool is_reserving;
    pthread_cond_t reserved;
    struct files_entry *read[FILES_BUCKETS]; /* files with readers, by id */
    uint64_t *open;                          /* handed out, neither committed nor given up */
    size_t open_count, open_cap;
};

void files_init(struct files *f);
void files_fini(struct files *f);
/* After the index is open: reads the limits and removes what was open or dropped. */
int files_start(struct store *s, struct diag *diag) MUST_CHECK;

int files_new_id(struct store *s, struct diag *diag, uint64_t *ret_id) MUST_CHECK;
/* Committed: no longer ours to remove. */
void files_committed(struct store *s, uint64_t id);
/* Not committed: unlinks it, if there is one. */
void files_abandon(struct store *s, uint64_t id);

/* A reader of the object whose head file is `id`. */
int files_hold(struct store *s, uint64_t id) MUST_CHECK;
void files_release(struct store *s, uint64_t id);
/* Their drop is committed: unlinks them now or when the last reader of `head` is gone. */
void files_drop(struct store *s, uint64_t head, const uint64_t *ids, size_t count);

/* Lowest id that may still be written: everything below is committed, open or dropped. */
uint64_t files_floor(struct store *s);

#endif
