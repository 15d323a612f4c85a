/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/utils.h - times, headers and small text functions of the C++ interface. */
#ifndef S3R_MINIOCPP_UTILS_H
#define S3R_MINIOCPP_UTILS_H

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <list>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

#include "error.h"

namespace minio
{
namespace utils
{

inline constexpr unsigned int kMaxMultipartCount = 10000;
inline constexpr std::uint64_t kMaxObjectSize = std::uint64_t{5} << 40;
inline constexpr std::uint64_t kMaxPartSize = std::uint64_t{5} << 30;
inline constexpr unsigned int kMinPartSize = 5U << 20;

inline const char *BoolToString(bool b)
{
    return b ? "true" : "false";
}

/* ASCII only, whatever the locale. */
inline char ToLower(char c)
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string ToLower(std::string text)
{
    for (char &c : text) {
        c = ToLower(c);
    }
    return text;
}

inline bool StartsWith(std::string_view text, std::string_view head)
{
    return text.substr(0, head.size()) == head;
}

inline bool EndsWith(std::string_view text, std::string_view tail)
{
    return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

inline bool Contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

inline bool Contains(std::string_view text, char c)
{
    return text.find(c) != std::string_view::npos;
}

inline std::string Trim(std::string_view text, char ch = ' ')
{
    const auto first = text.find_first_not_of(ch);
    if (first == std::string_view::npos) {
        return {};
    }
    return std::string(text.substr(first, text.find_last_not_of(ch) - first + 1));
}

/* False, and `value` as it was, when the variable is not set. */
inline bool GetEnv(std::string &value, const char *name)
{
    const char *set = std::getenv(name);
    if (set == nullptr) {
        return false;
    }
    value = set;
    return true;
}

/* An instant, to the microsecond. The default is no time at all: false. */
class UtcTime
{
  public:
    UtcTime() = default;
    UtcTime(std::time_t seconds) : seconds_(seconds)
    {
    }
    UtcTime(std::time_t seconds, long microseconds) : seconds_(seconds), microseconds_(microseconds)
    {
    }

    static UtcTime Now()
    {
        const auto since = std::chrono::system_clock::now().time_since_epoch();
        const auto us = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
        return UtcTime(static_cast<std::time_t>(us / 1000000), static_cast<long>(us % 1000000));
    }

    void Add(std::time_t seconds)
    {
        seconds_ += seconds;
    }

    void ToLocalTime(std::tm &out) const
    {
        out = std::tm{};
        localtime_r(&seconds_, &out);
    }

    /* 2026-01-31T09:08:07.123Z */
    std::string ToISO8601UTC() const
    {
        const std::tm t = Broken();
        return Print("%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, microseconds_ / 1000);
    }

    /* 20260131T090807Z */
    std::string ToAmzDate() const
    {
        const std::tm t = Broken();
        return Print("%04d%02d%02dT%02d%02d%02dZ", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                     t.tm_hour, t.tm_min, t.tm_sec);
    }

    std::string ToSignerDate() const
    {
        return ToAmzDate().substr(0, 8);
    }

    /* Sat, 31 Jan 2026 09:08:07 GMT */
    std::string ToHttpHeaderValue() const
    {
        const std::tm t = Broken();
        return Print("%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[static_cast<size_t>(t.tm_wday)],
                     t.tm_mday, kMonths[static_cast<size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour,
                     t.tm_min, t.tm_sec);
    }

    /* No time for what is not one. */
    static UtcTime FromHttpHeaderValue(const char *value)
    {
        const std::string_view v = value == nullptr ? "" : value;
        if (v.size() != 29 || v.substr(25) != " GMT") {
            return {};
        }
        for (size_t month = 0; month < kMonths.size(); month++) {
            if (v.substr(8, 3) == kMonths[month]) {
                return FromParts(v.substr(12, 4), static_cast<int>(month), v.substr(5, 2),
                                 v.substr(17, 8));
            }
        }
        return {};
    }

    static UtcTime FromISO8601UTC(const char *value)
    {
        const std::string_view v = value == nullptr ? "" : value;
        const int month = v.size() < 20 || v.back() != 'Z' ? -1 : Number(v.substr(5, 2));
        if (month < 1 || month > 12 || v[4] != '-' || v[7] != '-' || v[10] != 'T') {
            return {};
        }
        UtcTime time = FromParts(v.substr(0, 4), month - 1, v.substr(8, 2), v.substr(11, 8));
        long scale = 100000;
        for (size_t i = 20; v[19] == '.' && i < v.size() - 1; i++, scale /= 10) {
            if (v[i] < '0' || v[i] > '9') {
                return {};
            }
            time.microseconds_ += (v[i] - '0') * scale;
        }
        return time;
    }

    explicit operator bool() const
    {
        return seconds_ != 0 || microseconds_ != 0;
    }

    int Compare(const UtcTime &other) const
    {
        if (seconds_ != other.seconds_) {
            return seconds_ < other.seconds_ ? -1 : 1;
        }
        return microseconds_ == other.microseconds_
                   ? 0
                   : (microseconds_ < other.microseconds_ ? -1 : 1);
    }

    bool Equal(const UtcTime &other) const
    {
        return Compare(other) == 0;
    }
    bool operator==(const UtcTime &other) const
    {
        return Compare(other) == 0;
    }
    bool operator!=(const UtcTime &other) const
    {
        return Compare(other) != 0;
    }
    bool operator<(const UtcTime &other) const
    {
        return Compare(other) < 0;
    }
    bool operator>(const UtcTime &other) const
    {
        return Compare(other) > 0;
    }
    bool operator<=(const UtcTime &other) const
    {
        return Compare(other) <= 0;
    }
    bool operator>=(const UtcTime &other) const
    {
        return Compare(other) >= 0;
    }

    friend std::ostream &operator<<(std::ostream &out, const UtcTime &t)
    {
        return out << t.ToISO8601UTC();
    }

  private:
    static constexpr std::array<const char *, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                          "Thu", "Fri", "Sat"};
    static constexpr std::array<const char *, 12> kMonths = {"Jan", "Feb", "Mar", "Apr",
                                                             "May", "Jun", "Jul", "Aug",
                                                             "Sep", "Oct", "Nov", "Dec"};

    std::time_t seconds_ = 0;
    long microseconds_ = 0;

    std::tm Broken() const
    {
        std::tm t{};
        gmtime_r(&seconds_, &t);
        return t;
    }

    template <typename... Args> static std::string Print(const char *format, Args... args)
    {
        std::array<char, 96> out{};
        std::snprintf(out.data(), out.size(), format, args...);
        return out.data();
    }

    /* -1 for what is no number. */
    static int Number(std::string_view digits)
    {
        int n = 0;
        for (char c : digits) {
            if (c < '0' || c > '9') {
                return -1;
            }
            n = n * 10 + (c - '0');
        }
        return n;
    }

    static UtcTime FromParts(std::string_view year, int month, std::string_view day,
                             std::string_view clock)
    {
        const int y = Number(year), d = Number(day), hour = Number(clock.substr(0, 2)),
                  minute = Number(clock.substr(3, 2)), second = Number(clock.substr(6, 2));
        if (y < 0 || d < 1 || d > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
            second < 0 || second > 60 || clock[2] != ':' || clock[5] != ':') {
            return {};
        }
        std::tm t{};
        t.tm_year = y - 1900;
        t.tm_mon = month;
        t.tm_mday = d;
        t.tm_hour = hour;
        t.tm_min = minute;
        t.tm_sec = second;
        return UtcTime(timegm(&t));
    }
};

/* Names, in any case of letters, each with one value or several. */
class Multimap
{
  public:
    void Add(std::string key, std::string value)
    {
        map_[std::move(key)].insert(std::move(value));
    }

    void AddAll(const Multimap &other)
    {
        for (const auto &[key, values] : other.map_) {
            map_[key].insert(values.begin(), values.end());
        }
    }

    explicit operator bool() const
    {
        return !map_.empty();
    }

    bool Contains(std::string_view key) const
    {
        return map_.find(key) != map_.end();
    }

    std::list<std::string> Get(std::string_view key) const
    {
        const auto found = map_.find(key);
        if (found == map_.end()) {
            return {};
        }
        return std::list<std::string>(found->second.begin(), found->second.end());
    }

    /* "" when it is not there. */
    std::string GetFront(std::string_view key) const
    {
        const auto found = map_.find(key);
        return found == map_.end() ? std::string() : *found->second.begin();
    }

    std::list<std::string> Keys() const
    {
        std::list<std::string> keys;
        for (const auto &entry : map_) {
            keys.push_back(entry.first);
        }
        return keys;
    }

    /* `Name: value`, a line for each value. */
    std::list<std::string> ToHttpHeaders() const
    {
        std::list<std::string> lines;
        for (const auto &[key, values] : map_) {
            for (const auto &value : values) {
                lines.push_back(key + ": " + value);
            }
        }
        return lines;
    }

  private:
    struct Less {
        using is_transparent = void;
        bool operator()(std::string_view a, std::string_view b) const
        {
            for (size_t i = 0; i < a.size() && i < b.size(); i++) {
                if (ToLower(a[i]) != ToLower(b[i])) {
                    return ToLower(a[i]) < ToLower(b[i]);
                }
            }
            return a.size() < b.size();
        }
    };

    std::map<std::string, std::set<std::string>, Less> map_;
};

} // namespace utils
} // namespace minio

#endif
