/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface (s3r/client.h) against a server that declines every token: what calls
 * return, what results say, what is registered and for how long. */
#include "cm.h"

#include "../helpers/tiny_server.h"
#include "s3r/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct s3r_result *result;

static int start(void **state)
{
    result = s3r_result_new();
    return result == NULL || tiny_server_start() != 0;
}

static int stop(void **state)
{
    s3r_result_free(result);
    tiny_server_stop();
    return 0;
}

static struct s3r_client *client_with(const char *devices)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_client *client = NULL;
    assert_int_equal(s3r_config_set_endpoint(config, tiny_server_authority()), S3R_OK);
    assert_int_equal(s3r_config_set_keys(config, "a", "s", NULL), S3R_OK);
    assert_int_equal(s3r_config_set_devices(config, devices), S3R_OK);
    assert_int_equal(s3r_client_new(config, result, &client), S3R_OK);
    s3r_config_free(config);
    return client;
}

static void what_is_missing_is_named_before_anything_is_sent(void **state)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_client *client = NULL;
    assert_int_equal(s3r_client_new(config, result, &client), S3R_ERROR_INVALID_ARGUMENT);
    assert_string_equal(s3r_result_message(result), "there is no endpoint");
    s3r_config_set_endpoint(config, "127.0.0.1:1");
    assert_int_equal(s3r_client_new(config, result, &client), S3R_ERROR_INVALID_ARGUMENT);
    assert_string_equal(s3r_result_message(result), "there are no credentials");
    assert_null(client);
    s3r_config_free(config);

    client = client_with("cma");
    char buffer[4];
    assert_int_equal(s3r_get(client, NULL, "k", buffer, 4, NULL, result),
                     S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_put(client, "bucket", NULL, buffer, 4, NULL, result),
                     S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_get(client, "bucket", "k", NULL, 4, NULL, result),
                     S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_put(client, "B", "k", buffer, 4, NULL, result),
                     S3R_ERROR_INVALID_BUCKET_NAME);
    assert_int_equal(s3r_result_requests(result), 0);
    assert_int_equal(tiny_server_requests(), 0);
    s3r_client_free(client);
}

static void credentials_come_from_the_choice_that_was_made(void **state)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_client *client = NULL;
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    s3r_config_set_endpoint(config, tiny_server_authority());
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    setenv("MINIO_ROOT_USER", "from-minio", 1);
    setenv("MINIO_ROOT_PASSWORD", "secret", 1);
    assert_int_equal(s3r_client_new(config, result, &client), S3R_OK);
    char *url = NULL;
    assert_int_equal(s3r_presign(client, "GET", "bucket", "k", 60, result, &url), S3R_OK);
    assert_non_null(strstr(url, "from-minio%2F"));
    s3r_text_free(url);
    s3r_client_free(client);
    unsetenv("MINIO_ROOT_USER");
    unsetenv("MINIO_ROOT_PASSWORD");
    assert_int_equal(s3r_client_new(config, result, &client), S3R_ERROR_INVALID_ARGUMENT);
    s3r_config_free(config);
}

static void a_declined_get_says_what_carried_it_and_why(void **state)
{
    struct s3r_client *client = client_with("cma");
    char buffer[16] = "";
    assert_int_equal(s3r_get(client, "bucket", "key", buffer, sizeof(buffer), NULL, result),
                     S3R_OK);
    assert_memory_equal(buffer, TINY_OBJECT, TINY_LEN);
    assert_int_equal(s3r_result_len(result), TINY_LEN);
    assert_int_equal(s3r_result_object_len(result), TINY_LEN);
    assert_int_equal(s3r_result_transport(result), S3R_TRANSPORT_HTTP);
    assert_int_equal(s3r_result_reason(result), S3R_REASON_DECLINED);
    assert_string_equal(s3r_result_provider(result), "cma");
    assert_string_equal(s3r_result_etag(result), "0123456789abcdef0123456789abcdef");
    assert_string_equal(s3r_result_version_id(result), "v7");
    assert_string_equal(s3r_result_header(result, "X-Amz-Version-Id"), "v7");
    assert_int_equal(s3r_result_requests(result), 2);
    assert_int_equal(s3r_result_is_verified(result), 1);
    assert_string_equal(s3r_result_crc64_text(result), TINY_CRC);
    assert_int_equal(s3r_registered_bytes(client), 0);
    s3r_client_free(client);
}

