/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - S3 calls of a program, with objects by RDMA where it can be and by HTTP otherwise.
 * Does:     buckets, objects, listings, multipart uploads, presigned links. PUT, GET and parts go
 *           through a window of the caller's memory; what stands in the way of that leads to plain
 *           HTTP from or into the same memory, and the result says which it was and why.
 * Not here: files, progress bars (tools/); handles and events of a public library.
 * Units:    bytes, milliseconds; `_ns` nanoseconds.
 * Owns:     buffers stay the caller's; results, pages and texts have their fini or are freed.
 * Threads:  any, but create and destroy; a result belongs to its caller. A forked child may go on
 *           using its copy: it gets connections and devices of its own, and registers anew.
 * Errors:   what the server said, by its S3 code (S3R_E_NO_SUCH_KEY, ..., S3R_E_REMOTE for codes we
 *           do not know); S3R_E_HTTP, S3R_E_TIMEOUT, S3R_E_BAD_REPLY, S3R_E_CANCELLED;
 *           S3R_E_RDMA_REQUIRED; S3R_E_BUFFER_TOO_SMALL; S3R_E_BAD_DIGEST;
 *           S3R_E_RDMA_UNFENCED: the memory may still be written, see client_get().
 * Limits:   base/limits.h; one window has at most LIMIT_DC_WINDOW_LEN_MAX bytes. */
#ifndef S3R_CLIENT_CLIENT_H
#define S3R_CLIENT_CLIENT_H

#include "base/attr.h"
#include "base/error.h"
#include "base/text.h"
#include "s3/etag.h"
#include "s3/headers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_CONNECT_MS 5000
#define CLIENT_PATIENCE_MS 10000 /* a server gives up a second before, unless told otherwise */
#define CLIENT_STALL_MS 120000

struct client;

struct client_config {
    const char *endpoint; /* http[s]://HOST[:PORT] */
    const char *region;   /* NULL: us-east-1 */
    const char *access_key, *secret_key;
    const char *session_token; /* NULL: none */
    const char *ca_file;       /* NULL: the system's */
    bool is_peer_unverified;   /* TLS without a look at the server's certificate */
    const char *proxy;         /* NULL: none */
    const char *devices;       /* NULL: S3RDMA_DEVICE, else the adapters there are */
    bool is_rdma_off;
    int64_t connect_ms, patience_ms, stall_ms; /* 0: the values above */
    /* Looked at while a request is under way; may be NULL. */
    bool (*is_cancelled)(void *arg);
    void *cancel_arg;
};

/* Opens nothing yet: connections and devices come with the first call that needs them. */
int client_create(const struct client_config *config, struct diag *diag,
                  struct client **ret_client) MUST_CHECK;
/* No call is running. Memory that a server may still write is left registered, for good. */
void client_destroy(struct client *c);
void client_destroyp(struct client **c);

/* Memory that many calls use: registered once, counted. 0 also where there is no device (the calls
 * say then why they went by HTTP). */
int client_register(struct client *c, void *ptr, size_t len, struct diag *diag) MUST_CHECK;
/* Not 0: it was not registered, or (S3R_E_BUSY) a stopped server may still write it: it stays so.
 */
int client_deregister(struct client *c, void *ptr);

enum client_transport { CLIENT_NONE, CLIENT_RDMA, CLIENT_HTTP };

