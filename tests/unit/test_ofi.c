// SPDX-License-Identifier: Apache-2.0
#include "cm.h"

#include "ofi_side.h"

#include "base/crypto.h"
#include "base/limits.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const size_t sizes[] = {0,       1,       7,       4095,    4096,     65537,   1048576,
                               8388607, 8388608, 8388609, 8388611, 67108863, 67108864};

static void every_byte_arrives_both_ways_at_every_size(void **state)
{
    size_t max = 64 * MIB + 3;
    peer_owner(&peers[0], max, 1);
    void *m = mover_new();
    struct guarded local = guarded_new(max, 0);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        size_t len = sizes[i], off = i % 3;
        struct token t;
        peer_token(&peers[0], 0, off, len, &t);
        unsigned char *at = local.bytes + (max - len) / 2;
        pattern_fill(at, len, (unsigned)i + 10);
        assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, at, len, PATIENT_MS), 0);
        expect(peer_ask(&peers[0], "check %zu %zu %zu", off, len, i + 10), "-1");
        memset(local.bytes, 0, max);
        assert_int_equal(move(m, TRANSFER_READ, &t, 0, at, len, PATIENT_MS), 0);
        assert_int_equal(pattern_differs(at, len, (unsigned)i + 10), -1);
        assert_fill(local.bytes, (size_t)(at - local.bytes), 0);
        assert_fill(at + len, max - len - (size_t)(at - local.bytes), 0);
        expect(peer_ask(&peers[0], "settle 0"), "ok");
    }
    ofi_mover_ops.close(m);
    guarded_free(&local);
}

static void parts_of_windows_land_where_they_belong(void **state)
{
    struct side s = side_open(DEVICE, 1 * MIB, 0xAA);
    void *m = mover_new();
    unsigned char source[1000];
    pattern_fill(source, sizeof(source), 3);
    struct out outs[64];
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        outs[i] = window_new(&s, i * 10000 + i, PATIENT_MS);
    for (size_t i = ARRAY_LEN(outs); i-- > 0;)
        assert_int_equal(move(m, TRANSFER_WRITE, &outs[i].token, i * 60, source, sizeof(source),
                              PATIENT_MS),
                         0);
    size_t clean_from = 0;
    for (size_t i = 0; i < ARRAY_LEN(outs); i++) {
        size_t at = i * 10000 + i + i * 60;
        assert_fill(s.memory.bytes + clean_from, at - clean_from, 0xAA);
        assert_int_equal(pattern_differs(s.memory.bytes + at, sizeof(source), 3), -1);
        clean_from = at + sizeof(source);
        window_end(&s, &outs[i], true);
    }
    assert_fill(s.memory.bytes + clean_from, s.memory.len - clean_from, 0xAA);
    ofi_mover_ops.close(m);
    side_close(&s);
}

static void a_range_outside_the_window_is_refused_before_anything_moves(void **state)
{
    struct side s = side_open(DEVICE, 65536, 0x11);
    void *m = mover_new();
    unsigned char source[8192] = {0};
    struct out o = window_new(&s, 8192, 8192);
    const struct {
        uint64_t off;
        size_t len;
    } bad[] = {{0, 8193}, {8192, 1}, {8191, 2}, {UINT64_MAX, 1}, {UINT64_MAX - 1, 8192}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(move(m, TRANSFER_WRITE, &o.token, bad[i].off, source, bad[i].len,
                              PATIENT_MS),
                         S3R_E_RDMA_BOUNDS);
    struct token wraps = o.token;
    wraps.addr = UINT64_MAX - 100;
    assert_int_equal(move(m, TRANSFER_WRITE, &wraps, 0, source, 8192, PATIENT_MS),
                     S3R_E_RDMA_BOUNDS);
    assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 8192, source, 0, PATIENT_MS), 0);
    assert_fill(s.memory.bytes, s.memory.len, 0x11);
    window_end(&s, &o, true);
    ofi_mover_ops.close(m);
    side_close(&s);
}

