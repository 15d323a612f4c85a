/* SPDX-License-Identifier: Apache-2.0 */
/* miniocpp/error.h - an error as words, or none. */
#ifndef S3R_MINIOCPP_ERROR_H
#define S3R_MINIOCPP_ERROR_H

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace minio
{
namespace error
{

/* True when there is one. */
class Error
{
  public:
    Error() = default;
    Error(std::string_view text) : text_(text)
    {
    }

    std::string String() const
    {
        return text_;
    }

    explicit operator bool() const
    {
        return !text_.empty();
    }

    friend std::ostream &operator<<(std::ostream &out, const Error &e)
    {
        return out << e.text_;
    }

  private:
    std::string text_;
};

inline const Error SUCCESS;

/* A result of any type that is made from an error. */
template <typename Result, typename... Args> inline Result make(Args &&...args)
{
    return Result{Error(std::forward<Args>(args)...)};
}

} // namespace error
} // namespace minio

#endif
