/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include "store/io.h"

#include <fcntl.h>

static const struct store_attributes plain = {.etag = "p", .etag_kind = STORE_ETAG_MD5};
static const uint8_t digest[32] = {1};

/* The path of the newest data file. */
static char newest[FILE_PATH_MAX];
static uint64_t newest_id;

static int see_newest(uint64_t id, void *arg)
{
    if (id >= newest_id) {
        newest_id = id;
        file_path(newest, arg, id);
    }
    return 0;
}

static const char *newest_file(struct box *b)
{
    newest_id = 0;
    OK(file_each(b->dir, see_newest, b->dir));
    return newest;
}

static void flip_byte(const char *path, off_t off)
{
    unsigned char c;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, off), 1);
    c ^= 0x10;
    assert_int_equal(pwrite(fd, &c, 1, off), 1);
    close(fd);
}

static off_t file_len(const char *path)
{
    struct stat st;
    assert_false(stat(path, &st));
    return st.st_size;
}

static void a_flipped_bit_anywhere_is_never_served(void **state)
{
    struct box *b = *state;
    size_t size = 2 * MIB + 100;
    struct store_scrub_report report;
    OK(put_seed(b->s, "k", 1, size));
    const char *path = newest_file(b);
    off_t len = file_len(path);
    const off_t places[] = {0,        MIB + 7,  size - 1, size,   size + 17,
                            len - 88, len - 60, len - 40, len - 1};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        flip_byte(path, places[i]);
        IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "k", 1, size));
        OK(store_scrub(b->s, true, NULL, &report));
        assert_true(report.bad_blocks > 0);
        assert_int_equal(report.objects, 1);
        flip_byte(path, places[i]);
        OK(check_seed(b->s, "k", 1, size));
    }
    OK(store_scrub(b->s, true, NULL, &report));
    assert_int_equal(report.bad_blocks, 0);
    assert_int_equal(report.files, 2);
    assert_int_equal(report.bytes, size);
}

static void a_range_beside_a_corrupt_block_is_still_served(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    CLEANUP(store_lease_closep) struct store_lease *l = NULL;
    CLEANUP(freep) char *want = bytes_of(1, 3 * MIB);
    CLEANUP(freep) char *got = malloc(3 * MIB);
    OK(put_seed(b->s, "k", 1, 3 * MIB));
    flip_byte(newest_file(b), MIB + 5);
    OK(store_lease_open(b->s, &k, NULL, &l));
    OK(store_lease_read(l, 2 * MIB + 1, got, 1000, NULL));
    assert_memory_equal(got, want + 2 * MIB + 1, 1000);
    OK(store_lease_read(l, 0, got, MIB, NULL));
    assert_memory_equal(got, want, MIB);
    IS(S3R_E_STORE_CORRUPT, store_lease_read(l, 2 * MIB - 1, got, 1, NULL));
    IS(S3R_E_STORE_CORRUPT, store_lease_read(l, MIB - 1, got, 2, NULL));
}

static void a_file_that_was_cut_or_lost_or_swapped_is_corrupt(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char first[FILE_PATH_MAX];
    OK(put_seed(b->s, "a", 1, MIB));
    snprintf(first, sizeof(first), "%s", newest_file(b));
    OK(put_seed(b->s, "b", 2, MIB));
    const char *second = newest_file(b);
    OK(io_rename(first, second));
    IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "b", 2, MIB));
    IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "a", 1, MIB));
    OK(store_scrub(b->s, true, NULL, &report));
    assert_int_equal(report.missing_files, 1);
    assert_int_equal(report.bad_blocks, 1);
    OK(put_seed(b->s, "c", 3, MIB));
    const char *third = newest_file(b);
    assert_false(truncate(third, file_len(third) - 1));
    IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "c", 3, MIB));
    assert_false(truncate(third, 10));
    IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "c", 3, MIB));
    assert_false(truncate(third, 0));
    IS(S3R_E_STORE_CORRUPT, check_seed(b->s, "c", 3, MIB));
    /* they can be overwritten and deleted */
    struct store_key k = key_of("a");
    OK(put_seed(b->s, "c", 4, 10));
    OK(check_seed(b->s, "c", 4, 10));
    OK(store_delete(b->s, &k, NULL, NULL, NULL));
}

