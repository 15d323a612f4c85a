/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct error_row {
    const char *name;
    enum error_class class;
    int http_status;
    const char *s3_code;
    const char *text;
};

static const struct error_row rows[] = {
    {"OK", ERR_CLASS_REQUEST, 200, "", "success"},
#define ERR(name, class, status, code, text) {#name, ERR_CLASS_##class, status, code, text},
#include "base/errors.def"
#undef ERR
};

static const struct error_row unknown = {"UNKNOWN", ERR_CLASS_REQUEST, 500, "InternalError",
                                         "an unknown error"};

static const struct error_row *row_of(int code)
{
    if (code > 0 || -code >= (int)ARRAY_LEN(rows))
        return &unknown;
    return &rows[-code];
}

const char *error_name(int code)
{
    return row_of(code)->name;
}

enum error_class error_class_of(int code)
{
    return row_of(code)->class;
}

int error_http_status(int code)
{
    return row_of(code)->http_status;
}

const char *error_s3_code(int code)
{
    return row_of(code)->s3_code;
}

const char *error_text(int code)
{
    return row_of(code)->text;
}

int error_from_s3_code(const char *s3_code)
{
    for (size_t i = 1; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].s3_code, s3_code) == 0)
            return -(int)i;
    return 0;
}

int diag_fail(struct diag *diag, int code, const char *fmt, ...)
{
    if (diag && diag->text[0] == '\0') {
        va_list args;
        va_start(args, fmt);
        vsnprintf(diag->text, sizeof diag->text, fmt, args);
        va_end(args);
    }
    return code;
}

const char *diag_text(const struct diag *diag, int code)
{
    return diag && diag->text[0] ? diag->text : error_text(code);
}

void diag_clear(struct diag *diag)
{
    if (diag)
        diag->text[0] = '\0';
}

const char *errno_text(int err)
{
    const char *text = strerrordesc_np(err);
    return text ? text : "unknown error";
}
