/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/cond.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

void cond_fini(struct cond *c)
{
    free(c->match);
    free(c->none_match);
    *c = (struct cond){0};
}

bool cond_is_empty(const struct cond *c)
{
    return !c->match && !c->none_match && !c->has_modified_since && !c->has_unmodified_since;
}

/* All values of one name as one list; NULL when there is none. */
static int take_list(const struct headers *h, const char *name, char **ret_list)
{
    CLEANUP(text_fini) struct text t;
    text_init(&t, LIMIT_HEADERS_LEN_MAX + LIMIT_HEADERS_MAX);
    if (headers_count(h, name) == 0)
        return 0;
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->rows[i].name, name) == 0) {
            if (t.len)
                text_char(&t, ',');
            text_str(&t, h->rows[i].value);
        }
    *ret_list = text_take(&t);
    return *ret_list ? 0 : S3R_E_NOMEM;
}

static bool take_date(const struct headers *h, const char *name, int64_t *ret_s)
{
    const char *value = headers_get(h, name);
    return value && clock_parse_http(value, ret_s);
}

struct cond_names {
    const char *match, *none_match, *modified_since, *unmodified_since;
};

static const struct cond_names read_names = {"if-match", "if-none-match", "if-modified-since",
                                             "if-unmodified-since"};
static const struct cond_names copy_names = {"x-amz-copy-source-if-match",
                                             "x-amz-copy-source-if-none-match",
                                             "x-amz-copy-source-if-modified-since",
                                             "x-amz-copy-source-if-unmodified-since"};

static int parse(const struct headers *h, const struct cond_names *names, struct cond *ret_cond)
{
    struct cond c = {0};
    int rc = take_list(h, names->match, &c.match);
    if (rc == 0)
        rc = take_list(h, names->none_match, &c.none_match);
    if (rc) {
        cond_fini(&c);
        return rc;
    }
    c.has_modified_since = take_date(h, names->modified_since, &c.modified_since_s);
    c.has_unmodified_since = take_date(h, names->unmodified_since, &c.unmodified_since_s);
    *ret_cond = c;
    return 0;
}

int cond_parse_read(const struct headers *headers, struct cond *ret_cond)
{
    return parse(headers, &read_names, ret_cond);
}

int cond_parse_copy(const struct headers *headers, struct cond *ret_cond)
{
    return parse(headers, &copy_names, ret_cond);
}

int cond_parse_write(const struct headers *headers, struct diag *diag, struct cond *ret_cond)
{
    if (headers_get(headers, "if-modified-since") || headers_get(headers, "if-unmodified-since"))
        return diag_fail(diag, S3R_E_UNSUPPORTED,
                         "writes take If-Match and If-None-Match: *, no dates");
    struct cond c;
    int rc = parse(headers, &read_names, &c);
    if (rc)
        return rc;
    if (c.none_match && strcmp(c.none_match, "*") != 0) {
        cond_fini(&c);
        return diag_fail(diag, S3R_E_UNSUPPORTED, "for a write If-None-Match can only be *");
    }
    *ret_cond = c;
    return 0;
}

/* One member of a list: its text without quotes. */
struct member {
    const char *tag;
    size_t len;
    bool is_weak;
};

/* Reads the next member and moves `*at` behind it and its comma; false at the end. S3 clients
 * send ETags with and without quotes; a quoted one may hold commas. */
static bool next_member(const char **at, struct member *ret)
{
    const char *s = *at + strspn(*at, " \t,");
    if (!*s)
        return false;
    *ret = (struct member){0};
    if (strncmp(s, "W/\"", 3) == 0) {
        ret->is_weak = true;
        s += 2;
    }
    const char *end = *s == '"' ? strchr(s + 1, '"') : NULL;
    if (end) {
        ret->tag = s + 1;
        ret->len = (size_t)(end - s - 1);
        *at = end + 1 + strcspn(end + 1, ",");
        return true;
    }
    size_t len = strcspn(s, ",");
    *at = s + len;
    while (len && (s[len - 1] == ' ' || s[len - 1] == '\t'))
        len--;
    ret->tag = s;
    ret->len = len;
    return true;
}

/* `is_strong`: a weak tag is equal to nothing (RFC 9110, 8.8.3.2). Our own tags are all strong. */
static bool list_has(const char *list, const char *etag, bool is_strong)
{
    if (strcmp(list, "*") == 0)
        return true;
    struct member m;
    while (next_member(&list, &m))
        if (m.len == strlen(etag) && memcmp(m.tag, etag, m.len) == 0 && !(is_strong && m.is_weak))
            return true;
    return false;
}

int cond_judge_read(const struct cond *c, const struct cond_object *object)
{
    if (!object->exists)
        return 0; /* it is a 404, whatever was asked */
    if (c->match) {
        if (!list_has(c->match, object->etag, true))
            return S3R_E_PRECONDITION;
    } else if (c->has_unmodified_since && object->mtime_s > c->unmodified_since_s) {
        return S3R_E_PRECONDITION;
    }
    if (c->none_match) {
        if (list_has(c->none_match, object->etag, false))
            return S3R_E_NOT_MODIFIED;
    } else if (c->has_modified_since && object->mtime_s <= c->modified_since_s) {
        return S3R_E_NOT_MODIFIED;
    }
    return 0;
}

int cond_judge_copy(const struct cond *c, const struct cond_object *object)
{
    return cond_judge_read(c, object) ? S3R_E_PRECONDITION : 0;
}

int cond_judge_write(const struct cond *c, const struct cond_object *object)
{
    if (c->match && !object->exists)
        return S3R_E_NO_SUCH_KEY;
    if (c->match && !list_has(c->match, object->etag, true))
        return S3R_E_PRECONDITION;
    if (c->none_match && object->exists && list_has(c->none_match, object->etag, false))
        return S3R_E_PRECONDITION;
    return 0;
}

bool cond_range_applies(const char *value, const struct cond_object *object)
{
    int64_t date_s;
    if (!value)
        return true;
    if (clock_parse_http(value, &date_s))
        return object->mtime_s == date_s; /* a date stands for exactly that version */
    return strcmp(value, "*") != 0 && list_has(value, object->etag, true);
}
