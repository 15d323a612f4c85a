/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gpu_side.h"

#include "base/attr.h"
#include "s3rdma.h"

static int load_stand_in(void **state)
{
    gpu_load();
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
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(s3rdma_client_memory_type((const void *)rows[i].pointer), rows[i].type);
}

static void memory_of_all_kinds_is_told_apart(void **state)
{
    CUdeviceptr mapped, managed;
    char *device = device_alloc(5000);
    assert_int_equal(gpu.alloc_mapped(&mapped, 10), 0);
    assert_int_equal(gpu.alloc_managed(&managed, 10, 1), 0);
    assert_int_equal(s3rdma_client_memory_type(device), 2);
    assert_int_equal(s3rdma_client_memory_type(device + 4999), 2);
    assert_int_equal(s3rdma_client_memory_type((void *)(uintptr_t)mapped), 2);
    assert_int_equal(s3rdma_client_memory_type((void *)(uintptr_t)managed), 1);
    assert_int_equal(s3rdma_client_memory_type(&device), 0);
    device_free(device);
    device_free((void *)(uintptr_t)mapped);
    device_free((void *)(uintptr_t)managed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_says_what_memory_a_pointer_is),
        cmocka_unit_test(memory_of_all_kinds_is_told_apart),
    };
    return cmocka_run_group_tests(tests, load_stand_in, NULL);
}
