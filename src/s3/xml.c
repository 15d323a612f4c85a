/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/xml.h"

#include "s3/uri.h"
#include "s3/utf8.h"

#include <inttypes.h>
#include <string.h>

/* XML 1.0 (fifth edition), production 2 */
static bool is_xml_char(uint32_t c)
{
    return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c <= 0xd7ff) ||
           (c >= 0xe000 && c <= 0xfffd) || (c >= 0x10000 && c <= 0x10ffff);
}

/* NULL: as it is. Line ends are written as references: a reader turns a plain CR into LF. */
static const char *reference(uint32_t c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&apos;";
    case '\r':
        return "&#13;";
    case '\n':
        return "&#10;";
    case '\t':
        return "&#9;";
    default:
        return NULL;
    }
}

void xml_escape(struct text *t, const char *bytes, size_t len)
{
    static const char substitute[] = "\xef\xbf\xbd"; /* U+FFFD */
    while (len) {
        uint32_t c;
        size_t step = utf8_next(bytes, len, &c);
        const char *ref = step ? reference(c) : NULL;
        if (!step || !is_xml_char(c))
            text_str(t, substitute);
        else if (ref)
            text_str(t, ref);
        else
            text_add(t, bytes, step);
        step = step ? step : 1;
        bytes += step;
        len -= step;
    }
}

void xml_root(struct text *t, const char *name)
{
    text_fmt(t, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s xmlns=\"" XML_NAMESPACE "\">",
             name);
}

void xml_open(struct text *t, const char *name)
{
    text_fmt(t, "<%s>", name);
}

void xml_close(struct text *t, const char *name)
{
    text_fmt(t, "</%s>", name);
}

void xml_bytes(struct text *t, const char *name, const char *value, size_t len)
{
    xml_open(t, name);
    xml_escape(t, value, len);
    xml_close(t, name);
}

void xml_str(struct text *t, const char *name, const char *value)
{
    xml_bytes(t, name, value, strlen(value));
}

void xml_u64(struct text *t, const char *name, uint64_t value)
{
    text_fmt(t, "<%s>%" PRIu64 "</%s>", name, value, name);
}

void xml_bool(struct text *t, const char *name, bool value)
{
    text_fmt(t, "<%s>%s</%s>", name, value ? "true" : "false", name);
}

void xml_etag(struct text *t, const char *name, const char *etag)
{
    xml_open(t, name);
    text_str(t, "&quot;");
    xml_escape(t, etag, strlen(etag));
    text_str(t, "&quot;");
    xml_close(t, name);
}

void xml_key(struct text *t, const char *name, const char *key, size_t len, bool is_url_encoded)
{
    if (!is_url_encoded) {
        xml_bytes(t, name, key, len);
        return;
    }
    xml_open(t, name);
    uri_encode(t, key, len, true); /* nothing that XML would have to escape is left */
    xml_close(t, name);
}

void xml_error(struct text *t, int code, const struct diag *diag, const char *resource,
               const char *request_id, const struct xml_field *extra, size_t extra_count)
{
    text_str(t, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>"); /* S3's has no namespace */
    xml_str(t, "Code", error_s3_code(code));
    xml_str(t, "Message", diag_text(diag, code));
    xml_str(t, "Resource", resource);
    xml_str(t, "RequestId", request_id);
    for (size_t i = 0; i < extra_count; i++)
        xml_str(t, extra[i].name, extra[i].value);
    xml_close(t, "Error");
}
