/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file.h"

#include "base/crc64.h"
#include "base/num.h"
#include "store/file_format.h"
#include "store/io.h"
#include "store/le.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void folder_path(char out[FILE_PATH_MAX], const char *store_dir, uint64_t file_id, int depth)
{
    int n = snprintf(out, FILE_PATH_MAX, "%s/data", store_dir);
    if (depth > 0)
        n += snprintf(out + n, FILE_PATH_MAX - (size_t)n, "/%011llx",
                      (unsigned long long)(file_id >> 20));
    if (depth > 1)
        snprintf(out + n, FILE_PATH_MAX - (size_t)n, "/%03x", (unsigned)(file_id >> 10 & 0x3ff));
}

void file_folder(char out[FILE_PATH_MAX], const char *store_dir, uint64_t file_id)
{
    folder_path(out, store_dir, file_id, 2);
}

void file_path(char out[FILE_PATH_MAX], const char *store_dir, uint64_t file_id)
{
    file_folder(out, store_dir, file_id);
    size_t n = strlen(out);
    snprintf(out + n, FILE_PATH_MAX - n, "/%016llx", (unsigned long long)file_id);
}

int file_make_folders(const char *store_dir, uint64_t file_id, bool *ret_is_sync_failed)
{
    char path[FILE_PATH_MAX];
    *ret_is_sync_failed = false;
    for (int depth = 1; depth <= 2; depth++) {
        folder_path(path, store_dir, file_id, depth);
        int err = io_mkdir(path);
        if (err)
            return err;
        CLEANUP(closep) int fd = -1;
        folder_path(path, store_dir, file_id, depth - 1);
        err = io_open(path, O_RDONLY | O_DIRECTORY, &fd);
        if (err)
            return err;
        err = io_fsync(fd);
        if (err) {
            *ret_is_sync_failed = true;
            return err;
        }
    }
    return 0;
}

/* ---- writing ---- */

int file_out_open(struct file_out *f, const char *store_dir, uint64_t file_id, uint64_t size,
                  bool *is_direct)
{
    char path[FILE_PATH_MAX];
    memset(f, 0, sizeof(*f));
    f->fd = -1;
    f->file_id = file_id;
    file_path(path, store_dir, file_id);
    int err = io_open(path, O_RDWR | O_CREAT | O_EXCL, &f->fd);
    if (err)
        return err;
    if (size != UINT64_MAX)
        err = io_fallocate(f->fd, size);
    if (err)
        return err;
    if (*is_direct && size >= LIMIT_BLOCK_LEN)
        *is_direct = f->is_direct = io_set_direct(f->fd, true);
    return 0;
}

void file_out_close(struct file_out *f)
{
    closep(&f->fd);
    free(f->table);
    free(f->block);
    f->table = NULL;
    f->block = NULL;
}

static int table_push(struct file_out *f, uint64_t crc, size_t block_len)
{
    if (f->table_count == f->table_cap) {
        size_t cap = f->table_cap ? f->table_cap * 2 : 16;
        uint64_t *table = realloc(f->table, cap * sizeof(*table));
        if (!table)
            return S3R_E_NOMEM;
        f->table = table;
        f->table_cap = cap;
    }
    le64_store(&f->table[f->table_count++], crc);
    f->crc64 = crc64_combine(f->crc64, crc, block_len);
    return 0;
}

/* `len` is a multiple of the block's. */
static int write_blocks(struct file_out *f, const char *buf, size_t len)
{
    uint64_t off = f->table_count * LIMIT_BLOCK_LEN;
    for (size_t at = 0; at < len; at += LIMIT_BLOCK_LEN) {
        int err = table_push(f, crc64_update(0, buf + at, LIMIT_BLOCK_LEN), LIMIT_BLOCK_LEN);
        if (err)
            return err;
    }
    return io_pwrite(f->fd, buf, len, off);
}

