/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include "base/num.h"
#include "store/le.h"

#include <stdlib.h>
#include <string.h>

/* The header of a record and of a field, as docs/disk.md has them. */
struct record_head {
    uint8_t kind, format;
    uint16_t zero;
    uint32_t len; /* of the whole record */
};
struct field_head {
    uint16_t number;
    uint8_t flags, zero;
    uint32_t len; /* of what follows */
};
/* One entry of the part table; etag_len bytes follow it. */
struct part_entry {
    uint64_t size, sequence, crc64, file_id;
    int64_t modified_ms;
    uint32_t number, etag_len; /* with its NUL */
    struct checksum_entry {
        uint8_t kind, type, len, zero;
        uint32_t parts;
        uint8_t bytes[32];
    } checksum;
};
_Static_assert(sizeof(struct record_head) == 8, "docs/disk.md");
_Static_assert(sizeof(struct field_head) == 8, "docs/disk.md");
_Static_assert(sizeof(struct checksum_entry) == 40, "docs/disk.md");
_Static_assert(sizeof(struct part_entry) == 88, "docs/disk.md");
_Static_assert(offsetof(struct part_entry, number) == 40, "docs/disk.md");
_Static_assert(offsetof(struct part_entry, checksum) == 48, "docs/disk.md");

#define RECORD_FORMAT 1

/* ---- encoding ---- */

static void add_field(struct text *out, enum record_field number, uint8_t flags, const void *bytes,
                      size_t len)
{
    struct field_head head = {.flags = flags};
    le16_store(&head.number, (uint16_t)number);
    le32_store(&head.len, (uint32_t)len);
    text_add(out, &head, sizeof(head));
    text_add(out, bytes, len);
}

static void add_u64(struct text *out, enum record_field number, uint8_t flags, uint64_t value)
{
    uint64_t le;
    le64_store(&le, value);
    add_field(out, number, flags, &le, sizeof(le));
}

static void add_str(struct text *out, enum record_field number, const char *s)
{
    if (s)
        add_field(out, number, 0, s, strlen(s) + 1);
}

static void add_bytes(struct text *out, enum record_field number, uint8_t flags,
                      const struct record_bytes *b)
{
    if (b->data)
        add_field(out, number, flags, b->data, b->len);
}

static void add_byte(struct text *out, enum record_field number, uint8_t flags, uint8_t value)
{
    if (value)
        add_field(out, number, flags, &value, 1);
}

static void pack_checksum(const struct store_checksum *c, struct checksum_entry *out)
{
    memset(out, 0, sizeof(*out));
    out->kind = c->kind;
    out->type = c->type;
    out->len = c->len;
    le32_store(&out->parts, c->parts);
    memcpy(out->bytes, c->bytes, sizeof(out->bytes));
}

static void add_parts(struct text *out, const struct record *r)
{
    if (!r->part_count)
        return;
    struct text body;
    text_init(&body, RECORD_LEN_MAX);
    for (size_t i = 0; i < r->part_count; i++) {
        const struct record_part *p = &r->parts[i];
        struct part_entry e = {0};
        size_t etag_len = strlen(p->etag) + 1;
        le64_store(&e.size, p->size);
        le64_store(&e.sequence, p->sequence);
        le64_store(&e.crc64, p->crc64);
        le64_store(&e.file_id, p->file_id);
        le64_store(&e.modified_ms, (uint64_t)p->modified_ms);
        le32_store(&e.number, p->number);
        le32_store(&e.etag_len, (uint32_t)etag_len);
        pack_checksum(&p->checksum, &e.checksum);
        text_add(&body, &e, sizeof(e));
        text_add(&body, p->etag, etag_len);
    }
    if (text_error(&body))
        out->error = text_error(&body);
    else
        add_field(out, RECORD_F_PARTS, RECORD_FLAG_MUST_KNOW, body.data, body.len);
    text_fini(&body);
}

