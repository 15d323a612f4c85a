/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/partial.h"

#include "base/crypto.h"
#include "base/limits.h"
#include "base/num.h"
#include "tools/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_LEN 40
#define LIST_MAX (LIMIT_PARTS_MAX * LINE_MAX_LEN)

/* Ours alone, and locked; -1 when it is not, or cannot be. */
static int open_own(const struct place *place, const char *name, int flags)
{
    struct stat st, now;
    int fd = openat(place->dir, name, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    /* Whoever had the lock before may have renamed the file to its target meanwhile. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_uid == geteuid() && st.st_nlink == 1 &&
        fstatat(place->dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st.st_ino &&
        now.st_dev == st.st_dev)
        return fd;
    close(fd);
    return -1;
}

/* "INDEX CRC", as partial_add() writes it. */
static void take_line(struct partial *p, const char *line, size_t len)
{
    const char *blank = memchr(line, ' ', len);
    uint64_t index, crc;
    if (blank == NULL)
        return;
    size_t index_len = (size_t)(blank - line);
    if (num_parse_dec(line, index_len, p->count - 1, &index) &&
        num_parse_hex(blank + 1, len - index_len - 1, 16, 16, &crc))
        p->pieces[index] = (struct partial_piece){.is_there = true, .crc64 = crc};
}

/* A last line without its end was being written when the program ended: it is left out. */
static void load(struct partial *p)
{
    struct stat st;
    if (fstat(p->list, &st) != 0 || st.st_size <= 0 || st.st_size > LIST_MAX)
        return;
    CLEANUP(freep) char *text = malloc((size_t)st.st_size);
    ssize_t len = text != NULL ? pread(p->list, text, (size_t)st.st_size, 0) : 0;
    for (const char *line = text, *end; len > 0; line = end + 1) {
        end = memchr(line, '\n', (size_t)len);
        if (end == NULL)
            return;
        take_line(p, line, (size_t)(end - line));
        len -= end + 1 - line;
    }
}

/* Without a list: nobody finds it again. */
static int open_alone(struct partial *p)
{
    snprintf(p->name, sizeof(p->name), PLACE_UNDER_WAY "%016" PRIx64, random_u64());
    p->fd = openat(p->place->dir, p->name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    return p->fd >= 0 ? 0 : errno;
}

int partial_open(const struct place *place, const void *identity, size_t identity_len, size_t count,
                 struct partial *ret_partial)
{
    struct partial p = {.place = place, .fd = -1, .list = -1, .count = count};
    char digest[2 * SHA256_LEN + 1];
    sha256_hex(identity, identity_len, digest);
    snprintf(p.name, sizeof(p.name), PLACE_UNDER_WAY "%.32s.part", digest);
    snprintf(p.list_name, sizeof(p.list_name), PLACE_UNDER_WAY "%.32s.list", digest);
    p.pieces = calloc(count, sizeof(*p.pieces));
    if (p.pieces == NULL)
        return ENOMEM;
    p.fd = open_own(place, p.name, O_RDWR);
    p.list = p.fd >= 0 ? open_own(place, p.list_name, O_RDWR | O_APPEND) : -1;
    if (p.list >= 0) {
        load(&p);
    } else {
        if (p.fd >= 0) {
            unlinkat(place->dir, p.name, 0);
            close(p.fd);
        }
        int error = open_alone(&p);
        if (error != 0) {
            free(p.pieces);
            return error;
        }
    }
    *ret_partial = p;
    return 0;
}

int partial_write(const struct partial *p, const void *bytes, size_t len, uint64_t off)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = pwrite(p->fd, at, len, (off_t)off);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n <= 0)
            continue;
        at += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int partial_read(const struct partial *p, void *bytes, size_t len, uint64_t off)
{
    return read_at(p->fd, bytes, len, off);
}

int partial_add(const struct partial *p, size_t index, uint64_t crc64)
{
    char line[LINE_MAX_LEN];
    if (p->list < 0)
        return 0;
    int n = snprintf(line, sizeof(line), "%zu %016" PRIx64 "\n", index, crc64);
    return write_all(p->list, line, (size_t)n);
}

static void close_all(struct partial *p)
{
    if (p->fd >= 0)
        close(p->fd);
    if (p->list >= 0)
        close(p->list);
    free(p->pieces);
    *p = (struct partial){.fd = -1, .list = -1};
}

int file_set_time(int fd, int64_t time_ms)
{
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_NOW},
        {.tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000},
    };
    return time_ms <= 0 || futimens(fd, times) == 0 ? 0 : errno;
}

static int commit(struct partial *p, uint64_t len, int64_t time_ms)
{
    int error = ftruncate(p->fd, (off_t)len) == 0 ? file_set_time(p->fd, time_ms) : errno;
    if (error == 0 && fsync(p->fd) != 0)
        error = errno;
    if (error == 0 && renameat(p->place->dir, p->name, p->place->dir, p->place->name) != 0)
        error = errno;
    return error;
}

int partial_commit(struct partial *p, uint64_t len, int64_t time_ms)
{
    int error = commit(p, len, time_ms);
    if (error != 0) {
        partial_discard(p);
        return error;
    }
    if (p->list >= 0)
        unlinkat(p->place->dir, p->list_name, 0);
    if (fsync(p->place->dir) != 0)
        error = errno;
    close_all(p);
    return error;
}

bool partial_keep(struct partial *p)
{
    if (p->list < 0) {
        partial_discard(p);
        return false;
    }
    close_all(p);
    return true;
}

void partial_discard(struct partial *p)
{
    if (p->fd >= 0)
        unlinkat(p->place->dir, p->name, 0);
    if (p->list >= 0)
        unlinkat(p->place->dir, p->list_name, 0);
    close_all(p);
}
