/* SPDX-License-Identifier: Apache-2.0 */
/* A handle that both a process and its forked child go on using. */
#include "cm.h"

#include "client/call.h"
#include "client/client.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS_MAX 16
#define DECLINED "HTTP/1.1 501 No\r\nContent-Length: 0\r\nx-amz-rdma-reply: 501\r\n\r\n"
#define OBJECT "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"

static struct {
    int listener;
    pthread_t thread;
    atomic_int connections;
    atomic_int requests[CONNECTIONS_MAX];
    char url[64];
} server;

static const char *reply_to(const char *head)
{
    if (strncmp(head, "HEAD", 4) == 0)
        return HEAD;
    return strstr(head, "x-amz-rdma-token:") != NULL ? DECLINED : OBJECT;
}

static void *serve_connection(void *arg)
{
    int fd = (int)(intptr_t)arg, number = atomic_fetch_add(&server.connections, 1);
    char head[8192];
    size_t len = 0;
    for (ssize_t n; (n = read(fd, head + len, sizeof(head) - 1 - len)) > 0;) {
        len += (size_t)n;
        head[len] = '\0';
        if (strstr(head, "\r\n\r\n") == NULL)
            continue;
        atomic_fetch_add(&server.requests[number], 1);
        const char *reply = reply_to(head);
        len = 0;
        if (write(fd, reply, strlen(reply)) < 0)
            break;
    }
    close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    pthread_t thread;
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0;) {
        assert_int_equal(pthread_create(&thread, NULL, serve_connection, (void *)(intptr_t)fd), 0);
        pthread_detach(thread);
    }
    return NULL;
}

static int start_server(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    memset(&server, 0, sizeof(server));
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(server.listener, 8), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&addr, &len), 0);
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%u", ntohs(addr.sin_port));
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
    return 0;
}

static struct client *client_of_server(void)
{
    const struct client_config config = {.endpoint = server.url,
                                         .access_key = "a",
                                         .secret_key = "s",
                                         .devices = "cma"};
    struct client *c = NULL;
    assert_int_equal(client_create(&config, NULL, &c), 0);
    return c;
}

static bool stat_works(struct client *c)
{
    struct client_result result = {0};
    int e = client_stat(c, "bucket", "key", NULL, &result);
    client_result_fini(&result);
    return e == 0;
}

/* What the token of a GET named. */
static bool get_uses_cma(struct client *c)
{
    char memory[8] = "";
    struct client_result result = {0};
    const struct client_memory m = {memory, sizeof(memory), NULL};
    int e = client_get(c, "bucket", "key", CLIENT_WHOLE, &m, NULL, NULL, &result);
    bool is_right = e == 0 && result.reason == CLIENT_REASON_DECLINED &&
                    strcmp(result.provider, "cma") == 0 && memcmp(memory, "abc", 3) == 0;
    client_result_fini(&result);
    return is_right;
}

static bool succeeds(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Else each of both reads replies to the other's requests. */
static void a_child_uses_no_connection_of_its_parent(void **state)
{
    struct client *c = client_of_server();
    assert_true(stat_works(c));
    pid_t child = fork();
    if (child == 0) {
        bool is_right = stat_works(c) && stat_works(c);
        client_destroy(c);
        _exit(!is_right);
    }
    assert_true(succeeds(child));
    assert_true(stat_works(c));
    assert_int_equal(atomic_load(&server.connections), 2);
    assert_int_equal(atomic_load(&server.requests[0]), 2);
    assert_int_equal(atomic_load(&server.requests[1]), 2);
    client_destroy(c);
}

static void a_child_opens_devices_of_its_own(void **state)
{
    struct client *c = client_of_server();
    assert_true(get_uses_cma(c));
    pid_t child = fork();
    if (child == 0) {
        bool is_right = get_uses_cma(c);
        client_destroy(c);
        _exit(!is_right);
    }
    assert_true(succeeds(child));
    assert_true(get_uses_cma(c));
    client_destroy(c);
}

static void a_lock_that_a_thread_had_at_the_fork_stops_no_child(void **state)
{
    struct client *c = client_of_server();
    assert_true(get_uses_cma(c));
    pthread_mutex_lock(&c->lock);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        bool is_right = get_uses_cma(c);
        client_destroy(c);
        _exit(!is_right);
    }
    pthread_mutex_unlock(&c->lock);
    assert_true(succeeds(child));
    client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_child_uses_no_connection_of_its_parent, start_server,
                                        stop_server),
        cmocka_unit_test_setup_teardown(a_child_opens_devices_of_its_own, start_server,
                                        stop_server),
        cmocka_unit_test_setup_teardown(a_lock_that_a_thread_had_at_the_fork_stops_no_child,
                                        start_server, stop_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
