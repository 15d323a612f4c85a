/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/limits.h"
#include "client/client.h"
#include "client/endpoint.h"
#include "client/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/s3rdma-settings-XXXXXX";
static char credentials[64], config_file[64];

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_files(void **state)
{
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(credentials, sizeof(credentials), "%s/credentials", dir);
    snprintf(config_file, sizeof(config_file), "%s/config", dir);
    return 0;
}

static int remove_files(void **state)
{
    unlink(credentials);
    unlink(config_file);
    return rmdir(dir);
}

static int clean_environment(void **state)
{
    static const char *const names[] = {"AWS_ENDPOINT_URL",  "AWS_ENDPOINT_URL_S3",
                                        "AWS_REGION",        "AWS_DEFAULT_REGION",
                                        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN", "AWS_PROFILE",
                                        "AWS_CA_BUNDLE"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        unsetenv(names[i]);
    setenv("AWS_SHARED_CREDENTIALS_FILE", credentials, 1);
    setenv("AWS_CONFIG_FILE", config_file, 1);
    write_file(credentials, "# comment\n[default]\naws_access_key_id = FILEKEY\r\n"
                            "aws_secret_access_key=file/secret=\n"
                            "[work]\naws_access_key_id=WORKKEY\naws_secret_access_key=work\n"
                            "aws_session_token = worktoken\n[half]\naws_access_key_id=X\n");
    write_file(config_file, "[default]\nregion = eu-west-9\n[profile work]\nregion=work-1\n"
                            "endpoint_url = http://work:9000\ns3 =\n  region = nested\n");
    return 0;
}

static void nothing_is_no_error(void **state)
{
    struct settings s;
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/a", 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent/b", 1);
    assert_int_equal(settings_load(NULL, NULL, &s), 0);
    assert_null(s.access_key);
    assert_null(s.endpoint);
    settings_fini(&s);
}

static void the_default_profile_is_read(void **state)
{
    struct settings s;
    assert_int_equal(settings_load(NULL, NULL, &s), 0);
    assert_string_equal(s.access_key, "FILEKEY");
    assert_string_equal(s.secret_key, "file/secret=");
    assert_string_equal(s.region, "eu-west-9");
    assert_null(s.session_token);
    settings_fini(&s);
}

static void the_environment_wins_as_a_pair(void **state)
{
    struct settings s;
    setenv("AWS_ACCESS_KEY_ID", "ENVKEY", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "envsecret", 1);
    setenv("AWS_PROFILE", "work", 1);
    assert_int_equal(settings_load(NULL, NULL, &s), 0);
    assert_string_equal(s.access_key, "ENVKEY");
    assert_string_equal(s.secret_key, "envsecret");
    assert_null(s.session_token); /* the file's belongs to the file's key */
    assert_string_equal(s.endpoint, "http://work:9000");
    assert_string_equal(s.region, "work-1");
    settings_fini(&s);
}

static void a_profile_that_was_named_wins_over_the_environment(void **state)
{
    struct settings s;
    setenv("AWS_ACCESS_KEY_ID", "ENVKEY", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "envsecret", 1);
    assert_int_equal(settings_load("work", NULL, &s), 0);
    assert_string_equal(s.access_key, "WORKKEY");
    assert_string_equal(s.session_token, "worktoken");
    settings_fini(&s);
}

static void what_is_missing_is_named(void **state)
{
    struct settings s = {0};
    struct diag diag = {0};
    assert_int_equal(settings_load("nobody", &diag, &s), S3R_E_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "nobody"));
    diag_clear(&diag);
    assert_int_equal(settings_load("half", &diag, &s), S3R_E_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "no secret key"));
    diag_clear(&diag);
    setenv("AWS_SECRET_ACCESS_KEY", "alone", 1);
    assert_int_equal(settings_load(NULL, &diag, &s), S3R_E_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "AWS_ACCESS_KEY_ID"));
    assert_null(s.access_key);
}

static void endpoints_are_parsed(void **state)
{
    static const struct {
        const char *text, *host, *authority, *url;
        unsigned port;
    } rows[] = {
        {"http://127.0.0.1:9000", "127.0.0.1", "127.0.0.1:9000", "http://127.0.0.1:9000", 9000},
        {"http://host/", "host", "host", "http://host:80", 80},
        {"HTTPS://s3.example.com", "s3.example.com", "s3.example.com", "https://s3.example.com:443",
         443},
        {"https://h:80", "h", "h:80", "https://h:80", 80},
        {"http://[::1]:9000/", "::1", "[::1]:9000", "http://[::1]:9000", 9000},
        {"https://[2001:db8::1]", "2001:db8::1", "[2001:db8::1]", "https://[2001:db8::1]:443", 443},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct endpoint ep;
        assert_int_equal(endpoint_parse(rows[i].text, NULL, &ep), 0);
        assert_string_equal(ep.host, rows[i].host);
        assert_string_equal(ep.authority, rows[i].authority);
        assert_string_equal(ep.url, rows[i].url);
        assert_int_equal(ep.port, rows[i].port);
    }
}

