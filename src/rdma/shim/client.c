/* SPDX-License-Identifier: Apache-2.0 */
#include "base/handles.h"
#include "rdma/owner.h"
#include "rdma/shim/shim.h"
#include "s3rdma.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 4096
#define LATELY_FREED 256

struct client {
    struct owner *owner;
    pid_t pid;
};

/* A token that is out. The interface gives the text itself to the caller, so it is found by its
 * address, which is compared and never followed. */
struct out {
    struct out *next;
    char *text;
    void *handle; /* of kind HANDLE_TOKEN */
    S3RdmaClientHandle client;
    struct owner_window *window;
};

/* Texts that were freed stay allocated for a while, so that one freed twice does not name the next.
 */
static struct {
    pthread_mutex_t lock;
    /* lock `lock` */
    struct out *buckets[BUCKETS];
    char *freed[LATELY_FREED];
    unsigned next_freed;
} tokens = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_tokens(void)
{
    pthread_mutex_lock(&tokens.lock);
}

static void unlock_tokens(void)
{
    pthread_mutex_unlock(&tokens.lock);
}

static void watch_forks(void)
{
    pthread_atfork(lock_tokens, unlock_tokens, unlock_tokens);
}

static struct client *pin(S3RdmaClientHandle handle)
{
    struct client *c = handle_pin(handle, HANDLE_CLIENT);
    if (!c)
        shim_fail(&(struct diag){"no such client handle"}, S3R_E_RDMA_NOT_FOUND);
    return c;
}

/* ---- the handle ---- */

static void *client_failed(const struct diag *diag, int rc, char *err, size_t len)
{
    shim_fail(diag, rc);
    shim_copy_text(err, len, diag_text(diag, rc));
    return NULL;
}

S3RdmaClientHandle s3rdma_client_init(const char *device, char *err, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct diag diag = {""};
    shim_copy_text(err, len, "");
    CLEANUP(freep) struct client *c = calloc(1, sizeof *c);
    if (!c)
        return client_failed(&diag, S3R_E_NOMEM, err, len);
    c->pid = getpid();
    int rc = owner_open(device, NULL, &diag, &c->owner);
    if (rc)
        return client_failed(&diag, rc, err, len);
    void *handle = handle_add(HANDLE_CLIENT, c);
    if (!handle) {
        owner_close(c->owner);
        return client_failed(&diag, S3R_E_NOMEM, err, len);
    }
    /* after the table of handles has done so: this lock is taken before that one */
    pthread_once(&once, watch_forks);
    (void)STEAL(c);
    return handle;
}

void s3rdma_client_free(S3RdmaClientHandle client)
{
    struct client *c = handle_retire(client, HANDLE_CLIENT);
    if (!c)
        return;
    owner_close(c->owner);
    free(c);
}

int s3rdma_client_ready(S3RdmaClientHandle client)
{
    struct client *c = pin(client);
    if (!c)
        return 0;
    int ready = c->pid == getpid() && owner_rail_count(c->owner) > 0;
    handle_unpin(client);
    return ready;
}

int s3rdma_client_nic_count(S3RdmaClientHandle client)
{
    struct client *c = pin(client);
    if (!c)
        return 0;
    int count = owner_rail_count(c->owner);
    handle_unpin(client);
    return count;
}

int s3rdma_client_healthy_nic_count(S3RdmaClientHandle client)
{
    struct client *c = pin(client);
    if (!c)
        return 0;
    int count = owner_healthy_count(c->owner);
    handle_unpin(client);
    return count;
}

/* ---- memory ---- */

int s3rdma_client_register(S3RdmaClientHandle client, void *ptr, size_t size)
{
    struct diag diag = {""};
    struct client *c = pin(client);
    if (!c)
        return -1;
    int rc = owner_register(c->owner, ptr, size, &diag);
    handle_unpin(client);
    return rc ? shim_fail(&diag, rc) : 0;
}

