/* SPDX-License-Identifier: Apache-2.0 */
#include "tiny_server.h"

#include "base/crc64.h"
#include "base/hex.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 512

static struct {
    int listener;
    pthread_t thread, connections[CONNECTIONS_MAX];
    atomic_int fds[CONNECTIONS_MAX];
    int count;
    atomic_int requests, open, most_open;
    char authority[64], crc[16];
} server;

static void error_reply(int fd, int status, const char *code)
{
    char body[256], head[512];
    int n = snprintf(body, sizeof(body),
                     "<Error><Code>%s</Code><Message>no such thing</Message></Error>", code);
    int m =
        snprintf(head, sizeof(head),
                 "HTTP/1.1 %d No\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s",
                 status, n, body);
    (void)!write(fd, head, (size_t)m);
}

static void listing(int fd)
{
    static const char body[] =
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>more"
        "</NextContinuationToken><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>"
        "<Contents><Key>p.</Key><Size>1</Size><LastModified>then</LastModified></Contents>"
        "<Contents><Key>pa</Key><Size>7</Size><LastModified>then</LastModified></Contents>"
        "</ListBucketResult>";
    char head[1024];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                     sizeof(body) - 1, body);
    (void)!write(fd, head, (size_t)n);
}

static size_t number_at(const char *text)
{
    uint64_t n = 0;
    return num_parse_dec(text, strspn(text, "0123456789"), SIZE_MAX, &n) ? n : 0;
}

static void object(int fd, const char *head)
{
    char reply[1024], range[100] = "";
    size_t off = 0, len = TINY_LEN;
    const char *asked = strcasestr(head, "\nrange: bytes=");
    bool is_head = strncmp(head, "HEAD", 4) == 0;
    if (asked != NULL) {
        size_t last = number_at(strchr(asked, '-') + 1);
        off = number_at(asked + 14);
        len = (last < TINY_LEN ? last + 1 : TINY_LEN) - off;
        snprintf(range, sizeof(range), "Content-Range: bytes %zu-%zu/%d\r\n", off, off + len - 1,
                 TINY_LEN);
    }
    int n = snprintf(reply, sizeof(reply),
                     "HTTP/1.1 %d OK\r\nContent-Length: %zu\r\n%sx-amz-version-id: v7\r\n"
                     "ETag: \"0123456789abcdef0123456789abcdef\"\r\n"
                     "x-amz-checksum-crc64nvme: %s\r\n\r\n%.*s",
                     asked != NULL ? 206 : 200, len, range, server.crc, is_head ? 0 : (int)len,
                     TINY_OBJECT + off);
    (void)!write(fd, reply, (size_t)n);
}

static void stored(int fd, const char *head)
{
    char reply[512], meta[64] = "none";
    const char *given = strcasestr(head, "\nx-amz-meta-colour: ");
    if (given != NULL)
        snprintf(meta, sizeof(meta), "%.*s", (int)strcspn(given + 20, "\r"), given + 20);
    int n = snprintf(reply, sizeof(reply),
                     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"00112233\"\r\n"
                     "x-echo-meta: %s\r\n\r\n",
                     meta);
    (void)!write(fd, reply, (size_t)n);
}

/* False: no answer, until the peer goes. */
static bool answer(int fd, const char *head)
{
    char line[512];
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(head, "\r"), head);
    atomic_fetch_add(&server.requests, 1);
    if (strstr(line, "silent") != NULL)
        return false;
    bool has_token = strcasestr(head, "\nx-amz-rdma-token:") != NULL;
    if (strstr(line, "along") != NULL && has_token)
        (void)!dprintf(fd,
                       "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nx-amz-rdma-reply: 501\r\n"
                       "x-amz-checksum-crc64nvme: %s\r\n\r\n%s",
                       TINY_LEN, server.crc, TINY_OBJECT);
    else if (strstr(line, "missing") != NULL)
        error_reply(fd, 404, "NoSuchKey");
    else if (strstr(line, "strange") != NULL)
        error_reply(fd, 418, "TeapotShort");
    else if (strstr(line, "busy") != NULL)
        error_reply(fd, 503, "SlowDown");
    else if (has_token)
        (void)!dprintf(fd, "HTTP/1.1 501 No\r\nContent-Length: 0\r\nx-amz-rdma-reply: 501\r\n\r\n");
    else if (strstr(line, "list-type=2") != NULL)
        listing(fd);
    else if (strncmp(line, "PUT", 3) == 0)
        stored(fd, head);
    else
        object(fd, head);
    return true;
}

