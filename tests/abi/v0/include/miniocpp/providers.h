/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/providers.h - where credentials come from.
 *
 * A client asks its provider before each request, from the thread of the call: a provider of your
 * own must bear that from several threads at once. Those here do. */
#ifndef S3R_MINIOCPP_PROVIDERS_H
#define S3R_MINIOCPP_PROVIDERS_H

#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "credentials.h"
#include "error.h"

namespace minio
{
namespace creds
{

class Provider
{
  public:
    Provider() = default;
    Provider(const Provider &) = default;
    Provider &operator=(const Provider &) = default;
    virtual ~Provider() = default;

    explicit operator bool() const
    {
        return !err_;
    }

    virtual Credentials Fetch() = 0;

  protected:
    error::Error err_;
    Credentials creds_;
};

class StaticProvider : public Provider
{
  public:
    StaticProvider(std::string access_key, std::string secret_key, std::string session_token = {})
    {
        creds_ = Credentials(error::SUCCESS, std::move(access_key), std::move(secret_key),
                             std::move(session_token));
    }

    Credentials Fetch() override
    {
        return creds_;
    }
};

/* AWS_ACCESS_KEY_ID or AWS_ACCESS_KEY, AWS_SECRET_ACCESS_KEY or AWS_SECRET_KEY, and
 * AWS_SESSION_TOKEN, as they are when the provider is made. */
class EnvAwsProvider : public Provider
{
  public:
    EnvAwsProvider()
    {
        std::string access, secret, token;
        if (!utils::GetEnv(access, "AWS_ACCESS_KEY_ID")) {
            utils::GetEnv(access, "AWS_ACCESS_KEY");
        }
        if (!utils::GetEnv(secret, "AWS_SECRET_ACCESS_KEY")) {
            utils::GetEnv(secret, "AWS_SECRET_KEY");
        }
        utils::GetEnv(token, "AWS_SESSION_TOKEN");
        if (access.empty() || secret.empty()) {
            err_ = error::Error("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set");
        }
        creds_ = err_ ? Credentials(err_) : Credentials(err_, access, secret, token);
    }

    Credentials Fetch() override
    {
        return creds_;
    }
};

/* MINIO_ACCESS_KEY and MINIO_SECRET_KEY, as they are when the provider is made. */
class EnvMinioProvider : public Provider
{
  public:
    EnvMinioProvider()
    {
        std::string access, secret;
        utils::GetEnv(access, "MINIO_ACCESS_KEY");
        utils::GetEnv(secret, "MINIO_SECRET_KEY");
        if (access.empty() || secret.empty()) {
            err_ = error::Error("MINIO_ACCESS_KEY and MINIO_SECRET_KEY are not both set");
        }
        creds_ = err_ ? Credentials(err_) : Credentials(err_, access, secret);
    }

    Credentials Fetch() override
    {
        return creds_;
    }
};

/* The first of several that has some, and that one from then on until it fails. The providers stay
 * the caller's. */
class ChainedProvider : public Provider
{
  public:
    explicit ChainedProvider(std::list<Provider *> providers) : providers_(std::move(providers))
    {
    }

    Credentials Fetch() override
    {
        const std::lock_guard<std::mutex> guard(lock_);
        if (chosen_ != nullptr) {
            Credentials held = chosen_->Fetch();
            if (held) {
                return held;
            }
        }
        for (Provider *provider : providers_) {
            Credentials found = provider->Fetch();
            if (found) {
                chosen_ = provider;
                return found;
            }
        }
        chosen_ = nullptr;
        return Credentials(error::Error("no provider of the chain has credentials"));
    }

  private:
    std::list<Provider *> providers_;
    Provider *chosen_ = nullptr;
    std::mutex lock_;
};

} // namespace creds
} // namespace minio

#endif
