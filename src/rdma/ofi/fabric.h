/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.h - a libfabric domain on one local address, endpoints in it, memory in it.
 * Does:     asks libfabric for what both halves need and refuses a provider that lacks it; opens
 *           and closes endpoints with their queue; registers memory.
 * Not here: moving bytes (writer.h); windows (ofi_owner.c).
 * Units:    bytes; ports in host order.
 * Owns:     the caller what it opened; endpoints and regions go before their fabric.
 * Threads:  any for different endpoints; owner for one endpoint.
 * Errors:   S3R_E_RDMA_UNAVAILABLE, S3R_E_RDMA_REGISTER, S3R_E_NOMEM.
 * Limits:   names of TOKEN_OFI_NAME_LEN_MAX bytes. */
#ifndef S3R_RDMA_OFI_FABRIC_H
#define S3R_RDMA_OFI_FABRIC_H

#include "rdma/ofi/device.h"
#include "rdma/ofi/lib.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

/* Ranges of the owner's memory that an operation over a software wire names: see writer.c. */
#define OFI_RANGES 3

struct ofi_fabric {
    const struct ofi_lib *lib;
    struct fi_info *info;
    struct fid_fabric *fabric;
    bool is_clone; /* `fabric` is another's */
    struct fid_domain *domain;
    struct sockaddr_storage addr; /* is_ip devices: the address it is bound to, port 0 */
    bool must_drive;              /* nothing moves unless somebody looks into the queue */
    bool needs_local;             /* the sending side must register its memory */
    bool is_bound_to_endpoint;    /* regions belong to an endpoint */
    bool owner_chooses_key;
    bool is_software;          /* see device.h */
    bool is_one_socket;        /* a connection is one socket, which ends it when it is shut down */
    bool is_virtual_addressed; /* remote addresses are virtual ones, not offsets */
    bool reaches_gpus;
};

/* A GPU's memory to be registered: as a part of a dma-buf, or (fd -1) as peer memory. */
struct ofi_gpu {
    int fd;
    uint64_t off; /* of `base` in the dma-buf */
    void *base;   /* the memory that the dma-buf was made for */
    int ordinal;
};

struct ofi_endpoint {
    struct ofi_fabric *fabric;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    bool can_wait; /* fi_cq_sread works; else look and sleep */
};

/* `addr`: the local address for is_ip devices without a domain; NULL otherwise. */
int ofi_fabric_open(const struct ofi_lib *lib, const struct ofi_device *dev,
                    const struct sockaddr_storage *addr, struct diag *diag,
                    struct ofi_fabric **ret_fabric) MUST_CHECK;
/* Another domain on the same address: nothing is shared with what goes on in `like`, which must
 * outlive it. */
int ofi_fabric_clone(const struct ofi_fabric *like, struct diag *diag,
                     struct ofi_fabric **ret_fabric) MUST_CHECK;
/* Closes the domain, in which nothing is open any more, and opens another in its place. After an
 * error there is none, and it may be called again. */
int ofi_fabric_renew(struct ofi_fabric *f, struct diag *diag) MUST_CHECK;
void ofi_fabric_close(struct ofi_fabric *f);
void ofi_fabric_closep(struct ofi_fabric **f);

/* `port` 0: any. */
int ofi_endpoint_open(struct ofi_fabric *f, uint16_t port, struct diag *diag,
                      struct ofi_endpoint *ret_endpoint) MUST_CHECK;
/* Ends everything that is in flight on it, both ways, before it returns. Takes zeroes. */
void ofi_endpoint_close(struct ofi_endpoint *e);
int ofi_endpoint_name(const struct ofi_endpoint *e, uint8_t out[TOKEN_OFI_NAME_LEN_MAX],
                      size_t *ret_len, struct diag *diag) MUST_CHECK;
/* Waits for one completion: 1, or 0 after `timeout_ms`, or a libfabric error (negative;
 * -FI_EAVAIL: see fi_cq_readerr). */
long ofi_endpoint_wait(struct ofi_endpoint *e, struct fi_cq_entry *entry, int timeout_ms);

/* Ends all connections at their sockets, which needs neither peer nor network, has libfabric close
 * them, and keeps the endpoint: what was being received or sent is then over. Nobody else may look
 * into the queue meanwhile. Only of `net` (`tcp` from 1.18) is it known that its sockets are the
 * whole. False: not seen to have worked within a moment. */
bool ofi_endpoint_disconnect(struct ofi_endpoint *e) MUST_CHECK;

/* `access` of FI_WRITE, FI_READ, FI_REMOTE_*; `key` counts where the owner chooses. */
int ofi_memory_open(struct ofi_endpoint *e, void *ptr, size_t len, uint64_t access, uint64_t key,
                    struct diag *diag, struct fid_mr **ret_mr) MUST_CHECK;
/* The same of memory of `gpu`, where the fabric reaches it. */
int ofi_gpu_memory_open(struct ofi_endpoint *e, const struct ofi_gpu *gpu, void *ptr, size_t len,
                        uint64_t access, uint64_t key, struct diag *diag,
                        struct fid_mr **ret_mr) MUST_CHECK;

#endif
