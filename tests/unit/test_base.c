/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/num.h"
#include "base/pages.h"
#include "base/text.h"
#include "base/work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void numbers_are_whole_strings_in_range(void **state)
{
    static const struct {
        const char *text;
        bool is_good;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},   {"18446744073709551615", true, UINT64_MAX},
        {"007", true, 7}, {"18446744073709551616", false, 0},
        {"", false, 0},   {"+1", false, 0},
        {"-1", false, 0}, {" 1", false, 0},
        {"1 ", false, 0}, {"0x1", false, 0},
        {"1a", false, 0}, {"99999999999999999999999", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t n = 42;
        bool is_good = num_parse_dec(cases[i].text, strlen(cases[i].text), UINT64_MAX, &n);
        assert_int_equal(is_good, cases[i].is_good);
        assert_int_equal(n, is_good ? cases[i].value : 42);
    }
    uint64_t n;
    assert_false(num_parse_dec("11", 2, 10, &n));
    assert_true(num_parse_hex("fF", 2, 1, 16, &n));
    assert_int_equal(n, 255);
    assert_false(num_parse_hex("", 0, 1, 16, &n));
    assert_false(num_parse_hex("00000000000000000", 17, 1, 16, &n));
    assert_false(num_parse_hex("1g", 2, 1, 16, &n));
    assert_true(span_fits(UINT64_MAX, 0, UINT64_MAX));
    assert_false(span_fits(2, UINT64_MAX, UINT64_MAX));
}

static void base64_is_canonical(void **state)
{
    unsigned char crc[8];
    char text[BASE64_LEN(8) + 1];
    assert_true(base64_decode("rosUhgp5mIg=", 12, crc, 8));
    base64_encode(crc, 8, text);
    assert_string_equal(text, "rosUhgp5mIg=");
    assert_false(base64_decode("rosUhgp5mIh=", 12, crc, 8)); /* padding bits set */
    assert_false(base64_decode("rosUhgp5mIg", 11, crc, 8));
    assert_false(base64_decode("rosUhgp5mI==", 12, crc, 8));
    assert_false(base64_decode("rosU gp5mIg=", 12, crc, 8));
    static const char *const vectors[] = {
        "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"}; /* RFC 4648, section 10 */
    for (size_t len = 0; len < ARRAY_LEN(vectors); len++) {
        char out[16], back[8];
        base64_encode("foobar", len, out);
        assert_string_equal(out, vectors[len]);
        assert_true(base64_decode(out, strlen(out), back, len));
        assert_memory_equal(back, "foobar", len);
    }
}

static void dates_round_trip_and_impossible_ones_are_refused(void **state)
{
    int64_t s = 0;
    char text[CLOCK_TEXT_MAX];
    assert_true(clock_parse_basic("20260102T030405Z", 16, &s));
    assert_int_equal(s, 1767323045);
    clock_print_basic(s, text);
    assert_string_equal(text, "20260102T030405Z");
    clock_print_http(s, text);
    assert_string_equal(text, "Fri, 02 Jan 2026 03:04:05 GMT");
    clock_print_iso(s * 1000 + 7, text);
    assert_string_equal(text, "2026-01-02T03:04:05.007Z");
    static const char *const same[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                       "Sunday, 06-Nov-94 08:49:37 GMT",
                                       "Sun Nov  6 08:49:37 1994"}; /* RFC 9110, 5.6.7 */
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        assert_true(clock_parse_http(same[i], &s));
        assert_int_equal(s, 784111777);
    }
    static const char *const bad[] = {"20260230T030405Z", "20261302T030405Z", "20260102T240405Z",
                                      "2026-01-02T03:04", "20260102T030405X"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(clock_parse_basic(bad[i], strlen(bad[i]), &s));
    assert_false(clock_parse_http("Sun, 06 Nov 1994 08:49:37 GMT+1", &s));
    assert_false(clock_parse_http("yesterday", &s));
    int64_t ms = 0;
    assert_true(clock_parse_iso("2026-01-02T03:04:05.678Z", &ms));
    clock_print_iso(ms, text);
    assert_string_equal(text, "2026-01-02T03:04:05.678Z");
    assert_true(clock_parse_iso("2026-01-02T03:04:05Z", &ms) && ms % 1000 == 0);
    assert_true(clock_parse_iso("2026-01-02T03:04:05.5Z", &ms) && ms % 1000 == 500);
    assert_true(clock_parse_iso("2026-01-02T03:04:05.123456789Z", &ms) && ms % 1000 == 123);
    static const char *const bad_iso[] = {"",
                                          "2026-01-02",
                                          "2026-01-02T03:04:05",
                                          "x",
                                          "2026-02-31T03:04:05Z",
                                          "2026-01-02T03:04:05.Z",
                                          "2026-01-02T03:04:05.1",
                                          "2026-01-02T03:04:05+01:00"};
    for (size_t i = 0; i < ARRAY_LEN(bad_iso); i++)
        assert_false(clock_parse_iso(bad_iso[i], &ms));
}

