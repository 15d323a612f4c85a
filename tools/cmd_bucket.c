/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"
#include "tools/cli.h"
#include "tools/json.h"
#include "tools/report.h"
#include "tools/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void done(const struct cli *cli, const char *what)
{
    if (cli->o.is_json) {
        const struct field fields[] = {FIELD_T("op", cli->command), FIELD_T("about", what)};
        json_print(false, fields, ARRAY_LEN(fields));
    } else if (!cli->o.is_quiet) {
        printf("%s: %s\n", what, strcmp(cli->command, "mb") == 0 ? "made" : "removed");
    }
}

static int make_or_remove(struct cli *cli,
                          int call(struct client *c, const char *bucket, struct diag *diag))
{
    CLEANUP(address_finip) struct address a = {0};
    int code = address_parse(cli->o.args[1], false, &a);
    if (code != EXIT_OK)
        return code;
    if (a.key != NULL)
        return usage_error("%s takes a bucket, not a key: %s", cli->command, cli->o.args[1]);
    struct diag diag = {0};
    int e = call(cli->client, a.bucket, &diag);
    if (e != 0)
        return cli_fail(cli, a.bucket, e, &diag);
    done(cli, a.bucket);
    return EXIT_OK;
}

int cmd_mb(struct cli *cli)
{
    return make_or_remove(cli, client_bucket_create);
}

int cmd_rb(struct cli *cli)
{
    return make_or_remove(cli, client_bucket_delete);
}

/* ---- ls ---- */

/* Backslashes are escaped, too: no two names look the same. */
static void print_row(const char *time, const char *what, const char *name)
{
    struct text text;
    text_init(&text, SHOW_LEN_MAX);
    for (const char *p = name; *p != '\0'; p++)
        if (*p == '\\')
            text_str(&text, "\\x5c");
        else
            text_char(&text, *p);
    show_line(stdout, "%-24s %s%s", time, what, text_cstr(&text));
    text_fini(&text);
}

static void print_entry(const struct cli *cli, const struct client_entry *entry, bool is_bucket)
{
    if (cli->o.is_json) {
        const struct field fields[] = {
            FIELD_T(is_bucket          ? "bucket"
                    : entry->is_prefix ? "prefix"
                                       : "key",
                    entry->name),
            FIELD_T("time", entry->time[0] != '\0' ? entry->time : NULL),
            FIELD_T("etag", entry->etag[0] != '\0' ? entry->etag : NULL),
            FIELD_N("bytes", entry->len),
        };
        bool has_len = !is_bucket && !entry->is_prefix;
        json_print(false, fields, ARRAY_LEN(fields) - (has_len ? 0 : 1));
        return;
    }
    char size[24] = "";
    if (entry->is_prefix)
        snprintf(size, sizeof(size), "%15s ", "prefix");
    else if (!is_bucket)
        snprintf(size, sizeof(size), "%15" PRIu64 " ", entry->len);
    print_row(entry->is_prefix ? "" : entry->time, size, entry->name);
}

static int list_buckets(struct cli *cli)
{
    struct diag diag = {0};
    struct client_page page = {0};
    int e = client_bucket_list(cli->client, &diag, &page);
    if (e != 0)
        return cli_fail(cli, NULL, e, &diag);
    for (size_t i = 0; i < page.count; i++)
        print_entry(cli, &page.entries[i], true);
    client_page_fini(&page);
    return EXIT_OK;
}

static int list_objects(struct cli *cli, const struct address *a)
{
    struct diag diag = {0};
    struct client_page page = {0}, next = {0};
    const char *delimiter = cli->o.is_recursive ? NULL : "/";
    int e;
    do {
        e = client_object_list(cli->client, a->bucket, a->key, delimiter, page.next_token, &diag,
                               &next);
        client_page_fini(&page);
        page = next;
        next = (struct client_page){0};
        for (size_t i = 0; e == 0 && i < page.count; i++)
            print_entry(cli, &page.entries[i], false);
    } while (e == 0 && page.next_token != NULL);
    client_page_fini(&page);
    return e == 0 ? EXIT_OK : cli_fail(cli, a->bucket, e, &diag);
}

