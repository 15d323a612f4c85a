// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/fabric.h"

#include "base/clock.h"
#include "rdma/ofi/strays.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API_VERSION FI_VERSION(1, 17)
/* From there on dma-bufs are known: to the library, and to the headers if they have the flag. */
#define DMABUF_VERSION FI_VERSION(1, 20)
#define QUEUE_SIZE 64
/* Where a provider has nothing to wait on. */
#define LOOK_AGAIN_NS (200 * 1000)
/* How long libfabric may take to notice that its connections are gone: it takes one look, unless
 * the machine is busy or it has lost track of one. */
#define DROP_NS (20 * NS_PER_MS)
#define DROP_PAUSE_NS (50 * 1000)

static bool knows_dmabufs(const struct ofi_lib *lib)
{
#ifdef FI_MR_DMABUF
    return FI_VERSION_GE(FI_VERSION(lib->major, lib->minor), DMABUF_VERSION);
#else
    return false;
#endif
}

static struct fi_info *make_hints(const struct ofi_lib *lib, const struct ofi_device *dev,
                                  bool with_gpus)
{
    struct fi_info *hints = lib->dupinfo(NULL);
    if (!hints)
        return NULL;
    hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    if (dev->is_software)
        hints->tx_attr->rma_iov_limit = OFI_RANGES;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (with_gpus) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    hints->fabric_attr->prov_name = strdup(dev->provider);
    bool is_named = dev->domain[0] != '\0';
    hints->domain_attr->name = is_named ? strdup(dev->domain) : NULL;
    if (!hints->fabric_attr->prov_name || (is_named && !hints->domain_attr->name)) {
        lib->freeinfo(hints);
        return NULL;
    }
    return hints;
}

static bool is_usable(const struct fi_info *info, const struct ofi_device *dev,
                      const struct sockaddr_storage *addr)
{
    if (strcmp(info->fabric_attr->prov_name, dev->provider) != 0)
        return false;
    if (info->domain_attr->mr_key_size > sizeof(uint64_t) ||
        (info->domain_attr->mr_mode & FI_MR_RAW))
        return false;
    /* `net` does not look at the domain's name. */
    if (dev->domain[0] && strcmp(info->domain_attr->name, dev->domain) != 0)
        return false;
    if (!addr)
        return true;
    struct sockaddr_storage has = {0};
    if (!info->src_addr || info->src_addrlen > sizeof(has))
        return false;
    memcpy(&has, info->src_addr, info->src_addrlen);
    return ofi_address_is_same_ip(&has, addr);
}

static int explain_absence(const struct ofi_lib *lib, const struct ofi_device *dev,
                           const struct sockaddr_storage *addr, long err, struct diag *diag)
{
    char where[OFI_DOMAIN_MAX + 16] = "";
    if (dev->domain[0])
        snprintf(where, sizeof(where), " on domain %s", dev->domain);
    else if (addr)
        ofi_address_print(addr, where + snprintf(where, sizeof(where), " at "), sizeof(where) - 4);
    const char *filter = getenv("FI_PROVIDER");
    return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                     "ofi:%s: libfabric %u.%u has no provider %s%s with one-sided reads and "
                     "delivery-complete writes%s%s: %s",
                     dev->named, lib->major, lib->minor, dev->provider, where,
                     filter ? "; FI_PROVIDER is " : "", filter ? filter : "",
                     lib->error_text((int)(err < 0 ? -err : err)));
}

static int find_info(const struct ofi_lib *lib, const struct ofi_device *dev,
                     const struct sockaddr_storage *addr, bool with_gpus, struct diag *diag,
                     struct fi_info **ret_info)
{
    struct fi_info *hints = make_hints(lib, dev, with_gpus), *all = NULL;
    if (!hints)
        return S3R_E_NOMEM;
    char host[OFI_DOMAIN_MAX] = "";
    if (addr)
        ofi_address_print(addr, host, sizeof(host));
    uint32_t version = with_gpus && knows_dmabufs(lib) ? DMABUF_VERSION : API_VERSION;
    int rc = lib->getinfo(version, addr ? host : NULL, NULL, addr ? FI_SOURCE : 0, hints, &all);
    lib->freeinfo(hints);
    if (rc != 0)
        return explain_absence(lib, dev, addr, rc, diag);
    const struct fi_info *fit = all;
    while (fit && !is_usable(fit, dev, addr))
        fit = fit->next;
    *ret_info = fit ? lib->dupinfo(fit) : NULL;
    lib->freeinfo(all);
    if (!fit)
        return explain_absence(lib, dev, addr, FI_ENODATA, diag);
    return *ret_info ? 0 : S3R_E_NOMEM;
}

