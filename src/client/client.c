/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"

#include "base/log.h"
#include "client/call.h"
#include "client/carry.h"
#include "client/endpoint.h"
#include "client/linger.h"
#include "rdma/owner.h"
#include "s3/sigv4.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *client_reason_name(enum client_reason reason)
{
    static const char *const names[CLIENT_REASONS] = {
        "none",    "off",     "no-device", "too-large", "declined",
        "refused", "ignored", "failed",    "bad-reply", "server-error",
        "silent",  "lost",    "checksum",  "threshold", "mixed",
    };
    return reason < CLIENT_REASONS ? names[reason] : "unknown";
}

const char *client_transport_name(enum client_transport transport)
{
    return transport == CLIENT_RDMA ? "rdma" : transport == CLIENT_HTTP ? "http" : "none";
}

/* ---- create and destroy ---- */

static int check_config(const struct client_config *config, struct diag *diag)
{
    const char *region = config->region != NULL ? config->region : "us-east-1";
    if (config->endpoint == NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "there is no endpoint");
    if (config->access_key == NULL || config->access_key[0] == '\0' || config->secret_key == NULL ||
        config->secret_key[0] == '\0')
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "there are no credentials");
    if (strlen(config->access_key) > LIMIT_ACCESS_KEY_LEN_MAX ||
        strpbrk(config->access_key, "/, \t") != NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "the access key is not a valid one");
    if (region[0] == '\0' || strlen(region) > LIMIT_REGION_LEN_MAX ||
        strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
            strlen(region))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "a region has 1 to %d characters of A-Z a-z 0-9 - _",
                         LIMIT_REGION_LEN_MAX);
    if (config->connect_ms < 0 || config->patience_ms < 0 || config->stall_ms < 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "a time is negative");
    return 0;
}

static int copy(char **place, const char *text)
{
    if (text == NULL)
        return 0;
    *place = strdup(text);
    return *place != NULL ? 0 : S3R_E_NOMEM;
}

static int copy_config(struct client *c, const struct client_config *config)
{
    c->is_rdma_off = config->is_rdma_off;
    c->connect_ms = config->connect_ms > 0 ? config->connect_ms : CLIENT_CONNECT_MS;
    c->patience_ms = config->patience_ms > 0 ? config->patience_ms : CLIENT_PATIENCE_MS;
    c->stall_ms = config->stall_ms > 0 ? config->stall_ms : CLIENT_STALL_MS;
    c->is_cancelled = config->is_cancelled;
    c->cancel_arg = config->cancel_arg;
    int e = copy(&c->region, config->region != NULL ? config->region : "us-east-1");
    if (e == 0)
        e = copy(&c->access_key, config->access_key);
    if (e == 0)
        e = copy(&c->secret_key, config->secret_key);
    if (e == 0)
        e = copy(&c->session_token, config->session_token);
    if (e == 0)
        e = copy(&c->devices, config->devices);
    return e;
}

int client_create(const struct client_config *config, struct diag *diag, struct client **ret_client)
{
    int e = check_config(config, diag);
    if (e != 0)
        return e;
    CLEANUP(client_destroyp) struct client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return S3R_E_NOMEM;
    c->pid = getpid();
    pthread_mutex_init(&c->lock, NULL);
    e = copy_config(c, config);
    if (e == 0)
        e = endpoint_parse(config->endpoint, diag, &c->endpoint);
    const struct http_config http = {.endpoint = c->endpoint,
                                     .ca_file = config->ca_file,
                                     .is_peer_unverified = config->is_peer_unverified,
                                     .proxy = config->proxy,
                                     .connect_ms = c->connect_ms,
                                     .stall_ms = c->stall_ms};
    if (e == 0)
        e = http_create(&http, diag, &c->http);
    if (e != 0)
        return e;
    *ret_client = STEAL(c);
    return 0;
}

