/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - does an RDMA device work here? Tried, within this process.
 * Does:     opens it as a client and as a server would, and moves 64 KiB through a window.
 * Not here: which devices (cmd_devices.c, cmd_doctor.c).
 * Units:    none.
 * Owns:     nothing is left open.
 * Threads:  any.
 * Errors:   in the probe, in words.
 * Limits:   none. */
#ifndef S3R_TOOLS_PROBE_H
#define S3R_TOOLS_PROBE_H

#include "base/error.h"

#include <stdbool.h>

struct probe {
    const char *name; /* of the device; "" for every adapter with an ACTIVE port */
    bool is_usable;
    char rail[400], why[S3R_DIAG_MAX]; /* "" for nothing to say */
};

/* `name` is set. */
void probe_run(struct probe *p);
/* One of a comma-separated list. */
bool device_is_listed(const char *list, const char *name);

#endif
