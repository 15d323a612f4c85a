/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "tools/cli.h"
#include "tools/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum option_kind {
    OPTION_TEXT,
    OPTION_SWITCH,
    OPTION_SIZE,
    OPTION_COUNT,
    OPTION_SECONDS,
    OPTION_RANGE,
    OPTION_LIST
};

struct option {
    const char *name;
    enum option_kind kind;
    unsigned commands;
    size_t offset;
    const char *value_name, *help;
};

#define AT(field) offsetof(struct cli_options, field)

static const struct option options[] = {
    {"endpoint", OPTION_TEXT, CMD_SERVER, AT(endpoint), "URL",
     "http[s]://HOST[:PORT] of the server"},
    {"region", OPTION_TEXT, CMD_SERVER, AT(region), "NAME", "its region (us-east-1)"},
    {"profile", OPTION_TEXT, CMD_SERVER, AT(profile), "NAME", "of ~/.aws/credentials and config"},
    {"ca", OPTION_TEXT, CMD_SERVER, AT(ca), "FILE", "CA certificates (the system's)"},
    {"proxy", OPTION_TEXT, CMD_SERVER, AT(proxy), "URL",
     "a proxy for HTTP; without this there is none"},
    {"connect-timeout", OPTION_SECONDS, CMD_SERVER, AT(connect_timeout_ms), "S", "(5)"},
    {"timeout", OPTION_SECONDS, CMD_MOVE | CMD_BENCH | CMD_DOCTOR, AT(timeout_ms), "S",
     "for one piece by RDMA (10)"},
    {"device", OPTION_TEXT, CMD_MOVE | CMD_DEVICES | CMD_BENCH | CMD_DOCTOR, AT(device), "LIST",
     "RDMA devices: cma, ofi:tcp, ofi:tcp@ADDRESS, ..., or off"},
    {"require-rdma", OPTION_SWITCH, CMD_MOVE, AT(is_rdma_required), NULL,
     "fail (exit code 3) instead of falling back to HTTP"},
    {"no-rdma", OPTION_SWITCH, CMD_MOVE, AT(is_rdma_off), NULL, "HTTP only"},
    {"part-size", OPTION_SIZE, CMD_MOVE, AT(part_len), "SIZE",
     "5MiB to 1GiB (64MiB; cp, mirror: 16MiB): larger objects go in parts and ranges"},
    {"parallel", OPTION_COUNT, CMD_TREES, AT(parallel), "N", "transfers in flight, 1 to 256 (8)"},
    {"delete", OPTION_SWITCH, CMD_MIRROR, AT(is_delete), NULL,
     "remove from the target what the source does not have"},
    {"dry-run", OPTION_SWITCH, CMD_MIRROR, AT(is_dry_run), NULL, "only say what would be done"},
    {"checksum", OPTION_SWITCH, CMD_MIRROR, AT(is_checksum), NULL,
     "compare bytes also where length and time are the same"},
    {"sizes", OPTION_TEXT, CMD_BENCH, AT(sizes), "LIST",
     "of objects (4KiB,64KiB,1MiB,16MiB,256MiB)"},
    {"processes", OPTION_TEXT, CMD_BENCH, AT(processes), "LIST", "how many at a time (1,2,4,8)"},
    {"seconds", OPTION_SECONDS, CMD_BENCH, AT(seconds_ms), "S", "of one measurement (1)"},
    {"no-resume", OPTION_SWITCH, CMD_TREES, AT(is_resume_off), NULL,
     "start anew, and leave nothing to go on from"},
    {"range", OPTION_RANGE, CMD_GET | CMD_CAT, AT(range), "A-B", "bytes A to B, or A-, or -LAST"},
    {"no-verify", OPTION_SWITCH, CMD_DOWN, AT(is_unverified), NULL,
     "do not compare the bytes with the object's checksum"},
    {"metadata", OPTION_LIST, CMD_PUT | CMD_TREES, AT(metadata), "NAME=VALUE",
     "kept with the object; repeat for more"},
    {"content-type", OPTION_TEXT, CMD_PUT | CMD_TREES, AT(content_type), "TYPE",
     "kept with the object"},
    {"recursive", OPTION_SWITCH, CMD_LS | CMD_CP, AT(is_recursive), NULL,
     "-r: every key, not only up to the next /; a whole folder"},
    {"expires", OPTION_SECONDS, CMD_PRESIGN, AT(expires_s), "S", "1 to 604800 (3600)"},
    {"method", OPTION_TEXT, CMD_PRESIGN, AT(method), "NAME", "GET, PUT, HEAD or DELETE (GET)"},
    {"headers", OPTION_SWITCH, (CMD_MOVE & ~CMD_TREES) | CMD_STAT, AT(is_headers), NULL,
     "print the reply's headers"},
    {"json", OPTION_SWITCH, CMD_ANY, AT(is_json), NULL, "results as JSON, one object a line"},
    {"quiet", OPTION_SWITCH, CMD_ANY, AT(is_quiet), NULL, "no progress and no result lines"},
    {"help", OPTION_SWITCH, CMD_ANY, AT(is_help), NULL, "this text"},
    {"version", OPTION_SWITCH, CMD_ANY, AT(is_version), NULL, "the version"},
};

