/* SPDX-License-Identifier: Apache-2.0 */
/* devices.h - the names that users give to devices.
 * Does:     parses a comma-separated list: verbs devices with their pins, addresses, providers;
 *           opens each and collects why one could not be.
 * Not here: finding a verbs device; what a provider makes of its own part of a name.
 * Units:    ports and GID indexes as verbs counts them.
 * Owns:     a list is the caller's until device_list_fini().
 * Threads:  any.
 * Errors:   S3R_E_INVALID_ARGUMENT, the diag quoting what was written; S3R_E_RDMA_UNAVAILABLE
 *           when no device could be opened, the diag saying of each why.
 * Limits:   DEVICES_MAX names of DEVICE_TEXT_MAX - 1 characters.
 *
 *   mlx5_0   mlx5_0:GID_INDEX   mlx5_0:PORT:GID_INDEX    a verbs device; a pin that is no valid
 *                                                        number makes the whole a device's name
 *   10.0.0.1   10.0.0.1:9000   2001:db8::1   [2001:db8::1]:9000   fe80::1%eth0
 *   cma   ofi:PROVIDER   ofi:PROVIDER@ADDRESS[:PORT[-PORT]]   ofi:PROVIDER@DOMAIN
 *   nothing, *, 0.0.0.0, ::                              every verbs device with an ACTIVE port */
#ifndef S3R_RDMA_DEVICES_H
#define S3R_RDMA_DEVICES_H

#include "base/attr.h"
#include "base/error.h"

#include <net/if.h>
#include <stddef.h>
#include <sys/socket.h>

#define DEVICES_MAX 64
#define DEVICE_TEXT_MAX 256
#define DEVICE_PIN_MAX 255 /* verbs keeps port numbers in 8 bits; GID tables have 256 entries */

enum device_kind {
    DEVICE_ALL,     /* every verbs device with an ACTIVE port */
    DEVICE_VERBS,   /* name, port, gid_index */
    DEVICE_ADDRESS, /* addr, zone */
    DEVICE_PROVIDER /* name, rest */
};

struct device {
    enum device_kind kind;
    char text[DEVICE_TEXT_MAX]; /* as it was written */
    char name[DEVICE_TEXT_MAX]; /* of the verbs device or of the provider */
    char rest[DEVICE_TEXT_MAX]; /* what follows the provider's name and ':' */
    int port;                   /* 0: any */
    int gid_index;              /* -1: any */
    struct sockaddr_storage addr;
    char zone[IF_NAMESIZE]; /* "" when none was written */
};

struct device_list {
    struct device *at;
    size_t count;
};

/* A name that is repeated is in the list once. */
int device_list_parse(const char *text, struct diag *diag, struct device_list *ret_list) MUST_CHECK;
void device_list_fini(struct device_list *list);

/* Opens one device of kind DEVICE_PROVIDER. */
typedef int device_open_fn(const struct device *device, struct diag *diag, void *arg);
/* 0 when at least one could be opened; the others are then warnings in the log. */
int devices_open(const char *text, struct diag *diag, device_open_fn *fn, void *arg) MUST_CHECK;

#endif