/* Waits, as told, for a server that is stopped in the middle. */
int s3rdma_client_deregister(S3RdmaClientHandle client, void *ptr)
{
    int rc;
    struct client *c = pin(client);
    if (!c)
        return -1;
    do {
        rc = owner_deregister(c->owner, ptr);
    } while (rc == S3R_E_BUSY);
    handle_unpin(client);
    return rc ? shim_fail(NULL, rc) : 0;
}

/* ---- tokens ---- */

static struct out **bucket_of(const char *text)
{
    return &tokens.buckets[((uintptr_t)text >> 4) % BUCKETS];
}

static bool list(struct out *out)
{
    out->handle = handle_add(HANDLE_TOKEN, out);
    if (!out->handle)
        return false;
    lock_tokens();
    struct out **bucket = bucket_of(out->text);
    out->next = *bucket;
    *bucket = out;
    unlock_tokens();
    return true;
}

static int mint(S3RdmaClientHandle client, struct client *c, void *ptr, size_t size, size_t offset,
                struct diag *diag, char **ret_text)
{
    CLEANUP(freep) struct out *out = calloc(1, sizeof *out);
    if (!out)
        return S3R_E_NOMEM;
    out->client = client;
    int rc = owner_window_open(c->owner, ptr, offset, size, diag, &out->window);
    if (rc)
        return rc;
    out->text = strdup(owner_window_token(out->window));
    if (!out->text || !list(out)) {
        owner_window_close(out->window);
        free(out->text);
        return S3R_E_NOMEM;
    }
    *ret_text = out->text;
    (void)STEAL(out);
    return 0;
}

int s3rdma_client_get_token(S3RdmaClientHandle client, void *ptr, size_t size, size_t offset,
                            char **token)
{
    struct diag diag = {""};
    if (!token)
        return shim_fail(&(struct diag){"nowhere to put the token"}, S3R_E_INVALID_ARGUMENT);
    *token = NULL;
    struct client *c = pin(client);
    if (!c)
        return -1;
    int rc = mint(client, c, ptr, size, offset, &diag, token);
    handle_unpin(client);
    return rc ? shim_fail(&diag, rc) : 0;
}

static void put_off_free(char *text)
{
    lock_tokens();
    char *oldest = tokens.freed[tokens.next_freed];
    tokens.freed[tokens.next_freed] = text;
    tokens.next_freed = (tokens.next_freed + 1) % LATELY_FREED;
    unlock_tokens();
    free(oldest);
}

void s3rdma_client_free_token(char *token)
{
    lock_tokens();
    struct out **at = bucket_of(token);
    while (*at && (*at)->text != token)
        at = &(*at)->next;
    struct out *out = *at;
    if (out)
        *at = out->next;
    unlock_tokens();
    /* whoever reports its failure just now is waited for */
    if (!out || !handle_retire(out->handle, HANDLE_TOKEN))
        return;
    owner_window_close(out->window);
    explicit_bzero(out->text, strlen(out->text));
    put_off_free(out->text);
    free(out);
}

/* By its text: callers may report a copy. */
static struct out *pin_token(S3RdmaClientHandle client, const char *text)
{
    struct out *found = NULL;
    lock_tokens();
    for (size_t i = 0; !found && i < BUCKETS; i++) {
        for (struct out *out = tokens.buckets[i]; !found && out; out = out->next) {
            if (out->client == client && strcmp(out->text, text) == 0)
                found = handle_pin(out->handle, HANDLE_TOKEN);
        }
    }
    unlock_tokens();
    return found;
}

int s3rdma_client_report_token_failure(S3RdmaClientHandle client, const char *token)
{
    struct client *c = pin(client);
    if (!c)
        return -1;
    struct out *out = token ? pin_token(client, token) : NULL;
    if (out) {
        struct diag diag = {""};
        int rc = owner_window_withdraw(out->window, &diag);
        /* it is withdrawn; what a stopped server has begun is waited for when the token is freed */
        if (rc)
            shim_fail(&diag, rc);
        owner_window_blame(out->window);
        handle_unpin(out->handle);
    }
    handle_unpin(client);
    return out ? 0 : shim_fail(&(struct diag){"no such token"}, S3R_E_RDMA_NOT_FOUND);
}
