/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/token.h"

#include "base/hex.h"
#include "base/num.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 9 /* a DC token with its suffix; one more is counted, so that it is noticed */
#define HIPOBJ_DIGITS 88
#define PID_MAX INT32_MAX

struct field {
    const char *s;
    size_t len;
};

struct fields {
    struct field at[FIELDS_MAX + 1];
    size_t count;
};

static struct fields split(const char *text, size_t len)
{
    struct fields f = {.count = 0};
    const char *end = text + len;
    for (;;) {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        f.at[f.count].s = text;
        f.at[f.count++].len = (size_t)((colon ? colon : end) - text);
        if (!colon || f.count > FIELDS_MAX)
            return f;
        text = colon + 1;
    }
}

static int malformed(struct diag *diag, const char *scheme, const char *what)
{
    return diag_fail(diag, S3R_E_TOKEN_MALFORMED, "x-amz-rdma-token: %s token: %s", scheme, what);
}

static bool is_all_hex(struct field f)
{
    for (size_t i = 0; i < f.len; i++) {
        if (hex_value(f.s[i]) < 0)
            return false;
    }
    return true;
}

/* Is the field `name` followed by one or more decimal digits and nothing else? */
static bool is_family(struct field f, const char *name)
{
    size_t n = strlen(name);
    if (f.len <= n || memcmp(f.s, name, n) != 0)
        return false;
    for (size_t i = n; i < f.len; i++) {
        if (f.s[i] < '0' || f.s[i] > '9')
            return false;
    }
    return true;
}

static bool is_text(struct field f, const char *s)
{
    return f.len == strlen(s) && memcmp(f.s, s, f.len) == 0;
}

static bool hex_u32(struct field f, size_t min, size_t max, uint32_t *ret)
{
    uint64_t v;
    if (!num_parse_hex(f.s, f.len, min, max, &v))
        return false;
    *ret = (uint32_t)v;
    return true;
}

static bool wraps(const struct token *t)
{
    uint64_t end;
    return !checked_add(t->addr, t->size, &end);
}

/* rc:<32>:<addr>:<size>:<rkey> */
static int parse_shim(const struct fields *f, struct diag *diag, struct token *t)
{
    t->scheme = TOKEN_SHIM;
    if (f->count != 5)
        return malformed(diag, "rc", "it has five fields");
    if (!hex_decode(f->at[1].s, f->at[1].len, t->shim.connection, sizeof t->shim.connection))
        return malformed(diag, "rc", "field 2 (the connection) is 32 hex digits");
    if (!num_parse_hex(f->at[2].s, f->at[2].len, 1, 16, &t->addr))
        return malformed(diag, "rc", "field 3 (the address) is 1 to 16 hex digits");
    if (!num_parse_hex(f->at[3].s, f->at[3].len, 1, 16, &t->size))
        return malformed(diag, "rc", "field 4 (the size) is 1 to 16 hex digits");
    if (!hex_u32(f->at[4], 1, 8, &t->shim.rkey))
        return malformed(diag, "rc", "field 5 (the rkey) is 1 to 8 hex digits");
    return 0;
}

static bool is_provider_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ';' ||
           c == '_' || c == '-' || c == '.';
}

static int parse_ofi_provider(struct field f, struct diag *diag, struct token_ofi *ofi)
{
    bool ok = f.len >= 1 && f.len < TOKEN_PROVIDER_MAX;
    for (size_t i = 0; ok && i < f.len; i++)
        ok = is_provider_char(f.s[i]);
    if (!ok)
        return malformed(diag, "ofi1",
                         "field 4 (the provider) is 1 to 64 characters of A-Z a-z 0-9 ; _ - .");
    memcpy(ofi->provider, f.s, f.len);
    ofi->provider[f.len] = '\0';
    return 0;
}

