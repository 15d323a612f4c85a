// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/writer.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The longest sleep without a look at deadline and cancellation. */
#define WAKE_MS 50
/* How long a connection may take before it is asked whether anybody is there: libfabric dials a
 * port that refuses again and again and never says so. */
#define PROBE_AFTER_NS (3 * NS_PER_MS)
/* An owner's libfabric may lose a request to connect when another connection ends at that moment. A
 * connection that takes this long is asked for anew (after twice as long the next time). */
#define REDIAL_NS (30 * NS_PER_MS)
#define CONNECT_SLEEP_MIN_NS (20 * 1000)
#define CONNECT_SLEEP_MAX_NS (1 * NS_PER_MS)
/* Reads over a software wire: see post_piece(). Small, so that clearing stays inside the cache. */
#define CLEARED_PIECE_LEN (1 * MIB)

/* One transfer while it runs. */
struct run {
    struct ofi_writer *w;
    const struct transfer *t;
    void *desc;
    struct diag *diag;
    size_t piece_len, posted, done;
    unsigned in_flight;
    int64_t connecting_since_ns; /* 0: connected */
    int64_t sleep_ns, redial_at_ns, redial_ns;
    int probe_fd;
};

static void hang_up(struct ofi_writer *w)
{
    ofi_endpoint_close(&w->endpoint);
    ofi_fabric_close(w->own);
    w->own = NULL;
}

static int insert_peer(struct ofi_writer *w, struct diag *diag)
{
    /* The whole array, zero behind the name, because a provider reads as much as its own names
     * have. */
    int n = fi_av_insert(w->endpoint.av, w->name, 1, &w->peer, 0, NULL);
    return n == 1 ? 0
                  : ofi_fail(diag, S3R_E_RDMA_PEER, "fi_av_insert", n < 0 ? n : FI_EADDRNOTAVAIL);
}

static int dial(struct ofi_writer *w, struct diag *diag)
{
    int rc = w->within->needs_local ? 0 : ofi_fabric_clone(w->within, diag, &w->own);
    if (rc == 0)
        rc = ofi_endpoint_open(w->own ? w->own : w->within, 0, diag, &w->endpoint);
    if (rc != 0)
        return rc;
    return insert_peer(w, diag);
}

/* Ends the connection, on which nothing is in flight. False: the endpoint is of no use any more. */
static bool disconnect(struct ofi_writer *w)
{
    return w->own && ofi_endpoint_disconnect(&w->endpoint);
}

bool ofi_writer_turn(struct ofi_writer *w, const struct token_ofi *to)
{
    struct diag diag;
    if (!disconnect(w) || fi_av_remove(w->endpoint.av, &w->peer, 1, 0) != 0)
        return false;
    memset(w->name, 0, sizeof(w->name));
    memcpy(w->name, to->name, to->name_len);
    w->name_len = to->name_len;
    return insert_peer(w, &diag) == 0;
}

int ofi_writer_open(struct ofi_fabric *f, const struct token_ofi *to, struct diag *diag,
                    struct ofi_writer **ret_writer)
{
    struct ofi_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return S3R_E_NOMEM;
    w->within = f;
    memcpy(w->name, to->name, to->name_len);
    w->name_len = to->name_len;
    int rc = dial(w, diag);
    if (rc != 0) {
        ofi_writer_close(w);
        return rc;
    }
    *ret_writer = w;
    return 0;
}

void ofi_writer_close(struct ofi_writer *w)
{
    if (!w)
        return;
    hang_up(w);
    free(w);
}

static int stop_reason(struct run *r)
{
    const struct transfer *t = r->t;
    if (r->connecting_since_ns && t->deadline_ns && clock_mono_ns() >= t->deadline_ns)
        return diag_fail(r->diag, S3R_E_RDMA_DEADLINE,
                         "the client did not answer before the deadline");
    return transfer_may_go_on(t, r->diag);
}

