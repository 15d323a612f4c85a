/* SPDX-License-Identifier: Apache-2.0 */
/* store_help.h - stores in temporary folders, objects with known bytes. */
#ifndef S3R_TESTS_STORE_HELP_H
#define S3R_TESTS_STORE_HELP_H

#include "cm.h"

#include "store/fs.h"
#include "store/io.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OK(call) assert_string_equal(error_name_or_ok(call), "ok")
#define IS(code, call) assert_string_equal(error_name_or_ok(call), error_name_or_ok(code))

static inline const char *error_name_or_ok(int err)
{
    return err ? error_name(err) : "ok";
}

struct box {
    char dir[64];
    bool is_direct;
    struct store *s;
};

static inline void box_open(struct box *b)
{
    struct store_config config = {.dir = b->dir, .is_direct = b->is_direct};
    struct diag diag = {0};
    int err = store_open(&config, &diag, &b->s);
    if (err)
        print_error("store_open: %s: %s\n", error_name(err), diag.text);
    OK(err);
}

static inline void box_reopen(struct box *b)
{
    store_close(b->s);
    b->s = NULL;
    box_open(b);
}

static inline struct box *box_create_in(const char *base)
{
    struct box *b = calloc(1, sizeof(*b));
    snprintf(b->dir, sizeof(b->dir), "%s/s3r-store-XXXXXX", base);
    assert_non_null(mkdtemp(b->dir));
    b->is_direct = true;
    box_open(b);
    struct store_bucket bucket = {.name = "bkt", .owner = "me", .region = "us-east-1"};
    OK(store_bucket_create(b->s, &bucket));
    return b;
}

static inline struct box *box_create(void)
{
    return box_create_in("/tmp");
}

/* Where syncs cost nothing: for tests that make thousands of them. */
static inline struct box *box_create_ram(void)
{
    return box_create_in(access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
}

static inline int box_remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return remove(path);
}

static inline void box_destroy(struct box *b)
{
    store_close(b->s);
    nftw(b->dir, box_remove_one, 32, FTW_DEPTH | FTW_PHYS);
    free(b);
}

static inline int box_setup(void **state)
{
    *state = box_create();
    return 0;
}

static inline int box_setup_ram(void **state)
{
    *state = box_create_ram();
    return 0;
}

static inline int box_teardown(void **state)
{
    io_set_hook(NULL, NULL); /* of a test that failed */
    box_destroy(*state);
    return 0;
}

static inline struct store_key key_of(const char *key)
{
    return (struct store_key){.bucket = "bkt", .key = key, .key_len = strlen(key)};
}

/* Byte `i` of the object that `seed` names. */
static inline unsigned char byte_at(unsigned seed, uint64_t i)
{
    uint64_t x = (i / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 29;
    return (unsigned char)(x >> (i % 8 * 8));
}

static inline char *bytes_of(unsigned seed, size_t len)
{
    char *buf = aligned_alloc(4096, (len + 4096) / 4096 * 4096);
    for (size_t i = 0; i < len; i++)
        buf[i] = (char)byte_at(seed, i);
    return buf;
}

static inline int put_with(struct store *s, const struct store_key *key, const void *bytes,
                           size_t len, bool is_size_known, store_judge_fn *judge, void *arg)
{
    CLEANUP(store_writer_closep) struct store_writer *w = NULL;
    struct store_attributes a = {.etag = "0123456789abcdef0123456789abcdef",
                                 .etag_kind = STORE_ETAG_MD5,
                                 .owner = "me"};
    int err = store_writer_open(s, is_size_known ? len : UINT64_MAX, NULL, &w);
    if (!err)
        err = store_writer_append(w, bytes, len, NULL);
    return err ? err : store_put(w, key, &a, judge, arg, NULL, NULL);
}

static inline int put_seed(struct store *s, const char *key, unsigned seed, size_t len)
{
    struct store_key k = key_of(key);
    CLEANUP(freep) char *bytes = bytes_of(seed, len);
    return put_with(s, &k, bytes, len, true, NULL, NULL);
}

/* 0 when `key` holds exactly the object of `seed`. */
static inline int check_seed(struct store *s, const char *key, unsigned seed, size_t len)
{
    struct store_key k = key_of(key);
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    int err = store_lease_open(s, &k, NULL, &l);
    if (err)
        return err;
    if (store_lease_object(l)->size != len)
        return S3R_E_INTERNAL;
    CLEANUP(freep) char *want = bytes_of(seed, len);
    CLEANUP(freep) char *got = aligned_alloc(4096, (len + 4096) / 4096 * 4096);
    err = store_lease_read(l, 0, got, len, NULL);
    if (err)
        return err;
    return memcmp(want, got, len) ? S3R_E_INTERNAL : 0;
}

static size_t box_count;

static inline int box_count_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    box_count += kind == FTW_F;
    return 0;
}

/* Data files on the disk, once what was dropped is gone. */
static inline size_t box_files(const struct box *b)
{
    reaper_settle(b->s);
    char path[128];
    snprintf(path, sizeof(path), "%s/data", b->dir);
    box_count = 0;
    nftw(path, box_count_one, 32, FTW_PHYS);
    return box_count;
}

#endif
