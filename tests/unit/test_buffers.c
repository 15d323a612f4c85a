/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "base/buffers.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LEN 8192
#define LARGE_LEN (8 << 20)

static struct buffer_pool *make_pool(size_t kept_max)
{
    struct buffer_pool *pool = NULL;
    assert_int_equal(buffer_pool_create(LEN, kept_max, &pool), 0);
    return pool;
}

static void a_block_is_page_aligned_and_wholly_its_borrowers(void **state)
{
    struct buffer_pool *pool = make_pool(2);
    struct buffer *a = buffer_take(pool), *b = buffer_take(pool);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)a->bytes % 4096, 0);
    memset(a->bytes, 1, LEN);
    memset(b->bytes, 2, LEN);
    assert_int_equal(a->bytes[0], 1);
    assert_int_equal(a->bytes[LEN - 1], 1);
    buffer_give(a);
    buffer_give(b);
    buffer_give(NULL);
    buffer_pool_destroy(pool);
}

static void what_is_given_back_is_lent_again_last_first(void **state)
{
    struct buffer_pool *pool = make_pool(2);
    struct buffer *a = buffer_take(pool), *b = buffer_take(pool);
    buffer_give(a);
    buffer_give(b);
    assert_ptr_equal(buffer_take(pool), b);
    assert_ptr_equal(buffer_take(pool), a);
    buffer_give(a);
    buffer_give(b);
    buffer_pool_destroy(pool);
}

/* Such blocks are mappings of their own: the allocator counts them. */
static void no_more_are_kept_than_was_allowed(void **state)
{
    struct buffer_pool *pool = NULL;
    struct buffer *lent[3];
    assert_int_equal(buffer_pool_create(LARGE_LEN, 1, &pool), 0);
    size_t before = mallinfo2().hblks;
    for (size_t i = 0; i < ARRAY_LEN(lent); i++) {
        lent[i] = buffer_take(pool);
        assert_non_null(lent[i]);
    }
    bool is_counted = mallinfo2().hblks == before + 3; /* not by a sanitizer's allocator */
    for (size_t i = 0; i < ARRAY_LEN(lent); i++)
        buffer_give(lent[i]);
    if (is_counted)
        assert_int_equal(mallinfo2().hblks, before + 1);
    struct buffer *kept = buffer_take(pool);
    assert_ptr_equal(kept, lent[0]);
    buffer_give(kept);
    buffer_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_page_aligned_and_wholly_its_borrowers),
        cmocka_unit_test(what_is_given_back_is_lent_again_last_first),
        cmocka_unit_test(no_more_are_kept_than_was_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