/* What a client can write into a token that it was not given, and what the answer to it is. */
static const struct forgery {
    const char *what;
    int key, addr, size; /* added */
    int code;
} forgeries[] = {
    {"another key", 1, 0, 0, S3R_E_RDMA_PEER},
    {"a byte more", 0, 0, 1, S3R_E_RDMA_PEER},
    {"a page more", 0, 0, 4096, S3R_E_RDMA_PEER},
    {"a byte later", 0, 1, 0, S3R_E_RDMA_PEER},
    {"a page later", 0, 4096, 0, S3R_E_RDMA_PEER},
    {"beyond the end", 0, 8192 + 4096, 0, S3R_E_RDMA_PEER},
    /* Its sum of address and size wraps. */
    {"a page earlier", 0, -4096, 0, S3R_E_RDMA_BOUNDS},
    {"from a page before to the end", 0, -4096, 4096, S3R_E_RDMA_BOUNDS},
};

static struct token forge(const struct token *honest, const struct forgery *f)
{
    struct token t = *honest;
    t.ofi.key += (uint64_t)f->key;
    t.addr += (uint64_t)f->addr;
    t.size += (uint64_t)f->size;
    return t;
}

/* Parts of a forged token that lie inside the window are refused as well. */
static void try_forgery(struct side *s, void *m, const struct forgery *f, size_t off, size_t len,
                        enum transfer_direction way)
{
    unsigned char local[8192];
    memset(local, 0x99, sizeof(local));
    struct out o = window_new(s, 16384, 8192);
    struct token t = forge(&o.token, f);
    int rc = move(m, way, &t, off, local, len, PATIENT_MS);
    if (rc != f->code)
        fail_msg("%s: %s", f->what, error_name(rc));
    for (size_t i = 0; i < sizeof(local); i++)
        if (local[i] == 0x22)
            fail_msg("%s: byte %zu was pulled", f->what, i);
    /* The window itself is as good as before. */
    assert_int_equal(move(m, TRANSFER_READ, &o.token, 8192 - 100, local, 100, PATIENT_MS), 0);
    assert_fill(local, 100, 0x22);
    window_end(s, &o, true);
}

static void forged_tokens_touch_nothing_and_cost_nobody_else(void **state)
{
    static const struct {
        size_t off, len;
    } parts[] = {{0, 8192}, {0, 1}, {0, 100}, {100, 4096}, {8191, 1}};
    struct side s = side_open(DEVICE, 65536, 0x22);
    peer_owner(&peers[0], 65536, 9);
    void *m = mover_new();
    struct token other;
    peer_token(&peers[0], 0, 0, 65536, &other);
    struct steady steady;
    pthread_t thread = steady_start(&steady, m, &other, 65536);
    for (size_t i = 0; i < ARRAY_LEN(forgeries) * ARRAY_LEN(parts) * 2; i++) {
        size_t part = i / 2 % ARRAY_LEN(parts);
        try_forgery(&s, m, &forgeries[i / 2 / ARRAY_LEN(parts)], parts[part].off, parts[part].len,
                    i % 2 ? TRANSFER_WRITE : TRANSFER_READ);
    }
    assert_fill(s.memory.bytes, s.memory.len, 0x22);
    steady_end(&steady, thread);
    ofi_mover_ops.close(m);
    side_close(&s);
}

/* The last of several operations would leave the window: the first ones move nothing either. */
static void a_forged_token_moves_none_of_several_pieces(void **state)
{
    const size_t len = LIMIT_WINDOW_PIECE_LEN * 3;
    struct side s = side_open(DEVICE, len + 4096, 0x22);
    void *m = mover_new();
    CLEANUP(freep) unsigned char *local = malloc(len + 1);
    for (int i = 0; i < 2; i++) {
        struct out o = window_new(&s, 0, len);
        o.token.size++;
        memset(local, 0x99, len + 1);
        enum transfer_direction way = i ? TRANSFER_READ : TRANSFER_WRITE;
        assert_int_equal(move(m, way, &o.token, 0, local, len + 1, PATIENT_MS), S3R_E_RDMA_PEER);
        assert_null(memchr(local, 0x22, len + 1));
        window_end(&s, &o, true);
    }
    assert_fill(s.memory.bytes, s.memory.len, 0x22);
    ofi_mover_ops.close(m);
    side_close(&s);
}

