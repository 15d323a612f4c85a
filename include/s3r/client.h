/* SPDX-License-Identifier: Apache-2.0 */
/* s3r/client.h - S3 objects into and out of a program's memory, by RDMA where it can be.
 *
 * A client speaks to one S3 endpoint. PUT, GET and the parts of uploads are offered to the server
 * as a window of the caller's memory that it reads or writes by itself; what stands in the way of
 * that leads to plain HTTP from or into the same memory, and the result says which it was and why.
 *
 *     struct s3r_config *config = s3r_config_new();
 *     struct s3r_result *result = s3r_result_new();
 *     struct s3r_client *client = NULL;
 *     s3r_config_set_endpoint(config, "http://127.0.0.1:9000");
 *     s3r_config_set_keys(config, "ACCESS", "SECRET", NULL);
 *     if (s3r_client_new(config, result, &client) == S3R_OK &&
 *         s3r_get(client, "bucket", "key", buffer, size, NULL, result) == S3R_OK)
 *         printf("%llu bytes by %s\n", (unsigned long long)s3r_result_len(result),
 *                s3r_transport_name(s3r_result_transport(result)));
 *     else
 *         puts(s3r_result_message(result));
 *
 * Units:   bytes; milliseconds where a name ends in _ms, nanoseconds in _ns, seconds in _s.
 * Text:    NUL-terminated UTF-8. What a call is given it copies, unless it says otherwise.
 * Owns:    what a `new` or `ret_` hands out is the caller's, for the `free` beside it; every free
 *          takes NULL. Text that an accessor returns lives as long as the object it was asked of
 *          (of a result: until the result is used again) and is never NULL unless it says so.
 * Memory:  that of a transfer is the caller's and must be neither changed (of a GET: nor read) nor
 *          freed until the call returns, or its completion was polled. One exception outlives the
 *          call: S3R_ERROR_RDMA_UNFENCED.
 * Threads: a client and a queue may be used by any number of threads at once; configurations,
 * options (while they are being set), results, pages by one at a time. An upload: s3r_upload_part()
 *          by any number. `free` of anything only when nobody uses it.
 * Forks:   a forked child may go on using its copy of a client, after the fork of a process with
 * many threads too: it gets connections, devices and registrations of its own. A queue's child copy
 *          can only be freed.
 * Errors:  0 (S3R_OK) or a negative enum s3r_error; results say more. `ret_` places are written on
 *          success only. A `result` argument may be NULL; a call overwrites what was in it. Options
 *          may be NULL: the defaults.
 * Numbers of all enums are fixed for ever; new ones may be added, so unknown ones are to be
 * expected.
 */
#ifndef S3R_CLIENT_H
#define S3R_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define S3R_API __attribute__((visibility("default")))
#define S3R_CHECKED __attribute__((warn_unused_result))
#else
#define S3R_API
#define S3R_CHECKED
#endif

struct s3r_config;
struct s3r_client;
struct s3r_options;
struct s3r_result;
struct s3r_upload;
struct s3r_page;
struct s3r_queue;

/* "0.1.0"; static. */
S3R_API const char *s3r_version(void);

/* ---- errors ---- */