static void deep_scrub_removes_only_what_nobody_names(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char orphan[FILE_PATH_MAX], id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    struct store_writer *w, *part;
    struct store_lease *l;
    CLEANUP(freep) char *bytes = bytes_of(1, MIB);
    OK(put_seed(b->s, "k", 1, MIB));
    OK(put_seed(b->s, "gone", 1, MIB));
    snprintf(orphan, sizeof(orphan), "%s", newest_file(b));
    OK(store_lease_open(b->s, &k, NULL, &l));
    OK(put_seed(b->s, "k", 2, MIB)); /* the lease keeps the old one */
    OK(store_upload_create(b->s, &k, &plain, 0, 0, NULL, id));
    OK(store_writer_open(b->s, MIB, NULL, &part));
    OK(store_writer_append(part, bytes, MIB, NULL));
    OK(store_part_put(part, &k, id, 1, &plain, NULL, NULL));
    store_writer_close(part);
    OK(store_writer_open(b->s, MIB, NULL, &w)); /* a writer at work */
    /* an orphan: as if a power cut had brought back an unlinked file */
    char saved[FILE_PATH_MAX + 8];
    snprintf(saved, sizeof(saved), "%s/saved", b->dir);
    assert_false(link(orphan, saved));
    struct store_key gone = key_of("gone");
    OK(store_delete(b->s, &gone, NULL, NULL, NULL));
    size_t files = box_files(b);
    OK(put_seed(b->s, "tick", 1, 1)); /* the dropped row goes along with this commit */
    assert_false(link(saved, orphan));
    OK(store_scrub(b->s, true, NULL, &report));
    assert_int_equal(report.orphans_removed, 1);
    assert_int_equal(report.bad_blocks, 0);
    assert_int_equal(report.missing_files, 0);
    assert_int_equal(box_files(b), files);
    OK(store_writer_append(w, bytes, MIB, NULL));
    OK(store_put(w, &gone, &plain, NULL, NULL, NULL, NULL));
    store_writer_close(w);
    OK(check_seed(b->s, "gone", 1, MIB));
    OK(store_lease_read(l, 0, bytes, MIB, NULL));
    store_lease_close(l);
    OK(check_seed(b->s, "k", 2, MIB));
}

/* A record that this version must not serve still names its file. */
static void deep_scrub_keeps_the_files_of_rows_it_cannot_read(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    struct store_key k = key_of("k");
    struct row_key row;
    struct fs_record fr;
    struct index_batch batch;
    OK(put_seed(b->s, "k", 1, MIB));
    row_object(&row, &k);
    OK(fs_get(b->s, &row, &fr));
    struct record held = fr.r;
    held.is_legal_hold = true;
    for (int i = 0; i < 2; i++) {
        index_batch_init(&batch);
        OK(fs_put_record(&batch, &row, i ? &fr.r : &held));
        OK(fs_commit(b->s, &batch, NULL, NULL));
        index_batch_fini(&batch);
        OK(store_scrub(b->s, true, NULL, &report));
        assert_int_equal(report.bad_blocks, !i);
        assert_int_equal(report.orphans_removed, 0);
    }
    fs_record_fini(&fr);
    OK(check_seed(b->s, "k", 1, MIB));
}

static int fail_unlink(enum io_call call, const char *what, void *arg)
{
    return call == IO_UNLINK ? EIO : 0;
}

static void files_that_could_not_be_unlinked_go_later(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    OK(put_seed(b->s, "a", 1, MIB));
    OK(put_seed(b->s, "b", 1, MIB));
    box_files(b);
    io_set_hook(fail_unlink, NULL);
    OK(put_seed(b->s, "a", 2, 10));
    assert_int_equal(box_files(b), 1 + 2);
    io_set_hook(NULL, NULL);
    OK(store_scrub(b->s, false, NULL, &report));
    assert_int_equal(report.orphans_removed, 1);
    assert_int_equal(box_files(b), 1 + 1);
    io_set_hook(fail_unlink, NULL);
    OK(put_seed(b->s, "b", 2, 10));
    assert_int_equal(box_files(b), 1 + 1);
    io_set_hook(NULL, NULL);
    box_reopen(b);
    assert_int_equal(box_files(b), 1);
}

