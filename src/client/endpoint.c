/* SPDX-License-Identifier: Apache-2.0 */
#include "client/endpoint.h"

#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int bad_endpoint(struct diag *diag, const char *url, const char *why)
{
    char shown[200];
    log_escape(url, strlen(url), shown, sizeof(shown));
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                     "the endpoint '%s' is not http[s]://HOST[:PORT]: %s", shown, why);
}

static const char *after_scheme(const char *url, bool *ret_tls)
{
    if (strncasecmp(url, "http://", 7) == 0) {
        *ret_tls = false;
        return url + 7;
    }
    if (strncasecmp(url, "https://", 8) == 0) {
        *ret_tls = true;
        return url + 8;
    }
    return NULL;
}

static bool is_host(const char *s, size_t len, bool is_v6)
{
    const char *allowed = is_v6 ? "0123456789abcdefABCDEF:."
                                : "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._";
    return len > 0 && len < ENDPOINT_HOST_MAX && strspn(s, allowed) >= len;
}

int endpoint_parse(const char *url, struct diag *diag, struct endpoint *ret_endpoint)
{
    struct endpoint ep = {0};
    const char *host = after_scheme(url, &ep.is_tls);
    if (host == NULL)
        return bad_endpoint(diag, url, "it must begin with http:// or https://");
    size_t len = strlen(host);
    if (len > 0 && host[len - 1] == '/')
        len--;
    bool is_v6 = len > 0 && host[0] == '[';
    const char *end = is_v6 ? memchr(host, ']', len) : memchr(host, ':', len);
    if (is_v6 && end == NULL)
        return bad_endpoint(diag, url, "the bracket is not closed");
    const char *name = is_v6 ? host + 1 : host;
    size_t name_len = end != NULL ? (size_t)(end - name) : len;
    if (!is_host(name, name_len, is_v6))
        return bad_endpoint(diag, url, "there is no valid host name or address in it");
    memcpy(ep.host, name, name_len);
    const char *rest = is_v6 ? end + 1 : host + name_len;
    size_t rest_len = len - (size_t)(rest - host);
    uint64_t port = ep.is_tls ? 443 : 80;
    if (rest_len > 0 &&
        (rest[0] != ':' || !num_parse_dec(rest + 1, rest_len - 1, 65535, &port) || port == 0))
        return bad_endpoint(diag, url, "after the host only a port of 1 to 65535 may follow");
    ep.port = (uint16_t)port;
    const char *fmt = is_v6 ? "[%s]" : "%s";
    char printed[ENDPOINT_HOST_MAX + 2];
    snprintf(printed, sizeof(printed), fmt, ep.host);
    if (port == (ep.is_tls ? 443 : 80))
        snprintf(ep.authority, sizeof(ep.authority), "%s", printed);
    else
        snprintf(ep.authority, sizeof(ep.authority), "%s:%u", printed, (unsigned)port);
    snprintf(ep.url, sizeof(ep.url), "%s://%s:%u", ep.is_tls ? "https" : "http", printed,
             (unsigned)port);
    *ret_endpoint = ep;
    return 0;
}

/* 0 or an errno. */
static int connect_within(int fd, const struct addrinfo *ai, int64_t timeout_ms)
{
    if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int n = poll(&p, 1, (int)timeout_ms);
    if (n <= 0)
        return n == 0 ? ETIMEDOUT : errno;
    int error = 0;
    socklen_t len = sizeof(error);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : errno;
}

static int try_address(const struct addrinfo *ai, int64_t timeout_ms,
                       struct sockaddr_storage *ret_addr)
{
    CLEANUP(closep)
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
    if (fd < 0)
        return errno;
    int error = connect_within(fd, ai, timeout_ms);
    if (error != 0)
        return error;
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        return errno;
    *ret_addr = addr;
    return 0;
}

int endpoint_local_address(const struct endpoint *ep, int64_t timeout_ms, struct diag *diag,
                           struct sockaddr_storage *ret_addr)
{
    char port[8];
    snprintf(port, sizeof(port), "%u", ep->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int e = getaddrinfo(ep->host, port, &hints, &list);
    if (e != 0)
        return diag_fail(diag, S3R_E_HTTP, "cannot resolve %s: %s", ep->host, gai_strerror(e));
    int error = EHOSTUNREACH;
    for (const struct addrinfo *ai = list; ai != NULL && error != 0; ai = ai->ai_next)
        error = try_address(ai, timeout_ms, ret_addr);
    freeaddrinfo(list);
    if (error == 0)
        return 0;
    char text[100];
    return diag_fail(diag, S3R_E_HTTP, "cannot connect to %s: %s", ep->authority,
                     strerror_r(error, text, sizeof(text)));
}
