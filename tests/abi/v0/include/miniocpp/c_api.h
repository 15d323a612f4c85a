/* SPDX-License-Identifier: Apache-2.0 */
/* c_api.h - objects of an S3 server to and from memory, by RDMA where it can be: libminiocpp.so.
 *
 * The names, types and values are those that the Go and Python SDKs are compiled against; the words
 * are ours. Everything may be called from any thread, and from a forked child. A client is an
 * opaque id: one that was freed or never made is refused, never followed. Every free takes NULL.
 *
 * Devices: the variable S3RDMA_DEVICE, else every adapter with an ACTIVE port (s3rdma.h says how
 * they are named). Where RDMA cannot be used the bytes travel by HTTP, from or into the same
 * memory. */
#ifndef MINIOCPP_C_API_H
#define MINIOCPP_C_API_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct miniocpp_client miniocpp_client;

#define MINIOCPP_ERR_GENERIC (-1)       /* miniocpp_last_error() says what */
#define MINIOCPP_ERR_RDMA_DECLINED (-2) /* never from this library: it goes on by HTTP */
#define MINIOCPP_ERR_INVALID_ARG (-3)   /* the call itself is wrong; the same */

/* The next bytes of an upload into `buf`: how many (1 to `size`), 0 at the end, negative: stop. */
typedef ssize_t (*miniocpp_read_cb)(void *userdata, char *buf, size_t size);
/* The next bytes of a download. Must return `size`; anything else stops. */
typedef ssize_t (*miniocpp_write_cb)(void *userdata, const char *buf, size_t size);

/* `endpoint` is `host[:port]`; `region` (us-east-1) and `session_token` may be NULL or "". NULL on
 * failure. With use_https the server's certificate is checked against the file that SSL_CERT_FILE
 * names, else against the system's. */
miniocpp_client *miniocpp_client_new(const char *endpoint, const char *region,
                                     const char *access_key, const char *secret_key,
                                     const char *session_token, int use_https);
/* The same. `skip_cert_check`: whoever answers is believed. `ca_file`: NULL or "" as above. */
miniocpp_client *miniocpp_client_new_tls(const char *endpoint, const char *region,
                                         const char *access_key, const char *secret_key,
                                         const char *session_token, int use_https,
                                         int skip_cert_check, const char *ca_file);
/* Returns when calls of other threads have ended. */
void miniocpp_client_free(miniocpp_client *client);

/* An object from the `size` bytes at `buf`; more than 4 GiB - 1 go as a multipart upload by itself.
 * With `buf` NULL from `read_cb`: `size` bytes of it ((size_t)-1: until it says 0), in parts of 16
 * MiB, of which MINIOCPP_STREAM_INFLIGHT_PARTS (1 to 100, default 4) are in memory and in flight.
 * Its ETag, without quotes, and the base64 of its CRC-64/NVME go where these are not NULL. The
 * bytes stored, or an error, after which nothing is. */
ssize_t miniocpp_put_object(miniocpp_client *client, const char *bucket, const char *object,
                            void *buf, size_t size, miniocpp_read_cb read_cb, void *userdata,
                            char etag[64], char checksum[64]);
/* The whole object into the `size` bytes at `buf`. The object's bytes, or an error; an object that
 * does not fit is one, names both sizes, and nothing is written past the end of `buf`. With `buf`
 * NULL to `write_cb`, in order, in pieces as above; an object that is replaced meanwhile is an
 * error, and `size` is not looked at. */
ssize_t miniocpp_get_object(miniocpp_client *client, const char *bucket, const char *object,
                            void *buf, size_t size, miniocpp_write_cb write_cb, void *userdata);

/* Page-aligned, zeroed memory; NULL on failure. It is registered with each client that uses it,
 * once, and stays so until it is freed. Not to be freed while a call uses it. */
void *miniocpp_alloc_aligned(size_t size);
void miniocpp_free_aligned(void *ptr);

/* 1 when this host has a usable RDMA device. */
int miniocpp_rdma_available(void);
/* Devices that can be opened, and how many of them no client has seen fail lately. */
int miniocpp_rdma_nic_count(void);
int miniocpp_rdma_healthy_nic_count(void);

/* This thread's last error, NULL when there was none; valid until its next failing call. */
const char *miniocpp_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
