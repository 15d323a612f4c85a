/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"

#include <string.h>

int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

void hex_encode(const void *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    *out = '\0';
}

bool hex_decode(const char *text, size_t text_len, void *out, size_t len)
{
    unsigned char *bytes = out;
    if (text_len / 2 != len || text_len % 2)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t len, char *out)
{
    const unsigned char *in = bytes;
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        uint32_t group = (uint32_t)in[i] << 16;
        if (have > 1)
            group |= (uint32_t)in[i + 1] << 8;
        if (have > 2)
            group |= in[i + 2];
        *out++ = base64_digits[group >> 18];
        *out++ = base64_digits[group >> 12 & 63];
        *out++ = have > 1 ? base64_digits[group >> 6 & 63] : '=';
        *out++ = have > 2 ? base64_digits[group & 63] : '=';
    }
    *out = '\0';
}

bool base64_decode(const char *text, size_t text_len, void *out, size_t len)
{
    unsigned char *bytes = out;
    uint32_t group = 0;
    size_t done = 0;
    size_t padding = (3 - len % 3) % 3;
    if (text_len != BASE64_LEN(len))
        return false;
    for (size_t i = 0; i < text_len; i++) {
        uint32_t digit = 0;
        if (i >= text_len - padding) {
            if (text[i] != '=')
                return false;
        } else {
            const char *at = text[i] ? strchr(base64_digits, text[i]) : NULL;
            if (!at)
                return false;
            digit = (uint32_t)(at - base64_digits);
        }
        group = group << 6 | digit;
        if (i % 4 != 3)
            continue;
        for (int shift = 16; shift >= 0; shift -= 8) {
            unsigned char byte = (unsigned char)(group >> shift);
            if (done < len)
                bytes[done++] = byte;
            else if (byte)
                return false; /* padding bits set: not canonical */
        }
        group = 0;
    }
    return true;
}
