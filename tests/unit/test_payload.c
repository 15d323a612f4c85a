/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/crc64.h"
#include "base/limits.h"
#include "s3/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MD5_HELLO "XUFAKrxLKna5cZ2REBfFkg=="
#define MD5_EMPTY "1B2M2Y8AsgTpgAmY7PhCfg=="
#define CRC32_HELLO "NhCmhg=="
#define CRC32C_HELLO "mnG7TA=="
#define SHA1_HELLO "qvTGHdzF6KLavt4PO0gs2a6pQ00="
#define SHA256_HELLO "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="

static int count(void *arg, const void *bytes, size_t len)
{
    *(size_t *)arg += len;
    return 0;
}

struct outcome {
    int rc;           /* of the first step that failed */
    bool was_created; /* it was not the creation */
    struct payload_result result;
};

/* Headers as "name: value\n" lines; the body goes through in pieces of `step` bytes. */
static struct outcome put(const char *lines, const struct payload_rules *rules, const char *body,
                          size_t step)
{
    struct headers h = {0};
    struct payload *p = NULL;
    struct outcome out = {0};
    size_t sunk = 0, len = strlen(body);
    for (const char *s = lines; *s; s += strcspn(s, "\n") + 1) {
        size_t name_len = strcspn(s, ":"), line_len = strcspn(s, "\n");
        assert_int_equal(headers_add_n(&h, s, name_len, s + name_len + 1, line_len - name_len - 1),
                         0);
    }
    out.rc = payload_create(&h, rules, NULL, &p);
    out.was_created = out.rc == 0;
    for (size_t off = 0; out.rc == 0 && off < len; off += step)
        out.rc =
            payload_feed(p, body + off, step < len - off ? step : len - off, NULL, count, &sunk);
    if (out.rc == 0) {
        bool is_complete = payload_is_complete(p);
        out.rc = payload_finish(p, NULL, &out.result);
        if (out.rc == 0) {
            assert_true(is_complete);
            assert_int_equal(sunk, payload_len(p));
        }
        assert_int_not_equal(payload_finish(p, NULL, &out.result), 0); /* once only */
    }
    payload_destroy(p);
    headers_fini(&h);
    return out;
}

static const struct payload_rules open_rules = {.len_max = LIMIT_OBJECT_LEN_MAX};

