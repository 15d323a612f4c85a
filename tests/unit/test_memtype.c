/* SPDX-License-Identifier: Apache-2.0 */
#include "cm.h"

#include "s3rdma.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Loaded by its path, it is what the name libcuda.so.1 then stands for in this process. */
static int load_stand_in(void **state)
{
    char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    snprintf(strrchr(path, '/'), 64, "/../helpers/libcuda_stand_in.so");
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        fail_msg("%s", dlerror());
    return 0;
}

static void the_driver_says_what_memory_a_pointer_is(void **state)
{
    static const struct {
        uintptr_t pointer;
        int type;
    } rows[] = {
        {0x1000, 0}, /* host memory that the driver pinned */
        {0x2000, 2}, /* a device's */
        {0x3000, 1}, /* managed, whatever else it is */
        {0x4000, 3}, /* a type that is neither */
        {0x5000, 0}, /* the driver does not know the pointer */
        {0x6000, 0}, /* the driver is not in use */
        {0x7000, 0}, /* no context */
        {0x8000, 3}, /* the driver cannot tell */
        {0, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(s3rdma_client_memory_type((const void *)rows[i].pointer), rows[i].type);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_says_what_memory_a_pointer_is),
    };
    return cmocka_run_group_tests(tests, load_stand_in, NULL);
}
