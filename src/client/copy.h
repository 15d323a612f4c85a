/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - copies that the server makes by itself, and what an open upload already holds.
 * Does:     CopyObject; UploadPartCopy; ListParts, all pages of it.
 * Not here: bytes that pass through this process (client.h).
 * Units:    bytes.
 * Owns:     a list of parts is the caller's, who frees it.
 * Threads:  any.
 * Errors:   as client.h; S3R_E_UNSUPPORTED from a server that does not copy parts.
 * Limits:   LIMIT_PART_LEN_MAX bytes a copy; LIMIT_PARTS_MAX parts. */
#ifndef S3R_CLIENT_COPY_H
#define S3R_CLIENT_COPY_H

#include "client/client.h"

struct client_place {
    const char *bucket, *key;
};

/* Type and metadata go along. `if_match` (an ETag with its quotes, NULL: none) is the source's. */
int client_copy(struct client *c, const struct client_place *from, const struct client_place *to,
                const char *if_match, struct diag *diag, struct client_result *result) MUST_CHECK;
/* Bytes [off, off + len) of the source as a part of an upload to `to`. The part's CRC-64/NVME is in
 * `*ret_part` when the reply names it: `*ret_has_crc64`. */
int client_copy_part(struct client *c, const struct client_place *from,
                     const struct client_place *to, const char *upload_id, unsigned number,
                     uint64_t off, uint64_t len, const char *if_match, struct diag *diag,
                     struct client_part *ret_part, bool *ret_has_crc64) MUST_CHECK;

/* Ascending, and of those only the parts whose CRC-64/NVME the server names. */
int client_upload_parts(struct client *c, const char *bucket, const char *key,
                        const char *upload_id, struct diag *diag, struct client_part **ret_parts,
                        size_t *ret_count) MUST_CHECK;

#endif
