/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api_config.h"

#include "client/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct s3r_config *s3r_config_new(void)
{
    return calloc(1, sizeof(struct s3r_config));
}

static void wipe(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void s3r_config_free(struct s3r_config *config)
{
    if (config == NULL)
        return;
    wipe(&config->access_key);
    wipe(&config->secret_key);
    wipe(&config->session_token);
    char *texts[] = {config->endpoint, config->region, config->profile,
                     config->ca_file,  config->proxy,  config->devices};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(config);
}

static int set(char **place, const char *value)
{
    char *copy = NULL;
    if (value != NULL && value[0] != '\0' && (copy = strdup(value)) == NULL)
        return S3R_ERROR_NOMEM;
    wipe(place);
    *place = copy;
    return S3R_OK;
}

int s3r_config_set_endpoint(struct s3r_config *config, const char *endpoint)
{
    return set(&config->endpoint, endpoint);
}

int s3r_config_set_tls(struct s3r_config *config, int is_tls)
{
    config->is_tls = is_tls != 0;
    return S3R_OK;
}

int s3r_config_set_region(struct s3r_config *config, const char *region)
{
    return set(&config->region, region);
}

int s3r_config_set_keys(struct s3r_config *config, const char *access_key, const char *secret_key,
                        const char *session_token)
{
    int e = set(&config->access_key, access_key);
    if (e == S3R_OK)
        e = set(&config->secret_key, secret_key);
    if (e == S3R_OK)
        e = set(&config->session_token, session_token);
    config->credentials = S3R_CREDENTIALS_STATIC;
    return e;
}

int s3r_config_set_credentials(struct s3r_config *config, enum s3r_credentials from,
                               const char *profile)
{
    config->credentials = from;
    return set(&config->profile, profile);
}

int s3r_config_set_ca_file(struct s3r_config *config, const char *path)
{
    return set(&config->ca_file, path);
}

int s3r_config_set_proxy(struct s3r_config *config, const char *url)
{
    return set(&config->proxy, url);
}

int s3r_config_set_devices(struct s3r_config *config, const char *devices)
{
    return set(&config->devices, devices);
}

int s3r_config_set_rdma(struct s3r_config *config, int is_on)
{
    config->is_rdma_off = !is_on;
    return S3R_OK;
}

int s3r_config_set_connect_ms(struct s3r_config *config, int64_t connect_ms)
{
    config->connect_ms = connect_ms;
    return S3R_OK;
}

int s3r_config_set_patience_ms(struct s3r_config *config, int64_t patience_ms)
{
    config->patience_ms = patience_ms;
    return S3R_OK;
}

int s3r_config_set_stall_ms(struct s3r_config *config, int64_t stall_ms)
{
    config->stall_ms = stall_ms;
    return S3R_OK;
}

/* ---- what it leaves open ---- */

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Key and secret under the names that servers of this kind give their first user. */
static int keys_of_servers(struct settings *s)
{
    static const char *const names[][2] = {
        {"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"},
        {"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"},
        {"S3RDMA_ROOT_USER", "S3RDMA_ROOT_PASSWORD"},
    };
    for (size_t i = 0; i < ARRAY_LEN(names) && s->access_key == NULL; i++) {
        const char *access = env(names[i][0]), *secret = env(names[i][1]);
        if (access == NULL || secret == NULL)
            continue;
        s->access_key = strdup(access);
        s->secret_key = strdup(secret);
        if (s->access_key == NULL || s->secret_key == NULL)
            return S3R_E_NOMEM;
    }
    return 0;
}

static int load(const struct s3r_config *c, struct diag *diag, struct settings *s)
{
    int e = 0;
    switch (c->credentials) {
    case S3R_CREDENTIALS_STATIC:
        return 0;
    case S3R_CREDENTIALS_ENVIRONMENT:
        e = settings_from_environment(diag, s);
        return e == 0 ? keys_of_servers(s) : e;
    case S3R_CREDENTIALS_FILES:
        return settings_from_files(c->profile, diag, s);
    case S3R_CREDENTIALS_DEFAULT:
        e = settings_load(c->profile, diag, s);
        return e == 0 ? keys_of_servers(s) : e;
    }
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%d is no choice of credentials",
                     (int)c->credentials);
}

static const char *first(const char *a, const char *b)
{
    return a != NULL ? a : b;
}

static void settings_finip(struct settings *s)
{
    settings_fini(s);
}

int api_config_open(const struct s3r_config *c, struct diag *diag, struct client **ret_client)
{
    CLEANUP(settings_finip) struct settings s = {0};
    CLEANUP(freep) char *url = NULL;
    int e = load(c, diag, &s);
    if (e != 0)
        return e;
    const char *endpoint = first(c->endpoint, s.endpoint);
    endpoint = first(endpoint, first(env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL")));
    if (endpoint != NULL && strstr(endpoint, "://") == NULL) {
        if (asprintf(&url, "%s://%s", c->is_tls ? "https" : "http", endpoint) < 0) {
            url = NULL;
            return S3R_E_NOMEM;
        }
        endpoint = url;
    }
    bool is_static = c->credentials == S3R_CREDENTIALS_STATIC;
    const struct client_config config = {
        .endpoint = endpoint,
        .region = first(c->region, s.region),
        .access_key = is_static ? c->access_key : s.access_key,
        .secret_key = is_static ? c->secret_key : s.secret_key,
        .session_token = is_static ? c->session_token : s.session_token,
        .ca_file = first(c->ca_file, s.ca_file),
        .proxy = c->proxy,
        .devices = c->devices,
        .is_rdma_off = c->is_rdma_off,
        .connect_ms = c->connect_ms,
        .patience_ms = c->patience_ms,
        .stall_ms = c->stall_ms,
    };
    return client_create(&config, diag, ret_client);
}
