/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api.h"
#include "client/stream.h"

struct stream_options api_stream_options(const struct frame *f, const struct s3r_options *options)
{
    return (struct stream_options){
        .each = &f->options,
        .piece_len = options != NULL ? options->piece_len : 0,
        .in_flight = options != NULL ? options->in_flight : 0,
        .retries = f->retries_left,
    };
}

static int need(struct frame *f, const char *bucket, const char *key, bool has_function)
{
    int e = frame_need(f, bucket != NULL, "bucket");
    if (e == 0)
        e = frame_need(f, key != NULL, "key");
    return e == 0 ? frame_need(f, has_function, "function") : e;
}

int s3r_put_stream(struct s3r_client *client, const char *bucket, const char *key, uint64_t len,
                   s3r_read_fn *read, void *arg, const struct s3r_options *options,
                   struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, options, result);
    const struct stream_options how = api_stream_options(&f, options);
    int e = need(&f, bucket, key, read != NULL);
    if (e == 0)
        e = stream_put(client->core, bucket, key, len, read, arg, &how, f.diag, f.core);
    return frame_return(&f, e);
}

int s3r_get_stream(struct s3r_client *client, const char *bucket, const char *key, uint64_t off,
                   uint64_t len, s3r_write_fn *write, void *arg, const struct s3r_options *options,
                   struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, options, result);
    const struct stream_options how = api_stream_options(&f, options);
    int e = need(&f, bucket, key, write != NULL);
    if (e == 0)
        e = stream_get(client->core, bucket, key, off, len, write, arg, &how, f.diag, f.core);
    return frame_return(&f, e);
}