static void plain_bodies_are_verified(void **state)
{
    static const struct {
        const char *headers, *body;
        bool is_at_creation;
        int rc;
    } cases[] = {
        {"content-length: 5\n", "hello", false, 0},
        {"content-length: 0\n", "", false, 0},
        {"content-length: 5\n", "hell", false, S3R_E_INCOMPLETE_BODY},
        {"content-length: 5\n", "hello!", false, S3R_E_INCOMPLETE_BODY},
        {"x-amz-decoded-content-length: 5\n", "hello", false, 0},
        {"content-length: 5\nx-amz-decoded-content-length: 5\n", "hello", false, 0},
        {"content-length: 5\nx-amz-decoded-content-length: 4\n", "", true, S3R_E_INVALID_REQUEST},
        {"host: x\n", "", true, S3R_E_MISSING_LENGTH},
        {"content-length: 5\ncontent-length: 6\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: -1\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5x\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 99999999999999999999\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5497558138881\n", "", true, S3R_E_ENTITY_TOO_LARGE},
        /* Content-MD5 */
        {"content-length: 5\ncontent-md5: " MD5_HELLO "\n", "hello", false, 0},
        {"content-length: 5\ncontent-md5: " MD5_EMPTY "\n", "hello", false, S3R_E_BAD_DIGEST},
        {"content-length: 5\ncontent-md5:\n", "", true, S3R_E_INVALID_DIGEST},
        {"content-length: 5\ncontent-md5: abc\n", "", true, S3R_E_INVALID_DIGEST},
        {"content-length: 5\ncontent-md5: " CRC32_HELLO "\n", "", true, S3R_E_INVALID_DIGEST},
        {"content-length: 5\ncontent-md5: " MD5_HELLO "\ncontent-md5: " MD5_HELLO "\n", "", true,
         S3R_E_INVALID_DIGEST},
        /* x-amz-checksum-* */
        {"content-length: 5\nx-amz-checksum-crc32: " CRC32_HELLO "\n", "hello", false, 0},
        {"content-length: 5\nx-amz-checksum-crc32c: " CRC32C_HELLO "\n", "hello", false, 0},
        {"content-length: 5\nx-amz-checksum-sha1: " SHA1_HELLO "\n", "hello", false, 0},
        {"content-length: 5\nx-amz-checksum-sha256: " SHA256_HELLO "\n", "hello", false, 0},
        {"content-length: 9\nx-amz-checksum-crc64nvme: rosUhgp5mIg=\n", "123456789", false, 0},
        {"content-length: 3\nx-amz-checksum-crc32: AAAAAA==\n", "abc", false, S3R_E_BAD_DIGEST},
        {"content-length: 5\nx-amz-checksum-crc32: " CRC32C_HELLO "\n", "hello", false,
         S3R_E_BAD_DIGEST},
        {"content-length: 5\nx-amz-checksum-crc32: x\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-checksum-crc32: AAAAAA==-1\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-checksum-md5: " MD5_HELLO "\n", "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-checksum-crc32: " CRC32_HELLO
         "\nx-amz-checksum-sha1: " SHA1_HELLO "\n",
         "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-checksum-mode: ENABLED\nx-amz-checksum-type: COMPOSITE\n",
         "hello", false, 0},
        /* x-amz-sdk-checksum-algorithm */
        {"content-length: 5\nx-amz-sdk-checksum-algorithm: "
         "CRC32\nx-amz-checksum-crc32: " CRC32_HELLO "\n",
         "hello", false, 0},
        {"content-length: 5\nx-amz-sdk-checksum-algorithm: SHA1\nx-amz-checksum-crc32: " CRC32_HELLO
         "\n",
         "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-sdk-checksum-algorithm: CRC32\n", "", true,
         S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-sdk-checksum-algorithm: MD4\nx-amz-checksum-crc32: " CRC32_HELLO
         "\n",
         "", true, S3R_E_INVALID_REQUEST},
        {"content-length: 5\nx-amz-trailer: x-amz-checksum-crc32\n", "", true,
         S3R_E_INVALID_REQUEST},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 10; step += 4) {
            struct outcome out = put(cases[i].headers, &open_rules, cases[i].body, step);
            if (out.rc != cases[i].rc || out.was_created == cases[i].is_at_creation)
                print_message("row %zu\n", i);
            assert_int_equal(out.rc, cases[i].rc);
            assert_int_equal(out.was_created, !cases[i].is_at_creation);
        }
}

static void the_signed_hash_of_the_body_is_verified(void **state)
{
    struct sig_auth auth = {.how = SIG_HEADER, .payload = SIG_PAYLOAD_SHA256};
    struct payload_rules rules = {.auth = &auth, .len_max = 100, .flags = PAYLOAD_NO_MD5};
    sha256("hello", 5, auth.payload_sha256);
    assert_int_equal(put("content-length: 5\n", &rules, "hello", 2).rc, 0);
    assert_int_equal(put("content-length: 5\n", &rules, "hellO", 2).rc, S3R_E_SHA256_MISMATCH);
    assert_int_equal(
        put("content-length: 5\nx-amz-checksum-sha256: " SHA256_HELLO "\n", &rules, "hello", 2).rc,
        0);
    assert_int_equal(put("content-length: 101\n", &rules, "", 2).rc, S3R_E_ENTITY_TOO_LARGE);
}