/* <base>:<size>:ofi1:<provider>:<name>:<key> */
static int parse_ofi(const struct fields *f, struct diag *diag, struct token *t)
{
    t->scheme = TOKEN_OFI;
    if (!is_text(f->at[2], "ofi1"))
        return diag_fail(diag, S3R_E_TOKEN_DECLINED,
                         "of the libfabric tokens only version ofi1 is served here");
    if (f->count != 6)
        return malformed(diag, "ofi1", "it has six fields");
    if (!num_parse_hex(f->at[0].s, f->at[0].len, 1, 16, &t->addr))
        return malformed(diag, "ofi1", "field 1 (the base) is 1 to 16 hex digits");
    if (!num_parse_hex(f->at[1].s, f->at[1].len, 1, 16, &t->size))
        return malformed(diag, "ofi1", "field 2 (the size) is 1 to 16 hex digits");
    int rc = parse_ofi_provider(f->at[3], diag, &t->ofi);
    if (rc)
        return rc;
    t->ofi.name_len = f->at[4].len / 2;
    if (f->at[4].len < 2 || f->at[4].len % 2 != 0 || t->ofi.name_len > TOKEN_OFI_NAME_LEN_MAX ||
        !hex_decode(f->at[4].s, f->at[4].len, t->ofi.name, t->ofi.name_len))
        return malformed(diag, "ofi1",
                         "field 5 (the name) is an even number of hex digits, 2 to 384");
    if (!num_parse_hex(f->at[5].s, f->at[5].len, 1, 16, &t->ofi.key))
        return malformed(diag, "ofi1", "field 6 (the key) is 1 to 16 hex digits");
    return 0;
}

/* Lower case and without padding: one window, one spelling. */
static bool canonical_hex(struct field f, uint64_t *ret)
{
    for (size_t i = 0; i < f.len; i++) {
        if (f.s[i] >= 'A' && f.s[i] <= 'F')
            return false;
    }
    if (f.len > 1 && f.s[0] == '0')
        return false;
    return num_parse_hex(f.s, f.len, 1, 16, ret);
}

/* <address>:<size>:cma1:<pid>:<start>:<slot>:<key> */
static int parse_cma(const struct fields *f, struct diag *diag, struct token *t)
{
    const struct {
        const char *name;
        size_t field;
        uint64_t *ret;
    } rows[] = {{"field 1 (the address)", 0, &t->addr},
                {"field 2 (the size)", 1, &t->size},
                {"field 4 (the pid)", 3, &t->cma.pid},
                {"field 5 (the start time)", 4, &t->cma.start},
                {"field 6 (the slot)", 5, &t->cma.slot},
                {"field 7 (the key)", 6, &t->cma.key}};
    t->scheme = TOKEN_CMA;
    if (!is_text(f->at[2], "cma1"))
        return diag_fail(diag, S3R_E_TOKEN_DECLINED,
                         "of the cma tokens only version cma1 is served here");
    if (f->count != 7)
        return malformed(diag, "cma1", "it has seven fields");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!canonical_hex(f->at[rows[i].field], rows[i].ret))
            return diag_fail(diag, S3R_E_TOKEN_MALFORMED,
                             "x-amz-rdma-token: cma1 token: %s is 1 to 16 hex digits in lower "
                             "case, without padding",
                             rows[i].name);
    }
    if (t->cma.pid < 1 || t->cma.pid > PID_MAX)
        return malformed(diag, "cma1", "field 4 (the pid) is not a process id");
    return 0;
}

/* The per-operation part that older clients append: it may only narrow the window. */
static int apply_suffix(struct field addr, struct field size, struct diag *diag, struct token *t)
{
    uint64_t sub_addr, sub_size;
    if (!num_parse_hex(addr.s, addr.len, 16, 16, &sub_addr) ||
        !num_parse_hex(size.s, size.len, 16, 16, &sub_size))
        return malformed(diag, "dc", "a suffix is an address and a size of 16 hex digits each");
    if (sub_addr < t->addr || !span_fits(sub_addr - t->addr, sub_size, t->size))
        return malformed(diag, "dc", "its suffix leaves the window of fields 1 and 2");
    t->addr = sub_addr;
    t->size = sub_size;
    return 0;
}

