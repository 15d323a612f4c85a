/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/guard.h"
#include "base/num.h"
#include "store/file.h"
#include "store/file_format.h"
#include "store/io.h"
#include "store/le.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Smaller files are left to the page cache: they may well be read again. */
#define DIRECT_FILE_LEN_MIN (4 * MIB)
/* Below this a read costs less than a mapping. */
#define VIEW_FILE_LEN_MIN (256 * KIB)
#define READ_RUN_BLOCKS 8
#define PAGE_LEN 4096

static int read_exact(const struct file_in *f, void *buf, size_t len, uint64_t off)
{
    size_t n = 0;
    int err = io_pread(f->fd, buf, len, off, &n);
    if (err)
        return err;
    return n == len ? 0 : S3R_E_STORE_CORRUPT; /* the file was cut */
}

static int judge_end(struct file_in *f, const struct file_end *end, uint64_t file_len,
                     const uint8_t uuid[STORE_UUID_LEN])
{
    if (memcmp(end->magic, FILE_MAGIC, sizeof(end->magic)) ||
        crc64_update(0, end, offsetof(struct file_end, end_crc)) != le64_load(&end->end_crc))
        return S3R_E_STORE_CORRUPT;
    if (le32_load(&end->format) > FILE_FORMAT || le32_load(&end->block_len) != LIMIT_BLOCK_LEN)
        return S3R_E_STORE_FORMAT;
    f->size = le64_load(&end->size);
    f->crc64 = le64_load(&end->crc64);
    f->kind = (enum file_kind)le32_load(&end->kind);
    f->record_len = le32_load(&end->record_len);
    f->record_crc = le64_load(&end->record_crc);
    if (memcmp(end->uuid, uuid, STORE_UUID_LEN) || le64_load(&end->file_id) != f->file_id ||
        f->size > LIMIT_OBJECT_LEN_MAX || f->record_len > RECORD_LEN_MAX)
        return S3R_E_STORE_CORRUPT;
    f->table_count = (f->size + LIMIT_BLOCK_LEN - 1) / LIMIT_BLOCK_LEN;
    f->record_off = f->size + f->table_count * sizeof(*f->table);
    return f->record_off + f->record_len + sizeof(*end) == file_len ? 0 : S3R_E_STORE_CORRUPT;
}

static int load_table(struct file_in *f, uint64_t crc)
{
    size_t len = f->table_count * sizeof(*f->table);
    f->table = malloc(len ? len : 1);
    if (!f->table)
        return S3R_E_NOMEM;
    int err = read_exact(f, f->table, len, f->size);
    if (err)
        return err;
    return crc64_update(0, f->table, len) == crc ? 0 : S3R_E_STORE_CORRUPT;
}

static int open_judged(struct file_in *f, const char *path, const uint8_t uuid[STORE_UUID_LEN])
{
    struct stat st;
    struct file_end end;
    int err = io_open(path, O_RDONLY, &f->fd);
    if (err)
        return err;
    if (fstat(f->fd, &st))
        return S3R_E_STORE_IO;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(end))
        return S3R_E_STORE_CORRUPT;
    err = read_exact(f, &end, sizeof(end), (uint64_t)st.st_size - sizeof(end));
    if (!err)
        err = judge_end(f, &end, (uint64_t)st.st_size, uuid);
    return err ? err : load_table(f, le64_load(&end.table_crc));
}

int file_in_open(struct file_in *f, const char *store_dir, uint64_t file_id,
                 const uint8_t uuid[STORE_UUID_LEN])
{
    char path[FILE_PATH_MAX];
    memset(f, 0, sizeof(*f));
    f->fd = f->direct_fd = -1;
    f->file_id = file_id;
    file_path(path, store_dir, file_id);
    int err = open_judged(f, path, uuid);
    if (err)
        file_in_close(f);
    return err;
}

void file_in_close(struct file_in *f)
{
    closep(&f->fd);
    closep(&f->direct_fd);
    if (f->map)
        munmap((void *)(uintptr_t)f->map, f->size);
    f->map = NULL;
    free(f->table);
    f->table = NULL;
}

static void map_file(struct file_in *f)
{
    void *map = mmap(NULL, f->size, PROT_READ, MAP_SHARED, f->fd, 0);
    f->map = map == MAP_FAILED ? NULL : map;
}

void file_in_prepare_view(struct file_in *f)
{
    if (f->size >= VIEW_FILE_LEN_MIN && !f->map)
        map_file(f);
}

/* A second descriptor, of the same file even when its name is gone. */
void file_in_open_direct(struct file_in *f, struct recent *recent, bool *is_direct)
{
    char path[64];
    if (f->size < DIRECT_FILE_LEN_MIN || f->map)
        return;
    map_file(f);
    if (!*is_direct || !f->map)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
    if (io_open(path, O_RDONLY | O_DIRECT, &f->direct_fd))
        *is_direct = false;
    f->recent = recent;
}

/* Does the page cache hold all of it? Asking must not start a read, as RWF_NOWAIT does for the page
 * that it misses. `off` is page-aligned. */
static bool is_cached(const struct file_in *f, uint64_t off, size_t len)
{
    unsigned char pages[READ_RUN_BLOCKS * LIMIT_BLOCK_LEN / PAGE_LEN];
    size_t count = (len + PAGE_LEN - 1) / PAGE_LEN;
    if (!f->map || count > sizeof(pages) ||
        mincore((void *)(uintptr_t)(f->map + off), len, pages) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!(pages[i] & 1))
            return false;
    return true;
}

