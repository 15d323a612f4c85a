/* SPDX-License-Identifier: Apache-2.0 */
#include "client/http_wire.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define RECEIVE_SIZE (512L * 1024)
#define SEND_SIZE (2L * 1024 * 1024)

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_reply_fini(struct http_reply *r)
{
    headers_fini(&r->headers);
    *r = (struct http_reply){0};
}

void wire_destroy(struct wire *w)
{
    curl_easy_cleanup(w->curl);
    free(w);
}

int http_create(const struct http_config *config, struct diag *diag, struct http **ret_http)
{
    pthread_once(&curl_once, start_curl);
    struct http *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return S3R_E_NOMEM;
    h->config = *config;
    pthread_mutex_init(&h->lock, NULL);
    h->config.ca_file = config->ca_file != NULL ? strdup(config->ca_file) : NULL;
    h->config.proxy = config->proxy != NULL ? strdup(config->proxy) : NULL;
    bool is_copied = (config->ca_file == NULL) == (h->config.ca_file == NULL) &&
                     (config->proxy == NULL) == (h->config.proxy == NULL);
    if (!is_copied || (config->ca_file != NULL && access(config->ca_file, R_OK) != 0)) {
        int e = is_copied ? diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                                      "cannot read the file of CA certificates %s", config->ca_file)
                          : S3R_E_NOMEM;
        http_destroy(h);
        return e;
    }
    *ret_http = h;
    return 0;
}

void http_destroy(struct http *h)
{
    if (h == NULL)
        return;
    while (h->idle != NULL) {
        struct wire *w = h->idle;
        h->idle = w->next;
        wire_destroy(w);
    }
    pthread_mutex_destroy(&h->lock);
    free((char *)h->config.ca_file);
    free((char *)h->config.proxy);
    free(h);
}

/* Only the sockets are closed: libcurl would say goodbye on those with TLS, in the parent's name.
 */
