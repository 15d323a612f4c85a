/* SPDX-License-Identifier: Apache-2.0 */
/* sides.h - source and target of cp and mirror, as they were written.
 * Does:     tells buckets (s3://) from folders; opens a folder; joins a prefix and a name.
 * Not here: what is in them (tree.h).
 * Units:    none.
 * Owns:     a side owns its address and descriptor until side_finip().
 * Threads:  owner.
 * Errors:   EXIT_OK or an exit code, the message said.
 * Limits:   PATH_MAX, LIMIT_KEY_LEN_MAX. */
#ifndef S3R_TOOLS_SIDES_H
#define S3R_TOOLS_SIDES_H

#include "base/limits.h"
#include "tools/cli.h"

struct side {
    const char *text; /* as written */
    bool is_far;
    struct address address; /* where is_far */
    int root;               /* else: its folder, -1 until side_open_folder() */
};

void side_finip(struct side *s);
int side_parse(const char *text, struct side *ret_side);
/* The folder; made (with those above it) where `is_made`. */
int side_open_folder(const struct cli *cli, struct side *s, const char *path, bool is_made);
/* "" or the key with a slash at its end. */
void side_prefix(const struct side *s, char out[LIMIT_KEY_LEN_MAX + 2]);
/* What follows the last slash. */
const char *last_segment(const char *path);

#endif
