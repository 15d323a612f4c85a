/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include "client/api.h"
#include "s3/etag.h"

#include <stdlib.h>
#include <string.h>

static struct s3r_upload *upload_new(struct s3r_client *client, const char *bucket, const char *key)
{
    struct s3r_upload *u = calloc(1, sizeof(*u));
    if (u == NULL)
        return NULL;
    u->client = client;
    u->bucket = strdup(bucket);
    u->key = strdup(key);
    pthread_mutex_init(&u->lock, NULL);
    if (u->bucket != NULL && u->key != NULL)
        return u;
    s3r_upload_free(u);
    return NULL;
}

void s3r_upload_free(struct s3r_upload *upload)
{
    if (upload == NULL)
        return;
    free(upload->bucket);
    free(upload->key);
    free(upload->id);
    free(upload->parts);
    pthread_mutex_destroy(&upload->lock);
    free(upload);
}

int s3r_upload_create(struct s3r_client *client, const char *bucket, const char *key,
                      const struct s3r_options *options, struct s3r_result *result,
                      struct s3r_upload **ret_upload)
{
    struct frame f;
    frame_begin(&f, options, result);
    int e = frame_need(&f, bucket != NULL && key != NULL, "bucket or key");
    if (e != 0)
        return frame_return(&f, e);
    struct s3r_upload *u = upload_new(client, bucket, key);
    if (u == NULL)
        return frame_return(&f, S3R_E_NOMEM);
    do
        e = client_upload_create(client->core, bucket, key, &f.options, f.diag, &u->id);
    while (frame_again(&f, e));
    if (e == 0)
        *ret_upload = u;
    else
        s3r_upload_free(u);
    return frame_return(&f, e);
}

int s3r_upload_open(struct s3r_client *client, const char *bucket, const char *key,
                    const char *upload_id, struct s3r_result *result,
                    struct s3r_upload **ret_upload)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    bool is_there = bucket != NULL && key != NULL && upload_id != NULL && upload_id[0] != '\0';
    int e = frame_need(&f, is_there, "bucket, key or upload id");
    if (e != 0)
        return frame_return(&f, e);
    struct s3r_upload *u = upload_new(client, bucket, key);
    if (u != NULL)
        u->id = strdup(upload_id);
    if (u != NULL && u->id != NULL) {
        *ret_upload = u;
        return frame_return(&f, 0);
    }
    s3r_upload_free(u);
    return frame_return(&f, S3R_E_NOMEM);
}

const char *s3r_upload_id(const struct s3r_upload *upload)
{
    return upload->id;
}

/* ---- parts ---- */

static int make_room(struct s3r_upload *u)
{
    if (u->count < u->cap)
        return 0;
    size_t cap = u->cap > 0 ? 2 * u->cap : 16;
    struct client_part *parts = reallocarray(u->parts, cap, sizeof(*parts));
    if (parts == NULL)
        return S3R_E_NOMEM;
    u->parts = parts;
    u->cap = cap;
    return 0;
}

static int keep_locked(struct s3r_upload *u, const struct client_part *part)
{
    size_t i = u->count;
    while (i > 0 && u->parts[i - 1].number > part->number)
        i--;
    if (i > 0 && u->parts[i - 1].number == part->number) {
        u->parts[i - 1] = *part;
        return 0;
    }
    int e = make_room(u);
    if (e != 0)
        return e;
    memmove(&u->parts[i + 1], &u->parts[i], (u->count - i) * sizeof(*part));
    u->parts[i] = *part;
    u->count++;
    return 0;
}

int api_upload_keep(struct s3r_upload *upload, const struct client_part *part)
{
    pthread_mutex_lock(&upload->lock);
    int e = keep_locked(upload, part);
    pthread_mutex_unlock(&upload->lock);
    return e;
}

int s3r_upload_part(struct s3r_upload *upload, unsigned number, const void *ptr, size_t len,
                    const struct s3r_options *options, struct s3r_result *result)
{
    struct frame f;
    struct client_part part;
    frame_begin(&f, options, result);
    int e = frame_need(&f, ptr != NULL || len == 0, "memory");
    if (e != 0)
        return frame_return(&f, e);
    const struct client_memory m = api_memory(upload->client, ptr, len);
    do
        e = client_upload_part(upload->client->core, upload->bucket, upload->key, upload->id,
                               number, &m, &f.options, f.diag, f.core, &part);
    while (frame_again(&f, e));
    if (e == 0)
        e = api_upload_keep(upload, &part);
    return frame_return(&f, e);
}

int s3r_upload_add_part(struct s3r_upload *upload, unsigned number, uint64_t len, const char *etag,
                        uint64_t crc64)
{
    struct client_part part = {.number = number, .len = len, .crc64 = crc64, .has_crc64 = true};
    if (number < 1 || number > LIMIT_PARTS_MAX || len > LIMIT_PART_LEN_MAX || etag == NULL ||
        !etag_unquote(etag, strlen(etag), part.etag) || part.etag[0] == '\0')
        return S3R_ERROR_INVALID_ARGUMENT;
    return api_error(api_upload_keep(upload, &part), 0);
}

int s3r_upload_complete(struct s3r_upload *upload, const struct s3r_options *options,
                        struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, options, result);
    int e = frame_need(&f, upload->count > 0, "part");
    if (e != 0)
        return frame_return(&f, e);
    do
        e = client_upload_complete(upload->client->core, upload->bucket, upload->key, upload->id,
                                   upload->parts, upload->count, &f.options, f.diag, f.core);
    while (frame_again(&f, e));
    return frame_return(&f, e);
}

int s3r_upload_abort(struct s3r_upload *upload, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    return frame_return(&f, client_upload_abort(upload->client->core, upload->bucket, upload->key,
                                                upload->id, f.diag));
}
