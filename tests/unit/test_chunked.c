/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/limits.h"
#include "s3/chunked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sink {
    char bytes[70000];
    size_t len;
};
static struct sink sink;

static int collect(void *arg, const void *bytes, size_t len)
{
    struct sink *s = arg;
    assert_true(len <= sizeof s->bytes - s->len);
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return 0;
}

/* Feeds in pieces of `step` bytes (0: at once) up to the end. */
static int decode(enum sig_payload kind, const struct sig_chain *chain, uint64_t decoded_len,
                  const char *body, size_t len, size_t step, struct chunked **ret_chunked)
{
    struct chunked *c;
    int rc = 0;
    sink.len = 0;
    assert_int_equal(chunked_create(kind, chain, decoded_len, &c), 0);
    for (size_t off = 0; off < len && rc == 0; off += step ? step : len) {
        size_t n = step && step < len - off ? step : len - off;
        char *piece = malloc(n); /* its own block, so that a read past it is seen */
        memcpy(piece, body + off, n);
        rc = chunked_feed(c, piece, n, NULL, collect, &sink);
        free(piece);
    }
    if (rc)
        assert_int_equal(chunked_finish(c, NULL), rc); /* a failure stays one */
    else
        rc = chunked_finish(c, NULL);
    if (ret_chunked)
        *ret_chunked = c;
    else
        chunked_destroy(c);
    return rc;
}

static const size_t steps[] = {1, 2, 3, 7, 64, 0};

