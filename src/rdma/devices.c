/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/devices.h"

#include "base/log.h"
#include "base/num.h"
#include "rdma/token.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Device names come from the command line and the environment; messages show them whole. */
static int invalid(struct diag *diag, const char *name, size_t len, const char *why)
{
    char shown[DEVICE_TEXT_MAX + 64];
    log_escape(name, len, shown, sizeof shown);
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "RDMA device '%s': %s", shown, why);
}

static bool is_number(const char *s, size_t len, int min, int *ret)
{
    uint64_t n;
    if (len > 3 || !num_parse_dec(s, len, DEVICE_PIN_MAX, &n) || (int)n < min)
        return false;
    *ret = (int)n;
    return true;
}

/* NAME, NAME:GID_INDEX, NAME:PORT:GID_INDEX. */
static void read_verbs(struct device *d)
{
    const char *first = strchr(d->text, ':');
    const char *second = first ? strchr(first + 1, ':') : NULL;
    size_t name_len = first ? (size_t)(first - d->text) : strlen(d->text);
    int port = 0, gid_index = -1;
    bool is_pinned;
    if (!first)
        is_pinned = true;
    else if (!second)
        is_pinned = is_number(first + 1, strlen(first + 1), 0, &gid_index);
    else
        is_pinned = is_number(first + 1, (size_t)(second - first - 1), 1, &port) &&
                    is_number(second + 1, strlen(second + 1), 0, &gid_index);
    is_pinned = is_pinned && name_len > 0;
    d->kind = DEVICE_VERBS;
    d->port = is_pinned ? port : 0;
    d->gid_index = is_pinned ? gid_index : -1;
    if (!is_pinned)
        name_len = strlen(d->text);
    memcpy(d->name, d->text, name_len);
    d->name[name_len] = '\0';
}

static bool read_ipv4(const char *host, struct device *d)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        return false;
    memcpy(&d->addr, &in, sizeof in);
    d->kind = in.sin_addr.s_addr == htonl(INADDR_ANY) ? DEVICE_ALL : DEVICE_ADDRESS;
    return true;
}

static bool read_ipv6(const char *host, struct device *d)
{
    char address[DEVICE_TEXT_MAX];
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    snprintf(address, sizeof address, "%s", host);
    char *zone = strchr(address, '%');
    if (zone)
        *zone++ = '\0';
    if (inet_pton(AF_INET6, address, &in6.sin6_addr) != 1)
        return false;
    if (zone && (zone[0] == '\0' || strlen(zone) >= sizeof d->zone))
        return false;
    snprintf(d->zone, sizeof d->zone, "%.*s", (int)sizeof d->zone - 1, zone ? zone : "");
    memcpy(&d->addr, &in6, sizeof in6);
    d->kind = IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr) && !zone ? DEVICE_ALL : DEVICE_ADDRESS;
    return true;
}

static bool is_ip_port(const char *s)
{
    uint64_t port;
    return num_parse_dec(s, strlen(s), 65535, &port);
}

/* The port says nothing about a device; it is taken because people write listen addresses. */
static bool read_address(struct device *d)
{
    char host[DEVICE_TEXT_MAX];
    if (read_ipv4(d->text, d) || read_ipv6(d->text, d))
        return true;
    snprintf(host, sizeof host, "%s", d->text);
    if (host[0] == '[') {
        char *end = strchr(host, ']');
        if (!end || (end[1] != '\0' && (end[1] != ':' || !is_ip_port(end + 2))))
            return false;
        *end = '\0';
        return read_ipv6(host + 1, d);
    }
    char *colon = strrchr(host, ':');
    if (!colon || !is_ip_port(colon + 1))
        return false;
    *colon = '\0';
    return read_ipv4(host, d);
}

static int read_ofi(struct device *d, struct diag *diag)
{
    const char *at = strchr(d->rest, '@');
    size_t len = at ? (size_t)(at - d->rest) : strlen(d->rest);
    if (len == 0 || len >= TOKEN_PROVIDER_MAX)
        return invalid(diag, d->text, strlen(d->text),
                       "ofi: needs a libfabric provider, for example ofi:tcp");
    if (at && at[1] == '\0')
        return invalid(diag, d->text, strlen(d->text), "nothing follows the @");
    return 0;
}

/* True when it is a provider's name; then *ret_rc is the verdict on the rest of it. */
static bool read_provider(struct device *d, struct diag *diag, int *ret_rc)
{
    static const char *const names[] = {"cma", "ofi", "loop"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(d->text, names[i], n) != 0 || (d->text[n] != '\0' && d->text[n] != ':'))
            continue;
        d->kind = DEVICE_PROVIDER;
        snprintf(d->name, sizeof d->name, "%s", names[i]);
        snprintf(d->rest, sizeof d->rest, "%s", d->text[n] ? d->text + n + 1 : "");
        *ret_rc = 0;
        if (strcmp(names[i], "cma") == 0 && d->text[n] != '\0')
            *ret_rc = invalid(diag, d->text, strlen(d->text), "nothing may follow cma");
        else if (strcmp(names[i], "ofi") == 0)
            *ret_rc = read_ofi(d, diag);
        return true;
    }
    return false;
}

