/* SPDX-License-Identifier: Apache-2.0 */
/* api_config.h - a configuration as s3r/client.h builds it, before anything judges it.
 * Does:     keeps what was set; finds credentials and what else is not said where the choice says.
 * Not here: reading the files (settings.h); judging (client.h).
 * Units:    milliseconds.
 * Owns:     its text; secrets are wiped.
 * Threads:  owner.
 * Errors:   S3R_E_INVALID_ARGUMENT, S3R_E_NOMEM.
 * Limits:   none. */
#ifndef S3R_CLIENT_API_CONFIG_H
#define S3R_CLIENT_API_CONFIG_H

#include "client/client.h"
#include "s3r/client.h"

struct s3r_config {
    char *endpoint, *region, *access_key, *secret_key, *session_token, *profile, *ca_file, *proxy,
        *devices;
    bool is_tls, is_rdma_off;
    enum s3r_credentials credentials;
    int64_t connect_ms, patience_ms, stall_ms;
};

/* A client of it, with what it leaves open from the environment or the files. */
int api_config_open(const struct s3r_config *config, struct diag *diag,
                    struct client **ret_client) MUST_CHECK;

#endif