static void nothing_lands_in_a_withdrawn_window(void **state)
{
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        struct side s = side_open(DEVICE, 65536, 0x33);
        void *m = mover_new();
        unsigned char source[65536];
        memset(source, 0x99, sizeof(source));
        struct out kept = window_new(&s, 32768, 32768);
        for (int i = 0; i < 20; i++) {
            struct out o = window_new(&s, 0, 32768);
            struct token t = o.token;
            assert_int_equal(move(m, TRANSFER_READ, &t, 0, source, 100, PATIENT_MS), 0);
            window_end(&s, &o, is_settled);
            assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, source, 32768, PATIENT_MS),
                             S3R_E_RDMA_PEER);
            assert_int_equal(move(m, TRANSFER_READ, &t, 0, source, 32768, PATIENT_MS),
                             S3R_E_RDMA_PEER);
            assert_fill(s.memory.bytes, s.memory.len, 0x33);
            /* A window that was out all the while is as good as before, fence or not. */
            assert_int_equal(move(m, TRANSFER_READ, &kept.token, 0, source, 32768, PATIENT_MS), 0);
            assert_fill(source, 32768, 0x33);
        }
        window_end(&s, &kept, true);
        ofi_mover_ops.close(m);
        side_close(&s);
    }
}

/* Large transfers, so that the driver is at work nearly always. */
static void windows_that_come_and_go_leave_others_alone(void **state)
{
    struct side s = side_open(DEVICE, 16 * MIB + 4096, 0);
    void *m = mover_new();
    struct out kept[2];
    struct steady steady[2];
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        kept[i] = window_new(&s, 0, 16 * MIB);
        threads[i] = steady_start(&steady[i], m, &kept[i].token, 16 * MIB);
    }
    int64_t until_ns = clock_mono_ns() + 3 * NS_PER_S;
    while (clock_mono_ns() < until_ns) {
        struct out o = window_new(&s, 16 * MIB, 4096);
        window_end(&s, &o, true);
    }
    for (size_t i = 0; i < 2; i++) {
        steady_end(&steady[i], threads[i]);
        window_end(&s, &kept[i], true);
    }
    ofi_mover_ops.close(m);
    side_close(&s);
}

static bool always(void *arg)
{
    return true;
}

static void cancellation_ends_a_transfer_before_its_next_piece(void **state)
{
    struct side s = side_open(DEVICE, 4096, 0x66);
    void *m = mover_new();
    unsigned char source[4096] = {0};
    struct out o = window_new(&s, 0, 4096);
    struct transfer t = {.direction = TRANSFER_WRITE,
                         .token = &o.token,
                         .local = source,
                         .len = 4096,
                         .is_cancelled = always};
    uint64_t moved = 0;
    struct diag diag = {0};
    assert_int_equal(ofi_mover_ops.transfer(m, &t, &diag, &moved), S3R_E_CANCELLED);
    t.is_cancelled = NULL;
    t.deadline_ns = 1;
    assert_int_equal(ofi_mover_ops.transfer(m, &t, &diag, &moved), S3R_E_RDMA_DEADLINE);
    assert_fill(s.memory.bytes, 4096, 0x66);
    window_end(&s, &o, true);
    ofi_mover_ops.close(m);
    side_close(&s);
}

static void many_threads_write_to_one_owner_at_once(void **state)
{
    struct side s = side_open(DEVICE, 8 * MIB, 0);
    void *m = mover_new();
    struct out outs[8];
    struct steady steady[8];
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++) {
        outs[i] = window_new(&s, i * MIB, MIB);
        threads[i] = steady_start(&steady[i], m, &outs[i].token, 300000 + i);
    }
    for (size_t i = 0; i < 8; i++) {
        steady_end(&steady[i], threads[i]);
        assert_int_equal(pattern_differs(s.memory.bytes + i * MIB, 300000 + i, 9), -1);
        window_end(&s, &outs[i], true);
    }
    ofi_mover_ops.close(m);
    side_close(&s);
}