/* Fixed widths: 16 8 8 4 6 1 32, perhaps :16:16, perhaps a last ';'. */
static int parse_dc(struct fields *f, struct diag *diag, struct token *t)
{
    uint32_t size, lid;
    t->scheme = TOKEN_DC;
    struct field *last = &f->at[f->count - 1];
    if (last->len > 0 && last->s[last->len - 1] == ';')
        last->len--;
    if (f->count != 7 && f->count != 9)
        return diag_fail(diag, S3R_E_TOKEN_MALFORMED,
                         "x-amz-rdma-token has the shape of no known scheme");
    if (!num_parse_hex(f->at[0].s, f->at[0].len, 16, 16, &t->addr))
        return malformed(diag, "dc", "field 1 (the address) is 16 hex digits");
    if (!hex_u32(f->at[1], 8, 8, &size))
        return malformed(diag, "dc", "field 2 (the size) is 8 hex digits");
    t->size = size;
    if (!hex_u32(f->at[2], 8, 8, &t->dc.rkey))
        return malformed(diag, "dc", "field 3 (the rkey) is 8 hex digits");
    if (!hex_u32(f->at[3], 4, 4, &lid))
        return malformed(diag, "dc", "field 4 (the LID) is 4 hex digits");
    t->dc.lid = (uint16_t)lid;
    if (!hex_u32(f->at[4], 6, 6, &t->dc.dctn))
        return malformed(diag, "dc", "field 5 (the DCT number) is 6 hex digits");
    if (!is_text(f->at[5], "0") && !is_text(f->at[5], "1"))
        return malformed(diag, "dc", "field 6 (GID present) is 0 or 1");
    t->dc.has_gid = f->at[5].s[0] == '1';
    if (!hex_decode(f->at[6].s, f->at[6].len, t->dc.gid, sizeof t->dc.gid))
        return malformed(diag, "dc", "field 7 (the GID) is 32 hex digits");
    if (wraps(t))
        return malformed(diag, "dc", "address and size wrap");
    return f->count == 9 ? apply_suffix(f->at[7], f->at[8], diag, t) : 0;
}

static int parse_any(struct fields *f, struct diag *diag, struct token *t)
{
    if (f->count > 1 && is_text(f->at[0], "rc"))
        return parse_shim(f, diag, t);
    if (f->at[0].len == HIPOBJ_DIGITS && is_all_hex(f->at[0]))
        return diag_fail(diag, S3R_E_TOKEN_DECLINED, "hipObject v1 tokens are not served here");
    if (f->count > 2 && is_family(f->at[2], "ofi"))
        return parse_ofi(f, diag, t);
    if (f->count > 2 && is_family(f->at[2], "cma"))
        return parse_cma(f, diag, t);
    return parse_dc(f, diag, t);
}

int token_parse(const char *text, size_t len, struct diag *diag, struct token *ret_token)
{
    if (len == 0)
        return diag_fail(diag, S3R_E_TOKEN_MALFORMED, "x-amz-rdma-token is empty");
    if (len > LIMIT_TOKEN_LEN_MAX)
        return diag_fail(diag, S3R_E_TOKEN_MALFORMED,
                         "x-amz-rdma-token has %zu characters; at most %d are allowed", len,
                         LIMIT_TOKEN_LEN_MAX);
    struct token t;
    memset(&t, 0, sizeof t);
    struct fields f = split(text, len);
    int rc = parse_any(&f, diag, &t);
    if (rc)
        return rc;
    if (wraps(&t))
        return malformed(diag, token_scheme_name(t.scheme), "address and size wrap");
    *ret_token = t;
    return 0;
}

static int print_dc(const struct token *t, char *out, size_t size)
{
    char gid[2 * sizeof t->dc.gid + 1];
    if (t->size > LIMIT_DC_WINDOW_LEN_MAX || t->dc.dctn > 0xffffff)
        return -1;
    hex_encode(t->dc.gid, sizeof t->dc.gid, gid);
    return snprintf(out, size, "%016llx:%08llx:%08x:%04x:%06x:%d:%s", (unsigned long long)t->addr,
                    (unsigned long long)t->size, t->dc.rkey, t->dc.lid, t->dc.dctn, t->dc.has_gid,
                    gid);
}

static int print_ofi(const struct token *t, char *out, size_t size)
{
    char name[2 * TOKEN_OFI_NAME_LEN_MAX + 1];
    if (t->ofi.name_len < 1 || t->ofi.name_len > TOKEN_OFI_NAME_LEN_MAX)
        return -1;
    hex_encode(t->ofi.name, t->ofi.name_len, name);
    return snprintf(out, size, "%llx:%llx:ofi1:%s:%s:%llx", (unsigned long long)t->addr,
                    (unsigned long long)t->size, t->ofi.provider, name,
                    (unsigned long long)t->ofi.key);
}

