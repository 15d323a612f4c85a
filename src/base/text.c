/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_init(struct text *t, size_t max)
{
    *t = (struct text){.max = max};
}

void text_fini(struct text *t)
{
    free(t->data);
    *t = (struct text){.max = t->max};
}

/* Room for `more` bytes and a NUL; false leaves the error behind. */
static bool text_reserve(struct text *t, size_t more)
{
    if (t->error)
        return false;
    if (more > t->max - t->len) {
        t->error = S3R_E_ENTITY_TOO_LARGE;
        return false;
    }
    size_t need = t->len + more + 1;
    if (need <= t->cap)
        return true;
    size_t cap = t->cap ? t->cap : 128;
    while (cap < need)
        cap *= 2;
    char *data = realloc(t->data, cap);
    if (!data) {
        t->error = S3R_E_NOMEM;
        return false;
    }
    t->data = data;
    t->cap = cap;
    return true;
}

void text_add(struct text *t, const void *bytes, size_t len)
{
    if (!text_reserve(t, len))
        return;
    if (len)
        memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_str(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_char(struct text *t, char c)
{
    text_add(t, &c, 1);
}

void text_fmt(struct text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len >= 0 && text_reserve(t, (size_t)len)) {
        vsnprintf(t->data + t->len, (size_t)len + 1, fmt, again);
        t->len += (size_t)len;
    }
    va_end(again);
}

void text_reset(struct text *t)
{
    t->len = 0;
    t->error = 0;
    if (t->data)
        t->data[0] = '\0';
}

int text_error(const struct text *t)
{
    return t->error;
}

const char *text_cstr(const struct text *t)
{
    return t->data ? t->data : "";
}

char *text_take(struct text *t)
{
    if (t->error || !text_reserve(t, 0))
        return NULL;
    char *data = STEAL(t->data);
    data[t->len] = '\0';
    *t = (struct text){.max = t->max};
    return data;
}