static int fail_by(struct run *r, const char *what, long err)
{
    switch (err < 0 ? -err : err) {
    case FI_ECANCELED:
        return diag_fail(r->diag, S3R_E_RDMA_PEER,
                         "the client withdrew the window, refused the key or range, or is gone");
    case FI_ECONNABORTED:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_EACCES:
    case FI_EINVAL:
    case FI_EIO:
    case FI_ENOKEY:
    case FI_EKEYREJECTED:
    case EPIPE:
        return ofi_fail(r->diag, S3R_E_RDMA_PEER, what, err);
    default:
        return ofi_fail(r->diag, S3R_E_RDMA_TRANSFER, what, err);
    }
}

/* Libfabric's own codes: 0, -FI_EAGAIN, or an error. Over a software wire the owner compares every
 * range of an operation with the region of its key before it takes or gives a byte, empty ranges
 * too: those at both ends of the token's window have it refuse a token that claims more than the
 * window, whatever part of it is moved. They come last: a receiver goes on where the first range
 * was left. An adapter takes one range, and compares none that is empty. */
static long post_piece(struct run *r, struct ofi_piece *p, size_t len)
{
    const struct transfer *t = r->t;
    char *local = (char *)t->local + r->posted;
    struct iovec iov = {.iov_base = local, .iov_len = len};
    uint64_t base = t->token->addr, key = t->token->ofi.key;
    struct fi_rma_iov remote[OFI_RANGES] = {
        {.addr = base + t->window_off + r->posted, .len = len, .key = key},
        {.addr = base, .key = key},
        {.addr = base + t->token->size, .key = key},
    };
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .desc = &r->desc,
                             .iov_count = 1,
                             .addr = r->w->peer,
                             .rma_iov = remote,
                             .rma_iov_count = r->w->within->is_software ? OFI_RANGES : 1,
                             .context = &p->context};
    struct fid_ep *ep = r->w->endpoint.ep;
    if (t->direction == TRANSFER_WRITE)
        return fi_writemsg(ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    return fi_readmsg(ep, &msg, FI_COMPLETION);
}

/* A software provider takes an answer that is shorter than what was asked for as the whole. What
 * the client did not send must then not be what the memory held before: that was another's. */
static void clear_piece(const struct run *r, size_t len)
{
    if (r->t->direction == TRANSFER_READ && r->w->within->is_software)
        memset((char *)r->t->local + r->posted, 0, len);
}

static struct ofi_piece *free_piece(struct ofi_writer *w)
{
    for (size_t i = 0; i < OFI_PIECES_MAX; i++)
        if (w->pieces[i].len == 0)
            return &w->pieces[i];
    return NULL;
}

static int post_pieces(struct run *r)
{
    struct ofi_piece *p;
    while (r->posted < r->t->len && (p = free_piece(r->w)) != NULL) {
        int rc = r->in_flight ? stop_reason(r) : 0;
        if (rc != 0)
            return rc;
        size_t len = (size_t)min_u64(r->piece_len, r->t->len - r->posted);
        if (!r->connecting_since_ns)
            clear_piece(r, len);
        long err = post_piece(r, p, len);
        if (err == -FI_EAGAIN) {
            if (r->in_flight == 0 && !r->connecting_since_ns) {
                r->connecting_since_ns = clock_mono_ns();
                r->redial_at_ns = r->connecting_since_ns + r->redial_ns;
            }
            return 0;
        }
        if (err != 0)
            return fail_by(r, r->t->direction == TRANSFER_WRITE ? "fi_writemsg" : "fi_readmsg",
                           err);
        r->connecting_since_ns = 0;
        p->len = len;
        r->posted += len;
        r->in_flight++;
    }
    return 0;
}

static int take_completion(struct run *r, long n, const struct fi_cq_entry *entry)
{
    if (n == 0 || n == -FI_EAGAIN)
        return 0;
    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry err = {0};
        long found = fi_cq_readerr(r->w->endpoint.cq, &err, 0);
        return fail_by(r, r->t->direction == TRANSFER_WRITE ? "writing" : "reading",
                       found > 0 ? err.err : FI_EIO);
    }
    if (n < 0)
        return fail_by(r, "fi_cq_read", n);
    struct ofi_piece *p = entry->op_context;
    r->done += p->len;
    p->len = 0;
    r->in_flight--;
    return 0;
}

