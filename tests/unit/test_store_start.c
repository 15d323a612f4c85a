/* SPDX-License-Identifier: Apache-2.0 */
/* What a start does when something of the store is not there, or is older than the rest. */
#include "store_help.h"

#include <fcntl.h>

static void below(const struct box *b, const char *name, char out[FILE_PATH_MAX])
{
    snprintf(out, FILE_PATH_MAX, "%s/%s", b->dir, name);
}

static void move(const struct box *b, const char *from, const char *to)
{
    char old[FILE_PATH_MAX], new[FILE_PATH_MAX];
    below(b, from, old);
    below(b, to, new);
    assert_false(rename(old, new));
}

static void load(struct box *b)
{
    OK(put_seed(b->s, "big", 1, MIB + 5));
    OK(put_seed(b->s, "small", 2, 100));
}

static void check_load(struct box *b)
{
    OK(check_seed(b->s, "big", 1, MIB + 5));
    OK(check_seed(b->s, "small", 2, 100));
}

static void shut(struct box *b)
{
    box_files(b);
    store_close(b->s);
    b->s = NULL;
}

/* Refused with a text that has `word` in it. */
static void is_refused(struct box *b, const char *word)
{
    struct store_config config = {.dir = b->dir};
    struct diag diag = {0};
    IS(S3R_E_STORE_CORRUPT, store_open(&config, &diag, &b->s));
    assert_non_null(strstr(diag.text, word));
}

static void a_store_without_its_index_is_no_empty_store(void **state)
{
    struct box *b = *state;
    load(b);
    shut(b);
    move(b, "index", "elsewhere");
    is_refused(b, "rebuild");
    is_refused(b, "rebuild"); /* the first one has made nothing */
    move(b, "elsewhere", "index");
    box_open(b);
    check_load(b);
}

/* The newest log of the index: its path and length. */
static char log_path[FILE_PATH_MAX];
static off_t log_len;

static int find_log(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    size_t len = strlen(path);
    if (kind == FTW_F && len > 4 && strcmp(path + len - 4, ".log") == 0 && st->st_size) {
        snprintf(log_path, sizeof(log_path), "%s", path);
        log_len = st->st_size;
    }
    return 0;
}

/* Many blocks of the log, of 32 KiB each: what stands in the same block behind damage is lost. */
static void put_many(struct box *b)
{
    char key[16];
    for (unsigned i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "small-%u", i);
        OK(put_seed(b->s, key, i, 9000));
    }
}

static void a_log_damaged_in_the_middle_is_refused(void **state)
{
    struct box *b = *state;
    put_many(b);
    shut(b);
    nftw(b->dir, find_log, 32, FTW_PHYS);
    int fd = open(log_path, O_RDWR);
    assert_int_equal(pwrite(fd, "damage", 6, log_len / 2), 6);
    close(fd);
    is_refused(b, "rebuild");
    is_refused(b, "rebuild"); /* looking changed nothing */
    struct diag diag = {0};
    struct store_scrub_report report;
    OK(store_rebuild(b->dir, &diag, &report));
    box_open(b);
    OK(check_seed(b->s, "small-0", 0, 9000));
    OK(check_seed(b->s, "small-39", 39, 9000)); /* behind the damage */
}

static void a_log_torn_at_its_end_is_what_a_power_cut_leaves(void **state)
{
    struct box *b = *state;
    put_many(b);
    shut(b);
    nftw(b->dir, find_log, 32, FTW_PHYS);
    assert_false(truncate(log_path, log_len - 10));
    box_open(b);
    OK(check_seed(b->s, "small-38", 38, 9000));
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "small-39", 39, 9000));
}

static void a_store_without_its_data_is_refused(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    load(b);
    shut(b);
    move(b, "data", "elsewhere");
    is_refused(b, "mounted");
    is_refused(b, "mounted");
    char path[FILE_PATH_MAX];
    below(b, "data", path);
    assert_false(rmdir(path));
    move(b, "elsewhere", "data");
    box_open(b);
    check_load(b);
    /* who has lost them goes on with what the index holds */
    shut(b);
    move(b, "data", "elsewhere");
    OK(store_rebuild(b->dir, NULL, &report));
    box_open(b);
    OK(check_seed(b->s, "small", 2, 100));
    IS(S3R_E_NO_SUCH_KEY, check_seed(b->s, "big", 1, MIB + 5));
    load(b);
    check_load(b);
}