int usage_error(const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    show_line(stderr, "s3rdma: %s", text);
    show_line(stderr, "s3rdma --help says what there is");
    return EXIT_USAGE;
}

void options_print(void)
{
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const struct option *o = &options[i];
        char left[40];
        snprintf(left, sizeof(left), "--%s%s%s", o->name, o->value_name != NULL ? " " : "",
                 o->value_name != NULL ? o->value_name : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

static int bad_value(const struct option *o, const char *value, const char *allowed)
{
    char shown[100];
    return usage_error("--%s %s: %s", o->name,
                       log_escape(value, strlen(value), shown, sizeof(shown)), allowed);
}

bool size_parse(const char *text, size_t len, uint64_t *ret)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"", 1}, {"KiB", KIB}, {"MiB", MIB}, {"GiB", GIB}};
    size_t digits = 0;
    uint64_t n;
    while (digits < len && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strlen(units[i].unit) == len - digits &&
            memcmp(text + digits, units[i].unit, len - digits) == 0 &&
            num_parse_dec(text, digits, UINT64_MAX / GIB, &n)) {
            *ret = n * units[i].factor;
            return true;
        }
    return false;
}

/* Seconds with up to three decimals, as milliseconds. */
static bool parse_seconds(const char *text, uint64_t *ret_ms)
{
    size_t whole = strspn(text, "0123456789");
    uint64_t s, fraction = 0;
    if (!num_parse_dec(text, whole, 86400 * 7, &s))
        return false;
    if (text[whole] == '.') {
        char digits[4] = "000";
        size_t len = strlen(text + whole + 1);
        if (len < 1 || len > 3)
            return false;
        memcpy(digits, text + whole + 1, len);
        if (!num_parse_dec(digits, 3, 999, &fraction))
            return false;
    } else if (text[whole] != '\0') {
        return false;
    }
    *ret_ms = s * 1000 + fraction;
    return *ret_ms > 0;
}

static bool parse_range(const char *text, struct cli_range *ret)
{
    struct cli_range r = {.is_given = true};
    const char *dash = strchr(text, '-');
    if (dash == NULL)
        return false;
    size_t last_len = strlen(dash + 1);
    r.is_suffix = dash == text;
    r.is_open = last_len == 0;
    uint64_t max = LIMIT_OBJECT_LEN_MAX;
    if (r.is_suffix ? !num_parse_dec(dash + 1, last_len, max, &r.first) || r.first == 0
                    : !num_parse_dec(text, (size_t)(dash - text), max - 1, &r.first))
        return false;
    if (!r.is_suffix && !r.is_open &&
        (!num_parse_dec(dash + 1, last_len, max - 1, &r.last) || r.last < r.first))
        return false;
    *ret = r;
    return true;
}

static int set_seconds(const struct option *option, struct cli_options *o, const char *value)
{
    uint64_t *place = (uint64_t *)((char *)o + option->offset);
    if (!parse_seconds(value, place))
        return bad_value(option, value, "seconds, up to 604800, with at most three decimals");
    if (option->offset != AT(expires_s))
        return EXIT_OK;
    if (*place % 1000 != 0)
        return bad_value(option, value, "whole seconds, 1 to 604800");
    *place /= 1000;
    return EXIT_OK;
}

static int set(const struct option *option, struct cli_options *o, const char *value)
{
    void *place = (char *)o + option->offset;
    switch (option->kind) {
    case OPTION_SWITCH:
        *(bool *)place = true;
        return EXIT_OK;
    case OPTION_TEXT:
        if (value[0] == '\0')
            return bad_value(option, value, "must not be empty");
        *(const char **)place = value;
        return EXIT_OK;
    case OPTION_SECONDS:
        return set_seconds(option, o, value);
    case OPTION_SIZE:
        if (!size_parse(value, strlen(value), place) || o->part_len < LIMIT_PART_LEN_MIN ||
            o->part_len > PART_LEN_MAX)
            return bad_value(option, value, "5MiB to 1GiB, as bytes or with KiB, MiB, GiB");
        return EXIT_OK;
    case OPTION_COUNT:
        if (!num_parse_dec(value, strlen(value), 256, place) || *(uint64_t *)place == 0)
            return bad_value(option, value, "1 to 256");
        return EXIT_OK;
    case OPTION_RANGE:
        if (!parse_range(value, place))
            return bad_value(option, value, "FIRST-LAST (both included), FIRST- or -LENGTH");
        return EXIT_OK;
    case OPTION_LIST:
        if (strchr(value, '=') == NULL || value[0] == '=')
            return bad_value(option, value, "must be NAME=VALUE");
        if (o->metadata_count == METADATA_MAX)
            return usage_error("--metadata: at most %d times", METADATA_MAX);
        o->metadata[o->metadata_count++] = value;
        return EXIT_OK;
    }
    return EXIT_USAGE;
}

