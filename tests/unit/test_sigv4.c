/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/hex.h"
#include "s3/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "Signature Calculations for the Authorization Header" and its pages on query parameters, chunked
 * uploads and trailers, Amazon S3 API Reference: one key pair, one date, one region. */
static const struct sig_credentials aws = {"AKIAIOSFODNN7EXAMPLE",
                                           "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL,
                                           "us-east-1"};
#define AWS_TIME 1369353600 /* 20130524T000000Z */
#define AWS_HOST "examplebucket.s3.amazonaws.com"

/* A request that lives in one place. */
struct fixture {
    struct headers headers;
    struct query query;
    struct sig_request req;
};

static void fixture_init(struct fixture *f, const char *method, const char *target,
                         const char *const headers[][2], size_t count)
{
    static char path[2048];
    *f = (struct fixture){.req = {.method = method, .path = path}};
    size_t len = strcspn(target, "?");
    snprintf(path, sizeof path, "%.*s", (int)len, target);
    const char *raw = target[len] ? target + len + 1 : "";
    assert_int_equal(query_parse(raw, strlen(raw), NULL, &f->query), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(headers_add(&f->headers, headers[i][0], headers[i][1]), 0);
    f->req.query = &f->query;
    f->req.headers = &f->headers;
}

static void fixture_fini(struct fixture *f)
{
    headers_fini(&f->headers);
    query_fini(&f->query);
}

static int parse_and_verify(const struct fixture *f, const char *region, int64_t now_s,
                            const char *secret, struct sig_chain *ret_chain)
{
    struct sig_auth auth = {0};
    int rc = sig_parse(&f->req, region, now_s, NULL, &auth);
    if (rc == 0)
        rc = sig_verify(&f->req, &auth, secret, NULL, ret_chain);
    sig_auth_fini(&auth);
    return rc;
}

static const struct {
    const char *what, *method, *target, *hash;
    const char *headers[8][2];
    size_t count;
    const char *signature;
} published[] = {
    {"GET object",
     "GET",
     "/test.txt",
     SIG_EMPTY_SHA256,
     {{"Host", AWS_HOST}, {"Range", "bytes=0-9"}},
     2,
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT object",
     "PUT",
     "/test$file.text",
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     {{"Host", AWS_HOST},
      {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     3,
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET bucket lifecycle",
     "GET",
     "/?lifecycle",
     SIG_EMPTY_SHA256,
     {{"Host", AWS_HOST}},
     1,
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"GET bucket (list objects)",
     "GET",
     "/?max-keys=2&prefix=J",
     SIG_EMPTY_SHA256,
     {{"Host", AWS_HOST}},
     1,
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    {"PUT object in chunks",
     "PUT",
     "/examplebucket/chunkObject.txt",
     SIG_STREAMING,
     {{"Host", "s3.amazonaws.com"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"Content-Encoding", "aws-chunked"},
      {"x-amz-decoded-content-length", "66560"},
      {"Content-Length", "66824"}},
     5,
     "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"},
    {"PUT object in chunks with a trailer",
     "PUT",
     "/examplebucket/chunkObject.txt",
     SIG_STREAMING_TRAILER,
     {{"Host", "s3.amazonaws.com"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"Content-Encoding", "aws-chunked"},
      {"x-amz-decoded-content-length", "66560"},
      {"x-amz-trailer", "x-amz-checksum-crc32c"}},
     5,
     "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"},
};

static void published_examples_sign_and_verify(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(published); i++) {
        struct fixture f;
        fixture_init(&f, published[i].method, published[i].target, published[i].headers,
                     published[i].count);
        assert_int_equal(sig_sign(&aws, AWS_TIME, &f.req, published[i].hash, &f.headers, NULL), 0);
        const char *value = headers_get(&f.headers, "authorization");
        assert_string_equal(strstr(value, "Signature=") + 10, published[i].signature);
        assert_int_equal(parse_and_verify(&f, "us-east-1", AWS_TIME, aws.secret_key, NULL), 0);
        assert_int_equal(parse_and_verify(&f, "us-east-1", AWS_TIME, "another", NULL),
                         S3R_E_SIGNATURE);
        fixture_fini(&f);
    }
}

static void published_presigned_url_signs_and_verifies(void **state)
{
    static const char *const headers[][2] = {{"host", AWS_HOST}};
    struct fixture f, g;
    struct text t;
    text_init(&t, 4096);
    fixture_init(&f, "GET", "/test.txt", headers, 1);
    assert_int_equal(sig_presign(&aws, AWS_TIME, 86400, &f.req, &t), 0);
    assert_string_equal(text_cstr(&t),
                        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE"
                        "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z"
                        "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
                        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
    char target[1024];
    snprintf(target, sizeof target, "/test.txt?%s", text_cstr(&t));
    fixture_init(&g, "GET", target, headers, 1);
    assert_int_equal(parse_and_verify(&g, "us-east-1", AWS_TIME + 86400, aws.secret_key, NULL), 0);
    assert_int_equal(parse_and_verify(&g, "us-east-1", AWS_TIME + 86401, aws.secret_key, NULL),
                     S3R_E_EXPIRED);
    assert_int_equal(parse_and_verify(&g, "us-east-1", AWS_TIME, "another", NULL), S3R_E_SIGNATURE);
    assert_int_equal(sig_presign(&aws, AWS_TIME, 0, &f.req, &t), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(sig_presign(&aws, AWS_TIME, 604801, &f.req, &t), S3R_E_INVALID_ARGUMENT);
    fixture_fini(&f);
    fixture_fini(&g);
    text_fini(&t);
}

/* An older revision of the page printed 63bddb24... for the trailer: that is the value under the
 * label AWS4-HMAC-SHA256-PAYLOAD. Its own text, its later revision and the SDKs say -TRAILER. */
static void published_chunks_continue_the_chain(void **state)
{
    static const struct {
        size_t request; /* of `published` */
        const char *chunks[3], *trailer;
    } cases[] = {
        {4,
         {"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
          "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
          "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"},
         NULL},
        {5,
         {"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
          "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
          "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"},
         "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"},
    };
    static const size_t lens[3] = {65536, 1024, 0};
    char *data = malloc(lens[0]);
    memset(data, 'a', lens[0]);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n = cases[i].request;
        struct fixture f;
        struct sig_chain signing, verifying;
        fixture_init(&f, published[n].method, published[n].target, published[n].headers,
                     published[n].count);
        assert_int_equal(sig_sign(&aws, AWS_TIME, &f.req, published[n].hash, &f.headers, &signing),
                         0);
        assert_int_equal(parse_and_verify(&f, NULL, AWS_TIME, aws.secret_key, &verifying), 0);
        assert_memory_equal(&signing, &verifying, sizeof signing);
        char signature[SIG_HEX_LEN + 1];
        unsigned char sum[SHA256_LEN];
        for (size_t c = 0; c < 3; c++) {
            sha256(data, lens[c], sum);
            sig_chain_chunk(&signing, sum, signature);
            assert_string_equal(signature, cases[i].chunks[c]);
        }
        if (cases[i].trailer) {
            sig_chain_trailer(&signing, "x-amz-checksum-crc32c:sOO8/Q==\n", 31, signature);
            assert_string_equal(signature, cases[i].trailer);
        }
        fixture_fini(&f);
    }
    free(data);
}

static void the_rdma_control_request_has_the_signatures_of_its_protocol(void **state)
{
    static const struct sig_credentials cred = {"AKIDSYNTHETIC0000001",
                                                "syntheticSecretKeyForTestsOnly/0000000000", NULL,
                                                "us-east-1"};
    static const char *const headers[][2] = {
        {"host", "192.0.2.1:9000"},
        {"content-length", "0"},
        {"x-amz-rdma-protocol", "hipobj-rc-v2"},
        {"x-amz-rdma-token", "014523010000000000000000000000ffffc000020a00000000000000000000000000"
                             "00000000000000010000"},
        {"x-amz-rdma-psn", "00ff10"},
        {"x-amz-rdma-cookie", "1a2b3c4d"},
        {"x-amz-rdma-op", "GET"},
        {"x-amz-rdma-target", "/b1/a%20b"},
        {"x-amz-rdma-size", "4096"},
        {"x-amz-rdma-offset", "0"}};
    static const char *const cases[][2] = {
        {SIG_EMPTY_SHA256, "faf5e4cacc7e6093092932fd31e430116b312c20271f5f7fd52eacf9f21e4947"},
        {SIG_UNSIGNED_PAYLOAD, "929b81d05aa95043b8e81aa1bd7eeacf9598d9c11a5bfd59dd689633984143f9"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        fixture_init(&f, "POST", "/.hipobj-rc/prepare", headers, ARRAY_LEN(headers));
        assert_int_equal(sig_sign(&cred, 1767323045, &f.req, cases[i][0], &f.headers, NULL), 0);
        assert_string_equal(strstr(headers_get(&f.headers, "authorization"), "Signature=") + 10,
                            cases[i][1]);
        fixture_fini(&f);
    }
}

/* Each row changes one thing of a good signed request. */
static void a_changed_request_is_refused_with_the_code_of_its_fault(void **state)
{
    static const struct {
        const char *header, *from, *to; /* in that header's value; `to` NULL: remove the header */
        int64_t skew_s;
        int rc;
    } cases[] = {
        {NULL, NULL, NULL, 0, 0},
        {NULL, NULL, NULL, 900, 0},
        {NULL, NULL, NULL, -900, 0},
        {NULL, NULL, NULL, 901, S3R_E_TIME_SKEWED},
        {NULL, NULL, NULL, -901, S3R_E_TIME_SKEWED},
        {"authorization", "AWS4-HMAC-SHA256 Cred", "AWS4-HMAC-SHA256  \t Cred", 0, 0},
        {"authorization", ", ", ",", 0, 0},
        {"authorization", "AWS4-HMAC-SHA256", "AWS", 0, S3R_E_INVALID_REQUEST},
        {"authorization", "AWS4-HMAC-SHA256", "Basic", 0, S3R_E_INVALID_ARGUMENT},
        {"authorization", "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", 0, S3R_E_UNSUPPORTED},
        {"authorization", "Credential=", "Credentials=", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "Signature=", "Credential=", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "Signature=", "Signature=0", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "Signature=", "Extra=1, Signature=", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "/20130524/us-east-1", "/20130524", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "us-east-1", "eu-west-1", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "/s3/", "/iam/", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "aws4_request", "aws5_request", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "20130524", "20130525", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "20130524", "2013-5-24", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "AKIA", "AKIB", 0, 0}, /* who that is, the server looks up */
        {"authorization", "=AKIAIOSFODNN7EXAMPLE/", "=/", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "=host;", "=", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "=host;", "=Host;", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "=host;", "=host;host;", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "=host;range", "=range;host", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "=host;", "=host;;", 0, S3R_E_MALFORMED_AUTH},
        {"authorization", "=host;", "=expect;host;", 0, S3R_E_SIGNATURE},
        {"authorization", ";x-amz-meta-a", "", 0, S3R_E_ACCESS_DENIED},
        {"authorization", ";range;", ";", 0, S3R_E_SIGNATURE},
        {"x-amz-date", "", NULL, 0, S3R_E_ACCESS_DENIED},
        {"x-amz-date", "20130524T000000Z", "yesterday", 0, S3R_E_ACCESS_DENIED},
        {"x-amz-date", "20130524T000000Z", "20130524T000001Z", 0, S3R_E_SIGNATURE},
        {"x-amz-content-sha256", "", NULL, 0, S3R_E_INVALID_REQUEST},
        {"x-amz-content-sha256", "e3b0", "e3b", 0, S3R_E_INVALID_ARGUMENT},
        {"x-amz-content-sha256", SIG_EMPTY_SHA256, "nonsense", 0, S3R_E_INVALID_ARGUMENT},
        {"x-amz-content-sha256", SIG_EMPTY_SHA256, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", 0,
         S3R_E_UNSUPPORTED},
        {"x-amz-content-sha256", SIG_EMPTY_SHA256, SIG_UNSIGNED_PAYLOAD, 0, S3R_E_SIGNATURE},
        {"range", "0-9", "0-8", 0, S3R_E_SIGNATURE},
        {"range", "", NULL, 0, S3R_E_SIGNATURE},
        {"x-amz-meta-a", "one two", "one  \t two", 0, 0}, /* runs of blanks are one */
        {"x-amz-meta-a", "one two", "onetwo", 0, S3R_E_SIGNATURE},
        {"host", AWS_HOST, "other", 0, S3R_E_SIGNATURE},
    };
    static const char *const headers[][2] = {{"Host", AWS_HOST},
                                             {"Range", "bytes=0-9"},
                                             {"x-amz-meta-a", "one two"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        fixture_init(&f, "GET", "/test.txt", headers, ARRAY_LEN(headers));
        assert_int_equal(sig_sign(&aws, AWS_TIME, &f.req, SIG_EMPTY_SHA256, &f.headers, NULL), 0);
        if (cases[i].header && cases[i].to) {
            char changed[1024];
            const char *value = headers_get(&f.headers, cases[i].header);
            const char *at = strstr(value, cases[i].from);
            snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - value), value, cases[i].to,
                     at + strlen(cases[i].from));
            assert_int_equal(headers_set(&f.headers, cases[i].header, changed), 0);
        } else if (cases[i].header) {
            headers_remove(&f.headers, cases[i].header);
        }
        int rc =
            parse_and_verify(&f, "us-east-1", AWS_TIME + cases[i].skew_s, aws.secret_key, NULL);
        if (rc != cases[i].rc)
            print_message("row %zu\n", i);
        assert_int_equal(rc, cases[i].rc);
        fixture_fini(&f);
    }
}

static void the_message_of_a_wrong_region_names_the_right_one(void **state)
{
    static const char *const headers[][2] = {{"host", AWS_HOST}};
    struct fixture f;
    struct diag diag = {0};
    struct sig_auth auth;
    fixture_init(&f, "GET", "/", headers, 1);
    assert_int_equal(sig_sign(&aws, AWS_TIME, &f.req, SIG_EMPTY_SHA256, &f.headers, NULL), 0);
    assert_int_equal(sig_parse(&f.req, "eu-west-1", AWS_TIME, &diag, &auth), S3R_E_MALFORMED_AUTH);
    assert_non_null(strstr(diag.text, "'us-east-1'"));
    assert_non_null(strstr(diag.text, "'eu-west-1'"));
    assert_int_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), 0);
    assert_string_equal(auth.region, "us-east-1");
    assert_string_equal(auth.access_key, aws.access_key);
    sig_auth_fini(&auth);
    fixture_fini(&f);
}

/* Signs `as_signed`, sends `as_sent`. */
static int verify_other_target(const char *as_signed, const char *as_sent)
{
    static const char *const headers[][2] = {{"host", AWS_HOST}};
    struct fixture f, g;
    fixture_init(&f, "GET", as_signed, headers, 1);
    assert_int_equal(sig_sign(&aws, AWS_TIME, &f.req, SIG_EMPTY_SHA256, &f.headers, NULL), 0);
    fixture_init(&g, "GET", as_sent, NULL, 0);
    g.req.headers = &f.headers;
    int rc = parse_and_verify(&g, NULL, AWS_TIME, aws.secret_key, NULL);
    fixture_fini(&f);
    fixture_fini(&g);
    return rc;
}

static void one_name_has_one_signature_however_it_is_written(void **state)
{
    static const struct {
        const char *as_signed, *as_sent;
        int rc;
    } cases[] = {
        {"/b/a~b", "/b/a%7Eb", 0},
        {"/b/a%7eb", "/b/a~b", 0},
        {"/b/%e6%97%a5", "/b/%E6%97%A5", 0},
        {"/b/a%2Bb", "/b/a+b", 0},
        {"/b/a%20b", "/b/a+b", S3R_E_SIGNATURE},
        {"/b/a/../c", "/b/c", S3R_E_SIGNATURE},
        {"/b/a//c", "/b/a/c", S3R_E_SIGNATURE},
        {"/b/a%252Fc", "/b/a%2Fc", S3R_E_SIGNATURE},
        {"/b?acl", "/b?acl=", 0},
        {"/b?prefix=a%20b", "/b?prefix=a+b", 0},
        {"/b?b=2&b=1&a-b=1&a=1", "/b?a=1&a-b=1&b=1&b=2", 0},
        {"/b?prefix=", "/b?prefix", 0},
        {"/b?prefix=a", "/b?prefix=b", S3R_E_SIGNATURE},
        {"/b?prefix=a", "/b?prefix=a&x", S3R_E_SIGNATURE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(verify_other_target(cases[i].as_signed, cases[i].as_sent), cases[i].rc);
}

static void hop_headers_may_be_signed_and_content_type_may_not(void **state)
{
    /* signed by hand: our own signer leaves these out */
    static const char *const headers[][2] = {{"host", AWS_HOST},
                                             {"expect", "100-continue"},
                                             {"connection", "keep-alive"},
                                             {"user-agent", "x  y"},
                                             {"content-type", "a/b"},
                                             {"x-amz-date", "20130524T000000Z"},
                                             {"x-amz-content-sha256", SIG_UNSIGNED_PAYLOAD}};
    static const char canonical[] =
        "GET\n/\n\nconnection:keep-alive\nexpect:100-continue\nhost:" AWS_HOST
        "\nuser-agent:x y\nx-amz-date:20130524T000000Z\n\n"
        "connection;expect;host;user-agent;x-amz-date\n"
        "UNSIGNED-PAYLOAD";
    struct fixture f;
    unsigned char key[SHA256_LEN], next[SHA256_LEN];
    char hash[SIG_HEX_LEN + 1], to_sign[256], signature[SIG_HEX_LEN + 1], value[512];
    static const char *const scope[] = {"20130524", "us-east-1", "s3", "aws4_request"};
    fixture_init(&f, "GET", "/", headers, ARRAY_LEN(headers));
    snprintf(value, sizeof value, "AWS4%s", aws.secret_key);
    hmac_sha256(value, strlen(value), scope[0], 8, key);
    for (size_t i = 1; i < ARRAY_LEN(scope); i++) {
        hmac_sha256(key, sizeof key, scope[i], strlen(scope[i]), next);
        memcpy(key, next, sizeof key);
    }
    sha256_hex(canonical, strlen(canonical), hash);
    snprintf(to_sign, sizeof to_sign,
             "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n%s", hash);
    hmac_sha256(key, sizeof key, to_sign, strlen(to_sign), next);
    hex_encode(next, sizeof next, signature);
    snprintf(value, sizeof value,
             "AWS4-HMAC-SHA256 Credential=%s/20130524/us-east-1/s3/aws4_request,SignedHeaders="
             "connection;expect;host;user-agent;x-amz-date,Signature=%s",
             aws.access_key, signature);
    assert_int_equal(headers_add(&f.headers, "authorization", value), 0);
    assert_int_equal(parse_and_verify(&f, "us-east-1", AWS_TIME, aws.secret_key, NULL), 0);
    /* the Date header stands in, in its own form */
    headers_remove(&f.headers, "x-amz-date");
    assert_int_equal(headers_add(&f.headers, "date", "Fri, 24 May 2013 00:00:00 GMT"), 0);
    struct sig_auth auth;
    assert_int_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), 0);
    assert_string_equal(auth.time, "20130524T000000Z");
    sig_auth_fini(&auth);
    fixture_fini(&f);
}

static void an_unsigned_rdma_token_is_refused(void **state)
{
    static const char *const headers[][2] = {{"host", AWS_HOST}};
    struct fixture f;
    struct sig_auth auth;
    fixture_init(&f, "GET", "/", headers, 1);
    assert_int_equal(sig_sign(&aws, AWS_TIME, &f.req, SIG_EMPTY_SHA256, &f.headers, NULL), 0);
    assert_int_equal(headers_add(&f.headers, "x-amz-rdma-token", "x"), 0);
    assert_int_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), 0);
    assert_false(sig_header_is_signed(&auth, "x-amz-rdma-token"));
    assert_true(sig_header_is_signed(&auth, "host"));
    assert_false(sig_header_is_signed(&auth, "hos"));
    assert_string_equal(sig_unsigned_header(&auth, &f.headers), "x-amz-rdma-token");
    assert_int_equal(sig_verify(&f.req, &auth, aws.secret_key, NULL, NULL), S3R_E_ACCESS_DENIED);
    sig_auth_fini(&auth);
    fixture_fini(&f);
}

