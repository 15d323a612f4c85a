/* SPDX-License-Identifier: Apache-2.0 */
/* s3rdma.h - one-sided transfers between a server's memory and a client's: libs3rdma.so.0.
 *
 * The names, types, layouts and return values are those of the existing binaries of this SONAME;
 * the words are ours. Everything may be called from any thread. Handles are opaque ids: a stale,
 * doubly freed or foreign one is refused, never followed. Every free takes NULL.
 *
 * Devices, for `ip`, `device` and the variable S3RDMA_DEVICE: a verbs device (`mlx5_0`,
 * `mlx5_0:GID_INDEX`, `mlx5_0:PORT:GID_INDEX`), an IP address of either family (`[v6]:port`,
 * `fe80::1%eth0`), `cma` (one host), `ofi:PROVIDER`, `ofi:PROVIDER@ADDRESS[:PORT[-PORT]]`,
 * `ofi:PROVIDER@DOMAIN`; several, comma-separated; empty or a wildcard address: every verbs device
 * with an ACTIVE port. */
#ifndef S3RDMA_H
#define S3RDMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *S3RdmaHandle;
typedef void *S3RdmaBufHandle;
typedef void *S3RdmaClientHandle;

typedef struct {
    ssize_t size;       /* bytes moved, or -1 */
    int32_t ibv_status; /* a work completion status (ibv_wc_status): 0 is success */
} S3RdmaStatusC;

typedef struct {
    void *async_handle;
    ssize_t status; /* bytes moved, or -1 */
    int32_t ibv_status;
} S3RdmaAsyncEventC;

typedef struct {            /* defaults in parentheses */
    int num_dcis;           /* (256) */
    unsigned cq_depth;      /* (256) */
    uint64_t dc_key;        /* (0xffeeddcc) */
    uint8_t timeout;        /* (14) 4.096 us * 2^timeout until a packet is sent again */
    unsigned hop_limit;     /* (64) */
    int max_wr;             /* (256) */
    int max_sge;            /* (1) */
    uint8_t retry_cnt;      /* (7) */
    int service_level;      /* (0) */
    unsigned traffic_class; /* (0) */
    int pkey_index;         /* (0) */
} S3RdmaConfig;

/* Static; never freed. */
const char *s3rdma_version(void);
/* 1 when this host has a usable device, 0 if not; a summary or the reason goes to err, cut at
 * len - 1. */
int s3rdma_check_rdma(char *err, size_t len);
/* This thread's last error; returns the bytes written without the NUL. */
size_t s3rdma_last_error(char *buf, size_t len);

/* ---- the server: moves bytes between its registered buffers and clients' windows ---- */

/* NULL on failure. `ip` NULL: S3RDMA_DEVICE, else as empty. `port` is informational. cfg NULL: the
 * defaults; a value that is out of range is a failure that names it. Handles of a server cannot be
 * used in a forked child. */
S3RdmaHandle s3rdma_server_init(const char *ip, unsigned port);
S3RdmaHandle s3rdma_server_init_with_config(const char *ip, unsigned port, S3RdmaConfig *cfg);
/* The reason comes back in the call, for callers whose runtime moves threads. */
S3RdmaHandle s3rdma_server_init_with_config_err(const char *ip, unsigned port, S3RdmaConfig *cfg,
                                                char *err, size_t len);
/* Drains, then releases everything, buffers and registrations that were leaked included. */
void s3rdma_server_free(S3RdmaHandle server);
/* Rails; 0 for a bad handle. */
int s3rdma_server_nic_count(S3RdmaHandle server);

/* Registers on every rail; the memory stays the caller's. NULL on failure. */
S3RdmaBufHandle s3rdma_register_buffer(S3RdmaHandle server, void *buf, size_t size);
/* Waits for transfers of this buffer that are under way. */
void s3rdma_deregister_buffer(S3RdmaHandle server, S3RdmaBufHandle reg);
/* Page aligned, zeroed, not registered. NULL on failure. */
void *s3rdma_alloc_host_buffer(S3RdmaHandle server, size_t size);
void s3rdma_free_host_buffer(S3RdmaHandle server, void *buf);

