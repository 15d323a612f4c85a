/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a transfer, with windows that only write down what is done to them and a server that
 * reads its replies from a list: the order of things, rails, and a window that cannot be fenced. */
#include "unit/gpu_side.h"

#include "client/client.h"
#include "rdma/gpu.h"
#include "rdma/owner.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEN 64
#define CANARY 0xaa

/* ---- windows (in place of rdma/owner.c) ---- */

struct owner {
    int unused;
};
struct owner_window {
    char token[80];
};

static struct {
    int rails, opened, closed, registered, blamed, settled, withdrawn;
    int withdraw_error, withdraw_errors_left; /* 0: always */
    bool takes_no_device;                     /* a GPU's memory, or managed */
    unsigned char *base;                      /* what was registered last */
    bool touches_base;                        /* while its window is open */
    bool was_memory_touched;                  /* before the window over it was withdrawn */
} fake;
static unsigned char memory[LEN];
static struct owner_window windows[8]; /* of one transfer */

static bool is_canary(void)
{
    for (size_t i = 0; i < LEN; i++)
        if (memory[i] != CANARY)
            return false;
    return true;
}

int owner_open(const char *devices, const struct sockaddr *local_addr, struct diag *diag,
               struct owner **ret_owner)
{
    static struct owner the_owner;
    *ret_owner = &the_owner;
    return 0;
}

void owner_close(struct owner *o)
{
}

int owner_rail_count(const struct owner *o)
{
    return fake.rails;
}

int owner_healthy_count(struct owner *o)
{
    return 1;
}

void owner_describe(struct owner *o, int rail, char *out, size_t size)
{
}

int owner_register(struct owner *o, void *ptr, size_t len, struct diag *diag)
{
    if (fake.takes_no_device && gpu_can_copy(gpu_memory_type(ptr)))
        return S3R_E_RDMA_REGISTER;
    fake.registered++;
    fake.base = ptr;
    return 0;
}

int owner_deregister(struct owner *o, void *ptr)
{
    fake.registered--;
    return 0;
}

int owner_window_open(struct owner *o, void *ptr, uint64_t off, uint64_t len, struct diag *diag,
                      struct owner_window **ret_window)
{
    assert_true((size_t)fake.opened < ARRAY_LEN(windows));
    struct owner_window *w = &windows[fake.opened];
    snprintf(w->token, sizeof(w->token), "1000:%llx:cma1:1:1:%x:5", (unsigned long long)len,
             fake.opened++);
    *ret_window = w;
    return 0;
}

const char *owner_window_token(const struct owner_window *w)
{
    return w->token;
}

bool owner_window_address(const struct owner_window *w, struct sockaddr_storage *ret_addr)
{
    return false;
}

void owner_window_settle(struct owner_window *w)
{
    fake.settled++;
}

int owner_window_withdraw(struct owner_window *w, struct diag *diag)
{
    fake.was_memory_touched = fake.was_memory_touched || !is_canary();
    if (fake.touches_base)
        fake.base[0]++;
    if (fake.withdraw_error == 0) {
        fake.withdrawn++;
        return 0;
    }
    int e = fake.withdraw_error;
    if (fake.withdraw_errors_left > 0 && --fake.withdraw_errors_left == 0)
        fake.withdraw_error = 0;
    return e;
}

void owner_window_close(struct owner_window *w)
{
    fake.closed++;
}

void owner_window_blame(struct owner_window *w)
{
    fake.blamed++;
}

/* ---- the server ---- */

static struct {
    int listener;
    pthread_t thread;
    const char *const *replies; /* NULL-terminated; after it connections are closed */
    int requests, tokens, checksums;
    const char *moves; /* what a request with a token brings into the memory; NULL: nothing */
} server;

static void serve_connection(int fd)
{
    char head[8192];
    size_t len = 0;
    for (;;) {
        ssize_t n = read(fd, head + len, sizeof(head) - 1 - len);
        if (n <= 0)
            return;
        len += (size_t)n;
        head[len] = '\0';
        if (strstr(head, "\r\n\r\n") == NULL)
            continue;
        const char *reply = server.replies[server.requests];
        server.requests++;
        server.tokens += strstr(head, "x-amz-rdma-token:") != NULL;
        server.checksums += strstr(head, "x-amz-checksum-crc64nvme:") != NULL;
        if (strstr(head, "x-amz-rdma-token:") != NULL && server.moves != NULL)
            memcpy(fake.base, server.moves, strlen(server.moves));
        if (reply == NULL || write(fd, reply, strlen(reply)) < 0 ||
            strncmp(reply, "HTTP/1.0", 8) == 0)
            return;
        len = 0;
    }
}

