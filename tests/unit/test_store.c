/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include "store/le.h"

#include <fcntl.h>

static const size_t sizes[] = {
    0,       1,       LIMIT_INLINE_LEN_MAX, LIMIT_INLINE_LEN_MAX + 1, MIB - 1, MIB,
    MIB + 1, 5 * MIB, 9 * MIB + 12345};

static void objects_of_all_sizes_come_back_after_a_restart(void **state)
{
    struct box *b = *state;
    char key[32];
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        snprintf(key, sizeof(key), "size/%zu", i);
        OK(put_seed(b->s, key, (unsigned)i, sizes[i]));
        OK(check_seed(b->s, key, (unsigned)i, sizes[i]));
    }
    box_reopen(b);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        snprintf(key, sizeof(key), "size/%zu", i);
        OK(check_seed(b->s, key, (unsigned)i, sizes[i]));
    }
    assert_int_equal(box_files(b), 1 + 6); /* the bucket's note, and what is not inline */
}

static void every_range_is_exact(void **state)
{
    struct box *b = *state;
    size_t size = 3 * MIB + 777;
    struct store_key k = key_of("ranged");
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    CLEANUP(freep) char *want = bytes_of(7, size);
    CLEANUP(freep) char *got = malloc(size);
    OK(put_seed(b->s, "ranged", 7, size));
    OK(store_lease_open(b->s, &k, NULL, &l));
    static const uint64_t offs[] = {0,       1,       4095,    MIB - 1,      MIB,
                                    MIB + 1, 2 * MIB, 3 * MIB, 3 * MIB + 776};
    static const uint64_t lens[] = {0, 1, 511, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 777};
    for (size_t i = 0; i < ARRAY_LEN(offs); i++) {
        for (size_t j = 0; j < ARRAY_LEN(lens); j++) {
            bool fits = offs[i] + lens[j] <= size;
            memset(got, 0xaa, size);
            IS(fits ? 0 : S3R_E_INVALID_RANGE, store_lease_read(l, offs[i], got, lens[j], NULL));
            if (fits)
                assert_memory_equal(got, want + offs[i], lens[j]);
        }
    }
    IS(S3R_E_INVALID_RANGE, store_lease_read(l, UINT64_MAX, got, 2, NULL));
}

static void a_lease_outlives_overwrite_and_delete(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    CLEANUP(freep) char *got = malloc(2 * MIB);
    CLEANUP(freep) char *want = bytes_of(1, 2 * MIB);
    for (int is_delete = 0; is_delete < 2; is_delete++) {
        struct store_lease *l;
        OK(put_seed(b->s, "k", 1, 2 * MIB));
        OK(store_lease_open(b->s, &k, NULL, &l));
        if (is_delete)
            OK(store_delete(b->s, &k, NULL, NULL, NULL));
        else
            OK(put_seed(b->s, "k", 2, 3 * MIB));
        OK(store_lease_read(l, 0, got, 2 * MIB, NULL));
        assert_memory_equal(got, want, 2 * MIB);
        assert_int_equal(box_files(b), is_delete ? 2 : 3);
        store_lease_close(l);
        assert_int_equal(box_files(b), is_delete ? 1 : 2);
    }
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "k", 1, 2 * MIB));
}

static int judge_absent(const struct store_object *current, void *arg)
{
    return current ? S3R_E_PRECONDITION : 0;
}

static void a_judge_that_refuses_keeps_the_old_object(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    OK(put_with(b->s, &k, "old", 3, true, judge_absent, NULL));
    CLEANUP(freep) char *big = bytes_of(3, 2 * MIB);
    IS(S3R_E_PRECONDITION, put_with(b->s, &k, big, 2 * MIB, true, judge_absent, NULL));
    IS(S3R_E_PRECONDITION, store_delete(b->s, &k, judge_absent, NULL, NULL));
    struct store_lease *l;
    char got[3];
    OK(store_lease_open(b->s, &k, NULL, &l));
    assert_true(store_lease_is_inline(l));
    OK(store_lease_read(l, 0, got, 3, NULL));
    assert_memory_equal(got, "old", 3);
    store_lease_close(l);
    assert_int_equal(box_files(b), 1);
}

