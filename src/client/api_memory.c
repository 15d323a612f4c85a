/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/num.h"
#include "base/pages.h"
#include "client/api.h"
#include "client/carry.h"
#include "rdma/gpu.h"
#include "rdma/owner.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct owner *owner_of(struct s3r_client *client)
{
    return client->core->is_rdma_off ? NULL : client_owner(client->core, NULL);
}

/* The first row at or after `ptr`. */
static size_t place_of(const struct api_regions *table, const char *ptr)
{
    size_t low = 0, high = table != NULL ? table->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->rows[middle].ptr < ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct api_region *row_at(struct api_regions *table, const char *ptr)
{
    size_t i = place_of(table, ptr);
    return table != NULL && i < table->count && table->rows[i].ptr == ptr ? &table->rows[i] : NULL;
}

static int insert(struct s3r_client *client, const struct api_region *row)
{
    struct api_regions *old = client->regions;
    size_t count = old != NULL ? old->count : 0, at = place_of(old, row->ptr);
    struct api_regions *table = malloc(sizeof(*table) + (count + 1) * sizeof(*row));
    if (table == NULL)
        return S3R_E_NOMEM;
    table->count = count + 1;
    if (at > 0)
        memcpy(table->rows, old->rows, at * sizeof(*row));
    table->rows[at] = *row;
    if (count > at)
        memcpy(table->rows + at + 1, old->rows + at, (count - at) * sizeof(*row));
    client->regions = table;
    free(old);
    return 0;
}

/* A smaller table needs no memory that could be missing. */
static void take_out(struct s3r_client *client, const struct api_region *row)
{
    struct api_regions *table = client->regions;
    size_t at = (size_t)(row - table->rows);
    memmove(table->rows + at, table->rows + at + 1, (table->count - at - 1) * sizeof(*row));
    table->count--;
}

/* Registers it in this process; where that cannot be, transfers try for themselves and say why. */
static int hold(struct s3r_client *client, struct api_region *row, struct diag *diag)
{
    struct owner *owner = owner_of(client);
    int e = owner != NULL ? owner_register(owner, row->ptr, row->len, diag) : 0;
    row->is_held = owner != NULL && e == 0;
    row->pid = getpid();
    /* A GPU's memory that no rail takes: transfers stage it. */
    return e == S3R_E_RDMA_REGISTER && gpu_can_copy(gpu_memory_type(row->ptr)) ? 0 : e;
}

static int let_go(struct s3r_client *client, struct api_region *row)
{
    struct owner *owner = owner_of(client);
    if (!row->is_held || row->pid != getpid() || owner == NULL)
        return 0;
    return owner_deregister(owner, row->ptr);
}

void *api_find_region(struct s3r_client *client, const void *ptr, size_t len)
{
    void *found = NULL;
    const char *at = ptr;
    api_adopt(client);
    pthread_mutex_lock(&client->lock);
    struct api_regions *table = client->regions;
    size_t i = place_of(table, at);
    if (row_at(table, at) != NULL)
        i++;
    /* Those that begin before it, the nearest first: they may overlap. */
    while (i-- > 0 && found == NULL) {
        struct api_region *row = &table->rows[i];
        if (!span_fits((uint64_t)(at - row->ptr), len, row->len))
            continue;
        if (row->pid != getpid() && hold(client, row, NULL) != 0)
            log_debug("memory of the parent's could not be registered again");
        if (row->is_held)
            found = row->ptr;
    }
    pthread_mutex_unlock(&client->lock);
    return found;
}

static int add(struct s3r_client *client, void *ptr, size_t len, bool is_ours, struct diag *diag)
{
    struct api_region *row = row_at(client->regions, ptr);
    if (row != NULL && row->len != len)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "%zu bytes: at that address %zu are registered already", len, row->len);
    if (row != NULL) {
        row->count++;
        return 0;
    }
    struct api_region fresh = {.ptr = ptr, .len = len, .count = 1, .is_ours = is_ours};
    int e = hold(client, &fresh, diag);
    if (e != 0 && !is_ours)
        return e;
    e = insert(client, &fresh);
    if (e != 0 && let_go(client, &fresh) != 0)
        log_warn("a registration without a row stays");
    return e;
}

int s3r_register(struct s3r_client *client, void *ptr, size_t len, struct s3r_result *result)
{
    struct frame f;
    uint64_t end;
    frame_begin(&f, NULL, result);
    int e = frame_need(&f, ptr != NULL && len > 0, "memory to register");
    if (e == 0 && !checked_add((uintptr_t)ptr, len, &end))
        e = diag_fail(f.diag, S3R_E_INVALID_ARGUMENT, "no memory has %zu bytes there", len);
    if (e != 0)
        return frame_return(&f, e);
    api_adopt(client);
    pthread_mutex_lock(&client->lock);
    e = add(client, ptr, len, false, f.diag);
    pthread_mutex_unlock(&client->lock);
    return frame_return(&f, e);
}

/* The row, once it is the last count's; it is then not registered any more. */
static int drop(struct s3r_client *client, void *ptr, bool is_ours, struct diag *diag,
                size_t *ret_len)
{
    struct api_region *row = row_at(client->regions, ptr);
    if (row == NULL || row->is_ours != is_ours)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "no memory is registered at that address");
    if (row->count > 1) {
        row->count--;
        return 0;
    }
    if (let_go(client, row) == S3R_E_BUSY)
        return diag_fail(diag, S3R_E_RDMA_UNFENCED, "%s", error_text(S3R_E_RDMA_UNFENCED));
    *ret_len = row->len;
    take_out(client, row);
    return 0;
}

int s3r_deregister(struct s3r_client *client, void *ptr, struct s3r_result *result)
{
    struct frame f;
    size_t len;
    frame_begin(&f, NULL, result);
    api_adopt(client);
    pthread_mutex_lock(&client->lock);
    int e = drop(client, ptr, false, f.diag, &len);
    pthread_mutex_unlock(&client->lock);
    return frame_return(&f, e);
}

void *s3r_alloc(struct s3r_client *client, size_t len)
{
    void *ptr = len > 0 ? pages_alloc(len) : NULL;
    if (ptr == NULL)
        return NULL;
    api_adopt(client);
    pthread_mutex_lock(&client->lock);
    int e = add(client, ptr, len, true, NULL);
    pthread_mutex_unlock(&client->lock);
    if (e == 0)
        return ptr;
    pages_free(ptr, len);
    return NULL;
}

void s3r_free(struct s3r_client *client, void *ptr)
{
    size_t len = 0;
    if (ptr == NULL)
        return;
    api_adopt(client);
    pthread_mutex_lock(&client->lock);
    int e = drop(client, ptr, true, NULL, &len);
    pthread_mutex_unlock(&client->lock);
    if (e == 0)
        pages_free(ptr, len);
    else
        log_warn("memory is not freed: %s", error_text(e));
}

struct client_memory api_memory(struct s3r_client *client, const void *ptr, size_t len)
{
    static char nothing;
    if (len == 0)
        return (struct client_memory){.ptr = &nothing};
    return (struct client_memory){.ptr = (void *)ptr,
                                  .len = len,
                                  .region = api_find_region(client, ptr, len)};
}