static void free_secret(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void client_destroy(struct client *c)
{
    if (c == NULL)
        return;
    if (c->http != NULL)
        client_adopt(c);
    if (c->owner != NULL && linger_end(c))
        owner_close(c->owner);
    else if (c->owner != NULL)
        log_warn("a stopped server may still use memory of this process: it stays registered");
    linger_forget(c);
    http_destroy(c->http);
    pthread_mutex_destroy(&c->lock);
    free(c->region);
    free(c->devices);
    free_secret(c->access_key);
    free_secret(c->secret_key);
    free_secret(c->session_token);
    free(c);
}

void client_destroyp(struct client **c)
{
    client_destroy(*c);
}

/* ---- forks ---- */

void client_adopt(struct client *c)
{
    static pthread_mutex_t adopting = PTHREAD_MUTEX_INITIALIZER;
    if (c->pid == getpid())
        return;
    pthread_mutex_lock(&adopting);
    if (c->pid != getpid()) {
        http_forget_connections(c->http);
        pthread_mutex_init(&c->lock, NULL);
        linger_forget(c);
        owner_close(c->owner);
        c->owner = NULL;
        c->is_owner_tried = false;
        diag_clear(&c->owner_diag);
        c->pid = getpid();
    }
    pthread_mutex_unlock(&adopting);
}

/* ---- devices ---- */

/* A libfabric endpoint without an address of its own opens on the one that the server sees. */
static bool needs_local_address(const char *devices)
{
    const char *ofi = devices != NULL ? strstr(devices, "ofi:") : NULL;
    while (ofi != NULL) {
        size_t len = strcspn(ofi, ",");
        if (memchr(ofi, '@', len) == NULL)
            return true;
        ofi = strstr(ofi + len, "ofi:");
    }
    return false;
}

static int open_owner(struct client *c, struct diag *diag)
{
    const char *devices = c->devices != NULL ? c->devices : getenv("S3RDMA_DEVICE");
    struct sockaddr_storage addr;
    const struct sockaddr *local = NULL;
    if (needs_local_address(devices)) {
        int e = endpoint_local_address(&c->endpoint, c->connect_ms, diag, &addr);
        if (e != 0)
            return e;
        local = (const struct sockaddr *)&addr;
    }
    return owner_open(c->devices, local, diag, &c->owner);
}

struct owner *client_owner(struct client *c, struct diag *diag)
{
    client_adopt(c);
    pthread_mutex_lock(&c->lock);
    if (!c->is_owner_tried) {
        c->owner_error = open_owner(c, &c->owner_diag);
        /* An unreachable server is no fault of the device: asked again the next time. */
        c->is_owner_tried = c->owner_error != S3R_E_HTTP;
    }
    struct owner *owner = c->owner;
    if (owner == NULL)
        (void)diag_fail(diag, c->owner_error, "%s", diag_text(&c->owner_diag, c->owner_error));
    if (!c->is_owner_tried)
        diag_clear(&c->owner_diag);
    pthread_mutex_unlock(&c->lock);
    return owner;
}

int client_devices_open(struct client *c, struct diag *diag)
{
    return client_owner(c, diag) != NULL ? 0 : S3R_E_RDMA_UNAVAILABLE;
}

int client_rail_count(const struct client *c)
{
    return c->owner != NULL ? owner_rail_count(c->owner) : 0;
}

int client_healthy_rail_count(struct client *c)
{
    client_adopt(c);
    pthread_mutex_lock(&c->lock);
    int count = c->owner != NULL ? owner_healthy_count(c->owner) : -1;
    pthread_mutex_unlock(&c->lock);
    return count;
}

void client_rail_describe(struct client *c, int rail, char *out, size_t size)
{
    owner_describe(c->owner, rail, out, size);
}

int client_register(struct client *c, void *ptr, size_t len, struct diag *diag)
{
    struct owner *owner = c->is_rdma_off ? NULL : client_owner(c, NULL);
    return owner != NULL ? owner_register(owner, ptr, len, diag) : 0;
}

int client_deregister(struct client *c, void *ptr)
{
    struct owner *owner = c->is_rdma_off ? NULL : client_owner(c, NULL);
    return owner != NULL ? owner_deregister(owner, ptr) : 0;
}
