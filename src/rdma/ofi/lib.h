/* SPDX-License-Identifier: Apache-2.0 */
/* lib.h - libfabric.so.1, opened at run time.
 * Does:     loads it once per process; keeps what it does to signal handlers from the program; puts
 *           its error numbers into words.
 * Not here: fabrics and endpoints (fabric.h).
 * Units:    none.
 * Owns:     the library stays loaded: it has threads and exit handlers of its own.
 * Threads:  any.
 * Errors:   S3R_E_RDMA_UNAVAILABLE, with the name of the package to install.
 * Limits:   none. */
#ifndef S3R_RDMA_OFI_LIB_H
#define S3R_RDMA_OFI_LIB_H

#include "base/attr.h"
#include "base/error.h"

#include <rdma/fabric.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* What the headers do not reach through a table of calls. */
struct ofi_lib {
    unsigned major, minor;
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*error_text)(int err);
};

int ofi_lib_get(struct diag *diag, const struct ofi_lib **ret_lib) MUST_CHECK;

/* "WHAT: words" for libfabric's error `err` (of either sign). Returns `code`. */
int ofi_fail(struct diag *diag, int code, const char *what, long err);

/* libfabric's providers install handlers for ILL, ABRT, BUS and SEGV when they start: a local of
 * this type puts all dispositions back when it goes out of scope. */
struct ofi_signals {
    struct sigaction was[_NSIG];
    bool is_saved[_NSIG];
};
void ofi_signals_save(struct ofi_signals *s);
void ofi_signals_restorep(struct ofi_signals *s);

#endif
