/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - what is in a folder, or below a prefix of a bucket, as sorted lists of names.
 * Does:     walks a folder without following symbolic links; reads all pages of a listing.
 * Not here: judging names from a bucket (place.h); moving anything (moves.h).
 * Units:    bytes, milliseconds since the epoch.
 * Owns:     a tree owns its names until tree_fini().
 * Threads:  owner.
 * Errors:   tree_read_folder() goes on after what it cannot read, and has told the crew;
 *           tree_read_bucket(): as client.h.
 * Limits:   TREE_DEPTH_MAX folders below each other. */
#ifndef S3R_TOOLS_TREE_H
#define S3R_TOOLS_TREE_H

#include "tools/crew.h"

#define TREE_DEPTH_MAX 200

struct tree_entry {
    char *name; /* below the folder or prefix, with / between segments */
    uint64_t len;
    int64_t time_ms;      /* 0: not known */
    char etag[ETAG_SIZE]; /* of an object */
};

struct tree {
    struct tree_entry *entries; /* by name, as bytes */
    size_t count, cap;
};

void tree_finip(struct tree *t);
/* Regular files. Symbolic links, devices and the like are left out with a note; unfinished
 * transfers of ours without one. `root` is borrowed. */
int tree_read_folder(struct crew *crew, int root, struct tree *t) MUST_CHECK;
/* `prefix`: "" or one that ends in a slash. */
int tree_read_bucket(struct client *c, const char *bucket, const char *prefix, struct diag *diag,
                     struct tree *t) MUST_CHECK;
/* NULL when there is none. */
const struct tree_entry *tree_find(const struct tree *t, const char *name);

#endif