/* Collects bytes until they are a block. What comes in whole blocks never needs the memory. */
static int fill_block(struct file_out *f, const char *at, size_t len)
{
    if (!f->block)
        f->block = aligned_alloc(4096, LIMIT_BLOCK_LEN);
    if (!f->block)
        return S3R_E_NOMEM;
    memcpy(f->block + f->block_len, at, len);
    f->block_len += len;
    if (f->block_len < LIMIT_BLOCK_LEN)
        return 0;
    f->block_len = 0;
    return write_blocks(f, f->block, LIMIT_BLOCK_LEN);
}

int file_out_append(struct file_out *f, const void *buf, size_t len)
{
    const char *at = buf;
    if (len > LIMIT_OBJECT_LEN_MAX - f->size)
        return S3R_E_ENTITY_TOO_LARGE;
    while (len) {
        size_t n;
        int err = 0;
        bool is_as_it_is =
            !f->block_len && len >= LIMIT_BLOCK_LEN && (!f->is_direct || (uintptr_t)at % 4096 == 0);
        if (is_as_it_is) {
            n = align_down(len, LIMIT_BLOCK_LEN);
            err = write_blocks(f, at, n);
        } else {
            n = min_u64(len, LIMIT_BLOCK_LEN - f->block_len);
            err = fill_block(f, at, n);
        }
        if (err)
            return err;
        f->size += n;
        at += n;
        len -= n;
    }
    return 0;
}

uint64_t file_out_crc64(const struct file_out *f)
{
    if (f->has_trailer || !f->block_len)
        return f->crc64;
    return crc64_combine(f->crc64, crc64_update(0, f->block, f->block_len), f->block_len);
}

static void make_end(const struct file_out *f, enum file_kind kind,
                     const uint8_t uuid[STORE_UUID_LEN], const struct text *record,
                     struct file_end *end)
{
    memset(end, 0, sizeof(*end));
    memcpy(end->magic, FILE_MAGIC, sizeof(end->magic));
    le32_store(&end->format, FILE_FORMAT);
    le32_store(&end->kind, kind);
    memcpy(end->uuid, uuid, STORE_UUID_LEN);
    le64_store(&end->file_id, f->file_id);
    le64_store(&end->size, f->size);
    le64_store(&end->crc64, f->crc64);
    le64_store(&end->table_crc, crc64_update(0, f->table, f->table_count * sizeof(*f->table)));
    le64_store(&end->record_crc, crc64_update(0, record->data, record->len));
    le32_store(&end->record_len, (uint32_t)record->len);
    le32_store(&end->block_len, LIMIT_BLOCK_LEN);
    le64_store(&end->end_crc, crc64_update(0, end, offsetof(struct file_end, end_crc)));
}

/* The last block, which is short. */
static int write_rest(struct file_out *f)
{
    int err = table_push(f, crc64_update(0, f->block, f->block_len), f->block_len);
    return err ? err : io_pwrite(f->fd, f->block, f->block_len, f->size - f->block_len);
}

int file_out_finish(struct file_out *f, enum file_kind kind, const uint8_t uuid[STORE_UUID_LEN],
                    const struct text *record)
{
    struct file_end end;
    struct text tail;
    bool is_first = !f->has_trailer;
    uint64_t off = is_first ? f->size : f->trailer_off;
    if (is_first && f->is_direct)
        f->is_direct = !io_set_direct(f->fd, false);
    text_init(&tail, SIZE_MAX / 2);
    if (is_first) {
        int err = f->block_len ? write_rest(f) : 0;
        if (err)
            return err;
        text_add(&tail, f->table, f->table_count * sizeof(*f->table));
        f->trailer_off = off + tail.len;
        f->has_trailer = true;
    }
    make_end(f, kind, uuid, record, &end);
    text_add(&tail, record->data, record->len);
    text_add(&tail, &end, sizeof(end));
    int err = text_error(&tail);
    if (!err)
        err = io_pwrite(f->fd, tail.data, tail.len, off);
    text_fini(&tail);
    return err;
}
