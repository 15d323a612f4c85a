/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include "client/api.h"
#include "client/object.h"
#include "client/stream.h"

#include <stdlib.h>
#include <string.h>

static int need_names(struct frame *f, const char *bucket, const char *key)
{
    int e = frame_need(f, bucket != NULL, "bucket");
    return e == 0 ? frame_need(f, key != NULL, "key") : e;
}

static int need_all(struct frame *f, const char *bucket, const char *key, const void *ptr,
                    size_t len)
{
    int e = need_names(f, bucket, key);
    return e == 0 ? frame_need(f, ptr != NULL || len == 0, "memory") : e;
}

int s3r_put(struct s3r_client *client, const char *bucket, const char *key, const void *ptr,
            size_t len, const struct s3r_options *options, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, options, result);
    int e = need_all(&f, bucket, key, ptr, len);
    if (e != 0)
        return frame_return(&f, e);
    const struct client_memory m = api_memory(client, ptr, len);
    const struct stream_options how = api_stream_options(&f, options);
    /* of pieces each is tried again by itself */
    if (!api_may_retry_put(&f.options) || len > stream_whole_max(&how))
        f.retries_left = 0;
    do
        e = stream_put_memory(client->core, bucket, key, &m, &how, f.diag, f.core);
    while (frame_again(&f, e));
    return frame_return(&f, e);
}

static int get(struct s3r_client *client, const char *bucket, const char *key, uint64_t off,
               void *ptr, size_t len, const struct s3r_options *options, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, options, result);
    int e = need_all(&f, bucket, key, ptr, len);
    if (e != 0)
        return frame_return(&f, e);
    const struct client_memory m = api_memory(client, ptr, len);
    const struct stream_options how = api_stream_options(&f, options);
    if (len > stream_whole_max(&how))
        f.retries_left = 0;
    do
        e = stream_get_memory(client->core, bucket, key, off, &m, &how, f.diag, f.core);
    while (frame_again(&f, e));
    return frame_return(&f, e);
}

int s3r_get(struct s3r_client *client, const char *bucket, const char *key, void *ptr, size_t size,
            const struct s3r_options *options, struct s3r_result *result)
{
    return get(client, bucket, key, CLIENT_WHOLE, ptr, size, options, result);
}

int s3r_get_range(struct s3r_client *client, const char *bucket, const char *key, uint64_t off,
                  void *ptr, size_t len, const struct s3r_options *options,
                  struct s3r_result *result)
{
    /* The one number that means the whole to the core is beyond every object. */
    return get(client, bucket, key, off == CLIENT_WHOLE ? off - 1 : off, ptr, len, options, result);
}

static int simple(struct s3r_client *client, const char *method, const char *bucket,
                  const char *key, const struct s3r_options *options, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, options, result);
    int e = need_names(&f, bucket, key);
    if (e != 0)
        return frame_return(&f, e);
    do
        e = object_simple(client->core, method, bucket, key, &f.options, f.diag, f.core);
    while (frame_again(&f, e));
    return frame_return(&f, e);
}

int s3r_stat(struct s3r_client *client, const char *bucket, const char *key,
             const struct s3r_options *options, struct s3r_result *result)
{
    return simple(client, "HEAD", bucket, key, options, result);
}

int s3r_delete(struct s3r_client *client, const char *bucket, const char *key,
               const struct s3r_options *options, struct s3r_result *result)
{
    return simple(client, "DELETE", bucket, key, options, result);
}

int s3r_presign(struct s3r_client *client, const char *method, const char *bucket, const char *key,
                int64_t expires_s, struct s3r_result *result, char **ret_url)
{
    struct frame f;
    struct text url;
    frame_begin(&f, NULL, result);
    int e = need_names(&f, bucket, key);
    if (e == 0)
        e = frame_need(&f, method != NULL, "method");
    if (e == 0 && (expires_s < 1 || expires_s > LIMIT_PRESIGN_S_MAX))
        e = diag_fail(f.diag, S3R_E_INVALID_ARGUMENT, "a link lives for 1 to %d seconds",
                      LIMIT_PRESIGN_S_MAX);
    if (e != 0)
        return frame_return(&f, e);
    text_init(&url, 4 * LIMIT_TARGET_LEN_MAX);
    e = client_presign(client->core, method, bucket, key, expires_s, f.diag, &url);
    char *text = e == 0 ? text_take(&url) : NULL;
    text_fini(&url);
    if (e == 0 && text == NULL)
        e = S3R_E_NOMEM;
    if (e == 0)
        *ret_url = text;
    return frame_return(&f, e);
}

void s3r_text_free(char *text)
{
    free(text);
}
