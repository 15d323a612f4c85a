/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "rdma/token.h"

/* What is accepted lies in memory without wrapping, and says the same after printing. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diag diag = {0};
    struct token first, second;
    struct sockaddr_storage address;
    char text[LIMIT_TOKEN_LEN_MAX + 1], again[LIMIT_TOKEN_LEN_MAX + 1];
    if (token_parse((const char *)data, size, &diag, &first) < 0)
        return 0;
    MUST(first.size == 0 || first.addr + (first.size - 1) >= first.addr);
    MUST(token_print(&first, text, sizeof text) == 0);
    MUST(token_parse(text, strlen(text), &diag, &second) == 0);
    MUST(token_print(&second, again, sizeof again) == 0);
    MUST(strcmp(text, again) == 0);
    MUST(token_address(&first, &address) == token_address(&second, &address));
    return 0;
}