static void a_link_may_name_an_algorithm_that_nobody_could_compute_yet(void **state)
{
    struct sig_auth auth = {.how = SIG_PRESIGNED};
    struct payload_rules rules = {.auth = &auth, .len_max = 100};
    assert_int_equal(
        put("content-length: 5\nx-amz-sdk-checksum-algorithm: CRC32\n", &rules, "hello", 5).rc, 0);
}

static void trailers_are_verified(void **state)
{
    static const struct {
        const char *headers, *trailer;
        int rc;
    } cases[] = {
        {"x-amz-trailer: x-amz-checksum-crc32\n", "x-amz-checksum-crc32:" CRC32_HELLO "\r\n", 0},
        {"x-amz-trailer: X-Amz-Checksum-CRC32C\n", "x-amz-checksum-crc32c:" CRC32C_HELLO "\r\n", 0},
        {"x-amz-trailer: x-amz-checksum-sha1\n", "x-amz-checksum-sha1:" SHA1_HELLO "\r\n", 0},
        {"x-amz-trailer: x-amz-checksum-sha256\n", "x-amz-checksum-sha256:" SHA256_HELLO "\r\n", 0},
        {"x-amz-trailer: x-amz-checksum-crc32\n", "x-amz-checksum-crc32:NhCmhw==\r\n",
         S3R_E_BAD_DIGEST},
        {"x-amz-trailer: x-amz-checksum-sha1\n",
         "x-amz-checksum-sha1:qvTGHdzF6KLavt4PO0gs2a6pQ08=\r\n", S3R_E_BAD_DIGEST},
        {"x-amz-trailer: x-amz-checksum-crc64nvme\n", "x-amz-checksum-crc64nvme:AAAAAAAAAAA=\r\n",
         S3R_E_BAD_DIGEST},
        {"", "", 0},
        {"x-amz-trailer: x-amz-checksum-crc32\n", "", S3R_E_MALFORMED_TRAILER},
        {"", "x-amz-checksum-crc32:" CRC32_HELLO "\r\n", S3R_E_MALFORMED_TRAILER},
        {"x-amz-trailer: x-amz-checksum-crc32\n", "x-amz-checksum-sha1:" SHA1_HELLO "\r\n",
         S3R_E_MALFORMED_TRAILER},
        {"x-amz-trailer: x-amz-checksum-crc32\n",
         "x-amz-checksum-crc32:" CRC32_HELLO "\r\nx-other:1\r\n", S3R_E_MALFORMED_TRAILER},
        {"x-amz-trailer: x-amz-checksum-crc32\n",
         "x-amz-checksum-crc32:" CRC32_HELLO "\r\nx-amz-checksum-crc32:" CRC32_HELLO "\r\n",
         S3R_E_MALFORMED_TRAILER},
        {"x-amz-trailer: x-amz-checksum-crc32\n", "x-amz-checksum-crc32:x\r\n",
         S3R_E_INVALID_REQUEST},
        {"x-amz-trailer: x-amz-meta-a\n", "x-amz-meta-a:x\r\n", S3R_E_INVALID_REQUEST},
        {"x-amz-trailer: x-amz-checksum-crc32,x-amz-checksum-sha1\n", "", S3R_E_INVALID_REQUEST},
        {"x-amz-trailer: x-amz-checksum-crc32\nx-amz-checksum-crc32: " CRC32_HELLO "\n",
         "x-amz-checksum-crc32:" CRC32_HELLO "\r\n", S3R_E_INVALID_REQUEST},
        {"x-amz-trailer: x-amz-checksum-crc32\nx-amz-sdk-checksum-algorithm: CRC32\n",
         "x-amz-checksum-crc32:" CRC32_HELLO "\r\n", 0},
    };
    struct sig_auth auth = {.how = SIG_HEADER, .payload = SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER};
    struct payload_rules rules = {.auth = &auth, .len_max = 100};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char body[512], headers[512];
        snprintf(body, sizeof body, "5\r\nhello\r\n0\r\n%s\r\n", cases[i].trailer);
        snprintf(headers, sizeof headers,
                 "x-amz-decoded-content-length: 5\ncontent-length: %zu\n%s", strlen(body),
                 cases[i].headers);
        for (size_t step = 1; step < 300; step += 97) {
            struct outcome out = put(headers, &rules, body, step);
            if (out.rc != cases[i].rc)
                print_message("row %zu\n", i);
            assert_int_equal(out.rc, cases[i].rc);
        }
    }
}

