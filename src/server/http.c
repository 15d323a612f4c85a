/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "server/http_response.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

/* The library's memory for one connection: heads in and out, and what arrives of a body at once.
 * It is cleared for each request, so more makes small requests slower and large bodies faster. */
#define CONNECTION_MEMORY (96 * KIB)

/* A socket from accept to close. `since_ns` is when its current head began to be waited for. */
struct connection {
    LIST_ENTRY(connection) link; /* lock http.lock, as all below */
    int fd;
    bool is_busy;
    int64_t since_ns;
};

struct http {
    struct http_config config; /* fixed after start */
    struct MHD_Daemon *daemon;
    int stand_in; /* see http_quiesce() */
    pthread_t sweeper;
    atomic_size_t active;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* lock `lock` */
    LIST_HEAD(, connection) connections;
    bool is_stopping;
};

enum phase { PHASE_NEW, PHASE_HEAD, PHASE_BODY, PHASE_REPLIED };

struct http_exchange {
    struct http *http;
    struct MHD_Connection *mhd;
    struct connection *connection;
    int fd;
    enum phase phase;
    char *target;
    char method[24];
    struct headers headers;
    struct sockaddr_storage peer;
    const char *next_line; /* in the library's buffer, while the head is read */
    bool has_length, is_chunked, is_active;
    uint64_t length;
    int framing_error;
    struct diag framing_diag;
    void *req;
};

/* ---- the head ---- */

static void head_is_bad(struct http_exchange *ex, int code, const char *what)
{
    if (!ex->framing_error)
        ex->framing_error = diag_fail(&ex->framing_diag, code, "%s", what);
}

/* The library ends each line in place: CRLF leaves two NULs behind the text, a bare LF only one. */
static bool ends_in_crlf(const char *text, size_t len)
{
    return text[len] == '\0' && text[len + 1] == '\0';
}

/* A value of the same line stands right behind `name:`, with blanks between; one that was folded
 * over several lines was put together elsewhere. */
static bool is_same_line(const char *name, size_t name_len, const char *value)
{
    uintptr_t from = (uintptr_t)name + name_len + 1, to = (uintptr_t)value;
    if (to < from || to - from > LIMIT_HEADERS_LEN_MAX)
        return false;
    for (const char *p = name + name_len + 1; p < value; p++)
        if (*p != ' ' && *p != '\t' && *p != '\0')
            return false;
    return true;
}

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind UNUSED, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    struct http_exchange *ex = cls;
    /* what does not stand right behind the line before had a part of that hidden by a NUL */
    if (!value || name != ex->next_line || !is_same_line(name, name_len, value) ||
        !ends_in_crlf(value, value_len)) {
        head_is_bad(ex, S3R_E_BAD_FRAMING,
                    "a header line is folded, has a NUL or does not end in CRLF");
        return MHD_NO;
    }
    ex->next_line = value + value_len + 2;
    int rc = headers_add_n(&ex->headers, name, name_len, value, value_len);
    if (rc) {
        head_is_bad(ex, rc == S3R_E_INVALID_REQUEST ? S3R_E_BAD_FRAMING : rc,
                    rc == S3R_E_HEADERS_TOO_LARGE
                        ? "at most 100 headers with 16 KiB in all are allowed"
                        : "a header's name or value has a character that is not allowed");
        return MHD_NO;
    }
    return MHD_YES;
}

/* The head is as long as its text with CRLF after each line and one more CRLF. `method` is its
 * first byte. This catches a bare LF behind the last header, where no other text follows to show
 * it. */
static void check_end(struct http_exchange *ex, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(ex->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!info || ex->framing_error)
        return;
    if ((uintptr_t)ex->next_line + 2 - (uintptr_t)method != info->header_size)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "the head does not end in CRLF CRLF");
}

static void check_target(struct http_exchange *ex)
{
    size_t len = strlen(ex->target);
    if (len > LIMIT_TARGET_LEN_MAX)
        head_is_bad(ex, S3R_E_INVALID_URI, "the path and query have at most 8 KiB");
    if (ex->target[0] != '/')
        head_is_bad(ex, S3R_E_INVALID_URI, "the request target starts with /");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)ex->target[i] <= ' ' || ex->target[i] == 0x7f)
            head_is_bad(ex, S3R_E_BAD_FRAMING,
                        "the request target has a blank or control character");
}