enum s3r_error {
    S3R_OK = 0,
    /* this side */
    S3R_ERROR_NOMEM = -1,
    S3R_ERROR_INTERNAL = -2,         /* ours, or a limit of the system; the message says */
    S3R_ERROR_INVALID_ARGUMENT = -3, /* nothing was sent */
    S3R_ERROR_BUSY = -4,             /* a queue is full; or the server said SlowDown: later */
    S3R_ERROR_CANCELLED = -5,
    S3R_ERROR_ABORTED = -6, /* a callback of the caller's said stop */
    S3R_ERROR_UNSUPPORTED = -7,
    /* the way there */
    S3R_ERROR_TIMEOUT = -20,          /* the deadline, or nothing moved for the stall time */
    S3R_ERROR_HTTP = -21,             /* no connection, or it broke */
    S3R_ERROR_BAD_REPLY = -22,        /* not understood, or it contradicts the request */
    S3R_ERROR_RDMA_UNAVAILABLE = -23, /* no device here */
    S3R_ERROR_RDMA_REGISTER = -24,    /* the memory cannot be registered */
    S3R_ERROR_RDMA_REQUIRED = -25, /* S3R_RDMA_REQUIRED, and s3r_result_reason() stood in the way */
    /* A server that was stopped in the middle may write (of a PUT: read) the memory when it goes
     * on: it must be neither used nor freed for as long as the process lives. Not so a GPU's memory
     * that was staged, s3r_result_is_staged(): the copy is kept for that server instead. */
    S3R_ERROR_RDMA_UNFENCED = -26,
    S3R_ERROR_BUFFER_TOO_SMALL =
        -27,                  /* s3r_result_object_len() where it is known; nothing past the end */
    S3R_ERROR_CHECKSUM = -28, /* the bytes are not those that were stored or sent */
    S3R_ERROR_CHANGED = -29,  /* the object was replaced while its pieces were read */
    /* what the server said; s3r_result_s3_code() is its own word for it */
    S3R_ERROR_REMOTE = -100, /* any code that has no number here */
    S3R_ERROR_ACCESS_DENIED = -101,
    S3R_ERROR_INVALID_ACCESS_KEY = -102,
    S3R_ERROR_SIGNATURE = -103,
    S3R_ERROR_TIME_SKEWED = -104,
    S3R_ERROR_NO_SUCH_BUCKET = -105,
    S3R_ERROR_NO_SUCH_KEY = -106,
    S3R_ERROR_NO_SUCH_UPLOAD = -107,
    S3R_ERROR_NO_SUCH_VERSION = -108,
    S3R_ERROR_BUCKET_EXISTS = -109,
    S3R_ERROR_BUCKET_NOT_EMPTY = -110,
    S3R_ERROR_INVALID_BUCKET_NAME = -111, /* also found here, before anything is sent */
    S3R_ERROR_KEY_TOO_LONG = -112,        /* likewise */
    S3R_ERROR_PRECONDITION = -113,        /* if-match, if-none-match */
    S3R_ERROR_NOT_MODIFIED = -114,
    S3R_ERROR_CONFLICT = -115,
    S3R_ERROR_INVALID_RANGE = -116, /* it begins at or after the object's end */
    S3R_ERROR_ENTITY_TOO_LARGE = -117,
    S3R_ERROR_ENTITY_TOO_SMALL = -118,
    S3R_ERROR_INVALID_PART = -119,
    S3R_ERROR_INVALID_REQUEST = -120,
    S3R_ERROR_METHOD_NOT_ALLOWED = -121,
    S3R_ERROR_STORE_FULL = -122,
    S3R_ERROR_UNAVAILABLE = -123 /* shutting down, or read-only after a fault */
};

/* "NO_SUCH_KEY"; "UNKNOWN" for what is none. Static. */
S3R_API const char *s3r_error_name(int error);
/* A sentence, the same for each; s3r_result_message() says what happened. Static. */
S3R_API const char *s3r_error_text(int error);
/* Can the same call, made again later, succeed without anybody having changed anything? */
S3R_API int s3r_error_is_transient(int error);

/* ---- what carried the bytes ---- */

enum s3r_transport { S3R_TRANSPORT_NONE = 0, S3R_TRANSPORT_RDMA = 1, S3R_TRANSPORT_HTTP = 2 };

/* Why it was not RDMA. */
enum s3r_reason {
    S3R_REASON_NONE = 0,
    S3R_REASON_OFF = 1,        /* the caller wanted none */
    S3R_REASON_NO_DEVICE = 2,  /* nothing here to open, or no registration */
    S3R_REASON_TOO_LARGE = 3,  /* for one window */
    S3R_REASON_DECLINED = 4,   /* the server said 501 */
    S3R_REASON_REFUSED = 5,    /* the server found the token or the size wrong */
    S3R_REASON_IGNORED = 6,    /* the server took no notice of the token */
    S3R_REASON_FAILED = 7,     /* the transfer began and failed */
    S3R_REASON_BAD_REPLY = 8,  /* it contradicts itself or the request */
    S3R_REASON_SERVER = 9,     /* another error of the server's */
    S3R_REASON_SILENT = 10,    /* no reply in time */
    S3R_REASON_LOST = 11,      /* no connection, or it broke */
    S3R_REASON_CHECKSUM = 12,  /* the bytes that arrived were not the object's */
    S3R_REASON_THRESHOLD = 13, /* fewer bytes than s3r_options_set_http_below() */
    S3R_REASON_MIXED = 14 /* of several pieces some went by RDMA, the last reason is in words */
};

