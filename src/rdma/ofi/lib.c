// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <string.h>

/* Set once, under the lock, never unset. A failure is not kept: the package may be installed
 * while the program runs. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ofi_lib loaded;
static bool is_loaded;

static int load(struct diag *diag)
{
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "libfabric.so.1 cannot be loaded (package libfabric1): %s", dlerror());
    uint32_t (*version)(void) = NULL;
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
        {"fi_version", &version},          {"fi_getinfo", &loaded.getinfo},
        {"fi_freeinfo", &loaded.freeinfo}, {"fi_dupinfo", &loaded.dupinfo},
        {"fi_fabric", &loaded.fabric},     {"fi_strerror", &loaded.error_text},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        void *symbol = dlsym(handle, rows[i].name);
        if (!symbol)
            return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "libfabric.so.1 has no %s",
                             rows[i].name);
        memcpy(rows[i].slot, &symbol, sizeof(symbol));
    }
    uint32_t v = version();
    loaded.major = FI_MAJOR(v);
    loaded.minor = FI_MINOR(v);
    if (FI_VERSION_LT(v, FI_VERSION(1, 17)))
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "libfabric %u.%u is too old: 1.17 or newer",
                         loaded.major, loaded.minor);
    is_loaded = true;
    return 0;
}

int ofi_lib_get(struct diag *diag, const struct ofi_lib **ret_lib)
{
    pthread_mutex_lock(&load_lock);
    int rc = is_loaded ? 0 : load(diag);
    pthread_mutex_unlock(&load_lock);
    if (rc == 0)
        *ret_lib = &loaded;
    return rc;
}

int ofi_fail(struct diag *diag, int code, const char *what, long err)
{
    int number = (int)(err < 0 ? -err : err);
    return diag_fail(diag, code, "%s: %s (libfabric error %d)", what,
                     is_loaded ? loaded.error_text(number) : "?", number);
}

void ofi_signals_save(struct ofi_signals *s)
{
    for (int sig = 1; sig < _NSIG; sig++)
        s->is_saved[sig] = sigaction(sig, NULL, &s->was[sig]) == 0;
}

void ofi_signals_restorep(struct ofi_signals *s)
{
    for (int sig = 1; sig < _NSIG; sig++) {
        struct sigaction now;
        if (!s->is_saved[sig] || sigaction(sig, NULL, &now) != 0)
            continue;
        /* Only what changed, so as not to undo what another thread sets meanwhile. */
        if (now.sa_handler != s->was[sig].sa_handler || now.sa_flags != s->was[sig].sa_flags)
            (void)sigaction(sig, &s->was[sig], NULL);
    }
}
