/* SPDX-License-Identifier: Apache-2.0 */
/* GetObjectAttributes: what is known of an object, without its bytes and metadata. */
#include "server/ops.h"

#include "base/clock.h"
#include "base/num.h"
#include "s3/xml.h"
#include "server/object_meta.h"
#include "server/ops_xml.h"

#include <string.h>

#define NAMES_HEADER "x-amz-object-attributes"

/* What is asked for: a bit for each row of the table below, and a page of parts. */
struct wish {
    unsigned set;
    uint64_t parts_max, parts_after;
};

static void print_tag(struct text *out, const struct store_object *object,
                      const struct wish *wish UNUSED)
{
    xml_str(out, "ETag", object->etag); /* without quotes, here alone */
}

static void print_sum(struct text *out, const struct store_object *object,
                      const struct wish *wish UNUSED)
{
    struct store_checksum sum = object->checksum;
    if (!sum.kind)
        sum = checksum_of_crc64(object->crc64);
    xml_open(out, "Checksum");
    print_checksum(out, &sum, true);
    xml_close(out, "Checksum");
}

static void print_part(struct text *out, const struct store_part *part)
{
    xml_open(out, "Part");
    xml_u64(out, "PartNumber", part->number);
    xml_u64(out, "Size", part->size);
    print_checksum(out, &part->checksum, false);
    xml_close(out, "Part");
}

/* An object that was uploaded whole has none. */
static void print_parts(struct text *out, const struct store_object *object,
                        const struct wish *wish)
{
    const struct store_part *parts = object->parts;
    size_t first = 0, count = object->part_count;
    if (!count)
        return;
    while (first < count && parts[first].number <= wish->parts_after)
        first++;
    size_t end = first + (size_t)min_u64(wish->parts_max, count - first);
    xml_open(out, "ObjectParts");
    xml_u64(out, "PartsCount", count);
    xml_u64(out, "PartNumberMarker", wish->parts_after);
    xml_u64(out, "NextPartNumberMarker", end > first ? parts[end - 1].number : 0);
    xml_u64(out, "MaxParts", wish->parts_max);
    xml_bool(out, "IsTruncated", end > first && end < count);
    for (size_t i = first; i < end; i++)
        print_part(out, &parts[i]);
    xml_close(out, "ObjectParts");
}

static void print_class(struct text *out, const struct store_object *object,
                        const struct wish *wish UNUSED)
{
    xml_str(out, "StorageClass", object->storage_class);
}

static void print_size(struct text *out, const struct store_object *object,
                       const struct wish *wish UNUSED)
{
    xml_u64(out, "ObjectSize", object->size);
}

static const struct {
    const char *name;
    void (*print)(struct text *out, const struct store_object *object, const struct wish *wish);
} attributes[] = {{"ETag", print_tag},
                  {"Checksum", print_sum},
                  {"ObjectParts", print_parts},
                  {"StorageClass", print_class},
                  {"ObjectSize", print_size}};

static int take_name(struct request *r, const char *name, size_t len, struct wish *wish)
{
    for (size_t i = 0; i < ARRAY_LEN(attributes); i++)
        if (strlen(attributes[i].name) == len && memcmp(attributes[i].name, name, len) == 0) {
            wish->set |= 1u << i;
            return 0;
        }
    return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                     NAMES_HEADER ": %.*s is no attribute of an object", (int)min_u64(len, 64),
                     name);
}

/* The names may be in one line with commas, or in several. */
static int take_names(struct request *r, struct wish *wish)
{
    const struct headers *h = http_headers(r->ex);
    int rc = 0;
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->rows[i].value;
        if (strcmp(h->rows[i].name, NAMES_HEADER) != 0)
            continue;
        while (!rc && *(name += strspn(name, " \t,"))) {
            size_t len = strcspn(name, " \t,");
            rc = take_name(r, name, len, wish);
            name += len;
        }
    }
    if (!rc && !wish->set)
        rc = diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, NAMES_HEADER " names no attribute");
    return rc;
}

static int take_number(struct request *r, const char *name, uint64_t max, uint64_t *ret)
{
    const char *text = request_header(r, name);
    if (!text)
        return 0;
    if (!num_parse_dec(text, strlen(text), INT64_MAX, ret))
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT, "%s is not a number from 0 on", name);
    *ret = min_u64(*ret, max);
    return 0;
}

int op_get_attributes(struct request *r)
{
    struct wish wish = {.parts_max = LIMIT_LIST_MAX};
    char when[CLOCK_TEXT_MAX];
    int rc = take_names(r, &wish);
    if (!rc)
        rc = take_number(r, "x-amz-max-parts", LIMIT_LIST_MAX, &wish.parts_max);
    if (!rc)
        rc = take_number(r, "x-amz-part-number-marker", LIMIT_PARTS_MAX, &wish.parts_after);
    if (!rc)
        rc = store_lease_open(r->server->store, &r->key, &r->diag, &r->lease);
    if (!rc)
        rc = reply_xml(r);
    if (rc)
        return rc;
    const struct store_object *object = store_lease_object(r->lease);
    xml_root(&r->reply.body, "GetObjectAttributesResponse");
    for (size_t i = 0; i < ARRAY_LEN(attributes); i++)
        if (wish.set & 1u << i)
            attributes[i].print(&r->reply.body, object, &wish);
    xml_close(&r->reply.body, "GetObjectAttributesResponse");
    clock_print_http(object->modified_ms / 1000, when);
    return reply_header(r, "last-modified", when);
}