static void an_s3_error_reaches_the_caller_as_itself(void **state)
{
    struct s3r_client *client = client_with("cma");
    char buffer[16];
    int before = tiny_server_requests();
    assert_int_equal(s3r_get(client, "bucket", "missing", buffer, sizeof(buffer), NULL, result),
                     S3R_ERROR_NO_SUCH_KEY);
    assert_int_equal(tiny_server_requests() - before, 1);
    assert_string_equal(s3r_result_s3_code(result), "NoSuchKey");
    assert_int_equal(s3r_result_status(result), 404);
    assert_non_null(strstr(s3r_result_message(result), "no such thing"));
    assert_int_equal(s3r_get(client, "bucket", "strange", buffer, sizeof(buffer), NULL, result),
                     S3R_ERROR_REMOTE);
    assert_string_equal(s3r_result_s3_code(result), "TeapotShort");
    s3r_client_free(client);
}

static void options_change_the_way(void **state)
{
    struct s3r_client *client = client_with("cma");
    struct s3r_options *options = s3r_options_new();
    char buffer[16];
    s3r_options_set_http_below(options, 17);
    assert_int_equal(s3r_get(client, "bucket", "key", buffer, 16, options, result), S3R_OK);
    assert_int_equal(s3r_result_reason(result), S3R_REASON_THRESHOLD);
    assert_int_equal(s3r_result_requests(result), 1);
    s3r_options_set_http_below(options, 16);
    assert_int_equal(s3r_get(client, "bucket", "key", buffer, 16, options, result), S3R_OK);
    assert_int_equal(s3r_result_reason(result), S3R_REASON_DECLINED);
    s3r_options_set_rdma(options, S3R_RDMA_REQUIRED);
    assert_int_equal(s3r_get(client, "bucket", "key", buffer, 16, options, result),
                     S3R_ERROR_RDMA_REQUIRED);
    s3r_options_set_rdma(options, S3R_RDMA_OFF);
    assert_int_equal(s3r_get(client, "bucket", "key", buffer, 16, options, result), S3R_OK);
    assert_int_equal(s3r_result_reason(result), S3R_REASON_OFF);
    assert_int_equal(s3r_options_set_header(options, "Host", "x"), S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_options_set_header(options, "X-Amz-Rdma-Token", "x"),
                     S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_options_set_metadata(options, "Colour", "red\n"),
                     S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_options_set_metadata(options, "Colour", "red"), S3R_OK);
    assert_int_equal(s3r_put(client, "bucket", "meta", "x", 1, options, result), S3R_OK);
    assert_string_equal(s3r_result_header(result, "x-echo-meta"), "red");
    s3r_options_free(options);
    s3r_client_free(client);
}

static void a_range_lands_in_the_middle_of_registered_memory(void **state)
{
    struct s3r_client *client = client_with("cma");
    char *memory = s3r_alloc(client, 8192);
    assert_non_null(memory);
    assert_int_equal(s3r_registered_bytes(client), 8192);
    assert_int_equal(s3r_get_range(client, "bucket", "key", 2, memory + 100, 3, NULL, result),
                     S3R_OK);
    assert_memory_equal(memory + 100, TINY_OBJECT + 2, 3);
    assert_int_equal(memory[99], 0);
    assert_int_equal(memory[103], 0);
    assert_int_equal(s3r_result_len(result), 3);
    assert_int_equal(s3r_result_object_len(result), TINY_LEN);
    /* 2^64 - 1 is an offset like any other here */
    assert_int_equal(s3r_get_range(client, "bucket", "key", UINT64_MAX, memory, 1, NULL, result),
                     S3R_ERROR_INVALID_RANGE);
    s3r_free(client, memory);
    assert_int_equal(s3r_registered_bytes(client), 0);
    s3r_client_free(client);
}

static void registrations_are_counted(void **state)
{
    struct s3r_client *client = client_with("cma");
    static char memory[4096];
    assert_int_equal(s3r_register(client, memory, 4096, result), S3R_OK);
    assert_int_equal(s3r_register(client, memory, 4096, result), S3R_OK);
    assert_int_equal(s3r_register(client, memory, 4095, result), S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_register(client, memory + 1, 8, result), S3R_OK);
    assert_int_equal(s3r_registered_bytes(client), 4104);
    assert_int_equal(s3r_deregister(client, memory, result), S3R_OK);
    assert_int_equal(s3r_registered_bytes(client), 4104);
    assert_int_equal(s3r_deregister(client, memory, result), S3R_OK);
    assert_int_equal(s3r_deregister(client, memory, result), S3R_ERROR_INVALID_ARGUMENT);
    assert_int_equal(s3r_registered_bytes(client), 8);
    s3r_client_free(client);
}

