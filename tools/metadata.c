/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/metadata.h"

#include <stdio.h>
#include <string.h>

int metadata_add(const struct cli_options *o, struct headers *headers, struct diag *diag)
{
    int e = o->content_type != NULL ? headers_set(headers, "content-type", o->content_type) : 0;
    for (size_t i = 0; i < o->metadata_count && e == 0; i++) {
        const char *equals = strchr(o->metadata[i], '=');
        size_t len = (size_t)(equals - o->metadata[i]);
        char name[128];
        if (len > 100)
            return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "--metadata: a name is too long");
        snprintf(name, sizeof(name), "x-amz-meta-%.*s", (int)len, o->metadata[i]);
        e = headers_add(headers, name, equals + 1);
        if (e != 0)
            return diag_fail(diag, e, "--metadata %.100s: not possible in a header",
                             o->metadata[i]);
    }
    return e;
}
