/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous transfers (s3r_queue_..., s3r_submit_...) against a server that declines every
 * token. */
#include "unit/gpu_side.h"

#include "../helpers/tiny_server.h"
#include "rdma/loop/loop.h"
#include "s3r/client.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 1500
#define MEMORY_LEN 65536

static struct s3r_client *client;
static char *memory;

static int start_with(const char *devices)
{
    if (tiny_server_start() != 0)
        return -1;
    struct s3r_config *config = s3r_config_new();
    s3r_config_set_endpoint(config, tiny_server_authority());
    s3r_config_set_keys(config, "a", "s", NULL);
    s3r_config_set_devices(config, devices);
    int e = s3r_client_new(config, NULL, &client);
    s3r_config_free(config);
    memory = e == 0 ? s3r_alloc(client, MEMORY_LEN) : NULL;
    return memory == NULL;
}

static int start(void **state)
{
    return start_with("cma");
}

/* A rail that reaches a GPU. */
static int start_with_gpu(void **state)
{
    static bool is_reached = true;
    *state = &is_reached;
    loop_reset();
    loop_script("", &(struct loop_script){.takes_dmabufs = true});
    return start_with("loop");
}

static int stop(void **state)
{
    bool is_left = s3r_registered_bytes(client) != MEMORY_LEN;
    s3r_free(client, memory);
    s3r_client_free(client);
    tiny_server_stop();
    return is_left;
}

static struct s3r_queue *queue_of(unsigned depth, unsigned in_flight)
{
    struct s3r_queue *queue = NULL;
    assert_int_equal(s3r_queue_new(client, depth, in_flight, NULL, &queue), S3R_OK);
    return queue;
}

/* The one completion that is to come. */
static struct s3r_result *next(struct s3r_queue *queue)
{
    struct s3r_result *result = NULL;
    assert_int_equal(s3r_queue_poll(queue, &result, 1, -1), 1);
    return result;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void submit_range(struct s3r_queue *queue, unsigned i)
{
    assert_int_equal(s3r_submit_get_range(queue, "bucket", "key", i % 9, memory + 2 * i, 2, NULL,
                                          i),
                     S3R_OK);
}

static void many_ranges_land_each_in_its_place(void **state)
{
    static bool is_ended[MANY];
    struct s3r_queue *queue = queue_of(100, 8);
    unsigned submitted = 0, ended = 0;
    memset(is_ended, 0, sizeof(is_ended));
    while (ended < MANY) {
        while (submitted < MANY && submitted - ended < 100)
            submit_range(queue, submitted++);
        struct s3r_result *results[16];
        int n = s3r_queue_poll(queue, results, 16, -1);
        assert_true(n > 0);
        for (int k = 0; k < n; k++) {
            uint64_t i = s3r_result_cookie(results[k]);
            assert_int_equal(s3r_result_error(results[k]), S3R_OK);
            assert_int_equal(s3r_result_len(results[k]), 2);
            assert_int_equal(s3r_result_reason(results[k]), S3R_REASON_DECLINED);
            assert_false(is_ended[i]);
            is_ended[i] = true;
            assert_memory_equal(memory + 2 * i, TINY_OBJECT + i % 9, 2);
            s3r_result_free(results[k]);
        }
        ended += (unsigned)n;
    }
    assert_int_equal(s3r_queue_pending(queue), 0);
    assert_int_equal(s3r_queue_poll(queue, (struct s3r_result *[1]){0}, 1, -1), 0);
    assert_int_equal(tiny_server_requests(), 2 * MANY);
    assert_in_range(tiny_server_most_open(), 1, 16); /* kept for the rail's address, and for none */
    s3r_queue_free(queue);
}

static void the_descriptor_is_readable_as_long_as_something_is_done(void **state)
{
    struct s3r_queue *queue = queue_of(0, 0);
    struct pollfd fd = {.fd = s3r_queue_fd(queue), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (unsigned i = 0; i < 2; i++)
        submit_range(queue, i);
    assert_int_equal(poll(&fd, 1, -1), 1);
    s3r_result_free(next(queue));
    assert_int_equal(poll(&fd, 1, -1), 1);
    s3r_result_free(next(queue));
    assert_int_equal(poll(&fd, 1, 0), 0);
    s3r_queue_free(queue);
}

static void what_is_over_the_depth_is_refused(void **state)
{
    struct s3r_queue *queue = queue_of(2, 1);
    submit_range(queue, 0);
    submit_range(queue, 1);
    assert_int_equal(s3r_submit_get(queue, "bucket", "key", memory, 16, NULL, 2), S3R_ERROR_BUSY);
    s3r_result_free(next(queue));
    submit_range(queue, 3);
    assert_int_equal(s3r_submit_get(queue, "bucket", NULL, memory, 16, NULL, 2),
                     S3R_ERROR_INVALID_ARGUMENT);
    s3r_queue_free(queue);
}

static void puts_and_parts_are_done(void **state)
{
    struct s3r_queue *queue = queue_of(0, 0);
    struct s3r_upload *upload = NULL;
    struct s3r_options *options = s3r_options_new();
    s3r_options_set_metadata(options, "colour", "blue");
    assert_int_equal(s3r_submit_put(queue, "bucket", "meta", "abc", 3, options, 1), S3R_OK);
    s3r_options_free(options);
    struct s3r_result *result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_OK);
    assert_string_equal(s3r_result_header(result, "x-echo-meta"), "blue");
    assert_int_equal(s3r_result_len(result), 3);
    s3r_result_free(result);
    assert_int_equal(s3r_upload_open(client, "bucket", "big", "id", NULL, &upload), S3R_OK);
    assert_int_equal(s3r_submit_part(queue, upload, 10001, "abc", 3, NULL, 1), S3R_OK);
    result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_ERROR_INVALID_ARGUMENT);
    s3r_result_free(result);
    assert_int_equal(s3r_submit_part(queue, upload, 1, "abc", 3, NULL, 7), S3R_OK);
    result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_OK);
    assert_int_equal(s3r_result_cookie(result), 7);
    assert_string_equal(s3r_result_etag(result), "00112233");
    s3r_result_free(result);
    s3r_upload_free(upload);
    s3r_queue_free(queue);
}

