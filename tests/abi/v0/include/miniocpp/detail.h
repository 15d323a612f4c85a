/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/detail.h - the seam between miniocpp/client.h and the C interface: owners, callbacks,
 * options, results. Not for programs: it changes without notice. */
#ifndef S3R_MINIOCPP_DETAIL_H
#define S3R_MINIOCPP_DETAIL_H

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <istream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <s3r/client.h>

#include "args.h"
#include "error.h"
#include "http.h"
#include "response.h"
#include "types.h"
#include "utils.h"

namespace minio
{
namespace s3
{

namespace detail
{

struct Free {
    void operator()(s3r_config *p) const
    {
        s3r_config_free(p);
    }
    void operator()(s3r_options *p) const
    {
        s3r_options_free(p);
    }
    void operator()(s3r_result *p) const
    {
        s3r_result_free(p);
    }
    void operator()(s3r_page *p) const
    {
        s3r_page_free(p);
    }
    void operator()(char *p) const
    {
        s3r_text_free(p);
    }
};

template <typename T> using Owned = std::unique_ptr<T, Free>;

template <typename T> Owned<T> OrNoMemory(T *p)
{
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return Owned<T>(p);
}

/* A C string ends where a NUL is: what has one would name something else. */
inline bool HasNul(const std::string &text)
{
    return text.find('\0') != std::string::npos;
}

inline std::string PercentEncoded(std::string_view text)
{
    constexpr std::string_view plain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    constexpr std::string_view hex = "0123456789ABCDEF";
    std::string out;
    for (char c : text) {
        if (utils::Contains(plain, c)) {
            out += c;
        } else {
            const auto byte = static_cast<unsigned char>(c);
            out += '%';
            out += hex[byte >> 4];
            out += hex[byte & 15];
        }
    }
    return out;
}

/* The first thing that one of the caller's functions threw: it must not pass through C. */
class Thrown
{
  public:
    void Keep() noexcept
    {
        const std::lock_guard<std::mutex> guard(lock_);
        if (!first_) {
            first_ = std::current_exception();
        }
    }

    void Rethrow()
    {
        if (first_) {
            std::rethrow_exception(first_);
        }
    }

  private:
    std::mutex lock_;
    std::exception_ptr first_;
};

/* A progress function and what it is told. */
class Progress
{
  public:
    Progress(const http::ProgressFunction &fn, void *userdata, bool is_upload, double total)
        : fn_(fn), userdata_(userdata), is_upload_(is_upload), total_(total)
    {
    }

    void Tell(double bytes)
    {
        if (!fn_) {
            return;
        }
        const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
        const double speed = since.count() > 0 ? bytes / since.count() : 0;
        http::ProgressFunctionArgs args;
        (is_upload_ ? args.upload_total_bytes : args.download_total_bytes) = total_;
        (is_upload_ ? args.uploaded_bytes : args.downloaded_bytes) = bytes;
        (is_upload_ ? args.upload_speed : args.download_speed) = speed;
        args.userdata = userdata_;
        told_ = bytes;
        fn_(args);
    }

    /* After a success all of it is told, once. */
    void Finish(const TransferResponse &response)
    {
        const auto bytes = static_cast<double>(response.transfer.bytes);
        if (response && told_ != bytes) {
            Tell(bytes);
        }
    }

    void Attach(s3r_options *options)
    {
        if (fn_ && s3r_options_set_progress(options, &Progress::Called, this) != S3R_OK) {
            throw std::bad_alloc();
        }
    }

    Thrown thrown;

  private:
    static void Called(void *arg, std::uint64_t bytes) noexcept
    {
        auto *self = static_cast<Progress *>(arg);
        try {
            self->Tell(static_cast<double>(bytes));
        } catch (...) {
            self->thrown.Keep();
        }
    }

    const http::ProgressFunction &fn_;
    void *userdata_;
    bool is_upload_;
    double total_;
    std::atomic<double> told_{-1};
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/* A stream as the source of an upload. */
struct Source {
    std::istream &from;
    Progress &progress;
    double bytes = 0;
    bool is_bad = false;

