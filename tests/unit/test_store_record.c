/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/crypto.h"
#include "store/le.h"
#include "store/record.h"

#include <stdlib.h>
#include <string.h>

static void encode(const struct record *r, struct text *out)
{
    text_init(out, RECORD_LEN_MAX);
    record_encode(r, out);
    assert_int_equal(text_error(out), 0);
}

static struct record_part two_parts[2] = {
    {.number = 1,
     .size = 7,
     .sequence = 3,
     .crc64 = 5,
     .file_id = 11,
     .modified_ms = 1,
     .etag = "a"},
    {.number = 9,
     .size = 0,
     .sequence = 4,
     .crc64 = 6,
     .file_id = 12,
     .modified_ms = -2,
     .etag = ""},
};
static struct store_meta two_metas[2] = {{"n", "v"}, {"", ""}};
static const uint8_t digest[32] = {9, 8, 7};

static struct record full(void)
{
    return (struct record){
        .kind = RECORD_OBJECT,
        .size = 7,
        .sequence = UINT64_MAX,
        .modified_ms = 1234567890123,
        .created_ms = -5,
        .etag = "etag",
        .etag_kind = STORE_ETAG_MULTIPART,
        .owner = "o",
        .storage_class = "c",
        .checksum =
            {.kind = STORE_SHA1, .type = STORE_COMPOSITE, .len = 20, .bytes = {1, 2}, .parts = 2},
        .checksum_wanted_kind = STORE_CRC32C,
        .checksum_wanted_type = STORE_FULL_OBJECT,
        .version_id = {"0123456789abcdef", 16},
        .crc64 = 0xfeedface,
        .file_id = 99,
        .parts = two_parts,
        .part_count = 2,
        .meta = two_metas,
        .meta_count = 2,
        .tags = {"t", 1},
        .bucket = "bkt",
        .key = {"k\xff", 2},
        .upload_id = "u",
        .part_number = 77,
        .list_digest = {digest, 32},
        .region = "r",
    };
}

static void every_field_comes_back(void **state)
{
    struct record in = full(), r;
    struct text out;
    encode(&in, &out);
    assert_int_equal(record_decode(out.data, out.len, &r), 0);
    assert_int_equal(r.kind, RECORD_OBJECT);
    assert_int_equal(r.size, 7);
    assert_true(r.sequence == UINT64_MAX);
    assert_true(r.modified_ms == in.modified_ms && r.created_ms == -5);
    assert_string_equal(r.etag, "etag");
    assert_int_equal(r.etag_kind, STORE_ETAG_MULTIPART);
    assert_string_equal(r.owner, "o");
    assert_string_equal(r.storage_class, "c");
    assert_memory_equal(&r.checksum, &in.checksum, sizeof(in.checksum));
    assert_int_equal(r.checksum_wanted_kind, STORE_CRC32C);
    assert_int_equal(r.checksum_wanted_type, STORE_FULL_OBJECT);
    assert_memory_equal(r.version_id.data, "0123456789abcdef", 16);
    assert_int_equal(r.crc64, 0xfeedface);
    assert_int_equal(r.file_id, 99);
    assert_int_equal(r.part_count, 2);
    assert_int_equal(r.parts[0].file_id, 11);
    assert_string_equal(r.parts[0].etag, "a");
    assert_int_equal(r.parts[1].number, 9);
    assert_int_equal(r.parts[1].modified_ms, -2);
    assert_int_equal(r.meta_count, 2);
    assert_string_equal(r.meta[0].name, "n");
    assert_string_equal(r.meta[1].value, "");
    assert_int_equal(r.tags.len, 1);
    assert_string_equal(r.bucket, "bkt");
    assert_int_equal(r.key.len, 2);
    assert_string_equal(r.upload_id, "u");
    assert_int_equal(r.part_number, 77);
    assert_memory_equal(r.list_digest.data, digest, 32);
    assert_string_equal(r.region, "r");
    record_fini(&r);
    assert_int_equal(record_decode_listing(out.data, out.len, &r), 0);
    assert_string_equal(r.etag, "etag");
    assert_null(r.bucket); /* a listing stops before it */
    text_fini(&out);
}

/* The bytes of a small record are part of the format: they never change. */
static void the_bytes_are_the_documented_ones(void **state)
{
    static const unsigned char want[] = {
        1,  1, 0, 0, 0x5c, 0, 0, 0, /* head: object, format 1, 92 bytes */
        1,  0, 1, 0, 8,    0, 0, 0, 1,   0,   0, 0, 0, 0, 0, 0, /* size 1 */
        2,  0, 1, 0, 8,    0, 0, 0, 2,   1,   0, 0, 0, 0, 0, 0, /* sequence 258 */
        3,  0, 0, 0, 8,    0, 0, 0, 3,   0,   0, 0, 0, 0, 0, 0, /* modified 3 */
        4,  0, 0, 0, 3,    0, 0, 0, 'e', 't', 0,                /* etag */
        64, 0, 1, 0, 8,    0, 0, 0, 4,   0,   0, 0, 0, 0, 0, 0, /* crc64 */
        66, 0, 1, 0, 1,    0, 0, 0, 'x',                        /* inline bytes */
    };
    struct record r = {.kind = RECORD_OBJECT,
                       .size = 1,
                       .sequence = 258,
                       .modified_ms = 3,
                       .etag = "et",
                       .crc64 = 4,
                       .inline_bytes = {"x", 1}};
    struct text out;
    encode(&r, &out);
    assert_int_equal(out.len, sizeof(want));
    assert_memory_equal(out.data, want, sizeof(want));
    text_fini(&out);
}