static int read_device(const char *s, size_t len, struct diag *diag, struct device *d)
{
    int rc;
    if (len >= DEVICE_TEXT_MAX)
        return invalid(diag, s, len, "the name is too long");
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)s[i] <= ' ' || s[i] == 0x7f)
            return invalid(diag, s, len, "a name has no blanks or control characters");
    }
    *d = (struct device){.gid_index = -1};
    memcpy(d->text, s, len);
    if (len == 0)
        return invalid(diag, s, len, "an empty name in a list");
    if (strcmp(d->text, "*") == 0) {
        d->kind = DEVICE_ALL;
        return 0;
    }
    if (read_provider(d, diag, &rc))
        return rc;
    if (!read_address(d))
        read_verbs(d);
    return 0;
}

static bool is_listed(const struct device_list *list, const struct device *d)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->at[i].text, d->text) == 0)
            return true;
    }
    return false;
}

static void trim(const char **s, size_t *len)
{
    while (*len > 0 && (*s)[0] == ' ') {
        ++*s;
        --*len;
    }
    while (*len > 0 && (*s)[*len - 1] == ' ')
        --*len;
}

static int add_device(struct device_list *list, const char *s, size_t len, struct diag *diag)
{
    struct device d;
    trim(&s, &len);
    int rc = read_device(s, len, diag, &d);
    if (rc || is_listed(list, &d))
        return rc;
    if (list->count == DEVICES_MAX)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "at most %d RDMA devices can be named",
                         DEVICES_MAX);
    list->at[list->count++] = d;
    return 0;
}

int device_list_parse(const char *text, struct diag *diag, struct device_list *ret_list)
{
    CLEANUP(device_list_fini) struct device_list list = {.count = 0};
    list.at = calloc(DEVICES_MAX, sizeof *list.at);
    if (!list.at)
        return S3R_E_NOMEM;
    if (text[strspn(text, " ")] == '\0') {
        list.at[list.count++] = (struct device){.kind = DEVICE_ALL, .gid_index = -1};
        *ret_list = (struct device_list){.at = STEAL(list.at), .count = list.count};
        return 0;
    }
    for (const char *s = text;;) {
        size_t len = strcspn(s, ",");
        int rc = add_device(&list, s, len, diag);
        if (rc)
            return rc;
        if (s[len] == '\0')
            break;
        s += len + 1;
    }
    *ret_list = (struct device_list){.at = STEAL(list.at), .count = list.count};
    return 0;
}

void device_list_fini(struct device_list *list)
{
    free(list->at);
    list->at = NULL;
    list->count = 0;
}

static int open_one(const struct device *d, struct diag *diag, device_open_fn *fn, void *arg)
{
    switch (d->kind) {
    case DEVICE_PROVIDER:
        return fn(d, diag, arg);
    case DEVICE_ALL:
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE,
                         "no RDMA device was named and there is no verbs provider in this build "
                         "to look for one; name cma (this host only) or ofi:tcp");
    case DEVICE_VERBS:
    case DEVICE_ADDRESS:
        break;
    }
    return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "no verbs provider in this build");
}

/* "cma: why; ofi:tcp: why" */
static void add_reason(char *reasons, size_t size, const struct device *d, const char *why)
{
    char shown[DEVICE_TEXT_MAX + 64];
    size_t used = strlen(reasons);
    log_escape(d->text, strlen(d->text), shown, sizeof shown);
    snprintf(reasons + used, size - used, "%s%s%s%s", used ? "; " : "", shown, shown[0] ? ": " : "",
             why);
}

int devices_open(const char *text, struct diag *diag, device_open_fn *fn, void *arg)
{
    CLEANUP(device_list_fini) struct device_list list = {.count = 0};
    char reasons[S3R_DIAG_MAX] = "";
    size_t opened = 0;
    int first_rc = 0;
    int rc = device_list_parse(text, diag, &list);
    if (rc)
        return rc;
    for (size_t i = 0; i < list.count; i++) {
        struct diag why = {""};
        rc = open_one(&list.at[i], &why, fn, arg);
        opened += rc == 0;
        if (rc)
            add_reason(reasons, sizeof reasons, &list.at[i], diag_text(&why, rc));
        if (rc && !first_rc)
            first_rc = rc;
    }
    if (opened == 0)
        return diag_fail(diag, list.count == 1 ? first_rc : S3R_E_RDMA_UNAVAILABLE, "%s", reasons);
    if (first_rc)
        log_warn("rdma devices left out: %s", reasons);
    return 0;
}
