/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "s3/xml_read.h"

/* The first byte picks the reader; what is accepted keeps the limits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diag diag = {0};
    struct delete_request deletes = {0};
    struct complete_request complete = {0};
    char location[LIMIT_REGION_LEN_MAX + 1] = "";
    if (size < 1)
        return 0;
    uint8_t which = *data++;
    size--;
    if (which % 3 == 0 && delete_request_parse(data, size, &diag, &deletes) == 0) {
        MUST(deletes.count <= LIMIT_DELETE_KEYS_MAX);
        for (size_t i = 0; i < deletes.count; i++)
            MUST(deletes.keys[i].key_len > 0 && deletes.keys[i].key_len <= LIMIT_KEY_LEN_MAX);
        delete_request_fini(&deletes);
    } else if (which % 3 == 1 && complete_request_parse(data, size, &diag, &complete) == 0) {
        MUST(complete.count >= 1 && complete.count <= LIMIT_PARTS_MAX);
        for (size_t i = 1; i < complete.count; i++)
            MUST(complete.parts[i - 1].number < complete.parts[i].number);
        complete_request_fini(&complete);
    } else if (which % 3 == 2 && create_bucket_parse(data, size, &diag, location) == 0) {
        MUST(strlen(location) <= LIMIT_REGION_LEN_MAX);
    }
    return 0;
}
