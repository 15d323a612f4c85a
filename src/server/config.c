/* SPDX-License-Identifier: Apache-2.0 */
#include "server/config.h"

#include "base/limits.h"
#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind {
    KIND_TEXT,
    KIND_SECRET,
    KIND_ADDRESS,
    KIND_LEVEL,
    KIND_REGION,
    KIND_NUMBER,
    KIND_SIZE,
    KIND_SWITCH
};
/* Who set a value last: a weaker source does not replace a stronger one. */
enum source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENV, SOURCE_ARGS };

struct option_row {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *default_text, *value_name, *help;
};

static const struct option_row rows[] = {
#define OPT(field, name, kind, default_text, value_name, help)                                     \
    {name, KIND_##kind, offsetof(struct config, field), default_text, value_name, help},
#include "server/config.def"
#undef OPT
};

struct loading {
    struct config *config;
    enum source sources[ARRAY_LEN(rows)];
    struct diag *diag;
};

static int parse_size(const char *text, uint64_t *ret)
{
    static const struct {
        const char *suffix;
        uint64_t factor;
    } units[] = {{"", 1}, {"KiB", KIB}, {"MiB", MIB}, {"GiB", GIB}, {"TiB", TIB}};
    size_t digits = strspn(text, "0123456789");
    uint64_t n;
    if (!num_parse_dec(text, digits, UINT64_MAX, &n))
        return S3R_E_INVALID_ARGUMENT;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strcmp(text + digits, units[i].suffix) == 0)
            return checked_mul(n, units[i].factor, ret) ? 0 : S3R_E_INVALID_ARGUMENT;
    return S3R_E_INVALID_ARGUMENT;
}

static bool is_text(enum kind kind)
{
    return kind <= KIND_REGION;
}

int config_split_address(const char *text, char *ret_host, size_t host_size, char *ret_port,
                         size_t port_size)
{
    uint64_t number;
    const char *colon = strrchr(text, ':');
    if (!colon || !num_parse_dec(colon + 1, strlen(colon + 1), 65535, &number))
        return S3R_E_INVALID_ARGUMENT;
    size_t len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return S3R_E_INVALID_ARGUMENT;
    }
    if (len >= host_size)
        return S3R_E_INVALID_ARGUMENT;
    memcpy(ret_host, text, len);
    ret_host[len] = '\0';
    snprintf(ret_port, port_size, "%llu", (unsigned long long)number);
    return 0;
}

int config_level(const char *name)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < (int)ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static bool is_region(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return len > 0 && len < 64 && text[len] == '\0';
}

/* NULL, or what a text of that kind has to be. */
static const char *check_text(enum kind kind, const char *text)
{
    char host[256], port[8];
    if (kind == KIND_ADDRESS && config_split_address(text, host, sizeof host, port, sizeof port))
        return "HOST:PORT or [IPV6]:PORT with a port from 0 to 65535";
    if (kind == KIND_LEVEL && config_level(text) < 0)
        return "error, warn, info or debug";
    if (kind == KIND_REGION && !is_region(text))
        return "a region's name of a-z 0-9 and -";
    return NULL;
}

static int set_text(char **field, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return S3R_E_NOMEM;
    free(*field);
    *field = copy;
    return 0;
}

static int wrong(struct loading *l, const char *origin, const char *text, const char *wanted)
{
    return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT, "%s: '%.60s' is not %s", origin, text,
                     wanted);
}

static int set_value(struct loading *l, enum kind kind, void *field, const char *text,
                     const char *origin)
{
    const char *wanted = check_text(kind, text);
    if (wanted)
        return wrong(l, origin, text, wanted);
    if (is_text(kind))
        return set_text(field, text);
    if (kind == KIND_NUMBER)
        return num_parse_dec(text, strlen(text), UINT32_MAX, field)
                   ? 0
                   : wrong(l, origin, text, "a number from 0 to 4294967295");
    if (kind == KIND_SIZE)
        return parse_size(text, field) == 0
                   ? 0
                   : wrong(l, origin, text, "a size such as 64MiB (KiB, MiB, GiB, TiB or none)");
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return wrong(l, origin, text, "on or off");
    *(bool *)field = strcmp(text, "on") == 0;
    return 0;
}