/* Takes the body off the connection: `have` bytes of it came with the head. */
static bool skip_body(int fd, const char *head, size_t have)
{
    const char *given = strcasestr(head, "\ncontent-length: ");
    size_t left = given != NULL ? number_at(given + 17) : 0;
    static _Thread_local char sink[65536];
    for (left = left > have ? left - have : 0; left > 0;) {
        ssize_t n = read(fd, sink, left < sizeof(sink) ? left : sizeof(sink));
        if (n <= 0)
            return false;
        left -= (size_t)n;
    }
    return true;
}

static void converse(int fd)
{
    char head[16384];
    size_t len = 0;
    bool is_last = false;
    for (ssize_t n; (n = read(fd, head + len, sizeof(head) - 1 - len)) > 0;) {
        len += (size_t)n;
        head[len] = '\0';
        char *end = strstr(head, "\r\n\r\n");
        if (end == NULL)
            continue;
        size_t have = len - (size_t)(end + 4 - head);
        len = 0;
        if (!skip_body(fd, head, have))
            return;
        if (is_last) {
            atomic_fetch_add(&server.requests, 1);
            return;
        }
        is_last = strstr(head, "/last ") != NULL;
        if (!answer(fd, head))
            while (read(fd, head, sizeof(head)) > 0)
                ;
    }
}

static void *serve_connection(void *arg)
{
    size_t slot = (size_t)(intptr_t)arg;
    int fd = server.fds[slot], one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    int open = atomic_fetch_add(&server.open, 1) + 1, most = server.most_open;
    while (open > most && !atomic_compare_exchange_weak(&server.most_open, &most, open))
        ;
    converse(fd);
    atomic_fetch_sub(&server.open, 1);
    shutdown(fd, SHUT_RDWR);
    return NULL;
}

static void *serve(void *arg)
{
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0;) {
        if (server.count == CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        server.fds[server.count] = fd;
        if (pthread_create(&server.connections[server.count], NULL, serve_connection,
                           (void *)(intptr_t)server.count) != 0)
            abort();
        server.count++;
    }
    return NULL;
}

static void print_crc(void)
{
    unsigned char bytes[8];
    uint64_t crc = crc64_update(0, TINY_OBJECT, TINY_LEN);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(crc >> (56 - 8 * i));
    base64_encode(bytes, sizeof(bytes), server.crc);
}

int tiny_server_start(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    memset(&server, 0, sizeof(server));
    print_crc();
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.listener < 0 || bind(server.listener, (struct sockaddr *)&addr, len) != 0 ||
        listen(server.listener, 256) != 0 ||
        getsockname(server.listener, (struct sockaddr *)&addr, &len) != 0)
        return -1;
    snprintf(server.authority, sizeof(server.authority), "127.0.0.1:%u", ntohs(addr.sin_port));
    return pthread_create(&server.thread, NULL, serve, NULL);
}

void tiny_server_stop(void)
{
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    for (int i = 0; i < server.count; i++)
        shutdown(server.fds[i], SHUT_RDWR);
    for (int i = 0; i < server.count; i++) {
        pthread_join(server.connections[i], NULL);
        close(server.fds[i]);
    }
    close(server.listener);
}

const char *tiny_server_authority(void)
{
    return server.authority;
}

int tiny_server_requests(void)
{
    return server.requests;
}

int tiny_server_open(void)
{
    return server.open;
}

int tiny_server_most_open(void)
{
    return server.most_open;
}

const char *tiny_server_crc(void)
{
    return server.crc;
}
