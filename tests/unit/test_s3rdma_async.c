/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with libs3rdma.so.0 alone: what a stranger's program sees. */
#include "abi_sides.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_posted_call_gives_one_event(void **state)
{
    struct sides *s = *state;
    void *handle = NULL;
    S3RdmaAsyncEventC events[4];
    uint16_t channel = s3rdma_allocate_channel(s->server);
    uint16_t other = s3rdma_allocate_channel(s->server);
    assert_int_not_equal(channel, 0xffff);
    assert_int_not_equal(channel, other);
    char *token = minted(s, LEN, 0);
    S3RdmaStatusC st = s3rdma_get_async(s->server, s->reg, token, 0, LEN, channel, &handle);
    assert_int_equal(st.size, 0);
    assert_non_null(handle);
    int n = 0;
    while ((n = s3rdma_poll(s->server, events, 4, channel)) == 0)
        usleep(100);
    assert_int_equal(n, 1);
    assert_ptr_equal(events[0].async_handle, handle);
    assert_int_equal(events[0].status, LEN);
    assert_int_equal(events[0].ibv_status, 0);
    assert_memory_equal(s->memory, s->staging, LEN);
    assert_int_equal(s3rdma_poll(s->server, events, 4, channel), 0);
    assert_int_equal(s3rdma_poll(s->server, events, 4, other), 0);
    s3rdma_async_handle_free(handle);
    s3rdma_async_handle_free(handle);
    s3rdma_client_free_token(token);
    /* a failure comes as an event too */
    st = s3rdma_put_async(s->server, s->reg, "0:10:cma1:1:1:0:1", 0, 16, channel, &handle);
    assert_int_equal(st.size, 0);
    while ((n = s3rdma_poll(s->server, events, 4, channel)) == 0)
        usleep(100);
    assert_int_equal(n, 1);
    assert_int_equal(events[0].status, -1);
    assert_int_not_equal(events[0].ibv_status, 0);
    s3rdma_async_handle_free(handle);
    s3rdma_free_channel(s->server, channel);
    s3rdma_free_channel(s->server, channel);
    s3rdma_free_channel(s->server, other);
    assert_int_equal(s3rdma_poll(s->server, events, 4, channel), -1);
}

static void too_many_posted_calls_are_refused_until_polled(void **state)
{
    struct sides *s = *state;
    S3RdmaAsyncEventC events[16];
    S3RdmaConfig cfg = {.num_dcis = 1,
                        .cq_depth = 8,
                        .timeout = 14,
                        .hop_limit = 64,
                        .max_wr = 16,
                        .max_sge = 1,
                        .retry_cnt = 7};
    S3RdmaHandle server = s3rdma_server_init_with_config("cma", 0, &cfg);
    S3RdmaBufHandle reg = s3rdma_register_buffer(server, s->staging, LEN);
    uint16_t channel = s3rdma_allocate_channel(server);
    char *token = minted(s, 1, 0);
    void *handles[9];
    for (int i = 0; i < 8; i++)
        assert_int_equal(s3rdma_get_async(server, reg, token, 0, 1, channel, &handles[i]).size, 0);
    assert_int_equal(s3rdma_get_async(server, reg, token, 0, 1, channel, &handles[8]).size, -1);
    assert_null(handles[8]);
    assert_non_null(strstr(last_error(), "poll"));
    int n = 0;
    while (n < 8)
        n += s3rdma_poll(server, events, 3, channel);
    assert_int_equal(n, 8);
    assert_int_equal(s3rdma_get_async(server, reg, token, 0, 1, channel, &handles[8]).size, 0);
    for (int i = 0; i < 4; i++)
        s3rdma_async_handle_free(handles[i]);
    s3rdma_client_free_token(token);
    /* the rest (ids, the event, the buffer, the channel) is leaked on purpose */
    s3rdma_server_free(server);
    for (int i = 0; i < 9; i++)
        s3rdma_async_handle_free(handles[i]);
}