static void attributes_come_back_as_given(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    struct store_meta meta[] = {{"content-type", "text/plain"},
                                {"x-amz-meta-a", ""},
                                {"", "\xc3\xa9"}};
    struct store_attributes a = {
        .etag = "e-1",
        .etag_kind = STORE_ETAG_OPAQUE,
        .owner = "ow",
        .storage_class = "COLD",
        .meta = meta,
        .meta_count = 3,
        .checksum = {.kind = STORE_SHA256, .type = STORE_COMPOSITE, .len = 32, .parts = 4}};
    memset(a.checksum.bytes, 0x5a, 32);
    for (size_t size = 4; size <= 4 * MIB; size *= MIB) {
        struct store_writer *w;
        struct store_lease *l;
        CLEANUP(freep) char *bytes = bytes_of(9, size);
        int64_t modified = 0;
        OK(store_writer_open(b->s, UINT64_MAX, NULL, &w));
        OK(store_writer_append(w, bytes, size, NULL));
        uint64_t crc = store_writer_crc64(w);
        OK(store_put(w, &k, &a, NULL, NULL, NULL, &modified));
        store_writer_close(w);
        box_reopen(b);
        OK(store_lease_open(b->s, &k, NULL, &l));
        const struct store_object *o = store_lease_object(l);
        assert_int_equal(o->size, size);
        assert_int_equal(o->modified_ms, modified);
        assert_int_equal(o->crc64, crc);
        assert_string_equal(o->etag, "e-1");
        assert_int_equal(o->etag_kind, STORE_ETAG_OPAQUE);
        assert_string_equal(o->owner, "ow");
        assert_string_equal(o->storage_class, "COLD");
        assert_memory_equal(&o->checksum, &a.checksum, sizeof(a.checksum));
        assert_int_equal(o->meta_count, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_string_equal(o->meta[i].name, meta[i].name);
            assert_string_equal(o->meta[i].value, meta[i].value);
        }
        store_lease_close(l);
    }
}

static void odd_keys_are_objects_of_their_own(void **state)
{
    struct box *b = *state;
    char longest[LIMIT_KEY_LEN_MAX + 2];
    memset(longest, '/', sizeof(longest));
    longest[LIMIT_KEY_LEN_MAX] = 0;
    const char *keys[] = {"a",  "a/b",  "a//b",      "a/./b",    "../x",     "/",
                          "//", "\x01", "a\x01",     "\xff",     "\xff\xff", "a/",
                          "A",  "a/b/", "e\xcc\x81", "\xc3\xa9", " ",        longest};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        OK(put_seed(b->s, keys[i], (unsigned)i, 10 + i));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        OK(check_seed(b->s, keys[i], (unsigned)i, 10 + i));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct store_key k = key_of(keys[i]);
        bool existed = false;
        OK(store_delete(b->s, &k, NULL, NULL, &existed));
        assert_true(existed);
        for (size_t j = i + 1; j < ARRAY_LEN(keys); j++)
            OK(check_seed(b->s, keys[j], (unsigned)j, 10 + j));
    }
    longest[LIMIT_KEY_LEN_MAX] = 'x';
    longest[LIMIT_KEY_LEN_MAX + 1] = 0;
    IS(S3R_E_KEY_TOO_LONG, put_seed(b->s, longest, 1, 1));
    IS(S3R_E_INVALID_ARGUMENT, put_seed(b->s, "", 1, 1));
    struct store_key nul = {.bucket = "bkt", .key = "a\0b", .key_len = 3};
    IS(S3R_E_INVALID_ARGUMENT, put_with(b->s, &nul, "x", 1, true, NULL, NULL));
    OK(store_bucket_delete(b->s, "bkt"));
}

static void buckets_are_made_listed_and_deleted_only_when_empty(void **state)
{
    struct box *b = *state;
    struct store_bucket bucket = {.name = "abc", .owner = "o", .region = "r", .created_ms = 12};
    struct store_bucket rows[8];
    size_t count;
    bool more;
    IS(S3R_E_NO_SUCH_BUCKET, store_bucket_stat(b->s, "abc", rows));
    OK(store_bucket_create(b->s, &bucket));
    IS(S3R_E_BUCKET_EXISTS, store_bucket_create(b->s, &bucket));
    box_reopen(b);
    OK(store_bucket_stat(b->s, "abc", rows));
    assert_string_equal(rows[0].owner, "o");
    assert_string_equal(rows[0].region, "r");
    assert_int_equal(rows[0].created_ms, 12);
    OK(store_bucket_list(b->s, NULL, 1, rows, &count, &more));
    assert_int_equal(count, 1);
    assert_true(more);
    OK(store_bucket_list(b->s, rows[0].name, 8, rows, &count, &more));
    assert_int_equal(count, 1);
    assert_false(more);
    assert_string_equal(rows[0].name, "bkt");
    OK(put_seed(b->s, "k", 1, 1));
    IS(S3R_E_BUCKET_NOT_EMPTY, store_bucket_delete(b->s, "bkt"));
    OK(store_bucket_delete(b->s, "abc"));
    IS(S3R_E_NO_SUCH_BUCKET, store_bucket_delete(b->s, "abc"));
    struct store_key k = {.bucket = "abc", .key = "k", .key_len = 1};
    IS(S3R_E_NO_SUCH_BUCKET, put_with(b->s, &k, "x", 1, true, NULL, NULL));
    struct store_lease *l;
    IS(S3R_E_NO_SUCH_BUCKET, store_lease_open(b->s, &k, NULL, &l));
    assert_int_equal(box_files(b), 1);
}

