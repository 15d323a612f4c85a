/* SPDX-License-Identifier: Apache-2.0 */
/* cma_side.h - what the tests of cma share: both halves open in this process. */
#ifndef S3R_TESTS_CMA_SIDE_H
#define S3R_TESTS_CMA_SIDE_H

#include "unit/cm.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "helpers/peer.h"
#include "rdma/cma/process.h"
#include "rdma/cma/table.h"
#include "rdma/mover.h"
#include "rdma/owner.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN ((size_t)1 << 20)

/* The long tests at SCALE of their full length. */
static inline int scaled(int full)
{
    const char *scale = getenv("SCALE");
    int n = (int)(full * (scale ? strtod(scale, NULL) : 0.1));
    return n > 0 ? n : 1;
}

struct side {
    struct owner *owner;
    struct mover *mover;
    unsigned char
        *memory; /* LEN bytes, page aligned, with a page that nothing may touch on each side */
};

static inline unsigned char *map_memory(size_t len)
{
    unsigned char *all =
        mmap(NULL, len + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(all != MAP_FAILED);
    assert_int_equal(mprotect(all + 4096, len, PROT_READ | PROT_WRITE), 0);
    return all + 4096;
}

static inline void unmap_memory(unsigned char *memory, size_t len)
{
    munmap(memory - 4096, len + 8192);
}

static inline int set_up(void **state)
{
    struct diag diag = {""};
    struct side *s = calloc(1, sizeof *s);
    s->memory = map_memory(LEN);
    if (owner_open("cma", NULL, &diag, &s->owner) || mover_open("cma", &diag, &s->mover) ||
        owner_register(s->owner, s->memory, LEN, &diag))
        fail_msg("%s", diag.text);
    *state = s;
    return 0;
}

static inline int tear_down(void **state)
{
    struct side *s = *state;
    owner_close(s->owner);
    mover_close(s->mover);
    unmap_memory(s->memory, LEN);
    free(s);
    return 0;
}

static inline struct owner_window *opened(struct side *s, uint64_t off, uint64_t len)
{
    struct owner_window *w;
    struct diag diag = {""};
    if (owner_window_open(s->owner, s->memory, off, len, &diag, &w))
        fail_msg("%s", diag.text);
    return w;
}

static inline int moved_by(struct mover *m, const char *text, enum transfer_direction direction,
                           uint64_t off, void *local, size_t len)
{
    struct token token;
    uint64_t moved = 0;
    struct diag diag = {""};
    int rc = token_parse(text, strlen(text), &diag, &token);
    if (rc)
        return rc;
    struct transfer t = {
        .direction = direction, .token = &token, .window_off = off, .local = local, .len = len};
    rc = mover_transfer(m, NULL, &t, &diag, &moved);
    if (!rc)
        assert_int_equal(moved, len);
    else
        assert_true(diag.text[0] != '\0');
    return rc;
}

static inline bool is_all(const unsigned char *bytes, size_t len, unsigned char value)
{
    return len == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, len - 1) == 0);
}

static inline int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

#define WITH_SIDE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