static void memory_that_cannot_be_written_is_opened_for_reading_only(void **state)
{
    struct side s = side_open(DEVICE, 8192, 0x77);
    void *m = mover_new(), *region = NULL;
    unsigned char local[8192] = {0};
    struct diag diag = {0};
    unsigned char *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(ofi_owner_ops.region_add(s.owner, page, 8192, &diag, &region), 0);
    struct out o = {0};
    assert_int_equal(ofi_owner_ops.window_open(s.owner, region, 0, 8192, &diag, &o.window,
                                               &o.token),
                     0);
    assert_int_equal(move(m, TRANSFER_READ, &o.token, 0, local, 8192, PATIENT_MS), 0);
    assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, local, 100, PATIENT_MS), S3R_E_RDMA_PEER);
    window_end(&s, &o, false);
    ofi_owner_ops.region_remove(s.owner, region);
    munmap(page, 8192);
    assert_int_equal(ofi_owner_ops.region_add(s.owner, page, 8192, &diag, &region),
                     S3R_E_RDMA_REGISTER);
    assert_int_equal(ofi_owner_ops.region_add(s.owner, (void *)-4096l, 8192, &diag, &region),
                     S3R_E_RDMA_REGISTER);
    ofi_mover_ops.close(m);
    side_close(&s);
}

static void no_two_windows_share_a_key_and_none_is_small(void **state)
{
    struct side s = side_open(DEVICE, 4096, 0);
    static uint64_t keys[2000];
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct out o = window_new(&s, 0, 4096);
        keys[i] = o.token.ofi.key;
        window_end(&s, &o, true);
        for (size_t j = 0; j < i; j++)
            assert_true(keys[i] != keys[j]);
    }
    size_t wide = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        wide += keys[i] >> 32 != 0;
    assert_int_equal(wide, ARRAY_LEN(keys));
    side_close(&s);
}

static uint16_t token_port(const struct token *t, char *ip)
{
    struct sockaddr_in v4;
    assert_int_equal(t->ofi.name_len, sizeof(v4));
    memcpy(&v4, t->ofi.name, sizeof(v4));
    assert_int_equal(v4.sin_family, AF_INET);
    inet_ntop(AF_INET, &v4.sin_addr, ip, INET_ADDRSTRLEN);
    return ntohs(v4.sin_port);
}

static bool is_free_port(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int rc = bind(fd, (struct sockaddr *)&at, sizeof(at));
    close(fd);
    return rc == 0;
}

/* The first of two side by side, below those that the kernel gives to whoever asks for any. */
static unsigned two_free_ports(void)
{
    unsigned low;
    do
        low = 10000 + (unsigned)(random_u64() % 20000);
    while (!is_free_port(low) || !is_free_port(low + 1));
    return low;
}

static void a_range_of_ports_is_kept_to(void **state)
{
    char device[64], ip[INET_ADDRSTRLEN];
    unsigned low = two_free_ports();
    snprintf(device, sizeof(device), "tcp@127.0.0.1:%u-%u", low, low + 1);
    struct side a = side_open(device, 4096, 0), b = side_open(device, 4096, 0);
    for (int i = 0; i < 5; i++) {
        struct out oa = window_new(&a, 0, 100), ob = window_new(&b, 0, 100);
        unsigned pa = token_port(&oa.token, ip), pb = token_port(&ob.token, ip);
        assert_in_range(pa, low, low + 1);
        assert_in_range(pb, low, low + 1);
        assert_true(pa != pb);
        window_end(&a, &oa, false);
        window_end(&b, &ob, false);
    }
    void *third = NULL;
    struct diag diag = {0};
    assert_int_equal(ofi_owner_ops.open(device, NULL, &diag, &third), S3R_E_RDMA_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "no port of"));
    side_close(&a);
    side_close(&b);
}

static void a_forked_child_does_not_keep_the_port(void **state)
{
    struct side s = side_open(DEVICE, 4096, 0);
    void *m = mover_new();
    unsigned char source[4096] = {0};
    char ip[INET_ADDRSTRLEN];
    struct out o = window_new(&s, 0, 4096), other = window_new(&s, 0, 4096);
    assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, source, 4096, PATIENT_MS), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    struct token stale = o.token;
    window_end(&s, &o, false);
    assert_int_equal(move(m, TRANSFER_WRITE, &stale, 0, source, 4096, PATIENT_MS), S3R_E_RDMA_PEER);
    o = window_new(&s, 0, 4096);
    assert_int_equal(token_port(&o.token, ip), token_port(&stale, ip));
    assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, source, 4096, PATIENT_MS), 0);
    assert_int_equal(move(m, TRANSFER_WRITE, &other.token, 0, source, 4096, PATIENT_MS), 0);
    window_end(&s, &o, true);
    window_end(&s, &other, true);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ofi_mover_ops.close(m);
    side_close(&s);
}

