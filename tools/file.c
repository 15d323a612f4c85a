/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/file.h"

#include "base/crypto.h"
#include "tools/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STOP_LOOK_MS 100
#define DIRECT_ALIGN 4096u
#define DIRECT_LEN_MIN (1u << 20)

static int name_temporary(struct download *d)
{
    int n = snprintf(d->temporary, sizeof(d->temporary), "%s/.s3rdma-%016llx", d->dir,
                     (unsigned long long)random_u64());
    if (n >= 0 && (size_t)n < sizeof(d->temporary))
        return 0;
    d->temporary[0] = '\0';
    return ENAMETOOLONG;
}

static int open_stream(struct download *d)
{
    d->is_stream = true;
    d->fd = open(d->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return d->fd >= 0 ? 0 : errno;
}

int download_init(struct download *d, const char *path)
{
    *d = (struct download){.fd = -1, .is_stdout = path == NULL, .is_stream = path == NULL};
    if (path == NULL) {
        d->fd = STDOUT_FILENO;
        return 0;
    }
    if (strlen(path) >= sizeof(d->path))
        return ENAMETOOLONG;
    char copy[PATH_MAX];
    struct stat st;
    snprintf(d->path, sizeof(d->path), "%s", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return open_stream(d);
    snprintf(copy, sizeof(copy), "%s", path);
    snprintf(d->dir, sizeof(d->dir), "%s", dirname(copy));
    /* A file without a name is gone when the program is, whatever ends it. */
    d->fd = open(d->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (d->fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
        return errno;
    int error = name_temporary(d);
    if (error != 0)
        return error;
    d->fd = open(d->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    error = errno;
    if (d->fd < 0)
        d->temporary[0] = '\0';
    return d->fd >= 0 ? 0 : error;
}

static int give_name(struct download *d)
{
    if (d->temporary[0] != '\0')
        return 0;
    char self[40];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", d->fd);
    int error = name_temporary(d);
    if (error == 0 && linkat(AT_FDCWD, self, AT_FDCWD, d->temporary, AT_SYMLINK_FOLLOW) != 0) {
        error = errno;
        d->temporary[0] = '\0';
    }
    return error;
}

int download_commit(struct download *d)
{
    if (d->is_stream)
        return 0;
    if (fsync(d->fd) != 0)
        return errno;
    int error = give_name(d);
    if (error != 0)
        return error;
    if (rename(d->temporary, d->path) != 0)
        return errno;
    d->temporary[0] = '\0';
    CLEANUP(closep) int dir = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir >= 0 && fsync(dir) == 0 ? 0 : errno;
}

void download_fini(struct download *d)
{
    if (d->is_stdout || d->fd < 0)
        return;
    if (d->temporary[0] != '\0')
        unlink(d->temporary);
    close(d->fd);
    d->fd = -1;
}

/* Past the page cache, which is the slower way for what nobody reads again soon: 0, or the errno
 * that says why not. */
static int write_direct(int fd, const void *bytes, size_t len)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
        return errno;
    int error = write_all(fd, bytes, len);
    return fcntl(fd, F_SETFL, flags) == 0 ? error : errno;
}

int download_write(struct download *d, const void *bytes, size_t len)
{
    size_t direct_len = len / DIRECT_ALIGN * DIRECT_ALIGN;
    bool is_direct = !d->is_stream && !d->is_buffered && direct_len >= DIRECT_LEN_MIN &&
                     d->done % DIRECT_ALIGN == 0 && (uintptr_t)bytes % DIRECT_ALIGN == 0;
    int error = is_direct ? write_direct(d->fd, bytes, direct_len) : EINVAL;
    if (error == EINVAL || error == EOPNOTSUPP) {
        d->is_buffered = d->is_buffered || is_direct; /* this file system does not like it */
        direct_len = 0;
        error = !is_direct || lseek(d->fd, (off_t)d->done, SEEK_SET) >= 0 ? 0 : errno;
    }
    if (error == 0)
        error = write_all(d->fd, (const char *)bytes + direct_len, len - direct_len);
    d->done += error == 0 ? len : 0;
    return error;
}

int write_all(int fd, const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR && !is_stopped())
            continue;
        if (n < 0)
            return errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int read_full(int fd, void *bytes, size_t len, size_t *ret_len)
{
    char *p = bytes;
    size_t got = 0;
    while (got < len) {
        /* A signal that comes just before a read would not end it: so it waits in short steps. */
        struct pollfd p_in = {.fd = fd, .events = POLLIN};
        int ready = poll(&p_in, 1, STOP_LOOK_MS);
        if (is_stopped())
            return EINTR;
        if (ready <= 0)
            continue;
        ssize_t n = read(fd, p + got, len - got);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        if (n == 0)
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    *ret_len = got;
    return 0;
}

int read_at(int fd, void *bytes, size_t len, uint64_t off)
{
    char *p = bytes;
    while (len > 0) {
        ssize_t n = pread(fd, p, len, (off_t)off);
        if (n == 0)
            return EIO;
        if (n < 0 && errno != EINTR)
            return errno;
        if (n < 0)
            continue;
        p += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}