static void a_deadline_ends_a_call_to_a_silent_server(void **state)
{
    struct s3r_client *client = client_with("cma");
    struct s3r_options *options = s3r_options_new();
    char buffer[16];
    s3r_options_set_deadline_ms(options, 200);
    s3r_options_set_retries(options, 3);
    assert_int_equal(s3r_get(client, "bucket", "silent", buffer, 16, options, result),
                     S3R_ERROR_TIMEOUT);
    assert_true(s3r_result_elapsed_ns(result) >= 190 * INT64_C(1000000));
    assert_int_equal(s3r_registered_bytes(client), 0);
    s3r_options_free(options);
    s3r_client_free(client);
}

static void a_transient_error_is_tried_again_as_often_as_was_said(void **state)
{
    struct s3r_client *client = client_with("cma");
    struct s3r_options *options = s3r_options_new();
    char buffer[16];
    s3r_options_set_rdma(options, S3R_RDMA_OFF);
    s3r_options_set_retries(options, 2);
    assert_int_equal(s3r_get(client, "bucket", "busy", buffer, 16, options, result),
                     S3R_ERROR_BUSY);
    assert_int_equal(s3r_result_requests(result), 3);
    assert_string_equal(s3r_result_s3_code(result), "SlowDown");
    s3r_options_free(options);
    s3r_client_free(client);
}

static int64_t give_two_bytes(void *arg, void *buf, size_t size)
{
    int *calls = arg;
    memcpy(buf, "ab", 2);
    return (*calls)++ == 0 ? 2 : 0;
}

/* How many requests the server saw of a PUT by memory, as a stream, in a queue. */
static void put_all_ways(struct s3r_client *client, const struct s3r_options *options,
                         int requests[3])
{
    struct s3r_queue *queue = NULL;
    struct s3r_result *ended = NULL;
    int calls = 0, before = tiny_server_requests();
    assert_int_equal(s3r_put(client, "bucket", "busy", "ab", 2, options, result), S3R_ERROR_BUSY);
    requests[0] = tiny_server_requests() - before;
    before = tiny_server_requests();
    assert_int_equal(s3r_put_stream(client, "bucket", "busy", S3R_UNKNOWN, give_two_bytes, &calls,
                                    options, result),
                     S3R_ERROR_BUSY);
    requests[1] = tiny_server_requests() - before;
    before = tiny_server_requests();
    assert_int_equal(s3r_queue_new(client, 0, 0, NULL, &queue), S3R_OK);
    assert_int_equal(s3r_submit_put(queue, "bucket", "busy", "ab", 2, options, 1), S3R_OK);
    assert_int_equal(s3r_queue_poll(queue, &ended, 1, -1), 1);
    assert_int_equal(s3r_result_error(ended), S3R_ERROR_BUSY);
    s3r_result_free(ended);
    s3r_queue_free(queue);
    requests[2] = tiny_server_requests() - before;
}

/* The first may have been done, and have made its own condition untrue. */
static void a_put_under_a_condition_is_never_tried_again(void **state)
{
    struct s3r_client *client = client_with("cma");
    struct s3r_options *options = s3r_options_new();
    int requests[3];
    s3r_options_set_rdma(options, S3R_RDMA_OFF);
    s3r_options_set_retries(options, 1);
    put_all_ways(client, options, requests);
    assert_memory_equal(requests, ((int[]){2, 2, 2}), sizeof(requests));
    s3r_options_set_if_match(options, "00112233");
    put_all_ways(client, options, requests);
    assert_memory_equal(requests, ((int[]){1, 1, 1}), sizeof(requests));
    s3r_options_set_if_match(options, NULL);
    s3r_options_set_if_none_match(options, "*");
    put_all_ways(client, options, requests);
    assert_memory_equal(requests, ((int[]){1, 1, 1}), sizeof(requests));
    s3r_options_free(options);
    s3r_client_free(client);
}

static int say_stop(void *arg)
{
    return 1;
}

