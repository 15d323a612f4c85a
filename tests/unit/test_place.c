// SPDX-License-Identifier: Apache-2.0
/* Names that others chose, as files below a folder. */
#include "cm.h"

#include "base/attr.h"
#include "tools/place.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char path[64];
    int fd;
};

static int set_up(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    snprintf(f->path, sizeof(f->path), "/tmp/s3rdma-place-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY);
    assert_true(f->fd >= 0);
    *state = f;
    return 0;
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

static int tear_down(void **state)
{
    struct folder *f = *state;
    close(f->fd);
    nftw(f->path, drop, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static void names_that_can_be_files_have_no_flaw(void **state)
{
    static const char *const good[] = {"a",        "a/b",  "a b", "...", ".a",      "..a/b..",
                                       "\xc3\xa9", "a\\b", "~",   "-r",  "s3rdma-", "\xc2\xa0"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_null(place_flaw(good[i]));
}

static void names_that_cannot_be_files_have_one(void **state)
{
    static const char *const bad[] = {
        "",     "/",        "/a",           "a/",        "a//b", ".",    "..",
        "a/.",  "a/..",     "../a",         "a/../b",    "./a",  "a\n",  "\x1b[m",
        "\x7f", "\xc2\x80", "a/\xc2\x9f/b", ".s3rdma-x", "\t",   "a\rb", "a/.s3rdma-/b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (place_flaw(bad[i]) == NULL)
            fail_msg("%s", bad[i]);
    char name[1100];
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    assert_non_null(place_flaw(name));
    name[255] = '\0';
    assert_null(place_flaw(name));
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = i % 2 ? '/' : 'a';
    name[1025] = '\0';
    assert_non_null(place_flaw(name));
    name[1023] = '\0';
    assert_null(place_flaw(name));
}

static void folders_are_made_only_when_wanted(void **state)
{
    struct folder *f = *state;
    struct place p = {.dir = -1};
    struct diag diag = {0};
    assert_int_equal(place_find(f->fd, "a/b/c", false, &diag, &p), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(p.dir, -1);
    assert_int_equal(faccessat(f->fd, "a", F_OK, 0), -1);
    assert_int_equal(place_find(f->fd, "a/b/c", true, &diag, &p), 0);
    assert_string_equal(p.name, "c");
    assert_int_equal(faccessat(f->fd, "a/b", F_OK, 0), 0);
    place_fini(&p);
}

static void no_symbolic_link_is_followed(void **state)
{
    struct folder *f = *state;
    struct place p = {.dir = -1};
    struct diag diag = {0};
    assert_int_equal(symlinkat("/tmp", f->fd, "link"), 0);
    assert_int_equal(mkdirat(f->fd, "dir", 0700), 0);
    assert_int_equal(symlinkat("..", f->fd, "dir/up"), 0);
    assert_int_equal(place_find(f->fd, "link/x", true, &diag, &p), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(place_find(f->fd, "dir/up/x", true, &diag, &p), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(place_remove(f->fd, "link/x", &diag), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(place_make_folder(f->fd, "dir/up/x/", &diag), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(p.dir, -1);
}

static void removing_takes_empty_folders_along_but_never_the_root(void **state)
{
    struct folder *f = *state;
    struct diag diag = {0};
    assert_int_equal(place_make_folder(f->fd, "a/b/c", &diag), 0);
    assert_int_equal(place_make_folder(f->fd, "a/kept/", &diag), 0);
    close(openat(f->fd, "a/b/c/file", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(place_remove(f->fd, "a/b/c/file", &diag), 0);
    assert_int_equal(faccessat(f->fd, "a/b", F_OK, 0), -1);
    assert_int_equal(faccessat(f->fd, "a/kept", F_OK, 0), 0);
    assert_int_equal(place_remove(f->fd, "a/kept", &diag), S3R_E_INVALID_ARGUMENT);
    close(openat(f->fd, "file", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(place_remove(f->fd, "file", &diag), 0);
    assert_int_equal(access(f->path, F_OK), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_can_be_files_have_no_flaw),
        cmocka_unit_test(names_that_cannot_be_files_have_one),
        T(folders_are_made_only_when_wanted),
        T(no_symbolic_link_is_followed),
        T(removing_takes_empty_folders_along_but_never_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
