/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "server/peers.h"
#include "server/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SECRET_LEN_MIN 8
#define PEM_LEN_MAX (1 * MIB)

static const struct {
    const char *name;
    size_t threads_max, queue_max;
} pool_rows[POOL_COUNT] = {
    [POOL_INDEX] = {"s3-index", 16, 8192},
    [POOL_DISK] = {"s3-disk", 64, 8192},
    [POOL_TRANSFER] = {"s3-transfer", 64, 8192},
    [POOL_LANES] = {"s3-lane", 4, 16},
};

/* ---- checks ---- */

static int check_config(const struct config *c, struct diag *diag)
{
    if (!*c->data)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "no data directory: give --data DIR or S3RDMA_DATA");
    if (strncmp(c->data, "rados:", 6) == 0)
        return diag_fail(diag, S3R_E_UNSUPPORTED, "--data rados: is not in this build");
    if (!*c->root_user || !*c->root_password)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "no credentials: set S3RDMA_ROOT_USER and S3RDMA_ROOT_PASSWORD");
    if (strlen(c->root_password) < SECRET_LEN_MIN)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "root-password: a secret key has at least %d characters", SECRET_LEN_MIN);
    if (!*c->tls_cert != !*c->tls_key)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "tls-cert and tls-key come together");
    if (c->rdma_staging < STAGING_SLOT_LEN)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "rdma-staging: at least 4MiB");
    if (c->rdma_deadline_ms == 0 || c->http_threads == 0 || c->http_threads > 64)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "rdma-deadline-ms must be above 0, http-threads from 1 to 64");
    return peers_check(c->rdma_peers, diag);
}

/* ---- the listener ---- */

static int bind_one(const struct addrinfo *a, int *ret_fd)
{
    CLEANUP(closep) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, off = 0;
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1024) != 0)
        return -errno;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

static void name_address(struct server *s, int fd)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char host[64] = "?", port[8] = "?";
    if (getsockname(fd, (struct sockaddr *)&bound, &len) == 0)
        getnameinfo((struct sockaddr *)&bound, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(s->address, sizeof s->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static int open_listener(struct server *s, struct diag *diag, int *ret_fd)
{
    char host[256], port[8];
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    int rc = config_split_address(s->config->listen, host, sizeof host, port, sizeof port);
    if (rc)
        return rc;
    int failed = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (failed)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "--listen: %s: %s", host,
                         gai_strerror(failed));
    rc = -EADDRNOTAVAIL;
    for (struct addrinfo *a = found; a && rc; a = a->ai_next)
        rc = bind_one(a, ret_fd);
    freeaddrinfo(found);
    if (rc)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "--listen: cannot listen on %s: %s",
                         s->config->listen, errno_text(-rc));
    name_address(s, *ret_fd);
    return 0;
}

static int read_pem(const char *path, struct diag *diag, char **ret)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(freep) char *text = calloc(1, PEM_LEN_MAX + 1);
    ssize_t len = fd < 0 || !text ? -1 : read(fd, text, PEM_LEN_MAX);
    if (len <= 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "cannot read %s: %s", path,
                         errno_text(errno));
    *ret = STEAL(text);
    return 0;
}

/* Half of the descriptors are left to what requests open. */
static unsigned connections_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return LIMIT_CONNECTIONS_MAX;
    return (unsigned)min_u64(LIMIT_CONNECTIONS_MAX, limit.rlim_cur / 2);
}

static int start_http(struct server *s, struct diag *diag)
{
    const struct config *c = s->config;
    CLEANUP(freep) char *cert = NULL;
    CLEANUP(freep) char *key = NULL;
    CLEANUP(closep) int fd = -1;
    int rc = 0;
    if (*c->tls_cert)
        rc = read_pem(c->tls_cert, diag, &cert);
    if (!rc && *c->tls_key)
        rc = read_pem(c->tls_key, diag, &key);
    if (!rc)
        rc = open_listener(s, diag, &fd);
    if (rc)
        return rc;
    struct http_config http = {.listen_fd = fd,
                               .threads = (unsigned)c->http_threads,
                               .connections_max = connections_max(),
                               .head_timeout_s = (unsigned)c->head_timeout_s,
                               .idle_timeout_s = (unsigned)c->idle_timeout_s,
                               .tls_cert = cert,
                               .tls_key = key,
                               .app = request_app,
                               .app_arg = s};
    rc = http_open(&http, &s->http);
    if (!rc)
        rc = http_start(s->http, diag);
    if (!rc)
        fd = -1;
    return rc;
}

