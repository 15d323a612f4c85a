/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/crypto.h"
#include "rdma/token.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DC1 "00007f5a1c400000:00400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28"
#define DC2 "0000560b3e7d9000:ffffffff:80001234:0017:00a0b1:1:fe800000000000000002c90300fe1a2b"
#define DC3 "0000000000001000:00000001:00000000:ffff:ffffff:0:00000000000000000000000000000000"
#define DC4 DC1 ":00007f5a1c401000:0000000000001000"
#define RC1                                                                                        \
    "014523010000000000000000000000ffffc000020a000000000000000000000000000000000000000001000"      \
    "0"
#define RC2                                                                                        \
    "01cdab0000fe80000000000000505400fffe1234567f8a01000000009c3b7f00000000100000000000021100"
#define OFI1 "0:100000:ofi1:tcp:02001f900a0000070000000000000000:1"
#define OFI2 "7f2a40000000:c00000:ofi1:verbs;ofi_rxm:0200a1b2c0a800050000000000000000:1f3"
#define OFI3 "7f2a40001000:2000:ofi1:verbs;ofi_rxm:0200a1b2c0a800050000000000000000:1f3"
#define OFI4 "1000:2000:ofi1:tcp:02001f900a0000070000000000000000:1"
#define OFI5 "0:40000000:ofi1:shm:66695f73686d3a2f2f3432343200:ffffffffffffffff"
#define OFI6 "7f2a40000000:c00000:ofi1:rxm.1:0200a1b2c0a800050000000000000000:1f3"
#define OFI7 "0:100000:ofi1:tcp:0a001f900000000020010db800000000000000000000000100000000:1"
#define CMA1 "7f2a40000000:100000:cma1:1a2b:5f00d:3:9e3779b97f4a7c15"
#define SH1 "rc:00112233445566778899aabbccddeeff:00007f3b9c000000:00100000:00018a7f"
#define SH2 "rc:00112233445566778899aabbccddeeff:00007f3b9c000000:180000000:00018a7f"

#define REPEAT_384_A R64 R64 R64 R64 R64 R64
#define R64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OFI8 "0:10:ofi1:tcp:" REPEAT_384_A ":1"
#define P64 "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"

static struct token parsed(const char *text)
{
    struct token t;
    struct diag diag = {""};
    int rc = token_parse(text, strlen(text), &diag, &t);
    if (rc)
        fail_msg("%s: %s", error_name(rc), diag.text);
    return t;
}

static int verdict(const char *text)
{
    struct token t, before;
    struct diag diag = {""};
    memset(&t, 0x5a, sizeof t);
    before = t;
    int rc = token_parse(text, strlen(text), &diag, &t);
    if (rc) {
        assert_memory_equal(&t, &before, sizeof t);
        assert_true(diag.text[0] != '\0');
    }
    return rc;
}

static void assert_prints(const struct token *t, const char *expected)
{
    char out[LIMIT_TOKEN_LEN_MAX + 1];
    assert_int_equal(token_print(t, out, sizeof out), 0);
    assert_string_equal(out, expected);
    char exact[LIMIT_TOKEN_LEN_MAX + 1];
    assert_int_equal(token_print(t, exact, strlen(expected) + 1), 0);
    assert_string_equal(exact, expected);
    assert_int_equal(token_print(t, exact, strlen(expected)), S3R_E_INVALID_ARGUMENT);
}

static void assert_address(const struct token *t, const char *expected, int port)
{
    struct sockaddr_storage addr;
    char text[INET6_ADDRSTRLEN];
    if (!expected) {
        assert_false(token_address(t, &addr));
        return;
    }
    assert_true(token_address(t, &addr));
    const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr;
    const void *bytes = addr.ss_family == AF_INET ? (const void *)&in->sin_addr : &in6->sin6_addr;
    assert_non_null(inet_ntop(addr.ss_family, bytes, text, sizeof text));
    assert_string_equal(text, expected);
    assert_int_equal(ntohs(addr.ss_family == AF_INET ? in->sin_port : in6->sin6_port), port);
}

