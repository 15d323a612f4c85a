/* SPDX-License-Identifier: Apache-2.0 */
#include "client/settings.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wipe(char **secret)
{
    if (*secret != NULL)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
    *secret = NULL;
}

void settings_fini(struct settings *s)
{
    free(s->endpoint);
    free(s->region);
    free(s->ca_file);
    wipe(&s->access_key);
    wipe(&s->secret_key);
    wipe(&s->session_token);
    *s = (struct settings){0};
}

/* The variable, NULL when it is unset or empty. */
static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int fill(char **place, const char *value)
{
    if (*place != NULL || value == NULL || value[0] == '\0')
        return 0;
    *place = strdup(value);
    return *place != NULL ? 0 : S3R_E_NOMEM;
}

static int both_or_none(const struct settings *s, const char *where, struct diag *diag)
{
    if ((s->access_key == NULL) == (s->secret_key == NULL))
        return 0;
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s has %s but no %s", where,
                     s->access_key != NULL ? "an access key" : "a secret key",
                     s->access_key != NULL ? "secret key" : "access key");
}

/* Takes over what `s` lacks; a key only with its secret and token. */
static void merge(struct settings *s, struct settings *from)
{
    if (s->access_key == NULL) {
        s->access_key = STEAL(from->access_key);
        s->secret_key = STEAL(from->secret_key);
        s->session_token = STEAL(from->session_token);
    }
    char **to[] = {&s->region, &s->endpoint, &s->ca_file};
    char **take[] = {&from->region, &from->endpoint, &from->ca_file};
    for (size_t i = 0; i < ARRAY_LEN(to); i++)
        if (*to[i] == NULL)
            *to[i] = STEAL(*take[i]);
    settings_fini(from);
}

static void settings_finip(struct settings *s)
{
    settings_fini(s);
}

static int from_environment(struct settings *s, struct diag *diag)
{
    CLEANUP(settings_finip) struct settings here = {0};
    const char *endpoint = env("AWS_ENDPOINT_URL_S3");
    const char *region = env("AWS_REGION");
    const struct {
        char **place;
        const char *value;
    } rows[] = {
        {&here.endpoint, endpoint != NULL ? endpoint : env("AWS_ENDPOINT_URL")},
        {&here.region, region != NULL ? region : env("AWS_DEFAULT_REGION")},
        {&here.ca_file, env("AWS_CA_BUNDLE")},
        {&here.access_key, env("AWS_ACCESS_KEY_ID")},
        {&here.secret_key, env("AWS_SECRET_ACCESS_KEY")},
        {&here.session_token, env("AWS_SESSION_TOKEN")},
    };
    int e = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows) && e == 0; i++)
        e = fill(rows[i].place, rows[i].value);
    if (e == 0)
        e = both_or_none(&here, "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)", diag);
    if (e == 0)
        merge(s, &here);
    return e;
}

/* The file's text, NULL when there is no such file. */
static int read_file(const char *path, struct diag *diag, char **ret_text)
{
    char shown[200], why[100];
    /* a pipe without a writer would be waited for */
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        *ret_text = NULL;
        return 0;
    }
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "cannot read %s: %s",
                         log_escape(path, strlen(path), shown, sizeof(shown)),
                         strerror_r(errno, why, sizeof(why)));
    if (!S_ISREG(st.st_mode) || st.st_size > SETTINGS_FILE_LEN_MAX)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s is no file of at most %d bytes",
                         log_escape(path, strlen(path), shown, sizeof(shown)),
                         SETTINGS_FILE_LEN_MAX);
    CLEANUP(freep) char *text = calloc(1, (size_t)st.st_size + 1);
    if (text == NULL)
        return S3R_E_NOMEM;
    ssize_t n = read(fd, text, (size_t)st.st_size);
    if (n < 0)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "cannot read %s: %s",
                         log_escape(path, strlen(path), shown, sizeof(shown)),
                         strerror_r(errno, why, sizeof(why)));
    text[n] = '\0';
    *ret_text = STEAL(text);
    return 0;
}

static char *trim(char *s)
{
    s += strspn(s, " \t");
    size_t len = strlen(s);
    while (len > 0 && strchr(" \t\r", s[len - 1]) != NULL)
        s[--len] = '\0';
    return s;
}