static void add_meta(struct text *out, const struct record *r)
{
    if (!r->meta_count)
        return;
    size_t len = 0;
    for (size_t i = 0; i < r->meta_count; i++)
        len += strlen(r->meta[i].name) + strlen(r->meta[i].value) + 2;
    struct field_head head = {0};
    le16_store(&head.number, RECORD_F_META);
    le32_store(&head.len, (uint32_t)len);
    text_add(out, &head, sizeof(head));
    for (size_t i = 0; i < r->meta_count; i++) {
        text_add(out, r->meta[i].name, strlen(r->meta[i].name) + 1);
        text_add(out, r->meta[i].value, strlen(r->meta[i].value) + 1);
    }
}

static void add_checksums(struct text *out, const struct record *r, bool is_wanted)
{
    if (!is_wanted && r->checksum.kind) {
        struct checksum_entry e;
        pack_checksum(&r->checksum, &e);
        add_field(out, RECORD_F_CHECKSUM, 0, &e, sizeof(e));
    }
    uint8_t wanted[2] = {r->checksum_wanted_kind, r->checksum_wanted_type};
    if (is_wanted && wanted[0])
        add_field(out, RECORD_F_CHECKSUM_WANTED, 0, wanted, sizeof(wanted));
}

static void add_listing_fields(struct text *out, const struct record *r)
{
    add_u64(out, RECORD_F_SIZE, RECORD_FLAG_MUST_KNOW, r->size);
    add_u64(out, RECORD_F_SEQUENCE, RECORD_FLAG_MUST_KNOW, r->sequence);
    add_u64(out, RECORD_F_MODIFIED, 0, (uint64_t)r->modified_ms);
    add_str(out, RECORD_F_ETAG, r->etag);
    add_byte(out, RECORD_F_ETAG_KIND, 0, (uint8_t)r->etag_kind);
    add_str(out, RECORD_F_OWNER, r->owner);
    add_str(out, RECORD_F_STORAGE_CLASS, r->storage_class);
    add_checksums(out, r, false);
    add_bytes(out, RECORD_F_VERSION_ID, 0, &r->version_id);
    add_byte(out, RECORD_F_DELETE_MARKER, RECORD_FLAG_MUST_KNOW, r->is_delete_marker);
    if (r->created_ms)
        add_u64(out, RECORD_F_CREATED, 0, (uint64_t)r->created_ms);
    add_checksums(out, r, true);
}

static void add_other_fields(struct text *out, const struct record *r)
{
    add_u64(out, RECORD_F_CRC64, RECORD_FLAG_MUST_KNOW, r->crc64);
    if (r->file_id)
        add_u64(out, RECORD_F_FILE_ID, RECORD_FLAG_MUST_KNOW, r->file_id);
    add_bytes(out, RECORD_F_INLINE, RECORD_FLAG_MUST_KNOW, &r->inline_bytes);
    add_parts(out, r);
    add_meta(out, r);
    add_bytes(out, RECORD_F_TAGS, 0, &r->tags);
    add_bytes(out, RECORD_F_RETENTION, RECORD_FLAG_MUST_KNOW, &r->retention);
    add_byte(out, RECORD_F_LEGAL_HOLD, RECORD_FLAG_MUST_KNOW, r->is_legal_hold);
    add_bytes(out, RECORD_F_ENCRYPTION, RECORD_FLAG_MUST_KNOW, &r->encryption);
    add_str(out, RECORD_F_BUCKET, r->bucket);
    add_bytes(out, RECORD_F_KEY, 0, &r->key);
    add_str(out, RECORD_F_UPLOAD_ID, r->upload_id);
    if (r->part_number) {
        uint32_t number;
        le32_store(&number, r->part_number);
        add_field(out, RECORD_F_PART_NUMBER, 0, &number, sizeof(number));
    }
    add_bytes(out, RECORD_F_LIST_DIGEST, 0, &r->list_digest);
    add_str(out, RECORD_F_REGION, r->region);
}

void record_encode(const struct record *r, struct text *out)
{
    size_t start = out->len;
    struct record_head head = {.kind = (uint8_t)r->kind, .format = RECORD_FORMAT};
    text_add(out, &head, sizeof(head));
    add_listing_fields(out, r);
    add_other_fields(out, r);
    if (!text_error(out))
        le32_store(out->data + start + offsetof(struct record_head, len),
                   (uint32_t)(out->len - start));
}

