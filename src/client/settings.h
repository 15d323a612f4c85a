/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - endpoint, region and credentials, from where the AWS tools have them.
 * Does:     reads AWS_ENDPOINT_URL (and _S3), AWS_REGION, AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID,
 *           AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_CA_BUNDLE, and of the files
 *           ~/.aws/credentials and ~/.aws/config (or AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE)
 *           the profile's aws_access_key_id, aws_secret_access_key, aws_session_token, region,
 *           endpoint_url and ca_bundle.
 * Not here: roles, SSO and metadata services: they need their own requests.
 * Units:    none.
 * Owns:     settings own their text until settings_fini(), which wipes the secrets.
 * Threads:  any, as long as nobody changes the environment.
 * Errors:   S3R_E_INVALID_ARGUMENT names the file, profile or variable; S3R_E_NOMEM.
 * Limits:   SETTINGS_FILE_LEN_MAX.
 * Key and secret always come from one source together. The environment wins over the files, except
 * over a profile that was named in the call. */
#ifndef S3R_CLIENT_SETTINGS_H
#define S3R_CLIENT_SETTINGS_H

#include "base/attr.h"
#include "base/error.h"

#include <stddef.h>

#define SETTINGS_FILE_LEN_MAX (1024 * 1024)

/* Each NULL when nobody says. */
struct settings {
    char *endpoint, *region, *ca_file;
    char *access_key, *secret_key, *session_token;
};

/* `profile` NULL: AWS_PROFILE, else "default". A profile that was asked for must be there. */
int settings_load(const char *profile, struct diag *diag, struct settings *ret_settings) MUST_CHECK;
/* Of one of the two only. */
int settings_from_environment(struct diag *diag, struct settings *ret_settings) MUST_CHECK;
int settings_from_files(const char *profile, struct diag *diag,
                        struct settings *ret_settings) MUST_CHECK;
void settings_fini(struct settings *s);

#endif