/* Why the bytes did not go by RDMA. */
enum client_reason {
    CLIENT_REASON_NONE,
    CLIENT_REASON_OFF,       /* the caller wanted none */
    CLIENT_REASON_NO_DEVICE, /* nothing here to open, or no registration */
    CLIENT_REASON_TOO_LARGE, /* for one window */
    CLIENT_REASON_DECLINED,  /* the server said 501 */
    CLIENT_REASON_REFUSED,   /* the server found the token or the size wrong */
    CLIENT_REASON_IGNORED,   /* the server took no notice of the token */
    CLIENT_REASON_FAILED,    /* the transfer began and failed */
    CLIENT_REASON_BAD_REPLY, /* it contradicts itself or the request */
    CLIENT_REASON_SERVER,    /* another error of the server's */
    CLIENT_REASON_SILENT,    /* no reply in time */
    CLIENT_REASON_LOST,      /* no connection, or it broke */
    CLIENT_REASON_CHECKSUM,  /* the bytes that arrived are not the object's */
    CLIENT_REASON_THRESHOLD, /* fewer bytes than `http_below` */
    CLIENT_REASON_MIXED,     /* some pieces of several went by RDMA */
    CLIENT_REASONS
};

/* "none", "off", "no-device", ... */
const char *client_reason_name(enum client_reason reason);
const char *client_transport_name(enum client_transport transport);

/* What became of a call; all zeroes before it. Filled as far as known after an error, too. */
struct client_result {
    enum client_transport transport;
    char provider[16]; /* "cma", "ofi", ...: what the last token was for */
    enum client_reason reason;
    char why[S3R_DIAG_MAX]; /* the reason in words */
    uint64_t len;           /* bytes moved */
    uint64_t object_len;    /* the whole object's, where the reply says it */
    int status;             /* of the last reply */
    char s3_code[64];       /* of the error document that the call ended with; "": there was none */
    char etag[ETAG_SIZE];   /* without quotes; "" when there was none */
    bool has_crc64;         /* the reply named, or the call computed, the whole's */
    uint64_t crc64;
    bool is_verified;     /* a checksum was compared with the bytes */
    bool is_staged;       /* a GPU's memory, through a copy in the host's */
    bool has_moved_crc64; /* with is_crc_wanted, unless only a GPU can read the bytes */
    uint64_t moved_crc64;
    unsigned requests; /* sent on the wire */
    int64_t elapsed_ns;
    struct headers headers; /* of the last reply */
};

void client_result_fini(struct client_result *r);

/* How one transfer is done. All zeroes are the defaults. */
struct client_options {
    bool is_rdma_off, is_rdma_required;
    bool is_unverified; /* a GET's bytes are not compared with the object's checksum */
    bool is_crc_wanted; /* of the bytes moved, for moved_crc64 */
    bool is_exact; /* S3R_E_BUFFER_TOO_SMALL without asking by HTTP for an object's size when the
                      server refused the window */
    const char *if_match, *if_none_match; /* NULL: none */
    const struct headers *headers;        /* of a PUT: content-type, x-amz-meta-...; NULL: none */
    uint64_t http_below; /* memory of fewer bytes goes by HTTP, unless RDMA is required */
    int64_t deadline_ns; /* clock_mono_ns() at which the call ends in S3R_E_TIMEOUT; 0: none */
    bool (*is_cancelled)(void *arg); /* beside the client's; may be NULL */
    void *cancel_arg;
    void (*on_progress)(void *arg, uint64_t bytes);
    void *progress_arg;
};

/* Memory of a call. `region`: what client_register() was given that `ptr` lies in; NULL: it is
 * registered for this call. Not used by anything else until the call returns. A GPU's memory may be
 * given, too: it goes through a copy in host memory (which a server that was stopped then keeps,
 * and not the memory) unless a rail takes it as it is; then no checksum is computed here. */
struct client_memory {
    void *ptr;
    size_t len;
    void *region;
};

#define CLIENT_WHOLE UINT64_MAX

/* An object into memory: bytes [off, off + memory.len) of it, or for `off` CLIENT_WHOLE all of it,
 * which then must fit: S3R_E_BUFFER_TOO_SMALL names both sizes and nothing is written past the
 * end. A range past the object's end is cut; one of no bytes asks nobody. The checksum is compared
 * for a whole object only: there is none of a range.
 * S3R_E_RDMA_UNFENCED: a server that was stopped in the middle may write into the memory when it
 * goes on, so it must be neither used nor freed. */