static void presigned_requests_are_judged_by_their_parameters(void **state)
{
    static const struct {
        const char *name, *value; /* NULL: left out */
        int64_t now_s;
        int rc; /* of the parsing; the signature is another matter */
    } cases[] = {
        {"X-Amz-Expires", "1", 0, 0},
        {"X-Amz-Expires", "1", 2, S3R_E_EXPIRED},
        {"X-Amz-Expires", "604800", 604800, 0},
        {"X-Amz-Expires", "604801", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Expires", "0", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Expires", "-1", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Expires", "abc", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Expires", NULL, 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Expires", "172800", 86400, 0},
        {"X-Amz-Date", "20130524T000000Z", -1200, S3R_E_EXPIRED}, /* not valid yet */
        {"X-Amz-Date", "20130524T000000Z", -900, 0},
        {"X-Amz-Date", "2013-05-24", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Algorithm", "AWS4-HMAC-SHA1", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Algorithm", "AWS4-ECDSA-P256-SHA256", 0, S3R_E_UNSUPPORTED},
        {"X-Amz-SignedHeaders", "range", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-SignedHeaders", "", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Signature", "12", 0, S3R_E_SIGNATURE},
        {"X-Amz-Signature", NULL, 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Credential", "a/20130524/eu-west-1/s3/aws4_request", 0, S3R_E_MALFORMED_QUERY_AUTH},
        {"X-Amz-Credential", "a/b/20130524/us-east-1/s3/aws4_request", 0, 0},
        {"X-Amz-Content-Sha256", "nonsense", 0, S3R_E_INVALID_ARGUMENT},
    };
    static const char *const defaults[][2] = {{"X-Amz-Algorithm", "AWS4-HMAC-SHA256"},
                                              {"X-Amz-Credential",
                                               "a/20130524/us-east-1/s3/aws4_request"},
                                              {"X-Amz-Date", "20130524T000000Z"},
                                              {"X-Amz-Expires", "1000"},
                                              {"X-Amz-SignedHeaders", "host"},
                                              {"X-Amz-Signature", SIG_EMPTY_SHA256}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        struct sig_auth auth = {0};
        fixture_init(&f, "GET", "/k", NULL, 0);
        for (size_t p = 0; p < ARRAY_LEN(defaults); p++)
            if (strcmp(defaults[p][0], cases[i].name) != 0)
                assert_int_equal(query_add(&f.query, defaults[p][0], defaults[p][1]), 0);
        if (cases[i].value)
            assert_int_equal(query_add(&f.query, cases[i].name, cases[i].value), 0);
        int rc = sig_parse(&f.req, "us-east-1", AWS_TIME + cases[i].now_s, NULL, &auth);
        if (rc != cases[i].rc)
            print_message("row %zu\n", i);
        assert_int_equal(rc, cases[i].rc);
        assert_int_equal(auth.how, rc ? SIG_ANONYMOUS : SIG_PRESIGNED);
        sig_auth_fini(&auth);
        /* a parameter that is there twice is no parameter */
        assert_int_equal(query_add(&f.query, "X-Amz-Date", "20130524T000000Z"), 0);
        assert_int_not_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), 0);
        fixture_fini(&f);
    }
}