static void channels_end_at_the_last(void **state)
{
    struct sides *s = *state;
    for (int i = 0; i < 0xffff; i++)
        assert_int_not_equal(s3rdma_allocate_channel(s->server), 0xffff);
    assert_int_equal(s3rdma_allocate_channel(s->server), 0xffff);
    s3rdma_free_channel(s->server, 4711);
    assert_int_equal(s3rdma_allocate_channel(s->server), 4711);
    s3rdma_free_channel(s->server, 0xffff);
}

struct user {
    struct sides *s;
    size_t offset;
    uint16_t channel;
};

static void *use(void *arg)
{
    struct user *u = arg;
    struct sides *s = u->s;
    for (int i = 0; i < 100; i++) {
        char *token = NULL;
        void *handle = NULL;
        S3RdmaAsyncEventC event;
        int n;
        if (s3rdma_client_get_token(s->client, s->memory, 4096, u->offset, &token))
            return "no token";
        if (s3rdma_get(s->server, s->reg, token, u->offset, 4096, 0).size != 4096)
            return "get";
        if (s3rdma_put_async(s->server, s->reg, token, u->offset, 4096, u->channel, &handle).size)
            return "post";
        if (i % 2)
            s3rdma_async_handle_free(handle);
        while ((n = s3rdma_poll(s->server, &event, 1, u->channel)) == 0)
            usleep(10);
        if (n != 1 || event.async_handle != handle || event.status != 4096)
            return "event";
        s3rdma_async_handle_free(handle);
        s3rdma_client_free_token(token);
    }
    return NULL;
}

static void many_threads_share_the_handles(void **state)
{
    struct sides *s = *state;
    pthread_t threads[8];
    struct user users[8];
    for (size_t i = 0; i < 8; i++) {
        users[i] = (struct user){.s = s,
                                 .offset = i * 8192,
                                 .channel = s3rdma_allocate_channel(s->server)};
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result)
            fail_msg("%s", (const char *)result);
    }
}

static int run_child(struct sides *s, char *token)
{
    char err[128], *own = NULL;
    static char memory[64];
    if (s3rdma_client_ready(s->client) ||
        s3rdma_client_register(s->client, memory, sizeof memory) != -1 ||
        !strstr(last_error(), "fork") || s3rdma_server_nic_count(s->server) != 0 ||
        s3rdma_get(s->server, s->reg, token, 0, 1, 0).size != -1)
        return 2;
    s3rdma_client_free_token(token);
    s3rdma_client_free(s->client);
    s3rdma_server_free(s->server);
    S3RdmaClientHandle client = s3rdma_client_init("cma", err, sizeof err);
    S3RdmaHandle server = s3rdma_server_init("cma", 0);
    S3RdmaBufHandle reg = s3rdma_register_buffer(server, s->staging, LEN);
    if (s3rdma_client_register(client, memory, sizeof memory) ||
        s3rdma_client_get_token(client, memory, sizeof memory, 0, &own) ||
        s3rdma_get(server, reg, own, 0, sizeof memory, 0).size != sizeof memory ||
        memcmp(memory, s->staging, sizeof memory) != 0)
        return 3;
    s3rdma_client_free_token(own);
    s3rdma_client_free(client);
    s3rdma_server_free(server);
    return 0;
}

static void a_forked_child_opens_its_own_and_the_parent_goes_on(void **state)
{
    struct sides *s = *state;
    int status;
    char *token = minted(s, LEN, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_child(s, token));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 0, LEN, 0).size, LEN);
    s3rdma_client_free_token(token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SIDES(a_posted_call_gives_one_event),
        WITH_SIDES(too_many_posted_calls_are_refused_until_polled),
        WITH_SIDES(channels_end_at_the_last),
        WITH_SIDES(many_threads_share_the_handles),
        WITH_SIDES(a_forked_child_opens_its_own_and_the_parent_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