/* Must it be read from the disk, and is it not worth keeping? */
static bool goes_past_cache(const struct file_in *f, const char *buf, size_t len, uint64_t off)
{
    return f->direct_fd >= 0 && len % LIMIT_BLOCK_LEN == 0 && (uintptr_t)buf % PAGE_LEN == 0 &&
           !is_cached(f, off, len) &&
           !recent_again(f->recent, f->file_id, off / LIMIT_BLOCK_LEN, len / LIMIT_BLOCK_LEN);
}

/* `off` and `len` are whole blocks, but for the end of the data. */
static int read_raw(const struct file_in *f, char *buf, size_t len, uint64_t off)
{
    if (goes_past_cache(f, buf, len, off)) {
        size_t n = 0;
        int err = io_pread(f->direct_fd, buf, len, off, &n);
        if (!err && n == len)
            return 0;
        /* what went wrong is for the buffered read to say */
    }
    return read_exact(f, buf, len, off);
}

static int check_blocks(const struct file_in *f, const char *buf, size_t len, size_t block)
{
    for (size_t at = 0; at < len; at += LIMIT_BLOCK_LEN, block++)
        if (crc64_update(0, buf + at, min_u64(LIMIT_BLOCK_LEN, len - at)) !=
            le64_load(&f->table[block]))
            return S3R_E_STORE_CORRUPT;
    return 0;
}

static int read_blocks(const struct file_in *f, char *buf, size_t len, size_t block)
{
    int err = read_raw(f, buf, len, block * LIMIT_BLOCK_LEN);
    return err ? err : check_blocks(f, buf, len, block);
}

/* How much of [off, off+len) are whole blocks from `off` on; 0 when it starts inside one. */
static size_t run_len(const struct file_in *f, uint64_t off, size_t len)
{
    if (off % LIMIT_BLOCK_LEN)
        return 0;
    if (len > READ_RUN_BLOCKS * LIMIT_BLOCK_LEN)
        len = READ_RUN_BLOCKS * LIMIT_BLOCK_LEN;
    /* the last block, when it is short, goes by itself: the rest can then be direct */
    size_t whole = align_down(len, LIMIT_BLOCK_LEN);
    return whole || off + len < f->size ? whole : len;
}

int file_in_read(const struct file_in *f, uint64_t off, void *buf, size_t len)
{
    CLEANUP(freep) char *bounce = NULL;
    char *at = buf;
    if (!span_fits(off, len, f->size))
        return S3R_E_INVALID_RANGE;
    while (len) {
        size_t n = run_len(f, off, len), block = off / LIMIT_BLOCK_LEN;
        int err;
        if (n) {
            err = read_blocks(f, at, n, block);
        } else {
            uint64_t start = block * LIMIT_BLOCK_LEN;
            size_t block_len = min_u64(LIMIT_BLOCK_LEN, f->size - start);
            if (!bounce)
                bounce = aligned_alloc(4096, LIMIT_BLOCK_LEN);
            err = bounce ? read_blocks(f, bounce, block_len, block) : S3R_E_NOMEM;
            n = min_u64(len, start + block_len - off);
            if (!err)
                memcpy(at, bounce + (off - start), n);
        }
        if (err)
            return err;
        at += n;
        off += n;
        len -= n;
    }
    return 0;
}

struct check {
    const struct file_in *f;
    size_t block, blocks;
    int err;
};

static void check_mapped(void *arg)
{
    struct check *c = arg;
    uint64_t start = c->block * LIMIT_BLOCK_LEN;
    size_t len = min_u64(c->blocks * LIMIT_BLOCK_LEN, c->f->size - start);
    c->err = check_blocks(c->f, c->f->map + start, len, c->block);
}

int file_in_view(const struct file_in *f, uint64_t off, size_t len, const void **ret_bytes)
{
    size_t first = off / LIMIT_BLOCK_LEN, end = (off + len + LIMIT_BLOCK_LEN - 1) / LIMIT_BLOCK_LEN;
    struct check c = {.f = f, .block = first, .blocks = end - first};
    if (!f->map || !len || !span_fits(off, len, f->size) || c.blocks > READ_RUN_BLOCKS)
        return S3R_E_UNSUPPORTED;
    uint64_t start = first * LIMIT_BLOCK_LEN;
    if (!is_cached(f, start, min_u64(c.blocks * LIMIT_BLOCK_LEN, f->size - start)))
        return S3R_E_UNSUPPORTED;
    if (!guarded_read(check_mapped, &c))
        return S3R_E_STORE_IO;
    if (!c.err)
        *ret_bytes = f->map + off;
    return c.err;
}

int file_in_record(struct file_in *f, char **ret_bytes, size_t *ret_len)
{
    CLEANUP(freep) char *bytes = malloc(f->record_len ? f->record_len : 1);
    if (!bytes)
        return S3R_E_NOMEM;
    int err = read_exact(f, bytes, f->record_len, f->record_off);
    if (err)
        return err;
    if (crc64_update(0, bytes, f->record_len) != f->record_crc)
        return S3R_E_STORE_CORRUPT;
    *ret_len = f->record_len;
    *ret_bytes = STEAL(bytes);
    return 0;
}

int file_in_verify(struct file_in *f, uint64_t *ret_bad_blocks)
{
    CLEANUP(freep) char *buf = aligned_alloc(4096, LIMIT_BLOCK_LEN);
    uint64_t bad = 0, whole = 0;
    if (!buf)
        return S3R_E_NOMEM;
    for (size_t block = 0; block < f->table_count; block++) {
        size_t len = min_u64(LIMIT_BLOCK_LEN, f->size - block * LIMIT_BLOCK_LEN);
        int err = read_blocks(f, buf, len, block);
        if (err && err != S3R_E_STORE_CORRUPT && err != S3R_E_STORE_IO)
            return err;
        bad += err != 0;
        whole = crc64_combine(whole, le64_load(&f->table[block]), len);
    }
    *ret_bad_blocks = bad + (whole != f->crc64);
    return 0;
}