static void text_stops_at_its_maximum_and_says_so_once(void **state)
{
    struct text t;
    text_init(&t, 10);
    text_str(&t, "12345");
    text_fmt(&t, "%d", 67890);
    assert_int_equal(text_error(&t), 0);
    assert_string_equal(text_cstr(&t), "1234567890");
    text_char(&t, 'x');
    assert_int_equal(text_error(&t), S3R_E_ENTITY_TOO_LARGE);
    text_str(&t, "");
    assert_int_equal(t.len, 10);
    assert_null(text_take(&t));
    text_reset(&t);
    char *taken = text_take(&t);
    assert_string_equal(taken, "");
    free(taken);
    text_fini(&t);
}

static void errors_have_a_row_each(void **state)
{
    assert_string_equal(error_s3_code(S3R_E_NO_SUCH_KEY), "NoSuchKey");
    assert_int_equal(error_http_status(S3R_E_RDMA_TRANSFER), 503);
    assert_int_equal(error_class_of(S3R_E_BAD_FRAMING), ERR_CLASS_PEER);
    assert_string_equal(error_name(-100000), "UNKNOWN");
    assert_int_equal(error_from_s3_code("NoSuchUpload"), S3R_E_NO_SUCH_UPLOAD);
    assert_int_equal(error_from_s3_code("Nonsense"), 0);
    struct diag diag = {0};
    assert_string_equal(diag_text(&diag, S3R_E_NO_SUCH_KEY), "the key does not exist");
    assert_int_equal(diag_fail(&diag, S3R_E_BUSY, "first %d", 1), S3R_E_BUSY);
    assert_int_equal(diag_fail(&diag, S3R_E_BUSY, "second"), S3R_E_BUSY);
    assert_string_equal(diag_text(&diag, S3R_E_BUSY), "first 1");
}

static void log_values_stay_one_token(void **state)
{
    char out[32];
    assert_string_equal(log_escape("a b\n\"\\\x80", 7, out, sizeof out),
                        "a\\x20b\\x0a\\x22\\x5c\\x80");
    assert_string_equal(log_escape("\n\n\n", 3, out, 10), "\\x0a\\x0a");
}

static void digests_are_those_of_the_standards(void **state)
{
    char hex[65];
    sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    struct digest *d;
    unsigned char sum[DIGEST_LEN_MAX];
    assert_int_equal(digest_create(DIGEST_MD5, &d), 0);
    for (int again = 0; again < 2; again++) { /* a final leaves it ready for the next use */
        digest_update(d, "a", 1);
        digest_update(d, "bc", 2);
        assert_int_equal(digest_final(d, sum), 16);
        hex_encode(sum, 16, hex);
        assert_string_equal(hex, "900150983cd24fb0d6963f7d28e17f72");
    }
    digest_destroy(d);
}

struct counted {
    struct work_job job;
    atomic_int *runs;
};

static void count_run(void *arg)
{
    struct counted *c = arg;
    atomic_fetch_add(c->runs, 1);
}

static void pool_runs_each_job_once_and_drains_on_destroy(void **state)
{
    struct work_pool *pool;
    static struct counted jobs[1000];
    atomic_int runs = 0;
    assert_int_equal(work_pool_create("test", 4, 1000, &pool), 0);
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        jobs[i].runs = &runs;
        assert_int_equal(work_submit(pool, &jobs[i].job, count_run, &jobs[i]), 0);
    }
    work_pool_destroy(pool);
    assert_int_equal(runs, 1000);
}

struct gated {
    struct work_job job;
    pthread_mutex_t *gate;
    atomic_int *runs;
};

static void wait_at_gate(void *arg)
{
    struct gated *g = arg;
    atomic_fetch_add(g->runs, 1);
    pthread_mutex_lock(g->gate);
    pthread_mutex_unlock(g->gate);
}

