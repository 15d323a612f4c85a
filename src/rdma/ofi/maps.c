// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/maps.h"

#include "base/num.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void closefilep(FILE **f)
{
    if (*f)
        fclose(*f);
}

/* "7f2a40000000-7f2a40021000 rw-p ...": addresses without padding. */
static bool parse_line(const char *line, uint64_t *ret_start, uint64_t *ret_end,
                       const char **ret_mode)
{
    const char *dash = strchr(line, '-'), *blank = strchr(line, ' ');
    if (!dash || !blank || blank < dash || strlen(blank) < 4)
        return false;
    *ret_mode = blank + 1;
    return num_parse_hex(line, (size_t)(dash - line), 1, 16, ret_start) &&
           num_parse_hex(dash + 1, (size_t)(blank - dash - 1), 1, 16, ret_end);
}

int maps_check(const void *ptr, size_t len, struct diag *diag, bool *ret_is_writable)
{
    uint64_t at = (uint64_t)(uintptr_t)ptr, end;
    if (!checked_add(at, len, &end))
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "the memory range wraps around");
    CLEANUP(closefilep) FILE *maps = fopen("/proc/self/maps", "re");
    bool is_writable = true;
    CLEANUP(freep) char *line = NULL;
    size_t cap = 0;
    /* Lines are in the order of addresses: `at` moves on to the end of what is known to be fine. */
    while (maps && at < end && getline(&line, &cap, maps) > 0) {
        uint64_t start, stop;
        const char *mode;
        if (!parse_line(line, &start, &stop, &mode) || stop <= at)
            continue;
        if (start > at || mode[0] != 'r')
            return diag_fail(diag, S3R_E_RDMA_REGISTER,
                             "the memory at offset %llu is not mapped or not readable",
                             (unsigned long long)(at - (uint64_t)(uintptr_t)ptr));
        is_writable = is_writable && mode[1] == 'w';
        at = stop;
    }
    if (maps && at < end)
        return diag_fail(diag, S3R_E_RDMA_REGISTER, "the memory is not mapped to its end");
    *ret_is_writable = is_writable;
    return 0;
}
