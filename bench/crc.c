/* SPDX-License-Identifier: Apache-2.0 */
/* crc - CRC-64/NVME of the same bytes again and again.
 *   crc best|portable LENGTH MS
 * Prints one line of name=value; `by` is the method that `best` means here. */
#include "base/crc64.h"
#include "measure.h"

#include <stdio.h>
#include <string.h>

struct job {
    uint64_t (*update)(uint64_t crc, const void *bytes, size_t len);
    const void *bytes;
    uint64_t len, ms;
    uint64_t crc; /* goes on from one to the next, so that none can be left out */
};

static int once(void *arg)
{
    struct job *job = arg;
    job->crc = job->update(job->crc, job->bytes, job->len);
    return 0;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    struct measured m;
    if (argc != 4 || (strcmp(argv[1], "best") != 0 && strcmp(argv[1], "portable") != 0) ||
        !measure_parse(argv[2], argv[3], &job.len, &job.ms)) {
        fprintf(stderr, "usage: crc best|portable LENGTH MS\n");
        return 2;
    }
    bool is_best = strcmp(argv[1], "best") == 0;
    job.update = is_best ? crc64_update : crc64_update_portable;
    job.bytes = measure_memory(job.len, 0x5a);
    if (job.bytes == NULL || measure(job.ms, 0, once, &job, &m) != 0)
        return 1;
    measure_print("crc64", is_best ? crc64_method() : "portable", job.len, &m);
    return 0;
}
