/* SPDX-License-Identifier: Apache-2.0 */
#include "server/accesslog.h"

#include "base/clock.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

static void peer_text(const struct request *r, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "0";
    const struct sockaddr *peer = http_peer(r->ex);
    socklen_t len =
        peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    getnameinfo(peer, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, size, "%s:%s", host, port);
}

void accesslog_write(const struct request *r, int error, bool is_sent)
{
    char peer[80], key[3 * 256], bucket[80];
    const char *k = r->target.key ? r->target.key : "";
    peer_text(r, peer, sizeof peer);
    log_escape(k, r->target.key ? r->target.key_len : 0, key, sizeof key);
    log_escape(r->target.bucket ? r->target.bucket : "",
               strlen(r->target.bucket ? r->target.bucket : ""), bucket, sizeof bucket);
    log_info("request id=%s method=%s op=%s bucket=%s key=%s status=%u error=%s path=%s in=%llu "
             "out=%llu us=%lld sent=%s peer=%s",
             r->id, http_method(r->ex), r->op ? r->op->name : "-", bucket, key, r->reply.status,
             error ? error_name(error) : "-", r->is_rdma ? "rdma" : "http",
             (unsigned long long)r->bytes_in, (unsigned long long)r->bytes_out,
             (long long)(clock_mono_ns() - r->begun_ns) / 1000, is_sent ? "yes" : "no", peer);
}