int ofi_fabric_open(const struct ofi_lib *lib, const struct ofi_device *dev,
                    const struct sockaddr_storage *addr, struct diag *diag,
                    struct ofi_fabric **ret_fabric)
{
    CLEANUP(ofi_fabric_closep) struct ofi_fabric *f = calloc(1, sizeof(*f));
    if (!f)
        return S3R_E_NOMEM;
    f->lib = lib;
    f->is_software = dev->is_software;
    f->is_one_socket = ofi_wire_is_same(dev->named, "tcp");
    f->reaches_gpus = dev->wants_gpus && find_info(lib, dev, addr, true, NULL, &f->info) == 0;
    int rc = f->reaches_gpus ? 0 : find_info(lib, dev, addr, false, diag, &f->info);
    if (rc != 0)
        return rc;
    const struct fi_domain_attr *d = f->info->domain_attr;
    /* `net` of 1.17 says that it progresses by itself, and does not. */
    f->must_drive = f->is_software || d->data_progress != FI_PROGRESS_AUTO ||
                    d->control_progress != FI_PROGRESS_AUTO;
    f->needs_local = (d->mr_mode & FI_MR_LOCAL) != 0;
    f->is_bound_to_endpoint = (d->mr_mode & FI_MR_ENDPOINT) != 0;
    f->owner_chooses_key = (d->mr_mode & FI_MR_PROV_KEY) == 0;
    f->is_virtual_addressed = (d->mr_mode & FI_MR_VIRT_ADDR) != 0;
    if (dev->is_ip && f->info->src_addr && f->info->src_addrlen <= sizeof(f->addr)) {
        memcpy(&f->addr, f->info->src_addr, f->info->src_addrlen);
        ofi_address_set_port(&f->addr, 0);
    }
    rc = lib->fabric(f->info->fabric_attr, &f->fabric, NULL);
    if (rc != 0)
        return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_fabric", rc);
    rc = fi_domain(f->fabric, f->info, &f->domain, NULL);
    if (rc != 0)
        return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_domain", rc);
    *ret_fabric = STEAL(f);
    return 0;
}

int ofi_fabric_clone(const struct ofi_fabric *like, struct diag *diag,
                     struct ofi_fabric **ret_fabric)
{
    CLEANUP(ofi_fabric_closep) struct ofi_fabric *f = calloc(1, sizeof(*f));
    if (!f)
        return S3R_E_NOMEM;
    *f = *like;
    f->is_clone = true;
    f->domain = NULL;
    f->info = f->lib->dupinfo(like->info);
    if (!f->info)
        return S3R_E_NOMEM;
    int rc = fi_domain(f->fabric, f->info, &f->domain, NULL);
    if (rc != 0)
        return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_domain", rc);
    *ret_fabric = STEAL(f);
    return 0;
}

int ofi_fabric_renew(struct ofi_fabric *f, struct diag *diag)
{
    if (f->domain)
        (void)fi_close(&f->domain->fid);
    f->domain = NULL;
    int rc = fi_domain(f->fabric, f->info, &f->domain, NULL);
    if (rc == 0)
        return 0;
    f->domain = NULL;
    return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_domain", rc);
}

void ofi_fabric_close(struct ofi_fabric *f)
{
    if (!f)
        return;
    if (f->domain)
        (void)fi_close(&f->domain->fid);
    if (f->fabric && !f->is_clone)
        (void)fi_close(&f->fabric->fid);
    if (f->info)
        f->lib->freeinfo(f->info);
    free(f);
}

void ofi_fabric_closep(struct ofi_fabric **f)
{
    ofi_fabric_close(*f);
}

static int open_queue(struct ofi_endpoint *e, struct diag *diag)
{
    static const enum fi_wait_obj waits[] = {FI_WAIT_FD, FI_WAIT_UNSPEC, FI_WAIT_NONE};
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        struct fi_cq_attr attr = {.size = QUEUE_SIZE,
                                  .format = FI_CQ_FORMAT_CONTEXT,
                                  .wait_obj = waits[i]};
        e->can_wait = waits[i] != FI_WAIT_NONE;
        rc = fi_cq_open(e->fabric->domain, &attr, &e->cq, NULL);
        if (rc == 0)
            return 0;
    }
    e->cq = NULL;
    return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_cq_open", rc);
}

