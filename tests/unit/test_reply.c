/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of replies to requests with a token, as tables. */
#include "cm.h"

#include "client/reply.h"

#include <string.h>

#define LEN 1000
#define CRC UINT64_C(0x0123456789abcdef) /* ASNFZ4mrze8= */

struct row {
    const char *name;
    int status;
    const char *headers[8]; /* name, value, ... */
    const char *s3_code;
    uint64_t body_len;
    enum reply_verdict verdict;
    enum client_reason reason;
    uint64_t moved;
    bool is_rail_at_fault, may_other_rail;
};

static void fill(const struct row *row, struct http_reply *reply)
{
    *reply = (struct http_reply){.status = row->status, .body_len = row->body_len};
    for (size_t i = 0; i + 1 < ARRAY_LEN(row->headers) && row->headers[i] != NULL; i += 2)
        assert_int_equal(headers_add(&reply->headers, row->headers[i], row->headers[i + 1]), 0);
}

static void judge_rows(const struct row *rows, size_t count, const struct reply_question *q)
{
    for (size_t i = 0; i < count; i++) {
        struct http_reply reply;
        struct reply_judgement j;
        fill(&rows[i], &reply);
        reply_judge(q, &reply, rows[i].s3_code != NULL ? rows[i].s3_code : "", &j);
        if (j.verdict != rows[i].verdict || j.reason != rows[i].reason)
            fail_msg("%s: verdict %d, reason %s (%s)", rows[i].name, j.verdict,
                     client_reason_name(j.reason), j.why);
        if (j.verdict == REPLY_MOVED)
            assert_int_equal(j.moved, rows[i].moved);
        if (j.is_rail_at_fault != rows[i].is_rail_at_fault ||
            j.may_other_rail != rows[i].may_other_rail)
            fail_msg("%s: the rail is %sat fault", rows[i].name, j.is_rail_at_fault ? "" : "not ");
        http_reply_fini(&reply);
    }
}

#define REPLY(v) "x-amz-rdma-reply", v
#define COUNT(v) "x-amz-rdma-bytes-transferred", v
#define ETAG "etag", "\"0123456789abcdef0123456789abcdef-1\""
#define EMPTY "etag", "\"d41d8cd98f00b204e9800998ecf8427e\""

