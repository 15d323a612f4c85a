/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with libs3rdma.so.0 alone: what a stranger's program sees. */
#include "abi_sides.h"

#include <dirent.h>
#include <sys/mman.h>

_Static_assert(sizeof(S3RdmaStatusC) == 16 && offsetof(S3RdmaStatusC, ibv_status) == 8, "");
_Static_assert(sizeof(S3RdmaAsyncEventC) == 24 && offsetof(S3RdmaAsyncEventC, status) == 8, "");
_Static_assert(offsetof(S3RdmaAsyncEventC, ibv_status) == 16, "");
_Static_assert(sizeof(S3RdmaConfig) == 48, "");
_Static_assert(offsetof(S3RdmaConfig, cq_depth) == 4 && offsetof(S3RdmaConfig, dc_key) == 8, "");
_Static_assert(offsetof(S3RdmaConfig, timeout) == 16 && offsetof(S3RdmaConfig, hop_limit) == 20,
               "");
_Static_assert(offsetof(S3RdmaConfig, max_wr) == 24 && offsetof(S3RdmaConfig, max_sge) == 28, "");
_Static_assert(offsetof(S3RdmaConfig, retry_cnt) == 32, "");
_Static_assert(offsetof(S3RdmaConfig, service_level) == 36, "");
_Static_assert(offsetof(S3RdmaConfig, traffic_class) == 40, "");
_Static_assert(offsetof(S3RdmaConfig, pkey_index) == 44, "");

static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void bytes_move_both_ways(void **state)
{
    struct sides *s = *state;
    char *token = minted(s, 1000, 100);
    S3RdmaStatusC st = s3rdma_get(s->server, s->reg, token, 50, 1000, 0);
    assert_int_equal(st.size, 1000);
    assert_int_equal(st.ibv_status, 0);
    assert_int_equal(s->memory[99], 0);
    assert_memory_equal(s->memory + 100, s->staging, 1000);
    assert_int_equal(s->memory[1100], 0);
    s->memory[100] = 1;
    st = s3rdma_put(s->server, s->reg, token, 0, 1000, 0);
    assert_int_equal(st.size, 1000);
    assert_int_equal(s->staging[0], 1);
    s3rdma_client_free_token(token);
}

static void a_size_of_zero_is_valid(void **state)
{
    struct sides *s = *state;
    char *token = minted(s, 0, 0);
    S3RdmaStatusC st = s3rdma_get(s->server, s->reg, token, 0, 0, 0);
    assert_int_equal(st.size, 0);
    assert_int_equal(st.ibv_status, 0);
    st = s3rdma_get(s->server, s->reg, token, 0, 1, 0);
    assert_int_equal(st.size, -1);
    s3rdma_client_free_token(token);
}

static void a_window_ends_with_its_token(void **state)
{
    struct sides *s = *state;
    char copy[256], *token = minted(s, LEN, 0);
    snprintf(copy, sizeof copy, "%s", token);
    s3rdma_client_free_token(token);
    S3RdmaStatusC st = s3rdma_get(s->server, s->reg, copy, 0, LEN, 0);
    assert_int_equal(st.size, -1);
    assert_int_not_equal(st.ibv_status, 0);
    assert_true(strlen(last_error()) > 0);
    assert_int_equal(s->memory[0], 0);
    assert_int_equal(s3rdma_client_report_token_failure(s->client, copy), -1);
}

static void a_reported_token_is_withdrawn_at_once(void **state)
{
    struct sides *s = *state;
    char copy[256], *token = minted(s, LEN, 0);
    snprintf(copy, sizeof copy, "%s", token);
    assert_int_equal(s3rdma_client_healthy_nic_count(s->client), 1);
    assert_int_equal(s3rdma_client_report_token_failure(s->client, copy), 0);
    assert_int_equal(s3rdma_client_healthy_nic_count(s->client), 0);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 0, 1, 0).size, -1);
    /* no rail is left, so all are tried again */
    char *another = minted(s, LEN, 0);
    assert_int_equal(s3rdma_client_healthy_nic_count(s->client), 1);
    assert_int_equal(s3rdma_get(s->server, s->reg, another, 0, 1, 0).size, 1);
    s3rdma_client_free_token(another);
    s3rdma_client_free_token(token);
    assert_int_equal(s3rdma_client_report_token_failure(s->client, NULL), -1);
}

