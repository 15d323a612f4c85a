/* SPDX-License-Identifier: Apache-2.0 */
#include "server/peers.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#define PROVIDER_PREFIX "provider:"

/* Any address as 16 bytes, IPv4 mapped: one form to compare. */
struct address {
    unsigned char bytes[16];
};

static const unsigned char mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool address_of(const struct sockaddr *sa, struct address *ret)
{
    if (sa->sa_family == AF_INET6) {
        memcpy(ret->bytes, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
        return true;
    }
    if (sa->sa_family != AF_INET)
        return false;
    memcpy(ret->bytes, mapped_prefix, 12);
    memcpy(ret->bytes + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
    return true;
}

static bool is_equal(const struct address *a, const struct address *b)
{
    return memcmp(a->bytes, b->bytes, 16) == 0;
}

static bool is_loopback(const struct address *a)
{
    static const unsigned char v6[16] = {[15] = 1};
    return memcmp(a->bytes, v6, 16) == 0 ||
           (memcmp(a->bytes, mapped_prefix, 12) == 0 && a->bytes[12] == 127);
}

static bool is_of_this_host(const struct address *a)
{
    struct ifaddrs *list;
    bool is_found = is_loopback(a);
    if (is_found || getifaddrs(&list) != 0)
        return is_found;
    for (struct ifaddrs *i = list; i && !is_found; i = i->ifa_next) {
        struct address b;
        is_found = i->ifa_addr && address_of(i->ifa_addr, &b) && is_equal(a, &b);
    }
    freeifaddrs(list);
    return is_found;
}

struct network {
    struct address base;
    unsigned bits; /* of the 128 */
};

/* "10.0.0.0/8", "fd00::/8", "10.1.2.3" */
static bool parse_network(const char *text, size_t len, struct network *ret)
{
    char host[INET6_ADDRSTRLEN];
    struct in_addr v4;
    const char *slash = memchr(text, '/', len);
    size_t host_len = slash ? (size_t)(slash - text) : len;
    if (host_len >= sizeof host)
        return false;
    memcpy(host, text, host_len);
    host[host_len] = '\0';
    bool is_v4 = inet_pton(AF_INET, host, &v4) == 1;
    uint64_t bits = is_v4 ? 32 : 128;
    if (is_v4) {
        memcpy(ret->base.bytes, mapped_prefix, 12);
        memcpy(ret->base.bytes + 12, &v4, 4);
    } else if (inet_pton(AF_INET6, host, ret->base.bytes) != 1) {
        return false;
    }
    if (slash && !num_parse_dec(slash + 1, len - host_len - 1, bits, &bits))
        return false;
    ret->bits = (unsigned)bits + (is_v4 ? 96 : 0);
    return true;
}

static bool network_has(const struct network *n, const struct address *a)
{
    for (unsigned i = 0; i < n->bits; i++)
        if (((n->base.bytes[i / 8] ^ a->bytes[i / 8]) >> (7 - i % 8)) & 1)
            return false;
    return true;
}

/* The next entry of a comma-separated list; false at its end. */
static bool next_entry(const char **rest, const char **ret, size_t *ret_len)
{
    while (**rest == ',' || **rest == ' ')
        (*rest)++;
    if (**rest == '\0')
        return false;
    *ret = *rest;
    *ret_len = strcspn(*rest, ", ");
    *rest += *ret_len;
    return true;
}

static bool is_provider_entry(const char *entry, size_t len)
{
    size_t prefix = strlen(PROVIDER_PREFIX);
    return len > prefix && strncmp(entry, PROVIDER_PREFIX, prefix) == 0;
}

int peers_check(const char *allowed, struct diag *diag)
{
    const char *entry;
    size_t len;
    struct network n;
    while (next_entry(&allowed, &entry, &len))
        if (!is_provider_entry(entry, len) && !parse_network(entry, len, &n))
            return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                             "--rdma-peers: '%.*s' is neither a network such as 10.1.0.0/16 nor "
                             "provider:NAME",
                             (int)len, entry);
    return 0;
}

static bool is_network_listed(const struct address *a, const char *allowed)
{
    const char *entry;
    size_t len;
    struct network n;
    while (next_entry(&allowed, &entry, &len))
        if (parse_network(entry, len, &n) && network_has(&n, a))
            return true;
    return false;
}

static bool is_provider_listed(const char *provider, const char *allowed)
{
    const char *entry;
    size_t len, prefix = strlen(PROVIDER_PREFIX);
    while (next_entry(&allowed, &entry, &len))
        if (is_provider_entry(entry, len) && strlen(provider) == len - prefix &&
            strncmp(entry + prefix, provider, len - prefix) == 0)
            return true;
    return false;
}

bool peers_allow(const struct token *token, const struct sockaddr *peer, const char *allowed)
{
    struct sockaddr_storage named;
    struct address from, to;
    if (!address_of(peer, &from))
        return false;
    if (token->scheme == TOKEN_CMA)
        return is_loopback(&from);
    if (!token_address(token, &named) || !address_of((struct sockaddr *)&named, &to))
        return token->scheme == TOKEN_OFI && is_provider_listed(token->ofi.provider, allowed);
    return is_equal(&from, &to) || (is_of_this_host(&from) && is_of_this_host(&to)) ||
           is_network_listed(&to, allowed);
}
