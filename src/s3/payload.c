/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/payload.h"

#include "base/limits.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct payload {
    /* fixed after creation */
    uint64_t len;
    bool has_raw_len; /* Content-Length of an aws-chunked body */
    uint64_t raw_len;
    bool is_plain; /* no HTTP body: object bytes only */
    struct chunked *chunked;
    bool has_content_md5, has_sha256;
    unsigned char content_md5[MD5_LEN], sha256[SHA256_LEN];
    enum checksum_kind client, extra; /* the client's; the caller's */
    bool is_in_trailer;               /* the client's value comes last */
    struct checksum_value wanted;     /* the client's, when it came first */
    /* moves */
    uint64_t seen_len, raw_seen_len;
    int failure;
    struct digest *md5;
    struct checksum *sums[CHECKSUM_KINDS]; /* those that are needed */
};

void payload_destroy(struct payload *p)
{
    if (!p)
        return;
    chunked_destroy(p->chunked);
    digest_destroy(p->md5);
    for (size_t i = 0; i < CHECKSUM_KINDS; i++)
        checksum_destroy(p->sums[i]);
    free(p);
}

void payload_destroyp(struct payload **p)
{
    payload_destroy(*p);
}

/* What the headers announce */

static int read_length(const struct headers *h, const char *name, struct diag *diag, bool *ret_has,
                       uint64_t *ret_len)
{
    const char *value = headers_get(h, name);
    *ret_has = value != NULL;
    if (!value)
        return 0;
    if (headers_count(h, name) != 1 || !num_parse_dec(value, strlen(value), INT64_MAX, ret_len))
        return diag_fail(diag, S3R_E_INVALID_REQUEST, "%s must be one decimal number", name);
    return 0;
}

static bool is_stream(enum sig_payload kind)
{
    return kind == SIG_PAYLOAD_STREAM || kind == SIG_PAYLOAD_STREAM_TRAILER ||
           kind == SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER;
}

static int read_lengths(struct payload *p, const struct headers *h, enum sig_payload kind,
                        struct diag *diag)
{
    bool has_decoded;
    uint64_t raw = 0, decoded = 0;
    int rc = read_length(h, "content-length", diag, &p->has_raw_len, &raw);
    if (rc == 0)
        rc = read_length(h, "x-amz-decoded-content-length", diag, &has_decoded, &decoded);
    if (rc)
        return rc;
    if (is_stream(kind)) {
        if (!has_decoded)
            return diag_fail(diag, S3R_E_MISSING_LENGTH,
                             "an aws-chunked body needs x-amz-decoded-content-length");
        if (p->has_raw_len && raw < decoded)
            return diag_fail(diag, S3R_E_INVALID_REQUEST,
                             "x-amz-decoded-content-length is %" PRIu64
                             ", more than Content-Length, %" PRIu64,
                             decoded, raw);
        p->raw_len = raw;
        p->len = decoded;
        return 0;
    }
    if (!p->has_raw_len && !has_decoded)
        return S3R_E_MISSING_LENGTH;
    if (p->has_raw_len && has_decoded && raw != decoded)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "Content-Length is %" PRIu64 " and x-amz-decoded-content-length %" PRIu64
                         ", but the body is not aws-chunked",
                         raw, decoded);
    p->len = p->has_raw_len ? raw : decoded;
    p->has_raw_len = false; /* it is the object's length itself */
    return 0;
}

static int read_content_md5(struct payload *p, const struct headers *h, struct diag *diag)
{
    const char *value = headers_get(h, "content-md5");
    if (!value)
        return 0;
    if (headers_count(h, "content-md5") != 1 ||
        !base64_decode(value, strlen(value), p->content_md5, MD5_LEN))
        return diag_fail(diag, S3R_E_INVALID_DIGEST,
                         "Content-MD5 must be the base64 of 16 bytes, once");
    p->has_content_md5 = true;
    return 0;
}