static void a_writer_closed_without_commit_leaves_nothing(void **state)
{
    struct box *b = *state;
    CLEANUP(freep) char *bytes = bytes_of(9, 3 * MIB);
    struct store_writer *w;
    OK(store_writer_open(b->s, 3 * MIB, NULL, &w));
    OK(store_writer_append(w, bytes, 3 * MIB, NULL));
    assert_int_equal(box_files(b), 2);
    store_writer_close(w);
    assert_int_equal(box_files(b), 1);
}

static void checksum_does_not_depend_on_the_pieces(void **state)
{
    struct box *b = *state;
    size_t size = 2 * MIB + 99999;
    CLEANUP(freep) char *bytes = bytes_of(5, size);
    uint64_t crc = 0;
    static const size_t pieces[] = {SIZE_MAX, 1000, 4096, 65536, MIB, MIB + 4096};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct store_writer *w;
        struct store_key k = key_of("pieces");
        struct store_attributes a = {.etag = "x"};
        OK(store_writer_open(b->s, i % 2 ? UINT64_MAX : size, NULL, &w));
        for (size_t off = 0; off < size;) {
            size_t n = size - off < pieces[i] ? size - off : pieces[i];
            OK(store_writer_append(w, bytes + off, n, NULL));
            off += n;
        }
        assert_int_equal(store_writer_size(w), size);
        if (!i)
            crc = store_writer_crc64(w);
        assert_true(crc == store_writer_crc64(w));
        OK(store_put(w, &k, &a, NULL, NULL, NULL, NULL));
        store_writer_close(w);
        OK(check_seed(b->s, "pieces", 5, size));
    }
}

static void an_object_in_the_index_is_leased_without_the_disk(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k"), none = key_of("none");
    struct store_lease *l;
    OK(put_seed(b->s, "k", 1, 100));
    OK(store_lease_open_cached(b->s, &k, &l));
    assert_true(store_lease_is_inline(l));
    store_lease_close(l);
    IS(S3R_E_NO_SUCH_KEY, store_lease_open_cached(b->s, &none, &l));
    for (char more[] = "a"; *more <= 'z'; ++*more) /* so that the index has many blocks */
        OK(put_seed(b->s, more, 1, *more == 'k' ? 100 : 9000));
    box_reopen(b);
    /* the rows are on the disk now, and not yet in the cache */
    IS(S3R_E_TIMEOUT, store_lease_open_cached(b->s, &k, &l));
    OK(check_seed(b->s, "k", 1, 100));
    OK(store_lease_open_cached(b->s, &k, &l));
    store_lease_close(l);
}

/* The one data file of the box. */
static char data_path[4096];

static int find_data(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    if (kind == FTW_F && st->st_size > (off_t)MIB)
        snprintf(data_path, sizeof(data_path), "%s", path);
    return 0;
}

static void a_view_is_verified_and_only_of_what_is_cached(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    enum { LEN = 6 * MIB + 5 };
    CLEANUP(freep) char *want = bytes_of(3, LEN);
    CLEANUP(freep) char *got = malloc(LEN);
    OK(put_seed(b->s, "k", 3, LEN));
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    OK(store_lease_open(b->s, &k, NULL, &l));
    nftw(b->dir, find_data, 32, FTW_PHYS);
    CLEANUP(closep) int fd = open(data_path, O_RDWR);
    struct store_view view;
    assert_int_equal(pread(fd, got, LEN, 0), LEN); /* all of it is cached now */
    OK(store_lease_view(l, MIB, 2 * MIB, &view));
    assert_memory_equal(view.bytes, want + MIB, 2 * MIB);
    store_lease_unview(l, &view);
    OK(store_lease_view(l, LEN - 5, 5, &view));
    assert_memory_equal(view.bytes, want + LEN - 5, 5);
    store_lease_unview(l, &view);
    IS(S3R_E_UNSUPPORTED, store_lease_view(l, LEN - 5, 6, &view));
    assert_int_equal(pwrite(fd, "x", 1, 2 * MIB + 7), 1);
    IS(S3R_E_STORE_CORRUPT, store_lease_view(l, MIB, 2 * MIB, &view));
    OK(store_lease_view(l, 3 * MIB, MIB, &view));
    store_lease_unview(l, &view);
    store_lease_close(STEAL(l)); /* pages that are mapped stay */
    OK(store_lease_open(b->s, &k, NULL, &l));
    assert_int_equal(fdatasync(fd), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    IS(S3R_E_UNSUPPORTED, store_lease_view(l, 3 * MIB, MIB, &view));
    OK(store_lease_read(l, 3 * MIB, got, MIB, NULL));
    assert_memory_equal(got, want + 3 * MIB, MIB);
}

/* Rows come out of a checksummed index, yet no byte of them is trusted. */
static void a_record_of_another_kind_is_no_object(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    struct row_key row;
    struct index_batch batch;
    static const enum record_kind kinds[] = {RECORD_PART, RECORD_UPLOAD, RECORD_COMPLETED,
                                             RECORD_BUCKET};
    row_object(&row, &k);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct record r = {.kind = kinds[i], .size = 100, .etag = "e", .file_id = i ? 0 : 9};
        index_batch_init(&batch);
        OK(fs_put_record(&batch, &row, &r));
        OK(fs_commit(b->s, &batch, NULL, NULL));
        index_batch_fini(&batch);
        IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "k", 1, 100));
    }
}