static void anonymous_mixed_and_old_requests_are_told_apart(void **state)
{
    static const struct {
        const char *target, *authorization, *hash;
        int rc;
    } cases[] = {
        {"/", NULL, NULL, 0},
        {"/", NULL, SIG_UNSIGNED_PAYLOAD, 0},
        {"/", NULL, SIG_STREAMING_UNSIGNED_TRAILER, 0},
        {"/", NULL, SIG_STREAMING, S3R_E_INVALID_REQUEST},
        {"/", NULL, SIG_STREAMING_TRAILER, S3R_E_INVALID_REQUEST},
        {"/", NULL, "x", S3R_E_INVALID_ARGUMENT},
        {"/", "", NULL, S3R_E_INVALID_ARGUMENT},
        {"/?AWSAccessKeyId=a&Signature=b&Expires=1", NULL, NULL, S3R_E_INVALID_REQUEST},
        {"/?X-Amz-Algorithm=AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 x", NULL, S3R_E_INVALID_ARGUMENT},
        {"/", "AWS a:b", NULL, S3R_E_INVALID_REQUEST},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        struct sig_auth auth = {0};
        fixture_init(&f, "PUT", cases[i].target, NULL, 0);
        if (cases[i].authorization)
            assert_int_equal(headers_add(&f.headers, "authorization", cases[i].authorization), 0);
        if (cases[i].hash)
            assert_int_equal(headers_add(&f.headers, "x-amz-content-sha256", cases[i].hash), 0);
        assert_int_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), cases[i].rc);
        if (cases[i].rc == 0)
            assert_int_equal(sig_verify(&f.req, &auth, "", NULL, NULL), S3R_E_ACCESS_DENIED);
        sig_auth_fini(&auth);
        fixture_fini(&f);
    }
    struct fixture f;
    struct sig_auth auth;
    fixture_init(&f, "GET", "/", NULL, 0);
    assert_int_equal(headers_add(&f.headers, "authorization", "AWS4-HMAC-SHA256 x"), 0);
    assert_int_equal(headers_add(&f.headers, "authorization", "AWS4-HMAC-SHA256 x"), 0);
    assert_int_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), S3R_E_INVALID_ARGUMENT);
    fixture_fini(&f);
}

