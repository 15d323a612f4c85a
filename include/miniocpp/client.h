/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/client.h - S3 objects from C++17, by RDMA where it can be. Header only; link with
 * -lminiocpp.
 *
 *     minio::s3::BaseUrl url("127.0.0.1:9000", false, "us-east-1");
 *     minio::creds::StaticProvider keys("ACCESS_KEY", "SECRET_KEY");
 *     minio::s3::Client client(url, &keys);
 *
 *     minio::s3::GetObjectArgs args;
 *     args.bucket = "photos";
 *     args.object = "cat";
 *     args.buf = memory;  // host memory, or a GPU's
 *     args.size = size;
 *     minio::s3::GetObjectResponse got = client.GetObject(args);
 *     if (!got) std::cerr << got.Error() << "\n";
 *
 * Names and fields are those of minio-cpp, so that programs written for it compile; what is ours is
 * marked so. `transfer` in a response says whether RDMA or HTTP carried the bytes, and why; the
 * fields of `transfer` in the arguments say how it is to be done.
 *
 * Owns:    a client borrows its provider, which outlives it. Memory and streams are the caller's
 *          and are left alone by it until the call returns; after an error whose error_number is
 *          S3R_ERROR_RDMA_UNFENCED for good.
 * Threads: a client may be used by any number of threads. It is neither copied nor moved.
 * Errors:  in the response. Thrown are only std::bad_alloc, and what the caller's own functions
 *          throw, once the call has ended and nothing of it is under way.
 * Forks:   a child may go on using its copy. */
#ifndef S3R_MINIOCPP_CLIENT_H
#define S3R_MINIOCPP_CLIENT_H

#include <fstream>
#include <future>
#include <initializer_list>
#include <iostream>
#include <istream>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include <s3r/client.h>

#include "args.h"
#include "credentials.h"
#include "detail.h"
#include "error.h"
#include "http.h"
#include "providers.h"
#include "request.h"
#include "response.h"
#include "types.h"
#include "utils.h"

namespace minio
{
namespace s3
{

class Client;

/* The rows of a bucket, page after page:
 *     for (auto rows = client.ListObjects(args); rows; rows++) { minio::s3::Item row = *rows; ... }
 * After a failure the last row is the error. The client outlives it; copies go on independently. */
class ListObjectsResult
{
  public:
    explicit ListObjectsResult(error::Error err)
    {
        rows_ = std::make_shared<std::vector<Item>>(1, Item(std::move(err)));
    }
    ListObjectsResult(const Client *client, ListObjectsArgs args)
        : client_(client), args_(std::move(args)), token_(args_.continuation_token)
    {
        Fetch();
    }

    Item &operator*() const
    {
        return (*rows_)[at_];
    }
    Item *operator->() const
    {
        return &(*rows_)[at_];
    }

    explicit operator bool() const
    {
        return rows_ && at_ < rows_->size();
    }

    ListObjectsResult &operator++()
    {
        if (++at_ >= rows_->size() && has_more_) {
            Fetch();
        }
        return *this;
    }
    ListObjectsResult operator++(int)
    {
        ListObjectsResult before = *this;
        ++*this;
        return before;
    }

  private:
    const Client *client_ = nullptr;
    ListObjectsArgs args_;
    std::string token_;
    bool has_more_ = false;
    std::shared_ptr<std::vector<Item>> rows_;
    size_t at_ = 0;

    inline void Fetch();
};

class Client
{
  public:
    explicit Client(const BaseUrl &base_url, creds::Provider *provider = nullptr)
        : base_url_(base_url), provider_(provider)
    {
    }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
    virtual ~Client() = default;

    const BaseUrl &GetBaseUrl() const
    {
        return base_url_;
    }

    /* Certificates to trust, in PEM, instead of the system's. Before the first call. */
    void SetSslCertFile(std::string path)
    {
        ssl_cert_file_ = std::move(path);
    }

    /* Ours: RDMA devices, "cma", "ofi:tcp", ...; "": S3RDMA_DEVICE. Before the first call. */
    void SetRdmaDevices(std::string devices)
    {
        devices_ = std::move(devices);
    }

    /* Ours: the C client beneath, for what is not here (registered memory, queues, parts). It is
     * another one once the provider has other credentials. Empty after an error. */
    std::shared_ptr<s3r_client> Native() const
    {
        Response response;
        return Open(response);
    }