static void an_object_that_comes_along_with_a_decline_is_taken(void **state)
{
    struct s3r_queue *queue = queue_of(0, 0);
    for (unsigned i = 0; i < 20; i++) {
        memset(memory, 0, TINY_LEN);
        assert_int_equal(s3r_submit_get(queue, "bucket", "along", memory, 64, NULL, i), S3R_OK);
        struct s3r_result *result = next(queue);
        assert_int_equal(s3r_result_error(result), S3R_OK);
        assert_int_equal(s3r_result_requests(result), 1);
        assert_int_equal(s3r_result_transport(result), S3R_TRANSPORT_HTTP);
        assert_int_equal(s3r_result_is_verified(result), 1);
        assert_memory_equal(memory, TINY_OBJECT, TINY_LEN);
        s3r_result_free(result);
    }
    s3r_queue_free(queue);
}

/* With a copy from the start, or (where a rail has the memory) from the body on. */
static void what_comes_along_for_a_gpu_is_delivered(void **state)
{
    static const char *const keys[] = {"along", "key"};
    struct s3r_queue *queue = queue_of(0, 0);
    unsigned char *device = device_alloc(64 * 20);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(s3r_submit_get(queue, "bucket", keys[i % 2], device + 64 * i, 64, NULL, i),
                         S3R_OK);
    for (unsigned i = 0; i < 20; i++) {
        struct s3r_result *result = next(queue);
        assert_int_equal(s3r_result_error(result), S3R_OK);
        assert_int_equal(s3r_result_is_staged(result), 1);
        assert_int_equal(s3r_result_is_verified(result), 1);
        assert_memory_equal(shadow_of(device + 64 * s3r_result_cookie(result)), TINY_OBJECT,
                            TINY_LEN);
        s3r_result_free(result);
    }
    assert_int_equal(s3r_submit_put(queue, "bucket", "key", device, TINY_LEN, NULL, 0), S3R_OK);
    struct s3r_result *result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_OK);
    assert_string_equal(s3r_result_crc64_text(result), TINY_CRC);
    s3r_result_free(result);
    s3r_queue_free(queue);
    assert_int_equal(loop_counts("").dmabufs_offered, *state != NULL ? 21 : 0);
    assert_no_context_is_left();
    device_free(device);
}

