/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "rdma/devices.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct device one(const char *text)
{
    struct device_list list;
    struct diag diag = {""};
    if (device_list_parse(text, &diag, &list))
        fail_msg("%s", diag.text);
    assert_int_equal(list.count, 1);
    struct device d = list.at[0];
    device_list_fini(&list);
    return d;
}

static void verbs_names_and_their_pins_are_read(void **state)
{
    static const struct {
        const char *text, *name;
        int port, gid_index;
    } rows[] = {
        {"mlx5_0", "mlx5_0", 0, -1},
        {"mlx5_0:3", "mlx5_0", 0, 3},
        {"mlx5_0:0", "mlx5_0", 0, 0},
        {"mlx5_0:255", "mlx5_0", 0, 255},
        {"mlx5_0:1:3", "mlx5_0", 1, 3},
        {"  rxe0  ", "rxe0", 0, -1},
        /* a pin that is no valid number: the whole is the name, and so what a failure names */
        {"mlx5_0:256", "mlx5_0:256", 0, -1},
        {"x:1:256", "x:1:256", 0, -1},
        {"x:0:3", "x:0:3", 0, -1},
        {"x:256:3", "x:256:3", 0, -1},
        {"x:", "x:", 0, -1},
        {"x::", "x::", 0, -1},
        {"x:1:", "x:1:", 0, -1},
        {"x::1", "x::1", 0, -1},
        {"x:-1", "x:-1", 0, -1},
        {"x:+1", "x:+1", 0, -1},
        {"x:0x1", "x:0x1", 0, -1},
        {"x:1:2:3", "x:1:2:3", 0, -1},
        {":1", ":1", 0, -1},
        {"x:1e1", "x:1e1", 0, -1},
        {"cmaa", "cmaa", 0, -1},
        {"ofi_0", "ofi_0", 0, -1},
        {"1.2.3", "1.2.3", 0, -1},
        {"[::1", "[::1", 0, -1},
        {"fe80::1%", "fe80::1%", 0, -1},
        {"10.0.0.1:65536", "10.0.0.1:65536", 0, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device d = one(rows[i].text);
        assert_int_equal(d.kind, DEVICE_VERBS);
        assert_string_equal(d.name, rows[i].name);
        assert_int_equal(d.port, rows[i].port);
        assert_int_equal(d.gid_index, rows[i].gid_index);
    }
}

static void addresses_are_read(void **state)
{
    static const struct {
        const char *text, *address, *zone;
    } rows[] = {
        {"10.0.0.1", "10.0.0.1", ""},
        {"10.0.0.1:9000", "10.0.0.1", ""},
        {"2001:db8::1", "2001:db8::1", ""},
        {"[2001:db8::1]", "2001:db8::1", ""},
        {"[2001:db8::1]:9000", "2001:db8::1", ""},
        {"fe80::1%eth0", "fe80::1", "eth0"},
        {"[fe80::1%eth0]:9000", "fe80::1", "eth0"},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.1", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[INET6_ADDRSTRLEN];
        struct device d = one(rows[i].text);
        const struct sockaddr_in *in = (const struct sockaddr_in *)&d.addr;
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&d.addr;
        assert_int_equal(d.kind, DEVICE_ADDRESS);
        assert_non_null(inet_ntop(d.addr.ss_family,
                                  d.addr.ss_family == AF_INET ? (const void *)&in->sin_addr
                                                              : (const void *)&in6->sin6_addr,
                                  text, sizeof text));
        assert_string_equal(text, rows[i].address);
        assert_string_equal(d.zone, rows[i].zone);
    }
}

static void nothing_and_wildcards_mean_every_device(void **state)
{
    static const char *const rows[] = {"",          "   ", "*",    "0.0.0.0",
                                       "0.0.0.0:9", "::",  "[::]", "[::]:9000"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(one(rows[i]).kind, DEVICE_ALL);
}

static void providers_are_read(void **state)
{
    static const struct {
        const char *text, *name, *rest;
    } rows[] = {
        {"cma", "cma", ""},
        {"loop", "loop", ""},
        {"loop:a", "loop", "a"},
        {"ofi:tcp", "ofi", "tcp"},
        {"ofi:tcp@127.0.0.1", "ofi", "tcp@127.0.0.1"},
        {"ofi:tcp@[::1]:9000-9010", "ofi", "tcp@[::1]:9000-9010"},
        {"ofi:verbs;ofi_rxm@mlx5_0", "ofi", "verbs;ofi_rxm@mlx5_0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device d = one(rows[i].text);
        assert_int_equal(d.kind, DEVICE_PROVIDER);
        assert_string_equal(d.name, rows[i].name);
        assert_string_equal(d.rest, rows[i].rest);
    }
}

static void what_can_be_no_name_is_refused_and_quoted(void **state)
{
    static const struct {
        const char *text, *quoted;
    } rows[] = {
        {"cma:x", "'cma:x'"},
        {"ofi", "'ofi'"},
        {"ofi:", "'ofi:'"},
        {"ofi:@1.2.3.4", "'ofi:@1.2.3.4'"},
        {"ofi:tcp@", "'ofi:tcp@'"},
        {"a b", "'a\\x20b'"},
        {"a\nb", "'a\\x0ab'"},
        {"cma,", "''"},
        {",", "''"},
        {"cma,,loop", "''"},
        {"loop,ofi:", "'ofi:'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_list list;
        struct diag diag = {""};
        assert_int_equal(device_list_parse(rows[i].text, &diag, &list), S3R_E_INVALID_ARGUMENT);
        if (!strstr(diag.text, rows[i].quoted))
            fail_msg("%s does not name %s", diag.text, rows[i].quoted);
    }
    char long_name[DEVICE_TEXT_MAX + 1];
    struct device_list list;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(device_list_parse(long_name, NULL, &list), S3R_E_INVALID_ARGUMENT);
    assert_int_equal(device_list_parse(long_name + 1, NULL, &list), 0);
    device_list_fini(&list);
}

static void a_list_has_each_device_once(void **state)
{
    struct device_list list;
    char many[DEVICES_MAX * 8 + 16] = "";
    assert_int_equal(device_list_parse("mlx5_0, cma,mlx5_0 ,ofi:tcp,cma", NULL, &list), 0);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.at[1].text, "cma");
    device_list_fini(&list);
    for (int i = 0; i < DEVICES_MAX; i++)
        snprintf(many + strlen(many), 8, "%sd%d", i ? "," : "", i);
    assert_int_equal(device_list_parse(many, NULL, &list), 0);
    device_list_fini(&list);
    snprintf(many + strlen(many), 8, ",one");
    assert_int_equal(device_list_parse(many, NULL, &list), S3R_E_INVALID_ARGUMENT);
}

static int open_only_b(const struct device *device, struct diag *diag, void *arg)
{
    int *opened = arg;
    if (strcmp(device->rest, "b") != 0)
        return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "it is not b");
    ++*opened;
    return 0;
}

static void one_device_that_opens_is_enough(void **state)
{
    int opened = 0;
    struct diag diag = {""};
    assert_int_equal(devices_open("loop:a,loop:b,mlx5_0", &diag, open_only_b, &opened), 0);
    assert_int_equal(opened, 1);
    assert_string_equal(diag.text, "");
}

static void when_none_opens_each_is_named_with_its_reason(void **state)
{
    int opened = 0;
    struct diag diag = {""};
    assert_int_equal(devices_open("loop:a,x:1:256,10.0.0.1", &diag, open_only_b, &opened),
                     S3R_E_RDMA_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "loop:a: it is not b"));
    assert_non_null(strstr(diag.text, "x:1:256: no verbs provider in this build"));
    assert_non_null(strstr(diag.text, "10.0.0.1: no verbs provider in this build"));
    diag_clear(&diag);
    assert_int_equal(devices_open("", &diag, open_only_b, &opened), S3R_E_RDMA_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "cma"));
    assert_int_equal(opened, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verbs_names_and_their_pins_are_read),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(nothing_and_wildcards_mean_every_device),
        cmocka_unit_test(providers_are_read),
        cmocka_unit_test(what_can_be_no_name_is_refused_and_quoted),
        cmocka_unit_test(a_list_has_each_device_once),
        cmocka_unit_test(one_device_that_opens_is_enough),
        cmocka_unit_test(when_none_opens_each_is_named_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