    /* ---- buckets ---- */

    MakeBucketResponse MakeBucket(const MakeBucketArgs &args) const
    {
        return Run<MakeBucketResponse>(
            args, {}, [&](s3r_client *client, s3r_result *result, MakeBucketResponse &) {
                return s3r_bucket_create(client, args.bucket.c_str(), result);
            });
    }

    BucketExistsResponse BucketExists(const BucketExistsArgs &args) const
    {
        return Run<BucketExistsResponse>(
            args, {}, [&](s3r_client *client, s3r_result *result, BucketExistsResponse &response) {
                int exists = 0;
                const int rc = s3r_bucket_exists(client, args.bucket.c_str(), result, &exists);
                response.exist = exists != 0;
                return rc;
            });
    }

    RemoveBucketResponse RemoveBucket(const RemoveBucketArgs &args) const
    {
        return Run<RemoveBucketResponse>(
            args, {}, [&](s3r_client *client, s3r_result *result, RemoveBucketResponse &) {
                return s3r_bucket_delete(client, args.bucket.c_str(), result);
            });
    }

    ListBucketsResponse ListBuckets(const ListBucketsArgs & = {}) const
    {
        return Run<ListBucketsResponse>(
            BucketArgs(), {},
            [&](s3r_client *client, s3r_result *result, ListBucketsResponse &response) {
                s3r_page *p = nullptr;
                const int rc = s3r_bucket_list(client, result, &p);
                const detail::Owned<s3r_page> page(p);
                for (size_t i = 0; rc == S3R_OK && i < s3r_page_count(p); i++) {
                    response.buckets.emplace_back(s3r_page_name(p, i),
                                                  utils::UtcTime::FromISO8601UTC(
                                                      s3r_page_time(p, i)));
                }
                return rc;
            });
    }

    /* ---- objects ---- */

    PutObjectResponse PutObject(const PutObjectArgs &args) const
    {
        if (args.buf != nullptr) {
            return PutMemory(args);
        }
        if (args.stream == nullptr) {
            return PutObjectResponse(error::Error("neither buf nor a stream is set"));
        }
        return PutStream<PutObjectResponse>(args, *args.stream);
    }

    GetObjectResponse GetObject(const GetObjectArgs &args) const
    {
        if (args.buf != nullptr) {
            return GetMemory(args);
        }
        if (!args.datafunc) {
            return GetObjectResponse(error::Error("neither buf nor datafunc is set"));
        }
        return GetStream<GetObjectResponse>(args, args.datafunc, args.userdata, args.progressfunc,
                                            args.progress_userdata);
    }

    StatObjectResponse StatObject(const StatObjectArgs &args) const
    {
        detail::Options options(args.transfer);
        options.Conditions(args);
        return Run<StatObjectResponse>(args, args.object, options.err,
                                       [&](s3r_client *client, s3r_result *result,
                                           StatObjectResponse &) {
                                           return s3r_stat(client, args.bucket.c_str(),
                                                           args.object.c_str(), options.get(),
                                                           result);
                                       });
    }

    /* Of a key that is not there: a success, as S3 has it. */
    RemoveObjectResponse RemoveObject(const RemoveObjectArgs &args) const
    {
        return Run<RemoveObjectResponse>(args, args.object, {},
                                         [&](s3r_client *client, s3r_result *result,
                                             RemoveObjectResponse &) {
                                             return s3r_delete(client, args.bucket.c_str(),
                                                               args.object.c_str(), nullptr,
                                                               result);
                                         });
    }

    ListObjectsResult ListObjects(const ListObjectsArgs &args) const
    {
        return ListObjectsResult(this, args);
    }

    /* A file as an object. */
    UploadObjectResponse UploadObject(const UploadObjectArgs &args) const
    {
        if (detail::HasNul(args.filename)) {
            return UploadObjectResponse(error::Error("the name of the file has a NUL"));
        }
        std::ifstream file(args.filename, std::ios::binary);
        struct stat about {
        };
        if (!file || ::stat(args.filename.c_str(), &about) != 0 || S_ISDIR(about.st_mode)) {
            return UploadObjectResponse(error::Error("cannot read the file " + args.filename));
        }
        UploadObjectArgs known = args;
        if (known.object_size < 0 && S_ISREG(about.st_mode)) {
            known.object_size = static_cast<long>(about.st_size);
        }
        return PutStream<UploadObjectResponse>(known, file);
    }