static void both_lengths_of_a_chunked_body_count(void **state)
{
    static const char body[] = "5\r\nhello\r\n0\r\n\r\n"; /* 15 bytes */
    static const struct {
        const char *headers;
        int rc;
    } cases[] = {
        {"x-amz-decoded-content-length: 5\ncontent-length: 15\n", 0},
        {"x-amz-decoded-content-length: 5\n", 0}, /* Transfer-Encoding: chunked */
        {"content-length: 15\n", S3R_E_MISSING_LENGTH},
        {"x-amz-decoded-content-length: 5\ncontent-length: 4\n", S3R_E_INVALID_REQUEST},
        {"x-amz-decoded-content-length: 5\ncontent-length: 14\n", S3R_E_INCOMPLETE_BODY},
        {"x-amz-decoded-content-length: 5\ncontent-length: 16\n", S3R_E_INCOMPLETE_BODY},
        {"x-amz-decoded-content-length: 4\ncontent-length: 15\n", S3R_E_INCOMPLETE_BODY},
        {"x-amz-decoded-content-length: 6\ncontent-length: 15\n", S3R_E_INCOMPLETE_BODY},
        {"x-amz-decoded-content-length: 101\n", S3R_E_ENTITY_TOO_LARGE},
    };
    struct sig_auth auth = {.how = SIG_HEADER, .payload = SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER};
    struct payload_rules rules = {.auth = &auth, .len_max = 100};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct outcome out = put(cases[i].headers, &rules, body, 4);
        if (out.rc != cases[i].rc)
            print_message("row %zu\n", i);
        assert_int_equal(out.rc, cases[i].rc);
    }
}

static void the_end_is_a_matter_of_count(void **state)
{
    struct headers h = {0};
    struct payload *p;
    struct payload_result r;
    size_t sunk = 0;
    assert_int_equal(headers_add(&h, "content-length", "5"), 0);
    assert_int_equal(payload_create(&h, &open_rules, NULL, &p), 0);
    assert_false(payload_is_complete(p));
    assert_int_equal(payload_feed(p, "", 0, NULL, count, &sunk), 0); /* an empty piece is none */
    assert_false(payload_is_complete(p));
    assert_int_equal(payload_feed(p, "hello", 5, NULL, count, &sunk), 0);
    assert_true(payload_is_complete(p));
    assert_int_equal(payload_finish(p, NULL, &r), 0);
    payload_destroy(p);
    headers_fini(&h);
}

static void results_hold_what_was_asked_for(void **state)
{
    struct payload_rules rules = {.len_max = 100, .extra = CHECKSUM_SHA1};
    struct outcome out =
        put("content-length: 5\nx-amz-checksum-crc32: " CRC32_HELLO "\n", &rules, "hello", 3);
    char text[CHECKSUM_TEXT_SIZE];
    assert_int_equal(out.rc, 0);
    assert_int_equal(out.result.len, 5);
    assert_true(out.result.has_md5);
    assert_memory_equal(out.result.md5,
                        "\x5d\x41\x40\x2a\xbc\x4b\x2a\x76\xb9\x71\x9d\x91\x10\x17"
                        "\xc5\x92",
                        16);
    assert_true(out.result.has_crc64);
    assert_true(out.result.crc64 == crc64_update(0, "hello", 5));
    checksum_print(&out.result.checksum, text);
    assert_string_equal(text, CRC32_HELLO);
    checksum_print(&out.result.extra, text);
    assert_string_equal(text, SHA1_HELLO);
    rules = (struct payload_rules){.len_max = 100, .flags = PAYLOAD_NO_MD5 | PAYLOAD_NO_CRC64};
    out = put("content-length: 5\n", &rules, "hello", 3);
    assert_false(out.result.has_md5);
    assert_false(out.result.has_crc64);
    assert_int_equal(out.result.checksum.kind, CHECKSUM_NONE);
    out = put("content-length: 5\ncontent-md5: " MD5_EMPTY "\n", &rules, "hello", 3);
    assert_int_equal(out.rc, S3R_E_BAD_DIGEST); /* demanded, so computed all the same */
}