static void *serve(void *arg)
{
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0; close(fd))
        serve_connection(fd);
    return NULL;
}

enum verb { GET_WHOLE, GET_RANGE, PUT };

static void start_server(const char *const *replies, char url[64])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    const char *moves = server.moves;
    memset(&server, 0, sizeof(server));
    server.moves = moves;
    server.replies = replies;
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(server.listener, 8), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
    snprintf(url, 64, "http://127.0.0.1:%u", ntohs(addr.sin_port));
}

static void stop_server(void)
{
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
}

/* One transfer; the outcome of the call. */
static int ask_with(void *ptr, size_t len, enum verb verb, const char *const *replies,
                    const struct client_options *options, struct client_result *result)
{
    char url[64];
    start_server(replies, url);
    const struct client_config config = {.endpoint = url,
                                         .access_key = "a",
                                         .secret_key = "s",
                                         .devices = "cma"};
    struct client *c = NULL;
    assert_int_equal(client_create(&config, NULL, &c), 0);
    const struct client_memory m = {ptr, len, NULL};
    int e = verb == PUT ? client_put(c, "bucket", "key", &m, options, NULL, result)
                        : client_get(c, "bucket", "key", verb == GET_RANGE ? 0 : CLIENT_WHOLE, &m,
                                     options, NULL, result);
    client_destroy(c);
    stop_server();
    return e;
}

static int ask(enum verb verb, const char *const *replies, const struct client_options *options,
               struct client_result *result)
{
    memset(memory, CANARY, LEN);
    return ask_with(memory, LEN, verb, replies, options, result);
}

static int get(const char *const *replies, const struct client_options *options,
               struct client_result *result)
{
    return ask(GET_WHOLE, replies, options, result);
}

static int reset(void **state)
{
    memset(&fake, 0, sizeof(fake));
    fake.rails = 1;
    memset(memory, CANARY, LEN);
    server.moves = NULL;
    return 0;
}

#define OBJECT "0123456789"
#define HTTP_OBJECT "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" OBJECT
#define MOVED                                                                                      \
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-rdma-reply: 200\r\n"                            \
    "x-amz-rdma-bytes-transferred: 10\r\n\r\n"
#define BODY_WITH_DECLINE                                                                          \
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nx-amz-rdma-reply: 501\r\n\r\n" OBJECT
#define DECLINED "HTTP/1.1 501 No\r\nContent-Length: 0\r\nx-amz-rdma-reply: 501\r\n\r\n"
#define FAILED                                                                                     \
    "HTTP/1.1 503 No\r\nContent-Length: 49\r\n\r\n"                                                \
    "<Error><Code>RDMATransferError</Code></Error>    "
#define MISSING "HTTP/1.1 404 No\r\nContent-Length: 37\r\n\r\n<Error><Code>NoSuchKey</Code></Error>"

static void assert_all_ended(void)
{
    assert_int_equal(fake.opened, fake.closed);
    assert_int_equal(fake.registered, 0);
    assert_false(fake.was_memory_touched);
}

static void a_success_settles_and_ends_its_window(void **state)
{
    static const char *const replies[] = {MOVED, NULL};
    struct client_result result = {0};
    assert_int_equal(get(replies, NULL, &result), 0);
    assert_int_equal(result.transport, CLIENT_RDMA);
    assert_int_equal(fake.settled, 1);
    assert_int_equal(server.requests, 1);
    assert_all_ended();
    client_result_fini(&result);
}