static void unsigned_bodies_decode_at_any_split(void **state)
{
    static const struct {
        const char *body, *decoded;
        uint64_t decoded_len;
        int rc;
    } cases[] = {
        {"5\r\nhello\r\n0\r\n\r\n", "hello", 5, 0},
        {"2\r\nhe\r\n003\r\nllo\r\n0\r\n\r\n", "hello", 5, 0},
        {"0\r\n\r\n", "", 0, 0},
        {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", "hello", 5, 0},
        {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n", "hello", 5, 0},
        {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n", "hello", 5, 0},
        {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 2, 0},
        {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 10, 0},
        /* the declared length rules */
        {"5\r\nhello\r\n0\r\n\r\n", NULL, 4, S3R_E_INCOMPLETE_BODY},
        {"5\r\nhello\r\n0\r\n\r\n", NULL, 6, S3R_E_INCOMPLETE_BODY},
        {"5\r\nhello\r\n", NULL, 5, S3R_E_INCOMPLETE_BODY},
        {"5\r\nhel", NULL, 5, S3R_E_INCOMPLETE_BODY},
        {"5\r\nhello\r\n0\r\n", NULL, 5, S3R_E_INCOMPLETE_BODY},
        {"5\r\nhello\r\n0\r\na:b", NULL, 5, S3R_E_INCOMPLETE_BODY},
        {"", NULL, 0, S3R_E_INCOMPLETE_BODY},
        {"ffffffffffffffff\r\nx", NULL, 5, S3R_E_INCOMPLETE_BODY},
        /* framing */
        {"-1\r\nx", NULL, 5, S3R_E_INVALID_REQUEST},
        {"+5\r\nhello", NULL, 5, S3R_E_INVALID_REQUEST},
        {"0x5\r\nhello", NULL, 5, S3R_E_INVALID_REQUEST},
        {" 5\r\nhello", NULL, 5, S3R_E_INVALID_REQUEST},
        {"\r\n", NULL, 5, S3R_E_INVALID_REQUEST},
        {"fffffffffffffffff\r\nx", NULL, 5, S3R_E_INVALID_REQUEST},
        {"5\nhello\r\n0\r\n\r\n", NULL, 5, S3R_E_INVALID_REQUEST},
        {"5\r\nhelloX\r\n0\r\n\r\n", NULL, 5, S3R_E_INVALID_REQUEST},
        {"5\r\nhello0\r\n\r\n", NULL, 5, S3R_E_INVALID_REQUEST},
        {"5\r\nhello\n0\r\n\r\n", NULL, 5, S3R_E_INVALID_REQUEST},
        {"5;a=b\r\nhello\r\n0\r\n\r\n", NULL, 5, S3R_E_INVALID_REQUEST},
        {"5\r\nhello\r\n0\r\n\r\nrest", NULL, 5, S3R_E_INVALID_REQUEST},
        /* trailers */
        {"0\r\nno colon\r\n\r\n", NULL, 0, S3R_E_MALFORMED_TRAILER},
        {"0\r\n:value\r\n\r\n", NULL, 0, S3R_E_MALFORMED_TRAILER},
        {"0\r\na b:value\r\n\r\n", NULL, 0, S3R_E_MALFORMED_TRAILER},
        {"0\r\na:b\rc\r\n\r\n", NULL, 0, S3R_E_MALFORMED_TRAILER},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
            int rc = decode(SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER, NULL, cases[i].decoded_len,
                            cases[i].body, strlen(cases[i].body), steps[s], NULL);
            if (rc != cases[i].rc)
                print_message("row %zu step %zu\n", i, steps[s]);
            assert_int_equal(rc, cases[i].rc);
            if (cases[i].decoded) {
                assert_int_equal(sink.len, strlen(cases[i].decoded));
                assert_memory_equal(sink.bytes, cases[i].decoded, sink.len);
            }
        }
}

static void lines_are_bounded(void **state)
{
    static char body[20000];
    static const struct {
        const char *start;
        int rc;
    } cases[] = {{"5;", S3R_E_INVALID_REQUEST}, {"0\r\na:", S3R_E_MALFORMED_TRAILER}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
            memset(body, 'x', sizeof body);
            memcpy(body, cases[i].start, strlen(cases[i].start));
            assert_int_equal(decode(SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER, NULL, 0, body,
                                    10240 + strlen(cases[i].start), steps[s], NULL),
                             cases[i].rc);
        }
    memcpy(body, "0\r\n", 3);
    for (size_t off = 3; off + 5 < sizeof body; off += 5)
        memcpy(body + off, "a:b\r\n", 5); /* many short lines are one long trailer */
    assert_int_equal(decode(SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER, NULL, 0, body, 10003, 0, NULL),
                     S3R_E_MALFORMED_TRAILER);
}

static void trailers_are_handed_on(void **state)
{
    static const char body[] = "0\r\nX-Amz-Checksum-CRC32: AAAAAA== \r\nb:2\n\r\n\r\n";
    for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
        struct chunked *c;
        assert_int_equal(decode(SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER, NULL, 0, body, sizeof body - 1,
                                steps[s], &c),
                         0);
        assert_true(chunked_is_done(c));
        assert_int_equal(chunked_trailers(c)->count, 2);
        assert_string_equal(headers_get(chunked_trailers(c), "x-amz-checksum-crc32"), "AAAAAA==");
        chunked_destroy(c);
    }
}

/* The published chunked upload of the S3 API Reference: 65 KiB of 'a' in chunks of 64 KiB. */
static size_t published_body(bool has_trailer, char *out, struct sig_chain *ret_chain)
{
    static const struct sig_credentials aws = {"AKIAIOSFODNN7EXAMPLE",
                                               "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL,
                                               "us-east-1"};
    static const struct query no_query = {0};
    static char data[65536];
    struct headers h = {0}, trailers = {0};
    struct sig_request req = {"PUT", "/examplebucket/chunkObject.txt", &no_query, NULL};
    assert_int_equal(headers_add(&h, "host", "s3.amazonaws.com"), 0);
    assert_int_equal(headers_add(&h, "x-amz-storage-class", "REDUCED_REDUNDANCY"), 0);
    assert_int_equal(headers_add(&h, "content-encoding", "aws-chunked"), 0);
    assert_int_equal(headers_add(&h, "x-amz-decoded-content-length", "66560"), 0);
    if (has_trailer)
        assert_int_equal(headers_add(&h, "x-amz-trailer", "x-amz-checksum-crc32c"), 0);
    else
        assert_int_equal(headers_add(&h, "content-length", "66824"), 0);
    assert_int_equal(sig_sign(&aws, 1369353600, &req,
                              has_trailer ? SIG_STREAMING_TRAILER : SIG_STREAMING, &h, ret_chain),
                     0);
    struct sig_chain chain = *ret_chain;
    struct text t;
    text_init(&t, 70000);
    memset(data, 'a', sizeof data);
    static const size_t lens[] = {65536, 1024, 0};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        chunked_print_head(&t, &chain, data, lens[i]);
        text_add(&t, data, lens[i]);
        if (lens[i])
            text_str(&t, "\r\n");
    }
    assert_int_equal(headers_add(&trailers, "x-amz-checksum-crc32c", "sOO8/Q=="), 0);
    chunked_print_end(&t, &chain, has_trailer ? &trailers : NULL);
    assert_int_equal(text_error(&t), 0);
    size_t len = t.len;
    memcpy(out, t.data, len);
    text_fini(&t);
    headers_fini(&h);
    headers_fini(&trailers);
    return len;
}

static char body[70000];

static void the_published_upload_decodes_at_any_split(void **state)
{
    for (int has_trailer = 0; has_trailer < 2; has_trailer++) {
        struct sig_chain chain;
        size_t len = published_body(has_trailer, body, &chain);
        if (!has_trailer)
            assert_int_equal(len, 66824); /* the page's Content-Length */
        for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
            assert_int_equal(decode(has_trailer ? SIG_PAYLOAD_STREAM_TRAILER : SIG_PAYLOAD_STREAM,
                                    &chain, 66560, body, len, steps[s], NULL),
                             0);
            assert_int_equal(sink.len, 66560);
        }
    }
}

