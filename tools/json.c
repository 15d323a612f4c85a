/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A string of any bytes: UTF-8 as it is, others byte for byte as Latin-1. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    size_t len = strlen(text);
    char *wide = malloc(2 * len + 1), *p = wide;
    if (wide == NULL)
        return json_null();
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80) {
            *p++ = (char)(0xc0 | c >> 6);
            c = 0x80 | (c & 0x3f);
        }
        *p++ = (char)c;
    }
    value = json_stringn(wide, (size_t)(p - wide));
    free(wide);
    return value != NULL ? value : json_null();
}

static json_t *headers_value(const struct headers *headers)
{
    json_t *object = json_object();
    for (size_t i = 0; i < headers->count; i++)
        json_object_set_new(object, headers->rows[i].name, text_value(headers->rows[i].value));
    return object;
}

static json_t *member_value(const struct field *m)
{
    switch (m->kind) {
    case FIELD_TEXT:
        return m->text != NULL ? text_value(m->text) : NULL;
    case FIELD_NUMBER:
        return json_integer((json_int_t)m->number);
    case FIELD_REAL:
        return json_real(m->real);
    case FIELD_SWITCH:
        return json_boolean(m->is_true);
    case FIELD_HEADERS:
        return m->headers != NULL ? headers_value(m->headers) : NULL;
    }
    return NULL;
}

void json_print(bool is_to_stderr, const struct field *members, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_t *value = member_value(&members[i]);
        if (value != NULL)
            json_object_set_new(object, members[i].name, value);
    }
    char *line = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (line != NULL)
        fprintf(is_to_stderr ? stderr : stdout, "%s\n", line);
    free(line);
}

void json_print_error(bool is_to_stderr, const char *command, const char *about, int error,
                      const char *text, int exit_code)
{
    const struct field members[] = {
        FIELD_T("op", command),
        FIELD_T("about", about),
        FIELD_T("error", error_name(error)),
        FIELD_T("message", text),
        FIELD_N("exit", (uint64_t)exit_code),
    };
    json_print(is_to_stderr, members, sizeof(members) / sizeof(members[0]));
}