static void dc_vectors_are_read_and_printed(void **state)
{
    struct token t = parsed(DC1);
    assert_int_equal(t.scheme, TOKEN_DC);
    assert_int_equal(t.addr, 0x7f5a1c400000);
    assert_int_equal(t.size, 4194304);
    assert_int_equal(t.dc.rkey, 0x18f3a2);
    assert_int_equal(t.dc.lid, 0);
    assert_int_equal(t.dc.dctn, 4807);
    assert_true(t.dc.has_gid);
    assert_address(&t, "10.20.30.40", 0);
    assert_int_equal(strlen(DC1), 81);
    assert_prints(&t, DC1);

    t = parsed(DC2);
    assert_int_equal(t.addr, 0x560b3e7d9000);
    assert_int_equal(t.size, 4294967295);
    assert_int_equal(t.dc.rkey, 0x80001234);
    assert_int_equal(t.dc.lid, 23);
    assert_int_equal(t.dc.dctn, 0xa0b1);
    assert_int_equal(t.dc.gid[0], 0xfe);
    assert_int_equal(t.dc.gid[15], 0x2b);
    assert_address(&t, NULL, 0);
    assert_prints(&t, DC2);

    t = parsed(DC3);
    assert_int_equal(t.addr, 4096);
    assert_int_equal(t.size, 1);
    assert_int_equal(t.dc.rkey, 0);
    assert_int_equal(t.dc.lid, 65535);
    assert_int_equal(t.dc.dctn, 0xffffff);
    assert_false(t.dc.has_gid);
    assert_address(&t, NULL, 0);
    assert_prints(&t, DC3);
}