static void a_flipped_byte_anywhere_in_a_signed_body_is_found(void **state)
{
    struct sig_chain chain;
    size_t len = published_body(true, body, &chain);
    for (size_t at = 0; at < len; at++) {
        if (at == 200)
            at = 65536; /* the middle of a chunk is like its ends */
        body[at] ^= 1;
        int rc = decode(SIG_PAYLOAD_STREAM_TRAILER, &chain, 66560, body, len, 0, NULL);
        if (rc == 0)
            print_message("byte %zu\n", at);
        assert_int_not_equal(rc, 0);
        body[at] ^= 1;
    }
    len = published_body(false, body, &chain);
    char *last = body + len - 10; /* in the last chunk's signature */
    *last ^= 1;
    assert_int_equal(decode(SIG_PAYLOAD_STREAM, &chain, 66560, body, len, 0, NULL),
                     S3R_E_SIGNATURE);
}

static void signed_chunks_need_their_signature_in_its_place(void **state)
{
    static const char *const heads[] = {"0\r\n\r\n",
                                        "0;\r\n\r\n",
                                        "0;chunk-signature=ab\r\n\r\n",
                                        "0;chunk-signature:" SIG_EMPTY_SHA256 "\r\n\r\n",
                                        "0;chunk-signature=" SIG_EMPTY_SHA256 "0\r\n\r\n",
                                        "1000001;chunk-signature=" SIG_EMPTY_SHA256 "\r\n"};
    struct sig_chain chain;
    published_body(false, body, &chain);
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        assert_int_equal(decode(SIG_PAYLOAD_STREAM, &chain, UINT64_C(1) << 40, heads[i],
                                strlen(heads[i]), 0, NULL),
                         S3R_E_INVALID_REQUEST);
}

static void replace_rest(char *at, const char *with)
{
    memcpy(at, with, strlen(with) + 1);
}

static void a_signed_trailer_needs_its_signature(void **state)
{
    struct sig_chain chain;
    size_t len = published_body(true, body, &chain);
    body[len] = '\0';
    char *line = strstr(body, "x-amz-trailer-signature");
    replace_rest(line, "\r\n");
    assert_int_equal(decode(SIG_PAYLOAD_STREAM_TRAILER, &chain, 66560, body, strlen(body), 0, NULL),
                     S3R_E_MALFORMED_TRAILER);
    replace_rest(line, "x-amz-trailer-signature:" SIG_EMPTY_SHA256 "\r\n\r\n");
    assert_int_equal(decode(SIG_PAYLOAD_STREAM_TRAILER, &chain, 66560, body, strlen(body), 0, NULL),
                     S3R_E_SIGNATURE);
    replace_rest(line, "x-amz-trailer-signature:" SIG_EMPTY_SHA256 "\r\na:b\r\n\r\n");
    assert_int_equal(decode(SIG_PAYLOAD_STREAM_TRAILER, &chain, 66560, body, strlen(body), 0, NULL),
                     S3R_E_MALFORMED_TRAILER);
}

static int refuse(void *arg, const void *bytes, size_t len)
{
    return S3R_E_STORE_FULL;
}

static void what_the_sink_says_ends_the_decoding(void **state)
{
    struct chunked *c;
    assert_int_equal(chunked_create(SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER, NULL, 5, &c), 0);
    assert_int_equal(chunked_feed(c, "5\r\nhel", 6, NULL, refuse, NULL), S3R_E_STORE_FULL);
    assert_int_equal(chunked_feed(c, "lo", 2, NULL, collect, &sink), S3R_E_STORE_FULL);
    assert_int_equal(chunked_finish(c, NULL), S3R_E_STORE_FULL);
    chunked_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_bodies_decode_at_any_split),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(trailers_are_handed_on),
        cmocka_unit_test(the_published_upload_decodes_at_any_split),
        cmocka_unit_test(a_flipped_byte_anywhere_in_a_signed_body_is_found),
        cmocka_unit_test(signed_chunks_need_their_signature_in_its_place),
        cmocka_unit_test(a_signed_trailer_needs_its_signature),
        cmocka_unit_test(what_the_sink_says_ends_the_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
