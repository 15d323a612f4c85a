/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every maximum of the project, in one place (docs/limits.md lists those users meet).
 * Does:     names them.
 * Not here: defaults that an option changes (server/config.def).
 * Units:    bytes where the name ends in _LEN_MAX or _SIZE; counts otherwise.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   these. */
#ifndef S3R_BASE_LIMITS_H
#define S3R_BASE_LIMITS_H

#include <stdint.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define TIB (GIB * 1024)

/* S3's own */
#define LIMIT_KEY_LEN_MAX 1024
#define LIMIT_BUCKET_LEN_MIN 3
#define LIMIT_BUCKET_LEN_MAX 63
#define LIMIT_METADATA_LEN_MAX 2048
#define LIMIT_OBJECT_LEN_MAX (5 * TIB)
#define LIMIT_PART_LEN_MAX (5 * GIB)
#define LIMIT_PART_LEN_MIN (5 * MIB)
#define LIMIT_PARTS_MAX 10000
#define LIMIT_LIST_MAX 1000
#define LIMIT_DELETE_KEYS_MAX 1000

/* HTTP requests */
#define LIMIT_HEADERS_LEN_MAX (16 * KIB)
#define LIMIT_HEADERS_MAX 100
#define LIMIT_CONNECTIONS_MAX 8192
#define LIMIT_TARGET_LEN_MAX (8 * KIB)
#define LIMIT_XML_LEN_MAX                                                                          \
    (2 * MIB) /* 10,000 parts with checksums fit; so do 1,000 keys of 1 KiB                        \
               */
/* a page of 1,000 keys of 1 KiB, each byte of them as %XX or &quot;, and what is said of each */
#define LIMIT_XML_REPLY_LEN_MAX (8 * MIB)
#define LIMIT_XML_DEPTH_MAX 16
#define LIMIT_CHUNK_HEADER_LEN_MAX 4096
#define LIMIT_CHUNK_LEN_MAX (16 * MIB) /* of a signed chunk: its signature covers the whole */
#define LIMIT_TRAILERS_LEN_MAX 4096
#define LIMIT_QUERY_PARAMS_MAX 512
#define LIMIT_XML_NODES_MAX 100000 /* 10,000 parts with number, ETag and checksum */
#define LIMIT_SKEW_S 900
#define LIMIT_PRESIGN_S_MAX 604800
#define LIMIT_ACCESS_KEY_LEN_MAX 128
#define LIMIT_REGION_LEN_MAX 64
#define LIMIT_RANGE_LEN_MAX 256

/* RDMA */
#define LIMIT_TOKEN_LEN_MAX 1024
#define LIMIT_WINDOW_PIECE_LEN (8 * MIB) /* one one-sided operation moves at most this */
#define LIMIT_DC_WINDOW_LEN_MAX UINT64_C(0xffffffff)

/* the store */
#define LIMIT_INLINE_LEN_MAX (16 * KIB) /* objects up to this live inside the index */
#define LIMIT_BLOCK_LEN (1 * MIB)       /* each has a CRC-64/NVME of its own */

#endif