/* The address in the token of an owner that was opened so. */
static void owner_ip(const char *device, const struct sockaddr *local, char *ip)
{
    void *owner = NULL, *region = NULL;
    unsigned char page[64];
    struct diag diag = {0};
    if (ofi_owner_ops.open(device, local, &diag, &owner) != 0)
        fail_msg("%s: %s", device, diag.text);
    struct out o = {0};
    assert_int_equal(ofi_owner_ops.region_add(owner, page, 64, &diag, &region), 0);
    assert_int_equal(ofi_owner_ops.window_open(owner, region, 0, 64, &diag, &o.window, &o.token),
                     0);
    assert_string_equal(o.token.ofi.provider, "tcp");
    assert_true(token_port(&o.token, ip) != 0);
    ofi_owner_ops.window_settle(owner, o.window);
    assert_int_equal(ofi_owner_ops.window_withdraw(owner, o.window, &diag), 0);
    ofi_owner_ops.window_close(owner, o.window);
    ofi_owner_ops.region_remove(owner, region);
    ofi_owner_ops.close(owner);
}

static bool host_has_another_address(char *ip)
{
    struct ifaddrs *all = NULL;
    bool is_found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *i = all; i && !is_found; i = i->ifa_next) {
        is_found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
                   !(i->ifa_flags & IFF_LOOPBACK) && (i->ifa_flags & IFF_RUNNING);
        if (is_found)
            inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, ip, INET_ADDRSTRLEN);
    }
    freeifaddrs(all);
    return is_found;
}

static void the_address_is_the_one_named_else_that_of_the_http_connection(void **state)
{
    char ip[INET_ADDRSTRLEN], other[INET_ADDRSTRLEN];
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(4711)};
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    owner_ip("tcp", (struct sockaddr *)&v4, ip);
    assert_string_equal(ip, "127.0.0.1");
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
    assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
    owner_ip("tcp", (struct sockaddr *)&mapped, ip);
    assert_string_equal(ip, "127.0.0.1");
    owner_ip("tcp@127.0.0.2", (struct sockaddr *)&v4, ip);
    assert_string_equal(ip, "127.0.0.2");
    if (!host_has_another_address(other))
        return;
    owner_ip("tcp", NULL, ip);
    assert_string_not_equal(ip, "127.0.0.1");
    char device[64];
    snprintf(device, sizeof(device), "tcp@%s", other);
    owner_ip(device, (struct sockaddr *)&v4, ip);
    assert_string_equal(ip, other);
}

static void devices_that_cannot_be_used_say_why(void **state)
{
    const struct {
        const char *device, *says;
    } rows[] = {
        {"shm", "cma"},
        {"psm2", "signal"},
        {"nosuch", "no provider nosuch"},
        {"", "1 to 64"},
        {"t p", "1 to 64"},
        {"tcp@127.0.0.1:0", "'0'"},
        {"tcp@127.0.0.1:70000", "'70000'"},
        {"tcp@127.0.0.1:9-8", "'9-8'"},
        {"tcp@127.0.0.1:", "''"},
        {"tcp@[::1", "'['"},
        {"tcp@[::1]x", "'['"},
        {"tcp@", "neither"},
        {"tcp@198.51.100.77", "198.51.100.77: "},
        {"tcp@nosuchdomain", "nosuchdomain"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct diag diag = {0};
        void *half = NULL;
        assert_int_equal(ofi_owner_ops.open(rows[i].device, NULL, &diag, &half),
                         S3R_E_RDMA_UNAVAILABLE);
        if (!strstr(diag.text, rows[i].says))
            fail_msg("'%s': %s", rows[i].device, diag.text);
        diag_clear(&diag);
        assert_int_equal(ofi_mover_ops.open(rows[i].device, &diag, &half), S3R_E_RDMA_UNAVAILABLE);
        assert_true(diag.text[0]);
        assert_null(half);
    }
}

static void ipv6_works_where_the_host_has_it(void **state)
{
    void *owner = NULL, *m = mover_new(), *region = NULL;
    struct diag diag = {0};
    unsigned char page[64], source[64];
    memset(source, 5, 64);
    if (ofi_owner_ops.open("tcp@[::1]", NULL, &diag, &owner) != 0) {
        ofi_mover_ops.close(m);
        skip();
    }
    struct out o = {0};
    assert_int_equal(ofi_owner_ops.region_add(owner, page, 64, &diag, &region), 0);
    assert_int_equal(ofi_owner_ops.window_open(owner, region, 0, 64, &diag, &o.window, &o.token),
                     0);
    assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, source, 64, PATIENT_MS), 0);
    assert_memory_equal(page, source, 64);
    assert_int_equal(ofi_owner_ops.window_withdraw(owner, o.window, &diag), 0);
    ofi_owner_ops.window_close(owner, o.window);
    ofi_owner_ops.region_remove(owner, region);
    ofi_owner_ops.close(owner);
    ofi_mover_ops.close(m);
}

