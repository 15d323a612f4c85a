/* SPDX-License-Identifier: Apache-2.0 */
/* http_wire.h - a libcurl handle and the request on it, as http.c and http_loop.c share them.
 * Does:     sets a handle up for a request; turns libcurl's verdict into ours.
 * Not here: who drives the handle.
 * Units:    bytes, milliseconds.
 * Owns:     a wire is its driver's; the exchange, its request and reply outlive the request.
 * Threads:  owner.
 * Errors:   as http.h.
 * Limits:   IDLE_MAX handles are kept without a request. */
#ifndef S3R_CLIENT_HTTP_WIRE_H
#define S3R_CLIENT_HTTP_WIRE_H

#include "client/http.h"

#include <curl/curl.h>
#include <pthread.h>

#define IDLE_MAX 64

/* Of http.c, it has at most one connection; of a loop, the loop has them. */
struct wire {
    struct wire *next;
    CURL *curl;
    char bind_ip[64]; /* "" for any; a connection is kept for the address it was made from */
    char error[CURL_ERROR_SIZE];
};

struct http {
    struct http_config config; /* fixed after create, its strings owned */
    pthread_mutex_t lock;
    struct wire *idle; /* lock */
    size_t idle_count; /* lock */
};

/* One request under way; libcurl's callbacks get it. */
struct exchange {
    const struct http_request *request;
    struct http_reply *reply;
    uint64_t body_off;
    int error; /* why a callback stopped it */
    bool is_head_done, is_paused;
    bool is_socket_refused, was_socket_refused;
    unsigned sendings;
};

void wire_destroy(struct wire *w);
/* The list is the caller's to free once the request has ended. */
int wire_set_up(const struct http *h, struct wire *w, struct exchange *x,
                struct curl_slist **list) MUST_CHECK;
/* libcurl's verdict in our words; the fault in the reply says how far it came. */
int wire_judge(const struct http *h, const struct wire *w, const struct exchange *x, CURLcode code,
               struct diag *diag) MUST_CHECK;

#endif