static int load_stand_in(void **state)
{
    gpu_load();
    return 0;
}

static void cancelled_ones_end_at_once_running_or_not(void **state)
{
    struct s3r_queue *queue = queue_of(0, 2);
    int64_t started_ms = now_ms();
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(s3r_submit_get(queue, "bucket", "silent", memory + 64 * i, 64, NULL,
                                        i / 2),
                         S3R_OK);
    while (tiny_server_requests() < 2)
        usleep(1000);
    assert_int_equal(s3r_queue_cancel(queue, 9), 0);
    assert_int_equal(s3r_queue_cancel(queue, 1), 2); /* those wait */
    for (int i = 0; i < 2; i++) {
        struct s3r_result *result = next(queue);
        assert_int_equal(s3r_result_cookie(result), 1);
        assert_int_equal(s3r_result_error(result), S3R_ERROR_CANCELLED);
        s3r_result_free(result);
    }
    assert_int_equal(s3r_queue_cancel(queue, 0), 2);
    for (int i = 0; i < 2; i++) {
        struct s3r_result *result = next(queue);
        assert_int_equal(s3r_result_cookie(result), 0);
        assert_int_equal(s3r_result_error(result), S3R_ERROR_CANCELLED);
        s3r_result_free(result);
    }
    assert_true(now_ms() - started_ms < 9000); /* a silent server is waited for 10 s */
    s3r_queue_free(queue);
}

static void a_queue_that_is_freed_leaves_nothing_under_way(void **state)
{
    struct s3r_queue *queue = queue_of(0, 2);
    int64_t started_ms = now_ms();
    static char unregistered[64];
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(s3r_submit_get(queue, "bucket", "silent", unregistered, 16, NULL, i),
                         S3R_OK);
    while (tiny_server_requests() < 2)
        usleep(1000);
    s3r_queue_free(queue);
    assert_int_equal(s3r_registered_bytes(client), MEMORY_LEN);
    assert_true(now_ms() - started_ms < 9000);
}

static void a_deadline_counts_from_the_submit(void **state)
{
    struct s3r_queue *queue = queue_of(0, 1);
    struct s3r_options *options = s3r_options_new();
    s3r_options_set_deadline_ms(options, 150);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(s3r_submit_get(queue, "bucket", "silent", memory + 64 * i, 64, options, i),
                         S3R_OK);
    int64_t started_ms = now_ms();
    for (unsigned i = 0; i < 2; i++) {
        struct s3r_result *result = next(queue);
        assert_int_equal(s3r_result_error(result), S3R_ERROR_TIMEOUT);
        s3r_result_free(result);
    }
    assert_true(now_ms() - started_ms < 9000);
    s3r_options_free(options);
    s3r_queue_free(queue);
}

/* In a queue whose one turn is taken by a transfer without an end. */
static void a_deadline_does_not_wait_for_the_turn(void **state)
{
    static const int64_t deadlines_ms[] = {0, 0, 600000, 200, 100};
    struct s3r_queue *queue = queue_of(0, 1);
    struct pollfd fd = {.fd = s3r_queue_fd(queue), .events = POLLIN};
    struct s3r_options *options = s3r_options_new();
    for (unsigned i = 0; i < 5; i++) {
        s3r_options_set_deadline_ms(options, deadlines_ms[i]);
        assert_int_equal(s3r_submit_get(queue, "bucket", "silent", memory + 64 * i, 64, options, i),
                         S3R_OK);
    }
    s3r_options_free(options);
    uint64_t ended = 0;
    assert_int_equal(poll(&fd, 1, -1), 1);
    for (int i = 0; i < 2; i++) {
        struct s3r_result *result = next(queue);
        ended += s3r_result_cookie(result);
        assert_int_equal(s3r_result_error(result), S3R_ERROR_TIMEOUT);
        assert_string_not_equal(s3r_result_message(result), "");
        assert_int_equal(s3r_result_requests(result), 0);
        s3r_result_free(result);
    }
    assert_int_equal(ended, 3 + 4);
    assert_int_equal(s3r_queue_pending(queue), 3);
    s3r_queue_free(queue); /* its timer is set for ten minutes */
}