static void names_of_one_wire_are_served_and_others_declined(void **state)
{
    void *m = mover_new();
    struct token t = {.scheme = TOKEN_OFI, .size = 1};
    const struct {
        const char *name;
        bool is_served;
    } rows[] = {{"tcp", true},          {"net", true},  {"xnet", true}, {"xnet.1", true},
                {"tcp;ofi_rxm", false}, {"efa", false}, {"shm", false}, {"TCP", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(t.ofi.provider, sizeof(t.ofi.provider), "%s", rows[i].name);
        assert_int_equal(ofi_mover_ops.serves(m, &t), rows[i].is_served);
    }
    t.scheme = TOKEN_CMA;
    assert_false(ofi_mover_ops.serves(m, &t));
    ofi_mover_ops.close(m);
}

static void a_name_that_is_no_address_is_refused(void **state)
{
    void *m = mover_new();
    unsigned char source[16] = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(9)};
    const size_t lens[] = {1, 2, 15, 17, 192};
    struct token t = {.scheme = TOKEN_OFI, .size = 16, .ofi = {.provider = "tcp"}};
    memcpy(t.ofi.name, &v4, sizeof(v4));
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        t.ofi.name_len = lens[i];
        assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, source, 16, PATIENT_MS),
                         S3R_E_TOKEN_MALFORMED);
    }
    t.ofi.name_len = sizeof(v4);
    memset(t.ofi.name, 0xFF, sizeof(v4));
    assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, source, 16, PATIENT_MS), S3R_E_TOKEN_MALFORMED);
    v4.sin_port = 0;
    memcpy(t.ofi.name, &v4, sizeof(v4));
    assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, source, 16, PATIENT_MS), S3R_E_TOKEN_MALFORMED);
    ofi_mover_ops.close(m);
}

/* Threads and descriptors may go a moment after the call that ended them. */
static void await_at_most(const char *path, size_t most)
{
    int64_t until = clock_mono_ns() + PATIENT_MS * NS_PER_MS;
    while (count_entries(path) > most) {
        if (clock_mono_ns() >= until)
            fail_msg("%s has %zu entries, not %zu", path, count_entries(path), most);
        pause_ms(1);
    }
}

static void two_hundred_open_and_close_leave_nothing_behind(void **state)
{
    size_t fds = 0, threads = 0;
    unsigned char source[4096] = {0};
    for (int i = 0; i < 203; i++) {
        struct side s = side_open(DEVICE, 4096, 0);
        void *m = mover_new();
        struct out o = window_new(&s, 0, 4096);
        assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, source, 4096, PATIENT_MS), 0);
        window_end(&s, &o, i % 2);
        ofi_mover_ops.close(m);
        side_close(&s);
        if (i == 2) {
            fds = count_entries("/proc/self/fd");
            threads = count_entries("/proc/self/task");
        }
    }
    await_at_most("/proc/self/fd", fds);
    await_at_most("/proc/self/task", threads);
}

static void fences_and_failures_leave_no_descriptors_behind(void **state)
{
    struct side s = side_open(DEVICE, 4096, 0);
    void *m = mover_new();
    unsigned char source[4096] = {0};
    size_t fds = 0;
    for (int i = 0; i < 210; i++) {
        struct out o = window_new(&s, 0, 4096);
        assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, source, 4096, PATIENT_MS), 0);
        struct token t = o.token;
        window_end(&s, &o, i % 2);
        assert_int_equal(move(m, TRANSFER_WRITE, &t, 0, source, 4096, PATIENT_MS), S3R_E_RDMA_PEER);
        if (i == 9)
            fds = count_entries("/proc/self/fd");
    }
    /* One that each of the 200 left behind would show, one of a connection that still ends does
     * not. */
    await_at_most("/proc/self/fd", fds + 20);
    ofi_mover_ops.close(m);
    side_close(&s);
}