void http_forget_connections(struct http *h)
{
    pthread_mutex_init(&h->lock, NULL);
    for (struct wire *w = h->idle; w != NULL; w = w->next) {
        curl_socket_t fd = CURL_SOCKET_BAD;
        if (curl_easy_getinfo(w->curl, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK &&
            fd != CURL_SOCKET_BAD)
            close(fd);
    }
    h->idle = NULL;
    h->idle_count = 0;
}

/* ---- the pool ---- */

static struct wire *wire_take_idle(struct http *h, const char *bind_ip)
{
    struct wire *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (struct wire **p = &h->idle; *p != NULL && found == NULL; p = &(*p)->next) {
        if (strcmp((*p)->bind_ip, bind_ip) != 0)
            continue;
        found = *p;
        *p = found->next;
        h->idle_count--;
        break;
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

static struct wire *wire_take(struct http *h, const char *bind_ip)
{
    struct wire *w = wire_take_idle(h, bind_ip);
    if (w != NULL)
        return w;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return NULL;
    w->curl = curl_easy_init();
    if (w->curl == NULL) {
        free(w);
        return NULL;
    }
    snprintf(w->bind_ip, sizeof(w->bind_ip), "%s", bind_ip);
    return w;
}

static void wire_give(struct http *h, struct wire *w)
{
    pthread_mutex_lock(&h->lock);
    bool is_kept = h->idle_count < IDLE_MAX;
    if (is_kept) {
        w->next = h->idle;
        h->idle = w;
        h->idle_count++;
    }
    pthread_mutex_unlock(&h->lock);
    if (!is_kept)
        wire_destroy(w);
}

/* Has the handle a connection on which the peer has said nothing, a close included? */
static bool wire_is_open(const struct wire *w)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (curl_easy_getinfo(w->curl, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
        return false;
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* ---- what libcurl calls ---- */

static int stop(struct exchange *x, int error)
{
    if (x->error == 0)
        x->error = error;
    return error;
}

static int take_status(struct http_reply *r, const char *line, size_t len)
{
    headers_fini(&r->headers);
    r->has_length = r->is_chunked = false;
    const char *blank = memchr(line, ' ', len);
    uint64_t status = 0;
    if (blank == NULL || len - (size_t)(blank - line) < 4 ||
        !num_parse_dec(blank + 1, 3, 999, &status))
        return S3R_E_BAD_REPLY;
    r->status = (int)status;
    r->headers.is_reply = true;
    return 0;
}

static int take_header(struct exchange *x, const char *line, size_t len)
{
    struct http_reply *r = x->reply;
    if (x->is_head_done)
        return 0; /* a trailer: nothing we ask for comes in one */
    if (len >= 5 && strncmp(line, "HTTP/", 5) == 0)
        return take_status(r, line, len); /* again after each interim reply */
    if (len == 0)
        x->is_head_done = r->status >= 200;
    const char *colon = memchr(line, ':', len);
    if (colon == NULL)
        return len == 0 ? 0 : S3R_E_BAD_REPLY;
    size_t name_len = (size_t)(colon - line);
    const char *value = colon + 1;
    size_t value_len = len - name_len - 1;
    int e = headers_add_n(&r->headers, line, name_len, value, value_len);
    if (e != 0)
        return e;
    const struct header *row = &r->headers.rows[r->headers.count - 1];
    if (strcmp(row->name, "content-length") == 0)
        r->has_length = num_parse_dec(row->value, strlen(row->value), INT64_MAX, &r->content_len);
    if (strcmp(row->name, "transfer-encoding") == 0)
        r->is_chunked = strcasecmp(row->value, "chunked") == 0;
    return 0;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    size_t len = size * count, text_len = len;
    while (text_len > 0 && (bytes[text_len - 1] == '\n' || bytes[text_len - 1] == '\r'))
        text_len--;
    return take_header(x, bytes, text_len) == 0 || stop(x, S3R_E_BAD_REPLY) == 0 ? len : 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    size_t len = size * count;
    x->reply->body_len += len;
    int e = x->request->on_body != NULL
                ? x->request->on_body(x->request->on_body_arg, x->reply, bytes, len)
                : 0;
    if (e == HTTP_BODY_PAUSE) {
        x->reply->body_len -= len;
        x->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    return e == 0 || stop(x, e) == 0 ? len : 0;
}

static size_t on_upload(char *out, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    uint64_t left = x->request->body_len - x->body_off;
    size_t n = (size_t)min_u64(left, (uint64_t)size * count);
    if (n > 0)
        memcpy(out, (const char *)x->request->body + x->body_off, n);
    x->body_off += n;
    return n;
}

/* Asked for when libcurl sends a body again on a new connection: never with a token. */
static int on_seek(void *arg, curl_off_t off, int origin)
{
    struct exchange *x = arg;
    if (origin != SEEK_SET || off < 0 || (uint64_t)off > x->request->body_len)
        return CURL_SEEKFUNC_FAIL;
    x->body_off = (uint64_t)off;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    struct exchange *x = arg;
    const struct http_request *q = x->request;
    if (q->on_progress != NULL)
        q->on_progress(q->progress_arg, (uint64_t)(q->body_len > 0 ? up : down));
    if (q->is_cancelled == NULL || !q->is_cancelled(q->cancel_arg))
        return 0;
    return stop(x, S3R_E_CANCELLED);
}

/* libcurl sends a request again by itself when a kept connection turns out to be closed. For that
 * it needs a new socket, which it does not get while the request may have been sent already. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct exchange *x = arg;
    if (x->is_socket_refused) {
        x->was_socket_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* The same where it is not known beforehand which connection is taken: asked before each sending.
 */
static int on_sending(void *arg, char *to_ip, char *from_ip, int to_port, int from_port)
{
    struct exchange *x = arg;
    if (x->sendings++ == 0 || !x->request->is_once)
        return CURL_PREREQFUNC_OK;
    x->was_socket_refused = true;
    return CURL_PREREQFUNC_ABORT;
}

/* ---- one request ---- */

static int add_line(struct curl_slist **list, const char *name, const char *value)
{
    CLEANUP(freep) char *line = NULL;
    /* libcurl's own notation for a header with an empty value */
    int n =
        value[0] != '\0' ? asprintf(&line, "%s: %s", name, value) : asprintf(&line, "%s;", name);
    if (n < 0) {
        line = NULL;
        return S3R_E_NOMEM;
    }
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer == NULL)
        return S3R_E_NOMEM;
    *list = longer;
    return 0;
}

static void slist_freep(struct curl_slist **list)
{
    curl_slist_free_all(*list);
}

static int header_list(const struct headers *headers, struct curl_slist **list)
{
    int e = 0;
    for (size_t i = 0; i < headers->count && e == 0; i++)
        e = add_line(list, headers->rows[i].name, headers->rows[i].value);
    /* What libcurl would add by itself: waiting for a 100, and a type for what has none. */
    static const char *const unwanted[] = {"Expect:", "Accept:", "Content-Type:"};
    for (size_t i = 0; i < ARRAY_LEN(unwanted) && e == 0; i++) {
        if (i == 2 && headers_get(headers, "content-type") != NULL)
            continue;
        struct curl_slist *longer = curl_slist_append(*list, unwanted[i]);
        if (longer == NULL)
            return S3R_E_NOMEM;
        *list = longer;
    }
    return e;
}

static void set_method(CURL *c, const struct http_request *q)
{
    bool is_upload = strcmp(q->method, "PUT") == 0 || strcmp(q->method, "POST") == 0;
    if (strcmp(q->method, "HEAD") == 0)
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    else if (is_upload) {
        curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->body_len);
    }
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
    if (strcmp(q->method, "HEAD") == 0)
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, NULL);
}

static void set_callbacks(CURL *c, struct exchange *x)
{
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(c, CURLOPT_READDATA, x);
    curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(c, CURLOPT_SEEKDATA, x);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, x);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x);
    curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, on_sending);
    curl_easy_setopt(c, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
}

static void set_connection(const struct http *h, const struct wire *w, const struct http_request *q)
{
    CURL *c = w->curl;
    curl_easy_setopt(c, CURLOPT_PROXY, h->config.proxy != NULL ? h->config.proxy : "");
    if (h->config.ca_file != NULL)
        curl_easy_setopt(c, CURLOPT_CAINFO, h->config.ca_file);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, h->config.is_peer_unverified ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, h->config.is_peer_unverified ? 0L : 2L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)h->config.connect_ms);
    int64_t timeout_ms = q->timeout_ms;
    if (q->deadline_ms > 0 && (timeout_ms == 0 || q->deadline_ms < timeout_ms))
        timeout_ms = q->deadline_ms;
    if (timeout_ms > 0)
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    if (q->timeout_ms == 0) {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)(h->config.stall_ms + 999) / 1000);
    }
    char interface[80];
    if (w->bind_ip[0] != '\0') {
        snprintf(interface, sizeof(interface), "host!%s", w->bind_ip);
        curl_easy_setopt(c, CURLOPT_INTERFACE, interface);
    }
    curl_easy_setopt(c, CURLOPT_MAXCONNECTS, 1L);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, RECEIVE_SIZE);
    curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, SEND_SIZE);
}

