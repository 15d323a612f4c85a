/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - files below a folder, by names that somebody else chose.
 * Does:     judges whether a name can be a file here; opens its folder segment by segment, never
 *           through a symbolic link; removes a file and the folders that are empty then.
 * Not here: the bytes (partial.h, file.h); lists of files (tree.h).
 * Units:    none.
 * Owns:     a place owns the descriptor of its folder until place_fini().
 * Threads:  any.
 * Errors:   S3R_E_INVALID_ARGUMENT, the diag says what is wrong with the name or what the system
 *           said.
 * Limits:   NAME_MAX bytes a segment, LIMIT_KEY_LEN_MAX in all. */
#ifndef S3R_TOOLS_PLACE_H
#define S3R_TOOLS_PLACE_H

#include "base/attr.h"
#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Names that begin so are files under way: never objects. */
#define PLACE_UNDER_WAY ".s3rdma-"

struct place {
    int dir; /* -1: none */
    char name[NAME_MAX + 1];
};

void place_fini(struct place *p);
/* How many bytes the control character at `s` has, 0 when there is none. U+0080 to U+009F are some,
 * too: a terminal obeys them. */
size_t control_len(const char *s);
/* Why `name` ("a/b/c") cannot be a file below a folder; NULL when it can: no empty segment, no `.`,
 * no `..`, nothing of ours, no control character. */
const char *place_flaw(const char *name);
/* The folder of `name` below `root` (a descriptor, borrowed), made where `is_made`. The file itself
 * is not looked at. */
int place_find(int root, const char *name, bool is_made, struct diag *diag,
               struct place *ret_place) MUST_CHECK;
/* S3R_E_INVALID_ARGUMENT when something is there that a download must not replace: a device, a
 * pipe, a socket, a folder. */
int place_check_free(const struct place *p, const char *name, struct diag *diag) MUST_CHECK;
/* "/proc/self/fd/N/NAME" of a place, for calls that take paths. */
void place_path(const struct place *p, char out[PATH_MAX]);
/* A folder of that name, which may end in a slash; one that is there already is fine. */
int place_make_folder(int root, const char *name, struct diag *diag) MUST_CHECK;
/* A file, not a folder; then its folders below `root`, as far as they are empty. */
int place_remove(int root, const char *name, struct diag *diag) MUST_CHECK;
/* "name: what the system says" */
int place_error(struct diag *diag, const char *name, int error);

#endif
