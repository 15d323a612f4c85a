/* SPDX-License-Identifier: Apache-2.0 */
/* token.h - the text that names a window: x-amz-rdma-token, in all its dialects.
 * Does:     one codec for every token shape: tells the dialects apart, parses, prints, and says
 *           which address a token would make a server reach.
 * Not here: the window itself (window.h); signing; whether a server serves a scheme.
 * Units:    bytes; numbers in tokens are hexadecimal.
 * Owns:     nothing; a struct token holds everything by value.
 * Threads:  any.
 * Errors:   S3R_E_TOKEN_MALFORMED (no scheme fits, or a known one is broken),
 *           S3R_E_TOKEN_DECLINED (a known family that nobody here serves: hipObject v1, another
 *           version of ofi or cma).
 * Limits:   LIMIT_TOKEN_LEN_MAX characters.
 * A token is a right to write into memory: it is never logged. */
#ifndef S3R_RDMA_TOKEN_H
#define S3R_RDMA_TOKEN_H

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum token_scheme { TOKEN_DC, TOKEN_OFI, TOKEN_CMA, TOKEN_SHIM };

#define TOKEN_PROVIDER_MAX 65 /* with its NUL */
#define TOKEN_OFI_NAME_LEN_MAX 192

struct token_dc {
    uint32_t rkey, dctn;
    uint16_t lid;
    bool has_gid;
    uint8_t gid[16];
};

struct token_ofi {
    char provider[TOKEN_PROVIDER_MAX];
    uint8_t name[TOKEN_OFI_NAME_LEN_MAX];
    size_t name_len;
    uint64_t key;
};

struct token_cma {
    uint64_t pid, start, slot, key;
};

struct token_shim {
    uint8_t connection[16];
    uint32_t rkey;
};

/* The window is [addr, addr + size); a legacy suffix has been applied already. */
struct token {
    enum token_scheme scheme;
    uint64_t addr, size;
    union {
        struct token_dc dc;
        struct token_ofi ofi;
        struct token_cma cma;
        struct token_shim shim;
    };
};

/* The diag names the field that is wrong. */
int token_parse(const char *text, size_t len, struct diag *diag,
                struct token *ret_token) MUST_CHECK;
/* With a NUL; the form without suffix. S3R_E_INVALID_ARGUMENT when `size` is too small. */
int token_print(const struct token *t, char *out, size_t size) MUST_CHECK;
/* "dc", "ofi", "cma", "shim" */
const char *token_scheme_name(enum token_scheme scheme);
/* The IP address that moving bytes for this token would reach: false when it names none (cma, an
 * InfiniBand GID, a libfabric name that is no sockaddr). IPv4-mapped ones come out as IPv4. */
bool token_address(const struct token *t, struct sockaddr_storage *ret_addr) MUST_CHECK;

#endif
