/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - findings about a machine, each `ok` or with what to do.
 * Does:     looks at devices, ports, GIDs, limits, GPU memory, PCI, and what cma needs; only reads.
 * Not here: transfers and the server (cmd_doctor.c).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  owner.
 * Errors:   none: what cannot be read is a finding, too.
 * Limits:   DOCTOR_TEXT_MAX bytes a finding, cut. */
#ifndef S3R_TOOLS_DOCTOR_H
#define S3R_TOOLS_DOCTOR_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

#define DOCTOR_TEXT_MAX 700

enum finding {
    FINDING_OK,
    FINDING_NOTE, /* worth knowing; nothing is to be done for what is used here */
    FINDING_FIX,
};

/* "ok", "note", "fix" */
const char *finding_name(enum finding finding);

struct doctor {
    const char *root; /* "": this machine's /sys and /proc; else a folder with others */
    void (*tell)(void *arg, const char *check, enum finding finding, const char *text);
    void *arg;
    bool has_fix;
};

void doctor_say(struct doctor *d, const char *check, enum finding finding, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Adapters, their ports and GIDs. Returns whether there is an adapter. */
bool doctor_adapters(struct doctor *d);
/* How much memory may be pinned. */
void doctor_memlock(struct doctor *d, bool has_adapter);
/* GPU memory: nvidia_peermem, dma-buf, and bridges that turn peer traffic away (ACS). */
void doctor_gpu(struct doctor *d, bool has_adapter);
/* ptrace scope, seccomp. */
void doctor_cma(struct doctor *d);

#endif