/* "none", "rdma", "http" and "none", "off", "no-device", ...; "unknown". Static. */
S3R_API const char *s3r_transport_name(int transport);
S3R_API const char *s3r_reason_name(int reason);

/* ---- results: what became of a call ---- */

/* NULL: no memory. One can be used for many calls, one after the other. */
S3R_API struct s3r_result *s3r_result_new(void);
S3R_API void s3r_result_free(struct s3r_result *result);

/* What the call returned. */
S3R_API int s3r_result_error(const struct s3r_result *result);
/* For a person: what happened, with the server's words and request id. "" after a success. */
S3R_API const char *s3r_result_message(const struct s3r_result *result);
/* "NoSuchKey", ...: the code of the server's error document, else the S3 code that fits the error,
 * "" where none does. */
S3R_API const char *s3r_result_s3_code(const struct s3r_result *result);
/* HTTP status of the last reply; 0: there was none, or the call had no result of its own to tell.
 */
S3R_API int s3r_result_status(const struct s3r_result *result);

/* The rest is about transfers (and s3r_stat(): object length, ETag, version, checksum, headers);
 * filled as far as known after an error, too. */
S3R_API enum s3r_transport s3r_result_transport(const struct s3r_result *result);
/* "cma", "ofi", "dc": what the last window was of; "" when there was none. */
S3R_API const char *s3r_result_provider(const struct s3r_result *result);
S3R_API enum s3r_reason s3r_result_reason(const struct s3r_result *result);
/* The reason in words, "" for S3R_REASON_NONE. */
S3R_API const char *s3r_result_reason_text(const struct s3r_result *result);
/* Bytes moved. */
S3R_API uint64_t s3r_result_len(const struct s3r_result *result);
/* The whole object's, where the reply says it, else 0. */
S3R_API uint64_t s3r_result_object_len(const struct s3r_result *result);
/* Without quotes; "" when the reply had none. */
S3R_API const char *s3r_result_etag(const struct s3r_result *result);
S3R_API const char *s3r_result_version_id(const struct s3r_result *result);
/* The whole object's (of a part: the part's) CRC-64/NVME. 0: not known, nothing is written. */
S3R_API int s3r_result_crc64(const struct s3r_result *result, uint64_t *ret_crc64);
/* The same in base64, as S3 writes it; "" when it is not known. */
S3R_API const char *s3r_result_crc64_text(const struct s3r_result *result);
/* 1: a checksum was compared with the bytes, here (GET) or by the server before it committed
 * (PUT). */
S3R_API int s3r_result_is_verified(const struct s3r_result *result);
/* 1: the memory is a GPU's, and the bytes took the way through a copy in host memory. */
S3R_API int s3r_result_is_staged(const struct s3r_result *result);
/* Sent on the wire. */
S3R_API unsigned s3r_result_requests(const struct s3r_result *result);
S3R_API int64_t s3r_result_elapsed_ns(const struct s3r_result *result);
/* Of the last reply; `name` in any case; the first of several. NULL: there is none. */
S3R_API const char *s3r_result_header(const struct s3r_result *result, const char *name);
S3R_API size_t s3r_result_header_count(const struct s3r_result *result);
/* Names in lower case, in the order of arrival. NULL from s3r_result_header_count() on. */
S3R_API const char *s3r_result_header_name(const struct s3r_result *result, size_t index);
S3R_API const char *s3r_result_header_value(const struct s3r_result *result, size_t index);
/* Of a completion: what was given when it was submitted. */
S3R_API uint64_t s3r_result_cookie(const struct s3r_result *result);

/* ---- configuration ----
 * Setters return S3R_OK or S3R_ERROR_NOMEM; values are judged by s3r_client_new(). NULL or "" takes
 * a value back. */