static int print_cma(const struct token *t, char *out, size_t size)
{
    return snprintf(out, size, "%llx:%llx:cma1:%llx:%llx:%llx:%llx", (unsigned long long)t->addr,
                    (unsigned long long)t->size, (unsigned long long)t->cma.pid,
                    (unsigned long long)t->cma.start, (unsigned long long)t->cma.slot,
                    (unsigned long long)t->cma.key);
}

static int print_shim(const struct token *t, char *out, size_t size)
{
    char connection[2 * sizeof t->shim.connection + 1];
    hex_encode(t->shim.connection, sizeof t->shim.connection, connection);
    return snprintf(out, size, "rc:%s:%016llx:%08llx:%08x", connection, (unsigned long long)t->addr,
                    (unsigned long long)t->size, t->shim.rkey);
}

static const struct {
    const char *name;
    int (*print)(const struct token *t, char *out, size_t size);
} schemes[] = {
    [TOKEN_DC] = {"dc", print_dc},
    [TOKEN_OFI] = {"ofi", print_ofi},
    [TOKEN_CMA] = {"cma", print_cma},
    [TOKEN_SHIM] = {"shim", print_shim},
};

int token_print(const struct token *t, char *out, size_t size)
{
    if ((size_t)t->scheme >= ARRAY_LEN(schemes) || size == 0)
        return S3R_E_INVALID_ARGUMENT;
    int n = schemes[t->scheme].print(t, out, size);
    if (n < 0 || (size_t)n >= size) {
        out[0] = '\0';
        return S3R_E_INVALID_ARGUMENT;
    }
    return 0;
}

const char *token_scheme_name(enum token_scheme scheme)
{
    return (size_t)scheme < ARRAY_LEN(schemes) ? schemes[scheme].name : "unknown";
}

static void put_ipv4(const uint8_t address[4], in_port_t port, struct sockaddr_storage *ret_addr)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
    memcpy(&in.sin_addr, address, 4);
    memset(ret_addr, 0, sizeof *ret_addr);
    memcpy(ret_addr, &in, sizeof in);
}

static bool put_ipv6(const struct sockaddr_in6 *in6, struct sockaddr_storage *ret_addr)
{
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        put_ipv4(&in6->sin6_addr.s6_addr[12], in6->sin6_port, ret_addr);
        return true;
    }
    memset(ret_addr, 0, sizeof *ret_addr);
    memcpy(ret_addr, in6, sizeof *in6);
    return true;
}

/* On RoCE the LID is 0 and the GID an IP address; a link-local one says nothing without its zone,
 * and is what native InfiniBand has too. */
static bool dc_address(const struct token_dc *dc, struct sockaddr_storage *ret_addr)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    memcpy(&in6.sin6_addr, dc->gid, sizeof dc->gid);
    if (!dc->has_gid || dc->lid != 0 || IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr) ||
        IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
        return false;
    return put_ipv6(&in6, ret_addr);
}

/* The name is a sockaddr in the layout of hosts like ours. */
static bool ofi_address(const struct token_ofi *ofi, struct sockaddr_storage *ret_addr)
{
    sa_family_t family;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (ofi->name_len < sizeof family)
        return false;
    memcpy(&family, ofi->name, sizeof family);
    if (family == AF_INET && ofi->name_len == sizeof in) {
        memcpy(&in, ofi->name, sizeof in);
        put_ipv4((const uint8_t *)&in.sin_addr, in.sin_port, ret_addr);
        return true;
    }
    if (family == AF_INET6 && ofi->name_len == sizeof in6) {
        memcpy(&in6, ofi->name, sizeof in6);
        return put_ipv6(&in6, ret_addr);
    }
    return false;
}

bool token_address(const struct token *t, struct sockaddr_storage *ret_addr)
{
    switch (t->scheme) {
    case TOKEN_DC:
        return dc_address(&t->dc, ret_addr);
    case TOKEN_OFI:
        return ofi_address(&t->ofi, ret_addr);
    case TOKEN_CMA:
    case TOKEN_SHIM:
        break;
    }
    return false;
}
