/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "base/num.h"
#include "s3/range.h"
#include "s3/sigv4.h"

#define NOW_S INT64_C(1369353600) /* 2013-05-24 */

/* Nobody who does not know the secret is let in as a signer of it. */
static void check_request(const char *path, const struct query *query,
                          const struct headers *headers)
{
    struct diag diag = {0};
    struct sig_auth auth = {0};
    struct sig_request req = {.method = "GET", .path = path, .query = query, .headers = headers};
    if (sig_parse(&req, "us-east-1", NOW_S, &diag, &auth) < 0)
        return;
    MUST(auth.how == SIG_ANONYMOUS ||
         sig_verify(&req, &auth, "a secret that no input knows", &diag, NULL) < 0);
    sig_auth_fini(&auth);
}

static void check_range(const char *value, uint64_t object_len)
{
    struct range range = {0};
    if (range_parse(value, object_len, &range) == 0)
        MUST(span_fits(range.off, range.len, object_len));
}

/* The first line is a target, the others are headers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diag diag = {0};
    struct headers headers = {0};
    struct query query = {0};
    char *text = malloc(size + 1), *save = NULL;
    memcpy(text, data, size);
    text[size] = '\0';
    char *line = text, *end = strchr(line, '\n');
    if (end)
        *end = '\0';
    char *question = strchr(line, '?');
    if (question)
        *question = '\0';
    int rc = question ? query_parse(question + 1, strlen(question + 1), &diag, &query) : 0;
    for (save = end ? end + 1 : NULL; rc == 0 && save && *save; save = end ? end + 1 : NULL) {
        end = strchr(save, '\n');
        if (end)
            *end = '\0';
        char *colon = strchr(save, ':');
        if (colon)
            rc =
                headers_add_n(&headers, save, (size_t)(colon - save), colon + 1, strlen(colon + 1));
    }
    if (rc == 0) {
        check_request(line, &query, &headers);
        check_range(headers_get(&headers, "range"), size * 1000);
    }
    headers_fini(&headers);
    query_fini(&query);
    free(text);
    return 0;
}
