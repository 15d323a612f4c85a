/* SPDX-License-Identifier: Apache-2.0 */
#include "store/recent.h"

#include "base/crc64.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/num.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_MIN 1024
#define SLOTS_MAX (1024 * 1024)

struct recent {
    uint32_t reach, mask;      /* blocks; slots - 1 */
    atomic_uint_fast32_t now;  /* blocks read so far; wraps */
    atomic_uint_fast64_t at[]; /* a tag of the block, and the time of its last read */
};

/* The limit of this process's control group where it is the root of what it sees, as in a
 * container. */
static uint64_t group_limit(void)
{
    char text[32];
    int fd = open("/sys/fs/cgroup/memory.max", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    uint64_t limit;
    if (fd >= 0)
        close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    return n > 0 && num_parse_dec(text, (size_t)n, UINT64_MAX, &limit) ? limit : UINT64_MAX;
}

uint64_t recent_default_reach(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_len = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_len <= 0)
        return 0;
    return min_u64((uint64_t)pages * (uint64_t)page_len, group_limit()) / 2;
}

int recent_create(uint64_t reach, struct recent **ret_recent)
{
    uint64_t blocks = min_u64(reach / LIMIT_BLOCK_LEN, SLOTS_MAX);
    size_t slots = SLOTS_MIN;
    while (slots < blocks)
        slots *= 2;
    struct recent *r = malloc(sizeof(*r) + slots * sizeof(r->at[0]));
    if (!r)
        return S3R_E_NOMEM;
    r->reach = (uint32_t)blocks;
    r->mask = (uint32_t)slots - 1;
    atomic_init(&r->now, 0);
    for (size_t i = 0; i < slots; i++)
        atomic_init(&r->at[i], UINT64_MAX);
    *ret_recent = r;
    return 0;
}

void recent_destroy(struct recent *r)
{
    free(r);
}

static bool is_again(struct recent *r, uint64_t file_id, uint64_t block)
{
    const uint64_t whose[] = {file_id, block};
    uint64_t name = crc64_update(0, whose, sizeof(whose)), tag = name >> 32;
    uint32_t now = (uint32_t)atomic_fetch_add_explicit(&r->now, 1, memory_order_relaxed);
    uint64_t was =
        atomic_exchange_explicit(&r->at[name & r->mask], tag << 32 | now, memory_order_relaxed);
    return was >> 32 == tag && (uint32_t)(now - (uint32_t)was) <= r->reach;
}

bool recent_again(struct recent *r, uint64_t file_id, uint64_t block, size_t blocks)
{
    bool is_first_again = is_again(r, file_id, block);
    for (size_t i = 1; i < blocks; i++)
        (void)is_again(r, file_id, block + i);
    return is_first_again;
}