    static std::int64_t Read(void *arg, void *buf, size_t size) noexcept
    {
        auto *self = static_cast<Source *>(arg);
        try {
            if (self->from.eof()) {
                return 0;
            }
            self->from.read(static_cast<char *>(buf), static_cast<std::streamsize>(size));
            if (self->from.bad() || (self->from.fail() && !self->from.eof())) {
                self->is_bad = true;
                return -1;
            }
            self->bytes += static_cast<double>(self->from.gcount());
            self->progress.Tell(self->bytes);
            return self->from.gcount();
        } catch (...) {
            self->progress.thrown.Keep();
            return -1;
        }
    }
};

/* A function as the sink of a download. */
struct Sink {
    const http::DataFunction &to;
    void *userdata;
    Progress &progress;
    double bytes = 0;

    static int Write(void *arg, const void *buf, size_t len) noexcept
    {
        auto *self = static_cast<Sink *>(arg);
        try {
            http::DataFunctionArgs args;
            args.datachunk.assign(static_cast<const char *>(buf), len);
            args.userdata = self->userdata;
            if (!self->to(std::move(args))) {
                return -1;
            }
            self->bytes += static_cast<double>(len);
            self->progress.Tell(self->bytes);
            return 0;
        } catch (...) {
            self->progress.thrown.Keep();
            return -1;
        }
    }
};

/* A file that appears under its name when all of it is there, and not at all before. */
class NewFile
{
  public:
    NewFile() = default;
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;
    ~NewFile()
    {
        if (fd_ >= 0) {
            ::close(fd_);
            ::unlink(part_.c_str());
        }
    }

    error::Error Create(const std::string &name)
    {
        static std::atomic<unsigned> serial{0};
        part_ = name + "." + std::to_string(::getpid()) + "." + std::to_string(++serial) + ".part";
        fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        return fd_ >= 0 ? error::Error() : Because(part_);
    }

    error::Error Write(std::string_view bytes)
    {
        while (!bytes.empty()) {
            const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
            if (n < 0 && errno != EINTR) {
                return Because(part_);
            }
            bytes.remove_prefix(n < 0 ? 0 : static_cast<size_t>(n));
        }
        return {};
    }

    error::Error Publish(const std::string &name)
    {
        const int fd = std::exchange(fd_, -1);
        error::Error err;
        if (::close(fd) != 0 || ::rename(part_.c_str(), name.c_str()) != 0) {
            err = Because(name);
            ::unlink(part_.c_str());
        }
        return err;
    }

  private:
    int fd_ = -1;
    std::string part_;

    static error::Error Because(const std::string &name)
    {
        return error::Error(name + ": " + std::generic_category().message(errno));
    }
};

inline Transfer TransferOf(const s3r_result *result)
{
    Transfer t;
    t.transport = s3r_result_transport(result);
    t.reason = s3r_result_reason(result);
    t.reason_text = s3r_result_reason_text(result);
    t.provider = s3r_result_provider(result);
    t.bytes = s3r_result_len(result);
    t.requests = s3r_result_requests(result);
    t.verified = s3r_result_is_verified(result) != 0;
    return t;
}

/* What any result says; `rc` is what the call returned. */
inline void Fill(int rc, const s3r_result *result, Response &response)
{
    const std::string message = s3r_result_message(result);
    response.error_number = rc;
    response.status_code = s3r_result_status(result);
    for (size_t i = 0; i < s3r_result_header_count(result); i++) {
        response.headers.Add(s3r_result_header_name(result, i), s3r_result_header_value(result, i));
    }
    response.etag = s3r_result_etag(result);
    response.request_id = response.headers.GetFront("x-amz-request-id");
    response.host_id = response.headers.GetFront("x-amz-id-2");
    if (rc == S3R_OK) {
        return;
    }
    response.message = message.empty() ? s3r_error_text(rc) : message;
    if (rc <= S3R_ERROR_REMOTE) { /* what the server said; before it are faults on the way there */
        response.code = s3r_result_s3_code(result);
        response.resource = "/" + response.bucket_name +
                            (response.object_name.empty() ? "" : "/" + response.object_name);
    }
}

inline void Fill(int rc, const s3r_result *result, TransferResponse &response)
{
    Fill(rc, result, static_cast<Response &>(response));
    response.version_id = s3r_result_version_id(result);
    response.checksum_crc64nvme = s3r_result_crc64_text(result);
    response.transfer = TransferOf(result);
}

inline void Fill(int rc, const s3r_result *result, GetObjectResponse &response)
{
    Fill(rc, result, static_cast<TransferResponse &>(response));
    response.object_size = static_cast<size_t>(s3r_result_object_len(result));
}

inline void Fill(int rc, const s3r_result *result, StatObjectResponse &response)
{
    constexpr std::string_view meta = "x-amz-meta-";
    Fill(rc, result, static_cast<Response &>(response));
    response.version_id = s3r_result_version_id(result);
    response.checksum_crc64nvme = s3r_result_crc64_text(result);
    response.size = static_cast<size_t>(s3r_result_object_len(result));
    response.last_modified =
        utils::UtcTime::FromHttpHeaderValue(response.headers.GetFront("last-modified").c_str());
    response.delete_marker = response.headers.GetFront("x-amz-delete-marker") == "true";
    for (const auto &key : response.headers.Keys()) {
        if (utils::StartsWith(key, meta)) {
            response.user_metadata.Add(key.substr(meta.size()), response.headers.GetFront(key));
        }
    }
}

/* Options of one call, with the first setter's error. */
class Options
{
  public:
    explicit Options(const TransferOptions &t) : options_(OrNoMemory(s3r_options_new()))
    {
        s3r_options *o = options_.get();
        const s3r_rdma mode = t.disable_rdma   ? S3R_RDMA_OFF
                              : t.require_rdma ? S3R_RDMA_REQUIRED
                                               : S3R_RDMA_AUTO;
        Judge(s3r_options_set_rdma(o, mode), "transfer.require_rdma");
        Judge(s3r_options_set_verify(o, t.verify ? 1 : 0), "transfer.verify");
        Judge(s3r_options_set_deadline_ms(o, t.deadline_ms), "transfer.deadline_ms");
        Judge(s3r_options_set_retries(o, t.retries), "transfer.retries");
        Judge(s3r_options_set_http_below(o, t.http_below), "transfer.http_below");
        if (t.disable_rdma && t.require_rdma) {
            err = error::Error("RDMA is required and disabled at the same time");
        }
    }