static void complete(struct box *b, const char *key, unsigned seed)
{
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of(key);
    CLEANUP(freep) char *bytes = bytes_of(seed, 3 * MIB);
    CLEANUP(freep) struct store_part *parts = NULL;
    size_t count;
    bool more;
    OK(store_upload_create(b->s, &k, &plain, 0, 0, NULL, id));
    for (uint32_t i = 0; i < 3; i++) {
        CLEANUP(store_writer_closep) struct store_writer *w = NULL;
        OK(store_writer_open(b->s, MIB, NULL, &w));
        OK(store_writer_append(w, bytes + i * MIB, MIB, NULL));
        OK(store_part_put(w, &k, id, i + 1, &plain, NULL, NULL));
    }
    OK(store_part_list(b->s, &k, id, 0, 10, &parts, &count, &more));
    OK(store_upload_complete(b->s, &k, id, parts, count, &plain, digest, NULL, NULL, NULL, NULL));
}

static void remove_index(struct box *b)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/index", b->dir);
    nftw(path, box_remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static void load(struct box *b)
{
    struct store_key k = key_of("deleted");
    struct store_bucket other = {.name = "empty", .owner = "you", .region = "r", .created_ms = 5};
    OK(store_bucket_create(b->s, &other));
    OK(put_seed(b->s, "big", 1, 2 * MIB + 5));
    OK(put_seed(b->s, "small", 2, 100));
    OK(put_seed(b->s, "over", 3, MIB));
    OK(put_seed(b->s, "over", 4, MIB + 1));
    OK(put_seed(b->s, "deleted", 5, MIB));
    OK(store_delete(b->s, &k, NULL, NULL, NULL));
    complete(b, "parts", 6);
    complete(b, "parts2", 8);
    OK(put_seed(b->s, "parts2", 7, MIB));
}

static void rebuild_from_the_files_alone(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    struct store_bucket bucket;
    struct diag diag = {0};
    load(b);
    size_t files = box_files(b);
    IS(S3R_E_STORE_LOCKED, store_rebuild(b->dir, NULL, &report));
    store_close(b->s);
    b->s = NULL;
    remove_index(b);
    int err = store_rebuild(b->dir, &diag, &report);
    assert_string_equal(diag.text, "");
    OK(err);
    assert_int_equal(report.objects, 4);
    box_open(b);
    OK(check_seed(b->s, "big", 1, 2 * MIB + 5));
    OK(check_seed(b->s, "over", 4, MIB + 1));
    OK(check_seed(b->s, "parts", 6, 3 * MIB));
    OK(check_seed(b->s, "parts2", 7, MIB));
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "deleted", 5, MIB));
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "small", 2, 100)); /* it was in the index */
    OK(store_bucket_stat(b->s, "empty", &bucket));
    assert_string_equal(bucket.owner, "you");
    assert_int_equal(bucket.created_ms, 5);
    OK(store_bucket_stat(b->s, "bkt", &bucket));
    assert_string_equal(bucket.owner, "me");
    assert_int_equal(box_files(b), files);
    OK(store_scrub(b->s, true, NULL, &report));
    assert_int_equal(report.bad_blocks + report.missing_files + report.orphans_removed, 0);
    /* what comes after is in order: new ids, higher sequences */
    OK(put_seed(b->s, "big", 9, MIB));
    OK(check_seed(b->s, "big", 9, MIB));
    box_reopen(b);
    OK(check_seed(b->s, "big", 9, MIB));
}

