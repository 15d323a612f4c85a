/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - what the files behind s3r/client.h share.
 * Does:     the opaque structures; the frame of a call (result, options, deadline, retries); finds
 *           the registered memory that a transfer's lies in.
 * Not here: the calls; S3 (client.h).
 * Units:    bytes, milliseconds, `_ns` nanoseconds.
 * Owns:     as s3r/client.h says.
 * Threads:  as s3r/client.h says.
 * Errors:   inside S3R_E_..., handed out as enum s3r_error: frame_return().
 * Limits:   RETRIES_MAX. */
#ifndef S3R_CLIENT_API_H
#define S3R_CLIENT_API_H

#include "client/client.h"
#include "client/stream.h"
#include "s3r/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define RETRIES_MAX 100

struct engine;

/* Memory that the caller registered, or that s3r_alloc() made. */
struct api_region {
    char *ptr;
    size_t len;
    unsigned count;
    bool is_ours; /* mapped here */
    bool is_held; /* registered, in the process `pid` */
    pid_t pid;
};

/* Replaced as a whole, so that a fork at any moment leaves the child a whole one. */
struct api_regions {
    size_t count;
    struct api_region rows[]; /* by address */
};

struct s3r_client {
    struct client *core; /* fixed after create */
    _Atomic pid_t pid;   /* whose lock this is */
    pthread_mutex_t lock;
    struct api_regions *regions; /* lock */
    struct engine *engine;       /* lock until set: of this process, made with its first queue */
};

struct s3r_options {
    enum s3r_rdma rdma;
    bool is_unverified, is_exact;
    int64_t deadline_ms;
    unsigned retries;
    uint64_t http_below;
    char *if_match, *if_none_match;
    struct headers headers;
    void (*on_progress)(void *arg, uint64_t bytes);
    void *progress_arg;
    int (*is_cancelled)(void *arg);
    void *cancel_arg;
    uint64_t piece_len;
    unsigned in_flight;
};

struct s3r_result {
    struct client_result core;
    struct diag diag;
    int error; /* enum s3r_error */
    uint64_t cookie;
    char crc_text[16];
};

struct s3r_upload {
    struct s3r_client *client;
    char *bucket, *key, *id;
    pthread_mutex_t lock;
    struct client_part *parts; /* lock: by number */
    size_t count, cap;         /* lock */
};

/* enum s3r_error for a code of ours. `status` of the reply that said it, 0: none did. */
int api_error(int error, int status);
void api_result_reset(struct s3r_result *r);
/* Code, words and texts of a result that is filled otherwise. */
void api_result_finish(struct s3r_result *r, int error);

/* Deep; NULL gives the defaults. */
int api_options_copy(const struct s3r_options *from, struct s3r_options *ret_to) MUST_CHECK;
void api_options_fini(struct s3r_options *o);
/* As the core has them, for a call that begins now; they point into `o`, which may be NULL. */
struct client_options api_options(const struct s3r_options *o);

/* Lets go of what is the parent's in a forked child. */
void api_adopt(struct s3r_client *client);
/* The registered memory that [ptr, ptr + len) lies in, for struct client_memory; NULL: none. */
void *api_find_region(struct s3r_client *client, const void *ptr, size_t len);

/* ---- a blocking call ---- */

struct frame {
    struct s3r_result *result; /* the caller's, else `own` */
    struct diag *diag;
    struct client_result *core;
    struct client_options options;
    struct s3r_result own;
    unsigned retries_left;
    int64_t pause_ms, started_ns;
};

/* `result` and `options` may be NULL. */
void frame_begin(struct frame *f, const struct s3r_options *options, struct s3r_result *result);
/* After a try that ended with `error`: true when it is to be made once more (it has been waited).
 */
bool frame_again(struct frame *f, int error);
/* Fills the result; returns what the public call returns. */
int frame_return(struct frame *f, int error);
/* S3R_E_INVALID_ARGUMENT with words, unless all is there. */
int frame_need(struct frame *f, bool is_there, const char *what) MUST_CHECK;
/* May a call that ended so be made again? */
bool api_may_retry(int error, int status);
/* And may a PUT be, of which nobody knows whether it was done? Not under a condition, which the
 * first may have made untrue. */
bool api_may_retry_put(const struct client_options *options);
/* Longer each time; the first is 0. */
int64_t api_next_pause_ms(int64_t pause_ms);

/* Of streams and of memory that is split; `f` outlives it. */
struct stream_options api_stream_options(const struct frame *f, const struct s3r_options *options);

/* Memory of a transfer: what is NULL and empty becomes a place of no bytes. */
struct client_memory api_memory(struct s3r_client *client, const void *ptr, size_t len);

int api_upload_keep(struct s3r_upload *upload, const struct client_part *part) MUST_CHECK;

#endif