static void five_hundred_signed_names_are_no_trouble(void **state)
{
    static char value[8192];
    struct fixture f;
    struct sig_auth auth;
    size_t len = (size_t)snprintf(value, sizeof value,
                                  "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request,"
                                  "Signature=" SIG_EMPTY_SHA256 ",SignedHeaders=host");
    for (int i = 0; i < 500; i++)
        len += (size_t)snprintf(value + len, sizeof value - len, ";x%04d", i);
    fixture_init(&f, "GET", "/", NULL, 0);
    assert_int_equal(headers_add(&f.headers, "authorization", value), 0);
    assert_int_equal(headers_add(&f.headers, "host", "h"), 0);
    assert_int_equal(headers_add(&f.headers, "x-amz-date", "20130524T000000Z"), 0);
    assert_int_equal(headers_add(&f.headers, "x-amz-content-sha256", SIG_EMPTY_SHA256), 0);
    assert_int_equal(sig_parse(&f.req, NULL, AWS_TIME, NULL, &auth), 0);
    assert_true(sig_header_is_signed(&auth, "x0499"));
    headers_remove(&f.headers, "x-amz-date");
    assert_int_equal(sig_verify(&f.req, &auth, "s", NULL, NULL), S3R_E_SIGNATURE);
    sig_auth_fini(&auth);
    fixture_fini(&f);
}

