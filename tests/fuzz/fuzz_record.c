/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "store/record.h"

static size_t touch(const struct record *r)
{
    size_t n = 0;
    const char *strings[] = {r->etag,   r->owner,     r->storage_class,
                             r->bucket, r->upload_id, r->region};
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        n += strings[i] ? strlen(strings[i]) : 0;
    for (size_t i = 0; i < r->meta_count; i++)
        n += strlen(r->meta[i].name) + strlen(r->meta[i].value);
    for (size_t i = 0; i < r->part_count; i++)
        n += strlen(r->parts[i].etag) + r->parts[i].number;
    return n;
}

/* What decodes is encoded to something that decodes to the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record r, again, listing;
    struct text out;
    if (!record_decode_listing(data, size, &listing))
        (void)touch(&listing);
    if (record_decode(data, size, &r))
        return 0;
    text_init(&out, 2 * RECORD_LEN_MAX);
    record_encode(&r, &out);
    MUST(!text_error(&out));
    MUST(!record_decode(out.data, out.len, &again));
    MUST(touch(&r) == touch(&again));
    MUST(r.size == again.size && r.sequence == again.sequence && r.file_id == again.file_id);
    MUST(r.meta_count == again.meta_count && r.part_count == again.part_count);
    record_fini(&again);
    record_fini(&r);
    text_fini(&out);
    return 0;
}