/* Of a batch that is not written nothing counts, a promise in it neither. */
static void sequences_in_use_were_promised_on_the_disk(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    struct row_key row;
    struct index_value v;
    char *huge = malloc(RECORD_LEN_MAX + 1);
    memset(huge, 'x', RECORD_LEN_MAX);
    huge[RECORD_LEN_MAX] = 0;
    struct store_meta meta = {"m", huge};
    struct store_attributes a = {.etag = "e", .meta = &meta, .meta_count = 1};
    struct store_writer *w;
    atomic_store(&b->s->sequence, b->s->sequence_limit - 100); /* time for a new promise */
    OK(store_writer_open(b->s, 0, NULL, &w));
    assert_true(store_put(w, &k, &a, NULL, NULL, NULL, NULL) != 0);
    store_writer_close(w);
    free(huge);
    OK(put_seed(b->s, "k", 1, 10));
    row_single(&row, "sequence");
    OK(index_get(b->s->idx, row.data, row.len, &v));
    assert_true(le64_load(v.data) == b->s->sequence_limit);
    index_value_fini(&v);
}

struct space {
    bool is_full;
};

static int fill_disk(enum io_call call, const char *what, void *arg)
{
    struct space *space = arg;
    return call == IO_SPACE && space->is_full ? ENOSPC : 0;
}

static void a_full_disk_refuses_and_goes_on_when_there_is_room(void **state)
{
    struct box *b = *state;
    struct space space = {false};
    struct store_key k = key_of("k");
    struct store_attributes a = {.etag = "e"};
    struct store_writer *w;
    CLEANUP(freep) char *bytes = bytes_of(1, MIB);
    OK(put_seed(b->s, "k", 1, 100));
    io_set_hook(fill_disk, &space);
    /* a body whose length nobody knew stops before it takes the last of the disk */
    OK(store_writer_open(b->s, UINT64_MAX, NULL, &w));
    OK(store_writer_append(w, bytes, MIB, NULL));
    space.is_full = true;
    IS(S3R_E_STORE_FULL, store_writer_append(w, bytes, MIB, NULL));
    store_writer_close(w);
    /* a commit is refused before it can fail in the middle */
    space.is_full = false;
    OK(store_writer_open(b->s, 10, NULL, &w));
    OK(store_writer_append(w, bytes, 10, NULL));
    space.is_full = true;
    IS(S3R_E_STORE_FULL, store_put(w, &k, &a, NULL, NULL, NULL, NULL));
    store_writer_close(w);
    IS(S3R_E_STORE_FULL, store_delete(b->s, &k, NULL, NULL, NULL));
    IS(S3R_E_STORE_FULL, store_ready(b->s, NULL));
    OK(check_seed(b->s, "k", 1, 100));
    space.is_full = false;
    OK(store_ready(b->s, NULL));
    OK(put_seed(b->s, "k", 2, 100));
    OK(check_seed(b->s, "k", 2, 100));
    io_set_hook(NULL, NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, box_setup, box_teardown)
    const struct CMUnitTest tests[] = {
        T(objects_of_all_sizes_come_back_after_a_restart),
        T(every_range_is_exact),
        T(a_lease_outlives_overwrite_and_delete),
        T(a_judge_that_refuses_keeps_the_old_object),
        T(attributes_come_back_as_given),
        T(odd_keys_are_objects_of_their_own),
        T(buckets_are_made_listed_and_deleted_only_when_empty),
        T(a_writer_closed_without_commit_leaves_nothing),
        T(checksum_does_not_depend_on_the_pieces),
        T(an_object_in_the_index_is_leased_without_the_disk),
        T(a_record_of_another_kind_is_no_object),
        T(sequences_in_use_were_promised_on_the_disk),
        T(a_full_disk_refuses_and_goes_on_when_there_is_room),
        T(a_view_is_verified_and_only_of_what_is_cached),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
