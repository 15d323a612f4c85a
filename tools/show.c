/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/show.h"

#include "tools/place.h"

#include <stdarg.h>
#include <stdlib.h>

void show_add(struct text *out, const char *s)
{
    while (*s != '\0') {
        size_t len = control_len(s);
        if (len == 0)
            text_char(out, *s++);
        for (; len > 0; len--)
            text_fmt(out, "\\x%02x", (unsigned char)*s++);
    }
}

void show_line(FILE *out, const char *fmt, ...)
{
    CLEANUP(freep) char *line = NULL;
    struct text text;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&line, fmt, args);
    va_end(args);
    if (n < 0) {
        line = NULL;
        return;
    }
    text_init(&text, SHOW_LEN_MAX);
    show_add(&text, line);
    fprintf(out, "%s\n", text_cstr(&text));
    text_fini(&text);
}
