/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/text.h"
#include "s3/xml.h"
#include "s3/xml_read.h"

#include <stdlib.h>
#include <string.h>

static void text_is_always_valid_xml_and_comes_back_where_xml_can_carry_it(void **state)
{
    static const struct {
        const char *raw, *back; /* NULL: unchanged */
    } cases[] = {
        {"plain", NULL},
        {"a&b<c>\"d'", NULL},
        {"]]>", NULL},
        {"a\r\nb\tc", NULL},
        {" a ", NULL},
        {"\xe6\x97\xa5\xf0\x9f\x98\x80", NULL},
        {"a\x01"
         "b\x1f",
         "a\xef\xbf\xbd"
         "b\xef\xbf\xbd"},
        {"\xef\xbf\xbe", "\xef\xbf\xbd"},                         /* U+FFFE */
        {"\xff\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* not UTF-8 */
        {"&amp;", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct text t;
        struct xml_tree *tree;
        text_init(&t, 1000);
        xml_root(&t, "Root");
        xml_str(&t, "Key", cases[i].raw);
        xml_close(&t, "Root");
        assert_int_equal(xml_tree_parse(t.data, t.len, NULL, &tree), 0);
        assert_string_equal(xml_child_text(xml_tree_root(tree), "Key"),
                            cases[i].back ? cases[i].back : cases[i].raw);
        xml_tree_destroy(tree);
        text_fini(&t);
    }
}

static void listed_keys_can_be_percent_encoded(void **state)
{
    struct text t;
    text_init(&t, 1000);
    xml_key(&t, "Key", "a/b c+\x01&", 8, true);
    xml_key(&t, "Key", "a&b", 3, false);
    xml_u64(&t, "Size", UINT64_MAX);
    xml_bool(&t, "IsTruncated", false);
    xml_etag(&t, "ETag", "abc-1");
    assert_string_equal(text_cstr(&t), "<Key>a/b%20c%2B%01%26</Key><Key>a&amp;b</Key>"
                                       "<Size>18446744073709551615</Size>"
                                       "<IsTruncated>false</IsTruncated>"
                                       "<ETag>&quot;abc-1&quot;</ETag>");
    text_fini(&t);
}

static void errors_name_code_resource_and_request(void **state)
{
    static const struct xml_field extra[] = {{"BucketName", "b"}, {"Key", "a&b<c>\"'"}};
    struct diag diag = {"no <such> key"};
    struct text t;
    struct xml_tree *tree;
    text_init(&t, 1000);
    xml_error(&t, S3R_E_NO_SUCH_KEY, &diag, "/b/a&b<c>\"'", "R1", extra, ARRAY_LEN(extra));
    assert_int_equal(xml_tree_parse(t.data, t.len, NULL, &tree), 0);
    const struct xml_node *root = xml_tree_root(tree);
    assert_string_equal(root->name, "Error");
    assert_string_equal(xml_child_text(root, "Code"), "NoSuchKey");
    assert_string_equal(xml_child_text(root, "Message"), "no <such> key");
    assert_string_equal(xml_child_text(root, "Resource"), "/b/a&b<c>\"'");
    assert_string_equal(xml_child_text(root, "RequestId"), "R1");
    assert_string_equal(xml_child_text(root, "Key"), "a&b<c>\"'");
    xml_tree_destroy(tree);
    text_fini(&t);
}

static int parse(const char *s)
{
    struct xml_tree *tree = NULL;
    int rc = xml_tree_parse(s, strlen(s), NULL, &tree);
    xml_tree_destroy(tree);
    return rc;
}

#define FOUR(s) s s s s
#define SIXTEEN(s) FOUR(s) FOUR(s) FOUR(s) FOUR(s)

static void documents_that_could_harm_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "   ",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a>&undefined;</a>",
        "<a>&#0;</a>",
        "<a>&#xFFFE;</a>",
        "<a>\x01</a>",
        "<a>\xff</a>",
        "text",
        "<a/>text",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY x \"ha\"><!ENTITY y \"&x;&x;&x;&x;\">]><a>&y;</a>",
        "<!DOCTYPE a [<!ENTITY % p SYSTEM \"http://127.0.0.1:1/\"> %p;]><a/>",
        (SIXTEEN("<a>") "<a/>" SIXTEEN("</a>")),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(parse(bad[i]), S3R_E_MALFORMED_XML);
    static const char *const good[] = {"<a/>", "<?xml version=\"1.0\"?>\n<!-- c --><a x='1'/>\n",
                                       "<p:a xmlns:p='u'>t</p:a>", "<a>&#13;&lt;</a>"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(parse(good[i]), 0);
}

static void documents_are_bounded(void **state)
{
    struct text t;
    struct xml_tree *tree;
    text_init(&t, LIMIT_XML_REPLY_LEN_MAX + 100);
    text_str(&t, "<a>");
    for (size_t i = 0; i < LIMIT_XML_NODES_MAX; i++)
        text_str(&t, "<b/>");
    text_str(&t, "</a>");
    assert_int_equal(xml_tree_parse(t.data, t.len, NULL, &tree), S3R_E_MALFORMED_XML);
    text_reset(&t);
    text_str(&t, "<a>");
    while (t.len < LIMIT_XML_REPLY_LEN_MAX - 4)
        text_char(&t, 'x');
    text_str(&t, "</a>");
    assert_int_equal(xml_tree_parse(t.data, t.len, NULL, &tree), 0);
    assert_int_equal(strlen(xml_tree_root(tree)->text), LIMIT_XML_REPLY_LEN_MAX - 7);
    xml_tree_destroy(tree);
    text_char(&t, '\n');
    assert_int_equal(xml_tree_parse(t.data, t.len, NULL, &tree), S3R_E_MALFORMED_XML);
    text_fini(&t);
}

static void trees_keep_order_names_and_text(void **state)
{
    static const char doc[] =
        "<r xmlns='n'>\n <k>1</k><o>x<![CDATA[<y>]]>&amp;</o>\n<k>2</k><e><f>3</f> </e></r>";
    struct xml_tree *tree;
    assert_int_equal(xml_tree_parse(doc, sizeof doc - 1, NULL, &tree), 0);
    const struct xml_node *root = xml_tree_root(tree), *k = xml_child(root, "k");
    assert_string_equal(root->text, "");
    assert_string_equal(k->text, "1");
    k = xml_next(k, "k");
    assert_string_equal(k->text, "2");
    assert_null(xml_next(k, "k"));
    assert_string_equal(xml_child_text(root, "o"), "x<y>&");
    assert_string_equal(xml_child_text(xml_child(root, "e"), "f"), "3");
    assert_null(xml_child_text(root, "nope"));
    xml_tree_destroy(tree);
}

static void deletes_name_1_to_1000_keys(void **state)
{
    static const struct {
        const char *doc;
        int rc;
    } cases[] = {
        {"<Delete><Object><Key>a</Key></Object></Delete>", 0},
        {"<Delete xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Quiet>true</Quiet>"
         "<Object><Key>a</Key><VersionId>v</VersionId><ETag>\"e\"</ETag></Object></Delete>",
         0},
        {"<Delete/>", S3R_E_MALFORMED_XML},
        {"<Delete><Object/></Delete>", S3R_E_MALFORMED_XML},
        {"<Delete><Object><Key/></Object></Delete>", S3R_E_MALFORMED_XML},
        {"<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>", S3R_E_MALFORMED_XML},
        {"<Delete><Quiet>maybe</Quiet><Object><Key>a</Key></Object></Delete>", S3R_E_MALFORMED_XML},
        {"<Other><Object><Key>a</Key></Object></Other>", S3R_E_MALFORMED_XML},
        {"not xml", S3R_E_MALFORMED_XML},
        {"", S3R_E_MALFORMED_XML},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct delete_request r = {0};
        assert_int_equal(delete_request_parse(cases[i].doc, strlen(cases[i].doc), NULL, &r),
                         cases[i].rc);
        assert_int_equal(r.count, cases[i].rc ? 0 : 1);
        delete_request_fini(&r);
    }
    for (size_t count = 1000; count <= 1001; count++) {
        struct text t;
        struct delete_request r = {0};
        text_init(&t, LIMIT_XML_LEN_MAX);
        text_str(&t, "<Delete>");
        for (size_t i = 0; i < count; i++)
            text_fmt(&t, "<Object><Key>k%zu</Key></Object>", i);
        text_str(&t, "</Delete>");
        assert_int_equal(delete_request_parse(t.data, t.len, NULL, &r),
                         count <= 1000 ? 0 : S3R_E_MALFORMED_XML);
        delete_request_fini(&r);
        text_fini(&t);
    }
}

static void deleted_keys_are_verbatim(void **state)
{
    static const char doc[] = "<Delete><Object><Key>&amp; &lt; &gt; &apos;&#13;&#10;</Key></Object>"
                              "<Object><Key>\xe6\x97\xa5</Key><VersionId>v1</VersionId>"
                              "<ETag>&quot;e&quot;</ETag></Object></Delete>";
    struct delete_request r;
    assert_int_equal(delete_request_parse(doc, sizeof doc - 1, NULL, &r), 0);
    assert_false(r.is_quiet);
    assert_int_equal(r.count, 2);
    assert_string_equal(r.keys[0].key, "& < > '\r\n");
    assert_int_equal(r.keys[0].key_len, 9);
    assert_null(r.keys[0].version);
    assert_string_equal(r.keys[0].etag, "");
    assert_string_equal(r.keys[1].version, "v1");
    assert_string_equal(r.keys[1].etag, "e");
    delete_request_fini(&r);
}

#define PART(n, etag) "<Part><PartNumber>" n "</PartNumber><ETag>" etag "</ETag></Part>"

static void completes_list_parts_in_ascending_order(void **state)
{
    static const struct {
        const char *parts;
        int rc;
        size_t count;
    } cases[] = {
        {PART("1", "\"x\"") PART("5", "&quot;x&quot;") PART("9", "x"), 0, 3},
        {PART("10000", "x"), 0, 1},
        {PART("5", "x") PART("1", "x"), S3R_E_INVALID_PART_ORDER, 0},
        {PART("1", "x") PART("1", "x"), S3R_E_INVALID_PART_ORDER, 0},
        {PART("10001", "x"), S3R_E_INVALID_ARGUMENT, 0},
        {PART("0", "x"), S3R_E_INVALID_ARGUMENT, 0},
        {PART("-1", "x"), S3R_E_INVALID_ARGUMENT, 0},
        {PART("one", "x"), S3R_E_INVALID_ARGUMENT, 0},
        {PART("1", ""), S3R_E_MALFORMED_XML, 0},
        {"", S3R_E_MALFORMED_XML, 0},
        {"<Part><PartNumber>1</PartNumber></Part>", S3R_E_MALFORMED_XML, 0},
        {"<Part><ETag>x</ETag></Part>", S3R_E_MALFORMED_XML, 0},
        {"<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"
         "</Part>",
         0, 1},
        {"<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32>y</ChecksumCRC32></Part>",
         S3R_E_MALFORMED_XML, 0},
        {"<Part><PartNumber>1</PartNumber><ETag>x</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"
         "<ChecksumCRC32C>y/Q5Jg==</ChecksumCRC32C></Part>",
         S3R_E_MALFORMED_XML, 0},
        {"<Part>", S3R_E_MALFORMED_XML, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct complete_request r = {0};
        struct text t;
        text_init(&t, 10000);
        text_fmt(&t, "<CompleteMultipartUpload>%s</CompleteMultipartUpload>", cases[i].parts);
        assert_int_equal(complete_request_parse(t.data, t.len, NULL, &r), cases[i].rc);
        assert_int_equal(r.count, cases[i].count);
        for (size_t p = 0; p < r.count; p++)
            assert_string_equal(r.parts[p].etag, "x");
        complete_request_fini(&r);
        text_fini(&t);
    }
    struct complete_request r = {0};
    assert_int_equal(complete_request_parse("<CompleteMultipartUpload/>", 26, NULL, &r),
                     S3R_E_MALFORMED_XML);
}

static void ten_thousand_parts_with_checksums_fit(void **state)
{
    struct text t;
    struct complete_request r;
    text_init(&t, LIMIT_XML_LEN_MAX);
    text_str(&t, "<CompleteMultipartUpload>");
    for (int i = 1; i <= 10000; i++)
        text_fmt(&t,
                 "<Part><PartNumber>%d</PartNumber><ETag>\"0123456789abcdef0123456789abcdef\""
                 "</ETag><ChecksumSHA256>ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
                 "</ChecksumSHA256></Part>",
                 i);
    text_str(&t, "</CompleteMultipartUpload>");
    assert_int_equal(text_error(&t), 0);
    assert_int_equal(complete_request_parse(t.data, t.len, NULL, &r), 0);
    assert_int_equal(r.count, 10000);
    assert_int_equal(r.parts[9999].number, 10000);
    assert_int_equal(r.parts[9999].checksum.kind, CHECKSUM_SHA256);
    complete_request_fini(&r);
    text_fini(&t);
}

static void buckets_may_be_created_with_and_without_a_location(void **state)
{
    static const struct {
        const char *doc, *location;
        int rc;
    } cases[] = {
        {"", "", 0},
        {"<CreateBucketConfiguration/>", "", 0},
        {"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>"
         "</CreateBucketConfiguration>",
         "eu-west-1", 0},
        {"<CreateBucketConfiguration><LocationConstraint/></CreateBucketConfiguration>", "", 0},
        {"<Other/>", NULL, S3R_E_MALFORMED_XML},
        {"<CreateBucketConfiguration>", NULL, S3R_E_MALFORMED_XML},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char location[LIMIT_REGION_LEN_MAX + 1] = "?";
        assert_int_equal(create_bucket_parse(cases[i].doc, strlen(cases[i].doc), NULL, location),
                         cases[i].rc);
        assert_string_equal(location, cases[i].location ? cases[i].location : "?");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_always_valid_xml_and_comes_back_where_xml_can_carry_it),
        cmocka_unit_test(listed_keys_can_be_percent_encoded),
        cmocka_unit_test(errors_name_code_resource_and_request),
        cmocka_unit_test(documents_that_could_harm_are_refused),
        cmocka_unit_test(documents_are_bounded),
        cmocka_unit_test(trees_keep_order_names_and_text),
        cmocka_unit_test(deletes_name_1_to_1000_keys),
        cmocka_unit_test(deleted_keys_are_verbatim),
        cmocka_unit_test(completes_list_parts_in_ascending_order),
        cmocka_unit_test(ten_thousand_parts_with_checksums_fit),
        cmocka_unit_test(buckets_may_be_created_with_and_without_a_location),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