static void a_function_that_says_so_cancels(void **state)
{
    struct s3r_client *client = client_with("cma");
    struct s3r_options *options = s3r_options_new();
    char buffer[16];
    s3r_options_set_cancel(options, say_stop, NULL);
    assert_int_equal(s3r_get(client, "bucket", "silent", buffer, 16, options, result),
                     S3R_ERROR_CANCELLED);
    s3r_options_free(options);
    s3r_client_free(client);
}

static void a_child_registers_its_parents_memory_anew(void **state)
{
    struct s3r_client *client = client_with("cma");
    char *memory = s3r_alloc(client, 4096);
    pid_t child = fork();
    if (child == 0) {
        bool is_right = s3r_get(client, "bucket", "key", memory, 4096, NULL, result) == S3R_OK &&
                        strcmp(s3r_result_provider(result), "cma") == 0 &&
                        s3r_registered_bytes(client) == 4096;
        s3r_free(client, memory);
        is_right = is_right && s3r_registered_bytes(client) == 0;
        s3r_client_free(client);
        _exit(!is_right);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(s3r_registered_bytes(client), 4096);
    s3r_free(client, memory);
    s3r_client_free(client);
}

static void buckets_and_pages(void **state)
{
    struct s3r_client *client = client_with("cma");
    struct s3r_page *page = NULL;
    int exists = -1;
    assert_int_equal(s3r_bucket_exists(client, "bucket", result, &exists), S3R_OK);
    assert_int_equal(exists, 1);
    assert_int_equal(s3r_bucket_exists(client, "missing", result, &exists), S3R_OK);
    assert_int_equal(exists, 0);
    assert_int_equal(s3r_list(client, "bucket", "p", "/", NULL, 2, result, &page), S3R_OK);
    assert_int_equal(s3r_page_count(page), 3);
    assert_string_equal(s3r_page_name(page, 0), "p.");
    assert_string_equal(s3r_page_name(page, 1), "p/"); /* in the order of keys, as they are */
    assert_int_equal(s3r_page_is_prefix(page, 1), 1);
    assert_string_equal(s3r_page_name(page, 2), "pa");
    assert_int_equal(s3r_page_len(page, 2), 7);
    assert_null(s3r_page_name(page, 3));
    assert_string_equal(s3r_page_next_token(page), "more");
    s3r_page_free(page);
    s3r_client_free(client);
}

static void every_error_has_a_name_and_words(void **state)
{
    const int all[] = {S3R_OK, S3R_ERROR_NOMEM, S3R_ERROR_CHANGED, S3R_ERROR_REMOTE,
                       S3R_ERROR_UNAVAILABLE};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_string_not_equal(s3r_error_name(all[i]), "UNKNOWN");
        assert_true(strlen(s3r_error_text(all[i])) > 3);
    }
    assert_string_equal(s3r_error_name(-99), "UNKNOWN");
    assert_string_equal(s3r_reason_name(S3R_REASON_SERVER), "server-error");
    assert_string_equal(s3r_reason_name(S3R_REASON_MIXED), "mixed");
    assert_string_equal(s3r_reason_name(-1), "unknown");
    assert_string_equal(s3r_transport_name(S3R_TRANSPORT_RDMA), "rdma");
    assert_string_equal(s3r_transport_name(9), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_missing_is_named_before_anything_is_sent, start,
                                        stop),
        cmocka_unit_test_setup_teardown(credentials_come_from_the_choice_that_was_made, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_declined_get_says_what_carried_it_and_why, start, stop),
        cmocka_unit_test_setup_teardown(an_s3_error_reaches_the_caller_as_itself, start, stop),
        cmocka_unit_test_setup_teardown(options_change_the_way, start, stop),
        cmocka_unit_test_setup_teardown(a_range_lands_in_the_middle_of_registered_memory, start,
                                        stop),
        cmocka_unit_test_setup_teardown(registrations_are_counted, start, stop),
        cmocka_unit_test_setup_teardown(a_deadline_ends_a_call_to_a_silent_server, start, stop),
        cmocka_unit_test_setup_teardown(a_transient_error_is_tried_again_as_often_as_was_said,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_put_under_a_condition_is_never_tried_again, start, stop),
        cmocka_unit_test_setup_teardown(a_function_that_says_so_cancels, start, stop),
        cmocka_unit_test_setup_teardown(a_child_registers_its_parents_memory_anew, start, stop),
        cmocka_unit_test_setup_teardown(buckets_and_pages, start, stop),
        cmocka_unit_test(every_error_has_a_name_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
