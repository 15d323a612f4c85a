/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "s3/chunked.h"

struct seen {
    uint64_t len, sum;
};

static int count(void *arg, const void *bytes, size_t len)
{
    struct seen *seen = arg;
    for (size_t i = 0; i < len; i++)
        seen->sum = seen->sum * 31 + ((const uint8_t *)bytes)[i];
    seen->len += len;
    return 0;
}

/* Feeds in pieces of `step` bytes; the result of the whole. */
static int decode(enum sig_payload kind, const struct sig_chain *chain, uint64_t declared,
                  const uint8_t *data, size_t size, size_t step, struct seen *seen)
{
    struct diag diag = {0};
    struct chunked *c = NULL;
    int rc = chunked_create(kind, chain, declared, &c);
    if (rc < 0)
        return rc;
    for (size_t at = 0; at < size && rc == 0; at += step)
        rc = chunked_feed(c, data + at, size - at < step ? size - at : step, &diag, count, seen);
    if (rc == 0)
        rc = chunked_finish(c, &diag);
    MUST(seen->len <= declared);
    MUST(rc < 0 || seen->len == declared);
    chunked_destroy(c);
    return rc;
}

/* However the bytes are split, the outcome is one; never more comes out than was declared. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum sig_payload kinds[] = {SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER,
                                             SIG_PAYLOAD_STREAM, SIG_PAYLOAD_STREAM_TRAILER};
    struct sig_chain chain = {.scope = "20130524/us-east-1/s3/aws4_request",
                              .time = "20130524T000000Z"};
    if (size < 4)
        return 0;
    enum sig_payload kind = kinds[data[0] % 3];
    uint64_t declared = (uint64_t)data[1] << 8 | data[2];
    size_t step = 1 + data[3] % 64;
    struct seen whole = {0}, split = {0};
    data += 4;
    size -= 4;
    int first = decode(kind, &chain, declared, data, size, size ? size : 1, &whole);
    int second = decode(kind, &chain, declared, data, size, step, &split);
    MUST((first == 0) == (second == 0));
    MUST(first < 0 || (whole.len == split.len && whole.sum == split.sum));
    return 0;
}
