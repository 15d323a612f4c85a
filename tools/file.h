/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - local files and memory of transfers.
 * Does:     a download that appears under its name only when it is whole, or goes into what is no
 *           regular file as it comes; page-aligned memory; reads and writes that go on after short
 *           ones.
 * Not here: S3.
 * Units:    bytes.
 * Owns:     a download owns its descriptor until download_fini(), which leaves nothing behind
 *           unless download_commit() returned 0.
 * Threads:  owner.
 * Errors:   0 or an errno.
 * Limits:   PATH_MAX. */
#ifndef S3R_TOOLS_FILE_H
#define S3R_TOOLS_FILE_H

#include "base/attr.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct download {
    int fd;
    bool is_stdout, is_buffered;
    bool is_stream; /* a device, a pipe, standard output: written as the bytes come, never replaced
                     */
    uint64_t done;  /* bytes written */
    char path[PATH_MAX], dir[PATH_MAX];
    char temporary[PATH_MAX]; /* "" while the file has no name at all */
};

/* `path` NULL: standard output. */
int download_init(struct download *d, const char *path) MUST_CHECK;
int download_write(struct download *d, const void *bytes, size_t len) MUST_CHECK;
/* Synced, then renamed to its name; of a stream nothing is left to do. */
int download_commit(struct download *d) MUST_CHECK;
void download_fini(struct download *d);

/* EINTR: the user wants to stop. */
int write_all(int fd, const void *bytes, size_t len) MUST_CHECK;
/* Until `len` or the end of the file. EINTR: the user wants to stop. */
int read_full(int fd, void *bytes, size_t len, size_t *ret_len) MUST_CHECK;
/* Exactly `len` bytes at `off`; EIO when the file ends before. */
int read_at(int fd, void *bytes, size_t len, uint64_t off) MUST_CHECK;

#endif
