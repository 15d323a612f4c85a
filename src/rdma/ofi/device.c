// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/device.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Names for field 4 (PROTOCOL: a provider's name or a wire's), the wire that they mean, and the
 * provider that speaks it. A name that is not here is a wire and a provider of its own. `net` of
 * 1.17 is what `tcp` is from 1.18, where tcp;ofi_rxm still is another wire. */
static const struct wire {
    const char *name, *family, *provider_117, *provider;
    bool is_ip, is_software;
} wires[] = {
    {"tcp", "xnet", "net", "tcp", true, true},
    {"net", "xnet", "net", "tcp", true, true},
    {"xnet", "xnet", "net", "tcp", true, true},
    {"xnet.1", "xnet", "net", "tcp", true, true},
    {"tcp;ofi_rxm", "tcp;ofi_rxm", "tcp;ofi_rxm", "tcp;ofi_rxm", true, true},
    {"verbs;ofi_rxm", "rxm", "verbs;ofi_rxm", "verbs;ofi_rxm", true, false},
    {"rxm.1", "rxm", "verbs;ofi_rxm", "verbs;ofi_rxm", true, false},
};

static const struct refusal {
    const char *name, *reason;
} refusals[] = {
    {"shm", "its fast path checks neither keys nor bounds, and a process that is killed or stopped "
            "leaves its peers spinning; use cma on one host"},
    {"psm", "it takes the program's signal handlers"},
    {"psm2", "it takes the program's signal handlers"},
    {"psm3", "it takes the program's signal handlers"},
    {"opx", "it takes the program's signal handlers"},
    {"verbs", "it has no reliable datagram endpoints of its own; use verbs;ofi_rxm"},
};

static const struct wire *wire_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(wires); i++)
        if (strcmp(wires[i].name, name) == 0)
            return &wires[i];
    return NULL;
}

bool ofi_wire_is_same(const char *a, const char *b)
{
    const struct wire *wire_a = wire_find(a), *wire_b = wire_find(b);
    return strcmp(wire_a ? wire_a->family : a, wire_b ? wire_b->family : b) == 0;
}

static int parse_provider(const char *text, size_t len, unsigned minor, struct diag *diag,
                          struct ofi_device *dev)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ";_-.";
    if (len == 0 || len >= sizeof(dev->named) || strspn(text, allowed) < len)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "ofi:%s: a provider's name has 1 to %zu characters of A-Z a-z 0-9 ; _ - .",
                         text, sizeof(dev->named) - 1);
    memcpy(dev->named, text, len);
    dev->named[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (strcmp(refusals[i].name, dev->named) == 0)
            return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "ofi:%s is not used: %s", dev->named,
                             refusals[i].reason);
    const struct wire *w = wire_find(dev->named);
    const char *provider = !w ? dev->named : minor < 18 ? w->provider_117 : w->provider;
    snprintf(dev->provider, sizeof(dev->provider), "%s", provider);
    dev->is_ip = w && w->is_ip;
    dev->is_software = w && w->is_software;
    return 0;
}

static void unmap(struct sockaddr_storage *addr)
{
    struct sockaddr_in6 v6;
    memcpy(&v6, addr, sizeof(v6));
    if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
    memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
    memset(addr, 0, sizeof(*addr));
    memcpy(addr, &v4, sizeof(v4));
}

static bool is_wildcard(const struct sockaddr_storage *addr)
{
    static const struct in6_addr any;
    if (addr->ss_family == AF_INET)
        return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == 0;
    return memcmp(&((const struct sockaddr_in6 *)addr)->sin6_addr, &any, sizeof(any)) == 0;
}

static bool parse_literal(const char *text, size_t len, struct sockaddr_storage *ret_addr)
{
    char host[OFI_DOMAIN_MAX + IF_NAMESIZE];
    if (len == 0 || len >= sizeof(host))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    memset(ret_addr, 0, sizeof(*ret_addr));
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(ret_addr, &v4, sizeof(v4));
        return true;
    }
    /* Numeric only, nothing is asked of the network; unlike inet_pton it knows zones. */
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST,
                                   .ai_family = AF_INET6,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    memcpy(ret_addr, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    unmap(ret_addr);
    return true;
}

static bool parse_ports(const char *text, uint16_t *ret_low, uint16_t *ret_high)
{
    uint64_t low, high;
    const char *dash = strchr(text, '-');
    size_t low_len = dash ? (size_t)(dash - text) : strlen(text);
    if (!num_parse_dec(text, low_len, UINT16_MAX, &low) || low == 0)
        return false;
    high = low;
    if (dash && !num_parse_dec(dash + 1, strlen(dash + 1), UINT16_MAX, &high))
        return false;
    if (high < low)
        return false;
    *ret_low = (uint16_t)low;
    *ret_high = (uint16_t)high;
    return true;
}