/* A weaker source does not count, but what it says must make sense all the same. */
static int set_option(struct loading *l, size_t i, enum source source, const char *text,
                      const char *origin)
{
    union {
        char *text;
        uint64_t number;
        bool is_on;
    } unused = {0};
    bool is_weaker = source < l->sources[i];
    void *field = is_weaker ? (void *)&unused : (char *)l->config + rows[i].offset;
    int rc = set_value(l, rows[i].kind, field, text, origin);
    if (is_weaker && is_text(rows[i].kind))
        free(unused.text);
    if (!rc && !is_weaker)
        l->sources[i] = source;
    return rc;
}

static int read_file(struct loading *l, const char *path, const char *origin, char **ret)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(freep) char *text = calloc(1, CONFIG_FILE_LEN_MAX + 1);
    if (!text)
        return S3R_E_NOMEM;
    ssize_t len = fd < 0 ? -1 : read(fd, text, CONFIG_FILE_LEN_MAX + 1);
    if (len < 0)
        return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT, "%s: cannot read %s: %s", origin, path,
                         errno_text(errno));
    if (len > CONFIG_FILE_LEN_MAX || memchr(text, '\0', (size_t)len))
        return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT, "%s: %s is no text of at most 64 KiB",
                         origin, path);
    *ret = STEAL(text);
    return 0;
}

/* A secret from a file: its first line, without blanks at the end. */
static int set_from_file(struct loading *l, size_t i, enum source source, const char *path,
                         const char *origin)
{
    CLEANUP(freep) char *text = NULL;
    int rc = read_file(l, path, origin, &text);
    if (rc)
        return rc;
    text[strcspn(text, "\r\n")] = '\0';
    return set_option(l, i, source, text, origin);
}

/* "name" or, for secrets, "name-file"; false when it is no option. */
static bool find_option(const char *name, size_t *ret_i, bool *ret_is_file)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t row_len = strlen(rows[i].name);
        if (strncmp(rows[i].name, name, row_len) != 0)
            continue;
        bool is_file = strcmp(name + row_len, "-file") == 0 && rows[i].kind == KIND_SECRET;
        if (len != row_len && !is_file)
            continue;
        *ret_i = i;
        *ret_is_file = is_file;
        return true;
    }
    return false;
}

static int set_named(struct loading *l, enum source source, const char *name, const char *text,
                     const char *origin)
{
    size_t i;
    bool is_file;
    if (!find_option(name, &i, &is_file))
        return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT,
                         "%s: no such option; s3rdmad --help lists them", origin);
    return is_file ? set_from_file(l, i, source, text, origin)
                   : set_option(l, i, source, text, origin);
}

static int load_defaults(struct loading *l)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = set_option(l, i, SOURCE_DEFAULT, rows[i].default_text, rows[i].name);
        if (rc)
            return rc;
    }
    return 0;
}

static char *trim(char *s)
{
    while (isblank((unsigned char)*s))
        s++;
    size_t len = strlen(s);
    while (len && isspace((unsigned char)s[len - 1]))
        s[--len] = '\0';
    return s;
}

static int load_file(struct loading *l, const char *path)
{
    CLEANUP(freep) char *text = NULL;
    int rc = read_file(l, path, "config", &text);
    if (rc)
        return rc;
    int number = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        char origin[160];
        number++;
        line = trim(line);
        if (*line == '\0' || *line == '#')
            continue;
        char *equals = strchr(line, '=');
        if (!equals)
            return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT, "%s line %d: not 'name = value'",
                             path, number);
        *equals = '\0';
        char *name = trim(line);
        snprintf(origin, sizeof origin, "%.80s line %d: %.60s", path, number, name);
        rc = set_named(l, SOURCE_FILE, name, trim(equals + 1), origin);
        if (rc)
            return rc;
    }
    return 0;
}

/* Variables of the clients and of builds may stand in the same environment. */
static bool is_not_ours(const char *variable)
{
    static const char *const others[] = {"S3RDMA_DEVICE", "S3RDMA_CONFIG", "S3RDMA_BUILD"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(variable, others[i]) == 0)
            return true;
    return false;
}