static void misuse_of_handles_is_refused(void **state)
{
    struct sides *s = *state;
    char on_stack[64] = "x", *token = NULL;
    void *handle = NULL;
    S3RdmaAsyncEventC event;
    void *const bad[] = {NULL,
                         (void *)1,
                         (void *)-1,
                         on_stack,
                         s->memory,
                         s->client,
                         s->reg,
                         state,
                         (void *)0xdeadbeef00000000,
                         (char *)s->server + 1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(s3rdma_server_nic_count(bad[i]), 0);
        assert_null(s3rdma_register_buffer(bad[i], on_stack, 64));
        assert_null(s3rdma_alloc_host_buffer(bad[i], 4096));
        assert_int_equal(s3rdma_get(bad[i], s->reg, "x", 0, 1, 0).size, -1);
        assert_int_equal(s3rdma_get_async(bad[i], s->reg, "x", 0, 1, 0, &handle).size, -1);
        assert_int_equal(s3rdma_poll(bad[i], &event, 1, 0), -1);
        assert_int_equal(s3rdma_allocate_channel(bad[i]), 0xffff);
        s3rdma_free_channel(bad[i], 0);
        s3rdma_deregister_buffer(bad[i], s->reg);
        s3rdma_free_host_buffer(bad[i], s->staging);
        s3rdma_server_free(bad[i]);
        s3rdma_async_handle_free(bad[i]);
        s3rdma_client_free_token(bad[i]);
        if (bad[i] != s->reg) {
            assert_int_equal(s3rdma_get(s->server, bad[i], "x", 0, 1, 0).size, -1);
            s3rdma_deregister_buffer(s->server, bad[i]);
        }
        s3rdma_free_host_buffer(s->server, bad[i]);
        if (bad[i] == s->client)
            continue;
        assert_int_equal(s3rdma_client_ready(bad[i]), 0);
        assert_int_equal(s3rdma_client_nic_count(bad[i]), 0);
        assert_int_equal(s3rdma_client_register(bad[i], on_stack, 64), -1);
        assert_int_equal(s3rdma_client_deregister(bad[i], s->memory), -1);
        assert_int_equal(s3rdma_client_get_token(bad[i], s->memory, 1, 0, &token), -1);
        assert_null(token);
        assert_int_equal(s3rdma_client_report_token_failure(bad[i], "x"), -1);
        s3rdma_client_free(bad[i]);
    }
    /* and what is good is as it was */
    token = minted(s, 1, 0);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 0, 1, 0).size, 1);
    s3rdma_client_free_token(token);
    s3rdma_client_free_token(token);
    s3rdma_client_free_token(s->memory);
}

static void handles_freed_twice_or_used_afterwards_are_refused(void **state)
{
    struct sides *s = *state;
    char err[64];
    S3RdmaHandle server = s3rdma_server_init("cma", 0);
    S3RdmaBufHandle reg = s3rdma_register_buffer(server, s->memory, LEN);
    S3RdmaClientHandle client = s3rdma_client_init("cma", err, sizeof err);
    /* of another server */
    assert_int_equal(s3rdma_get(s->server, reg, "x", 0, 1, 0).size, -1);
    s3rdma_deregister_buffer(s->server, reg);
    void *host = s3rdma_alloc_host_buffer(server, 4096);
    s3rdma_free_host_buffer(s->server, host);
    memset(host, 1, 4096);
    s3rdma_free_host_buffer(server, host);
    s3rdma_free_host_buffer(server, host);
    s3rdma_deregister_buffer(server, reg);
    s3rdma_deregister_buffer(server, reg);
    assert_int_equal(s3rdma_get(server, reg, "x", 0, 1, 0).size, -1);
    s3rdma_server_free(server);
    s3rdma_server_free(server);
    assert_int_equal(s3rdma_server_nic_count(server), 0);
    s3rdma_client_free(client);
    s3rdma_client_free(client);
    assert_int_equal(s3rdma_client_ready(client), 0);
    /* new ones do not answer to old ids */
    S3RdmaHandle again = s3rdma_server_init("cma", 0);
    assert_ptr_not_equal(again, server);
    assert_int_equal(s3rdma_server_nic_count(server), 0);
    assert_int_equal(s3rdma_server_nic_count(again), 1);
    s3rdma_server_free(again);
}

static void a_token_outlives_its_client_as_text_only(void **state)
{
    struct sides *s = *state;
    char err[64], *token = NULL;
    S3RdmaClientHandle client = s3rdma_client_init("cma", err, sizeof err);
    assert_int_equal(s3rdma_client_register(client, s->memory, LEN), 0);
    assert_int_equal(s3rdma_client_get_token(client, s->memory, 1, 0, &token), 0);
    s3rdma_client_free(client);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 0, 1, 0).size, -1);
    s3rdma_client_free_token(token);
}