static void a_presigned_query_lends_headers_but_no_token(void **state)
{
    static const char *const headers[][2] = {{"x-amz-checksum-sha1", "mine"}};
    struct fixture f;
    fixture_init(&f, "PUT",
                 "/?X-Amz-Date=1&x-amz-checksum-crc32=AAAAAA%3D%3D&X-Amz-Checksum-Sha1=theirs"
                 "&x-amz-rdma-token=t&prefix=p&X-Amz-Meta-A=1",
                 headers, 1);
    assert_int_equal(sig_adopt_query(&f.query, &f.headers), 0);
    assert_int_equal(f.headers.count, 3);
    assert_string_equal(headers_get(&f.headers, "x-amz-checksum-crc32"), "AAAAAA==");
    assert_string_equal(headers_get(&f.headers, "x-amz-checksum-sha1"), "mine");
    assert_string_equal(headers_get(&f.headers, "x-amz-meta-a"), "1");
    fixture_fini(&f);
    fixture_init(&f, "PUT", "/?x-amz-meta-a=%0d%0ax:y", NULL, 0);
    assert_int_equal(sig_adopt_query(&f.query, &f.headers), S3R_E_INVALID_REQUEST);
    fixture_fini(&f);
}

static void a_session_token_is_sent_and_signed(void **state)
{
    struct sig_credentials cred = aws;
    static const char *const headers[][2] = {{"host", AWS_HOST}};
    struct fixture f;
    struct text t;
    cred.session_token = "to/ken";
    text_init(&t, 4096);
    fixture_init(&f, "GET", "/", headers, 1);
    assert_int_equal(sig_presign(&cred, AWS_TIME, 60, &f.req, &t), 0);
    assert_non_null(strstr(text_cstr(&t), "X-Amz-Security-Token=to%2Fken"));
    assert_int_equal(sig_sign(&cred, AWS_TIME, &f.req, SIG_EMPTY_SHA256, &f.headers, NULL), 0);
    assert_int_equal(parse_and_verify(&f, NULL, AWS_TIME, cred.secret_key, NULL), 0);
    assert_int_equal(headers_set(&f.headers, "x-amz-security-token", "other"), 0);
    assert_int_equal(parse_and_verify(&f, NULL, AWS_TIME, cred.secret_key, NULL), S3R_E_SIGNATURE);
    fixture_fini(&f);
    text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_examples_sign_and_verify),
        cmocka_unit_test(published_presigned_url_signs_and_verifies),
        cmocka_unit_test(published_chunks_continue_the_chain),
        cmocka_unit_test(the_rdma_control_request_has_the_signatures_of_its_protocol),
        cmocka_unit_test(a_changed_request_is_refused_with_the_code_of_its_fault),
        cmocka_unit_test(the_message_of_a_wrong_region_names_the_right_one),
        cmocka_unit_test(one_name_has_one_signature_however_it_is_written),
        cmocka_unit_test(hop_headers_may_be_signed_and_content_type_may_not),
        cmocka_unit_test(an_unsigned_rdma_token_is_refused),
        cmocka_unit_test(presigned_requests_are_judged_by_their_parameters),
        cmocka_unit_test(anonymous_mixed_and_old_requests_are_told_apart),
        cmocka_unit_test(five_hundred_signed_names_are_no_trouble),
        cmocka_unit_test(a_presigned_query_lends_headers_but_no_token),
        cmocka_unit_test(a_session_token_is_sent_and_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
