/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what the commands of s3rdma share.
 * Does:     options, exit codes, addresses, the connection to a server, messages.
 * Not here: the commands (cmd_*.c); S3 (client/).
 * Units:    bytes, milliseconds.
 * Owns:     a struct cli owns its client; texts in options are the command line's.
 * Threads:  owner.
 * Errors:   exit codes, EXIT_*.
 * Limits:   ARGS_MAX operands, METADATA_MAX pairs. */
#ifndef S3R_TOOLS_CLI_H
#define S3R_TOOLS_CLI_H

#include "base/attr.h"
#include "base/error.h"
#include "client/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGS_MAX 1000
#define METADATA_MAX 64
#define PART_LEN_DEFAULT (64 * MIB)
#define PART_LEN_MAX (1024 * MIB)

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_RDMA = 3,
    EXIT_NOT_FOUND = 4,
    EXIT_DENIED = 5,
    EXIT_NO_SERVER = 6,
    EXIT_STOPPED = 130,
};

/* Which commands an option is for. */
enum {
    CMD_MB = 1,
    CMD_RB = 2,
    CMD_LS = 4,
    CMD_PUT = 8,
    CMD_GET = 16,
    CMD_CAT = 32,
    CMD_RM = 64,
    CMD_STAT = 128,
    CMD_PRESIGN = 256,
    CMD_DEVICES = 512,
    CMD_TOKEN = 1024,
    CMD_CP = 2048,
    CMD_MIRROR = 4096,
    CMD_BENCH = 8192,
    CMD_DOCTOR = 16384,
    CMD_ANY = 32767,
    CMD_SERVER = CMD_ANY & ~(CMD_DEVICES | CMD_TOKEN),
    CMD_TREES = CMD_CP | CMD_MIRROR,
    CMD_DOWN = CMD_GET | CMD_CAT | CMD_TREES,
    CMD_MOVE = CMD_PUT | CMD_DOWN,
};

struct cli_range {
    bool is_given, is_open; /* open: to the end */
    bool is_suffix;         /* the last `first` bytes */
    uint64_t first, last;
};

struct cli_options {
    const char *endpoint, *region, *profile, *ca, *proxy, *device;
    const char *content_type, *method;
    const char *sizes, *processes; /* lists */
    const char *metadata[METADATA_MAX];
    size_t metadata_count;
    bool is_rdma_required, is_rdma_off, is_json, is_quiet, is_headers, is_unverified, is_recursive;
    bool is_delete, is_dry_run, is_checksum, is_resume_off;
    uint64_t part_len; /* 0: the default */
    uint64_t parallel; /* 0: the default */
    uint64_t timeout_ms, connect_timeout_ms, expires_s, seconds_ms;
    struct cli_range range;
    bool is_help, is_version;
    const char *args[ARGS_MAX];
    size_t arg_count;
};

struct cli {
    struct cli_options o;
    const char *command;
    struct client *client; /* NULL until cli_connect() */
    char *endpoint;        /* likewise */
    bool is_nowhere;       /* nobody named an endpoint */
    bool is_stdout_taken;  /* by an object's bytes: results go to standard error */
};

/* A message of a wrong use, and EXIT_USAGE. */
int usage_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Fills `o`; EXIT_OK or EXIT_USAGE. The command is args[0]. */
int options_parse(int argc, char **argv, struct cli_options *o);
/* EXIT_USAGE when an option was given that is not for this command. */
int options_check(const struct cli_options *o, unsigned command_bit, const char *command);
/* EXIT_USAGE for a variable S3RDMA_* that nobody knows. */
int environment_check(char **env);
void options_print(void);
/* Bytes, or with KiB, MiB, GiB. */
bool size_parse(const char *text, size_t len, uint64_t *ret) MUST_CHECK;

/* EXIT_OK with a client from options, environment and files. */
int cli_connect(struct cli *cli);
/* The same, saying nothing. */
int cli_try_connect(struct cli *cli, struct diag *diag) MUST_CHECK;
/* Says what went wrong, on standard error (with --json an object on standard output), and returns
 * the exit code for it. `about` may be NULL. */
int cli_fail(const struct cli *cli, const char *about, int error, const struct diag *diag);
int exit_code(int error);
/* True once the user has pressed ^C (or SIGTERM came): calls then end with S3R_E_CANCELLED. */
bool is_stopped(void);
/* While true, ^C no longer ends calls: for tidying up. */
void ignore_stop(bool is_ignored);

struct address {
    char *bucket, *key; /* key NULL when there is none */
};

void address_fini(struct address *a);
void address_finip(struct address *a);
/* `s3://BUCKET[/KEY]` or `BUCKET[/KEY]`. EXIT_OK or EXIT_USAGE. */
int address_parse(const char *text, bool is_key_wanted, struct address *ret_address);

int cmd_mb(struct cli *cli);
int cmd_rb(struct cli *cli);
int cmd_ls(struct cli *cli);
int cmd_put(struct cli *cli);
int cmd_get(struct cli *cli);
int cmd_cat(struct cli *cli);
int cmd_rm(struct cli *cli);
int cmd_stat(struct cli *cli);
int cmd_presign(struct cli *cli);
int cmd_devices(struct cli *cli);
int cmd_token(struct cli *cli);
int cmd_cp(struct cli *cli);
int cmd_mirror(struct cli *cli);
int cmd_bench(struct cli *cli);
int cmd_doctor(struct cli *cli);

#endif