/* ---- decoding ---- */

static bool take_u64(const struct record_bytes *f, uint64_t *ret)
{
    if (f->len != 8)
        return false;
    *ret = le64_load(f->data);
    return true;
}

static bool take_i64(const struct record_bytes *f, int64_t *ret)
{
    uint64_t v;
    if (!take_u64(f, &v))
        return false;
    *ret = (int64_t)v;
    return true;
}

/* A string ends in its only NUL. */
static bool take_str(const struct record_bytes *f, size_t len_max, const char **ret)
{
    if (!f->len || f->len > len_max ||
        memchr(f->data, 0, f->len) != (const char *)f->data + f->len - 1)
        return false;
    *ret = f->data;
    return true;
}

static bool take_byte(const struct record_bytes *f, uint8_t max, uint8_t *ret)
{
    if (f->len != 1 || *(const uint8_t *)f->data > max)
        return false;
    *ret = *(const uint8_t *)f->data;
    return true;
}

static bool take_flag(const struct record_bytes *f, bool *ret)
{
    uint8_t v;
    if (!take_byte(f, 1, &v))
        return false;
    *ret = v;
    return true;
}

static bool take_checksum(const void *bytes, struct store_checksum *ret)
{
    struct checksum_entry e;
    memcpy(&e, bytes, sizeof(e));
    if (e.len > sizeof(e.bytes) || e.type > STORE_COMPOSITE || e.kind > STORE_SHA256)
        return false;
    ret->kind = e.kind;
    ret->type = e.type;
    ret->len = e.len;
    ret->parts = le32_load(&e.parts);
    memcpy(ret->bytes, e.bytes, sizeof(ret->bytes));
    return true;
}

static bool take_part(const uint8_t *at, size_t left, struct record_part *p, size_t *ret_len)
{
    struct part_entry e;
    if (left < sizeof(e))
        return false;
    memcpy(&e, at, sizeof(e));
    struct record_bytes etag = {at + sizeof(e), le32_load(&e.etag_len)};
    if (etag.len > left - sizeof(e) || !take_str(&etag, STORE_ETAG_MAX, &p->etag) ||
        !take_checksum(&e.checksum, &p->checksum))
        return false;
    p->number = le32_load(&e.number);
    p->size = le64_load(&e.size);
    p->sequence = le64_load(&e.sequence);
    p->crc64 = le64_load(&e.crc64);
    p->file_id = le64_load(&e.file_id);
    p->modified_ms = (int64_t)le64_load(&e.modified_ms);
    *ret_len = sizeof(e) + etag.len;
    return p->number && p->number <= LIMIT_PARTS_MAX && p->size <= LIMIT_PART_LEN_MAX && p->file_id;
}

/* Numbers ascend, so there are at most LIMIT_PARTS_MAX. */
static int take_parts(const struct record_bytes *f, struct record *r)
{
    const uint8_t *at = f->data;
    size_t left = f->len, room = f->len / sizeof(struct part_entry);
    if (!room || room > 2 * LIMIT_PARTS_MAX)
        return S3R_E_STORE_CORRUPT;
    r->parts = calloc(room, sizeof(*r->parts));
    if (!r->parts)
        return S3R_E_NOMEM;
    while (left) {
        size_t len, i = r->part_count;
        if (i == room || !take_part(at, left, &r->parts[i], &len) ||
            (i && r->parts[i].number <= r->parts[i - 1].number))
            return S3R_E_STORE_CORRUPT;
        r->part_count++;
        at += len;
        left -= len;
    }
    return 0;
}

static int take_meta(const struct record_bytes *f, struct record *r)
{
    const char *at = f->data, *end = at + f->len;
    size_t nul_count = 0;
    for (const char *p = at; p < end; p++)
        nul_count += !*p;
    if (!nul_count || nul_count % 2 || nul_count / 2 > RECORD_META_MAX || end[-1])
        return S3R_E_STORE_CORRUPT;
    r->meta = calloc(nul_count / 2, sizeof(*r->meta));
    if (!r->meta)
        return S3R_E_NOMEM;
    r->meta_count = nul_count / 2;
    for (size_t i = 0; i < r->meta_count; i++) {
        r->meta[i].name = at;
        at += strlen(at) + 1;
        r->meta[i].value = at;
        at += strlen(at) + 1;
    }
    return 0;
}