/* NULL: no memory. */
S3R_API struct s3r_config *s3r_config_new(void);
S3R_API void s3r_config_free(struct s3r_config *config);
/* "http://HOST[:PORT]", "https://...", or "HOST[:PORT]", see below. Not set: AWS_ENDPOINT_URL_S3,
 * AWS_ENDPOINT_URL, or the profile's, where credentials come from there. */
S3R_API int s3r_config_set_endpoint(struct s3r_config *config, const char *endpoint);
/* Of an endpoint without a scheme: 1 https, 0 http (the default). */
S3R_API int s3r_config_set_tls(struct s3r_config *config, int is_tls);
/* Not set: the profile's or the environment's where credentials come from there, else us-east-1. */
S3R_API int s3r_config_set_region(struct s3r_config *config, const char *region);
/* `session_token` may be NULL. Credentials are then S3R_CREDENTIALS_STATIC. */
S3R_API int s3r_config_set_keys(struct s3r_config *config, const char *access_key,
                                const char *secret_key, const char *session_token);

enum s3r_credentials {
    S3R_CREDENTIALS_STATIC = 0, /* s3r_config_set_keys() */
    /* AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else MINIO_ACCESS_KEY and
     * MINIO_SECRET_KEY, else MINIO_ROOT_USER and MINIO_ROOT_PASSWORD, else S3RDMA_ROOT_USER and
     * S3RDMA_ROOT_PASSWORD */
    S3R_CREDENTIALS_ENVIRONMENT = 1,
    S3R_CREDENTIALS_FILES = 2,  /* ~/.aws/credentials and ~/.aws/config, or where
                                   AWS_SHARED_CREDENTIALS_FILE  and AWS_CONFIG_FILE say */
    S3R_CREDENTIALS_DEFAULT = 3 /* the environment, else the files: what AWS tools do */
};

/* `profile` of the files; NULL: AWS_PROFILE, else "default". Read by s3r_client_new(). */
S3R_API int s3r_config_set_credentials(struct s3r_config *config, enum s3r_credentials from,
                                       const char *profile);
/* Certificates to trust in PEM instead of the system's. */
S3R_API int s3r_config_set_ca_file(struct s3r_config *config, const char *path);
/* Not set: none, whatever the environment says. */
S3R_API int s3r_config_set_proxy(struct s3r_config *config, const char *url);
/* RDMA devices: "mlx5_0", "cma", "ofi:tcp@ADDRESS", ...; several, comma-separated. Not set:
 * S3RDMA_DEVICE, else the adapters there are. */
S3R_API int s3r_config_set_devices(struct s3r_config *config, const char *devices);
/* 0: never RDMA. 1 is the default. */
S3R_API int s3r_config_set_rdma(struct s3r_config *config, int is_on);
/* Until a connection stands; 0: 5,000. */
S3R_API int s3r_config_set_connect_ms(struct s3r_config *config, int64_t connect_ms);
/* How long one reply to a request with a token is waited for, which the server is told; 0: 10,000.
 */
S3R_API int s3r_config_set_patience_ms(struct s3r_config *config, int64_t patience_ms);
/* A request by HTTP ends when nothing has moved for so long; 0: 120,000. */
S3R_API int s3r_config_set_stall_ms(struct s3r_config *config, int64_t stall_ms);

/* ---- clients ---- */

/* Opens nothing yet: connections and devices come with the first call that needs them. The
 * configuration may be freed afterwards. */
S3R_API int s3r_client_new(const struct s3r_config *config, struct s3r_result *result,
                           struct s3r_client **ret_client) S3R_CHECKED;
/* Deregisters what is still registered; its queues, uploads and memory (s3r_alloc()) are freed
 * before. */
S3R_API void s3r_client_free(struct s3r_client *client);

/* Opens the RDMA devices, as the first transfer would: S3R_ERROR_RDMA_UNAVAILABLE says why not. */
S3R_API int s3r_client_open_devices(struct s3r_client *client,
                                    struct s3r_result *result) S3R_CHECKED;