    s3r_options *get() const
    {
        return options_.get();
    }

    void Conditions(const ObjectConditionalReadArgs &args)
    {
        Judge(s3r_options_set_if_match(get(), Text(args.match_etag, "match_etag")), "match_etag");
        Judge(s3r_options_set_if_none_match(get(), Text(args.not_match_etag, "not_match_etag")),
              "not_match_etag");
    }

    void Headers(const ObjectWriteArgs &args)
    {
        constexpr std::string_view meta = "x-amz-meta-";
        utils::Multimap all = args.headers;
        all.AddAll(args.extra_headers);
        for (const auto &key : args.user_metadata.Keys()) {
            const bool is_whole = utils::StartsWith(utils::ToLower(key), meta);
            all.Add(is_whole ? key : "x-amz-meta-" + key, Joined(args.user_metadata.Get(key)));
        }
        if (!args.content_type.empty()) {
            Header("content-type", args.content_type);
        }
        if (!args.tags.empty()) {
            Header("x-amz-tagging", Query(args.tags));
        }
        for (const auto &key : all.Keys()) {
            Header(key, Joined(all.Get(key)));
        }
    }

    void Pieces(size_t piece_len)
    {
        Judge(s3r_options_set_pieces(get(), piece_len, 0), "part_size");
    }

    error::Error err;

  private:
    Owned<s3r_options> options_;

    void Judge(int rc, const std::string &what)
    {
        if (rc == S3R_ERROR_NOMEM) {
            throw std::bad_alloc();
        }
        if (rc != S3R_OK && !err) {
            err = error::Error(what + ": " + s3r_error_text(rc));
        }
    }

    const char *Text(const std::string &text, const std::string &what)
    {
        if (HasNul(text) && !err) {
            err = error::Error(what + " has a NUL");
        }
        return text.c_str();
    }

    void Header(const std::string &name, const std::string &value)
    {
        Judge(s3r_options_set_header(get(), Text(name, "the name of a header"), Text(value, name)),
              name);
    }

    static std::string Joined(const std::list<std::string> &values)
    {
        std::string all;
        for (const auto &value : values) {
            all += (all.empty() ? "" : ", ") + value;
        }
        return all;
    }

    static std::string Query(const std::map<std::string, std::string> &tags)
    {
        std::string query;
        for (const auto &[key, value] : tags) {
            query += (query.empty() ? "" : "&") + PercentEncoded(key) + "=" + PercentEncoded(value);
        }
        return query;
    }
};

} // namespace detail

} // namespace s3
} // namespace minio

#endif
