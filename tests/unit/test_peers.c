/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "server/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ss = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        ss.ss_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
        ss.ss_family = AF_INET6;
    }
    return ss;
}

static struct token ofi_token(const char *text)
{
    struct token t = {.scheme = TOKEN_OFI, .size = 1, .ofi = {.provider = "tcp"}};
    struct sockaddr_storage ss = address(text);
    t.ofi.name_len =
        ss.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(t.ofi.name, &ss, t.ofi.name_len);
    return t;
}

static void a_token_reaches_its_sender_or_a_listed_network(void **state)
{
    static const struct {
        const char *named, *peer, *allowed;
        bool is_allowed;
    } cases[] = {
        {"192.0.2.7", "192.0.2.7", "", true},
        {"192.0.2.7", "::ffff:192.0.2.7", "", true},
        {"192.0.2.7", "192.0.2.8", "", false},
        {"192.0.2.7", "192.0.2.8", "10.0.0.0/8,192.0.2.0/29", true},
        {"192.0.2.8", "192.0.2.7", "192.0.2.0/29", false},
        {"2001:db8::1", "2001:db8::2", "2001:db8::/32", true},
        {"2001:db8::1", "2001:db8::2", "0.0.0.0/0", false},
        {"127.0.0.2", "127.0.0.1", "", true},
        {"::1", "127.0.0.1", "", true},
        {"127.0.0.1", "192.0.2.8", "", false}, /* the server's own loopback is a third party too */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct token t = ofi_token(cases[i].named);
        struct sockaddr_storage peer = address(cases[i].peer);
        assert_int_equal(peers_allow(&t, (struct sockaddr *)&peer, cases[i].allowed),
                         cases[i].is_allowed);
    }
}

static void names_without_an_address_need_their_provider_listed(void **state)
{
    struct token t = {.scheme = TOKEN_OFI,
                      .ofi = {.provider = "efa", .name = {1, 2, 3}, .name_len = 3}};
    struct sockaddr_storage peer = address("192.0.2.7");
    assert_false(peers_allow(&t, (struct sockaddr *)&peer, ""));
    assert_false(peers_allow(&t, (struct sockaddr *)&peer, "0.0.0.0/0,provider:cxi"));
    assert_true(peers_allow(&t, (struct sockaddr *)&peer, "provider:cxi,provider:efa"));
}

static void cma_is_for_loopback_only(void **state)
{
    struct token t = {.scheme = TOKEN_CMA};
    struct sockaddr_storage here = address("127.0.0.1"), mapped = address("::ffff:127.0.0.1"),
                            there = address("192.0.2.7");
    assert_true(peers_allow(&t, (struct sockaddr *)&here, ""));
    assert_true(peers_allow(&t, (struct sockaddr *)&mapped, ""));
    assert_false(peers_allow(&t, (struct sockaddr *)&there, "192.0.2.0/24"));
}

static void a_list_that_is_wrong_is_refused(void **state)
{
    static const char *const bad[] = {"10.0.0.0/33", "fe80::/129", "example.net",
                                      "10.0.0.0/",   "provider:",  "10.0.0.1,,x"};
    struct diag diag = {0};
    assert_int_equal(peers_check("10.0.0.0/8, fd00::/8,provider:efa,192.0.2.1", &diag), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(peers_check(bad[i], NULL), S3R_E_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_reaches_its_sender_or_a_listed_network),
        cmocka_unit_test(names_without_an_address_need_their_provider_listed),
        cmocka_unit_test(cma_is_for_loopback_only),
        cmocka_unit_test(a_list_that_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
