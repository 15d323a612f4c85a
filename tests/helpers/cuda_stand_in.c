/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for libcuda.so.1 with the one call that is asked for: it tells what memory a pointer
 * is by the pointer's value, as test_memtype has it. */
__attribute__((visibility("default"))) int cuPointerGetAttribute(void *data, int attribute,
                                                                 unsigned long long pointer);

enum { MEMORY_TYPE = 2, IS_MANAGED = 8 };

static const struct {
    unsigned long long pointer;
    int error;
    unsigned type, is_managed;
} rows[] = {
    {0x1000, 0, 1, 0}, {0x2000, 0, 2, 0}, {0x3000, 0, 2, 1},   {0x4000, 0, 4, 0},
    {0x5000, 1, 0, 0}, {0x6000, 3, 0, 0}, {0x7000, 201, 0, 0}, {0x8000, 999, 0, 0},
};

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].pointer != pointer)
            continue;
        if (rows[i].error == 0)
            *(unsigned *)data = attribute == IS_MANAGED ? rows[i].is_managed : rows[i].type;
        return rows[i].error;
    }
    return 1;
}
