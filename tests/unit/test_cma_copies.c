/* SPDX-License-Identifier: Apache-2.0 */
/* Several copies of the library in one process: each has a window table of its own. */
#include "cma_side.h"

#include "rdma/cma/table.h"
#include "s3rdma.h"

#include <dlfcn.h>

/* The other copy, as a program has it that loads libminiocpp.so beside libs3rdma.so.0. */
static struct {
    void *lib;
    S3RdmaClientHandle (*init)(const char *device, char *err, size_t len);
    void (*free)(S3RdmaClientHandle client);
    int (*reg)(S3RdmaClientHandle client, void *ptr, size_t size);
    int (*dereg)(S3RdmaClientHandle client, void *ptr);
    int (*get_token)(S3RdmaClientHandle client, void *ptr, size_t size, size_t offset,
                     char **token);
    void (*free_token)(char *token);
} other;

static void *symbol(const char *name)
{
    void *at = dlsym(other.lib, name);
    assert_non_null(at);
    return at;
}

static int load(void **state)
{
    other.lib = dlopen(S3RDMA_LIB, RTLD_NOW | RTLD_LOCAL);
    if (!other.lib)
        fail_msg("%s", dlerror());
    *(void **)&other.init = symbol("s3rdma_client_init");
    *(void **)&other.free = symbol("s3rdma_client_free");
    *(void **)&other.reg = symbol("s3rdma_client_register");
    *(void **)&other.dereg = symbol("s3rdma_client_deregister");
    *(void **)&other.get_token = symbol("s3rdma_client_get_token");
    *(void **)&other.free_token = symbol("s3rdma_client_free_token");
    return 0;
}

static S3RdmaClientHandle open_other(unsigned char *memory)
{
    char why[512] = "";
    S3RdmaClientHandle client = other.init("cma", why, sizeof why);
    if (!client)
        fail_msg("%s", why);
    assert_int_equal(other.reg(client, memory, LEN), 0);
    return client;
}

static void close_other(S3RdmaClientHandle client, unsigned char *memory, char *token)
{
    other.free_token(token);
    assert_int_equal(other.dereg(client, memory), 0);
    other.free(client);
}

static int move(struct side *s, const char *token, unsigned char value)
{
    unsigned char bytes[4096];
    memset(bytes, value, sizeof bytes);
    return moved_by(s->mover, token, TRANSFER_WRITE, 0, bytes, sizeof bytes);
}

static void windows_of_both_copies_are_served(void **state)
{
    struct side *s = *state;
    char *theirs;
    unsigned char *memory = map_memory(LEN);
    struct owner_window *ours = opened(s, 0, 4096);
    assert_int_equal(move(s, owner_window_token(ours), 1), 0); /* the first table is known now */
    S3RdmaClientHandle client = open_other(memory);
    assert_int_equal(other.get_token(client, memory, 4096, 0, &theirs), 0);
    for (unsigned char i = 2; i < 10; i++) {
        assert_int_equal(move(s, theirs, i), 0);
        assert_true(is_all(memory, 4096, i));
        assert_int_equal(move(s, owner_window_token(ours), (unsigned char)(i + 100)), 0);
        assert_true(is_all(s->memory, 4096, (unsigned char)(i + 100)));
    }
    owner_window_close(ours);
    assert_int_equal(move(s, theirs, 77), 0);
    assert_true(is_all(memory, 4096, 77));
    close_other(client, memory, theirs);
    unmap_memory(memory, LEN);
}

static void a_window_is_withdrawn_in_its_own_table(void **state)
{
    struct side *s = *state;
    char *theirs, kept[512];
    unsigned char *memory = map_memory(LEN);
    S3RdmaClientHandle client = open_other(memory);
    struct owner_window *ours = opened(s, 0, 4096);
    assert_int_equal(other.get_token(client, memory, 4096, 0, &theirs), 0);
    assert_int_equal(move(s, theirs, 1), 0);
    snprintf(kept, sizeof kept, "%s", theirs);
    other.free_token(theirs);
    assert_int_equal(move(s, kept, 2), S3R_E_RDMA_PEER);
    assert_true(is_all(memory, 4096, 1));
    assert_int_equal(move(s, owner_window_token(ours), 3), 0);
    assert_int_equal(other.dereg(client, memory), 0);
    other.free(client);
    owner_window_close(ours);
    unmap_memory(memory, LEN);
}

/* The first copy goes and comes again: its table is another one then. */
static void a_copy_that_is_opened_again_is_found(void **state)
{
    struct side *s = *state;
    struct diag diag = {""};
    char *theirs;
    unsigned char *memory = map_memory(LEN);
    S3RdmaClientHandle client = open_other(memory);
    assert_int_equal(other.get_token(client, memory, 4096, 0, &theirs), 0);
    for (int i = 0; i < 5; i++) {
        struct owner_window *ours = opened(s, 0, 4096);
        assert_int_equal(move(s, owner_window_token(ours), 1), 0);
        assert_int_equal(move(s, theirs, 2), 0);
        owner_window_close(ours);
        owner_close(s->owner);
        assert_int_equal(owner_open("cma", NULL, &diag, &s->owner), 0);
        assert_int_equal(owner_register(s->owner, s->memory, LEN, &diag), 0);
        assert_int_equal(move(s, theirs, 3), 0);
    }
    close_other(client, memory, theirs);
    unmap_memory(memory, LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SIDE(windows_of_both_copies_are_served),
        WITH_SIDE(a_window_is_withdrawn_in_its_own_table),
        WITH_SIDE(a_copy_that_is_opened_again_is_found),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
