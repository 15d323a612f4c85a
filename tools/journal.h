/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - what an interrupted upload needs to go on: its upload id, in the user's state folder.
 * Does:     one small file for each upload under way, mode 0600, named by a digest of what goes
 *           where; locked while it is in use, so that two programs never share an upload.
 * Not here: which parts are there (the server knows: client/copy.h); downloads (partial.h).
 * Units:    none.
 * Owns:     a journal owns its descriptor until journal_close() or journal_drop().
 * Threads:  owner.
 * Errors:   an errno: then there is no journal, and the upload is not one that can go on.
 * Limits:   ids of JOURNAL_ID_MAX characters.
 * Holds no secret: who has an upload id can do nothing without credentials. */
#ifndef S3R_TOOLS_JOURNAL_H
#define S3R_TOOLS_JOURNAL_H

#include "base/attr.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define JOURNAL_ID_MAX 1024

struct journal {
    int fd; /* -1: none */
    char path[PATH_MAX];
};

/* In $XDG_STATE_HOME/s3rdma/uploads or ~/.local/state/s3rdma/uploads, made when missing. EBUSY:
 * another program is at the same. */
int journal_open(const void *identity, size_t len, struct journal *ret_journal) MUST_CHECK;
/* The upload id; `*ret_is_same`: `stamp`, which tells versions of the source apart, is as it was
 * saved. False when there is none that can be read. The caller frees the id. */
bool journal_load(const struct journal *j, const char *stamp, char **ret_id,
                  bool *ret_is_same) MUST_CHECK;
/* On disk when it returns 0. */
int journal_save(const struct journal *j, const char *stamp, const char *id) MUST_CHECK;
void journal_close(struct journal *j);
/* The file goes, too. */
void journal_drop(struct journal *j);

#endif
