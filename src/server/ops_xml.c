/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ops_xml.h"

#include "base/clock.h"
#include "base/num.h"
#include "s3/checksum.h"
#include "s3/xml.h"
#include "server/object_meta.h"

#include <string.h>

void print_owner(struct text *out, const char *element, const char *owner)
{
    xml_open(out, element);
    xml_str(out, "ID", owner);
    xml_str(out, "DisplayName", owner);
    xml_close(out, element);
}

void print_time(struct text *out, const char *element, int64_t wall_ms)
{
    char when[CLOCK_TEXT_MAX];
    clock_print_iso(wall_ms, when);
    xml_str(out, element, when);
}

void print_checksum(struct text *out, const struct store_checksum *checksum, bool has_type)
{
    char text[CHECKSUM_TEXT_SIZE];
    if (!checksum->kind)
        return;
    struct checksum_value value = checksum_from_store(checksum);
    checksum_print(&value, text);
    xml_str(out, checksum_element(value.kind), text);
    if (has_type)
        xml_str(out, "ChecksumType", checksum_type_name(value.type));
}

void print_checksum_kind(struct text *out, uint8_t kind, uint8_t type)
{
    if (!kind)
        return;
    xml_str(out, "ChecksumAlgorithm", checksum_name((enum checksum_kind)kind));
    xml_str(out, "ChecksumType", checksum_type_name((enum checksum_type)type));
}

int query_number(struct request *r, const char *name, uint64_t absent, uint64_t max, uint64_t *ret)
{
    const char *text = request_query(r, name);
    *ret = absent;
    if (!text || !*text)
        return 0;
    if (!num_parse_dec(text, strlen(text), INT64_MAX, ret))
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, "%s is not a number from 0 on", name);
    *ret = min_u64(*ret, max);
    return 0;
}