int wire_set_up(const struct http *h, struct wire *w, struct exchange *x, struct curl_slist **list)
{
    const struct http_request *q = x->request;
    CURL *c = w->curl;
    curl_easy_reset(c); /* keeps the connection */
    CLEANUP(freep) char *url = NULL;
    if (asprintf(&url, "%s%s", h->config.endpoint.url, q->target) < 0) {
        url = NULL;
        return S3R_E_NOMEM;
    }
    int e = header_list(q->headers, list);
    if (e != 0 || curl_easy_setopt(c, CURLOPT_URL, url) != CURLE_OK)
        return S3R_E_NOMEM;
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, *list);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, w->error);
    w->error[0] = '\0';
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "s3rdma/" S3R_VERSION);
    set_method(c, q);
    set_callbacks(c, x);
    set_connection(h, w, q);
    return 0;
}

static bool was_sent(CURL *c)
{
    long sent = 0;
    return curl_easy_getinfo(c, CURLINFO_REQUEST_SIZE, &sent) == CURLE_OK && sent > 0;
}

static bool was_kept(CURL *c)
{
    long connects = 1;
    return curl_easy_getinfo(c, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK && connects == 0;
}

/* libcurl's verdict in our words; the fault says how far it came. */
int wire_judge(const struct http *h, const struct wire *w, const struct exchange *x, CURLcode code,
               struct diag *diag)
{
    struct http_reply *r = x->reply;
    const char *said = w->error[0] != '\0' ? w->error : curl_easy_strerror(code);
    const char *where = h->config.endpoint.authority;
    if (x->error != 0) {
        r->fault = x->error == S3R_E_BAD_REPLY ? HTTP_GARBLED : HTTP_STOPPED;
        return diag_fail(diag, x->error, "%s",
                         x->error == S3R_E_BAD_REPLY ? "the reply is over the limits or malformed"
                                                     : error_text(x->error));
    }
    bool is_sent = was_sent(w->curl);
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_OPERATION_TIMEDOUT:
        r->fault = is_sent ? HTTP_SILENT : HTTP_UNSENT;
        return diag_fail(diag, S3R_E_TIMEOUT, "%s: %s", where, said);
    case CURLE_OUT_OF_MEMORY:
        r->fault = HTTP_LOST;
        return S3R_E_NOMEM;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
        r->fault = HTTP_GARBLED;
        return diag_fail(diag, S3R_E_BAD_REPLY, "%s: %s", where, said);
    default:
        break;
    }
    if (!is_sent && !x->was_socket_refused)
        r->fault = HTTP_UNSENT;
    else if (x->was_socket_refused || (r->status == 0 && was_kept(w->curl)))
        r->fault = HTTP_STALE;
    else
        r->fault = HTTP_LOST;
    if (r->fault == HTTP_STALE)
        return diag_fail(diag, S3R_E_HTTP, "%s: closed a kept connection", where);
    return diag_fail(diag, S3R_E_HTTP, "%s: %s", where, said);
}