static int fail_at(const struct ofi_fabric *f, uint16_t port, const char *call, int err,
                   struct diag *diag)
{
    char what[OFI_DOMAIN_MAX + 32];
    struct sockaddr_storage at = f->addr;
    if (at.ss_family == 0)
        return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, call, err);
    ofi_address_set_port(&at, port);
    ofi_address_print(&at, what, sizeof(what));
    return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, what, err);
}

static int open_active(struct ofi_endpoint *e, uint16_t port, struct diag *diag)
{
    struct ofi_fabric *f = e->fabric;
    struct fi_info *info = f->lib->dupinfo(f->info);
    if (!info)
        return S3R_E_NOMEM;
    if (f->addr.ss_family && info->src_addrlen >= sizeof(struct sockaddr_in))
        ((struct sockaddr_in *)info->src_addr)->sin_port = htons(port);
    int rc = fi_endpoint(f->domain, info, &e->ep, NULL);
    f->lib->freeinfo(info);
    if (rc != 0) {
        e->ep = NULL;
        return fail_at(f, port, "fi_endpoint", rc, diag);
    }
    rc = fi_ep_bind(e->ep, &e->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(e->ep);
    return rc == 0 ? 0 : fail_at(f, port, "fi_enable", rc, diag);
}

int ofi_endpoint_open(struct ofi_fabric *f, uint16_t port, struct diag *diag,
                      struct ofi_endpoint *ret_endpoint)
{
    struct ofi_endpoint e = {.fabric = f};
    int rc = open_queue(&e, diag);
    if (rc == 0) {
        enum fi_av_type type = f->info->domain_attr->av_type;
        struct fi_av_attr attr = {.type = type == FI_AV_UNSPEC ? FI_AV_TABLE : type};
        rc = fi_av_open(f->domain, &attr, &e.av, NULL);
        if (rc != 0) {
            e.av = NULL;
            rc = ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_av_open", rc);
        }
    }
    if (rc == 0)
        rc = open_active(&e, port, diag);
    if (rc != 0) {
        ofi_endpoint_close(&e);
        return rc;
    }
    *ret_endpoint = e;
    return 0;
}

void ofi_endpoint_close(struct ofi_endpoint *e)
{
    if (e->ep)
        (void)fi_close(&e->ep->fid);
    if (e->cq)
        (void)fi_close(&e->cq->fid);
    if (e->av)
        (void)fi_close(&e->av->fid);
    *e = (struct ofi_endpoint){0};
}

int ofi_endpoint_name(const struct ofi_endpoint *e, uint8_t out[TOKEN_OFI_NAME_LEN_MAX],
                      size_t *ret_len, struct diag *diag)
{
    size_t len = TOKEN_OFI_NAME_LEN_MAX;
    int rc = fi_getname(&e->ep->fid, out, &len);
    if (rc != 0 || len == 0 || len > TOKEN_OFI_NAME_LEN_MAX)
        return ofi_fail(diag, S3R_E_RDMA_UNAVAILABLE, "fi_getname", rc ? rc : FI_ETOOSMALL);
    *ret_len = len;
    return 0;
}

long ofi_endpoint_wait(struct ofi_endpoint *e, struct fi_cq_entry *entry, int timeout_ms)
{
    if (e->can_wait) {
        long n = fi_cq_sread(e->cq, entry, 1, NULL, timeout_ms);
        return n == -FI_EAGAIN || n == -FI_EINTR || n == -FI_ECANCELED ? 0 : n;
    }
    long looks = (long)timeout_ms * 1000000 / LOOK_AGAIN_NS;
    for (long i = 0;; i++) {
        long n = fi_cq_read(e->cq, entry, 1);
        if (n != -FI_EAGAIN)
            return n;
        if (i >= looks)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
    }
}

/* Has libfabric notice that the sockets were shut down, and close them. Forgets `strays`. */
static bool drop(struct ofi_endpoint *e, struct strays *strays)
{
    int64_t until_ns = clock_mono_ns() + DROP_NS;
    bool is_gone;
    while (!(is_gone = strays_are_gone(strays)) && clock_mono_ns() < until_ns) {
        struct fi_cq_entry entry;
        /* `net` of 1.17 asks errno about a connection that ended, which says nothing of that. */
        errno = 0;
        if (fi_cq_read(e->cq, &entry, 1) == -FI_EAVAIL) {
            struct fi_cq_err_entry err = {0};
            (void)fi_cq_readerr(e->cq, &err, 0);
        }
        if (!strays_are_gone(strays))
            nanosleep(&(struct timespec){.tv_nsec = DROP_PAUSE_NS}, NULL);
    }
    strays_forget(strays);
    return is_gone;
}

bool ofi_endpoint_disconnect(struct ofi_endpoint *e)
{
    int fd = -1;
    if (!e->fabric->is_one_socket || !e->can_wait || fi_control(&e->cq->fid, FI_GETWAIT, &fd) != 0)
        return false;
    struct strays strays;
    bool is_all = strays_cut_watched(fd, &strays);
    return drop(e, &strays) && is_all;
}

/* What comes after a registration, however it was made. */
static int finish_memory(struct ofi_endpoint *e, int rc, size_t len, struct fid_mr *mr,
                         struct diag *diag, struct fid_mr **ret_mr)
{
    if (rc == 0 && e->fabric->is_bound_to_endpoint) {
        rc = fi_mr_bind(mr, &e->ep->fid, 0);
        if (rc == 0)
            rc = fi_mr_enable(mr);
        if (rc != 0)
            (void)fi_close(&mr->fid);
    }
    if (rc == -FI_ENOMEM)
        return diag_fail(diag, S3R_E_RDMA_REGISTER,
                         "libfabric cannot pin %zu bytes: raise the limit of locked memory "
                         "(ulimit -l, LimitMEMLOCK)",
                         len);
    if (rc != 0)
        return ofi_fail(diag, S3R_E_RDMA_REGISTER, "registering memory", rc);
    *ret_mr = mr;
    return 0;
}

int ofi_memory_open(struct ofi_endpoint *e, void *ptr, size_t len, uint64_t access, uint64_t key,
                    struct diag *diag, struct fid_mr **ret_mr)
{
    struct fid_mr *mr = NULL;
    struct ofi_fabric *f = e->fabric;
    int rc =
        fi_mr_reg(f->domain, ptr, len, access, 0, f->owner_chooses_key ? key : 0, 0, &mr, NULL);
    return finish_memory(e, rc, len, mr, diag, ret_mr);
}

#ifdef FI_MR_DMABUF
static int register_dmabuf(const struct ofi_fabric *f, const struct ofi_gpu *gpu, char *ptr,
                           size_t len, struct fi_mr_attr *attr, struct fid_mr **ret_mr)
{
    uint64_t off = gpu->off + (uint64_t)(ptr - (char *)gpu->base);
    const struct fi_mr_dmabuf dmabuf = {.fd = gpu->fd,
                                        .offset = off,
                                        .len = len,
                                        .base_addr = (char *)gpu->base - gpu->off};
    if (!knows_dmabufs(f->lib))
        return -FI_ENOSYS;
    attr->dmabuf = &dmabuf;
    return fi_mr_regattr(f->domain, attr, FI_MR_DMABUF, ret_mr);
}
#else
static int register_dmabuf(const struct ofi_fabric *f, const struct ofi_gpu *gpu, char *ptr,
                           size_t len, struct fi_mr_attr *attr, struct fid_mr **ret_mr)
{
    return -FI_ENOSYS;
}
#endif

int ofi_gpu_memory_open(struct ofi_endpoint *e, const struct ofi_gpu *gpu, void *ptr, size_t len,
                        uint64_t access, uint64_t key, struct diag *diag, struct fid_mr **ret_mr)
{
    struct fid_mr *mr = NULL;
    struct ofi_fabric *f = e->fabric;
    const struct iovec iov = {.iov_base = ptr, .iov_len = len};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = access,
                              .requested_key = f->owner_chooses_key ? key : 0,
                              .iface = FI_HMEM_CUDA,
                              .device.cuda = gpu->ordinal};
    int rc = gpu->fd >= 0 ? register_dmabuf(f, gpu, ptr, len, &attr, &mr)
                          : fi_mr_regattr(f->domain, &attr, 0, &mr);
    return finish_memory(e, rc, len, mr, diag, ret_mr);
}
