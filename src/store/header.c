/* SPDX-License-Identifier: Apache-2.0 */
#include "store/header.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/crypto.h"
#include "store/io.h"
#include "store/le.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define STORE_MAGIC "S3RSTORE"
#define STORE_FORMAT 1
/* Features that this version knows; none so far. */
#define KNOWN_INCOMPATIBLE UINT64_C(0)

/* Magic and format stay where they are in every later format. */
struct header_disk {
    char magic[8];
    uint32_t format;
    uint32_t len; /* of the header */
    uint8_t uuid[STORE_UUID_LEN];
    uint64_t compatible;   /* unknown bits: go on */
    uint64_t incompatible; /* unknown bits: keep off */
    int64_t created_ms;
    uint32_t block_len;
    uint8_t zero[60];
    uint64_t crc; /* of all before it */
};
_Static_assert(sizeof(struct header_disk) == 128, "docs/disk.md");
_Static_assert(offsetof(struct header_disk, uuid) == 16, "docs/disk.md");
_Static_assert(offsetof(struct header_disk, compatible) == 32, "docs/disk.md");
_Static_assert(offsetof(struct header_disk, crc) == 120, "docs/disk.md");

static int judge(const char *dir, const struct header_disk *h, size_t len, struct diag *diag)
{
    if (len < 12 || memcmp(h->magic, STORE_MAGIC, sizeof(h->magic)))
        return diag_fail(diag, S3R_E_STORE_FORMAT, "%s/STORE is not the header of a store", dir);
    uint32_t format = le32_load(&h->format);
    if (format > STORE_FORMAT)
        return diag_fail(diag, S3R_E_STORE_FORMAT,
                         "the store in %s has format %u; this version reads up to %u: use a newer "
                         "one",
                         dir, format, STORE_FORMAT);
    if (len < sizeof(*h) || format < 1 ||
        crc64_update(0, h, offsetof(struct header_disk, crc)) != le64_load(&h->crc))
        return diag_fail(diag, S3R_E_STORE_CORRUPT, "%s/STORE does not match its checksum", dir);
    uint64_t unknown = le64_load(&h->incompatible) & ~KNOWN_INCOMPATIBLE;
    if (unknown || le32_load(&h->block_len) != LIMIT_BLOCK_LEN)
        return diag_fail(diag, S3R_E_STORE_FORMAT,
                         "the store in %s uses features that this version does not know "
                         "(bits 0x%" PRIx64 "): use a newer one",
                         dir, unknown);
    return 0;
}

int header_read(const char *dir, struct diag *diag, struct header *ret_header)
{
    char path[FILE_PATH_MAX];
    struct header_disk h = {0};
    CLEANUP(closep) int fd = -1;
    size_t len = 0;
    snprintf(path, sizeof(path), "%s/STORE", dir);
    int err = io_open(path, O_RDONLY, &fd);
    if (err == S3R_E_NO_SUCH_KEY)
        return err;
    if (!err)
        err = io_pread(fd, &h, sizeof(h), 0, &len);
    if (err)
        return diag_fail(diag, err, "cannot read %s: %s", path, io_reason());
    err = judge(dir, &h, len, diag);
    if (err)
        return err;
    memcpy(ret_header->uuid, h.uuid, sizeof(h.uuid));
    ret_header->created_ms = (int64_t)le64_load(&h.created_ms);
    return 0;
}

/* A creation that was cut short leaves these. */
static bool is_ours(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "LOCK") ||
           !strcmp(name, "STORE.new") || !strcmp(name, "lost+found");
}

static int check_empty(const char *dir, struct diag *diag)
{
    DIR *d = opendir(dir);
    if (!d)
        return diag_fail(diag, io_error(errno), "cannot read %s: %s", dir, io_reason());
    int err = 0;
    for (struct dirent *e; !err && (e = readdir(d));)
        if (!is_ours(e->d_name))
            err = diag_fail(diag, S3R_E_STORE_FORMAT,
                            "%s is neither empty nor a store (it has no STORE, but holds %s)", dir,
                            e->d_name);
    closedir(d);
    return err;
}

static int write_header(const char *dir, const struct header_disk *h)
{
    char path[FILE_PATH_MAX], final[FILE_PATH_MAX];
    CLEANUP(closep) int fd = -1;
    snprintf(path, sizeof(path), "%s/STORE.new", dir);
    snprintf(final, sizeof(final), "%s/STORE", dir);
    int err = io_open(path, O_RDWR | O_CREAT | O_TRUNC, &fd);
    if (!err)
        err = io_pwrite(fd, h, sizeof(*h), 0);
    if (!err)
        err = io_fsync(fd);
    if (!err)
        err = io_rename(path, final);
    if (!err)
        err = io_sync_dir(dir);
    if (err)
        return err;
    /* the folder's own name; who may not read the folder above cannot sync it */
    snprintf(path, sizeof(path), "%s/..", dir);
    err = io_sync_dir(path);
    return err && errno != EACCES ? err : 0;
}

int header_create(const char *dir, struct diag *diag, struct header *ret_header)
{
    struct header_disk h = {.magic = STORE_MAGIC};
    int err = check_empty(dir, diag);
    if (err)
        return err;
    le32_store(&h.format, STORE_FORMAT);
    le32_store(&h.len, sizeof(h));
    random_bytes(h.uuid, sizeof(h.uuid));
    le64_store(&h.created_ms, (uint64_t)clock_wall_ms());
    le32_store(&h.block_len, LIMIT_BLOCK_LEN);
    le64_store(&h.crc, crc64_update(0, &h, offsetof(struct header_disk, crc)));
    err = write_header(dir, &h);
    if (err)
        return diag_fail(diag, err, "cannot create a store in %s: %s", dir, io_reason());
    memcpy(ret_header->uuid, h.uuid, sizeof(h.uuid));
    ret_header->created_ms = (int64_t)le64_load(&h.created_ms);
    return 0;
}

int header_lock(const char *dir, bool is_shared, struct diag *diag, int *ret_fd)
{
    char path[FILE_PATH_MAX];
    CLEANUP(closep) int fd = -1;
    snprintf(path, sizeof(path), "%s/LOCK", dir);
    int err = io_open(path, is_shared ? O_RDONLY : O_RDWR | O_CREAT, &fd);
    if (err)
        return diag_fail(diag, err, "cannot open %s: %s", path, io_reason());
    if (flock(fd, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            return diag_fail(diag, S3R_E_STORE_LOCKED, "another process has the store in %s open",
                             dir);
        return diag_fail(diag, S3R_E_STORE_IO, "cannot lock %s: %s", path, io_reason());
    }
    *ret_fd = fd;
    fd = -1;
    return 0;
}
