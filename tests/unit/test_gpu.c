/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gpu_side.h"

#include "rdma/gpu.h"
#include "rdma/loop/loop.h"
#include "rdma/mover.h"
#include "rdma/owner.h"

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
    loop_reset();
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

/* ---- which way it is registered ---- */

static struct owner *owner_of(const char *devices)
{
    struct owner *o;
    struct diag diag = {0};
    if (owner_open(devices, NULL, &diag, &o) != 0)
        fail_msg("%s", diag.text);
    return o;
}

/* Through a window of all of it, both ways, at an offset. */
static void move_there_and_back(struct owner *o, unsigned char *device, const char *name)
{
    unsigned char back[1000];
    struct mover *m;
    struct owner_window *w;
    struct token token;
    struct diag diag = {0};
    uint64_t moved;
    if (mover_open(name, &diag, &m) != 0)
        fail_msg("%s", diag.text);
    if (owner_window_open(o, device, 0, LEN, &diag, &w) != 0)
        fail_msg("%s", diag.text);
    const char *text = owner_window_token(w);
    assert_int_equal(token_parse(text, strlen(text), NULL, &token), 0);
    fill(host, LEN, 9);
    struct transfer t = {.token = &token, .local = host, .len = LEN};
    assert_int_equal(mover_transfer(m, NULL, &t, &diag, &moved), 0);
    t = (struct transfer){.direction = TRANSFER_READ,
                          .token = &token,
                          .window_off = 77,
                          .local = back,
                          .len = sizeof(back)};
    assert_int_equal(mover_transfer(m, NULL, &t, &diag, &moved), 0);
    assert_memory_equal(shadow_of(device), host, LEN);
    assert_memory_equal(back, host + 77, sizeof(back));
    owner_window_close(w);
    mover_close(m);
}

static void a_dma_buf_comes_first_then_peer_memory(void **state)
{
    static const struct {
        bool takes_dmabufs, takes_peer_memory;
        const char *refused;
        unsigned dmabufs, peers;
    } rows[] = {
        {true, true, "", 1, 0},
        {false, true, "", 1, 1},
        {true, true, "dmabuf", 0, 1},
    };
    unsigned char *device = device_alloc(LEN + 100);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        clean(NULL);
        setenv(REFUSES, rows[i].refused, 1);
        loop_script("", &(struct loop_script){.takes_dmabufs = rows[i].takes_dmabufs,
                                              .takes_peer_memory = rows[i].takes_peer_memory});
        struct owner *o = owner_of("loop");
        unsigned ordered = gpu.count("order"), copied = gpu.count("dtoh");
        assert_int_equal(owner_register(o, device + 100, LEN, NULL), 0);
        assert_int_equal(loop_counts("").dmabufs_offered, rows[i].dmabufs);
        assert_int_equal(loop_counts("").peers_offered, rows[i].peers);
        assert_int_equal(gpu.count("order"), ordered + 1);
        move_there_and_back(o, device + 100, "loop");
        assert_int_equal(gpu.count("dtoh") > copied, rows[i].peers > 0);
        assert_int_equal(owner_deregister(o, device + 100), 0);
        assert_int_equal(loop_counts("").registrations, 0);
        owner_close(o);
        assert_no_context_is_left();
    }
    device_free(device);
}

static void memory_that_no_rail_reaches_is_not_registered(void **state)
{
    static const char *const devices[] = {"loop", "cma", "cma,loop"};
    void *device = device_alloc(LEN);
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        struct diag diag = {0};
        struct owner *o = owner_of(devices[i]);
        assert_int_equal(owner_register(o, device, LEN, &diag), S3R_E_RDMA_REGISTER);
        assert_true(diag.text[0] != '\0');
        assert_int_equal(owner_registered_len(o), 0);
        owner_close(o);
    }
    device_free(device);
}

static void memory_whose_copies_cannot_be_ordered_is_not_registered(void **state)
{
    void *device = device_alloc(LEN);
    struct owner *o = owner_of("loop");
    setenv(REFUSES, "order", 1);
    loop_script("", &(struct loop_script){.takes_dmabufs = true, .takes_peer_memory = true});
    assert_int_equal(owner_register(o, device, LEN, NULL), S3R_E_RDMA_REGISTER);
    assert_int_equal(loop_counts("").dmabufs_offered + loop_counts("").peers_offered, 0);
    owner_close(o);
    device_free(device);
}

static void windows_open_on_the_rails_that_reach_the_memory(void **state)
{
    unsigned char *device = device_alloc(LEN);
    struct owner *o = owner_of("cma,loop:blind,loop:a");
    loop_script("a", &(struct loop_script){.takes_dmabufs = true});
    assert_int_equal(owner_register(o, device, LEN, NULL), 0);
    for (int i = 0; i < 6; i++)
        move_there_and_back(o, device, "loop:a");
    assert_int_equal(owner_deregister(o, device), 0);
    owner_close(o);
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
        cmocka_unit_test_setup(a_dma_buf_comes_first_then_peer_memory, clean),
        cmocka_unit_test_setup(memory_that_no_rail_reaches_is_not_registered, clean),
        cmocka_unit_test_setup(memory_whose_copies_cannot_be_ordered_is_not_registered, clean),
        cmocka_unit_test_setup(windows_open_on_the_rails_that_reach_the_memory, clean),
    };
    return cmocka_run_group_tests(tests, load_stand_in, NULL);
}
