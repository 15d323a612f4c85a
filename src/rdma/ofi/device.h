/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - names of libfabric devices, families of wires, and which local address to use.
 * Does:     parses PROVIDER[@ADDRESS[:PORT[-PORT]]] and PROVIDER@DOMAIN; says which provider names
 *           speak the same wire; picks an owner's and a writer's address.
 * Not here: opening anything (fabric.h).
 * Units:    ports in host order.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   S3R_E_RDMA_UNAVAILABLE, naming what was written and what is allowed.
 * Limits:   TOKEN_PROVIDER_MAX, OFI_DOMAIN_MAX with their NUL.
 *
 * An ADDRESS is an IPv4 or IPv6 literal, in brackets when a port follows; without one (or with a
 * wildcard) an owner takes the local address of its HTTP connection; without that the address of
 * the default route, else of the first interface that is up, no loopback and no virtual bridge,
 * else loopback. A writer's address is the one that the kernel routes to the client from. PORT and
 * PORT-PORT are where an owner listens; a mover accepts and ignores them. */
#ifndef S3R_RDMA_OFI_DEVICE_H
#define S3R_RDMA_OFI_DEVICE_H

#include "base/attr.h"
#include "base/error.h"
#include "rdma/token.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define OFI_DOMAIN_MAX 64

struct ofi_device {
    char named[TOKEN_PROVIDER_MAX];    /* field 4 of tokens: the provider as the device names it */
    char provider[TOKEN_PROVIDER_MAX]; /* what this libfabric calls it */
    bool is_ip;                        /* endpoint names are sockaddrs */
    bool is_software;                  /* no adapter checks what the peer sends */
    bool wants_gpus;                   /* the opener's: to be opened so that it reaches them */
    char domain[OFI_DOMAIN_MAX];       /* "" when none was named */
    bool has_addr;
    struct sockaddr_storage addr; /* its port is 0 */
    uint16_t port_low, port_high; /* 0: any */
};

/* `minor`: of libfabric 1.minor, because provider names changed at 1.18. */
int ofi_device_parse(const char *text, unsigned minor, struct diag *diag,
                     struct ofi_device *ret_dev) MUST_CHECK;
/* Do two names for field 4 mean the same wire? */
bool ofi_wire_is_same(const char *a, const char *b);

/* `local` (may be NULL) or what the head of this file says. IPv4-mapped comes out as IPv4, the port
 * as 0. */
void ofi_address_pick(const struct sockaddr *local, struct sockaddr_storage *ret_addr);
/* The local address from which the kernel would reach `peer`: false when there is no route. */
bool ofi_address_toward(const struct sockaddr *peer, struct sockaddr_storage *ret_addr) MUST_CHECK;
/* 0 for a family that is none of IP's. */
socklen_t ofi_address_len(const struct sockaddr_storage *addr);
uint16_t ofi_address_port(const struct sockaddr_storage *addr);
void ofi_address_set_port(struct sockaddr_storage *addr, uint16_t port);
/* "127.0.0.1:7000", "[::1]:7000"; without the port when it is 0. */
void ofi_address_print(const struct sockaddr_storage *addr, char *out, size_t size);
/* Same IP? Ports do not count. */
bool ofi_address_is_same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
