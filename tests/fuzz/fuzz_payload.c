/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "s3/meta.h"
#include "s3/payload.h"

static int count(void *arg, const void *bytes, size_t len)
{
    *(uint64_t *)arg += len;
    return 0;
}

/* Whatever is accepted has the length and the sum that were announced, at any split. */
static int check_body(const struct headers *headers, const struct payload_rules *rules,
                      const uint8_t *data, size_t size, size_t step, struct payload_result *result)
{
    struct diag diag = {0};
    struct payload *p = NULL;
    uint64_t sunk = 0;
    int rc = payload_create(headers, rules, &diag, &p);
    if (rc < 0)
        return rc;
    for (size_t at = 0; at < size && rc == 0; at += step)
        rc = payload_feed(p, data + at, size - at < step ? size - at : step, &diag, count, &sunk);
    MUST(sunk <= payload_len(p));
    if (rc == 0)
        rc = payload_finish(p, &diag, result);
    MUST(rc < 0 || (sunk == payload_len(p) && result->len == sunk));
    MUST(rc < 0 || result->checksum.kind == payload_checksum_kind(p));
    payload_destroy(p);
    return rc;
}

static void check_meta(const struct headers *headers)
{
    struct diag diag = {0};
    struct headers meta = {0};
    if (meta_collect(headers, &diag, &meta) == 0)
        MUST(meta.count <= headers->count);
    headers_fini(&meta);
}

/* Two bytes choose kind and split; header lines up to an empty one; the body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum sig_payload kinds[] = {SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER,
                                             SIG_PAYLOAD_UNSIGNED, SIG_PAYLOAD_SHA256,
                                             SIG_PAYLOAD_STREAM, SIG_PAYLOAD_STREAM_TRAILER};
    struct sig_chain chain = {.scope = "20130524/us-east-1/s3/aws4_request",
                              .time = "20130524T000000Z"};
    struct headers headers = {0};
    int rc = 0;
    if (size < 2)
        return 0;
    struct sig_auth auth = {.how = SIG_HEADER, .payload = kinds[data[0] % 5]};
    struct payload_rules rules = {.auth = &auth, .chain = &chain, .len_max = 1 << 20};
    size_t step = 1 + data[1] % 64;
    data += 2;
    size -= 2;
    while (size && rc == 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end ? (size_t)(end - data) : size, used = len + (end != NULL);
        const uint8_t *colon = memchr(data, ':', len);
        if (colon)
            rc = headers_add_n(&headers, (const char *)data, (size_t)(colon - data),
                               (const char *)colon + 1, len - (size_t)(colon - data) - 1);
        data += used;
        size -= used;
        if (len == 0)
            break;
    }
    struct payload_result whole = {0}, split = {0};
    int first = check_body(&headers, &rules, data, size, size ? size : 1, &whole);
    int second = check_body(&headers, &rules, data, size, step, &split);
    MUST((first == 0) == (second == 0));
    MUST(first < 0 || whole.crc64 == split.crc64);
    check_meta(&headers);
    headers_fini(&headers);
    return 0;
}
