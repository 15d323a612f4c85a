/* SPDX-License-Identifier: Apache-2.0 */
/* s3rdma - the command-line client. */
#include "base/limits.h"
#include "base/log.h"
#include "client/settings.h"
#include "tools/cli.h"
#include "tools/json.h"
#include "tools/show.h"

#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const struct command {
    const char *name;
    unsigned bit;
    size_t args_min, args_max;
    int (*run)(struct cli *cli);
    const char *operands, *help;
} commands[] = {
    {"mb", CMD_MB, 1, 1, cmd_mb, "BUCKET", "make a bucket"},
    {"rb", CMD_RB, 1, 1, cmd_rb, "BUCKET", "remove an empty bucket"},
    {"ls", CMD_LS, 0, 1, cmd_ls, "[BUCKET[/PREFIX]]", "list buckets, or what is in one"},
    {"put", CMD_PUT, 2, 2, cmd_put, "FILE|- ADDRESS", "upload a file, or standard input"},
    {"get", CMD_GET, 1, 2, cmd_get, "ADDRESS [FILE|DIR|-]", "download an object"},
    {"cat", CMD_CAT, 1, 1, cmd_cat, "ADDRESS", "download to standard output"},
    {"cp", CMD_CP, 2, 2, cmd_cp, "SOURCE TARGET", "copy files, objects; with -r trees of them"},
    {"mirror", CMD_MIRROR, 2, 2, cmd_mirror, "SOURCE TARGET",
     "make a prefix like a folder, or back"},
    {"rm", CMD_RM, 1, ARGS_MAX - 1, cmd_rm, "ADDRESS...", "remove objects"},
    {"stat", CMD_STAT, 1, 1, cmd_stat, "ADDRESS", "what is known of an object"},
    {"presign", CMD_PRESIGN, 1, 1, cmd_presign, "ADDRESS", "a link that works without credentials"},
    {"bench", CMD_BENCH, 1, 1, cmd_bench, "s3://BUCKET", "RDMA against HTTP, with this server"},
    {"doctor", CMD_DOCTOR, 0, 1, cmd_doctor, "[s3://BUCKET]",
     "what to check before asking for help"},
    {"devices", CMD_DEVICES, 0, 0, cmd_devices, "", "RDMA devices: which work, and why others not"},
    {"token", CMD_TOKEN, 1, 1, cmd_token, "TOKEN", "an x-amz-rdma-token, field by field"},
};

static int print_help(void)
{
    printf("usage: s3rdma COMMAND [OPTIONS] OPERANDS\n"
           "Objects between this machine and an S3 server, by RDMA where it can be.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        char left[40];
        snprintf(left, sizeof(left), "%s %s", commands[i].name, commands[i].operands);
        printf("  %-28s %s\n", left, commands[i].help);
    }
    printf("\nAn ADDRESS is s3://BUCKET/KEY or BUCKET/KEY; the key is taken as it is written.\n"
           "cp and mirror: what begins with s3:// is in a bucket, everything else is a file.\n\n"
           "options:\n");
    options_print();
    printf(
        "\nendpoint and credentials: the options, then AWS_ENDPOINT_URL, AWS_REGION,\n"
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, then the profile "
        "(AWS_PROFILE,\n"
        "default) in ~/.aws. Secrets are never options: everybody on a machine can read those.\n"
        "RDMA devices: --device, then S3RDMA_DEVICE, then every adapter with an ACTIVE port.\n\n"
        "put and get send or compare a CRC-64/NVME of the whole object; there is none for a "
        "range.\n"
        "get to a file replaces it only when everything has arrived. After each transfer one line\n"
        "says what carried it, and if it was not RDMA, why.\n\n"
        "exit codes: 0 done; 1 failed; 2 wrong use; 3 RDMA was required and not used; 4 no such\n"
        "bucket, object or upload; 5 access denied; 6 no answer from the server; 130 "
        "interrupted\n");
    return EXIT_OK;
}

/* ---- interruption ---- */

/* Read by every thread that has a call under way. */
static atomic_int stop_signal;
static atomic_bool is_stop_ignored;

static void on_stop(int signal)
{
    stop_signal = signal;
}

bool is_stopped(void)
{
    return stop_signal != 0 && !is_stop_ignored;
}

void ignore_stop(bool is_ignored)
{
    is_stop_ignored = is_ignored;
}

static bool is_cancelled(void *arg)
{
    return is_stopped();
}

