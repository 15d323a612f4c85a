/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the server's options, from wherever they come.
 * Does:     command line over environment over file over default; refuses what it does not know or
 *           cannot use, naming it and what is allowed; prints what is in force.
 * Not here: acting on it (server.h).
 * Units:    bytes, seconds and milliseconds as the names say.
 * Owns:     all texts, until config_fini().
 * Threads:  owner; the environment is read once.
 * Errors:   S3R_E_INVALID_ARGUMENT with the option's name in the diag; S3R_E_NOMEM.
 * Limits:   CONFIG_FILE_LEN_MAX bytes of a configuration file. */
#ifndef S3R_SERVER_CONFIG_H
#define S3R_SERVER_CONFIG_H

#include "base/attr.h"
#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_FILE_LEN_MAX (64 * 1024)

typedef char *config_TEXT;
typedef char *config_SECRET;
typedef char *config_ADDRESS;
typedef char *config_LEVEL;
typedef char *config_REGION;
typedef uint64_t config_NUMBER;
typedef uint64_t config_SIZE;
typedef bool config_SWITCH;

struct config {
#define OPT(field, name, kind, default_text, value_name, help) config_##kind field;
#include "server/config.def"
#undef OPT
    bool is_print_wanted, is_help_wanted, is_version_wanted;
};

/* `environ`-style list; `--config FILE` or S3RDMA_CONFIG names the file. */
int config_load(int argc, char **argv, char **env, struct diag *diag,
                struct config *ret) MUST_CHECK;
void config_fini(struct config *c);
/* "host:port", "[v6]:port", ":port"; the host without brackets, "" for any. */
int config_split_address(const char *text, char *ret_host, size_t host_size, char *ret_port,
                         size_t port_size) MUST_CHECK;
/* The place of `name` among error, warn, info, debug; -1 for none of them. */
int config_level(const char *name);
/* One `name = value` a line; secrets are shown as *** when set. */
void config_print(const struct config *c, struct text *out);
/* The options with their defaults and meanings. */
void config_help(struct text *out);

#endif