static void rebuild_keeps_all_of_an_index_that_can_be_read(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("open");
    struct store_upload *u;
    load(b);
    OK(store_upload_create(b->s, &k, &plain, 0, 0, NULL, id));
    store_close(b->s);
    b->s = NULL;
    OK(store_rebuild(b->dir, NULL, &report));
    assert_int_equal(report.objects, 5);
    box_open(b);
    OK(check_seed(b->s, "big", 1, 2 * MIB + 5));
    OK(check_seed(b->s, "small", 2, 100));
    OK(check_seed(b->s, "over", 4, MIB + 1));
    OK(check_seed(b->s, "parts", 6, 3 * MIB));
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "deleted", 5, MIB));
    OK(store_upload_stat(b->s, &k, id, &u));
    store_upload_free(u);
}

static void an_overwrite_does_not_come_back_when_its_file_does(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char old[FILE_PATH_MAX], saved[FILE_PATH_MAX];
    OK(put_seed(b->s, "k", 1, MIB));
    snprintf(old, sizeof(old), "%s", newest_file(b));
    snprintf(saved, sizeof(saved), "%s/saved", b->dir);
    assert_false(link(old, saved));
    OK(put_seed(b->s, "k", 2, MIB));
    assert_int_equal(box_files(b), 2);
    store_close(b->s);
    b->s = NULL;
    remove_index(b);
    OK(io_rename(saved, old));
    OK(store_rebuild(b->dir, NULL, &report));
    box_open(b);
    OK(check_seed(b->s, "k", 2, MIB));
    assert_int_equal(box_files(b), 2);
}