static void check_length(struct http_exchange *ex)
{
    const char *length = headers_get(&ex->headers, "content-length");
    const char *coding = headers_get(&ex->headers, "transfer-encoding");
    if (headers_count(&ex->headers, "content-length") > 1)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "more than one Content-Length");
    if (headers_count(&ex->headers, "transfer-encoding") > 1)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "more than one Transfer-Encoding");
    if (length && coding)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "Content-Length and Transfer-Encoding together");
    if (coding && strcasecmp(coding, "chunked") != 0)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "the only Transfer-Encoding understood is chunked");
    if (length && !num_parse_dec(length, strlen(length), INT64_MAX, &ex->length))
        head_is_bad(ex, S3R_E_BAD_FRAMING, "Content-Length is not a number");
    ex->has_length = length != NULL;
    ex->is_chunked = coding != NULL;
}

static void read_head(struct http_exchange *ex, const char *method, const char *version)
{
    if (strlen(method) >= sizeof ex->method)
        head_is_bad(ex, S3R_E_METHOD_NOT_ALLOWED, "unknown method");
    snprintf(ex->method, sizeof ex->method, "%s", method);
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "the HTTP version is not 1.1 or 1.0");
    else if (!ends_in_crlf(version, 8))
        head_is_bad(ex, S3R_E_BAD_FRAMING, "the request line does not end in CRLF");
    if (version != method + strlen(method) + 1 + strlen(ex->target) + 1)
        head_is_bad(ex, S3R_E_BAD_FRAMING,
                    "the request line has a NUL or more than one blank between its parts");
    ex->next_line = version + 8 + 2;
    MHD_get_connection_values_n(ex->mhd, MHD_HEADER_KIND, take_header, ex);
    check_end(ex, method);
    check_target(ex);
    check_length(ex);
    if (headers_count(&ex->headers, "host") != 1 && strcmp(version, "HTTP/1.1") == 0)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "exactly one Host header is required");
    if (ex->is_chunked && strcmp(version, "HTTP/1.0") == 0)
        head_is_bad(ex, S3R_E_BAD_FRAMING, "Transfer-Encoding needs HTTP/1.1");
}

static void copy_peer(struct http_exchange *ex)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(ex->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || !info->client_addr)
        return;
    const struct sockaddr *addr = info->client_addr;
    memcpy(&ex->peer, addr,
           addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

/* ---- the library's callbacks ---- */

/* The first thing of each request; what it returns comes back as *con_cls. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct http *h = cls;
    struct http_exchange *ex = calloc(1, sizeof *ex);
    if (!ex)
        return NULL;
    ex->http = h;
    ex->mhd = mhd;
    ex->target = strdup(target);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    ex->fd = info ? info->connect_fd : -1;
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    ex->connection = info ? info->socket_context : NULL;
    return ex;
}

static void set_busy(struct http *h, struct connection *c, bool is_busy)
{
    if (!c)
        return;
    pthread_mutex_lock(&h->lock);
    c->is_busy = is_busy;
    c->since_ns = clock_mono_ns();
    pthread_mutex_unlock(&h->lock);
}

static enum MHD_Result result_of(enum http_next next)
{
    return next == HTTP_CLOSE ? MHD_NO : MHD_YES;
}

static enum MHD_Result first_call(struct http_exchange *ex, const char *method, const char *version)
{
    if (!ex->target)
        return MHD_NO;
    ex->is_active = true;
    atomic_fetch_add(&ex->http->active, 1);
    set_busy(ex->http, ex->connection, true);
    read_head(ex, method, version);
    copy_peer(ex);
    ex->req = ex->http->config.app.begin(ex->http->config.app_arg, ex);
    ex->phase = PHASE_HEAD;
    return ex->req ? MHD_YES : MHD_NO;
}

static enum http_next judge_head(struct http_exchange *ex)
{
    enum http_next next = ex->http->config.app.head(ex->req);
    if (next == HTTP_GO_ON && ex->phase == PHASE_HEAD)
        ex->phase = PHASE_BODY;
    return next;
}

/* The library's calls: one when the head is there, again after each wait; one for each piece of the
 * body; one without bytes at the end. A reply in the first of these closes the connection, which is
 * right when a body is refused; so a request without a body waits for the last. While a head with a
 * body is being judged the calls come without bytes too, and that is not the body's end: only a
 * call after app.head() has let the body come can be one. */
static enum MHD_Result on_request(void *cls UNUSED, struct MHD_Connection *mhd UNUSED,
                                  const char *url UNUSED, const char *method, const char *version,
                                  const char *bytes, size_t *len, void **con_cls)
{
    struct http_exchange *ex = *con_cls;
    if (!ex)
        return MHD_NO;
    if (ex->phase == PHASE_NEW) {
        enum MHD_Result result = first_call(ex, method, version);
        if (result != MHD_YES || !http_has_body(ex))
            return result;
    }
    if (ex->phase == PHASE_HEAD) {
        enum http_next next = judge_head(ex);
        if (next != HTTP_GO_ON || ex->phase == PHASE_REPLIED || http_has_body(ex))
            return result_of(next);
    }
    if (ex->phase == PHASE_REPLIED) {
        *len = 0;
        return MHD_YES;
    }
    const struct http_app *app = &ex->http->config.app;
    return result_of(*len ? app->body(ex->req, bytes, len) : app->end(ex->req));
}

static void on_completed(void *cls, struct MHD_Connection *mhd UNUSED, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    struct http *h = cls;
    struct http_exchange *ex = *con_cls;
    if (!ex)
        return;
    *con_cls = NULL;
    set_busy(h, ex->connection, false);
    if (ex->req)
        h->config.app.done(ex->req, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (ex->is_active)
        atomic_fetch_sub(&h->active, 1);
    headers_fini(&ex->headers);
    free(ex->target);
    free(ex);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *h = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct connection *c = calloc(1, sizeof *c);
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!c || !info) {
            free(c);
            return;
        }
        c->fd = info->connect_fd;
        c->since_ns = clock_mono_ns();
        pthread_mutex_lock(&h->lock);
        LIST_INSERT_HEAD(&h->connections, c, link);
        pthread_mutex_unlock(&h->lock);
        *socket_context = c;
    } else if (*socket_context) {
        struct connection *c = *socket_context;
        *socket_context = NULL;
        pthread_mutex_lock(&h->lock);
        LIST_REMOVE(c, link);
        pthread_mutex_unlock(&h->lock);
        free(c);
    }
}

