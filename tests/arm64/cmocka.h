/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka.h - as much of cmocka as the CRCs' unit tests use, for a processor whose cmocka is not
 * installed here. A failed assertion ends the program. */
#ifndef S3R_TESTS_ARM64_CMOCKA_H
#define S3R_TESTS_ARM64_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(test)                                                                     \
    {                                                                                              \
#test, test                                                                                \
    }
#define print_message printf
#define assert_int_equal(a, b)                                                                     \
    do {                                                                                           \
        unsigned long long a_ = (a), b_ = (b);                                                     \
        if (a_ != b_) {                                                                            \
            printf("%s:%d: 0x%llx is not 0x%llx\n", __FILE__, __LINE__, a_, b_);                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_tests(tests, sizeof(tests) / sizeof((tests)[0]))

static inline int run_tests(const struct CMUnitTest *tests, size_t count)
{
    void *state = NULL;
    for (size_t i = 0; i < count; i++) {
        tests[i].run(&state);
        printf("ok %s\n", tests[i].name);
    }
    return 0;
}

#endif
