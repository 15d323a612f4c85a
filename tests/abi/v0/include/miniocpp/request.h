/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/request.h - where requests go. */
#ifndef S3R_MINIOCPP_REQUEST_H
#define S3R_MINIOCPP_REQUEST_H

#include <string>
#include <string_view>
#include <utility>

#include "error.h"
#include "utils.h"

namespace minio
{
namespace s3
{

/* HOST, HOST:PORT or [ADDRESS]:PORT. A scheme in front of it counts more than `https`. */
struct BaseUrl {
    bool https = true;
    std::string host;      /* an IPv6 address without its brackets */
    unsigned int port = 0; /* 0: 443 or 80 */
    std::string region;    /* "": us-east-1 */

    BaseUrl() = default;
    explicit BaseUrl(std::string endpoint, bool is_https = true, std::string region_name = {})
        : https(is_https), region(std::move(region_name))
    {
        Parse(endpoint);
    }

    explicit operator bool() const
    {
        return !err_ && !host.empty();
    }

    error::Error Error() const
    {
        return err_ || !host.empty() ? err_ : error::Error("the endpoint has no host");
    }

    /* https://HOST:PORT */
    std::string String() const
    {
        std::string url = https ? "https://" : "http://";
        url += host.find(':') == std::string::npos ? host : "[" + host + "]";
        return port == 0 ? url : url + ":" + std::to_string(port);
    }

  private:
    error::Error err_;

    void Parse(std::string_view text)
    {
        const std::string_view whole = text;
        if (utils::StartsWith(text, "https://")) {
            https = true;
            text.remove_prefix(8);
        } else if (utils::StartsWith(text, "http://")) {
            https = false;
            text.remove_prefix(7);
        }
        if (!text.empty() && text.back() == '/') {
            text.remove_suffix(1);
        }
        if (!text.empty() && text.front() == '[' && utils::Contains(text, ']')) {
            host = text.substr(1, text.find(']') - 1);
            text.remove_prefix(host.size() + 2);
        } else {
            host = text.substr(0, text.find(':'));
            text.remove_prefix(host.size());
        }
        if (host.find_first_of("/?#@[] \t") != std::string::npos || !ParsePort(text)) {
            err_ = error::Error("'" + std::string(whole) + "' is not HOST or HOST:PORT");
            host.clear();
        }
    }

    /* "" or ":PORT" */
    bool ParsePort(std::string_view text)
    {
        if (text.empty()) {
            return true;
        }
        if (text.size() < 2 || text.size() > 6 || text.front() != ':' ||
            text.find_first_not_of("0123456789", 1) != std::string_view::npos) {
            return false;
        }
        port = 0;
        for (char c : text.substr(1)) {
            port = port * 10 + static_cast<unsigned int>(c - '0');
        }
        return port >= 1 && port <= 65535;
    }
};

} // namespace s3
} // namespace minio

#endif