/* Rails (a device, a port, an address) that are open, and those usable now. Opens the devices. */
S3R_API int s3r_client_rail_count(struct s3r_client *client);
S3R_API int s3r_client_healthy_rail_count(struct s3r_client *client);
/* One line about a rail, cut to `size`; "" when there is no such rail. */
S3R_API void s3r_client_rail_describe(struct s3r_client *client, int rail, char *out, size_t size);
/* The gauge: bytes of memory that this client has registered in this process now, for calls under
 * way included. NULL: all clients' together, those of miniocpp/c_api.h too. */
S3R_API uint64_t s3r_registered_bytes(struct s3r_client *client);

/* ---- memory ----
 * Transfers work with any memory. What was not registered before is, for the time of the call,
 * which costs time; a transfer finds by itself whether its memory lies inside registered memory.
 *
 * A GPU's memory (CUDA's) may be given wherever memory is. Where a rail can reach it, it is
 * registered as it is, and no checksum of it is computed here: see s3r_result_is_verified().
 * Otherwise, and for HTTP, the bytes take the way through a copy in host memory, made for the call:
 * s3r_result_is_staged(). Managed memory counts as the host's, but is staged for adapters. Work
 * that the GPU does on the memory has ended before the call. */

/* Registers [ptr, ptr + len) until s3r_deregister(). Counted: the same memory registered twice is
 * deregistered twice; the same address with another length is S3R_ERROR_INVALID_ARGUMENT. S3R_OK
 * too where there is no device to register with (transfers then go by HTTP and say why), and of a
 * GPU's memory that no device takes (they then take a copy). */
S3R_API int s3r_register(struct s3r_client *client, void *ptr, size_t len,
                         struct s3r_result *result) S3R_CHECKED;
/* No transfer uses it. S3R_ERROR_INVALID_ARGUMENT: it was not registered. S3R_ERROR_RDMA_UNFENCED:
 * it still is. */
S3R_API int s3r_deregister(struct s3r_client *client, void *ptr, struct s3r_result *result);
/* Zeroed memory from a page boundary, registered until s3r_free(). NULL: no memory (or none that
 * may be locked), or `len` 0. */
S3R_API void *s3r_alloc(struct s3r_client *client, size_t len) S3R_CHECKED;
/* No transfer uses it. What a server may still write (S3R_ERROR_RDMA_UNFENCED) is kept for good. */
S3R_API void s3r_free(struct s3r_client *client, void *ptr);

/* ---- options of a call ----
 * Setters return S3R_OK, S3R_ERROR_NOMEM or S3R_ERROR_INVALID_ARGUMENT. One may be used by many
 * calls, at the same time too, as long as nobody sets anything; a submit keeps what it needs, so
 * that they may be freed after it. */

/* NULL: no memory. */
S3R_API struct s3r_options *s3r_options_new(void);
S3R_API void s3r_options_free(struct s3r_options *options);

enum s3r_rdma {
    S3R_RDMA_AUTO = 0,     /* RDMA, else HTTP */
    S3R_RDMA_REQUIRED = 1, /* S3R_ERROR_RDMA_REQUIRED instead of HTTP */
    S3R_RDMA_OFF = 2
};
S3R_API int s3r_options_set_rdma(struct s3r_options *options, enum s3r_rdma mode);
/* 0: a GET's bytes are not compared with the object's checksum, nor its length with that of memory
 * which they fill (there are servers that cut). 1 is the default: done for whole objects in memory
 * that the CPU can read (there is no checksum of a range). */
S3R_API int s3r_options_set_verify(struct s3r_options *options, int is_on);
/* For the whole call, retries and fallback included, or from the submit of a transfer on, whose
 * turn may not have come then; S3R_ERROR_TIMEOUT after it. 0: none (the client's times for each
 * request hold anyway). */
S3R_API int s3r_options_set_deadline_ms(struct s3r_options *options, int64_t deadline_ms);
/* How often a call that failed with a transient error is done again, with growing pauses; 0 is the
 * default. A PUT with if-match or if-none-match is not: the first may have been done. */
