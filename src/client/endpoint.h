/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h - the URL of a server.
 * Does:     parses `http[s]://HOST[:PORT]`; finds out which local address reaches it.
 * Not here: requests (http.h); where the URL comes from (settings.h).
 * Units:    none.
 * Owns:     nothing; a struct endpoint holds everything by value.
 * Threads:  any.
 * Errors:   S3R_E_INVALID_ARGUMENT with what is wrong; S3R_E_HTTP when nothing answers there.
 * Limits:   ENDPOINT_HOST_MAX. */
#ifndef S3R_CLIENT_ENDPOINT_H
#define S3R_CLIENT_ENDPOINT_H

#include "base/attr.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ENDPOINT_HOST_MAX 256 /* with its NUL */

struct endpoint {
    bool is_tls;
    uint16_t port;
    char host[ENDPOINT_HOST_MAX];           /* an IPv6 address without its brackets */
    char authority[ENDPOINT_HOST_MAX + 10]; /* what Host says: no port where it is the default */
    char url[ENDPOINT_HOST_MAX + 20];       /* scheme, host and port, no slash at the end */
};

/* A slash may follow; a path, a query or a user name may not. */
int endpoint_parse(const char *url, struct diag *diag, struct endpoint *ret_endpoint) MUST_CHECK;
/* The address that a connection from here to there starts from: one is opened and closed. */
int endpoint_local_address(const struct endpoint *ep, int64_t timeout_ms, struct diag *diag,
                           struct sockaddr_storage *ret_addr) MUST_CHECK;

#endif