static int fail_second_rename(enum io_call call, const char *what, void *arg)
{
    size_t len = strlen(what);
    return call == IO_RENAME && len > 6 && !strcmp(what + len - 6, "/index") ? EIO : 0;
}

static void a_rebuild_cut_between_its_renames_loses_nothing(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    load(b);
    shut(b);
    io_set_hook(fail_second_rename, NULL);
    IS(S3R_E_STORE_IO, store_rebuild(b->dir, NULL, &report));
    io_set_hook(NULL, NULL);
    is_refused(b, "rebuild");
    OK(store_rebuild(b->dir, NULL, &report));
    assert_int_equal(report.objects, 2);
    box_open(b);
    check_load(b);
}

static void a_backup_is_not_served_before_a_rebuild(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
    OK(put_seed(b->s, "small", 2, 100));
    OK(put_seed(b->s, "first", 3, MIB)); /* reserves the next one's id too */
    below(b, "backup", to);
    OK(store_backup(b->s, to, NULL));
    OK(put_seed(b->s, "big", 1, MIB + 5));
    shut(b);
    move(b, "index", "elsewhere");
    below(b, "backup/index", from);
    below(b, "index", to);
    assert_false(rename(from, to));
    is_refused(b, "backup");
    OK(store_rebuild(b->dir, NULL, &report));
    box_open(b);
    box_files(b);
    check_load(b);
    OK(check_seed(b->s, "first", 3, MIB));
}

static char copy_to[FILE_PATH_MAX];
static size_t copy_from_len;

static int copy_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    char to[FILE_PATH_MAX * 2];
    snprintf(to, sizeof(to), "%s%s", copy_to, path + copy_from_len);
    return kind == FTW_D ? mkdir(to, 0700) : link(path, to);
}

/* A copy of the folder, made with other means than `backup`. */
static void an_index_older_than_the_files_is_refused(void **state)
{
    struct box *b = *state;
    struct store_scrub_report report;
    char index[FILE_PATH_MAX], key[16];
    load(b);
    shut(b);
    below(b, "index", index);
    below(b, "older", copy_to);
    copy_from_len = strlen(index);
    assert_false(nftw(index, copy_one, 32, FTW_PHYS));
    box_open(b);
    for (unsigned i = 0; i < FILES_RESERVE + 1; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        OK(put_seed(b->s, key, i, 20000));
    }
    shut(b);
    move(b, "index", "newer");
    move(b, "older", "index");
    is_refused(b, "older");
    OK(store_rebuild(b->dir, NULL, &report));
    assert_int_equal(report.objects, 2 + FILES_RESERVE + 1);
    box_open(b);
    check_load(b);
}

struct names {
    int at; /* 1: the index's folder was made, 2: and the folder above it synced */
    bool is_early;
};

static int watch_names(enum io_call call, const char *what, void *arg)
{
    struct names *n = arg;
    size_t len = strlen(what);
    if (call == IO_MKDIR && len > 6 && !strcmp(what + len - 6, "/index"))
        n->at = 1;
    else if (call == IO_FSYNC && n->at == 1)
        n->at = 2;
    n->is_early |= call == IO_INDEX_WRITE && n->at < 2;
    return 0;
}

static void the_index_has_a_durable_name_before_its_first_row(void **state)
{
    struct names n = {0};
    io_set_hook(watch_names, &n);
    struct box *b = box_create_ram();
    io_set_hook(NULL, NULL);
    box_destroy(b);
    assert_int_equal(n.at, 2);
    assert_false(n.is_early);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, box_setup_ram, box_teardown)
    const struct CMUnitTest tests[] = {
        T(a_store_without_its_index_is_no_empty_store),
        T(a_log_damaged_in_the_middle_is_refused),
        T(a_log_torn_at_its_end_is_what_a_power_cut_leaves),
        T(a_store_without_its_data_is_refused),
        T(a_rebuild_cut_between_its_renames_loses_nothing),
        T(a_backup_is_not_served_before_a_rebuild),
        T(an_index_older_than_the_files_is_refused),
        cmocka_unit_test(the_index_has_a_durable_name_before_its_first_row),
    };
    return cmocka_run_group_tests_name("store_start", tests, NULL, NULL);
}