/* What follows the @. */
static int parse_place(const char *whole, const char *place, struct diag *diag,
                       struct ofi_device *dev)
{
    const char *host = place, *ports = NULL;
    size_t host_len = strlen(place);
    const char *colon = strrchr(place, ':');
    bool has_brackets = place[0] == '[';
    if (has_brackets) {
        const char *end = strchr(place, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "ofi:%s: '[' without ']'", whole);
        host = place + 1;
        host_len = (size_t)(end - host);
        ports = end[1] == ':' ? end + 2 : NULL;
    } else if (colon && strchr(place, ':') == colon && dev->is_ip) {
        host_len = (size_t)(colon - place);
        ports = colon + 1;
    }
    if (ports && !parse_ports(ports, &dev->port_low, &dev->port_high))
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "ofi:%s: '%s' is neither a port nor a range of ports (1 to 65535)", whole,
                         ports);
    if (host_len == 0 && ports && !has_brackets)
        return 0;
    if (dev->is_ip && parse_literal(host, host_len, &dev->addr)) {
        dev->has_addr = !is_wildcard(&dev->addr);
        return 0;
    }
    if (host_len == 0 || host_len >= sizeof(dev->domain) || has_brackets)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "ofi:%s: '%.*s' is neither an address nor a domain", whole, (int)host_len,
                         host);
    memcpy(dev->domain, host, host_len);
    dev->domain[host_len] = '\0';
    return 0;
}

int ofi_device_parse(const char *text, unsigned minor, struct diag *diag,
                     struct ofi_device *ret_dev)
{
    struct ofi_device dev = {0};
    const char *at = strchr(text, '@');
    size_t len = at ? (size_t)(at - text) : strlen(text);
    int rc = parse_provider(text, len, minor, diag, &dev);
    if (rc == 0 && at)
        rc = parse_place(text, at + 1, diag, &dev);
    if (rc == 0)
        *ret_dev = dev;
    return rc;
}

socklen_t ofi_address_len(const struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET    ? (socklen_t)sizeof(struct sockaddr_in)
           : addr->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                         : 0;
}

uint16_t ofi_address_port(const struct sockaddr_storage *addr)
{
    /* sin_port and sin6_port lie at the same place. */
    return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

void ofi_address_set_port(struct sockaddr_storage *addr, uint16_t port)
{
    ((struct sockaddr_in *)addr)->sin_port = htons(port);
}

bool ofi_address_is_same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
    const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *)b;
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0 &&
           a6->sin6_scope_id == b6->sin6_scope_id;
}

void ofi_address_print(const struct sockaddr_storage *addr, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?";
    socklen_t len = ofi_address_len(addr);
    if (len == 0 || getnameinfo((const struct sockaddr *)addr, len, host, sizeof(host), NULL, 0,
                                NI_NUMERICHOST) != 0) {
        snprintf(out, size, "?");
        return;
    }
    uint16_t port = ofi_address_port(addr);
    const char *fmt = port == 0 ? "%s" : addr->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u";
    if (port == 0)
        snprintf(out, size, "%s", host);
    else
        snprintf(out, size, fmt, host, (unsigned)port);
}

bool ofi_address_toward(const struct sockaddr *peer, struct sockaddr_storage *ret_addr)
{
    struct sockaddr_storage to = {0}, from = {0};
    socklen_t len = peer->sa_family == AF_INET    ? (socklen_t)sizeof(struct sockaddr_in)
                    : peer->sa_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                                  : 0;
    if (len == 0)
        return false;
    memcpy(&to, peer, len);
    /* Connecting a UDP socket sends nothing: it only asks the routing table. */
    CLEANUP(closep) int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t from_len = sizeof(from);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&from, &from_len) != 0 || is_wildcard(&from))
        return false;
    ofi_address_set_port(&from, 0);
    *ret_addr = from;
    return true;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr) != 0;
}

/* Interfaces of containers and virtual machines on this host: nobody outside reaches those. */
static bool is_inner(const char *interface)
{
    static const char *const prefixes[] = {"docker", "br-", "virbr", "veth", "lxc", "cni", "vnet"};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(interface, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Addresses that lie behind any default route (RFC 5737, RFC 3849: reserved for documents). */
static bool default_route_address(struct sockaddr_storage *ret_addr)
{
    struct sockaddr_storage to;
    static const char *const far[] = {"203.0.113.1", "2001:db8::1"};
    for (size_t i = 0; i < ARRAY_LEN(far); i++) {
        if (!parse_literal(far[i], strlen(far[i]), &to))
            continue;
        ofi_address_set_port(&to, 9);
        if (ofi_address_toward((const struct sockaddr *)&to, ret_addr) && !is_loopback(ret_addr))
            return true;
    }
    return false;
}

static bool first_interface_address(sa_family_t family, struct sockaddr_storage *ret_addr)
{
    struct ifaddrs *all = NULL;
    bool is_found = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i && !is_found; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
            !(i->ifa_flags & IFF_RUNNING) || (i->ifa_flags & IFF_LOOPBACK) || is_inner(i->ifa_name))
            continue;
        struct sockaddr_storage addr = {0};
        memcpy(&addr, i->ifa_addr,
               family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        /* A link-local address means nothing on another host without its zone there. */
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)&addr)->sin6_addr))
            continue;
        *ret_addr = addr;
        is_found = true;
    }
    freeifaddrs(all);
    return is_found;
}

void ofi_address_pick(const struct sockaddr *local, struct sockaddr_storage *ret_addr)
{
    struct sockaddr_storage addr = {0};
    if (local && (local->sa_family == AF_INET || local->sa_family == AF_INET6)) {
        memcpy(&addr, local,
               local->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                           : sizeof(struct sockaddr_in6));
        unmap(&addr);
    }
    if ((addr.ss_family == 0 || is_wildcard(&addr)) && !default_route_address(&addr) &&
        !first_interface_address(AF_INET, &addr) && !first_interface_address(AF_INET6, &addr)) {
        memset(&addr, 0, sizeof(addr));
        addr.ss_family = AF_INET;
        ((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    ofi_address_set_port(&addr, 0);
    *ret_addr = addr;
}