static void set_signals(void)
{
    struct sigaction stop = {.sa_handler = on_stop}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* ---- messages ---- */

int exit_code(int error)
{
    switch (error) {
    case 0:
        return EXIT_OK;
    case S3R_E_RDMA_REQUIRED:
        return EXIT_NO_RDMA;
    case S3R_E_NO_SUCH_BUCKET:
    case S3R_E_NO_SUCH_KEY:
    case S3R_E_NO_SUCH_UPLOAD:
    case S3R_E_NO_SUCH_VERSION:
        return EXIT_NOT_FOUND;
    case S3R_E_ACCESS_DENIED:
    case S3R_E_INVALID_ACCESS_KEY:
    case S3R_E_SIGNATURE:
    case S3R_E_TIME_SKEWED:
    case S3R_E_EXPIRED:
        return EXIT_DENIED;
    case S3R_E_HTTP:
    case S3R_E_TIMEOUT:
        return EXIT_NO_SERVER;
    case S3R_E_CANCELLED:
        return EXIT_STOPPED;
    default:
        return EXIT_FAILED;
    }
}

int cli_fail(const struct cli *cli, const char *about, int error, const struct diag *diag)
{
    int code = exit_code(error);
    if (error == S3R_E_CANCELLED)
        fprintf(stderr, "s3rdma: interrupted\n");
    else
        show_line(stderr, "s3rdma: %s%s%s", about != NULL ? about : "", about != NULL ? ": " : "",
                  diag_text(diag, error));
    if (cli->o.is_json)
        json_print_error(cli->is_stdout_taken, cli->command, about, error, diag_text(diag, error),
                         code);
    return code;
}

/* ---- the server ---- */

static void settings_finip(struct settings *s)
{
    settings_fini(s);
}

int cli_try_connect(struct cli *cli, struct diag *diag)
{
    const struct cli_options *o = &cli->o;
    CLEANUP(settings_finip) struct settings s = {0};
    int e = settings_load(o->profile, diag, &s);
    if (e != 0)
        return e;
    const char *device = o->device != NULL ? o->device : getenv("S3RDMA_DEVICE");
    const struct client_config config = {
        .endpoint = o->endpoint != NULL ? o->endpoint : s.endpoint,
        .region = o->region != NULL ? o->region : s.region,
        .access_key = s.access_key,
        .secret_key = s.secret_key,
        .session_token = s.session_token,
        .ca_file = o->ca != NULL ? o->ca : s.ca_file,
        .proxy = o->proxy,
        .devices = o->device,
        .is_rdma_off = o->is_rdma_off || (device != NULL && strcmp(device, "off") == 0),
        .connect_ms = (int64_t)o->connect_timeout_ms,
        .patience_ms = (int64_t)o->timeout_ms,
        .is_cancelled = is_cancelled,
    };
    cli->is_nowhere = config.endpoint == NULL;
    if (cli->is_nowhere)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "no endpoint: --endpoint, AWS_ENDPOINT_URL or endpoint_url in "
                         "~/.aws/config says http[s]://HOST[:PORT]");
    cli->endpoint = strdup(config.endpoint);
    if (cli->endpoint == NULL)
        return S3R_E_NOMEM;
    if (config.access_key == NULL)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a "
                         "profile in ~/.aws/credentials");
    return client_create(&config, diag, &cli->client);
}

int cli_connect(struct cli *cli)
{
    struct diag diag = {0};
    int e = cli_try_connect(cli, &diag);
    return e == 0 ? EXIT_OK : usage_error("%s", diag_text(&diag, e));
}

/* ---- main ---- */

static int run(struct cli *cli)
{
    struct cli_options *o = &cli->o;
    if (o->arg_count == 0)
        return usage_error("which command?");
    const struct command *command = NULL;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(o->args[0], commands[i].name) == 0)
            command = &commands[i];
    char shown[100];
    if (command == NULL)
        return usage_error("there is no command %s",
                           log_escape(o->args[0], strlen(o->args[0]), shown, sizeof(shown)));
    size_t args = o->arg_count - 1;
    if (args < command->args_min || args > command->args_max)
        return usage_error("usage: s3rdma %s %s", command->name, command->operands);
    int code = options_check(o, command->bit, command->name);
    if (code == EXIT_OK)
        code = environment_check(environ);
    cli->command = command->name;
    if (code == EXIT_OK && (command->bit & CMD_SERVER & ~CMD_DOCTOR) != 0)
        code = cli_connect(cli);
    if (code == EXIT_OK)
        code = command->run(cli);
    client_destroy(cli->client);
    free(cli->endpoint);
    return code;
}

int main(int argc, char **argv)
{
    static struct cli cli;
    set_signals();
    log_set_sink(log_to_stderr, NULL);
    log_set_level(LOG_WARN);
    int code = options_parse(argc, argv, &cli.o);
    if (code != EXIT_OK)
        return code;
    if (cli.o.is_help)
        return print_help();
    if (cli.o.is_version) {
        printf("s3rdma %s\n", S3R_VERSION);
        return EXIT_OK;
    }
    code = run(&cli);
    if (fflush(stdout) != 0 && code == EXIT_OK) {
        perror("s3rdma: standard output");
        code = EXIT_FAILED;
    }
    return code;
}