S3R_API int s3r_options_set_retries(struct s3r_options *options, unsigned retries);
/* Transfers of fewer bytes go by HTTP at once. 0, the default: none does. */
S3R_API int s3r_options_set_http_below(struct s3r_options *options, uint64_t bytes);
/* 1: S3R_ERROR_BUFFER_TOO_SMALL without asking by HTTP for the object's size, when the server
 * refused the window. */
S3R_API int s3r_options_set_exact(struct s3r_options *options, int is_on);
/* An ETag with or without quotes, or "*". NULL or "": none. */
S3R_API int s3r_options_set_if_match(struct s3r_options *options, const char *etag);
S3R_API int s3r_options_set_if_none_match(struct s3r_options *options, const char *etag);
/* Of a PUT or upload: "content-type", "cache-control", "x-amz-tagging", ... One of each name; NULL
 * takes it back. Those that the library sets itself are S3R_ERROR_INVALID_ARGUMENT. */
S3R_API int s3r_options_set_header(struct s3r_options *options, const char *name,
                                   const char *value);
/* The same for "x-amz-meta-" + name. */
S3R_API int s3r_options_set_metadata(struct s3r_options *options, const char *name,
                                     const char *value);
/* Called with the bytes moved so far of a request by HTTP, and at the end of one by RDMA; from any
 * thread, so it must be quick. NULL: none. */
S3R_API int s3r_options_set_progress(struct s3r_options *options,
                                     void (*fn)(void *arg, uint64_t bytes), void *arg);
/* Asked now and then, from any thread; not 0: the call ends with S3R_ERROR_CANCELLED. NULL: none.
 */
S3R_API int s3r_options_set_cancel(struct s3r_options *options, int (*fn)(void *arg), void *arg);
/* Of streams and of objects that are larger than one piece: the length of a piece (5 MiB to 4 GiB -
 * 1 of a PUT; 0: 16 MiB for streams, 256 MiB for memory) and how many are in flight (1 to 100; 0:
 * 4). A stream pins at most their product. */
S3R_API int s3r_options_set_pieces(struct s3r_options *options, uint64_t piece_len,
                                   unsigned in_flight);

/* ---- objects ---- */

/* Memory as an object. Its CRC-64/NVME goes along and is compared by the server before it commits.
 * More than 4 GiB - 1 go as a multipart upload by itself; `len` 0 is an empty object (ptr may be
 * NULL). */
S3R_API int s3r_put(struct s3r_client *client, const char *bucket, const char *key, const void *ptr,
                    size_t len, const struct s3r_options *options,
                    struct s3r_result *result) S3R_CHECKED;
/* A whole object into memory of `size` bytes; s3r_result_len() says how many it has. A larger one
 * is S3R_ERROR_BUFFER_TOO_SMALL. More than 4 GiB - 1 are read in ranges by itself. */
S3R_API int s3r_get(struct s3r_client *client, const char *bucket, const char *key, void *ptr,
                    size_t size, const struct s3r_options *options,
                    struct s3r_result *result) S3R_CHECKED;
/* Bytes [off, off + len) of an object into ptr, which may lie anywhere in registered memory. A
 * range past the object's end is cut (s3r_result_len() says); `len` 0 asks nobody. */
S3R_API int s3r_get_range(struct s3r_client *client, const char *bucket, const char *key,
                          uint64_t off, void *ptr, size_t len, const struct s3r_options *options,
                          struct s3r_result *result) S3R_CHECKED;
S3R_API int s3r_stat(struct s3r_client *client, const char *bucket, const char *key,
                     const struct s3r_options *options, struct s3r_result *result) S3R_CHECKED;
/* Of a key that is not there: S3R_OK, as S3 has it. */
S3R_API int s3r_delete(struct s3r_client *client, const char *bucket, const char *key,
                       const struct s3r_options *options, struct s3r_result *result) S3R_CHECKED;

/* ---- streams ---- */

#define S3R_UNKNOWN UINT64_MAX

/* Fills up to `size` bytes (more than 0); returns how many, 0 at the end, negative to give up. */
typedef int64_t s3r_read_fn(void *arg, void *buf, size_t size);
/* Takes all of it: 0, or anything else to give up. */
typedef int s3r_write_fn(void *arg, const void *buf, size_t len);

