/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/response.h - what the calls of miniocpp/client.h return: false after an error. */
#ifndef S3R_MINIOCPP_RESPONSE_H
#define S3R_MINIOCPP_RESPONSE_H

#include <list>
#include <map>
#include <string>
#include <utility>

#include "error.h"
#include "types.h"
#include "utils.h"

namespace minio
{
namespace s3
{

struct Response {
    int status_code = 0;     /* HTTP; 0: no reply, or not told (calls of buckets and listings) */
    utils::Multimap headers; /* likewise */

    /* What the server said is wrong: "NoSuchKey", ... */
    std::string code;
    std::string message;
    std::string resource;
    std::string request_id;
    std::string host_id;
    std::string bucket_name;
    std::string object_name;

    std::string etag;     /* without quotes */
    int error_number = 0; /* ours: enum s3r_error */

    Response() = default;
    explicit Response(error::Error err) : err_(std::move(err))
    {
    }

    explicit operator bool() const
    {
        return !err_ && code.empty() && message.empty();
    }

    /* In words, what went wrong here or what the server said; false when nothing did. */
    error::Error Error() const
    {
        if (err_ || *this) {
            return err_;
        }
        return error::Error(code.empty() ? message : code + ": " + message);
    }

  private:
    error::Error err_;
};

struct MakeBucketResponse : Response {
    using Response::Response;
};

struct RemoveBucketResponse : Response {
    using Response::Response;
};

struct BucketExistsResponse : Response {
    bool exist = false;
    using Response::Response;
};

struct ListBucketsResponse : Response {
    std::list<Bucket> buckets;
    using Response::Response;
};

struct RemoveObjectResponse : Response {
    using Response::Response;
};

/* A call that moved an object's bytes. */
struct TransferResponse : Response {
    std::string version_id;
    std::string checksum_crc64nvme; /* of the whole object, in base64; "" when it is not known */
    Transfer transfer;              /* ours */
    using Response::Response;
};

struct PutObjectResponse : TransferResponse {
    using TransferResponse::TransferResponse;
};

struct UploadObjectResponse : TransferResponse {
    using TransferResponse::TransferResponse;
};

struct GetObjectResponse : TransferResponse {
    size_t object_size = 0; /* ours: of the whole object; 0 when it is not known */
    using TransferResponse::TransferResponse;
};

struct DownloadObjectResponse : TransferResponse {
    using TransferResponse::TransferResponse;
};

struct StatObjectResponse : Response {
    std::string version_id;
    size_t size = 0;
    utils::UtcTime last_modified;
    bool delete_marker = false;
    utils::Multimap user_metadata; /* names without x-amz-meta- */
    std::string checksum_crc64nvme;
    using Response::Response;
};

struct GetPresignedObjectUrlResponse : Response {
    std::string url;
    using Response::Response;
};

/* A row of a listing; false for the error that ended it. */
struct Item : Response {
    std::string name; /* the key, or of a prefix the prefix */
    utils::UtcTime last_modified;
    size_t size = 0;
    bool is_prefix = false;

    /* What listings of versions, owners and metadata would say: those are not asked for. */
    std::string version_id;
    std::string owner_id;
    std::string owner_name;
    std::string storage_class;
    std::map<std::string, std::string> user_metadata;
    bool is_latest = false;
    bool is_delete_marker = false;
    using Response::Response;
};

} // namespace s3
} // namespace minio

#endif