/* Reads `size` bytes from the start of the token's window into reg + offset (a PUT). A blocking
 * call has its own answer and needs no channel: `channel` is not looked at. Any call ends within 30
 * s. */
S3RdmaStatusC s3rdma_put(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                         uint64_t offset, size_t size, uint16_t channel);
/* Writes `size` bytes from reg + offset to the start of the token's window (a GET). */
S3RdmaStatusC s3rdma_get(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                         uint64_t offset, size_t size, uint16_t channel);
/* Posted: status.size 0 and *async_handle set, or -1. One event on the channel carries the
 * handle, once; then s3rdma_async_handle_free(). The lesser of max_wr and cq_depth may be posted on
 * a channel and not yet polled. */
S3RdmaStatusC s3rdma_put_async(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                               uint64_t offset, size_t size, uint16_t channel, void **async_handle);
S3RdmaStatusC s3rdma_get_async(S3RdmaHandle server, S3RdmaBufHandle reg, const char *token,
                               uint64_t offset, size_t size, uint16_t channel, void **async_handle);
/* Events written (0: none yet), or negative. Does not wait. */
int s3rdma_poll(S3RdmaHandle server, S3RdmaAsyncEventC *events, int max, uint16_t channel);
void s3rdma_async_handle_free(void *async_handle);

/* 0xFFFF: none left. */
uint16_t s3rdma_allocate_channel(S3RdmaHandle server);
void s3rdma_free_channel(S3RdmaHandle server, uint16_t channel);

/* Pairs an RC queue with the client described, writes the server's descriptor; 0 or -1. Always -1
 * while this library has no verbs provider; s3rdma_last_error() says so. */
int s3rdma_rc_connect(S3RdmaHandle server, const char *client_desc, char *desc, size_t len);
/* Idempotent. */
void s3rdma_rc_disconnect(S3RdmaHandle server, uint32_t client_qp_num);

/* ---- the client: registers memory and mints tokens for windows of it ---- */

/* device NULL: S3RDMA_DEVICE, else every verbs device with an ACTIVE port. NULL on failure. */
S3RdmaClientHandle s3rdma_client_init(const char *device, char *err, size_t len);
/* Released once operations on other threads end. */
void s3rdma_client_free(S3RdmaClientHandle client);
/* 1 when tokens can be minted. */
int s3rdma_client_ready(S3RdmaClientHandle client);
/* Rails, and those usable now. */
int s3rdma_client_nic_count(S3RdmaClientHandle client);
int s3rdma_client_healthy_nic_count(S3RdmaClientHandle client);
/* The window is withdrawn at once, and the rail it names is skipped until it recovers; when none
 * is left all are tried again. 0, or -1: no such token. */
int s3rdma_client_report_token_failure(S3RdmaClientHandle client, const char *token);

/* Counted by address: registered twice needs two deregisters. 0 or -1, also of a GPU's memory that
 * no rail reaches (cma and ofi:tcp reach none). */
int s3rdma_client_register(S3RdmaClientHandle client, void *ptr, size_t size);
/* Waits for its windows to be fenced. 0, or -1: not registered. */
int s3rdma_client_deregister(S3RdmaClientHandle client, void *ptr);
/* A window of its own over exactly [offset, offset + size) of the region at ptr; rails in turn.
 * Size 0 is valid. 0 and a NUL-terminated token, or -1 and *token NULL. */
int s3rdma_client_get_token(S3RdmaClientHandle client, void *ptr, size_t size, size_t offset,
                            char **token);
/* Ends the window; one that a server may still write is fenced before this returns. What the server
 * replied is not known here, so over ofi:tcp that ends the connection of each that was used, and
 * the next one costs another; the client library (s3r/client.h) keeps it. */
void s3rdma_client_free_token(char *token);
/* 0 host, 1 CUDA managed, 2 CUDA device, 3 unknown. */
int s3rdma_client_memory_type(const void *ptr);

#ifdef __cplusplus
}
#endif

#endif