/* An object from a function, in pieces that are in flight together, in registered memory of the
 * library's that is bounded: s3r_options_set_pieces(). `len` S3R_UNKNOWN: until the function says
 * 0; another number of bytes than `len` is S3R_ERROR_ABORTED. Nothing is stored after an error. The
 * function is called by one thread at a time, the caller's. */
S3R_API int s3r_put_stream(struct s3r_client *client, const char *bucket, const char *key,
                           uint64_t len, s3r_read_fn *read, void *arg,
                           const struct s3r_options *options,
                           struct s3r_result *result) S3R_CHECKED;
/* Bytes [off, off + len) of an object to a function, in order; `len` S3R_UNKNOWN: to the end.
 * S3R_ERROR_CHANGED: it was replaced meanwhile. */
S3R_API int s3r_get_stream(struct s3r_client *client, const char *bucket, const char *key,
                           uint64_t off, uint64_t len, s3r_write_fn *write, void *arg,
                           const struct s3r_options *options,
                           struct s3r_result *result) S3R_CHECKED;

/* ---- multipart uploads ---- */

/* Of the options only headers, deadline and retries matter. */
S3R_API int s3r_upload_create(struct s3r_client *client, const char *bucket, const char *key,
                              const struct s3r_options *options, struct s3r_result *result,
                              struct s3r_upload **ret_upload) S3R_CHECKED;
/* One that was begun earlier, perhaps by another process. The parts it has are told with
 * s3r_upload_add_part(). */
S3R_API int s3r_upload_open(struct s3r_client *client, const char *bucket, const char *key,
                            const char *upload_id, struct s3r_result *result,
                            struct s3r_upload **ret_upload) S3R_CHECKED;
S3R_API const char *s3r_upload_id(const struct s3r_upload *upload);
/* Part 1 to 10,000; all but the last have at least 5 MiB. The same number again replaces it. */
S3R_API int s3r_upload_part(struct s3r_upload *upload, unsigned number, const void *ptr, size_t len,
                            const struct s3r_options *options,
                            struct s3r_result *result) S3R_CHECKED;
S3R_API int s3r_upload_add_part(struct s3r_upload *upload, unsigned number, uint64_t len,
                                const char *etag, uint64_t crc64) S3R_CHECKED;
/* No part is under way. The result has the object's length, ETag and checksum. Of the options
 * if-match, if-none-match, deadline and retries matter. */
S3R_API int s3r_upload_complete(struct s3r_upload *upload, const struct s3r_options *options,
                                struct s3r_result *result) S3R_CHECKED;
S3R_API int s3r_upload_abort(struct s3r_upload *upload, struct s3r_result *result) S3R_CHECKED;
/* Only here: on the server it goes on. */
S3R_API void s3r_upload_free(struct s3r_upload *upload);

/* ---- buckets and listings ---- */

S3R_API int s3r_bucket_create(struct s3r_client *client, const char *bucket,
                              struct s3r_result *result) S3R_CHECKED;
S3R_API int s3r_bucket_delete(struct s3r_client *client, const char *bucket,
                              struct s3r_result *result) S3R_CHECKED;
/* 1 or 0; an answer that is neither (access denied, ...) is an error. */
S3R_API int s3r_bucket_exists(struct s3r_client *client, const char *bucket,
                              struct s3r_result *result, int *ret_exists) S3R_CHECKED;
S3R_API int s3r_bucket_list(struct s3r_client *client, struct s3r_result *result,
                            struct s3r_page **ret_page) S3R_CHECKED;
/* One page of objects in the order of their keys. `prefix` and `delimiter` may be NULL; `token`
 * NULL for the first page, then s3r_page_next_token(). `max` 0: as many as the server gives
 * (1,000). */
S3R_API int s3r_list(struct s3r_client *client, const char *bucket, const char *prefix,
                     const char *delimiter, const char *token, unsigned max,
                     struct s3r_result *result, struct s3r_page **ret_page) S3R_CHECKED;
