/* SPDX-License-Identifier: Apache-2.0 */
/* A program as it was compiled against tests/abi/v0/include: it runs with today's libraries. */
#include <miniocpp/c_api.h>
#include <s3r/client.h>
#include <s3rdma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN 65536

static void check(int is_right, const char *what)
{
    char why[256] = "";
    if (is_right)
        return;
    s3rdma_last_error(why, sizeof(why));
    fprintf(stderr, "%s: %s; %s\n", what, why,
            miniocpp_last_error() ? miniocpp_last_error() : "no error");
    exit(1);
}

static void transport(void)
{
    char why[256] = "", *token = NULL;
    static char theirs[LEN];
    S3RdmaConfig config = {256, 256, 0xffeeddcc, 14, 64, 256, 1, 7, 0, 0, 0};
    S3RdmaHandle server = s3rdma_server_init_with_config_err("cma", 0, &config, why, sizeof(why));
    S3RdmaClientHandle client = s3rdma_client_init("cma", why, sizeof(why));
    check(server && client, why);
    check(s3rdma_server_nic_count(server) == 1 && s3rdma_client_nic_count(client) == 1 &&
              s3rdma_client_healthy_nic_count(client) == 1 && s3rdma_client_ready(client) == 1,
          "rails");
    char *ours = s3rdma_alloc_host_buffer(server, LEN);
    S3RdmaBufHandle reg = s3rdma_register_buffer(server, ours, LEN);
    check(reg && s3rdma_client_register(client, theirs, LEN) == 0, "register");
    check(s3rdma_client_get_token(client, theirs, LEN, 0, &token) == 0 && token, "token");
    memset(theirs, 'a', LEN);
    S3RdmaStatusC status = s3rdma_put(server, reg, token, 0, LEN, 0);
    check(status.size == LEN && status.ibv_status == 0 && ours[LEN - 1] == 'a', "put");
    memset(ours, 'b', LEN);
    uint16_t channel = s3rdma_allocate_channel(server);
    void *handle = NULL;
    status = s3rdma_get_async(server, reg, token, 0, LEN, channel, &handle);
    check(status.size == 0 && handle, "get_async");
    S3RdmaAsyncEventC event = {0};
    int n = 0;
    while ((n = s3rdma_poll(server, &event, 1, channel)) == 0)
        ;
    check(n == 1 && event.async_handle == handle && event.status == LEN && event.ibv_status == 0 &&
              theirs[LEN - 1] == 'b',
          "poll");
    s3rdma_async_handle_free(handle);
    s3rdma_free_channel(server, channel);
    s3rdma_client_free_token(token);
    check(s3rdma_client_deregister(client, theirs) == 0, "deregister");
    s3rdma_deregister_buffer(server, reg);
    s3rdma_free_host_buffer(server, ours);
    s3rdma_client_free(client);
    s3rdma_server_free(server);
    check(s3rdma_client_memory_type(theirs) == 0 && s3rdma_version()[0] != '\0', "memory type");
}

/* Nobody listens on that port, so each call ends in an error that says so. */
static void objects(void)
{
    miniocpp_client *client =
        miniocpp_client_new("127.0.0.1:1", "us-east-1", "access", "secret", "", 0);
    char *buf = miniocpp_alloc_aligned(LEN), etag[64], checksum[64];
    check(client && buf && miniocpp_last_error() == NULL, "miniocpp");
    check(miniocpp_put_object(client, "bucket", "key", buf, LEN, NULL, NULL, etag, checksum) ==
                  MINIOCPP_ERR_GENERIC &&
              miniocpp_last_error() != NULL,
          "miniocpp_put_object");
    check(miniocpp_get_object(client, "bucket", "key", buf, LEN, NULL, NULL) ==
              MINIOCPP_ERR_GENERIC,
          "miniocpp_get_object");
    check(miniocpp_get_object(NULL, "bucket", "key", buf, LEN, NULL, NULL) ==
              MINIOCPP_ERR_INVALID_ARG,
          "no client");
    check(miniocpp_rdma_available() == 1 && miniocpp_rdma_nic_count() == 1 &&
              miniocpp_rdma_healthy_nic_count() == 1,
          "miniocpp's rails");
    miniocpp_free_aligned(buf);
    miniocpp_client_free(client);
}

static void our_own(void)
{
    struct s3r_config *config = s3r_config_new();
    struct s3r_result *result = s3r_result_new();
    struct s3r_client *client = NULL;
    char buf[16];
    check(s3r_config_set_endpoint(config, "http://127.0.0.1:1") == S3R_OK &&
              s3r_config_set_keys(config, "access", "secret", NULL) == S3R_OK &&
              s3r_client_new(config, result, &client) == S3R_OK,
          "s3r_client_new");
    check(s3r_get(client, "bucket", "key", buf, sizeof(buf), NULL, result) == S3R_ERROR_HTTP &&
              s3r_result_error(result) == S3R_ERROR_HTTP &&
              strcmp(s3r_error_name(S3R_ERROR_HTTP), "HTTP") == 0 &&
              s3r_result_message(result)[0] != '\0',
          "s3r_get");
    s3r_client_free(client);
    s3r_result_free(result);
    s3r_config_free(config);
}

int main(void)
{
    transport();
    objects();
    our_own();
    return 0;
}