static void wrong_arguments_are_refused(void **state)
{
    struct sides *s = *state;
    char *token = minted(s, LEN, 0), *none = NULL;
    void *handle = NULL;
    S3RdmaAsyncEventC event;
    assert_int_equal(s3rdma_get(s->server, s->reg, NULL, 0, 1, 0).size, -1);
    assert_int_equal(s3rdma_get(s->server, s->reg, "", 0, 1, 0).size, -1);
    assert_int_equal(s3rdma_get(s->server, s->reg, "rubbish", 0, 1, 0).size, -1);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, LEN, 1, 0).size, -1);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 1, LEN, 0).size, -1);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, UINT64_MAX, 2, 0).size, -1);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 0, SIZE_MAX, 0).size, -1);
    assert_int_equal(s3rdma_get_async(s->server, s->reg, token, 0, 1, 0, NULL).size, -1);
    assert_int_equal(s3rdma_get_async(s->server, s->reg, token, 0, 1, 9, &handle).size, -1);
    assert_null(handle);
    assert_int_equal(s3rdma_poll(s->server, NULL, 1, 0), -1);
    assert_int_equal(s3rdma_poll(s->server, &event, -1, 0), -1);
    assert_null(s3rdma_register_buffer(s->server, NULL, 1));
    assert_null(s3rdma_register_buffer(s->server, s->memory, 0));
    assert_null(s3rdma_register_buffer(s->server, s->memory, SIZE_MAX));
    assert_null(s3rdma_alloc_host_buffer(s->server, 0));
    assert_null(s3rdma_alloc_host_buffer(s->server, SIZE_MAX));
    assert_int_equal(s3rdma_client_register(s->client, NULL, 1), -1);
    assert_int_equal(s3rdma_client_register(s->client, s->memory + 1, 0), -1);
    assert_int_equal(s3rdma_client_register(s->client, s->memory, (size_t)-1), -1);
    assert_int_equal(s3rdma_client_deregister(s->client, s->memory + 1), -1);
    assert_int_equal(s3rdma_client_get_token(s->client, s->memory, LEN + 1, 0, &none), -1);
    assert_int_equal(s3rdma_client_get_token(s->client, s->memory, 1, LEN, &none), -1);
    assert_int_equal(s3rdma_client_get_token(s->client, s->memory, (size_t)-1, 1, &none), -1);
    assert_int_equal(s3rdma_client_get_token(s->client, s->memory + 1, 1, 0, &none), -1);
    assert_int_equal(s3rdma_client_get_token(s->client, s->memory, 1, 0, NULL), -1);
    assert_null(none);
    char desc[8] = "junk";
    assert_int_equal(s3rdma_rc_connect(s->server, token, desc, sizeof desc), -1);
    assert_non_null(strstr(last_error(), "verbs"));
    s3rdma_rc_disconnect(s->server, 7);
    s3rdma_client_free_token(token);
}