/* A mover of a process that may open so many descriptors. */
static void *mover_of_few(rlim_t descriptors)
{
    struct rlimit was, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = descriptors;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    void *m = mover_new();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    return m;
}

static void idle_connections_leave_descriptors_for_others(void **state)
{
    void *m = mover_of_few(400);
    unsigned char source[512] = {0};
    size_t before = count_entries("/proc/self/fd"), most = 0;
    for (int i = 0; i < 40; i++) {
        struct side s = side_open(DEVICE, 512, 0);
        struct out o = window_new(&s, 0, 512);
        assert_int_equal(move(m, TRANSFER_WRITE, &o.token, 0, source, 512, PATIENT_MS), 0);
        window_end(&s, &o, true);
        side_close(&s);
        size_t now = count_entries("/proc/self/fd");
        most = now > most ? now : most;
    }
    assert_true(most < before + 400 / 4 + 16);
    ofi_mover_ops.close(m);
}

/* Of all sockets: another sum, others were opened or closed. */
static uint64_t sum_of_sockets(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    uint64_t sum = 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char to[64] = {0};
        unsigned long long inode;
        if (readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1) > 0 &&
            sscanf(to, "socket:[%llu]", &inode) == 1)
            sum += inode;
    }
    closedir(dir);
    return sum;
}

/* Once those of connections that had to be dialled twice are closed. */
static uint64_t sum_of_sockets_at_rest(void)
{
    uint64_t sum, last = sum_of_sockets();
    do {
        sum = last;
        pause_ms(200);
        last = sum_of_sockets();
    } while (last != sum);
    return sum;
}

/* Two pieces of one transfer are on the wire at once. Where there are as many connections as may
 * be, they share the client's own instead of taking another client's from it. */
static void a_client_takes_no_connection_from_another_for_a_second_one(void **state)
{
    void *m = mover_of_few(300);
    struct side sides[5]; /* 300 / 4 / 16 + 1 */
    struct out outs[ARRAY_LEN(sides)];
    unsigned char source[512] = {0};
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        sides[i] = side_open(DEVICE, 1 * MIB, 0);
        outs[i] = window_new(&sides[i], 0, 1 * MIB);
        assert_int_equal(move(m, TRANSFER_WRITE, &outs[i].token, 0, source, 512, PATIENT_MS), 0);
    }
    uint64_t before = sum_of_sockets_at_rest();
    struct steady lanes[2];
    pthread_t threads[ARRAY_LEN(lanes)];
    for (size_t i = 0; i < ARRAY_LEN(lanes); i++)
        threads[i] = steady_start(&lanes[i], m, &outs[0].token, 1 * MIB);
    while (steady_count(&lanes[0]) + steady_count(&lanes[1]) < 100)
        pause_ms(1);
    for (size_t i = 0; i < ARRAY_LEN(lanes); i++)
        steady_end(&lanes[i], threads[i]);
    assert_true(sum_of_sockets_at_rest() == before);
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        window_end(&sides[i], &outs[i], true);
        side_close(&sides[i]);
    }
    ofi_mover_ops.close(m);
}

static int64_t process_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* CPU time, which others' load does not add to; still a machine may be odd for a while, and one
 * interval at rest is proof: who spins has none. */
static bool is_at_rest_for_once(int64_t *ret_spent_ns)
{
    for (int i = 0; i < 20; i++) {
        pause_ms(20);
        int64_t began = process_cpu_ns();
        pause_ms(300);
        *ret_spent_ns = process_cpu_ns() - began;
        if (*ret_spent_ns <= 15 * NS_PER_MS)
            return true;
    }
    return false;
}

static void driver_at_rest(const char *device)
{
    struct side s = side_open(device, 4096, 0);
    for (int is_out = 0; is_out < 3; is_out++) {
        struct out o = {0};
        int64_t spent;
        if (is_out == 1)
            o = window_new(&s, 0, 4096);
        if (!is_at_rest_for_once(&spent))
            fail_msg("%s, windows out %d: %lld us of CPU in 300 ms", device, is_out,
                     (long long)spent / 1000);
        if (o.window)
            window_end(&s, &o, true);
    }
    side_close(&s);
}

