/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pages.h"

#include "base/limits.h"
#include "base/log.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shorter memory has no room for one, and advice would only split mappings. */
#define HUGE_LEN_MIN (2 * MIB)

/* 0: too long. */
static size_t whole_pages(size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (len > SIZE_MAX - page)
        return 0;
    return len > 0 ? (len + page - 1) & ~(page - 1) : page;
}

void *pages_alloc(size_t len)
{
    size_t whole = whole_pages(len);
    if (whole == 0)
        return NULL;
    void *pages = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    if (whole >= HUGE_LEN_MIN)
        (void)madvise(pages, whole, MADV_HUGEPAGE); /* a wish */
    return pages;
}

void pages_free(void *pages, size_t len)
{
    if (pages != NULL && munmap(pages, whole_pages(len)) != 0)
        log_warn("munmap of %zu bytes failed", len);
}
