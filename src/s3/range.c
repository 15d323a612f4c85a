/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/range.h"

#include "base/limits.h"
#include "base/num.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* Digits up to the end or a non-digit; a number past 64 bits is as good as the largest one.
 * Returns how many digits there were. */
static size_t read_number(const char *s, uint64_t *ret)
{
    uint64_t n = 0;
    size_t digits = 0;
    for (; s[digits] >= '0' && s[digits] <= '9'; digits++)
        if (!checked_mul(n, 10, &n) || !checked_add(n, (uint64_t)(s[digits] - '0'), &n))
            n = UINT64_MAX;
    *ret = n;
    return digits;
}

struct spec {
    bool has_first, has_last;
    uint64_t first, last;
};

/* "bytes=" first "-" last; false for any other form. */
static bool read_spec(const char *value, struct spec *ret)
{
    struct spec spec = {0};
    if (strlen(value) > LIMIT_RANGE_LEN_MAX || strncasecmp(value, "bytes=", 6) != 0)
        return false;
    const char *s = value + 6;
    s += strspn(s, " \t");
    size_t digits = read_number(s, &spec.first);
    spec.has_first = digits > 0;
    s += digits;
    if (*s++ != '-')
        return false;
    digits = read_number(s, &spec.last);
    spec.has_last = digits > 0;
    s += digits;
    if (*s || (!spec.has_first && !spec.has_last))
        return false;
    if (spec.has_first && spec.has_last && spec.first > spec.last)
        return false;
    *ret = spec;
    return true;
}

int range_parse(const char *value, uint64_t object_len, struct range *ret_range)
{
    struct spec spec;
    if (!value || !read_spec(value, &spec)) {
        *ret_range = (struct range){.len = object_len};
        return 0;
    }
    struct range range = {.is_partial = true};
    if (!spec.has_first) { /* the last bytes */
        range.len = min_u64(spec.last, object_len);
        range.off = object_len - range.len;
    } else if (spec.first < object_len) {
        uint64_t last = spec.has_last ? min_u64(spec.last, object_len - 1) : object_len - 1;
        range.off = spec.first;
        range.len = last - spec.first + 1;
    }
    if (range.len == 0)
        return S3R_E_INVALID_RANGE;
    *ret_range = range;
    return 0;
}

int range_parse_copy(const char *value, uint64_t object_len, struct diag *diag,
                     struct range *ret_range)
{
    struct spec spec;
    if (!read_spec(value, &spec) || !spec.has_first || !spec.has_last)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "x-amz-copy-source-range must be bytes=first-last");
    if (spec.last >= object_len)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "x-amz-copy-source-range ends outside the source, which has %" PRIu64
                         " bytes",
                         object_len);
    *ret_range =
        (struct range){.is_partial = true, .off = spec.first, .len = spec.last - spec.first + 1};
    return 0;
}

void range_print(struct text *out, const struct range *range, uint64_t object_len)
{
    text_fmt(out, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->off, range->off + range->len - 1,
             object_len);
}

void range_print_request(struct text *out, uint64_t off, uint64_t len)
{
    text_fmt(out, "bytes=%" PRIu64 "-%" PRIu64, off, off + len - 1);
}

bool range_parse_content_range(const char *value, struct range *ret_range, uint64_t *ret_object_len)
{
    uint64_t first, last, total;
    if (strncasecmp(value, "bytes ", 6) != 0)
        return false;
    const char *dash = strchr(value, '-'), *slash = strchr(value, '/');
    value += 6;
    if (!dash || !slash || dash < value || slash < dash ||
        !num_parse_dec(value, (size_t)(dash - value), UINT64_MAX, &first) ||
        !num_parse_dec(dash + 1, (size_t)(slash - dash - 1), UINT64_MAX, &last) ||
        !num_parse_dec(slash + 1, strlen(slash + 1), UINT64_MAX, &total) || first > last ||
        last >= total)
        return false;
    *ret_range = (struct range){.is_partial = true, .off = first, .len = last - first + 1};
    *ret_object_len = total;
    return true;
}