static void nothing_spins_while_nothing_moves(void **state)
{
    driver_at_rest(DEVICE);
    driver_at_rest("tcp;ofi_rxm@127.0.0.1");
}

static void a_provider_that_needs_driving_is_driven(void **state)
{
    peers[0] = peer_start();
    expect(peer_ask(&peers[0], "mover tcp;ofi_rxm@127.0.0.1"), "ok");
    struct side s = side_open("tcp;ofi_rxm@127.0.0.1", 4 * MIB, 0);
    char hex[2 * sizeof(struct token) + 1];
    const size_t lens[] = {1, 4096, 4 * MIB};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        struct out o = window_new(&s, 0, lens[i]);
        token_to_hex(&o.token, hex);
        expect(peer_ask(&peers[0], "move w 0 %zu 7 %d %s", lens[i], PATIENT_MS, hex), "ok");
        assert_int_equal(pattern_differs(s.memory.bytes, lens[i], 7), -1);
        expect(peer_ask(&peers[0], "move r 0 %zu 7 %d %s", lens[i], PATIENT_MS, hex), "ok");
        window_end(&s, &o, i % 2);
    }
    side_close(&s);
}

static void the_programs_signal_handlers_are_left_alone(void **state)
{
    const char *const devices[] = {DEVICE, "tcp;ofi_rxm@127.0.0.1"};
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        peers[0] = peer_start();
        expect(peer_ask(&peers[0], "signals %s", devices[i]), "0");
        peer_stop(&peers[0]);
    }
}

static void descriptions_name_provider_address_and_state(void **state)
{
    struct side s = side_open(DEVICE, 4096, 0);
    void *m = mover_new();
    char text[256];
    ofi_owner_ops.describe(s.owner, text, sizeof(text));
    assert_non_null(strstr(text, "ofi:tcp (libfabric 1."));
    assert_non_null(strstr(text, "at 127.0.0.1:"));
    assert_non_null(strstr(text, "up, 0 windows out"));
    ofi_mover_ops.describe(m, text, sizeof(text));
    assert_non_null(strstr(text, "ofi:tcp (libfabric 1."));
    assert_non_null(strstr(text, "up, 0 busy"));
    ofi_mover_ops.close(m);
    side_close(&s);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_main();
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        WITH_PEERS(every_byte_arrives_both_ways_at_every_size),
        cmocka_unit_test(parts_of_windows_land_where_they_belong),
        cmocka_unit_test(a_range_outside_the_window_is_refused_before_anything_moves),
        WITH_PEERS(forged_tokens_touch_nothing_and_cost_nobody_else),
        cmocka_unit_test(a_forged_token_moves_none_of_several_pieces),
        cmocka_unit_test(nothing_lands_in_a_withdrawn_window),
        cmocka_unit_test(windows_that_come_and_go_leave_others_alone),
        cmocka_unit_test(cancellation_ends_a_transfer_before_its_next_piece),
        cmocka_unit_test(many_threads_write_to_one_owner_at_once),
        cmocka_unit_test(memory_that_cannot_be_written_is_opened_for_reading_only),
        cmocka_unit_test(no_two_windows_share_a_key_and_none_is_small),
        cmocka_unit_test(a_range_of_ports_is_kept_to),
        cmocka_unit_test(a_forked_child_does_not_keep_the_port),
        cmocka_unit_test(the_address_is_the_one_named_else_that_of_the_http_connection),
        cmocka_unit_test(devices_that_cannot_be_used_say_why),
        cmocka_unit_test(ipv6_works_where_the_host_has_it),
        cmocka_unit_test(names_of_one_wire_are_served_and_others_declined),
        cmocka_unit_test(a_name_that_is_no_address_is_refused),
        cmocka_unit_test(two_hundred_open_and_close_leave_nothing_behind),
        cmocka_unit_test(fences_and_failures_leave_no_descriptors_behind),
        cmocka_unit_test(idle_connections_leave_descriptors_for_others),
        cmocka_unit_test(a_client_takes_no_connection_from_another_for_a_second_one),
        cmocka_unit_test(nothing_spins_while_nothing_moves),
        WITH_PEERS(a_provider_that_needs_driving_is_driven),
        WITH_PEERS(the_programs_signal_handlers_are_left_alone),
        cmocka_unit_test(descriptions_name_provider_address_and_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
