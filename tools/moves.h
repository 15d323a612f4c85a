/* SPDX-License-Identifier: Apache-2.0 */
/* moves.h - the jobs of cp and mirror.
 * Does:     a file into a bucket, an object into a file, an object to another place in the server's
 *           hands, and removals at both ends; large ones piece by piece, many pieces at a time, and
 *           on from where an earlier run was interrupted.
 * Not here: which of them are needed (cmd_cp.c, cmd_mirror.c); threads (crew.h).
 * Units:    bytes, milliseconds since the epoch.
 * Owns:     a job copies the texts it is given; folders (`root`) are borrowed and must live until
 *           crew_run() has returned.
 * Threads:  owner; the jobs run on the crew's.
 * Errors:   S3R_E_NOMEM; a job's own go to the crew.
 * Limits:   LIMIT_PARTS_MAX pieces.
 * With --dry-run they compare, and change nothing. */
#ifndef S3R_TOOLS_MOVES_H
#define S3R_TOOLS_MOVES_H

#include "tools/crew.h"
#include "tools/tree.h"

/* A file: `name` below the open folder `root`. `shown` is what people call the folder. */
struct near_place {
    int root;
    const char *shown, *name;
    bool is_link_fine; /* the user named the file itself */
};

struct far_place {
    const char *bucket, *key;
    uint64_t len;
    int64_t time_ms;  /* 0: not known */
    const char *etag; /* without quotes */
};

/* `is_compared`: both are there and as long as each other; nothing moves if the bytes are the same,
 * too. */
int move_up(struct crew *crew, const struct near_place *from, uint64_t len,
            const struct far_place *to, bool is_compared) MUST_CHECK;
int move_down(struct crew *crew, const struct far_place *from, const struct near_place *to,
              bool is_compared) MUST_CHECK;
/* An object of a listing into `root`, named by what follows `prefix`. What cannot be a file is told
 * the crew; an empty one whose name ends in a slash is a folder, made at once. */
int move_entry_down(struct crew *crew, const struct tree_entry *entry, const char *bucket,
                    const char *prefix, int root, const char *shown, bool is_compared) MUST_CHECK;
int move_across(struct crew *crew, const struct far_place *from,
                const struct far_place *to) MUST_CHECK;
int remove_far(struct crew *crew, const struct far_place *place) MUST_CHECK;
int remove_near(struct crew *crew, const struct near_place *place) MUST_CHECK;

/* ---- for their files ---- */

/* How long the pieces of `len` bytes are: --part-size, or the default, or what LIMIT_PARTS_MAX
 * demands. S3R_E_INVALID_ARGUMENT when --part-size is too small for that. */
int move_piece_len(const struct cli *cli, uint64_t len, struct diag *diag,
                   size_t *ret_piece_len) MUST_CHECK;
/* Could the same command succeed later, going on from here? */
bool move_may_go_on(int error);
/* "FOLDER/NAME" with control characters escaped, "s3://BUCKET/KEY" likewise; NULL: no memory. */
char *near_text(const struct near_place *place);
char *far_text(const char *bucket, const char *key);

#endif