static int put_plain(const char *name, const char *value, const struct sig_auth *auth,
                     const char *bytes, uint64_t len)
{
    struct headers h = {0};
    struct payload *p = NULL;
    struct payload_result r;
    struct payload_rules rules = {.auth = auth, .len_max = 100, .flags = PAYLOAD_NO_MD5};
    assert_int_equal(headers_add(&h, "content-length", "0"), 0);
    if (name)
        assert_int_equal(headers_add(&h, name, value), 0);
    int rc = payload_create_plain(&h, &rules, len, NULL, &p);
    for (size_t i = 0; rc == 0 && bytes[i]; i++)
        rc = payload_feed_plain(p, bytes + i, 1, NULL);
    if (rc == 0)
        rc = payload_finish(p, NULL, &r);
    if (rc == 0)
        assert_true(r.has_crc64 && !r.has_md5 && r.len == len);
    payload_destroy(p);
    headers_fini(&h);
    return rc;
}

static void bytes_from_memory_are_verified_too(void **state)
{
    struct sig_auth empty = {.how = SIG_HEADER, .payload = SIG_PAYLOAD_SHA256};
    struct sig_auth other = empty;
    struct sig_auth stream = {.how = SIG_HEADER, .payload = SIG_PAYLOAD_STREAM};
    struct sig_auth open = {.how = SIG_HEADER};
    sha256("", 0, empty.payload_sha256);
    sha256("x", 1, other.payload_sha256);
    assert_int_equal(put_plain(NULL, NULL, &empty, "hello", 5), 0);
    assert_int_equal(put_plain(NULL, NULL, &open, "hello", 5), 0);
    assert_int_equal(put_plain(NULL, NULL, &open, "hell", 5), S3R_E_INCOMPLETE_BODY);
    assert_int_equal(put_plain(NULL, NULL, &open, "hello!", 5), S3R_E_INCOMPLETE_BODY);
    assert_int_equal(put_plain(NULL, NULL, &open, "", 101), S3R_E_ENTITY_TOO_LARGE);
    assert_int_equal(put_plain(NULL, NULL, &other, "hello", 5), S3R_E_SHA256_MISMATCH);
    assert_int_equal(put_plain(NULL, NULL, &stream, "hello", 5), S3R_E_INVALID_REQUEST);
    assert_int_equal(put_plain("x-amz-checksum-crc32", CRC32_HELLO, &open, "hello", 5), 0);
    assert_int_equal(put_plain("x-amz-checksum-crc32", "AAAAAA==", &open, "hello", 5),
                     S3R_E_BAD_DIGEST);
    assert_int_equal(put_plain("content-md5", MD5_EMPTY, &open, "hello", 5), S3R_E_BAD_DIGEST);
    assert_int_equal(put_plain("x-amz-trailer", "x-amz-checksum-crc32", &open, "hello", 5),
                     S3R_E_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_bodies_are_verified),
        cmocka_unit_test(the_signed_hash_of_the_body_is_verified),
        cmocka_unit_test(a_link_may_name_an_algorithm_that_nobody_could_compute_yet),
        cmocka_unit_test(trailers_are_verified),
        cmocka_unit_test(both_lengths_of_a_chunked_body_count),
        cmocka_unit_test(the_end_is_a_matter_of_count),
        cmocka_unit_test(results_hold_what_was_asked_for),
        cmocka_unit_test(bytes_from_memory_are_verified_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