static void a_transient_error_is_tried_again(void **state)
{
    struct s3r_queue *queue = queue_of(0, 0);
    struct s3r_options *options = s3r_options_new();
    s3r_options_set_rdma(options, S3R_RDMA_OFF);
    s3r_options_set_retries(options, 2);
    assert_int_equal(s3r_submit_get(queue, "bucket", "busy", memory, 64, options, 3), S3R_OK);
    s3r_options_free(options);
    struct s3r_result *result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_ERROR_BUSY);
    assert_int_equal(s3r_result_requests(result), 3);
    assert_int_equal(s3r_result_cookie(result), 3);
    assert_int_equal(tiny_server_requests(), 3);
    s3r_result_free(result);
    s3r_queue_free(queue);
}

static void errors_of_the_server_come_through_together(void **state)
{
    struct s3r_queue *queue = queue_of(0, 16);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(s3r_submit_get(queue, "bucket", "missing", memory + 64 * i, 64, NULL, i),
                         S3R_OK);
    for (unsigned i = 0; i < 64; i++) {
        struct s3r_result *result = next(queue);
        assert_int_equal(s3r_result_error(result), S3R_ERROR_NO_SUCH_KEY);
        assert_string_equal(s3r_result_s3_code(result), "NoSuchKey");
        assert_int_equal(s3r_result_requests(result), 1);
        s3r_result_free(result);
    }
    s3r_queue_free(queue);
}

static void nobody_there_is_an_error_of_each(void **state)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_client *lonely = NULL;
    struct s3r_queue *queue = NULL;
    char buffer[16];
    s3r_config_set_endpoint(config, "127.0.0.1:1");
    s3r_config_set_keys(config, "a", "s", NULL);
    s3r_config_set_devices(config, "cma");
    assert_int_equal(s3r_client_new(config, NULL, &lonely), S3R_OK);
    s3r_config_free(config);
    assert_int_equal(s3r_queue_new(lonely, 0, 0, NULL, &queue), S3R_OK);
    assert_int_equal(s3r_submit_get(queue, "bucket", "key", buffer, 16, NULL, 1), S3R_OK);
    struct s3r_result *result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_ERROR_HTTP);
    assert_non_null(strstr(s3r_result_message(result), "127.0.0.1:1"));
    s3r_result_free(result);
    assert_int_equal(s3r_registered_bytes(lonely), 0);
    s3r_queue_free(queue);
    s3r_client_free(lonely);
}

/* libcurl would send it again by itself, behind everybody's back. */
static void a_request_with_a_token_is_sent_again_only_with_another_token(void **state)
{
    struct s3r_queue *queue = queue_of(0, 0);
    struct s3r_options *options = s3r_options_new();
    s3r_options_set_rdma(options, S3R_RDMA_OFF);
    /* both on a connection from the rail's address, if it has one: cma has none */
    assert_int_equal(s3r_submit_get(queue, "bucket", "last", memory, 64, options, 1), S3R_OK);
    s3r_result_free(next(queue));
    int before = tiny_server_requests();
    assert_int_equal(before, 1);
    assert_int_equal(s3r_submit_get(queue, "bucket", "key", memory, 64, NULL, 2), S3R_OK);
    struct s3r_result *result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_OK);
    assert_int_equal(s3r_result_requests(result), 3); /* lost, declined, by HTTP */
    assert_int_equal(tiny_server_requests() - before, 3);
    s3r_result_free(result);
    s3r_options_free(options);
    s3r_queue_free(queue);
}

static void a_child_has_queues_of_its_own(void **state)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it lets no child of a process with threads start one */
#endif
    struct s3r_queue *queue = queue_of(0, 0), *own = NULL;
    assert_int_equal(s3r_submit_get(queue, "bucket", "key", memory, 64, NULL, 1), S3R_OK);
    pid_t child = fork();
    if (child == 0) {
        struct s3r_result *result = NULL;
        bool is_right = s3r_submit_get(queue, "bucket", "key", memory, 64, NULL, 1) ==
                            S3R_ERROR_INVALID_ARGUMENT &&
                        s3r_queue_poll(queue, &result, 1, -1) == 0 &&
                        s3r_queue_new(client, 0, 0, NULL, &own) == S3R_OK &&
                        s3r_submit_get(own, "bucket", "key", memory, 64, NULL, 1) == S3R_OK &&
                        s3r_queue_poll(own, &result, 1, -1) == 1 &&
                        s3r_result_error(result) == S3R_OK &&
                        memcmp(memory, TINY_OBJECT, TINY_LEN) == 0;
        s3r_result_free(result);
        s3r_queue_free(own);
        s3r_queue_free(queue);
        s3r_client_free(client);
        _exit(!is_right);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct s3r_result *result = next(queue);
    assert_int_equal(s3r_result_error(result), S3R_OK);
    s3r_result_free(result);
    s3r_queue_free(queue);
}