static void dc_suffix_semicolon_and_upper_case_are_read(void **state)
{
    struct token t = parsed(DC4);
    assert_int_equal(strlen(DC4), 115);
    assert_int_equal(t.addr, 0x7f5a1c401000);
    assert_int_equal(t.size, 4096);
    assert_int_equal(t.dc.dctn, 4807);

    t = parsed(DC1 ";");
    assert_prints(&t, DC1);
    t = parsed(DC4 ";");
    assert_int_equal(t.size, 4096);

    char upper[] = DC2;
    for (char *c = upper; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    t = parsed(upper);
    assert_prints(&t, DC2);
}

static void a_dc_suffix_may_only_narrow(void **state)
{
    /* the whole, its last byte, nothing at its end */
    assert_int_equal(verdict(DC1 ":00007f5a1c400000:0000000000400000"), 0);
    assert_int_equal(verdict(DC1 ":00007f5a1c7fffff:0000000000000001"), 0);
    assert_int_equal(verdict(DC1 ":00007f5a1c800000:0000000000000000"), 0);
    /* one byte too long, one too early, past the end, so long that the sum wraps */
    assert_int_equal(verdict(DC1 ":00007f5a1c400000:0000000000400001"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict(DC1 ":00007f5a1c3fffff:0000000000000010"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict(DC1 ":00007f5a1c800001:0000000000000000"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict(DC1 ":00007f5a1c400001:ffffffffffffffff"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict(DC1 ":7f5a1c401000:0000000000001000"), S3R_E_TOKEN_MALFORMED);
}

static void broken_dc_tokens_are_malformed(void **state)
{
    static const char *const rows[] = {
        "00007f5a1c400000:00400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e2",
        DC1 "0",
        "00007f5a1c400000:00400000:0018f3a2:0000:00012c7:1:00000000000000000000ffff0a141e28",
        "00007f5a1c400000:00400000:0018f3a2:0000:0012c7:2:00000000000000000000ffff0a141e28",
        "00007f5a1c400000:00400000:0018f3ag:0000:0012c7:1:00000000000000000000ffff0a141e28",
        "00007f5a1c40000000400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28",
        DC1 ":00007f5a1c401000",
        "0x007f5a1c400000:00400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28",
        "00007f5a1c400000:400000:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28",
        DC1 ";;",
        DC1 ":",
        " " DC1,
        DC1 "\n",
        DC4 ":0",
        "ffffffffffffffff:00000001:0018f3a2:0000:0012c7:1:00000000000000000000ffff0a141e28",
        ":::::::::::::::::::::::::::",
        "AAAA",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(verdict(rows[i]), S3R_E_TOKEN_MALFORMED);
}

static void hipobject_tokens_are_known_and_declined(void **state)
{
    assert_int_equal(strlen(RC1), 88);
    assert_int_equal(strlen(RC2), 88);
    char zeros[89];
    memset(zeros, '0', 88);
    zeros[88] = '\0';
    assert_int_equal(verdict(RC1), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict(RC2), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict(zeros), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict(RC2 ":00007f3b9c000000:0000000000100000"), S3R_E_TOKEN_DECLINED);
    /* its first field decides before the third is looked at */
    assert_int_equal(verdict(RC1 ":0:ofi1:tcp:0200:1"), S3R_E_TOKEN_DECLINED);
    /* 87 digits, 90 digits, a g */
    assert_int_equal(verdict(&RC1[1]), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict(RC1 "00"), S3R_E_TOKEN_MALFORMED);
    zeros[40] = 'g';
    assert_int_equal(verdict(zeros), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict(""), S3R_E_TOKEN_MALFORMED);
}

static void ofi_vectors_are_read_and_printed(void **state)
{
    static const struct {
        const char *text;
        uint64_t addr, size, key;
        const char *provider, *address;
        int port;
    } rows[] = {
        {OFI1, 0, 0x100000, 1, "tcp", "10.0.0.7", 8080},
        {OFI2, 0x7f2a40000000, 0xc00000, 0x1f3, "verbs;ofi_rxm", "192.168.0.5", 41394},
        {OFI3, 0x7f2a40001000, 0x2000, 0x1f3, "verbs;ofi_rxm", "192.168.0.5", 41394},
        {OFI4, 0x1000, 0x2000, 1, "tcp", "10.0.0.7", 8080},
        {OFI5, 0, 0x40000000, UINT64_MAX, "shm", NULL, 0},
        {OFI6, 0x7f2a40000000, 0xc00000, 0x1f3, "rxm.1", "192.168.0.5", 41394},
        {OFI7, 0, 0x100000, 1, "tcp", "2001:db8::1", 8080},
        {OFI8, 0, 0x10, 1, "tcp", NULL, 0},
        {"0:10:ofi1:" P64 ":0200:1", 0, 0x10, 1, P64, NULL, 0},
        /* an IPv4-mapped sockaddr comes out as the IPv4 address that it is */
        {"0:10:ofi1:tcp:0a001f90000000000000000000000000" /* ... */
         "0000ffff0a00000700000000:1",
         0, 0x10, 1, "tcp", "10.0.0.7", 8080},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct token t = parsed(rows[i].text);
        assert_int_equal(t.scheme, TOKEN_OFI);
        assert_int_equal(t.addr, rows[i].addr);
        assert_int_equal(t.size, rows[i].size);
        assert_true(t.ofi.key == rows[i].key);
        assert_string_equal(t.ofi.provider, rows[i].provider);
        assert_address(&t, rows[i].address, rows[i].port);
        assert_prints(&t, rows[i].text);
    }
    struct token shm = parsed(OFI5);
    assert_int_equal(shm.ofi.name_len, 14);
    assert_memory_equal(shm.ofi.name, "fi_shm://4242", 14);
}

static void broken_ofi_tokens_are_malformed(void **state)
{
    static const char *const rows[] = {
        "0:100000:ofi1:tcp:0200",
        OFI1 ":1",
        "0:100000:ofi1:tcp:020:1",
        "0:100000:ofi1:tcp:02zz:1",
        "0:100000:ofi1:tcp::1",
        "0:10:ofi1:tcp:" REPEAT_384_A "aa:1",
        "0:100000:ofi1::0200:1",
        "0:100000:ofi1:t p:0200:1",
        "0:100000:ofi1:" P64 "p:0200:1",
        "0:100000:ofi1:tcp:0200:",
        ":100000:ofi1:tcp:0200:1",
        "00000000000000000:100000:ofi1:tcp:0200:1",
        "0::ofi1:tcp:0200:1",
        "ffffffffffffffff:1:ofi1:tcp:0200:1",
        "-1:10:ofi1:tcp:0200:1",
        "0x1:10:ofi1:tcp:0200:1",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(verdict(rows[i]), S3R_E_TOKEN_MALFORMED);
}

static void other_versions_of_known_families_are_declined(void **state)
{
    assert_int_equal(verdict("0:10:ofi2:x"), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict("0:10:ofi10:xnet.1:0200:1"), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict("0:100000:ofi2:tcp:02001f900a0000070000000000000000:1"),
                     S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict("0:10:ofi01:tcp:0200:1"), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict("0:10:cma2:1:2:3:4"), S3R_E_TOKEN_DECLINED);
    assert_int_equal(verdict("0:10:cma11"), S3R_E_TOKEN_DECLINED);
    /* no member of a family */
    assert_int_equal(verdict("0:10:ofi:x:0200:1"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict("0:10:ofi1x:x:0200:1"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict("ofi1:0:10:tcp"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict("0:10"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict("0:10:cma:1:2:3:4"), S3R_E_TOKEN_MALFORMED);
    assert_int_equal(verdict("0:10:CMA1:1:2:3:4"), S3R_E_TOKEN_MALFORMED);
}

static void the_cma_vector_is_read_and_printed(void **state)
{
    struct token t = parsed(CMA1);
    assert_int_equal(t.scheme, TOKEN_CMA);
    assert_int_equal(t.addr, 0x7f2a40000000);
    assert_int_equal(t.size, 1048576);
    assert_int_equal(t.cma.pid, 6699);
    assert_int_equal(t.cma.start, 389133);
    assert_int_equal(t.cma.slot, 3);
    assert_true(t.cma.key == UINT64_C(0x9e3779b97f4a7c15));
    assert_address(&t, NULL, 0);
    assert_prints(&t, CMA1);
    t = parsed("0:0:cma1:1:0:0:0");
    assert_int_equal(t.size, 0);
    assert_prints(&t, "0:0:cma1:1:0:0:0");
}

static void broken_cma_tokens_are_malformed(void **state)
{
    static const char *const rows[] = {
        "7f2a40000000:100000:cma1:1a2b:5f00d:3",       CMA1 ":0",
        "7F2A40000000:100000:cma1:1a2b:5f00d:3:9e37",  "07f2a4000000:100000:cma1:1a2b:5f00d:3:9e",
        "7f2a40000000:100000:cma1:0:5f00d:3:9e37",     "7f2a40000000:100000:cma1:80000000:5:3:9e",
        "7f2a40000000:100000:cma1:1a2b:5f00d:3:",      "7f2a40000000:100000:cma1:1a2b::3:9e37",
        "7f2a40000000:100000:cma1:1a2b:5f00d:3:9e37;", "ffffffffffffffff:1:cma1:1a2b:5f00d:3:9e3",
        "7f2a40000000:11111111111111111:cma1:1:1:1:1",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(verdict(rows[i]), S3R_E_TOKEN_MALFORMED);
}

static void shim_vectors_are_read_and_printed(void **state)
{
    struct token t = parsed(SH1);
    assert_int_equal(strlen(SH1), 70);
    assert_int_equal(t.scheme, TOKEN_SHIM);
    assert_int_equal(t.addr, 0x7f3b9c000000);
    assert_int_equal(t.size, 1048576);
    assert_int_equal(t.shim.rkey, 0x18a7f);
    assert_int_equal(t.shim.connection[0], 0x00);
    assert_int_equal(t.shim.connection[15], 0xff);
    assert_address(&t, NULL, 0);
    assert_prints(&t, SH1);
    t = parsed(SH2);
    assert_int_equal(t.size, UINT64_C(6) << 30);
    assert_prints(&t, SH2);
    static const char *const broken[] = {
        "rc:",
        "rc:00112233445566778899aabbccddeeff",
        "rc:00112233445566778899aabbccddeef:00007f3b9c000000:00100000:00018a7f",
        SH1 ":0",
        SH1 "0",
        "rc:00112233445566778899aabbccddeeff:0000000000000000:00100000:",
        "rc:00112233445566778899aabbccddeeff:ffffffffffffffff:00100000:1",
    };
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        assert_int_equal(verdict(broken[i]), S3R_E_TOKEN_MALFORMED);
}

static void nul_bytes_and_too_long_texts_are_malformed(void **state)
{
    struct token t;
    char text[LIMIT_TOKEN_LEN_MAX + 2];
    memcpy(text, CMA1, sizeof CMA1);
    text[4] = '\0';
    assert_int_equal(token_parse(text, sizeof CMA1 - 1, NULL, &t), S3R_E_TOKEN_MALFORMED);
    /* the length says where a token ends, not a NUL */
    assert_int_equal(token_parse(CMA1, sizeof CMA1, NULL, &t), S3R_E_TOKEN_MALFORMED);
    memset(text, '1', sizeof text);
    assert_int_equal(token_parse(text, sizeof text - 1, NULL, &t), S3R_E_TOKEN_MALFORMED);
    memset(text, ':', sizeof text);
    assert_int_equal(token_parse(text, LIMIT_TOKEN_LEN_MAX, NULL, &t), S3R_E_TOKEN_MALFORMED);
}

static void what_cannot_be_a_token_is_not_printed(void **state)
{
    char out[LIMIT_TOKEN_LEN_MAX];
    struct token t = parsed(DC1);
    t.size = LIMIT_DC_WINDOW_LEN_MAX + 1;
    assert_int_equal(token_print(&t, out, sizeof out), S3R_E_INVALID_ARGUMENT);
    t = parsed(OFI1);
    t.ofi.name_len = TOKEN_OFI_NAME_LEN_MAX + 1;
    assert_int_equal(token_print(&t, out, sizeof out), S3R_E_INVALID_ARGUMENT);
    t.scheme = (enum token_scheme)99;
    assert_int_equal(token_print(&t, out, sizeof out), S3R_E_INVALID_ARGUMENT);
    t = parsed(CMA1);
    assert_int_equal(token_print(&t, out, 0), S3R_E_INVALID_ARGUMENT);
}

static void mutate(char *text, size_t *len, unsigned *seed)
{
    static const char alphabet[] = "0123456789abcdefABCDEFg:;x. \0\xff-+rcofima";
    size_t at = (size_t)rand_r(seed) % (*len + 1);
    char c = alphabet[(size_t)rand_r(seed) % (sizeof alphabet - 1)];
    switch (rand_r(seed) % 3) {
    case 0:
        if (at < *len)
            text[at] = c;
        break;
    case 1:
        if (*len >= LIMIT_TOKEN_LEN_MAX)
            break;
        memmove(text + at + 1, text + at, *len - at);
        text[at] = c;
        ++*len;
        break;
    default:
        if (at < *len) {
            memmove(text + at, text + at + 1, *len - at - 1);
            --*len;
        }
    }
}

/* Whatever is accepted prints to a text that reads back as the same; nothing else is a success, and
 * the parser never looks past the length (the copy is exact, so that a sanitizer sees it). */
static void mutated_tokens_are_refused_or_mean_what_they_print(void **state)
{
    static const char *const seeds[] = {DC1,  DC4, OFI1, OFI2, OFI5, OFI7, OFI8,
                                        CMA1, SH1, SH2,  RC1,  RC2,  DC2,  DC3};
    unsigned seed = (unsigned)random_u64();
    print_message("seed %u\n", seed);
    for (int round = 0; round < 200000; round++) {
        char text[LIMIT_TOKEN_LEN_MAX + 1];
        const char *from = seeds[(size_t)round % ARRAY_LEN(seeds)];
        size_t len = strlen(from);
        memcpy(text, from, len);
        for (int n = rand_r(&seed) % 4; n >= 0; n--)
            mutate(text, &len, &seed);
        CLEANUP(freep) char *exact = malloc(len ? len : 1);
        assert_non_null(exact);
        memcpy(exact, text, len);
        struct token t, again;
        int rc = token_parse(exact, len, NULL, &t);
        if (rc) {
            assert_true(rc == S3R_E_TOKEN_MALFORMED || rc == S3R_E_TOKEN_DECLINED);
            continue;
        }
        char out[LIMIT_TOKEN_LEN_MAX + 1];
        assert_int_equal(token_print(&t, out, sizeof out), 0);
        assert_int_equal(token_parse(out, strlen(out), NULL, &again), 0);
        assert_memory_equal(&t, &again, sizeof t);
        assert_true(t.addr + t.size >= t.addr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dc_vectors_are_read_and_printed),
        cmocka_unit_test(dc_suffix_semicolon_and_upper_case_are_read),
        cmocka_unit_test(a_dc_suffix_may_only_narrow),
        cmocka_unit_test(broken_dc_tokens_are_malformed),
        cmocka_unit_test(hipobject_tokens_are_known_and_declined),
        cmocka_unit_test(ofi_vectors_are_read_and_printed),
        cmocka_unit_test(broken_ofi_tokens_are_malformed),
        cmocka_unit_test(other_versions_of_known_families_are_declined),
        cmocka_unit_test(the_cma_vector_is_read_and_printed),
        cmocka_unit_test(broken_cma_tokens_are_malformed),
        cmocka_unit_test(shim_vectors_are_read_and_printed),
        cmocka_unit_test(nul_bytes_and_too_long_texts_are_malformed),
        cmocka_unit_test(what_cannot_be_a_token_is_not_printed),
        cmocka_unit_test(mutated_tokens_are_refused_or_mean_what_they_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