static int perform(struct http *h, struct wire *w, struct exchange *x, struct diag *diag)
{
    CLEANUP(slist_freep) struct curl_slist *list = NULL;
    bool is_open = !x->request->is_fresh && wire_is_open(w);
    int e = wire_set_up(h, w, x, &list);
    if (e != 0)
        return e;
    x->is_socket_refused = x->request->is_once && is_open;
    curl_easy_setopt(w->curl, CURLOPT_FRESH_CONNECT, x->request->is_once && !is_open ? 1L : 0L);
    CURLcode code = curl_easy_perform(w->curl);
    if (code != CURLE_OK && x->was_socket_refused && !was_sent(w->curl)) {
        /* it would not use the kept connection, and nothing has been sent: a new one will do */
        x->is_socket_refused = x->was_socket_refused = false;
        x->sendings = 0;
        curl_easy_setopt(w->curl, CURLOPT_FRESH_CONNECT, 1L);
        code = curl_easy_perform(w->curl);
    }
    e = wire_judge(h, w, x, code, diag);
    curl_easy_setopt(w->curl, CURLOPT_HTTPHEADER, NULL);
    return e;
}

int http_send(struct http *h, const struct http_request *request, struct diag *diag,
              struct http_reply *reply)
{
    struct wire *w = wire_take(h, request->bind_ip != NULL ? request->bind_ip : "");
    if (w == NULL)
        return S3R_E_NOMEM;
    struct exchange x = {.request = request, .reply = reply};
    int e = perform(h, w, &x, diag);
    wire_give(h, w);
    return e;
}