    /* An object as a file, which appears when all of it has arrived. */
    DownloadObjectResponse DownloadObject(const DownloadObjectArgs &args) const
    {
        struct stat about {
        };
        if (detail::HasNul(args.filename)) {
            return DownloadObjectResponse(error::Error("the name of the file has a NUL"));
        }
        if (!args.overwrite && ::lstat(args.filename.c_str(), &about) == 0) {
            return DownloadObjectResponse(error::Error("the file exists: " + args.filename));
        }
        if (::stat(args.filename.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) {
            return DownloadObjectResponse(error::Error("no regular file: " + args.filename));
        }
        detail::NewFile file;
        if (error::Error err = file.Create(args.filename)) {
            return DownloadObjectResponse(err);
        }
        error::Error written;
        const http::DataFunction write = [&](http::DataFunctionArgs piece) {
            written = file.Write(piece.datachunk);
            return !written;
        };
        auto response = GetStream<DownloadObjectResponse>(args, write, nullptr, args.progressfunc,
                                                          args.progress_userdata);
        if (response) {
            written = file.Publish(args.filename);
        }
        return written ? DownloadObjectResponse(written) : response;
    }

    /* A link that lets whoever has it do this until it expires. Nothing is sent. */
    GetPresignedObjectUrlResponse GetPresignedObjectUrl(const GetPresignedObjectUrlArgs &args) const
    {
        return Run<GetPresignedObjectUrlResponse>(
            args, args.object, {},
            [&](s3r_client *client, s3r_result *result, GetPresignedObjectUrlResponse &response) {
                char *url = nullptr;
                const int rc =
                    s3r_presign(client, http::MethodToString(args.method), args.bucket.c_str(),
                                args.object.c_str(), args.expiry_seconds, result, &url);
                const detail::Owned<char> text(url);
                response.url = rc == S3R_OK ? url : "";
                return rc;
            });
    }

    /* The same on a thread of its own; client, memory and stream outlive the future. */
    std::future<PutObjectResponse> PutObjectAsync(PutObjectArgs args) const
    {
        return std::async(std::launch::async, [this, a = std::move(args)] { return PutObject(a); });
    }

    std::future<GetObjectResponse> GetObjectAsync(GetObjectArgs args) const
    {
        return std::async(std::launch::async, [this, a = std::move(args)] { return GetObject(a); });
    }

  private:
    friend class ListObjectsResult;

    const BaseUrl base_url_;
    creds::Provider *const provider_;
    std::string ssl_cert_file_;
    std::string devices_;
    mutable std::mutex lock_;                    /* of what follows */
    mutable std::shared_ptr<s3r_client> native_; /* a call that uses it keeps it alive */
    mutable std::string access_, secret_, token_;

    /* The C client for the provider's credentials of now; empty, and why, after an error. */
    std::shared_ptr<s3r_client> Open(Response &response) const
    {
        creds::Credentials keys;
        error::Error err = base_url_.Error();
        if (!err && provider_ != nullptr) {
            keys = provider_->Fetch();
            err = keys.err || keys ? keys.err : error::Error("the provider has no credentials");
        }
        for (const std::string *text : std::initializer_list<const std::string *>{
                 &base_url_.host, &base_url_.region, &keys.access_key, &keys.secret_key,
                 &keys.session_token, &ssl_cert_file_, &devices_}) {
            if (detail::HasNul(*text)) {
                err = error::Error("a NUL in the configuration");
            }
        }
        if (err) {
            response = Response(err);
            response.error_number = S3R_ERROR_INVALID_ARGUMENT;
            return nullptr;
        }
        const std::lock_guard<std::mutex> guard(lock_);
        if (!native_ || keys.access_key != access_ || keys.secret_key != secret_ ||
            keys.session_token != token_) {
            native_ = Create(keys, response);
            access_ = keys.access_key;
            secret_ = keys.secret_key;
            token_ = keys.session_token;
        }
        return native_;
    }

    std::shared_ptr<s3r_client> Create(const creds::Credentials &keys, Response &response) const
    {
        const auto config = detail::OrNoMemory(s3r_config_new());
        const auto result = detail::OrNoMemory(s3r_result_new());
        s3r_client *client = nullptr;
        int rc = s3r_config_set_endpoint(config.get(), base_url_.String().c_str());
        rc = rc ? rc : s3r_config_set_region(config.get(), base_url_.region.c_str());
        if (!keys.access_key.empty()) {
            rc = rc ? rc
                    : s3r_config_set_keys(config.get(), keys.access_key.c_str(),
                                          keys.secret_key.c_str(), keys.session_token.c_str());
        }
        rc = rc ? rc : s3r_config_set_ca_file(config.get(), ssl_cert_file_.c_str());
        rc = rc ? rc : s3r_config_set_devices(config.get(), devices_.c_str());
        rc = rc ? rc : s3r_client_new(config.get(), result.get(), &client);
        if (rc == S3R_ERROR_NOMEM) {
            throw std::bad_alloc();
        }
        if (rc != S3R_OK) {
            detail::Fill(rc, result.get(), response);
            return nullptr;
        }
        return std::shared_ptr<s3r_client>(client, s3r_client_free);
    }

    /* One call: `fn(client, result, response)` returns what the C call did. */
    template <typename R, typename Fn>
    R Run(const BucketArgs &args, const std::string &object, const error::Error &wrong,
          Fn &&fn) const
    {
        error::Error err = wrong;
        if (!args.region.empty() &&
            args.region != (base_url_.region.empty() ? "us-east-1" : base_url_.region)) {
            err = error::Error("the region " + args.region + " is not the client's");
        }
        if (detail::HasNul(args.bucket) || detail::HasNul(object)) {
            err = error::Error("the name of a bucket or an object has a NUL");
        }
        R response(err);
        if (err) {
            response.error_number = S3R_ERROR_INVALID_ARGUMENT;
            return response;
        }
        const auto result = detail::OrNoMemory(s3r_result_new());
        const auto client = Open(response);
        response.bucket_name = args.bucket;
        response.object_name = object;
        if (client) {
            const int rc = fn(client.get(), result.get(), response);
            detail::Fill(rc, result.get(), response);
        }
        return response;
    }

    template <typename R, typename Fn>
    R Run(const BucketArgs &args, const error::Error &wrong, Fn &&fn) const
    {
        return Run<R>(args, std::string(), wrong, std::forward<Fn>(fn));
    }

    PutObjectResponse PutMemory(const PutObjectArgs &args) const
    {
        detail::Options options(args.transfer);
        options.Headers(args);
        detail::Progress progress(args.progressfunc, args.progress_userdata, true,
                                  static_cast<double>(args.size));
        progress.Attach(options.get());
        auto response = Run<PutObjectResponse>(args, args.object, options.err,
                                               [&](s3r_client *client, s3r_result *result,
                                                   PutObjectResponse &) {
                                                   return s3r_put(client, args.bucket.c_str(),
                                                                  args.object.c_str(), args.buf,
                                                                  args.size, options.get(), result);
                                               });
        progress.thrown.Rethrow();
        progress.Finish(response);
        return response;
    }

    template <typename R> R PutStream(const PutObjectBaseArgs &args, std::istream &from) const
    {
        detail::Options options(args.transfer);
        options.Headers(args);
        options.Pieces(args.part_size);
        detail::Progress progress(args.progressfunc, args.progress_userdata, true,
                                  args.object_size < 0 ? 0.0
                                                       : static_cast<double>(args.object_size));
        detail::Source source{from, progress};
        const std::uint64_t len =
            args.object_size < 0 ? S3R_UNKNOWN : static_cast<std::uint64_t>(args.object_size);
        auto response =
            Run<R>(args, args.object, options.err,
                   [&](s3r_client *client, s3r_result *result, R &) {
                       return s3r_put_stream(client, args.bucket.c_str(), args.object.c_str(), len,
                                             detail::Source::Read, &source, options.get(), result);
                   });
        progress.thrown.Rethrow();
        progress.Finish(response);
        if (source.is_bad) {
            response.message = "the stream cannot be read; " + response.message;
        }
        return response;
    }

    GetObjectResponse GetMemory(const GetObjectArgs &args) const
    {
        detail::Options options(args.transfer);
        options.Conditions(args);
        error::Error wrong = options.err;
        if (args.length != nullptr && *args.length > args.size) {
            wrong = error::Error("length is larger than the buffer");
        }
        detail::Progress progress(args.progressfunc, args.progress_userdata, false,
                                  args.length ? static_cast<double>(*args.length) : 0.0);
        progress.Attach(options.get());
        auto response = Run<GetObjectResponse>(
            args, args.object, wrong,
            [&](s3r_client *client, s3r_result *result, GetObjectResponse &) {
                const char *bucket = args.bucket.c_str(), *object = args.object.c_str();
                if (args.offset == nullptr && args.length == nullptr) {
                    return s3r_get(client, bucket, object, args.buf, args.size, options.get(),
                                   result);
                }
                return s3r_get_range(client, bucket, object, args.offset ? *args.offset : 0,
                                     args.buf, args.length ? *args.length : args.size,
                                     options.get(), result);
            });
        progress.thrown.Rethrow();
        progress.Finish(response);
        return response;
    }

    template <typename R>
    R GetStream(const ObjectConditionalReadArgs &args, const http::DataFunction &to, void *userdata,
                const http::ProgressFunction &progressfunc, void *progress_userdata) const
    {
        detail::Options options(args.transfer);
        options.Conditions(args);
        detail::Progress progress(progressfunc, progress_userdata, false,
                                  args.length ? static_cast<double>(*args.length) : 0.0);
        detail::Sink sink{to, userdata, progress};
        auto response =
            Run<R>(args, args.object, options.err,
                   [&](s3r_client *client, s3r_result *result, R &) {
                       return s3r_get_stream(client, args.bucket.c_str(), args.object.c_str(),
                                             args.offset ? *args.offset : 0,
                                             args.length ? *args.length : S3R_UNKNOWN,
                                             detail::Sink::Write, &sink, options.get(), result);
                   });
        progress.thrown.Rethrow();
        progress.Finish(response);
        return response;
    }

    /* One page; `token` becomes that of the next, "" after the last. An error is its only row. */
    std::vector<Item> ListPage(const ListObjectsArgs &args, std::string &token) const
    {
        std::vector<Item> rows;
        const std::string delimiter =
            args.delimiter.empty() && !args.recursive ? "/" : args.delimiter;
        const bool has_nul = detail::HasNul(args.prefix) || detail::HasNul(delimiter);
        std::string next;
        auto failed =
            Run<Item>(args,
                      has_nul ? error::Error("prefix or delimiter has a NUL") : error::Error(),
                      [&](s3r_client *client, s3r_result *result, Item &) {
                          s3r_page *p = nullptr;
                          const int rc = s3r_list(client, args.bucket.c_str(), args.prefix.c_str(),
                                                  delimiter.empty() ? nullptr : delimiter.c_str(),
                                                  token.empty() ? nullptr : token.c_str(),
                                                  args.max_keys, result, &p);
                          const detail::Owned<s3r_page> page(p);
                          for (size_t i = 0; rc == S3R_OK && i < s3r_page_count(p); i++) {
                              rows.push_back(Row(args, p, i));
                          }
                          const char *more = rc == S3R_OK ? s3r_page_next_token(p) : nullptr;
                          next = more == nullptr ? "" : more;
                          return rc;
                      });
        if (!failed) {
            rows.assign(1, failed);
        }
        token = next;
        return rows;
    }

    static Item Row(const ListObjectsArgs &args, const s3r_page *page, size_t i)
    {
        Item row;
        row.bucket_name = args.bucket;
        row.name = s3r_page_name(page, i);
        row.object_name = row.name;
        row.is_prefix = s3r_page_is_prefix(page, i) != 0;
        row.size = static_cast<size_t>(s3r_page_len(page, i));
        row.etag = s3r_page_etag(page, i);
        row.last_modified = utils::UtcTime::FromISO8601UTC(s3r_page_time(page, i));
        return row;
    }
};

inline void ListObjectsResult::Fetch()
{
    do { /* a page may be empty and not the last */
        rows_ = std::make_shared<std::vector<Item>>(client_->ListPage(args_, token_));
        at_ = 0;
        has_more_ = !token_.empty();
    } while (rows_->empty() && has_more_);
}

} // namespace s3
} // namespace minio

#endif