int client_get(struct client *c, const char *bucket, const char *key, uint64_t off,
               const struct client_memory *memory, const struct client_options *options,
               struct diag *diag, struct client_result *result) MUST_CHECK;
/* Memory as an object. Its CRC-64/NVME goes along and is checked by the server before it commits.*/
int client_put(struct client *c, const char *bucket, const char *key,
               const struct client_memory *memory, const struct client_options *options,
               struct diag *diag, struct client_result *result) MUST_CHECK;
int client_stat(struct client *c, const char *bucket, const char *key, struct diag *diag,
                struct client_result *result) MUST_CHECK;
int client_delete(struct client *c, const char *bucket, const char *key, struct diag *diag,
                  struct client_result *result) MUST_CHECK;

/* ---- multipart uploads ---- */

struct client_part {
    unsigned number;
    uint64_t len, crc64;
    bool has_crc64;
    char etag[ETAG_SIZE];
};

/* The caller frees the upload id. Of the options only `headers` matter. */
int client_upload_create(struct client *c, const char *bucket, const char *key,
                         const struct client_options *options, struct diag *diag,
                         char **ret_upload_id) MUST_CHECK;
int client_upload_part(struct client *c, const char *bucket, const char *key, const char *upload_id,
                       unsigned number, const struct client_memory *memory,
                       const struct client_options *options, struct diag *diag,
                       struct client_result *result, struct client_part *ret_part) MUST_CHECK;
/* Parts in ascending order. Their checksums and that of the whole are checked by the server. */
int client_upload_complete(struct client *c, const char *bucket, const char *key,
                           const char *upload_id, const struct client_part *parts, size_t count,
                           const struct client_options *options, struct diag *diag,
                           struct client_result *result) MUST_CHECK;
int client_upload_abort(struct client *c, const char *bucket, const char *key,
                        const char *upload_id, struct diag *diag) MUST_CHECK;

/* ---- buckets and listings ---- */

int client_bucket_create(struct client *c, const char *bucket, struct diag *diag) MUST_CHECK;
int client_bucket_delete(struct client *c, const char *bucket, struct diag *diag) MUST_CHECK;
int client_bucket_exists(struct client *c, const char *bucket, struct diag *diag,
                         bool *ret_exists) MUST_CHECK;

struct client_entry {
    char *name; /* a bucket, a key, or a common prefix */
    size_t name_len;
    bool is_prefix;
    uint64_t len;
    char *time; /* as the server prints it */
    char etag[ETAG_SIZE];
};

struct client_page {
    struct client_entry *entries;
    size_t count;
    char *next_token; /* NULL: this is the last */
};

void client_page_fini(struct client_page *p);
int client_bucket_list(struct client *c, struct diag *diag,
                       struct client_page *ret_page) MUST_CHECK;
/* `delimiter` and `token` may be NULL. */
int client_object_list(struct client *c, const char *bucket, const char *prefix,
                       const char *delimiter, const char *token, struct diag *diag,
                       struct client_page *ret_page) MUST_CHECK;
/* At most `max` of them; 0: as many as the server gives. */
int client_object_list_max(struct client *c, const char *bucket, const char *prefix,
                           const char *delimiter, const char *token, unsigned max,
                           struct diag *diag, struct client_page *ret_page) MUST_CHECK;

/* ---- others ---- */

/* Appends a link that lets whoever has it do `method` on the object until it expires. */
int client_presign(const struct client *c, const char *method, const char *bucket, const char *key,
                   int64_t expires_s, struct diag *diag, struct text *out) MUST_CHECK;

/* Opens the devices, as a transfer would. */
int client_devices_open(struct client *c, struct diag *diag) MUST_CHECK;
/* After it. One line a rail. */
int client_rail_count(const struct client *c);
/* Those that are not skipped after a failure; -1 while no devices are open. */
int client_healthy_rail_count(struct client *c);
void client_rail_describe(struct client *c, int rail, char *out, size_t size);

#endif
