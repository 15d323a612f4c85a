/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gpu_side.h"

#include "rdma/gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LEN 10000

static unsigned char host[LEN];

static int load_stand_in(void **state)
{
    gpu_load();
    return 0;
}

static int clean(void **state)
{
    unsetenv(REFUSES);
    memset(host, 0, LEN);
    return 0;
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 7 + seed);
}

/* What these tests rest on. */
static void memory_of_the_device_faults_when_it_is_touched(void **state)
{
    char *device = device_alloc(LEN);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)device = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    device_free(device);
}

static void *copy_there_and_back(void *arg)
{
    char *device = arg;
    unsigned char back[100];
    struct diag diag = {0};
    fill(host, LEN, 1);
    if (gpu_copy_from_host(device, host, LEN, &diag) != 0 ||
        gpu_copy_to_host(back, device + 50, sizeof(back), &diag) != 0)
        fail_msg("%s", diag.text);
    assert_memory_equal(shadow_of(device), host, LEN);
    assert_memory_equal(back, host + 50, sizeof(back));
    return NULL;
}

static void bytes_are_copied_on_threads_without_a_context(void **state)
{
    CUdeviceptr mapped;
    void *device = device_alloc(LEN);
    pthread_t thread;
    copy_there_and_back(device);
    assert_int_equal(pthread_create(&thread, NULL, copy_there_and_back, device), 0);
    pthread_join(thread, NULL);
    assert_int_equal(gpu.alloc_mapped(&mapped, LEN), 0);
    copy_there_and_back((void *)(uintptr_t)mapped);
    assert_no_context_is_left();
    device_free(device);
    device_free((void *)(uintptr_t)mapped);
}

static void what_the_driver_refuses_is_an_error_in_its_words(void **state)
{
    static const char *const what[] = {"dtoh", "htod", "context"};
    char *device = device_alloc(LEN);
    for (size_t i = 0; i < ARRAY_LEN(what); i++) {
        struct diag diag = {0};
        setenv(REFUSES, what[i], 1);
        int e = i == 0 ? gpu_copy_to_host(host, device, LEN, &diag)
                       : gpu_copy_from_host(device, host, LEN, &diag);
        assert_int_equal(e, S3R_E_INTERNAL);
        assert_non_null(strstr(diag.text, "CUDA_ERROR_INVALID_"));
        assert_no_context_is_left();
    }
    unsetenv(REFUSES);
    struct diag diag = {0};
    assert_int_equal(gpu_copy_to_host(host, device + 1, LEN, &diag), S3R_E_INTERNAL);
    assert_no_context_is_left();
    device_free(device);
}

static void an_export_shows_the_memory_at_its_offset(void **state)
{
    unsigned char *device = device_alloc(LEN);
    struct gpu_export export = {.fd = -1};
    struct diag diag = {0};
    fill(shadow_of(device), LEN, 3);
    if (gpu_export(device + 100, 5000, &diag, &export) != 0)
        fail_msg("%s", diag.text);
    assert_int_equal(export.off, 100);
    assert_int_not_equal(fcntl(export.fd, F_GETFD) & FD_CLOEXEC, 0);
    unsigned char *seen = mmap(NULL, LEN, PROT_READ, MAP_SHARED, export.fd, 0);
    assert_true(seen != MAP_FAILED);
    assert_memory_equal(seen + export.off, shadow_of(device) + 100, 5000);
    munmap(seen, LEN);
    close(export.fd);
    setenv(REFUSES, "dmabuf", 1);
    assert_int_equal(gpu_export(device, LEN, &diag, &export), S3R_E_INTERNAL);
    assert_non_null(strstr(diag.text, "CUDA_ERROR_NOT_SUPPORTED"));
    assert_no_context_is_left();
    device_free(device);
}

static void copies_of_the_drivers_are_put_in_order(void **state)
{
    void *device = device_alloc(LEN);
    unsigned before = gpu.count("order");
    assert_int_equal(gpu_order_copies(device, NULL), 0);
    assert_int_equal(gpu.count("order"), before + 1);
    setenv(REFUSES, "order", 1);
    assert_int_equal(gpu_order_copies(device, NULL), S3R_E_INTERNAL);
    device_free(device);
}

/* The driver knows nothing there of what it knew: ordinary memory stays what it is. */
static void a_forked_child_has_no_gpu(void **state)
{
    void *device = device_alloc(LEN);
    pid_t pid = fork();
    if (pid == 0)
        _exit(gpu_memory_type(host) == GPU_HOST && gpu_copy_to_host(host, device, 1, NULL) != 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    device_free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_of_the_device_faults_when_it_is_touched, clean),
        cmocka_unit_test_setup(bytes_are_copied_on_threads_without_a_context, clean),
        cmocka_unit_test_setup(what_the_driver_refuses_is_an_error_in_its_words, clean),
        cmocka_unit_test_setup(an_export_shows_the_memory_at_its_offset, clean),
        cmocka_unit_test_setup(copies_of_the_drivers_are_put_in_order, clean),
        cmocka_unit_test_setup(a_forked_child_has_no_gpu, clean),
    };
    return cmocka_run_group_tests(tests, load_stand_in, NULL);
}
