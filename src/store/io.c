/* SPDX-License-Identifier: Apache-2.0 */
#include "store/io.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

/* one system call moves at most this: Linux stops a little below 2 GiB */
#define IO_CALL_LEN_MAX (1u << 30)

static _Atomic(io_hook_fn *) hook_fn;
static _Atomic(void *) hook_arg;

void io_set_hook(io_hook_fn *fn, void *arg)
{
    hook_arg = arg;
    hook_fn = fn;
}

int io_ask(enum io_call call, const char *what)
{
    io_hook_fn *fn = hook_fn;
    return fn ? fn(call, what, hook_arg) : 0;
}

void io_point(const char *name)
{
    (void)io_ask(IO_POINT, name);
}

int io_error(int err)
{
    switch (err) {
    case ENOSPC:
    case EDQUOT:
        return S3R_E_STORE_FULL;
    case EROFS:
        return S3R_E_STORE_READ_ONLY;
    case ENOENT:
        return S3R_E_NO_SUCH_KEY;
    case ENOMEM:
        return S3R_E_NOMEM;
    default:
        return S3R_E_STORE_IO;
    }
}

const char *io_reason(void)
{
    const char *text = strerrordesc_np(errno);
    return text ? text : "unknown error";
}

/* Fails with the hook's errno, which is set for the caller's message. */
static int refused(enum io_call call, const char *what)
{
    int err = io_ask(call, what);
    if (err <= 0)
        return 0;
    errno = err;
    return io_error(err);
}

int io_open(const char *path, int flags, int *ret_fd)
{
    int err = refused(IO_OPEN, path);
    if (err)
        return err;
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, 0600);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return io_error(errno);
    *ret_fd = fd;
    return 0;
}

/* How much of `len` this call may move; negative when it fails. */
static int piece(enum io_call call, size_t len, size_t *ret_len)
{
    int err = io_ask(call, "");
    if (err > 0) {
        errno = err;
        return io_error(err);
    }
    *ret_len = len < IO_CALL_LEN_MAX ? len : IO_CALL_LEN_MAX;
    /* cut as O_DIRECT allows: at 4 KiB, and below that only what is no 4 KiB anyway */
    if (err == IO_SHORT && *ret_len > 4096)
        *ret_len = *ret_len / 2 > 4096 ? *ret_len / 2 / 4096 * 4096 : 4096;
    else if (err == IO_SHORT && *ret_len > 1 && *ret_len < 4096)
        *ret_len /= 2;
    return 0;
}

int io_pread(int fd, void *buf, size_t len, uint64_t off, size_t *ret_len)
{
    size_t done = 0;
    while (done < len) {
        size_t want;
        int err = piece(IO_PREAD, len - done, &want);
        if (err)
            return err;
        ssize_t n = pread(fd, (char *)buf + done, want, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(errno);
        if (!n)
            break;
        done += (size_t)n;
    }
    *ret_len = done;
    return 0;
}

int io_pwrite(int fd, const void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        size_t want;
        int err = piece(IO_PWRITE, len - done, &want);
        if (err)
            return err;
        ssize_t n = pwrite(fd, (const char *)buf + done, want, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(errno);
        if (!n)
            return S3R_E_STORE_IO;
        done += (size_t)n;
    }
    return 0;
}

int io_fsync(int fd)
{
    int err = refused(IO_FSYNC, "");
    if (err)
        return err;
    return fsync(fd) ? io_error(errno) : 0;
}

int io_fdatasync(int fd)
{
    int err = refused(IO_FDATASYNC, "");
    if (err)
        return err;
    return fdatasync(fd) ? io_error(errno) : 0;
}

int io_sync_dir(const char *path)
{
    CLEANUP(closep) int fd = -1;
    int err = io_open(path, O_RDONLY | O_DIRECTORY, &fd);
    return err ? err : io_fsync(fd);
}

int io_fallocate(int fd, uint64_t len)
{
    int err = refused(IO_FALLOCATE, "");
    if (err)
        return err;
    if (!len || !fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)len))
        return 0;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)
        return 0;
    return io_error(errno);
}

int io_space(const char *path, uint64_t *ret_free, uint64_t *ret_total)
{
    struct statvfs vfs;
    int err = refused(IO_SPACE, path);
    if (err)
        return err;
    if (statvfs(path, &vfs))
        return io_error(errno);
    *ret_free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    *ret_total = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    return 0;
}

int io_unlink(const char *path)
{
    int err = refused(IO_UNLINK, path);
    if (err)
        return err;
    return unlink(path) ? io_error(errno) : 0;
}

int io_mkdir(const char *path)
{
    int err = refused(IO_MKDIR, path);
    if (err)
        return err;
    return mkdir(path, 0700) && errno != EEXIST ? io_error(errno) : 0;
}

int io_rename(const char *from, const char *to)
{
    int err = refused(IO_RENAME, to);
    if (err)
        return err;
    return rename(from, to) ? io_error(errno) : 0;
}

bool io_set_direct(int fd, bool is_direct)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (is_direct && io_ask(IO_SET_DIRECT, "")))
        return false;
    int wanted = is_direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    return wanted == flags || !fcntl(fd, F_SETFL, wanted);
}
