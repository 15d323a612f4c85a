/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/types.h - what listings and transfers are told in. */
#ifndef S3R_MINIOCPP_TYPES_H
#define S3R_MINIOCPP_TYPES_H

#include <cstdint>
#include <string>
#include <utility>

#include <s3r/client.h>

#include "utils.h"

namespace minio
{
namespace s3
{

struct Bucket {
    std::string name;
    utils::UtcTime creation_date;

    Bucket() = default;
    explicit Bucket(std::string bucket_name, utils::UtcTime created)
        : name(std::move(bucket_name)), creation_date(created)
    {
    }
};

/* Ours: how one transfer is to be done. The defaults are RDMA where it can be, else HTTP. */
struct TransferOptions {
    bool require_rdma = false;    /* an error instead of HTTP */
    bool disable_rdma = false;    /* HTTP at once */
    bool verify = true;           /* compare what a GET brought with the object's checksum */
    std::int64_t deadline_ms = 0; /* of the whole call; 0: none */
    unsigned retries = 0;         /* after errors that may go away by themselves */
    std::uint64_t http_below = 0; /* transfers of fewer bytes go by HTTP at once */
};

/* Ours: what carried the bytes, and why it was not RDMA when it was not. */
struct Transfer {
    s3r_transport transport = S3R_TRANSPORT_NONE;
    s3r_reason reason = S3R_REASON_NONE;
    std::string reason_text;
    std::string provider; /* of the last window: "cma", "ofi", ... */
    std::uint64_t bytes = 0;
    unsigned requests = 0; /* sent on the wire */
    bool verified = false; /* a checksum was compared with the bytes */
};

} // namespace s3
} // namespace minio

#endif