static size_t keep_escapes(void *cls UNUSED, struct MHD_Connection *mhd UNUSED, char *s)
{
    return strlen(s);
}

static void on_library_message(void *cls UNUSED, const char *fmt, va_list args)
{
    char line[512], escaped[1024];
    int len = vsnprintf(line, sizeof line, fmt, args);
    if (len > 0)
        log_debug("http library: %s",
                  log_escape(line, strnlen(line, sizeof line), escaped, sizeof escaped));
}

/* ---- slow heads, and peers that are gone ---- */

/* A byte now and then keeps a connection active for the library's own time-out, so the time from
 * one request's end to the next one's whole head has a bound of its own. */
static bool is_too_slow(const struct http *h, const struct connection *c, int64_t now_ns)
{
    return !c->is_busy && now_ns - c->since_ns > h->config.head_timeout_s * NS_PER_S;
}

static bool has_ended(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

/* An end that comes together with the last bytes is overlooked by the library, which then waits for
 * another event. Shutting the direction that is shut already makes one, and what is being sent goes
 * on. */
static void sweep(struct http *h)
{
    struct connection *c;
    int64_t now_ns = clock_mono_ns();
    LIST_FOREACH (c, &h->connections, link) {
        if (is_too_slow(h, c, now_ns))
            shutdown(c->fd, SHUT_RDWR);
        else if (now_ns - c->since_ns > NS_PER_S && has_ended(c->fd))
            shutdown(c->fd, SHUT_RD);
    }
}

static void *sweeper_main(void *arg)
{
    struct http *h = arg;
    pthread_mutex_lock(&h->lock);
    while (!h->is_stopping) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&h->wake, &h->lock, &until);
        sweep(h);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- start and stop ---- */

static struct MHD_Daemon *start_daemon(struct http *h)
{
    const struct http_config *c = &h->config;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)c->tls_cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)c->tls_key},
        {MHD_OPTION_END, 0, NULL},
    };
    if (c->tls_cert)
        flags |= MHD_USE_TLS;
    else
        tls[0] = tls[2];
    /* a pool of one thread is not a pool for the library */
    unsigned pool = c->threads > 1 ? c->threads : 0;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET,
                            c->listen_fd, MHD_OPTION_EXTERNAL_LOGGER, on_library_message, NULL,
                            MHD_OPTION_THREAD_POOL_SIZE, pool, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
                            c->connections_max, MHD_OPTION_CONNECTION_TIMEOUT, c->idle_timeout_s,
                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_target,
                            h, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_ARRAY, tls,
                            MHD_OPTION_END);
}

