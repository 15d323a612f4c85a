/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/credentials.h - what a request is signed with. */
#ifndef S3R_MINIOCPP_CREDENTIALS_H
#define S3R_MINIOCPP_CREDENTIALS_H

#include <string>
#include <utility>

#include "error.h"
#include "utils.h"

namespace minio
{
namespace creds
{

/* True while they can be used. */
struct Credentials {
    error::Error err;
    std::string access_key;
    std::string secret_key;
    std::string session_token;
    utils::UtcTime expiration; /* no time: they do not expire */

    Credentials() = default;
    explicit Credentials(error::Error error) : err(std::move(error))
    {
    }
    explicit Credentials(error::Error error, std::string access, std::string secret,
                         std::string token = {}, utils::UtcTime until = {})
        : err(std::move(error)), access_key(std::move(access)), secret_key(std::move(secret)),
          session_token(std::move(token)), expiration(until)
    {
    }

    /* Ten seconds early: a request must arrive before they do expire. */
    bool IsExpired() const
    {
        utils::UtcTime soon = utils::UtcTime::Now();
        soon.Add(10);
        return expiration && expiration < soon;
    }

    explicit operator bool() const
    {
        return !err && !access_key.empty() && !IsExpired();
    }
};

} // namespace creds
} // namespace minio

#endif
