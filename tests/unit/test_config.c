/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "server/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD(args, env, diag, config)                                                              \
    config_load((int)(sizeof(args) / sizeof(char *)), args, env, diag, config)

static char *no_env[] = {NULL};

static void command_line_wins_over_variable_and_variable_over_file(void **state)
{
    char path[] = "/tmp/s3rdma-config-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    fprintf(f, "# a comment\n\nregion = from-file\ndata=/from/file\nlisten = 127.0.0.1:1\n");
    fclose(f);
    char *env[] = {"S3RDMA_REGION=from-env", "S3RDMA_DATA=/from/env", "PATH=/bin", NULL};
    char *args[] = {"s3rdmad", "--config", path, "--region=from-args"};
    struct config c;
    struct diag diag = {0};
    assert_int_equal(LOAD(args, env, &diag, &c), 0);
    assert_string_equal(c.region, "from-args");
    assert_string_equal(c.data, "/from/env");
    assert_string_equal(c.listen, "127.0.0.1:1");
    config_fini(&c);
    unlink(path);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *arg, *env, *named;
    } cases[] = {
        {"--rdma-port=99999", NULL, "--rdma-port"},
        {"--http-threads=abc", NULL, "--http-threads"},
        {"--http-threads=-1", NULL, "--http-threads"},
        {"--rdma-staging=64MB", NULL, "--rdma-staging"},
        {"--rdma-staging=99999999999999TiB", NULL, "--rdma-staging"},
        {"--direct-io=yes", NULL, "--direct-io"},
        {"--region", NULL, "--region"},
        {"data", NULL, "data"},
        {"--config=/nonexistent/file", NULL, "/nonexistent/file"},
        {"--root-password-file=/nonexistent/file", NULL, "/nonexistent/file"},
        {"--data-file=/etc/hostname", NULL, "--data-file"},
        {NULL, "S3RDMA_NONSENSE=1", "S3RDMA_NONSENSE"},
        {NULL, "S3RDMA_HTTP_THREADS=x", "S3RDMA_HTTP_THREADS"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *args[] = {"s3rdmad", (char *)(uintptr_t)cases[i].arg};
        char *env[] = {(char *)(uintptr_t)cases[i].env, NULL};
        struct config c;
        struct diag diag = {0};
        int argc = cases[i].arg ? 2 : 1;
        assert_int_equal(config_load(argc, args, env, &diag, &c), S3R_E_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, cases[i].named));
    }
}

static void secrets_come_from_files_and_are_not_printed(void **state)
{
    char path[] = "/tmp/s3rdma-secret-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    fprintf(f, "very secret\n");
    fclose(f);
    char variable[80];
    snprintf(variable, sizeof variable, "S3RDMA_ROOT_PASSWORD_FILE=%s", path);
    char *env[] = {"MINIO_ROOT_USER=minio", variable, NULL};
    char *args[] = {"s3rdmad"};
    struct config c;
    struct diag diag = {0};
    assert_int_equal(LOAD(args, env, &diag, &c), 0);
    assert_string_equal(c.root_user, "minio");
    assert_string_equal(c.root_password, "very secret");
    struct text out;
    text_init(&out, 1 << 16);
    config_print(&c, &out);
    assert_null(strstr(text_cstr(&out), "very secret"));
    assert_non_null(strstr(text_cstr(&out), "root-password = ***"));
    assert_non_null(strstr(text_cstr(&out), "rdma-staging = 134217728"));
    text_fini(&out);
    config_fini(&c);
    unlink(path);
}

static void help_and_version_need_nothing_else(void **state)
{
    char *args[] = {"s3rdmad", "--help", "--version", "--print-config"};
    struct config c;
    struct diag diag = {0};
    assert_int_equal(LOAD(args, no_env, &diag, &c), 0);
    assert_true(c.is_help_wanted && c.is_version_wanted && c.is_print_wanted);
    config_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_line_wins_over_variable_and_variable_over_file),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(secrets_come_from_files_and_are_not_printed),
        cmocka_unit_test(help_and_version_need_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