static void pool_lets_others_pass_one_owner_who_has_his_share(void **state)
{
    struct work_pool *pool;
    static struct gated stuck[20], other;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER, open_gate = PTHREAD_MUTEX_INITIALIZER;
    atomic_int stuck_runs = 0, other_runs = 0;
    struct timespec pause = {.tv_nsec = NS_PER_MS};
    assert_int_equal(work_pool_create("test", 4, 100, &pool), 0);
    work_pool_set_share(pool, 2);
    pthread_mutex_lock(&gate);
    for (size_t i = 0; i < ARRAY_LEN(stuck); i++) {
        stuck[i] = (struct gated){.gate = &gate, .runs = &stuck_runs};
        assert_int_equal(work_submit_owned(pool, &stuck[i].job, 7, wait_at_gate, &stuck[i]), 0);
    }
    other = (struct gated){.gate = &open_gate, .runs = &other_runs};
    assert_int_equal(work_submit_owned(pool, &other.job, 8, wait_at_gate, &other), 0);
    while (atomic_load(&other_runs) == 0 || atomic_load(&stuck_runs) < 2)
        nanosleep(&pause, NULL); /* hangs if the first owner has all threads */
    assert_int_equal(atomic_load(&stuck_runs), 2);
    pthread_mutex_unlock(&gate);
    work_pool_destroy(pool);
    assert_int_equal(atomic_load(&stuck_runs), 20);
}

static void read_first_byte(void *arg)
{
    volatile char *p = arg;
    (void)*p;
}

static void a_page_that_cannot_be_read_is_an_error_of_that_call(void **state)
{
    char path[] = "/tmp/s3rdma-guard-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    assert_int_equal(ftruncate(fd, 8192), 0);
    char *map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(guarded_read(read_first_byte, map + 4096));
    assert_int_equal(ftruncate(fd, 4096), 0); /* the second page is gone: SIGBUS */
    for (int again = 0; again < 3; again++)
        assert_false(guarded_read(read_first_byte, map + 4096));
    assert_true(guarded_read(read_first_byte, map));
    munmap(map, 8192);
    close(fd);
}

/* Of the mapping that begins at `pages`. */
static bool wishes_for_huge_pages(const void *pages)
{
    char line[512], begin[32];
    bool is_it = false;
    snprintf(begin, sizeof(begin), "%llx-", (unsigned long long)(uintptr_t)pages);
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (strncmp(line, begin, strlen(begin)) == 0)
            is_it = true;
        else if (is_it && strncmp(line, "VmFlags:", 8) == 0)
            break;
    }
    bool found = is_it && strstr(line, " hg") != NULL;
    fclose(maps);
    return found;
}

static void pages_are_whole_zeroed_and_huge_where_they_can_be(void **state)
{
    static const size_t lens[] = {0, 1, 4096, 4097, 2 * MIB, 8 * MIB + 1};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        char *pages = pages_alloc(lens[i]);
        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % 4096, 0);
        size_t whole = lens[i] > 0 ? (lens[i] + 4095) / 4096 * 4096 : 4096;
        for (size_t at = 0; at < whole; at++)
            assert_int_equal(pages[at], 0);
        memset(pages, 1, whole);
        pages_free(pages, lens[i]);
    }
    assert_null(pages_alloc(SIZE_MAX));
    assert_null(pages_alloc(SIZE_MAX / 2));
    pages_free(NULL, 5);
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
        skip();
    char *pages = pages_alloc(4 * MIB);
    assert_true(wishes_for_huge_pages(pages));
    pages_free(pages, 4 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_whole_strings_in_range),
        cmocka_unit_test(base64_is_canonical),
        cmocka_unit_test(dates_round_trip_and_impossible_ones_are_refused),
        cmocka_unit_test(text_stops_at_its_maximum_and_says_so_once),
        cmocka_unit_test(errors_have_a_row_each),
        cmocka_unit_test(log_values_stay_one_token),
        cmocka_unit_test(digests_are_those_of_the_standards),
        cmocka_unit_test(pool_runs_each_job_once_and_drains_on_destroy),
        cmocka_unit_test(a_page_that_cannot_be_read_is_an_error_of_that_call),
        cmocka_unit_test(pool_lets_others_pass_one_owner_who_has_his_share),
        cmocka_unit_test(pages_are_whole_zeroed_and_huge_where_they_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
