/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "client/api.h"
#include "client/api_config.h"
#include "client/carry.h"
#include "client/engine.h"
#include "rdma/gauge.h"
#include "rdma/owner.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int s3r_client_new(const struct s3r_config *config, struct s3r_result *result,
                   struct s3r_client **ret_client)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    struct s3r_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return frame_return(&f, S3R_E_NOMEM);
    c->pid = getpid();
    pthread_mutex_init(&c->lock, NULL);
    int e = api_config_open(config, f.diag, &c->core);
    if (e == 0)
        *ret_client = c;
    else
        s3r_client_free(c);
    return frame_return(&f, e);
}

void s3r_client_free(struct s3r_client *client)
{
    if (client == NULL)
        return;
    api_adopt(client);
    if (client->regions != NULL && client->regions->count > 0)
        log_debug("a client is freed with %zu registrations", client->regions->count);
    engine_destroy(client->engine);
    client_destroy(client->core);
    free(client->regions);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

void api_adopt(struct s3r_client *client)
{
    static pthread_mutex_t adopting = PTHREAD_MUTEX_INITIALIZER;
    if (client->pid == getpid())
        return;
    pthread_mutex_lock(&adopting);
    if (client->pid != getpid()) {
        pthread_mutex_init(&client->lock, NULL);
        client->engine = NULL; /* its threads are not here, its memory is as they left it */
        client->pid = getpid();
    }
    pthread_mutex_unlock(&adopting);
}

int s3r_client_open_devices(struct s3r_client *client, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    if (client->core->is_rdma_off)
        return frame_return(&f, diag_fail(f.diag, S3R_E_RDMA_UNAVAILABLE,
                                          "RDMA is off in this client's configuration"));
    return frame_return(&f, client_devices_open(client->core, f.diag));
}

static struct owner *owner_of(struct s3r_client *client)
{
    return client->core->is_rdma_off ? NULL : client_owner(client->core, NULL);
}

int s3r_client_rail_count(struct s3r_client *client)
{
    struct owner *owner = owner_of(client);
    return owner != NULL ? owner_rail_count(owner) : 0;
}

int s3r_client_healthy_rail_count(struct s3r_client *client)
{
    struct owner *owner = owner_of(client);
    return owner != NULL ? owner_healthy_count(owner) : 0;
}

void s3r_client_rail_describe(struct s3r_client *client, int rail, char *out, size_t size)
{
    struct owner *owner = owner_of(client);
    if (size > 0)
        out[0] = '\0';
    if (owner != NULL && rail >= 0 && rail < owner_rail_count(owner))
        owner_describe(owner, rail, out, size);
}

uint64_t s3r_registered_bytes(struct s3r_client *client)
{
    if (client == NULL)
        return gauge_registered_len();
    client_adopt(client->core);
    pthread_mutex_lock(&client->core->lock);
    uint64_t len = client->core->owner != NULL ? owner_registered_len(client->core->owner) : 0;
    pthread_mutex_unlock(&client->core->lock);
    return len;
}