static void a_whole_get_is_judged(void **state)
{
    static const struct row rows[] = {
        {.name = "moved", .status = 200, .headers = {REPLY("200"), COUNT("1000")}, .moved = 1000},
        {.name = "a shorter object",
         .status = 200,
         .headers = {REPLY("200"), COUNT("7")},
         .moved = 7},
        {.name = "an empty one", .status = 200, .headers = {REPLY("200"), COUNT("0")}},
        {.name = "peer's token",
         .status = 200,
         .headers = {REPLY("200:aa"), COUNT("7")},
         .moved = 7},
        {.name = "204", .status = 200, .headers = {REPLY("204"), COUNT("7")}, .moved = 7},
        {.name = "short name",
         .status = 200,
         .headers = {REPLY("200"), "x-amz-rdma-bytes", "7"},
         .moved = 7},
        {.name = "one too many",
         .status = 200,
         .headers = {REPLY("200"), COUNT("1001")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "no count",
         .status = 200,
         .headers = {REPLY("200")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "two counts",
         .status = 200,
         .headers = {REPLY("200"), COUNT("7"), COUNT("7")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "a signed count",
         .status = 200,
         .headers = {REPLY("200"), COUNT("+7")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "a body",
         .status = 200,
         .headers = {REPLY("200"), COUNT("7")},
         .body_len = 7,
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "no reply header",
         .status = 200,
         .headers = {COUNT("7")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_IGNORED},
        {.name = "600",
         .status = 200,
         .headers = {REPLY("600"), COUNT("7")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "201",
         .status = 201,
         .headers = {REPLY("200"), COUNT("7")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "declined in a 200",
         .status = 200,
         .headers = {REPLY("501")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_DECLINED,
         .may_other_rail = true},
        {.name = "declined",
         .status = 501,
         .headers = {REPLY("501")},
         .s3_code = "NotImplemented",
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_DECLINED,
         .may_other_rail = true},
        {.name = "failed",
         .status = 503,
         .headers = {NULL},
         .s3_code = "RDMATransferError",
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_FAILED,
         .is_rail_at_fault = true,
         .may_other_rail = true},
        {.name = "busy",
         .status = 503,
         .headers = {NULL},
         .s3_code = "SlowDown",
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_SERVER},
        {.name = "bounds",
         .status = 400,
         .headers = {NULL},
         .s3_code = "InvalidRequest",
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_REFUSED},
        {.name = "not found",
         .status = 404,
         .headers = {NULL},
         .s3_code = "NoSuchKey",
         .verdict = REPLY_FINAL},
        {.name = "not found, with a reply",
         .status = 404,
         .headers = {REPLY("404")},
         .s3_code = "",
         .verdict = REPLY_FINAL},
        {.name = "denied",
         .status = 403,
         .headers = {NULL},
         .s3_code = "AccessDenied",
         .verdict = REPLY_FINAL},
        {.name = "not modified", .status = 304, .headers = {NULL}, .verdict = REPLY_FINAL},
        {.name = "moved elsewhere",
         .status = 301,
         .headers = {NULL},
         .s3_code = "PermanentRedirect",
         .verdict = REPLY_FINAL},
        {.name = "a bad name",
         .status = 400,
         .headers = {NULL},
         .s3_code = "InvalidBucketName",
         .verdict = REPLY_FINAL},
    };
    const struct reply_question q = {.window_len = LEN};
    judge_rows(rows, ARRAY_LEN(rows), &q);
}

static void a_ranged_get_is_judged(void **state)
{
    static const struct row rows[] = {
        {.name = "206 and 206",
         .status = 206,
         .headers = {REPLY("206"), COUNT("1000"), "content-range", "bytes 50-1049/5000"},
         .moved = 1000},
        {.name = "cut at the end",
         .status = 206,
         .headers = {REPLY("206"), COUNT("10"), "content-range", "bytes 50-59/60"},
         .moved = 10},
        {.name = "without Content-Range",
         .status = 206,
         .headers = {REPLY("206"), COUNT("1000")},
         .moved = 1000},
        {.name = "without a count",
         .status = 206,
         .headers = {REPLY("206"), "content-range", "bytes 50-59/60"},
         .moved = 10},
        {.name = "other bytes",
         .status = 206,
         .headers = {REPLY("206"), COUNT("10"), "content-range", "bytes 0-9/60"},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "two numbers",
         .status = 206,
         .headers = {REPLY("206"), COUNT("11"), "content-range", "bytes 50-59/60"},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "the whole",
         .status = 200,
         .headers = {REPLY("200"), COUNT("1000")},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "outside",
         .status = 416,
         .headers = {NULL},
         .s3_code = "InvalidRange",
         .verdict = REPLY_FINAL},
    };
    const struct reply_question q = {.is_ranged = true, .off = 50, .window_len = LEN};
    judge_rows(rows, ARRAY_LEN(rows), &q);
}

static void a_put_is_judged(void **state)
{
    static const struct row rows[] = {
        {.name = "moved",
         .status = 200,
         .headers = {REPLY("200"), COUNT("1000"), ETAG},
         .moved = LEN},
        {.name = "checksum back",
         .status = 200,
         .headers = {REPLY("200"), "x-amz-checksum-crc64nvme", "ASNFZ4mrze8="},
         .moved = LEN},
        {.name = "AIStor", .status = 200, .headers = {ETAG}, .moved = LEN},
        {.name = "another checksum",
         .status = 200,
         .headers = {REPLY("200"), "x-amz-checksum-crc64nvme", "AAAAAAAAAAA="},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "a malformed checksum",
         .status = 200,
         .headers = {REPLY("200"), "x-amz-checksum-crc64nvme", "ASNFZ4mrze9="},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "stored nothing",
         .status = 200,
         .headers = {EMPTY},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_IGNORED},
        {.name = "stored nothing, says 200",
         .status = 200,
         .headers = {REPLY("200"), EMPTY},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_IGNORED},
        {.name = "neither",
         .status = 200,
         .headers = {NULL},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_IGNORED},
        {.name = "fewer",
         .status = 200,
         .headers = {REPLY("200"), COUNT("999"), ETAG},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_BAD_REPLY},
        {.name = "checked nothing",
         .status = 400,
         .headers = {NULL},
         .s3_code = "BadDigest",
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_REFUSED},
        {.name = "full",
         .status = 507,
         .headers = {NULL},
         .s3_code = "XMinioStorageFull",
         .verdict = REPLY_FINAL},
        {.name = "exists",
         .status = 412,
         .headers = {NULL},
         .s3_code = "PreconditionFailed",
         .verdict = REPLY_FINAL},
    };
    const struct reply_question q = {.is_put = true,
                                     .has_checksum = true,
                                     .crc64 = CRC,
                                     .window_len = LEN};
    judge_rows(rows, ARRAY_LEN(rows), &q);
}

static void a_put_without_checksum_needs_the_reply_header(void **state)
{
    static const struct row rows[] = {
        {.name = "AIStor",
         .status = 200,
         .headers = {ETAG},
         .verdict = REPLY_ASK_AGAIN,
         .reason = CLIENT_REASON_IGNORED},
        {.name = "with it", .status = 200, .headers = {REPLY("200"), ETAG}, .moved = LEN},
    };
    const struct reply_question q = {.is_put = true, .window_len = LEN};
    judge_rows(rows, ARRAY_LEN(rows), &q);
}

static void only_a_plain_object_in_a_decline_is_taken_from_the_body(void **state)
{
    static const struct {
        int status;
        const char *headers[6];
        bool is_ranged, is_put, is_object;
    } rows[] = {
        {.status = 200, .headers = {REPLY("501")}, .is_object = true},
        {.status = 200, .headers = {NULL}, .is_object = true},
        {.status = 200, .headers = {REPLY("200")}},
        {.status = 200, .headers = {REPLY("x")}},
        {.status = 200, .headers = {REPLY("501"), "content-type", "application/xml"}},
        {.status = 200, .headers = {REPLY("501"), "content-type", "text/xml; charset=utf-8"}},
        {.status = 501, .headers = {REPLY("501")}},
        {.status = 206, .headers = {REPLY("501")}},
        {.status = 206,
         .headers = {REPLY("501"), "content-range", "bytes 50-59/60"},
         .is_ranged = true,
         .is_object = true},
        {.status = 206,
         .headers = {REPLY("501"), "content-range", "bytes 51-59/60"},
         .is_ranged = true},
        {.status = 200, .headers = {REPLY("501")}, .is_ranged = true},
        {.status = 200, .headers = {REPLY("501")}, .is_put = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct row row = {.status = rows[i].status};
        memcpy(row.headers, rows[i].headers, sizeof(rows[i].headers));
        const struct reply_question q = {.is_put = rows[i].is_put,
                                         .is_ranged = rows[i].is_ranged,
                                         .off = rows[i].is_ranged ? 50 : 0,
                                         .window_len = LEN};
        struct http_reply reply;
        fill(&row, &reply);
        if (reply_body_is_object(&q, &reply) != rows[i].is_object)
            fail_msg("row %zu", i);
        http_reply_fini(&reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_get_is_judged),
        cmocka_unit_test(a_ranged_get_is_judged),
        cmocka_unit_test(a_put_is_judged),
        cmocka_unit_test(a_put_without_checksum_needs_the_reply_header),
        cmocka_unit_test(only_a_plain_object_in_a_decline_is_taken_from_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
