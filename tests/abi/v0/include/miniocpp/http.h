/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/http.h - the functions that a call hands data and progress to. */
#ifndef S3R_MINIOCPP_HTTP_H
#define S3R_MINIOCPP_HTTP_H

#include <functional>
#include <string>

namespace minio
{
namespace http
{

enum class Method { kGet, kHead, kPost, kPut, kDelete };

inline const char *MethodToString(Method method) noexcept
{
    switch (method) {
    case Method::kGet:
        return "GET";
    case Method::kHead:
        return "HEAD";
    case Method::kPost:
        return "POST";
    case Method::kPut:
        return "PUT";
    case Method::kDelete:
        return "DELETE";
    }
    return "";
}

struct DataFunctionArgs {
    std::string datachunk;
    void *userdata = nullptr;
};

/* The next bytes of an object, in order, on the thread of the call; false ends the call. What it
 * throws ends the call too, and comes out of it. */
using DataFunction = std::function<bool(DataFunctionArgs)>;

struct ProgressFunctionArgs {
    double download_total_bytes = 0.0; /* 0: not known */
    double downloaded_bytes = 0.0;
    double upload_total_bytes = 0.0;
    double uploaded_bytes = 0.0;
    double download_speed = 0.0; /* bytes a second since the beginning */
    double upload_speed = 0.0;
    void *userdata = nullptr;
};

/* May come from any thread when the data is in memory (`buf`). It must not throw. */
using ProgressFunction = std::function<void(ProgressFunctionArgs)>;

} // namespace http
} // namespace minio

#endif
