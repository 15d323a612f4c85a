/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/args.h - the arguments of the calls of miniocpp/client.h. */
#ifndef S3R_MINIOCPP_ARGS_H
#define S3R_MINIOCPP_ARGS_H

#include <cstddef>
#include <istream>
#include <map>
#include <string>

#include "http.h"
#include "types.h"
#include "utils.h"

namespace minio
{
namespace s3
{

struct BaseArgs {
};

struct BucketArgs : BaseArgs {
    std::string bucket;
    std::string region; /* "": the client's; another one is an error */
};

struct ObjectArgs : BucketArgs {
    std::string object;
};

using ListBucketsArgs = BaseArgs;
using MakeBucketArgs = BucketArgs;
using BucketExistsArgs = BucketArgs;
using RemoveBucketArgs = BucketArgs;
using RemoveObjectArgs = ObjectArgs;

struct ObjectWriteArgs : ObjectArgs {
    utils::Multimap headers;       /* Cache-Control, Content-Encoding, ... */
    utils::Multimap extra_headers; /* more of them */
    utils::Multimap user_metadata; /* with or without X-Amz-Meta- */
    std::map<std::string, std::string> tags;
    std::string content_type; /* "": application/octet-stream */
    TransferOptions transfer; /* ours */
};

struct ObjectConditionalReadArgs : ObjectArgs {
    size_t *offset = nullptr; /* nullptr: 0 */
    size_t *length = nullptr; /* nullptr: to the end */
    std::string match_etag;
    std::string not_match_etag;
    TransferOptions transfer; /* ours */
};

using StatObjectArgs = ObjectConditionalReadArgs;

struct PutObjectBaseArgs : ObjectWriteArgs {
    long object_size = -1; /* of a stream or file; -1: until it ends */
    size_t part_size = 0;  /* of a stream; 0: 16 MiB */
    http::ProgressFunction progressfunc;
    void *progress_userdata = nullptr;
};

/* Either memory, `buf` and `size`: RDMA, else HTTP from the same memory, which may be a GPU's. Or a
 * stream, in parts that travel by RDMA; it stays the caller's. */
struct PutObjectArgs : PutObjectBaseArgs {
    char *buf = nullptr;
    size_t size = 0;
    std::istream *stream = nullptr;

    PutObjectArgs() = default;
    PutObjectArgs(std::istream &from, long size_of_object, long size_of_parts) : stream(&from)
    {
        object_size = size_of_object;
        part_size = size_of_parts < 0 ? 0 : static_cast<size_t>(size_of_parts);
    }
};

/* Either memory, `buf` and `size`: RDMA, else HTTP into the same memory. The whole object must fit;
 * of a range with `offset` and no `length` as much is read as fits. Or `datafunc`. */
struct GetObjectArgs : ObjectConditionalReadArgs {
    char *buf = nullptr;
    size_t size = 0;
    http::DataFunction datafunc;
    void *userdata = nullptr;
    http::ProgressFunction progressfunc;
    void *progress_userdata = nullptr;
};

/* The names of the first releases that had RDMA. */
using PutObjectRDMAArgs = PutObjectArgs;
using GetObjectRDMAArgs = GetObjectArgs;

struct UploadObjectArgs : PutObjectBaseArgs {
    std::string filename;
};

struct DownloadObjectArgs : ObjectConditionalReadArgs {
    std::string filename;
    bool overwrite = false;
    http::ProgressFunction progressfunc;
    void *progress_userdata = nullptr;
};

struct ListObjectsArgs : BucketArgs {
    std::string prefix;
    std::string delimiter; /* "": none when recursive, else "/" */
    std::string continuation_token;
    unsigned int max_keys = 1000; /* of a page: all pages are listed */
    bool recursive = false;
};

inline constexpr unsigned int kDefaultExpirySeconds = 60 * 60 * 24 * 7;

struct GetPresignedObjectUrlArgs : ObjectArgs {
    http::Method method = http::Method::kGet;
    unsigned int expiry_seconds = kDefaultExpirySeconds;
};

} // namespace s3
} // namespace minio

#endif