/* x-amz-checksum-<algorithm>: at most one. */
static int read_checksum_header(struct payload *p, const struct headers *h, struct diag *diag)
{
    static const char *const others[] = {"x-amz-checksum-algorithm", "x-amz-checksum-type",
                                         "x-amz-checksum-mode"};
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->rows[i].name;
        bool is_other = strncmp(name, "x-amz-checksum-", 15) != 0;
        for (size_t j = 0; j < ARRAY_LEN(others); j++)
            is_other = is_other || strcmp(name, others[j]) == 0;
        if (is_other)
            continue;
        enum checksum_kind kind = checksum_kind_of_header(name);
        if (kind == CHECKSUM_NONE)
            return diag_fail(diag, S3R_E_INVALID_REQUEST, "%.64s is not a checksum of S3", name);
        if (p->client)
            return diag_fail(diag, S3R_E_INVALID_REQUEST,
                             "only one x-amz-checksum- header is allowed");
        if (!checksum_parse(kind, h->rows[i].value, false, &p->wanted))
            return diag_fail(diag, S3R_E_INVALID_REQUEST, "the value of %s is not valid", name);
        p->client = kind;
    }
    return 0;
}

/* x-amz-trailer: one checksum's header name. */
static int read_trailer_header(struct payload *p, const struct headers *h, enum sig_payload kind,
                               struct diag *diag)
{
    const char *value = headers_get(h, "x-amz-trailer");
    char name[64];
    size_t len = value ? strlen(value) : 0;
    if (!value)
        return 0;
    if (kind != SIG_PAYLOAD_STREAM_TRAILER && kind != SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-trailer needs an x-amz-content-sha256 that ends in -TRAILER");
    for (size_t i = 0; i <= len && i < sizeof name; i++)
        name[i] = value[i] >= 'A' && value[i] <= 'Z' ? (char)(value[i] + ('a' - 'A')) : value[i];
    if (headers_count(h, "x-amz-trailer") != 1 || len >= sizeof name ||
        checksum_kind_of_header(name) == CHECKSUM_NONE)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-trailer must name one x-amz-checksum- header");
    if (p->client)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "a checksum is given in a header and announced for the trailer");
    p->client = checksum_kind_of_header(name);
    p->is_in_trailer = true;
    return 0;
}

/* x-amz-sdk-checksum-algorithm says nothing that the checksum itself does not: it must agree. A
 * link's maker could not know the bytes yet, so there it may stand alone. */
static int check_sdk_algorithm(const struct payload *p, const struct headers *h,
                               const struct sig_auth *auth, struct diag *diag)
{
    const char *value = headers_get(h, "x-amz-sdk-checksum-algorithm");
    if (!value)
        return 0;
    enum checksum_kind kind = checksum_kind_of_name(value);
    if (kind == CHECKSUM_NONE)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-sdk-checksum-algorithm is not a checksum of S3");
    if (!p->client && !(auth && auth->how == SIG_PRESIGNED))
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-sdk-checksum-algorithm is there, but no x-amz-checksum- header "
                         "and no x-amz-trailer");
    if (p->client && p->client != kind)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "x-amz-sdk-checksum-algorithm differs from the checksum that is sent");
    return 0;
}

static int read_integrity(struct payload *p, const struct headers *h,
                          const struct payload_rules *rules, enum sig_payload kind,
                          struct diag *diag)
{
    int rc = read_content_md5(p, h, diag);
    if (rc == 0 && !(rules->flags & PAYLOAD_FOREIGN_CHECKSUM))
        rc = read_checksum_header(p, h, diag);
    if (rc == 0)
        rc = read_trailer_header(p, h, kind, diag);
    if (rc == 0)
        rc = check_sdk_algorithm(p, h, rules->auth, diag);
    return rc;
}

static int need_sum(struct payload *p, enum checksum_kind kind)
{
    return kind == CHECKSUM_NONE || p->sums[kind] ? 0 : checksum_create(kind, &p->sums[kind]);
}

static int create_sums(struct payload *p, unsigned flags)
{
    int rc = 0;
    if (!(flags & PAYLOAD_NO_MD5) || p->has_content_md5)
        rc = digest_create(DIGEST_MD5, &p->md5);
    if (rc == 0 && !(flags & PAYLOAD_NO_CRC64))
        rc = need_sum(p, CHECKSUM_CRC64NVME);
    if (rc == 0 && p->has_sha256)
        rc = need_sum(p, CHECKSUM_SHA256);
    if (rc == 0)
        rc = need_sum(p, p->client);
    return rc ? rc : need_sum(p, p->extra);
}

static int check_len_max(const struct payload *p, uint64_t len_max, struct diag *diag)
{
    if (p->len > len_max)
        return diag_fail(diag, S3R_E_ENTITY_TOO_LARGE,
                         "the body has %" PRIu64 " bytes; at most %" PRIu64 " are allowed", p->len,
                         len_max);
    return 0;
}