static int reap(struct run *r)
{
    int timeout_ms = WAKE_MS;
    if (r->t->deadline_ns) {
        int64_t left_ms = (r->t->deadline_ns - clock_mono_ns()) / NS_PER_MS + 1;
        timeout_ms = left_ms < 1 ? 1 : left_ms < WAKE_MS ? (int)left_ms : WAKE_MS;
    }
    struct fi_cq_entry entry;
    return take_completion(r, ofi_endpoint_wait(&r->w->endpoint, &entry, timeout_ms), &entry);
}

/* A connection of our own to the owner's port, on which nothing is ever said: it tells whether
 * there is a listener, and when its process goes away. */
static int probe(struct run *r)
{
    struct sockaddr_storage to = {0};
    memcpy(&to, r->w->name, min_u64(r->w->name_len, sizeof(to)));
    int err = 0;
    if (r->probe_fd < 0) {
        r->probe_fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (r->probe_fd < 0)
            return 0; /* out of descriptors: the deadline decides */
        if (connect(r->probe_fd, (const struct sockaddr *)&to, ofi_address_len(&to)) != 0 &&
            errno != EINPROGRESS)
            err = errno;
    }
    struct pollfd pfd = {.fd = r->probe_fd, .events = POLLIN | POLLRDHUP};
    if (err == 0 && poll(&pfd, 1, 0) == 1) {
        socklen_t len = sizeof(err);
        (void)getsockopt(r->probe_fd, SOL_SOCKET, SO_ERROR, &err, &len);
        if (err == 0)
            err = ECONNRESET;
    }
    return err ? fail_by(r, "connecting to the client", err) : 0;
}

static int await_connection(struct run *r)
{
    struct fi_cq_entry entry;
    int rc = take_completion(r, fi_cq_read(r->w->endpoint.cq, &entry, 1), &entry);
    bool is_ip = r->w->within->addr.ss_family != 0;
    if (rc == 0 && is_ip && clock_mono_ns() - r->connecting_since_ns >= PROBE_AFTER_NS)
        rc = probe(r);
    if (rc == 0 && r->w->own && clock_mono_ns() >= r->redial_at_ns) {
        if (!disconnect(r->w)) {
            hang_up(r->w);
            rc = dial(r->w, r->diag);
        }
        r->redial_ns *= 2;
        r->redial_at_ns = clock_mono_ns() + r->redial_ns;
    }
    if (rc != 0)
        return rc == S3R_E_RDMA_UNAVAILABLE ? S3R_E_RDMA_TRANSFER : rc;
    nanosleep(&(struct timespec){.tv_nsec = r->sleep_ns}, NULL);
    r->sleep_ns = r->sleep_ns * 2 > CONNECT_SLEEP_MAX_NS ? CONNECT_SLEEP_MAX_NS : r->sleep_ns * 2;
    return 0;
}

int ofi_writer_run(struct ofi_writer *w, const struct transfer *t, void *desc, struct diag *diag,
                   uint64_t *ret_moved)
{
    const struct ofi_fabric *f = w->within;
    struct run r = {.w = w, .t = t, .desc = desc, .diag = diag, .probe_fd = -1};
    r.sleep_ns = CONNECT_SLEEP_MIN_NS;
    r.redial_ns = REDIAL_NS;
    r.piece_len = (size_t)min_u64(LIMIT_WINDOW_PIECE_LEN, f->info->ep_attr->max_msg_size);
    if (t->direction == TRANSFER_READ && f->is_software)
        r.piece_len = (size_t)min_u64(r.piece_len, CLEARED_PIECE_LEN);
    /* Sees that the peer closed an idle connection, so that a new one is made. */
    struct fi_cq_entry entry;
    int rc = take_completion(&r, fi_cq_read(w->endpoint.cq, &entry, 1), &entry);
    while (rc == 0 && r.done < t->len) {
        rc = stop_reason(&r);
        if (rc == 0)
            rc = post_pieces(&r);
        if (rc == 0)
            rc = r.in_flight ? reap(&r) : await_connection(&r);
    }
    if (r.probe_fd >= 0)
        close(r.probe_fd);
    *ret_moved = r.done;
    return rc;
}