static void the_window_is_withdrawn_before_the_memory_is_touched(void **state)
{
    static const char *const bodies[][3] = {{BODY_WITH_DECLINE, NULL},
                                            {HTTP_OBJECT, NULL},
                                            {DECLINED, HTTP_OBJECT, NULL},
                                            {FAILED, HTTP_OBJECT, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        reset(NULL);
        struct client_result result = {0};
        assert_int_equal(get(bodies[i], NULL, &result), 0);
        assert_int_equal(result.transport, CLIENT_HTTP);
        assert_memory_equal(memory, OBJECT, 10);
        assert_int_equal(server.tokens, 1);
        assert_int_equal(fake.withdrawn, 1);
        assert_all_ended();
        client_result_fini(&result);
    }
}

static void a_failed_transfer_blames_its_rail_and_tries_another(void **state)
{
    static const char *const replies[] = {FAILED, MOVED, NULL};
    struct client_result result = {0};
    fake.rails = 2;
    assert_int_equal(get(replies, NULL, &result), 0);
    assert_int_equal(result.transport, CLIENT_RDMA);
    assert_int_equal(result.reason, CLIENT_REASON_NONE);
    assert_int_equal(fake.blamed, 1);
    assert_int_equal(fake.settled, 1); /* the second; a failure is never settled */
    assert_int_equal(server.tokens, 2);
    assert_all_ended();
    client_result_fini(&result);
}

static void another_rail_is_tried_once_only(void **state)
{
    static const char *const replies[] = {FAILED, FAILED, HTTP_OBJECT, NULL};
    struct client_result result = {0};
    fake.rails = 5;
    assert_int_equal(get(replies, NULL, &result), 0);
    assert_int_equal(result.transport, CLIENT_HTTP);
    assert_int_equal(server.tokens, 2);
    assert_int_equal(result.requests, 3);
    assert_all_ended();
    client_result_fini(&result);
}

static void a_decline_blames_nobody(void **state)
{
    static const char *const replies[] = {DECLINED, DECLINED, HTTP_OBJECT, NULL};
    struct client_result result = {0};
    fake.rails = 2;
    assert_int_equal(get(replies, NULL, &result), 0);
    assert_int_equal(fake.blamed, 0);
    assert_int_equal(server.tokens, 2);
    assert_all_ended();
    client_result_fini(&result);
}

static void a_final_error_is_one_request_and_blames_nobody(void **state)
{
    static const char *const replies[] = {MISSING, HTTP_OBJECT, NULL};
    struct client_result result = {0};
    fake.rails = 2;
    assert_int_equal(get(replies, NULL, &result), S3R_E_NO_SUCH_KEY);
    assert_int_equal(server.requests, 1);
    assert_int_equal(fake.blamed, 0);
    assert_true(is_canary());
    assert_all_ended();
    client_result_fini(&result);
}

static void memory_that_may_still_be_written_is_not_used(void **state)
{
    static const char *const bodies[][3] = {{BODY_WITH_DECLINE, HTTP_OBJECT, NULL},
                                            {FAILED, HTTP_OBJECT, NULL},
                                            {DECLINED, HTTP_OBJECT, NULL},
                                            {MOVED, HTTP_OBJECT, NULL},
                                            {NULL, NULL, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        reset(NULL);
        fake.withdraw_error = S3R_E_BUSY;
        struct client_result result = {0};
        assert_int_equal(get(bodies[i], NULL, &result), S3R_E_RDMA_UNFENCED);
        assert_int_equal(server.requests, 1);
        assert_true(is_canary());
        assert_int_equal(fake.closed, 0);
        assert_int_equal(fake.registered, 1); /* and stays registered */
        client_result_fini(&result);
    }
}

/* ---- bodies and their lengths ---- */

#define RANGE "Content-Range: bytes 0-9/10\r\n"
#define HTTP_RANGE "HTTP/1.1 206 Part\r\n" RANGE "Content-Length: 10\r\n\r\n" OBJECT
#define SHORT_CHUNKS "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n0\r\n\r\n"
#define DECLINED_WITH "x-amz-rdma-reply: 501\r\n"

/* By HTTP the length of the range is what its reply says, not what happened to come. */
static void a_range_whose_body_is_shorter_is_an_error(void **state)
{
    static const char *const bodies[] = {"HTTP/1.1 206 Part\r\n" RANGE SHORT_CHUNKS,
                                         "HTTP/1.1 206 Part\r\n" RANGE
                                         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        reset(NULL);
        const char *const replies[] = {DECLINED, bodies[i], NULL};
        struct client_result result = {0};
        assert_int_equal(ask(GET_RANGE, replies, NULL, &result), S3R_E_BAD_REPLY);
        assert_int_equal(result.len, 0);
        assert_all_ended();
        client_result_fini(&result);
    }
}

static void a_body_along_with_a_decline_that_may_be_cut_is_asked_for_again(void **state)
{
    static const struct {
        enum verb verb;
        const char *body, *again;
    } rows[] = {
        {GET_RANGE, "HTTP/1.1 206 Part\r\n" RANGE DECLINED_WITH SHORT_CHUNKS, HTTP_RANGE},
        {GET_RANGE, "HTTP/1.1 206 Part\r\n" RANGE DECLINED_WITH "Content-Length: 4\r\n\r\n0123",
         HTTP_RANGE},
        {GET_RANGE, "HTTP/1.1 206 Part\r\n" RANGE "Content-Length: 4\r\n\r\n0123", HTTP_RANGE},
        {GET_WHOLE, "HTTP/1.0 200 OK\r\n" DECLINED_WITH "\r\n0123", HTTP_OBJECT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        reset(NULL);
        const char *const replies[] = {rows[i].body, rows[i].again, NULL};
        struct client_result result = {0};
        assert_int_equal(ask(rows[i].verb, replies, NULL, &result), 0);
        assert_int_equal(result.len, 10);
        assert_memory_equal(memory, OBJECT, 10);
        assert_int_equal(server.requests, 2);
        assert_all_ended();
        client_result_fini(&result);
    }
}

/* ---- contradictions ---- */

#define CRC_OF_OTHERS "x-amz-checksum-crc64nvme: rosUhgp5mIg=\r\n"

/* What such a reply says of the transfer's end is not to be believed either. */
static void a_reply_whose_bytes_are_wrong_settles_nothing(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-rdma-reply: 200\r\n" CRC_OF_OTHERS
        "x-amz-rdma-bytes-transferred: 10\r\n\r\n",
        HTTP_OBJECT, NULL};
    struct client_result result = {0};
    (void)get(replies, NULL, &result);
    assert_int_equal(result.reason, CLIENT_REASON_CHECKSUM);
    assert_int_equal(server.requests, 2);
    assert_int_equal(fake.settled, 0);
    assert_all_ended();
    client_result_fini(&result);
}

#define FULL                                                                                       \
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-rdma-reply: 200\r\n"                            \
    "x-amz-rdma-bytes-transferred: 64\r\n\r\n"

/* It can be all of the object or its beginning: some servers cut. */
static void a_full_memory_without_a_checksum_is_measured(void **state)
{
    static const struct {
        const char *head;
        bool is_unverified;
        int error, requests;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n", false, 0, 2},
        {"HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n", false, S3R_E_BUFFER_TOO_SMALL, 2},
        {"HTTP/1.1 200 OK\r\n\r\n", false, S3R_E_BAD_REPLY, 2},
        {"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", false, S3R_E_NO_SUCH_KEY, 2},
        {NULL, true, 0, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        reset(NULL);
        const char *const replies[] = {FULL, rows[i].head, NULL};
        const struct client_options options = {.is_unverified = rows[i].is_unverified};
        struct client_result result = {0};
        assert_int_equal(get(replies, &options, &result), rows[i].error);
        assert_int_equal(server.requests, rows[i].requests);
        assert_int_equal(result.requests, rows[i].requests);
        if (rows[i].error == S3R_E_BUFFER_TOO_SMALL)
            assert_int_equal(result.object_len, 65);
        assert_all_ended();
        client_result_fini(&result);
    }
}

/* A proxy's: the server behind it may be at work. */
static void a_request_that_timed_out_settles_nothing(void **state)
{
    static const char *const replies[] = {"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n",
                                          HTTP_OBJECT, NULL};
    struct client_result result = {0};
    assert_int_equal(get(replies, NULL, &result), 0);
    assert_int_equal(fake.settled, 0);
    assert_all_ended();
    client_result_fini(&result);
}

static void a_put_by_http_that_left_an_empty_object_is_an_error(void **state)
{
    static const char *const replies[] = {DECLINED,
                                          "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: "
                                          "\"d41d8cd98f00b204e9800998ecf8427e\"\r\n\r\n",
                                          NULL};
    struct client_result result = {0};
    assert_int_equal(ask(PUT, replies, NULL, &result), S3R_E_BAD_REPLY);
    assert_all_ended();
    client_result_fini(&result);
}

/* ---- a GPU's memory ---- */

#define PUT_MOVED                                                                                  \
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"e\"\r\nx-amz-rdma-reply: 200\r\n"             \
    "x-amz-rdma-bytes-transferred: 64\r\n\r\n"
#define PUT_STORED "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"e\"\r\n\r\n"

static void *device_memory(void)
{
    void *device = device_alloc(LEN);
    memset(shadow_of(device), CANARY, LEN);
    return device;
}

static void assert_object_is_in(const void *device)
{
    unsigned char expected[LEN];
    memset(expected, CANARY, LEN);
    memcpy(expected, OBJECT, 10);
    assert_memory_equal(shadow_of(device), expected, LEN);
}

static void assert_untouched(const void *device)
{
    assert_memory_equal(shadow_of(device), memory, LEN);
}

static void what_no_rail_takes_goes_through_a_copy(void **state)
{
    static const char *const moved[] = {MOVED, NULL}, *const put[] = {PUT_MOVED, NULL};
    struct client_result result = {0};
    void *device = device_memory();
    fake.takes_no_device = true;
    server.moves = OBJECT;
    assert_int_equal(ask_with(device, LEN, GET_WHOLE, moved, NULL, &result), 0);
    assert_int_equal(result.transport, CLIENT_RDMA);
    assert_true(result.is_staged);
    assert_object_is_in(device);
    assert_all_ended();
    client_result_fini(&result);
    reset(NULL);
    fake.takes_no_device = true;
    assert_int_equal(ask_with(device, LEN, PUT, put, NULL, &result), 0);
    assert_true(result.is_staged && result.is_verified);
    assert_int_equal(server.checksums, 1);
    assert_all_ended();
    client_result_fini(&result);
    device_free(device);
}

/* The processor may touch it, and where a rail takes it nothing is copied. */
static void managed_memory_is_the_hosts_and_staged_only_for_a_rail(void **state)
{
    static const char *const moved[] = {MOVED, NULL}, *const http[] = {DECLINED, HTTP_OBJECT, NULL};
    for (int i = 0; i < 3; i++) {
        struct client_result result = {0};
        CUdeviceptr managed;
        reset(NULL);
        assert_int_equal(gpu.alloc_managed(&managed, LEN, 1), 0);
        void *ptr = (void *)(uintptr_t)managed;
        memset(ptr, CANARY, LEN);
        fake.takes_no_device = i == 0;
        server.moves = OBJECT;
        assert_int_equal(ask_with(ptr, LEN, GET_WHOLE, i < 2 ? moved : http, NULL, &result), 0);
        assert_int_equal(result.is_staged, i == 0);
        assert_int_equal(fake.base == ptr, i != 0);
        assert_object_is_in(ptr);
        assert_all_ended();
        client_result_fini(&result);
        device_free(ptr);
    }
}

static void what_a_rail_takes_is_neither_copied_nor_read(void **state)
{
    static const char *const moved[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-rdma-reply: 200\r\n" CRC_OF_OTHERS
        "x-amz-rdma-bytes-transferred: 10\r\n\r\n",
        NULL};
    static const char *const put[] = {PUT_MOVED, NULL};
    struct client_result result = {0};
    void *device = device_memory();
    unsigned copies = gpu.count("dtoh") + gpu.count("htod");
    assert_int_equal(ask_with(device, LEN, GET_WHOLE, moved, NULL, &result), 0);
    assert_int_equal(result.transport, CLIENT_RDMA);
    assert_false(result.is_staged || result.is_verified);
    assert_ptr_equal(fake.base, device);
    assert_all_ended();
    client_result_fini(&result);
    assert_int_equal(ask_with(device, LEN, PUT, put, NULL, &result), 0);
    assert_false(result.is_staged || result.is_verified || result.has_crc64);
    assert_int_equal(server.checksums, 0);
    assert_int_equal(gpu.count("dtoh") + gpu.count("htod"), copies);
    client_result_fini(&result);
    device_free(device);
}

static void http_takes_a_copy_of_what_a_rail_had(void **state)
{
    static const char *const bodies[][4] = {{DECLINED, HTTP_OBJECT, NULL},
                                            {BODY_WITH_DECLINE, NULL},
                                            {HTTP_OBJECT, NULL},
                                            {FAILED, HTTP_OBJECT, NULL},
                                            {"HTTP/1.0 200 OK\r\n" DECLINED_WITH "\r\n0123",
                                             HTTP_OBJECT, NULL}};
    static const char *const put[] = {DECLINED, PUT_STORED, NULL};
    struct client_result result = {0};
    void *device = device_memory();
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        reset(NULL);
        memset(shadow_of(device), CANARY, LEN);
        assert_int_equal(ask_with(device, LEN, GET_WHOLE, bodies[i], NULL, &result), 0);
        assert_int_equal(result.transport, CLIENT_HTTP);
        assert_true(result.is_staged);
        assert_object_is_in(device);
        assert_all_ended();
        client_result_fini(&result);
    }
    assert_int_equal(ask_with(device, LEN, PUT, put, NULL, &result), 0);
    assert_int_equal(server.checksums, 1); /* of the second request */
    assert_true(result.is_verified && result.is_staged);
    assert_all_ended();
    client_result_fini(&result);
    device_free(device);
}

/* A region that is the device's has no windows in the copy. */
static void a_body_that_was_cut_leads_to_no_window_in_the_copy(void **state)
{
    static const char *const replies[] = {"HTTP/1.1 206 Part\r\n" RANGE DECLINED_WITH SHORT_CHUNKS,
                                          HTTP_RANGE, NULL};
    struct client_result result = {0};
    void *device = device_memory();
    fake.rails = 2;
    assert_int_equal(ask_with(device, LEN, GET_RANGE, replies, NULL, &result), 0);
    assert_int_equal(server.tokens, 1);
    assert_object_is_in(device);
    assert_all_ended();
    client_result_fini(&result);
    device_free(device);
}

static void nothing_is_delivered_after_an_error(void **state)
{
    static const char *const bodies[][3] = {
        {MISSING, NULL},
        {DECLINED, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n" CRC_OF_OTHERS "\r\n" OBJECT, NULL},
        {DECLINED, "HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\n0123", NULL}};
    void *device = device_memory();
    for (size_t i = 0; i < 2 * ARRAY_LEN(bodies); i++) {
        struct client_result result = {0};
        reset(NULL);
        fake.takes_no_device = i >= ARRAY_LEN(bodies);
        assert_int_not_equal(ask_with(device, LEN, GET_WHOLE, bodies[i % ARRAY_LEN(bodies)], NULL,
                                      &result),
                             0);
        assert_untouched(device);
        assert_all_ended();
        client_result_fini(&result);
    }
    device_free(device);
}

/* The copy is there as long as the window, and the device's memory has nothing to do with it. */
static void a_copy_that_may_still_be_written_is_kept(void **state)
{
    static const char *const replies[] = {FAILED, HTTP_OBJECT, NULL};
    struct client_result result = {0};
    void *device = device_memory();
    fake.takes_no_device = true;
    fake.withdraw_error = S3R_E_BUSY;
    fake.withdraw_errors_left = 1;
    fake.touches_base = true;
    assert_int_equal(ask_with(device, LEN, GET_WHOLE, replies, NULL, &result), S3R_E_RDMA_UNFENCED);
    assert_true(result.is_staged);
    assert_int_equal(server.requests, 1);
    assert_untouched(device);
    assert_all_ended(); /* by the client's end */
    assert_false(gpu_memory_type(fake.base) == GPU_DEVICE);
    client_result_fini(&result);
    device_free(device);
}

static int load_stand_in(void **state)
{
    gpu_load();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_success_settles_and_ends_its_window, reset),
        cmocka_unit_test_setup(the_window_is_withdrawn_before_the_memory_is_touched, reset),
        cmocka_unit_test_setup(a_failed_transfer_blames_its_rail_and_tries_another, reset),
        cmocka_unit_test_setup(another_rail_is_tried_once_only, reset),
        cmocka_unit_test_setup(a_decline_blames_nobody, reset),
        cmocka_unit_test_setup(a_final_error_is_one_request_and_blames_nobody, reset),
        cmocka_unit_test_setup(memory_that_may_still_be_written_is_not_used, reset),
        cmocka_unit_test_setup(a_range_whose_body_is_shorter_is_an_error, reset),
        cmocka_unit_test_setup(a_body_along_with_a_decline_that_may_be_cut_is_asked_for_again,
                               reset),
        cmocka_unit_test_setup(a_reply_whose_bytes_are_wrong_settles_nothing, reset),
        cmocka_unit_test_setup(a_full_memory_without_a_checksum_is_measured, reset),
        cmocka_unit_test_setup(a_request_that_timed_out_settles_nothing, reset),
        cmocka_unit_test_setup(a_put_by_http_that_left_an_empty_object_is_an_error, reset),
        cmocka_unit_test_setup(what_no_rail_takes_goes_through_a_copy, reset),
        cmocka_unit_test_setup(managed_memory_is_the_hosts_and_staged_only_for_a_rail, reset),
        cmocka_unit_test_setup(what_a_rail_takes_is_neither_copied_nor_read, reset),
        cmocka_unit_test_setup(http_takes_a_copy_of_what_a_rail_had, reset),
        cmocka_unit_test_setup(a_body_that_was_cut_leads_to_no_window_in_the_copy, reset),
        cmocka_unit_test_setup(nothing_is_delivered_after_an_error, reset),
        cmocka_unit_test_setup(a_copy_that_may_still_be_written_is_kept, reset),
    };
    return cmocka_run_group_tests(tests, load_stand_in, NULL);
}