int http_open(const struct http_config *config, struct http **ret_http)
{
    struct http *h = calloc(1, sizeof *h);
    pthread_condattr_t attr;
    if (!h)
        return S3R_E_NOMEM;
    h->config = *config;
    h->stand_in = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (h->stand_in < 0) {
        free(h);
        return S3R_E_INTERNAL;
    }
    LIST_INIT(&h->connections);
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->wake, &attr);
    pthread_condattr_destroy(&attr);
    *ret_http = h;
    return 0;
}

static void stop_sweeper(struct http *h)
{
    pthread_mutex_lock(&h->lock);
    h->is_stopping = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->sweeper, NULL);
}

int http_start(struct http *h, struct diag *diag)
{
    if (pthread_create(&h->sweeper, NULL, sweeper_main, h) != 0)
        return S3R_E_NOMEM;
    h->daemon = start_daemon(h);
    if (h->daemon)
        return 0;
    stop_sweeper(h);
    return diag_fail(diag, S3R_E_INTERNAL, "the HTTP server cannot start%s",
                     h->config.tls_cert ? "; are certificate and key a pair in PEM form?" : "");
}

/* MHD_quiesce_daemon() aborts the process now and then: it and an event thread both take the
 * listener out of that thread's epoll set, and the second of them does not find it any more. So
 * another socket gets the listener's number: with the last number gone the kernel closes the
 * listener and takes it out of every set. The library sees nothing, and closes the other one. */
void http_quiesce(struct http *h)
{
    dup3(h->stand_in, h->config.listen_fd, O_CLOEXEC);
}

void http_stop(struct http *h)
{
    if (!h)
        return;
    if (h->daemon) {
        MHD_stop_daemon(h->daemon);
        stop_sweeper(h);
    }
    close(h->stand_in);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

size_t http_active(struct http *h)
{
    return atomic_load(&h->active);
}

/* ---- one exchange ---- */

const char *http_method(const struct http_exchange *ex)
{
    return ex->method;
}

const char *http_target(const struct http_exchange *ex)
{
    return ex->target;
}

const struct headers *http_headers(const struct http_exchange *ex)
{
    return &ex->headers;
}

struct headers *http_headers_mutable(struct http_exchange *ex)
{
    return &ex->headers;
}

const struct sockaddr *http_peer(const struct http_exchange *ex)
{
    return (const struct sockaddr *)&ex->peer;
}

bool http_is_tls(const struct http_exchange *ex)
{
    return ex->http->config.tls_cert != NULL;
}

bool http_content_length(const struct http_exchange *ex, uint64_t *ret_len)
{
    if (ex->has_length)
        *ret_len = ex->length;
    return ex->has_length;
}

bool http_is_chunked(const struct http_exchange *ex)
{
    return ex->is_chunked;
}

bool http_has_body(const struct http_exchange *ex)
{
    return ex->is_chunked || (ex->has_length && ex->length > 0);
}

int http_framing_error(const struct http_exchange *ex, struct diag *diag)
{
    if (ex->framing_error)
        return diag_fail(diag, ex->framing_error, "%s", ex->framing_diag.text);
    return 0;
}

void http_suspend(struct http_exchange *ex)
{
    MHD_suspend_connection(ex->mhd);
}

void http_resume(struct http_exchange *ex)
{
    MHD_resume_connection(ex->mhd);
}

bool http_peer_is_gone(struct http_exchange *ex)
{
    struct pollfd p = {.fd = ex->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

int http_reply(struct http_exchange *ex, struct http_reply *reply)
{
    bool is_read = strcmp(ex->method, "HEAD") != 0 && reply->status != MHD_HTTP_NOT_MODIFIED;
    struct MHD_Response *response = http_response_create(reply, is_read);
    if (!response)
        return S3R_E_NOMEM;
    bool is_good = true;
    for (size_t i = 0; reply->headers && i < reply->headers->count; i++) {
        const struct header *row = &reply->headers->rows[i];
        /* the library knows no empty value; blanks around one do not count */
        const char *value = *row->value ? row->value : " ";
        is_good = is_good && MHD_add_response_header(response, row->name, value) == MHD_YES;
    }
    if (reply->is_close)
        is_good = is_good && MHD_add_response_header(response, "connection", "close") == MHD_YES;
    is_good = is_good && MHD_queue_response(ex->mhd, reply->status, response) == MHD_YES;
    MHD_destroy_response(response);
    if (!is_good)
        return S3R_E_INTERNAL;
    ex->phase = PHASE_REPLIED;
    return 0;
}
