/* SPDX-License-Identifier: Apache-2.0 */
/* ops_xml.h - pieces that several replies and queries have in common.
 * Does:     owners, times and checksums as elements; numbers from the query.
 * Not here: whole documents (the ops_*.c files); escaping (s3/xml.h).
 * Units:    milliseconds since the epoch.
 * Owns:     nothing.
 * Threads:  a worker.
 * Errors:   S3R_E_INVALID_ARGUMENT with the parameter's name.
 * Limits:   as given. */
#ifndef S3R_SERVER_OPS_XML_H
#define S3R_SERVER_OPS_XML_H

#include "server/request.h"

/* <element><ID>..</ID><DisplayName>..</DisplayName></element> */
void print_owner(struct text *out, const char *element, const char *owner);
void print_time(struct text *out, const char *element, int64_t wall_ms);
/* <ChecksumCRC32>..</ChecksumCRC32>, and its type if wanted; nothing for none. */
void print_checksum(struct text *out, const struct store_checksum *checksum, bool has_type);
/* <ChecksumAlgorithm>, <ChecksumType>; nothing for kind 0. */
void print_checksum_kind(struct text *out, uint8_t kind, uint8_t type);
/* A query parameter from 0 on, cut to `max`; `absent` when it is not there or empty. */
int query_number(struct request *r, const char *name, uint64_t absent, uint64_t max,
                 uint64_t *ret) MUST_CHECK;

#endif