S3R_API void s3r_page_free(struct s3r_page *page);
S3R_API size_t s3r_page_count(const struct s3r_page *page);
/* Of row `index`: the bucket, the key, or the common prefix. NULL from s3r_page_count() on. */
S3R_API const char *s3r_page_name(const struct s3r_page *page, size_t index);
S3R_API int s3r_page_is_prefix(const struct s3r_page *page, size_t index);
S3R_API uint64_t s3r_page_len(const struct s3r_page *page, size_t index);
S3R_API const char *s3r_page_etag(const struct s3r_page *page, size_t index);
/* As the server prints it, "2026-01-02T03:04:05.678Z". */
S3R_API const char *s3r_page_time(const struct s3r_page *page, size_t index);
/* NULL: this is the last. */
S3R_API const char *s3r_page_next_token(const struct s3r_page *page);

/* ---- links ---- */

/* A link that lets whoever has it do `method` ("GET", "PUT", "HEAD", "DELETE") on the object until
 * it expires, at most 604,800 s from now. Nothing is sent. For s3r_text_free(). */
S3R_API int s3r_presign(struct s3r_client *client, const char *method, const char *bucket,
                        const char *key, int64_t expires_s, struct s3r_result *result,
                        char **ret_url) S3R_CHECKED;
S3R_API void s3r_text_free(char *text);

/* ---- asynchronous transfers ----
 * Submitted transfers are under way together; each ends as one completion in its queue, once, after
 * an error and a cancellation too. Their order is not kept. */

/* `depth`: how many may be submitted and not yet polled (0: 1,024; at most 1,048,576); `in_flight`:
 * how many of them are under way at a time (0: 16; at most 256), the rest waits its turn. The
 * client outlives its queues. */
S3R_API int s3r_queue_new(struct s3r_client *client, unsigned depth, unsigned in_flight,
                          struct s3r_result *result, struct s3r_queue **ret_queue) S3R_CHECKED;
/* Cancels what is under way, waits for its end, and drops completions that nobody polled. */
S3R_API void s3r_queue_free(struct s3r_queue *queue);
/* Readable while completions wait, for poll() and epoll; never to be read, written or closed. */
S3R_API int s3r_queue_fd(const struct s3r_queue *queue);
/* Up to `max` completions, each a result with its cookie, which the caller frees. Returns how many:
 * 0 after `timeout_ms` (0: does not wait; negative: without an end) or when nothing is submitted.
 */
S3R_API int s3r_queue_poll(struct s3r_queue *queue, struct s3r_result **results, int max,
                           int64_t timeout_ms);
/* Submitted and not yet polled. */
S3R_API unsigned s3r_queue_pending(const struct s3r_queue *queue);
/* All that have this cookie and have not ended; returns how many. Each still ends as a completion:
 * S3R_ERROR_CANCELLED, or what it was when that came too late. */
S3R_API unsigned s3r_queue_cancel(struct s3r_queue *queue, uint64_t cookie);
S3R_API unsigned s3r_queue_cancel_all(struct s3r_queue *queue);

/* As the calls without submit. S3R_ERROR_BUSY: `depth` are pending; poll. After an error there is
 * no completion. Memory is larger than 4 GiB - 1: S3R_ERROR_ENTITY_TOO_LARGE, as nothing is split.
 */
S3R_API int s3r_submit_put(struct s3r_queue *queue, const char *bucket, const char *key,
                           const void *ptr, size_t len, const struct s3r_options *options,
                           uint64_t cookie) S3R_CHECKED;
S3R_API int s3r_submit_get(struct s3r_queue *queue, const char *bucket, const char *key, void *ptr,
                           size_t size, const struct s3r_options *options,
                           uint64_t cookie) S3R_CHECKED;
S3R_API int s3r_submit_get_range(struct s3r_queue *queue, const char *bucket, const char *key,
                                 uint64_t off, void *ptr, size_t len,
                                 const struct s3r_options *options, uint64_t cookie) S3R_CHECKED;
/* The upload outlives its parts. */
S3R_API int s3r_submit_part(struct s3r_queue *queue, struct s3r_upload *upload, unsigned number,
                            const void *ptr, size_t len, const struct s3r_options *options,
                            uint64_t cookie) S3R_CHECKED;

#ifdef __cplusplus
}
#endif

#endif
