/* SPDX-License-Identifier: Apache-2.0 */
/* abi_sides.h - what the tests of libs3rdma share: a server and a client in this process. */
#ifndef S3R_TESTS_ABI_SIDES_H
#define S3R_TESTS_ABI_SIDES_H

#include "cm.h"

#include "s3rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN ((size_t)1 << 20)

struct sides {
    S3RdmaHandle server;
    S3RdmaClientHandle client;
    S3RdmaBufHandle reg;
    char *staging, *memory;
};

static inline int set_up(void **state)
{
    char err[256];
    struct sides *s = calloc(1, sizeof *s);
    s->server = s3rdma_server_init("cma", 0);
    s->client = s3rdma_client_init("cma", err, sizeof err);
    assert_non_null(s->server);
    assert_non_null(s->client);
    s->staging = s3rdma_alloc_host_buffer(s->server, LEN);
    s->memory = calloc(1, LEN);
    assert_non_null(s->staging);
    assert_int_equal((uintptr_t)s->staging % 4096, 0);
    memset(s->staging, 0x5a, LEN);
    s->reg = s3rdma_register_buffer(s->server, s->staging, LEN);
    assert_non_null(s->reg);
    assert_int_equal(s3rdma_client_register(s->client, s->memory, LEN), 0);
    *state = s;
    return 0;
}

static inline int tear_down(void **state)
{
    struct sides *s = *state;
    assert_int_equal(s3rdma_client_deregister(s->client, s->memory), 0);
    s3rdma_deregister_buffer(s->server, s->reg);
    s3rdma_free_host_buffer(s->server, s->staging);
    s3rdma_server_free(s->server);
    s3rdma_client_free(s->client);
    free(s->memory);
    free(s);
    return 0;
}

static inline char *minted(struct sides *s, size_t size, size_t offset)
{
    char *token = NULL;
    assert_int_equal(s3rdma_client_get_token(s->client, s->memory, size, offset, &token), 0);
    assert_non_null(token);
    return token;
}

static inline const char *last_error(void)
{
    static char text[512];
    size_t len = s3rdma_last_error(text, sizeof text);
    assert_int_equal(len, strlen(text));
    return text;
}

#define WITH_SIDES(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