static const struct option *find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return &options[i];
    return NULL;
}

/* One option and, in the next argument, its value. */
static int take_option(char **argv, int *i, struct cli_options *o)
{
    const char *text = argv[*i];
    static const char *const letters[][2] = {{"-h", "--help"},
                                             {"-V", "--version"},
                                             {"-r", "--recursive"}};
    for (size_t k = 0; k < ARRAY_LEN(letters); k++)
        if (strcmp(text, letters[k][0]) == 0)
            text = letters[k][1];
    const char *equals = strchr(text, '=');
    size_t len = (equals != NULL ? (size_t)(equals - text) : strlen(text));
    const struct option *option = strncmp(text, "--", 2) == 0 ? find(text + 2, len - 2) : NULL;
    char shown[100];
    if (option == NULL)
        return usage_error("there is no option %s", log_escape(text, len, shown, sizeof(shown)));
    if (option->kind == OPTION_SWITCH)
        return equals != NULL ? usage_error("--%s takes no value", option->name)
                              : set(option, o, NULL);
    const char *value = equals != NULL ? equals + 1 : argv[*i + 1];
    if (value == NULL)
        return usage_error("--%s needs a value: %s", option->name, option->value_name);
    if (equals == NULL)
        (*i)++;
    return set(option, o, value);
}

int options_parse(int argc, char **argv, struct cli_options *o)
{
    bool is_over = false; /* after -- there are no options any more */
    for (int i = 1; i < argc; i++) {
        bool is_option = !is_over && argv[i][0] == '-' && argv[i][1] != '\0';
        if (is_option && strcmp(argv[i], "--") == 0) {
            is_over = true;
            continue;
        }
        int code = EXIT_OK;
        if (is_option)
            code = take_option(argv, &i, o);
        else if (o->arg_count == ARGS_MAX)
            code = usage_error("at most %d operands", ARGS_MAX);
        else
            o->args[o->arg_count++] = argv[i];
        if (code != EXIT_OK)
            return code;
    }
    return EXIT_OK;
}

static bool is_given(const struct option *option, const struct cli_options *o)
{
    const void *place = (const char *)o + option->offset;
    switch (option->kind) {
    case OPTION_SWITCH:
        return *(const bool *)place;
    case OPTION_SIZE:
    case OPTION_COUNT:
    case OPTION_SECONDS:
        return *(const uint64_t *)place != 0;
    case OPTION_RANGE:
        return o->range.is_given;
    default:
        return *(const char *const *)place != NULL;
    }
}

int options_check(const struct cli_options *o, unsigned command_bit, const char *command)
{
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (is_given(&options[i], o) && (options[i].commands & command_bit) == 0)
            return usage_error("--%s is not an option of %s", options[i].name, command);
    if (o->is_rdma_required && o->is_rdma_off)
        return usage_error("--require-rdma and --no-rdma exclude each other");
    if (o->method != NULL && strcmp(o->method, "GET") != 0 && strcmp(o->method, "PUT") != 0 &&
        strcmp(o->method, "HEAD") != 0 && strcmp(o->method, "DELETE") != 0)
        return usage_error("--method is one of GET, PUT, HEAD, DELETE");
    return EXIT_OK;
}

/* The server's variables may be there too: one shell often serves both. */
static bool is_known_variable(const char *name, size_t len)
{
    static const char *const own[] = {"DEVICE"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strlen(own[i]) == len && memcmp(own[i], name, len) == 0)
            return true;
    static const char *const servers[] = {
#define OPT(field, name, kind, default_text, value_name, help) name,
#include "server/config.def"
#undef OPT
        "config",
    };
    for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
        size_t n = strlen(servers[i]), at = 0;
        while (at < n && at < len &&
               (servers[i][at] == '-' ? '_' : servers[i][at] & ~0x20) == name[at])
            at++;
        if (at == n && (len == n || (len == n + 5 && memcmp(name + n, "_FILE", 5) == 0)))
            return true;
    }
    return false;
}

int environment_check(char **env)
{
    for (; *env != NULL; env++) {
        size_t len = strcspn(*env, "=");
        char shown[100];
        if (strncmp(*env, "S3RDMA_", 7) == 0 && !is_known_variable(*env + 7, len - 7))
            return usage_error("there is no variable %s; s3rdma knows S3RDMA_DEVICE, and those of "
                               "s3rdmad, which it ignores",
                               log_escape(*env, len, shown, sizeof(shown)));
    }
    return EXIT_OK;
}
