/* SPDX-License-Identifier: Apache-2.0 */
/* The threads beneath queues: one that is late when a client is freed. */
#include "cm.h"

#include "../helpers/tiny_server.h"
#include "s3r/client.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define HOLD_S 3

/* Holds the first thread of a pool that has a loop to wake, until a loop is freed or it was long
 * enough. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held, is_freed, was_late;
} late = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* True: there is no loop any more. */
static bool hold_the_first_of_a_pool(void)
{
    char name[16] = "";
    struct timespec until;
    pthread_getname_np(pthread_self(), name, sizeof(name));
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HOLD_S;
    pthread_mutex_lock(&late.lock);
    bool is_to_wait = strcmp(name, "s3r-work") == 0 && !late.is_held;
    int e = 0;
    late.is_held |= is_to_wait;
    while (is_to_wait && !late.is_freed && e == 0)
        e = pthread_cond_timedwait(&late.changed, &late.lock, &until);
    late.was_late |= is_to_wait && late.is_freed;
    bool is_late = late.was_late;
    pthread_mutex_unlock(&late.lock);
    return is_late;
}

/* In front of libcurl's own: of CURLM and CURLMcode no more has to be known. */
int curl_multi_wakeup(void *multi);
int curl_multi_wakeup(void *multi)
{
    int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, __func__);
    return hold_the_first_of_a_pool() ? 0 : real(multi);
}

int curl_multi_cleanup(void *multi);
int curl_multi_cleanup(void *multi)
{
    int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, __func__);
    pthread_mutex_lock(&late.lock);
    late.is_freed = true;
    pthread_cond_broadcast(&late.changed);
    pthread_mutex_unlock(&late.lock);
    return real(multi);
}

/* The loop looks for new requests once a second, too, so that what the thread was to wake it for
 * may long be done. */
static void a_client_is_freed_after_the_last_thread_that_wakes_its_loop(void **state)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_client *client = NULL;
    struct s3r_queue *queue = NULL;
    struct s3r_result *ended = NULL;
    char memory[16];
    assert_int_equal(tiny_server_start(), 0);
    s3r_config_set_endpoint(config, tiny_server_authority());
    s3r_config_set_keys(config, "a", "s", NULL);
    s3r_config_set_rdma(config, 0);
    assert_int_equal(s3r_client_new(config, NULL, &client), S3R_OK);
    s3r_config_free(config);
    assert_int_equal(s3r_queue_new(client, 0, 0, NULL, &queue), S3R_OK);
    assert_int_equal(s3r_submit_get(queue, "bucket", "key", memory, sizeof(memory), NULL, 1),
                     S3R_OK);
    assert_int_equal(s3r_queue_poll(queue, &ended, 1, -1), 1);
    assert_int_equal(s3r_result_error(ended), S3R_OK);
    s3r_result_free(ended);
    s3r_queue_free(queue);
    s3r_client_free(client);
    tiny_server_stop();
    assert_true(late.is_held && late.is_freed);
    assert_false(late.was_late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_is_freed_after_the_last_thread_that_wakes_its_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