/* ---- the parts ---- */

static int start_rdma(struct server *s, struct diag *diag)
{
    const char *devices = s->config->rdma_device;
    if (strcmp(devices, "off") == 0) {
        snprintf(s->rdma_reason, sizeof s->rdma_reason, "RDMA is switched off here");
        return 0;
    }
    struct diag why = {0};
    int rc = mover_open(devices, &why, &s->mover);
    if (rc && *devices) /* named, so wanted */
        return diag_fail(diag, rc, "--rdma-device: %s", diag_text(&why, rc));
    if (rc) {
        snprintf(s->rdma_reason, sizeof s->rdma_reason, "no RDMA device here: %.300s",
                 diag_text(&why, rc));
        log_info("rdma off: %s", s->rdma_reason);
        return 0;
    }
    for (int i = 0; i < mover_rail_count(s->mover); i++) {
        char line[256];
        mover_describe(s->mover, i, line, sizeof line);
        log_info("rail %d: %s", i, line);
    }
    return staging_create(s->mover, s->config->rdma_staging, diag, &s->staging);
}

static int start_pools(struct server *s)
{
    int rc = buffer_pool_create(BODY_BLOCK_LEN, BODY_BLOCKS_KEPT, &s->blocks);
    for (int i = 0; !rc && i < POOL_COUNT; i++)
        rc = work_pool_create(pool_rows[i].name, pool_rows[i].threads_max, pool_rows[i].queue_max,
                              &s->pools[i]);
    /* one client whose transfers are stuck leaves half of the threads to the others */
    if (!rc)
        work_pool_set_share(s->pools[POOL_TRANSFER], pool_rows[POOL_TRANSFER].threads_max / 2);
    return rc;
}

static int start_parts(struct server *s, struct diag *diag)
{
    const struct config *c = s->config;
    struct store_config store = {.dir = c->data,
                                 .is_direct = c->direct_io,
                                 .is_read_only = c->read_only,
                                 .cache_bytes = c->index_cache};
    int rc = check_config(c, diag);
    if (!rc)
        rc = store_open(&store, diag, &s->store);
    if (!rc)
        rc = start_rdma(s, diag);
    if (!rc)
        rc = start_pools(s);
    return rc ? rc : start_http(s, diag);
}

static void close_parts(struct server *s)
{
    http_stop(s->http);
    for (int i = 0; i < POOL_COUNT; i++)
        work_pool_destroy(s->pools[i]);
    buffer_pool_destroy(s->blocks);
    staging_destroy(s->staging);
    if (s->mover)
        mover_close(s->mover);
    if (s->store)
        store_close(s->store);
    free(s);
}

int server_start(const struct config *config, struct diag *diag, struct server **ret_server)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return S3R_E_NOMEM;
    s->config = config;
    int rc = start_parts(s, diag);
    if (rc) {
        close_parts(s);
        return rc;
    }
    *ret_server = s;
    return 0;
}

void server_stop(struct server *s)
{
    int64_t until = clock_mono_ns() + (int64_t)s->config->drain_timeout_s * NS_PER_S;
    struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
    http_quiesce(s->http);
    /* requests on kept connections are refused with an answer from here on */
    atomic_store(&s->is_draining, true);
    while (http_active(s->http) && clock_mono_ns() < until)
        nanosleep(&pause, NULL);
    /* what a worker still has must come back, and nothing new may go to one, before the library
     * may stop: it would abort on a suspended connection */
    atomic_store(&s->is_stopping, true);
    while (atomic_load(&s->working))
        nanosleep(&pause, NULL);
    close_parts(s);
}
