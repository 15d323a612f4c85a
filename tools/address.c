/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "s3/names.h"
#include "tools/cli.h"

#include <stdlib.h>
#include <string.h>

void address_fini(struct address *a)
{
    free(a->bucket);
    free(a->key);
    *a = (struct address){0};
}

void address_finip(struct address *a)
{
    address_fini(a);
}

int address_parse(const char *text, bool is_key_wanted, struct address *ret_address)
{
    const char *bucket = strncmp(text, "s3://", 5) == 0 ? text + 5 : text;
    size_t len = strcspn(bucket, "/");
    const char *key = bucket[len] == '/' && bucket[len + 1] != '\0' ? bucket + len + 1 : NULL;
    char shown[200];
    log_escape(text, strlen(text), shown, sizeof(shown));
    struct diag diag = {0};
    int e = bucket_name_check(bucket, len, &diag);
    if (e == 0 && key != NULL)
        e = key_check(key, strlen(key), &diag);
    if (e != 0)
        return usage_error("%s: %s", shown, diag_text(&diag, e));
    if (is_key_wanted && key == NULL)
        return usage_error("%s has no key: s3://BUCKET/KEY or BUCKET/KEY is wanted", shown);
    struct address a = {.bucket = strndup(bucket, len), .key = key != NULL ? strdup(key) : NULL};
    if (a.bucket == NULL || (key != NULL && a.key == NULL)) {
        address_fini(&a);
        return usage_error("out of memory");
    }
    *ret_address = a;
    return EXIT_OK;
}
