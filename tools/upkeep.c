/* SPDX-License-Identifier: Apache-2.0 */
#include "upkeep.h"

#include "base/log.h"
#include "client/call.h"
#include "server/config.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_DAMAGE = 1, EXIT_USAGE = 2 };

static int print_report(const struct store_scrub_report *r)
{
    printf("objects %" PRIu64 ", files %" PRIu64 ", bytes %" PRIu64 ", bad blocks %" PRIu64
           ", missing files %" PRIu64 ", orphans removed %" PRIu64 "\n",
           r->objects, r->files, r->bytes, r->bad_blocks, r->missing_files, r->orphans_removed);
    return r->bad_blocks || r->missing_files ? EXIT_DAMAGE : 0;
}

static int report_failure(const char *command, int rc, const struct diag *diag)
{
    fprintf(stderr, "s3rdmad %s: %s\n", command, diag_text(diag, rc));
    return EXIT_DAMAGE;
}

static int scrub(const char *dir, bool is_deep)
{
    struct store_config config = {.dir = dir, .is_direct = true};
    struct store_scrub_report report = {0};
    struct diag diag = {0};
    struct store *s;
    int rc = store_open(&config, &diag, &s);
    if (rc)
        return report_failure("scrub", rc, &diag);
    rc = store_scrub(s, is_deep, &diag, &report);
    store_close(s);
    return rc ? report_failure("scrub", rc, &diag) : print_report(&report);
}

static int rebuild(const char *dir)
{
    struct store_scrub_report report = {0};
    struct diag diag = {0};
    int rc = store_rebuild(dir, &diag, &report);
    return rc ? report_failure("rebuild", rc, &diag) : print_report(&report);
}

/* ---- backup: through the server, which has the store open ---- */

/* Where the server of this configuration is reached from its own host. */
static int endpoint_of(const struct config *config, struct text *url, struct diag *diag)
{
    char host[256], port[8];
    int rc = config_split_address(config->listen, host, sizeof host, port, sizeof port);
    if (rc)
        return rc;
    if (strcmp(port, "0") == 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "--listen: backup needs the port that the server listens on");
    bool is_any = !*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    text_fmt(url, "%s://", *config->tls_cert ? "https" : "http");
    if (is_any)
        text_str(url, "127.0.0.1");
    else
        text_fmt(url, strchr(host, ':') ? "[%s]" : "%s", host);
    text_fmt(url, ":%s", port);
    return text_error(url);
}

static int ask_for_backup(const struct config *config, const char *url, const char *dir,
                          struct diag *diag)
{
    struct client_config settings = {.endpoint = url,
                                     .region = config->region,
                                     .access_key = config->root_user,
                                     .secret_key = config->root_password,
                                     .ca_file = *config->tls_cert ? config->tls_cert : NULL,
                                     .is_rdma_off = true};
    CLEANUP(client_destroyp) struct client *client = NULL;
    struct http_reply reply = {0};
    struct call call;
    int rc = client_create(&settings, diag, &client);
    if (!rc)
        rc = call_init(&call, "POST", NULL, NULL, diag);
    if (rc)
        return rc;
    rc = query_add(&call.query, "s3r-backup", dir);
    if (!rc)
        rc = call_do(client, &call, diag, &reply);
    http_reply_fini(&reply);
    call_fini(&call);
    return rc;
}

static int backup(const char *dir, int argc, char **argv, char **env)
{
    struct config config;
    struct diag diag = {0};
    struct text url;
    int rc = config_load(argc, argv, env, &diag, &config);
    if (rc) {
        report_failure("backup", rc, &diag);
        return EXIT_USAGE;
    }
    text_init(&url, 512);
    rc = endpoint_of(&config, &url, &diag);
    if (!rc)
        rc = ask_for_backup(&config, text_cstr(&url), dir, &diag);
    text_fini(&url);
    config_fini(&config);
    return rc ? report_failure("backup", rc, &diag) : 0;
}

bool upkeep_run(int argc, char **argv, int *ret_exit)
{
    const char *command = argc > 1 ? argv[1] : "", *dir = argc > 2 ? argv[2] : "-";
    bool is_backup = strcmp(command, "backup") == 0, is_rebuild = strcmp(command, "rebuild") == 0;
    bool is_scrub = strcmp(command, "scrub") == 0;
    bool is_deep = is_scrub && argc == 4 && strcmp(argv[3], "--deep") == 0;
    if (!is_scrub && !is_rebuild && !is_backup)
        return false;
    log_set_sink(log_to_stderr, NULL);
    if (dir[0] == '-' || (argc != 3 && !is_deep && !is_backup)) {
        fprintf(stderr, "usage: s3rdmad scrub DIR [--deep] | rebuild DIR | backup DIR [OPTIONS]\n");
        *ret_exit = EXIT_USAGE;
    } else if (is_backup) {
        *ret_exit = backup(dir, argc - 2, argv + 2, environ);
    } else {
        *ret_exit = is_scrub ? scrub(dir, is_deep) : rebuild(dir);
    }
    return true;
}