int cmd_ls(struct cli *cli)
{
    if (cli->o.arg_count == 1)
        return list_buckets(cli);
    CLEANUP(address_finip) struct address a = {0};
    int code = address_parse(cli->o.args[1], false, &a);
    return code == EXIT_OK ? list_objects(cli, &a) : code;
}

/* ---- rm, stat, presign ---- */

static int remove_one(struct cli *cli, const char *text)
{
    CLEANUP(address_finip) struct address a = {0};
    struct diag diag = {0};
    struct client_result result = {0};
    int code = address_parse(text, true, &a);
    if (code != EXIT_OK)
        return code;
    int e = client_delete(cli->client, a.bucket, a.key, &diag, &result);
    client_result_fini(&result);
    if (e != 0)
        return cli_fail(cli, text, e, &diag);
    done(cli, text);
    return EXIT_OK;
}

int cmd_rm(struct cli *cli)
{
    int code = EXIT_OK;
    for (size_t i = 1; i < cli->o.arg_count && !is_stopped(); i++) {
        int one = remove_one(cli, cli->o.args[i]);
        if (code == EXIT_OK)
            code = one;
    }
    return is_stopped() ? EXIT_STOPPED : code;
}

static void print_stat(const struct cli *cli, const struct address *a,
                       const struct client_result *result)
{
    char crc[16] = "";
    if (result->has_crc64)
        print_crc64(result->crc64, crc);
    if (!cli->o.is_json) {
        if (!cli->o.is_headers)
            printf("bytes: %" PRIu64 "\n", result->object_len);
        print_headers(&result->headers);
        return;
    }
    const struct field fields[] = {
        FIELD_T("op", "stat"),
        FIELD_T("bucket", a->bucket),
        FIELD_T("key", a->key),
        FIELD_N("bytes", result->object_len),
        FIELD_T("etag", result->etag[0] != '\0' ? result->etag : NULL),
        FIELD_T("version_id", headers_get(&result->headers, "x-amz-version-id")),
        FIELD_T("last_modified", headers_get(&result->headers, "last-modified")),
        FIELD_T("content_type", headers_get(&result->headers, "content-type")),
        FIELD_T("crc64nvme", result->has_crc64 ? crc : NULL),
        FIELD_H("headers", &result->headers),
    };
    json_print(false, fields, ARRAY_LEN(fields));
}

int cmd_stat(struct cli *cli)
{
    CLEANUP(address_finip) struct address a = {0};
    int code = address_parse(cli->o.args[1], true, &a);
    if (code != EXIT_OK)
        return code;
    struct diag diag = {0};
    struct client_result result = {0};
    int e = client_stat(cli->client, a.bucket, a.key, &diag, &result);
    if (e == 0)
        print_stat(cli, &a, &result);
    else
        code = cli_fail(cli, cli->o.args[1], e, &diag);
    client_result_fini(&result);
    return code;
}

int cmd_presign(struct cli *cli)
{
    CLEANUP(address_finip) struct address a = {0};
    int code = address_parse(cli->o.args[1], true, &a);
    if (code != EXIT_OK)
        return code;
    struct diag diag = {0};
    struct text url;
    text_init(&url, 16384);
    int64_t expires_s = cli->o.expires_s > 0 ? (int64_t)cli->o.expires_s : 3600;
    const char *method = cli->o.method != NULL ? cli->o.method : "GET";
    int e = client_presign(cli->client, method, a.bucket, a.key, expires_s, &diag, &url);
    const struct field fields[] = {FIELD_T("op", "presign"), FIELD_T("method", method),
                                   FIELD_T("url", text_cstr(&url)),
                                   FIELD_N("expires_s", (uint64_t)expires_s)};
    if (e != 0)
        code = cli_fail(cli, cli->o.args[1], e, &diag);
    else if (cli->o.is_json)
        json_print(false, fields, ARRAY_LEN(fields));
    else
        printf("%s\n", text_cstr(&url));
    text_fini(&url);
    return code;
}
