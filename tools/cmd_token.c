/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/token.h"

#include "base/hex.h"
#include "tools/cli.h"
#include "tools/json.h"
#include "tools/show.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 12

/* The fields of a token as text, for both forms of output. */
struct sheet {
    struct {
        const char *name, *note;
        char value[2 * TOKEN_OFI_NAME_LEN_MAX + 1];
    } rows[FIELDS_MAX];
    size_t count;
};

static void add(struct sheet *s, const char *name, const char *note, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static void add(struct sheet *s, const char *name, const char *note, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(s->rows[s->count].value, sizeof(s->rows[0].value), fmt, args);
    va_end(args);
    s->rows[s->count].name = name;
    s->rows[s->count].note = note;
    s->count++;
}

static void add_address(struct sheet *s, const struct token *t)
{
    struct sockaddr_storage addr;
    char text[INET6_ADDRSTRLEN] = "";
    unsigned port = 0;
    if (!token_address(t, &addr))
        return;
    if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        port = ntohs(in->sin_port);
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr;
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
        port = ntohs(in6->sin6_port);
    }
    add(s, "peer", "the address a server would reach", port != 0 ? "%s port %u" : "%s", text, port);
}

static void describe(const struct token *t, struct sheet *s)
{
    char hex[2 * TOKEN_OFI_NAME_LEN_MAX + 1];
    add(s, "scheme", "", "%s", token_scheme_name(t->scheme));
    add(s, "address", "of the window in its owner's memory", "0x%" PRIx64, t->addr);
    add(s, "size", "bytes", "%" PRIu64, t->size);
    switch (t->scheme) {
    case TOKEN_DC:
        hex_encode(t->dc.gid, sizeof(t->dc.gid), hex);
        add(s, "rkey", "remote key", "0x%" PRIx32, t->dc.rkey);
        add(s, "lid", "InfiniBand address", "%u", t->dc.lid);
        add(s, "dctn", "DC target number", "0x%" PRIx32, t->dc.dctn);
        add(s, "gid", t->dc.has_gid ? "" : "not used", "%s", hex);
        break;
    case TOKEN_OFI:
        hex_encode(t->ofi.name, t->ofi.name_len, hex);
        add(s, "provider", "of libfabric", "%s", t->ofi.provider);
        add(s, "name", "the endpoint's address, as libfabric has it", "%s", hex);
        add(s, "key", "remote key", "0x%" PRIx64, t->ofi.key);
        break;
    case TOKEN_CMA:
        add(s, "pid", "the process that owns the memory", "%" PRIu64, t->cma.pid);
        add(s, "start", "its start time, field 22 of /proc/PID/stat", "%" PRIu64, t->cma.start);
        add(s, "slot", "in its table of windows", "%" PRIu64, t->cma.slot);
        add(s, "key", "random", "0x%" PRIx64, t->cma.key);
        break;
    case TOKEN_SHIM:
        hex_encode(t->shim.connection, sizeof(t->shim.connection), hex);
        add(s, "connection", "made before", "%s", hex);
        add(s, "rkey", "remote key", "0x%" PRIx32, t->shim.rkey);
        break;
    }
    add_address(s, t);
}

int cmd_token(struct cli *cli)
{
    const char *text = cli->o.args[1];
    struct diag diag = {0};
    struct token token = {0};
    int e = token_parse(text, strlen(text), &diag, &token);
    if (e != 0) {
        show_line(stderr, "s3rdma: %s: %s",
                  e == S3R_E_TOKEN_DECLINED ? "known, and served by nobody here" : "malformed",
                  diag_text(&diag, e));
        if (cli->o.is_json)
            json_print_error(false, "token", NULL, e, diag_text(&diag, e), EXIT_USAGE);
        return EXIT_USAGE;
    }
    struct sheet sheet = {0};
    describe(&token, &sheet);
    struct field fields[FIELDS_MAX];
    for (size_t i = 0; i < sheet.count; i++) {
        fields[i] = FIELD_T(sheet.rows[i].name, sheet.rows[i].value);
        if (!cli->o.is_json)
            show_line(stdout, "%-10s %s%s%s%s", sheet.rows[i].name, sheet.rows[i].value,
                      sheet.rows[i].note[0] != '\0' ? "  (" : "", sheet.rows[i].note,
                      sheet.rows[i].note[0] != '\0' ? ")" : "");
    }
    if (cli->o.is_json)
        json_print(false, fields, sheet.count);
    return EXIT_OK;
}