/* ---- many threads ---- */

#define THREADS 64

static struct s3r_queue *shared;
static atomic_int right;

static void *use_all(void *arg)
{
    unsigned self = (unsigned)(uintptr_t)arg;
    char *own = memory + 512 * self;
    struct s3r_result *result = s3r_result_new();
    for (int i = 0; i < 3; i++) {
        bool is_right =
            s3r_get(client, "bucket", "key", own, 16, NULL, result) == S3R_OK &&
            memcmp(own, TINY_OBJECT, TINY_LEN) == 0 &&
            s3r_register(client, own + 1, 200, NULL) == S3R_OK &&
            s3r_deregister(client, own + 1, NULL) == S3R_OK &&
            s3r_submit_get(shared, "bucket", "key", own + 256 + 64 * i, 16, NULL, self) == S3R_OK;
        atomic_fetch_add(&right, is_right);
        struct s3r_result *ended = NULL;
        /* whoever's it is */
        if (s3r_queue_poll(shared, &ended, 1, -1) == 1)
            atomic_fetch_add(&right, s3r_result_error(ended) == S3R_OK);
        s3r_result_free(ended);
    }
    s3r_result_free(result);
    return NULL;
}

static void one_client_and_one_queue_serve_many_threads(void **state)
{
    pthread_t threads[THREADS];
    shared = queue_of(0, 8);
    right = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_all, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* a poll can come to nothing when another thread took the last completion */
    struct s3r_result *ended;
    while (s3r_queue_poll(shared, &ended, 1, -1) == 1) {
        atomic_fetch_add(&right, s3r_result_error(ended) == S3R_OK);
        s3r_result_free(ended);
    }
    assert_int_equal(right, 2 * 3 * THREADS);
    s3r_queue_free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_ranges_land_each_in_its_place, start, stop),
        cmocka_unit_test_setup_teardown(the_descriptor_is_readable_as_long_as_something_is_done,
                                        start, stop),
        cmocka_unit_test_setup_teardown(what_is_over_the_depth_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(puts_and_parts_are_done, start, stop),
        cmocka_unit_test_setup_teardown(an_object_that_comes_along_with_a_decline_is_taken, start,
                                        stop),
        cmocka_unit_test_setup_teardown(what_comes_along_for_a_gpu_is_delivered, start, stop),
        cmocka_unit_test_setup_teardown(what_comes_along_for_a_gpu_is_delivered, start_with_gpu,
                                        stop),
        cmocka_unit_test_setup_teardown(cancelled_ones_end_at_once_running_or_not, start, stop),
        cmocka_unit_test_setup_teardown(a_queue_that_is_freed_leaves_nothing_under_way, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_deadline_counts_from_the_submit, start, stop),
        cmocka_unit_test_setup_teardown(a_deadline_does_not_wait_for_the_turn, start, stop),
        cmocka_unit_test_setup_teardown(a_transient_error_is_tried_again, start, stop),
        cmocka_unit_test_setup_teardown(errors_of_the_server_come_through_together, start, stop),
        cmocka_unit_test_setup_teardown(nobody_there_is_an_error_of_each, start, stop),
        cmocka_unit_test_setup_teardown(
            a_request_with_a_token_is_sent_again_only_with_another_token, start, stop),
        cmocka_unit_test_setup_teardown(a_child_has_queues_of_its_own, start, stop),
        cmocka_unit_test_setup_teardown(one_client_and_one_queue_serve_many_threads, start, stop),
    };
    return cmocka_run_group_tests(tests, load_stand_in, NULL);
}
