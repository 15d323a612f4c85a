/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - results as JSON, one object a line on standard output.
 * Does:     the objects that commands print with --json; the one place that knows jansson.
 * Not here: what is printed without it (the commands, report.h).
 * Units:    bytes, seconds.
 * Owns:     nothing.
 * Threads:  owner of standard output.
 * Errors:   text that is not UTF-8 is printed with its bytes as U+0080 to U+00FF.
 * Limits:   none. */
#ifndef S3R_TOOLS_JSON_H
#define S3R_TOOLS_JSON_H

#include "client/client.h"

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_REAL, FIELD_SWITCH, FIELD_HEADERS };

/* One member; a TEXT that is NULL is left out, as are HEADERS that are NULL. */
struct field {
    const char *name;
    enum field_kind kind;
    const char *text;
    uint64_t number;
    double real;
    bool is_true;
    const struct headers *headers;
};

#define FIELD_T(n, v) ((struct field){.name = (n), .kind = FIELD_TEXT, .text = (v)})
#define FIELD_N(n, v) ((struct field){.name = (n), .kind = FIELD_NUMBER, .number = (v)})
#define FIELD_R(n, v) ((struct field){.name = (n), .kind = FIELD_REAL, .real = (v)})
#define FIELD_B(n, v) ((struct field){.name = (n), .kind = FIELD_SWITCH, .is_true = (v)})
#define FIELD_H(n, v) ((struct field){.name = (n), .kind = FIELD_HEADERS, .headers = (v)})

/* To standard error where standard output carries an object's bytes. */
void json_print(bool is_to_stderr, const struct field *members, size_t count);
void json_print_error(bool is_to_stderr, const char *command, const char *about, int error,
                      const char *text, int exit_code);

#endif