int payload_create(const struct headers *headers, const struct payload_rules *rules,
                   struct diag *diag, struct payload **ret_payload)
{
    CLEANUP(payload_destroyp) struct payload *p = calloc(1, sizeof *p);
    if (!p)
        return S3R_E_NOMEM;
    enum sig_payload kind = rules->auth ? rules->auth->payload : SIG_PAYLOAD_UNSIGNED;
    int rc = read_lengths(p, headers, kind, diag);
    if (rc == 0)
        rc = check_len_max(p, rules->len_max, diag);
    if (rc == 0)
        rc = read_integrity(p, headers, rules, kind, diag);
    if (rc)
        return rc;
    p->extra = rules->extra;
    if (kind == SIG_PAYLOAD_SHA256) {
        p->has_sha256 = true;
        memcpy(p->sha256, rules->auth->payload_sha256, SHA256_LEN);
    }
    if (is_stream(kind))
        rc = chunked_create(kind, rules->chain, p->len, &p->chunked);
    if (rc == 0)
        rc = create_sums(p, rules->flags);
    if (rc == 0)
        *ret_payload = STEAL(p);
    return rc;
}

/* The HTTP body of such a request is empty, and that is what was signed. */
static int check_no_body(const struct sig_auth *auth, struct diag *diag)
{
    unsigned char empty[SHA256_LEN];
    enum sig_payload kind = auth ? auth->payload : SIG_PAYLOAD_UNSIGNED;
    if (is_stream(kind))
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "a body in aws-chunked form and bytes by RDMA exclude each other");
    sha256("", 0, empty);
    if (kind == SIG_PAYLOAD_SHA256 && memcmp(auth->payload_sha256, empty, SHA256_LEN) != 0)
        return S3R_E_SHA256_MISMATCH;
    return 0;
}

int payload_create_plain(const struct headers *headers, const struct payload_rules *rules,
                         uint64_t len, struct diag *diag, struct payload **ret_payload)
{
    CLEANUP(payload_destroyp) struct payload *p = calloc(1, sizeof *p);
    if (!p)
        return S3R_E_NOMEM;
    p->is_plain = true;
    p->len = len;
    p->extra = rules->extra;
    int rc = check_no_body(rules->auth, diag);
    if (rc == 0)
        rc = check_len_max(p, rules->len_max, diag);
    if (rc == 0)
        rc = read_integrity(p, headers, rules, SIG_PAYLOAD_UNSIGNED, diag);
    if (rc == 0)
        rc = create_sums(p, rules->flags);
    if (rc == 0)
        *ret_payload = STEAL(p);
    return rc;
}

uint64_t payload_len(const struct payload *p)
{
    return p->len;
}

enum checksum_kind payload_checksum_kind(const struct payload *p)
{
    return p->client;
}

bool payload_is_complete(const struct payload *p)
{
    if (p->failure)
        return false;
    if (p->has_raw_len)
        return p->raw_seen_len == p->raw_len;
    return p->chunked ? chunked_is_done(p->chunked) : p->seen_len == p->len;
}

/* Bytes */

static int hash(struct payload *p, const void *bytes, size_t len, struct diag *diag)
{
    if (len > p->len - p->seen_len)
        return diag_fail(diag, S3R_E_INCOMPLETE_BODY,
                         "the body is longer than the %" PRIu64 " bytes that were declared",
                         p->len);
    if (p->md5)
        digest_update(p->md5, bytes, len);
    for (size_t i = 0; i < CHECKSUM_KINDS; i++)
        if (p->sums[i])
            checksum_update(p->sums[i], bytes, len);
    p->seen_len += len;
    return 0;
}

/* Stands between the decoder and the caller's sink. */
struct hashing_sink {
    struct payload *payload;
    struct diag *diag;
    bytes_sink_fn *sink;
    void *arg;
};

static int hashing_sink(void *arg, const void *bytes, size_t len)
{
    struct hashing_sink *s = arg;
    int rc = hash(s->payload, bytes, len, s->diag);
    return rc ? rc : s->sink(s->arg, bytes, len);
}

static int feed(struct payload *p, const void *bytes, size_t len, struct hashing_sink *sink)
{
    if (p->has_raw_len && len > p->raw_len - p->raw_seen_len)
        return diag_fail(sink->diag, S3R_E_INCOMPLETE_BODY,
                         "the body is longer than its Content-Length");
    p->raw_seen_len += len;
    if (p->chunked)
        return chunked_feed(p->chunked, bytes, len, sink->diag, hashing_sink, sink);
    return len ? hashing_sink(sink, bytes, len) : 0;
}