/* "[profile x]" and "[x]" in the one file, "[x]" in the other: both forms are taken in both. */
static bool is_section(char *line, const char *profile)
{
    char *end = strchr(line, ']');
    if (end == NULL)
        return false;
    *end = '\0';
    char *name = trim(line + 1);
    if (strncmp(name, "profile", 7) == 0 && (name[7] == ' ' || name[7] == '\t'))
        name = trim(name + 7);
    return strcmp(name, profile) == 0;
}

static int take_line(char *line, struct settings *s)
{
    char *equals = strchr(line, '=');
    if (equals == NULL)
        return 0;
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    const struct {
        const char *name;
        char **place;
    } rows[] = {
        {"aws_access_key_id", &s->access_key},    {"aws_secret_access_key", &s->secret_key},
        {"aws_session_token", &s->session_token}, {"region", &s->region},
        {"endpoint_url", &s->endpoint},           {"ca_bundle", &s->ca_file},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(name, rows[i].name) == 0)
            return fill(rows[i].place, value);
    return 0;
}

/* Lines that begin with a blank belong to a nested table (s3 =): none of ours. */
static int take_profile(char *text, const char *profile, struct settings *s, bool *is_found)
{
    bool is_inside = false;
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (line[0] == '[') {
            is_inside = is_section(line, profile);
            *is_found = *is_found || is_inside;
        } else if (is_inside && strchr("#; \t\r", line[0]) == NULL) {
            int e = take_line(line, s);
            if (e != 0)
                return e;
        }
    }
    return 0;
}

static int from_file(const char *variable, const char *name, const char *profile,
                     struct settings *s, bool *is_found, struct diag *diag)
{
    char path[4096];
    const char *given = env(variable), *home = env("HOME");
    if (given == NULL && home == NULL)
        return 0;
    int n = given != NULL ? snprintf(path, sizeof(path), "%s", given)
                          : snprintf(path, sizeof(path), "%s/.aws/%s", home, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s is too long", variable);
    char *text = NULL;
    int e = read_file(path, diag, &text);
    if (e != 0 || text == NULL)
        return e;
    CLEANUP(settings_finip) struct settings here = {0};
    e = take_profile(text, profile, &here, is_found);
    wipe(&text);
    if (e == 0)
        e = both_or_none(&here, path, diag);
    if (e == 0)
        merge(s, &here);
    return e;
}

static int from_files(const char *profile, bool is_required, struct settings *s, struct diag *diag)
{
    bool is_found = false;
    int e = from_file("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile, s, &is_found, diag);
    if (e == 0)
        e = from_file("AWS_CONFIG_FILE", "config", profile, s, &is_found, diag);
    char shown[100];
    if (e == 0 && is_required && !is_found)
        e = diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                      "there is no profile '%s' in the AWS credentials and config files",
                      log_escape(profile, strlen(profile), shown, sizeof(shown)));
    return e;
}

static const char *profile_of(const char *given, bool *ret_is_required)
{
    const char *from_env = env("AWS_PROFILE");
    *ret_is_required = given != NULL || from_env != NULL;
    return given != NULL ? given : from_env != NULL ? from_env : "default";
}

int settings_load(const char *profile, struct diag *diag, struct settings *ret_settings)
{
    CLEANUP(settings_finip) struct settings s = {0};
    bool is_required;
    const char *name = profile_of(profile, &is_required);
    int e = profile != NULL ? from_files(name, is_required, &s, diag) : from_environment(&s, diag);
    if (e == 0)
        e = profile != NULL ? from_environment(&s, diag) : from_files(name, is_required, &s, diag);
    if (e != 0)
        return e;
    *ret_settings = s;
    s = (struct settings){0};
    return 0;
}

int settings_from_environment(struct diag *diag, struct settings *ret_settings)
{
    CLEANUP(settings_finip) struct settings s = {0};
    int e = from_environment(&s, diag);
    if (e != 0)
        return e;
    *ret_settings = s;
    s = (struct settings){0};
    return 0;
}

int settings_from_files(const char *profile, struct diag *diag, struct settings *ret_settings)
{
    CLEANUP(settings_finip) struct settings s = {0};
    bool is_required;
    const char *name = profile_of(profile, &is_required);
    int e = from_files(name, is_required, &s, diag);
    if (e != 0)
        return e;
    *ret_settings = s;
    s = (struct settings){0};
    return 0;
}