/* 1: taken, 0: not a listing field, negative: not well-formed */
static int take_listing_field(uint16_t number, const struct record_bytes *f, struct record *r)
{
    uint8_t byte = 0;
    bool is_good;
    switch (number) {
    case RECORD_F_SIZE:
        is_good = take_u64(f, &r->size) && r->size <= LIMIT_OBJECT_LEN_MAX;
        break;
    case RECORD_F_SEQUENCE:
        is_good = take_u64(f, &r->sequence);
        break;
    case RECORD_F_MODIFIED:
        is_good = take_i64(f, &r->modified_ms);
        break;
    case RECORD_F_ETAG:
        is_good = take_str(f, STORE_ETAG_MAX, &r->etag);
        break;
    case RECORD_F_ETAG_KIND:
        is_good = take_byte(f, STORE_ETAG_MULTIPART, &byte);
        r->etag_kind = (enum store_etag_kind)byte;
        break;
    case RECORD_F_OWNER:
        is_good = take_str(f, RECORD_LEN_MAX, &r->owner);
        break;
    case RECORD_F_STORAGE_CLASS:
        is_good = take_str(f, RECORD_LEN_MAX, &r->storage_class);
        break;
    case RECORD_F_CHECKSUM:
        is_good = f->len == sizeof(struct checksum_entry) && take_checksum(f->data, &r->checksum);
        break;
    case RECORD_F_VERSION_ID:
        r->version_id = *f;
        is_good = f->len > 0;
        break;
    case RECORD_F_DELETE_MARKER:
        is_good = take_flag(f, &r->is_delete_marker);
        break;
    case RECORD_F_CREATED:
        is_good = take_i64(f, &r->created_ms);
        break;
    case RECORD_F_CHECKSUM_WANTED:
        is_good = f->len == 2;
        if (is_good) {
            r->checksum_wanted_kind = ((const uint8_t *)f->data)[0];
            r->checksum_wanted_type = ((const uint8_t *)f->data)[1];
        }
        break;
    default:
        return 0;
    }
    return is_good ? 1 : S3R_E_STORE_CORRUPT;
}

static int take_other_field(uint16_t number, const struct record_bytes *f, struct record *r)
{
    bool is_good = f->len > 0;
    int err;
    switch (number) {
    case RECORD_F_CRC64:
        is_good = take_u64(f, &r->crc64);
        break;
    case RECORD_F_FILE_ID:
        is_good = take_u64(f, &r->file_id);
        break;
    case RECORD_F_INLINE:
        is_good = f->len <= LIMIT_INLINE_LEN_MAX;
        r->inline_bytes = *f;
        break;
    case RECORD_F_PARTS:
        err = take_parts(f, r);
        return err ? err : 1;
    case RECORD_F_META:
        err = take_meta(f, r);
        return err ? err : 1;
    case RECORD_F_TAGS:
        r->tags = *f;
        break;
    case RECORD_F_RETENTION:
        r->retention = *f;
        break;
    case RECORD_F_LEGAL_HOLD:
        is_good = take_flag(f, &r->is_legal_hold);
        break;
    case RECORD_F_ENCRYPTION:
        r->encryption = *f;
        break;
    case RECORD_F_BUCKET:
        is_good = take_str(f, LIMIT_BUCKET_LEN_MAX + 1, &r->bucket);
        break;
    case RECORD_F_KEY:
        is_good = is_good && f->len <= LIMIT_KEY_LEN_MAX && !memchr(f->data, 0, f->len);
        r->key = *f;
        break;
    case RECORD_F_UPLOAD_ID:
        is_good = take_str(f, STORE_UPLOAD_ID_MAX, &r->upload_id);
        break;
    case RECORD_F_PART_NUMBER:
        is_good = f->len == 4;
        r->part_number = is_good ? le32_load(f->data) : 0;
        break;
    case RECORD_F_LIST_DIGEST:
        is_good = f->len == 32;
        r->list_digest = *f;
        break;
    case RECORD_F_REGION:
        is_good = take_str(f, RECORD_LEN_MAX, &r->region);
        break;
    default:
        return 0;
    }
    return is_good ? 1 : S3R_E_STORE_CORRUPT;
}