static void failures_to_open_say_why_in_the_call(void **state)
{
    static const struct {
        const char *device, *text;
    } rows[] = {
        {"x:1:256", "x:1:256"},
        {"mlx5_0", "mlx5_0"},
        {"cma:7", "cma:7"},
        {"", "no RDMA device"},
        {"fe80::1%eth0", "fe80::1%eth0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char err[512] = "";
        assert_null(s3rdma_client_init(rows[i].device, err, sizeof err));
        assert_non_null(strstr(err, rows[i].text));
        assert_string_equal(last_error(), err);
        char shorter[5] = "....";
        assert_null(
            s3rdma_server_init_with_config_err(rows[i].device, 0, NULL, shorter, sizeof shorter));
        assert_int_equal(strlen(shorter), 4);
        assert_int_equal(strncmp(err, shorter, 4), 0);
        assert_null(s3rdma_client_init(rows[i].device, NULL, 0));
    }
    S3RdmaConfig cfg = {.num_dcis = 256, .cq_depth = 256, .timeout = 32, .max_wr = 1, .max_sge = 1};
    char err[128];
    assert_null(s3rdma_server_init_with_config_err("cma", 0, &cfg, err, sizeof err));
    assert_non_null(strstr(err, "timeout is 32"));
}

static void the_summary_and_the_version_are_text(void **state)
{
    char err[256] = "", tiny[4] = "...";
    assert_true(strlen(s3rdma_version()) > 0);
    setenv("S3RDMA_DEVICE", "cma", 1);
    assert_int_equal(s3rdma_check_rdma(err, sizeof err), 1);
    assert_non_null(strstr(err, "cma"));
    S3RdmaClientHandle client = s3rdma_client_init(NULL, err, sizeof err);
    assert_int_equal(s3rdma_client_ready(client), 1);
    assert_int_equal(s3rdma_client_nic_count(client), 1);
    s3rdma_client_free(client);
    setenv("S3RDMA_DEVICE", "nothing0", 1);
    assert_int_equal(s3rdma_check_rdma(err, sizeof err), 0);
    assert_non_null(strstr(err, "nothing0"));
    assert_int_equal(s3rdma_check_rdma(tiny, sizeof tiny), 0);
    assert_int_equal(strlen(tiny), 3);
    assert_int_equal(s3rdma_check_rdma(NULL, 0), 0);
    assert_int_equal(s3rdma_last_error(NULL, 10), 0);
    assert_int_equal(s3rdma_last_error(tiny, 0), 0);
    unsetenv("S3RDMA_DEVICE");
    assert_int_equal(s3rdma_client_memory_type(err), 0);
    assert_int_equal(s3rdma_client_memory_type(NULL), 3);
}

static void memory_that_is_read_only_can_be_the_source_of_a_put(void **state)
{
    struct sides *s = *state;
    char *token = NULL;
    void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(s3rdma_client_register(s->client, memory, 4096), 0);
    assert_int_equal(s3rdma_client_get_token(s->client, memory, 4096, 0, &token), 0);
    assert_int_equal(s3rdma_put(s->server, s->reg, token, 0, 4096, 0).size, 4096);
    assert_int_equal(s->staging[0], 0);
    assert_int_equal(s3rdma_get(s->server, s->reg, token, 0, 4096, 0).size, -1);
    s3rdma_client_free_token(token);
    assert_int_equal(s3rdma_client_deregister(s->client, memory), 0);
    munmap(memory, 4096);
}

static void five_thousand_registrations_are_all_distinct(void **state)
{
    struct sides *s = *state;
    static char *tokens[5000];
    char *all = mmap(NULL, 5000 * 4096, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(s3rdma_client_register(s->client, all + i * 4096, 4096), 0);
        assert_int_equal(s3rdma_client_get_token(s->client, all + i * 4096, 4096, 0, &tokens[i]),
                         0);
    }
    for (size_t i = 0; i < 5000; i++) {
        memcpy(s->staging, &i, sizeof i);
        assert_int_equal(s3rdma_get(s->server, s->reg, tokens[i], 0, sizeof i, 0).size, sizeof i);
    }
    for (size_t i = 0; i < 5000; i++) {
        assert_memory_equal(all + i * 4096, &i, sizeof i);
        s3rdma_client_free_token(tokens[i]);
        assert_int_equal(s3rdma_client_deregister(s->client, all + i * 4096), 0);
    }
    munmap(all, 5000 * 4096);
}

static void nothing_is_left_behind(void **state)
{
    char err[64];
    static char memory[4096], staging[4096];
    int before = count_descriptors();
    for (int i = 0; i < 50; i++) {
        char *token = NULL;
        S3RdmaHandle server = s3rdma_server_init("cma", 0);
        S3RdmaClientHandle client = s3rdma_client_init("cma", err, sizeof err);
        S3RdmaBufHandle reg = s3rdma_register_buffer(server, staging, sizeof staging);
        assert_int_equal(s3rdma_client_register(client, memory, sizeof memory), 0);
        assert_int_equal(s3rdma_client_get_token(client, memory, 1, 0, &token), 0);
        assert_int_equal(s3rdma_get(server, reg, token, 0, 1, 0).size, 1);
        s3rdma_client_free(client);
        s3rdma_server_free(server);
        s3rdma_client_free_token(token);
    }
    assert_int_equal(count_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SIDES(bytes_move_both_ways),
        WITH_SIDES(a_size_of_zero_is_valid),
        WITH_SIDES(a_window_ends_with_its_token),
        WITH_SIDES(a_reported_token_is_withdrawn_at_once),
        WITH_SIDES(misuse_of_handles_is_refused),
        WITH_SIDES(handles_freed_twice_or_used_afterwards_are_refused),
        WITH_SIDES(a_token_outlives_its_client_as_text_only),
        WITH_SIDES(wrong_arguments_are_refused),
        cmocka_unit_test(failures_to_open_say_why_in_the_call),
        cmocka_unit_test(the_summary_and_the_version_are_text),
        WITH_SIDES(memory_that_is_read_only_can_be_the_source_of_a_put),
        WITH_SIDES(five_thousand_registrations_are_all_distinct),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