/* "S3RDMA_ROOT_USER=x": name "root-user", value "x". */
static int load_variable(struct loading *l, const char *entry)
{
    static const struct {
        const char *variable, *option;
    } aliases[] = {{"MINIO_ROOT_USER", "root-user"}, {"MINIO_ROOT_PASSWORD", "root-password"}};
    char variable[80], name[80];
    const char *equals = strchr(entry, '=');
    size_t len = equals ? (size_t)(equals - entry) : 0;
    if (!equals || len >= sizeof variable)
        return 0;
    memcpy(variable, entry, len);
    variable[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(variable, aliases[i].variable) == 0)
            return set_named(l, SOURCE_FILE, aliases[i].option, equals + 1, variable);
    if (strncmp(variable, "S3RDMA_", 7) != 0 || is_not_ours(variable))
        return 0;
    size_t n = 0;
    for (const char *c = variable + 7; *c; c++)
        name[n++] = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    name[n] = '\0';
    return set_named(l, SOURCE_ENV, name, equals + 1, variable);
}

/* `--name value` or `--name=value`. */
static int load_args(struct loading *l, int argc, char **argv, const char **ret_file)
{
    for (int i = 1; i < argc; i++) {
        char name[80];
        const char *arg = argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            l->config->is_help_wanted = true;
            continue;
        }
        if (strcmp(arg, "--version") == 0) {
            l->config->is_version_wanted = true;
            continue;
        }
        if (strcmp(arg, "--print-config") == 0) {
            l->config->is_print_wanted = true;
            continue;
        }
        size_t len = strncmp(arg, "--", 2) == 0 ? strcspn(arg + 2, "=") : 0;
        if (len == 0 || len >= sizeof name)
            return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT,
                             "%.80s: not an option; s3rdmad --help lists them", arg);
        memcpy(name, arg + 2, len);
        name[len] = '\0';
        const char *value = arg[2 + len] == '=' ? arg + 3 + len : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return diag_fail(l->diag, S3R_E_INVALID_ARGUMENT, "--%s: needs a value", name);
        if (strcmp(name, "config") == 0) {
            *ret_file = value;
            continue;
        }
        char origin[96];
        snprintf(origin, sizeof origin, "--%s", name);
        int rc = set_named(l, SOURCE_ARGS, name, value, origin);
        if (rc)
            return rc;
    }
    return 0;
}

static const char *variable_value(char **env, const char *name)
{
    size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static int load_all(struct loading *l, int argc, char **argv, char **env)
{
    const char *file = variable_value(env, "S3RDMA_CONFIG");
    int rc = load_defaults(l);
    if (!rc)
        rc = load_args(l, argc, argv, &file);
    if (l->config->is_help_wanted || l->config->is_version_wanted)
        return rc; /* on any machine, whatever its environment says */
    if (!rc && file)
        rc = load_file(l, file);
    for (; !rc && *env; env++)
        rc = load_variable(l, *env);
    return rc;
}

int config_load(int argc, char **argv, char **env, struct diag *diag, struct config *ret)
{
    struct config config = {0};
    struct loading l = {.config = &config, .diag = diag};
    int rc = load_all(&l, argc, argv, env);
    if (rc) {
        config_fini(&config);
        return rc;
    }
    *ret = config;
    return 0;
}

void config_fini(struct config *c)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char **field = (char **)((char *)c + rows[i].offset);
        if (rows[i].kind == KIND_SECRET && *field)
            explicit_bzero(*field, strlen(*field));
        if (is_text(rows[i].kind))
            free(*field);
    }
    memset(c, 0, sizeof *c);
}

void config_print(const struct config *c, struct text *out)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const void *field = (const char *)c + rows[i].offset;
        text_fmt(out, "%s = ", rows[i].name);
        if (rows[i].kind == KIND_SECRET)
            text_str(out, **(char *const *)field ? "***" : "");
        else if (is_text(rows[i].kind))
            text_str(out, *(char *const *)field);
        else if (rows[i].kind == KIND_SWITCH)
            text_str(out, *(const bool *)field ? "on" : "off");
        else
            text_fmt(out, "%llu", (unsigned long long)*(const uint64_t *)field);
        text_char(out, '\n');
    }
}

void config_help(struct text *out)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        text_fmt(out, "  --%s %s\n        %s%s%s%s\n", rows[i].name, rows[i].value_name,
                 rows[i].help, *rows[i].default_text ? " [" : "", rows[i].default_text,
                 *rows[i].default_text ? "]" : "");
}