static void a_backup_with_newer_files_is_rebuilt_to_now(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    struct store_key k = key_of("b");
    char backup[128], from[160], to[128];
    snprintf(backup, sizeof(backup), "%s-backup", b->dir);
    OK(put_seed(b->s, "a", 1, MIB));
    OK(put_seed(b->s, "b", 2, MIB));
    OK(put_seed(b->s, "small", 3, 10));
    OK(store_backup(b->s, backup, NULL));
    assert_true(store_backup(b->s, backup, NULL) != 0); /* not empty */
    OK(put_seed(b->s, "a", 4, MIB));
    OK(put_seed(b->s, "c", 5, MIB));
    OK(store_delete(b->s, &k, NULL, NULL, NULL));
    box_files(b);
    store_close(b->s);
    b->s = NULL;
    remove_index(b);
    snprintf(from, sizeof(from), "%s/index", backup);
    snprintf(to, sizeof(to), "%s/index", b->dir);
    OK(io_rename(from, to));
    OK(store_rebuild(b->dir, NULL, &report));
    box_open(b);
    OK(check_seed(b->s, "a", 4, MIB));
    OK(check_seed(b->s, "c", 5, MIB));
    OK(check_seed(b->s, "small", 3, 10));
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "b", 2, MIB));
    nftw(backup, box_remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static int fail_index(enum io_call call, const char *what, void *arg)
{
    return call == IO_INDEX_WRITE ? EIO : 0;
}

/* An upload of one part whose Complete wrote its manifest, and died before the index knew. */
static void complete_halfway(struct box *b, char id[STORE_UPLOAD_ID_MAX],
                             struct store_part **ret_parts)
{
    struct store_key k = key_of("k");
    CLEANUP(freep) char *bytes = bytes_of(1, MIB);
    struct store_writer *w;
    size_t count;
    bool more;
    OK(store_upload_create(b->s, &k, &plain, 0, 0, NULL, id));
    for (uint32_t i = 1; i <= 2; i++) {
        OK(store_writer_open(b->s, MIB, NULL, &w));
        OK(store_writer_append(w, bytes, MIB, NULL));
        OK(store_part_put(w, &k, id, i, &plain, NULL, NULL));
        store_writer_close(w);
    }
    OK(store_part_list(b->s, &k, id, 0, 10, ret_parts, &count, &more));
    io_set_hook(fail_index, NULL);
    IS(S3R_E_STORE_IO,
       store_upload_complete(b->s, &k, id, *ret_parts, 1, &plain, digest, NULL, NULL, NULL, NULL));
    io_set_hook(NULL, NULL);
    store_close(b->s);
    b->s = NULL;
}

/* Twice: what was dropped goes at a start. */
static void box_reopen_twice(struct box *b)
{
    for (int i = 0; i < 2; i++) {
        box_reopen(b);
        box_files(b);
    }
}

static void a_completion_cut_short_is_rebuilt_whole(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char id[STORE_UPLOAD_ID_MAX];
    struct store_key k = key_of("k");
    CLEANUP(freep) struct store_part *parts = NULL;
    complete_halfway(b, id, &parts);
    OK(store_rebuild(b->dir, NULL, &report));
    box_reopen_twice(b);
    OK(check_seed(b->s, "k", 1, MIB));
    assert_int_equal(box_files(b), 1 + 2); /* the part that it does not name is gone */
    /* nobody else has a claim on its parts */
    IS(S3R_E_NO_SUCH_UPLOAD,
       store_upload_complete(b->s, &k, id, parts, 1, &plain, digest, NULL, NULL, NULL, NULL));
    IS(S3R_E_NO_SUCH_UPLOAD, store_upload_abort(b->s, &k, id));
    OK(check_seed(b->s, "k", 1, MIB));
}

static void a_manifest_that_lost_takes_no_parts_along(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char id[STORE_UPLOAD_ID_MAX], path[FILE_PATH_MAX], saved[FILE_PATH_MAX];
    struct store_key k = key_of("k");
    CLEANUP(freep) struct store_part *parts = NULL;
    complete_halfway(b, id, &parts);
    snprintf(path, sizeof(path), "%s", newest_file(b));
    snprintf(saved, sizeof(saved), "%s/saved", b->dir);
    assert_false(link(path, saved));
    box_reopen_twice(b);
    assert_int_equal(access(path, F_OK), -1);
    OK(store_upload_complete(b->s, &k, id, parts, 1, &plain, digest, NULL, NULL, NULL, NULL));
    OK(check_seed(b->s, "k", 1, MIB));
    for (int has_index = 1; has_index >= 0; has_index--) {
        box_files(b);
        store_close(b->s);
        b->s = NULL;
        if (access(path, F_OK))
            assert_false(link(saved, path)); /* a power cut brings it back */
        if (!has_index)
            remove_index(b);
        OK(store_rebuild(b->dir, NULL, &report));
        box_open(b);
        box_reopen_twice(b);
        OK(check_seed(b->s, "k", 1, MIB));
    }
}

static void a_damaged_index_is_saved_as_far_as_it_goes(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    struct diag diag = {0};
    char path[160];
    load(b);
    box_reopen(b); /* the rows are in a table now */
    store_close(b->s);
    b->s = NULL;
    snprintf(path, sizeof(path), "%s/index/CURRENT", b->dir);
    assert_false(truncate(path, 3));
    struct store_config config = {.dir = b->dir};
    struct store *s;
    assert_true(store_open(&config, &diag, &s) != 0);
    OK(store_rebuild(b->dir, NULL, &report));
    box_open(b);
    OK(check_seed(b->s, "big", 1, 2 * MIB + 5));
    OK(check_seed(b->s, "small", 2, 100));
    OK(check_seed(b->s, "over", 4, MIB + 1));
    OK(check_seed(b->s, "parts", 6, 3 * MIB));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, box_setup, box_teardown)
    const struct CMUnitTest tests[] = {
        T(a_flipped_bit_anywhere_is_never_served),
        T(a_range_beside_a_corrupt_block_is_still_served),
        T(a_file_that_was_cut_or_lost_or_swapped_is_corrupt),
        T(deep_scrub_removes_only_what_nobody_names),
        T(deep_scrub_keeps_the_files_of_rows_it_cannot_read),
        T(files_that_could_not_be_unlinked_go_later),
        T(rebuild_from_the_files_alone),
        T(rebuild_keeps_all_of_an_index_that_can_be_read),
        T(an_overwrite_does_not_come_back_when_its_file_does),
        T(a_backup_with_newer_files_is_rebuilt_to_now),
        T(a_completion_cut_short_is_rebuilt_whole),
        T(a_manifest_that_lost_takes_no_parts_along),
        T(a_damaged_index_is_saved_as_far_as_it_goes),
    };
    return cmocka_run_group_tests_name("store_scrub", tests, NULL, NULL);
}
