/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "s3/uri.h"

static void check_path(const char *raw, size_t len)
{
    struct diag diag = {0};
    struct target first = {0}, second = {0};
    struct text printed;
    if (target_parse(raw, len, NULL, &diag, &first) < 0)
        return;
    MUST(!first.key || (first.bucket && first.key_len == strlen(first.key)));
    text_init(&printed, 16384);
    target_print(&printed, first.bucket, first.key, first.key_len);
    MUST(text_error(&printed) == 0);
    MUST(target_parse(text_cstr(&printed), printed.len, NULL, &diag, &second) == 0);
    MUST(!first.bucket == !second.bucket && !first.key == !second.key);
    MUST(!first.bucket || strcmp(first.bucket, second.bucket) == 0);
    MUST(!first.key || strcmp(first.key, second.key) == 0);
    text_fini(&printed);
    target_fini(&first);
    target_fini(&second);
}

/* The canonical form is its own canonical form. */
static void check_query(const char *raw, size_t len)
{
    struct diag diag = {0};
    struct query first = {0}, second = {0};
    struct text once, twice;
    if (query_parse(raw, len, &diag, &first) < 0)
        return;
    text_init(&once, 1 << 20);
    text_init(&twice, 1 << 20);
    if (query_canonical(&first, NULL, &once) == 0) {
        MUST(query_parse(text_cstr(&once), once.len, &diag, &second) == 0);
        MUST(query_canonical(&second, NULL, &twice) == 0);
        MUST(strcmp(text_cstr(&once), text_cstr(&twice)) == 0);
    }
    text_fini(&once);
    text_fini(&twice);
    query_fini(&first);
    query_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diag diag = {0};
    struct target source = {0};
    char *version = NULL, *text = malloc(size + 1), *question;
    memcpy(text, data, size);
    text[size] = '\0';
    question = strchr(text, '?');
    check_path(text, question ? (size_t)(question - text) : size);
    if (question)
        check_query(question + 1, strlen(question + 1));
    if (copy_source_parse(text, &diag, &source, &version) == 0) {
        MUST(source.bucket && source.key);
        target_fini(&source);
        free(version);
    }
    free(text);
    return 0;
}