static void bad_endpoints_are_refused(void **state)
{
    static const char *const rows[] = {"",
                                       "host",
                                       "host:9000",
                                       "ftp://host",
                                       "http://",
                                       "http:///",
                                       "http://:9000",
                                       "http://h:",
                                       "http://h:0",
                                       "http://h:65536",
                                       "http://h:+1",
                                       "http://h:9000/path",
                                       "http://h/path",
                                       "http://h?x",
                                       "http://user@h",
                                       "http://user:pw@h:1",
                                       "http://[::1",
                                       "http://[]:1",
                                       "http://[::1]x",
                                       "http://[h]:1",
                                       "http://a b",
                                       "http://h:90 ",
                                       "http://h//",
                                       "http://h\r\n"};
    struct endpoint ep;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct diag diag = {0};
        if (endpoint_parse(rows[i], &diag, &ep) != S3R_E_INVALID_ARGUMENT)
            fail_msg("'%s' was taken", rows[i]);
        assert_non_null(strstr(diag.text, "http[s]://HOST[:PORT]"));
    }
}

static void a_client_needs_valid_settings(void **state)
{
    const struct client_config good = {.endpoint = "http://h",
                                       .access_key = "a",
                                       .secret_key = "s"};
    struct client_config bad[6];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].endpoint = NULL;
    bad[1].secret_key = "";
    bad[2].access_key = "a/b";
    bad[3].region = "us east";
    bad[4].patience_ms = -1;
    bad[5].ca_file = "/nonexistent/ca.pem";
    struct client *c = NULL;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct diag diag = {0};
        assert_int_equal(client_create(&bad[i], &diag, &c), S3R_E_INVALID_ARGUMENT);
        assert_string_not_equal(diag.text, "");
        assert_null(c);
    }
    assert_int_equal(client_create(&good, NULL, &c), 0);
    client_destroy(c);
}

static void memory_and_ranges_are_checked_before_any_request(void **state)
{
    const struct client_config config = {.endpoint = "http://127.0.0.1:1",
                                         .access_key = "a",
                                         .secret_key = "s"};
    struct client *c = NULL;
    assert_int_equal(client_create(&config, NULL, &c), 0);
    char byte = 0;
    struct client_result result = {0};
    const struct client_memory wraps = {&byte, SIZE_MAX, NULL}, none = {&byte, 0, NULL},
                               outside = {&byte, 1, &byte + 1}, null = {NULL, 1, NULL},
                               one = {&byte, 1, NULL},
                               huge = {(void *)4096, (size_t)(LIMIT_PART_LEN_MAX + 1), NULL};
    assert_int_equal(client_put(c, "bucket", "k", &wraps, NULL, NULL, &result),
                     S3R_E_INVALID_ARGUMENT);
    assert_int_equal(client_put(c, "bucket", "k", &outside, NULL, NULL, &result),
                     S3R_E_INVALID_ARGUMENT);
    assert_int_equal(client_put(c, "bucket", "k", &null, NULL, NULL, &result),
                     S3R_E_INVALID_ARGUMENT);
    assert_int_equal(client_put(c, "bucket", "k", &huge, NULL, NULL, &result),
                     S3R_E_ENTITY_TOO_LARGE);
    assert_int_equal(client_put(c, "no", "k", &one, NULL, NULL, &result),
                     S3R_E_INVALID_BUCKET_NAME);
    assert_int_equal(client_get(c, "bucket", "k", UINT64_MAX - 1, &one, NULL, NULL, &result),
                     S3R_E_INVALID_RANGE);
    assert_int_equal(client_get(c, "bucket", "k", 5, &none, NULL, NULL, &result), 0);
    assert_int_equal(result.requests, 0);
    client_result_fini(&result);
    client_destroy(c);
}

static void a_pipe_in_place_of_a_file_is_refused_at_once(void **state)
{
    struct diag diag = {0};
    struct settings got = {0};
    char pipe_path[80];
    snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", dir);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    setenv("AWS_CONFIG_FILE", pipe_path, 1);
    alarm(20);
    int e = settings_load(NULL, &diag, &got);
    alarm(0);
    unlink(pipe_path);
    assert_int_equal(e, S3R_E_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "no file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_no_error, clean_environment),
        cmocka_unit_test_setup(the_default_profile_is_read, clean_environment),
        cmocka_unit_test_setup(the_environment_wins_as_a_pair, clean_environment),
        cmocka_unit_test_setup(a_profile_that_was_named_wins_over_the_environment,
                               clean_environment),
        cmocka_unit_test_setup(what_is_missing_is_named, clean_environment),
        cmocka_unit_test_setup(a_pipe_in_place_of_a_file_is_refused_at_once, clean_environment),
        cmocka_unit_test(endpoints_are_parsed),
        cmocka_unit_test(bad_endpoints_are_refused),
        cmocka_unit_test(a_client_needs_valid_settings),
        cmocka_unit_test(memory_and_ranges_are_checked_before_any_request),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