int payload_feed(struct payload *p, const void *bytes, size_t len, struct diag *diag,
                 bytes_sink_fn *sink, void *sink_arg)
{
    struct hashing_sink s = {p, diag, sink, sink_arg};
    if (!p->failure)
        p->failure = p->is_plain ? S3R_E_INTERNAL : feed(p, bytes, len, &s);
    return p->failure;
}

int payload_feed_plain(struct payload *p, const void *bytes, size_t len, struct diag *diag)
{
    if (!p->failure)
        p->failure = p->is_plain ? hash(p, bytes, len, diag) : S3R_E_INTERNAL;
    return p->failure;
}

/* The end */

/* The trailer must be the one that was announced, all of it and nothing else. */
static int take_trailer(struct payload *p, struct diag *diag)
{
    const struct headers *trailers = chunked_trailers(p->chunked);
    const char *name = p->is_in_trailer ? checksum_header(p->client) : NULL;
    if (trailers->count != (name ? 1 : 0) || (name && !headers_get(trailers, name)))
        return diag_fail(diag, S3R_E_MALFORMED_TRAILER, "the trailer must be %s%s",
                         name ? name : "empty", name ? ", once" : ": none was announced");
    if (name && !checksum_parse(p->client, headers_get(trailers, name), false, &p->wanted))
        return diag_fail(diag, S3R_E_INVALID_REQUEST, "the trailer's value of %s is not valid",
                         name);
    return 0;
}

static int check_lengths(struct payload *p, struct diag *diag)
{
    int rc = p->chunked ? chunked_finish(p->chunked, diag) : 0;
    if (rc)
        return rc;
    if (p->seen_len != p->len || (p->has_raw_len && p->raw_seen_len != p->raw_len))
        return diag_fail(diag, S3R_E_INCOMPLETE_BODY,
                         "the body ended after %" PRIu64 " of %" PRIu64 " bytes", p->seen_len,
                         p->len);
    return p->chunked ? take_trailer(p, diag) : 0;
}

static int check_sums(const struct payload *p, const struct payload_result *r,
                      const struct checksum_value values[CHECKSUM_KINDS], struct diag *diag)
{
    if (p->has_sha256 && memcmp(values[CHECKSUM_SHA256].bytes, p->sha256, SHA256_LEN) != 0)
        return S3R_E_SHA256_MISMATCH;
    if (p->has_content_md5 && memcmp(r->md5, p->content_md5, MD5_LEN) != 0)
        return diag_fail(diag, S3R_E_BAD_DIGEST,
                         "the Content-MD5 given does not match the bytes received");
    if (p->client && !checksum_equal(&values[p->client], &p->wanted))
        return diag_fail(diag, S3R_E_BAD_DIGEST,
                         "the %s checksum given does not match the bytes received",
                         checksum_name(p->client));
    return 0;
}

static int finish(struct payload *p, struct diag *diag, struct payload_result *ret_result)
{
    int rc = check_lengths(p, diag);
    if (rc)
        return rc;
    struct payload_result r = {.len = p->len};
    struct checksum_value values[CHECKSUM_KINDS] = {0};
    for (size_t i = 0; i < CHECKSUM_KINDS; i++)
        if (p->sums[i])
            checksum_final(p->sums[i], &values[i]);
    if (p->md5) {
        unsigned char sum[DIGEST_LEN_MAX];
        digest_final(p->md5, sum);
        memcpy(r.md5, sum, MD5_LEN);
        r.has_md5 = true;
    }
    rc = check_sums(p, &r, values, diag);
    if (rc)
        return rc;
    r.has_crc64 = p->sums[CHECKSUM_CRC64NVME] != NULL;
    for (size_t i = 0; i < 8; i++) /* the wire's order is big-endian */
        r.crc64 = r.crc64 << 8 | values[CHECKSUM_CRC64NVME].bytes[i];
    r.checksum = values[p->client];
    r.extra = values[p->extra];
    *ret_result = r;
    return 0;
}

int payload_finish(struct payload *p, struct diag *diag, struct payload_result *ret_result)
{
    if (!p->failure)
        p->failure = finish(p, diag, ret_result);
    int rc = p->failure;
    p->failure = S3R_E_INTERNAL; /* the sums are spent: there is no second time */
    return rc;
}