/* A field that this version does not know, at the end of a good record. */
static int decode_with_field(uint16_t number, uint8_t flags)
{
    struct record in = full(), r;
    struct text out;
    encode(&in, &out);
    unsigned char field[9] = {0};
    le16_store(field, number);
    field[2] = flags;
    le32_store(field + 4, 1);
    text_add(&out, field, sizeof(field));
    le32_store(out.data + 4, (uint32_t)out.len);
    int err = record_decode(out.data, out.len, &r);
    if (!err)
        record_fini(&r);
    text_fini(&out);
    return err;
}

static void unknown_fields_are_skipped_or_refused_as_they_say(void **state)
{
    assert_int_equal(decode_with_field(1000, 0), 0);
    assert_int_equal(decode_with_field(1000, RECORD_FLAG_MUST_KNOW), S3R_E_STORE_FORMAT);
    assert_int_equal(decode_with_field(RECORD_F_SIZE, 0), S3R_E_STORE_CORRUPT); /* out of order */
}

static void what_this_version_cannot_honour_is_refused(void **state)
{
    struct record with[4] = {full(), full(), full(), full()};
    with[0].is_delete_marker = true;
    with[1].encryption = (struct record_bytes){"e", 1};
    with[2].retention = (struct record_bytes){"r", 1};
    with[3].is_legal_hold = true;
    for (size_t i = 0; i < ARRAY_LEN(with); i++) {
        struct record r;
        struct text out;
        encode(&with[i], &out);
        assert_int_equal(record_decode(out.data, out.len, &r), S3R_E_STORE_FORMAT);
        text_fini(&out);
    }
    struct record r = full(), got;
    struct text out;
    encode(&r, &out);
    out.data[1] = 2; /* a newer format */
    assert_int_equal(record_decode(out.data, out.len, &got), S3R_E_STORE_FORMAT);
    text_fini(&out);
}

/* Reads all that a decoder hands out, so that a sanitizer sees a wrong pointer. */
static size_t touch(const struct record *r)
{
    size_t n = r->size + r->part_count;
    const char *strings[] = {r->etag,   r->owner,     r->storage_class,
                             r->bucket, r->upload_id, r->region};
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        n += strings[i] ? strlen(strings[i]) : 0;
    for (size_t i = 0; i < r->meta_count; i++)
        n += strlen(r->meta[i].name) + strlen(r->meta[i].value);
    for (size_t i = 0; i < r->part_count; i++)
        n += strlen(r->parts[i].etag) + r->parts[i].number;
    const struct record_bytes *bytes[] = {&r->inline_bytes, &r->key, &r->tags, &r->version_id};
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
        for (size_t j = 0; j < bytes[i]->len; j++)
            n += ((const unsigned char *)bytes[i]->data)[j];
    return n;
}

static void try_bytes(const char *bytes, size_t len)
{
    struct record r;
    /* a copy of its own, so that one byte too far is seen */
    char *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    if (!record_decode(copy, len, &r)) {
        (void)touch(&r);
        record_fini(&r);
    }
    if (!record_decode_listing(copy, len, &r))
        (void)touch(&r);
    free(copy);
}

static void cut_records_are_refused(void **state)
{
    struct record in = full(), r;
    struct text out;
    encode(&in, &out);
    for (size_t len = 0; len < out.len; len++) {
        assert_int_equal(record_decode(out.data, len, &r), S3R_E_STORE_CORRUPT);
        if (len >= 8) {
            char saved[4];
            memcpy(saved, out.data + 4, 4);
            le32_store(out.data + 4, (uint32_t)len); /* with a length that agrees */
            try_bytes(out.data, len);
            memcpy(out.data + 4, saved, 4);
        }
    }
    text_fini(&out);
}

static void no_mutation_reads_out_of_bounds(void **state)
{
    struct record in = full();
    struct text out;
    uint64_t seed = random_u64();
    encode(&in, &out);
    char *bytes = malloc(out.len);
    for (int i = 0; i < 60000; i++) {
        memcpy(bytes, out.data, out.len);
        for (int n = 1 + i % 4; n; n--) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            bytes[(seed >> 33) % out.len] = i % 3 ? (char)(seed >> 24) : (char)0xff;
        }
        le32_store(bytes + 4, (uint32_t)out.len);
        try_bytes(bytes, out.len);
    }
    free(bytes);
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(the_bytes_are_the_documented_ones),
        cmocka_unit_test(unknown_fields_are_skipped_or_refused_as_they_say),
        cmocka_unit_test(what_this_version_cannot_honour_is_refused),
        cmocka_unit_test(cut_records_are_refused),
        cmocka_unit_test(no_mutation_reads_out_of_bounds),
    };
    return cmocka_run_group_tests_name("store_record", tests, NULL, NULL);
}