/* One field at `at`; 1 when a listing has seen all it needs. */
static int decode_field(const uint8_t *at, size_t left, bool is_listing, uint16_t *last,
                        struct record *r, size_t *ret_len)
{
    struct field_head head;
    if (left < sizeof(head))
        return S3R_E_STORE_CORRUPT;
    memcpy(&head, at, sizeof(head));
    uint16_t number = le16_load(&head.number);
    struct record_bytes f = {at + sizeof(head), le32_load(&head.len)};
    if (f.len > left - sizeof(head) || number <= *last || head.zero)
        return S3R_E_STORE_CORRUPT;
    if (is_listing && number >= RECORD_LISTING_END)
        return 1;
    *last = number;
    int took = number < RECORD_LISTING_END ? take_listing_field(number, &f, r)
                                           : take_other_field(number, &f, r);
    if (took < 0)
        return took;
    if (!took && (head.flags & RECORD_FLAG_MUST_KNOW))
        return S3R_E_STORE_FORMAT;
    *ret_len = sizeof(head) + f.len;
    return 0;
}

static int decode(const void *bytes, size_t len, bool is_listing, struct record *r)
{
    struct record_head head;
    memset(r, 0, sizeof(*r));
    if (len < sizeof(head) || len > RECORD_LEN_MAX)
        return S3R_E_STORE_CORRUPT;
    memcpy(&head, bytes, sizeof(head));
    if (head.format != RECORD_FORMAT)
        return head.format > RECORD_FORMAT ? S3R_E_STORE_FORMAT : S3R_E_STORE_CORRUPT;
    if (le32_load(&head.len) != len || head.zero || head.kind < RECORD_OBJECT ||
        head.kind > RECORD_BUCKET)
        return S3R_E_STORE_CORRUPT;
    r->kind = (enum record_kind)head.kind;
    uint16_t last = 0;
    for (size_t off = sizeof(head); off < len;) {
        size_t field_len = 0;
        int err =
            decode_field((const uint8_t *)bytes + off, len - off, is_listing, &last, r, &field_len);
        if (err)
            return err < 0 ? err : 0;
        off += field_len;
    }
    return 0;
}

/* What this version cannot honour must not be served as if it were not there. */
static int check_served(const struct record *r)
{
    return r->is_delete_marker || r->encryption.data || r->retention.data || r->is_legal_hold
               ? S3R_E_STORE_FORMAT
               : 0;
}

static bool is_whole(const struct record *r)
{
    if (r->kind != RECORD_OBJECT && r->kind != RECORD_PART)
        return true;
    if (!r->etag || (r->inline_bytes.data && r->inline_bytes.len != r->size))
        return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < r->part_count; i++)
        sum += r->parts[i].size; /* 10,000 times 5 GiB do not wrap */
    return r->part_count ? r->file_id && sum == r->size
                         : r->file_id || r->inline_bytes.data || !r->size;
}

int record_decode(const void *bytes, size_t len, struct record *ret_record)
{
    struct record r;
    int err = decode(bytes, len, false, &r);
    if (!err)
        err = check_served(&r);
    if (!err && !is_whole(&r))
        err = S3R_E_STORE_CORRUPT;
    if (err)
        record_fini(&r);
    else
        *ret_record = r;
    return err;
}

int record_decode_listing(const void *bytes, size_t len, struct record *ret_record)
{
    struct record r;
    int err = decode(bytes, len, true, &r);
    if (!err && r.is_delete_marker)
        err = S3R_E_STORE_FORMAT;
    if (!err && r.kind == RECORD_OBJECT && !r.etag)
        err = S3R_E_STORE_CORRUPT;
    if (!err)
        *ret_record = r;
    return err;
}

void record_fini(struct record *r)
{
    free(r->parts);
    free(r->meta);
    r->parts = NULL;
    r->meta = NULL;
    r->part_count = r->meta_count = 0;
}
