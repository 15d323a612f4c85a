/* SPDX-License-Identifier: Apache-2.0 */
/* io.h - the system calls of the store, each through one place.
 * Does:     whole reads and writes (short ones and EINTR are gone on with); errno becomes a code;
 *           lets a test fail, shorten or stop at any call.
 * Not here: what the bytes mean (file.h); RocksDB's own calls (index.c asks the hook about them).
 * Units:    bytes.
 * Owns:     the hook is a process-wide setting, for tests.
 * Threads:  any.
 * Errors:   S3R_E_STORE_FULL (ENOSPC, EDQUOT), S3R_E_STORE_READ_ONLY (EROFS), S3R_E_NO_SUCH_KEY
 *           (ENOENT: the caller knows what was missing), S3R_E_NOMEM, else S3R_E_STORE_IO.
 * Limits:   none. */
#ifndef S3R_STORE_IO_H
#define S3R_STORE_IO_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum io_call {
    IO_OPEN,
    IO_PREAD,
    IO_PWRITE,
    IO_FSYNC,
    IO_FDATASYNC,
    IO_FALLOCATE,
    IO_UNLINK,
    IO_MKDIR,
    IO_RENAME,
    IO_SET_DIRECT,
    IO_SPACE,
    IO_INDEX_WRITE, /* a synced batch of the index */
    IO_POINT,       /* no call: a named place of a commit, for tests that end the process there */
};

/* Returns 0 (do it), an errno (fail so), or IO_SHORT (do half of it: preads and pwrites). `what`
 * is the path, the point's name, or "". */
#define IO_SHORT (-1)
typedef int io_hook_fn(enum io_call call, const char *what, void *arg);
void io_set_hook(io_hook_fn *fn, void *arg);
/* For index.c: 0 or the errno to fail with. */
int io_ask(enum io_call call, const char *what);
void io_point(const char *name);

int io_error(int err);
/* The words for errno. */
const char *io_reason(void);

int io_open(const char *path, int flags, int *ret_fd) MUST_CHECK;
/* Up to `len`; less only at the end of the file. */
int io_pread(int fd, void *buf, size_t len, uint64_t off, size_t *ret_len) MUST_CHECK;
int io_pwrite(int fd, const void *buf, size_t len, uint64_t off) MUST_CHECK;
int io_fsync(int fd) MUST_CHECK;
int io_fdatasync(int fd) MUST_CHECK;
/* Opens, syncs and closes a directory. */
int io_sync_dir(const char *path) MUST_CHECK;
/* Space without changing the size. A file system that cannot is a success. */
int io_fallocate(int fd, uint64_t len) MUST_CHECK;
/* Bytes free for us, and all, of the file system that `path` is in. */
int io_space(const char *path, uint64_t *ret_free, uint64_t *ret_total) MUST_CHECK;
int io_unlink(const char *path) MUST_CHECK;
/* One that exists is a success. */
int io_mkdir(const char *path) MUST_CHECK;
int io_rename(const char *from, const char *to) MUST_CHECK;
/* Switches O_DIRECT. false: the file system refuses. */
bool io_set_direct(int fd, bool is_direct);

#endif
