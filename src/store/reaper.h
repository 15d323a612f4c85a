/* SPDX-License-Identifier: Apache-2.0 */
/* reaper.h - unlinks files that are no longer anybody's, behind the callers' backs.
 * Does:     a queue and a thread: some file systems take a millisecond for an unlink, and an object
 *           can have 10,000 files.
 * Not here: whether a file may go (files.h).
 * Units:    files.
 * Owns:     its queue and its thread.
 * Threads:  any for add and settle, owner for start and stop.
 * Errors:   S3R_E_NOMEM when the thread cannot start. What stays in the queue at the end has its
 *           row in the index, so that the next start removes it.
 * Limits:   REAPER_LONG: above it single files are unlinked by who drops them. */
#ifndef S3R_STORE_REAPER_H
#define S3R_STORE_REAPER_H

#include "base/attr.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REAPER_LONG 4096

struct store;

struct reaper_item {
    uint64_t id;
    char table; /* of the row that goes with it */
};

struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    struct reaper_item *items;
    size_t count, cap;
    struct reaper_item *failed; /* could not be unlinked */
    size_t failed_count, failed_cap;
    uint64_t removed;
    bool is_busy, is_stopping, has_thread;
    pthread_t thread;
};

void reaper_init(struct reaper *r);
int reaper_start(struct store *s) MUST_CHECK;
/* Ends the thread after the unlink that it is at; the rest is left to the next start. */
void reaper_stop(struct reaper *r);
void reaper_fini(struct reaper *r);
void reaper_add(struct store *s, const uint64_t *ids, size_t count, char table);
/* Waits until the queue is empty. */
void reaper_settle(struct store *s);
/* Tries again what failed, waits, and returns how many files went. */
uint64_t reaper_retry(struct store *s);

#endif
