/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/sigv4.h"

#include "base/hex.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define CANONICAL_LEN_MAX (16 * LIMIT_HEADERS_LEN_MAX)

void sig_chain_fini(struct sig_chain *chain)
{
    explicit_bzero(chain, sizeof *chain);
}

/* The canonical request, as "Authenticating Requests (AWS Signature Version 4)" of the S3 API
 * reference has it */

/* Undone and done again: `~`, `%7E` and `%7e` are the same name, and the same signature. */
static int add_path(struct text *out, const char *path)
{
    CLEANUP(text_fini) struct text decoded;
    text_init(&decoded, LIMIT_TARGET_LEN_MAX);
    if (!uri_decode(path, strlen(path), 0, &decoded))
        return S3R_E_INVALID_URI;
    if (text_error(&decoded))
        return text_error(&decoded);
    uri_encode(out, text_cstr(&decoded), decoded.len, true);
    if (decoded.len == 0)
        text_char(out, '/');
    return 0;
}

/* Inner runs of blanks count as one; the outer ones went when the header was read. */
static void add_value(struct text *out, const char *value)
{
    for (; *value; value++) {
        bool is_blank = *value == ' ' || *value == '\t';
        if (is_blank && (value[1] == ' ' || value[1] == '\t'))
            continue;
        text_char(out, is_blank ? ' ' : *value);
    }
}

/* "name:value,value\n"; false when there is no such header. */
static bool add_header(struct text *out, const struct headers *headers, const char *name,
                       size_t name_len)
{
    bool is_there = false;
    for (size_t i = 0; i < headers->count; i++) {
        const struct header *row = &headers->rows[i];
        if (strncmp(row->name, name, name_len) != 0 || row->name[name_len])
            continue;
        if (!is_there)
            text_add(out, name, name_len);
        text_char(out, is_there ? ',' : ':');
        add_value(out, row->value);
        is_there = true;
    }
    text_char(out, '\n');
    return is_there;
}

static int add_headers(struct text *out, const struct headers *headers, const char *signed_headers,
                       struct diag *diag)
{
    for (const char *name = signed_headers; *name;) {
        size_t len = strcspn(name, ";");
        if (!add_header(out, headers, name, len))
            return diag_fail(diag, S3R_E_SIGNATURE, "the signed header '%.*s' did not arrive",
                             (int)min_u64(len, 64), name);
        name += len + (name[len] == ';');
    }
    return 0;
}

static int canonical_hash(const struct sig_request *req, const char *query_left_out,
                          const char *signed_headers, const char *payload_hash, struct diag *diag,
                          char ret_hex[SIG_HEX_LEN + 1])
{
    CLEANUP(text_fini) struct text t;
    text_init(&t, CANONICAL_LEN_MAX);
    text_fmt(&t, "%s\n", req->method);
    int rc = add_path(&t, req->path);
    if (rc)
        return diag_fail(diag, rc, "the path cannot be decoded");
    text_char(&t, '\n');
    rc = query_canonical(req->query, query_left_out, &t);
    if (rc)
        return rc;
    text_char(&t, '\n');
    rc = add_headers(&t, req->headers, signed_headers, diag);
    if (rc)
        return rc;
    text_fmt(&t, "\n%s\n%s", signed_headers, payload_hash);
    if (text_error(&t) == 0)
        sha256_hex(t.data, t.len, ret_hex);
    return text_error(&t);
}

/* Keys and signatures */

/* HMAC over a string, in place: the old key makes the new one. */
static void key_step(unsigned char key[SHA256_LEN], const char *s, size_t len)
{
    unsigned char next[SHA256_LEN];
    hmac_sha256(key, SHA256_LEN, s, len, next);
    memcpy(key, next, SHA256_LEN);
    explicit_bzero(next, sizeof next);
}

/* "AWS4" + secret, then the four fields of the scope. */
static int derive_key(const char *secret, const char *scope, unsigned char key[SHA256_LEN])
{
    CLEANUP(freep) char *start = NULL;
    int len = asprintf(&start, "AWS4%s", secret);
    if (len < 0) {
        start = NULL;
        return S3R_E_NOMEM;
    }
    size_t field = strcspn(scope, "/");
    hmac_sha256(start, (size_t)len, scope, field, key);
    explicit_bzero(start, (size_t)len);
    while (scope[field]) {
        scope += field + 1;
        field = strcspn(scope, "/");
        key_step(key, scope, field);
    }
    return 0;
}

static void hmac_hex(const struct sig_chain *chain, const struct text *t,
                     char ret_hex[SIG_HEX_LEN + 1])
{
    unsigned char mac[SHA256_LEN];
    hmac_sha256(chain->key, SHA256_LEN, text_cstr(t), t->len, mac);
    hex_encode(mac, SHA256_LEN, ret_hex);
}

/* All strings to sign are short: three fixed lines and hashes. */
#define TO_SIGN_LEN_MAX 1024

/* Signs a request's hash; the chain starts at that signature. */
static void chain_seed(struct sig_chain *chain, const char *canonical_sha256)
{
    CLEANUP(text_fini) struct text t;
    text_init(&t, TO_SIGN_LEN_MAX);
    text_fmt(&t, ALGORITHM "\n%s\n%s\n%s", chain->time, chain->scope, canonical_sha256);
    hmac_hex(chain, &t, chain->previous);
}

void sig_chain_chunk(struct sig_chain *chain, const unsigned char sha256_of_chunk[SHA256_LEN],
                     char ret_signature[SIG_HEX_LEN + 1])
{
    CLEANUP(text_fini) struct text t;
    char hex[SIG_HEX_LEN + 1];
    text_init(&t, TO_SIGN_LEN_MAX);
    hex_encode(sha256_of_chunk, SHA256_LEN, hex);
    text_fmt(&t, ALGORITHM "-PAYLOAD\n%s\n%s\n%s\n" SIG_EMPTY_SHA256 "\n%s", chain->time,
             chain->scope, chain->previous, hex);
    hmac_hex(chain, &t, chain->previous);
    memcpy(ret_signature, chain->previous, SIG_HEX_LEN + 1);
}

void sig_chain_trailer(struct sig_chain *chain, const char *lines, size_t len,
                       char ret_signature[SIG_HEX_LEN + 1])
{
    CLEANUP(text_fini) struct text t;
    char hex[SIG_HEX_LEN + 1];
    text_init(&t, TO_SIGN_LEN_MAX);
    sha256_hex(lines, len, hex);
    text_fmt(&t, ALGORITHM "-TRAILER\n%s\n%s\n%s\n%s", chain->time, chain->scope, chain->previous,
             hex);
    hmac_hex(chain, &t, chain->previous);
    memcpy(ret_signature, chain->previous, SIG_HEX_LEN + 1);
}

/* Verifying */

bool sig_header_is_signed(const struct sig_auth *auth, const char *name)
{
    size_t name_len = strlen(name);
    for (const char *s = auth->signed_headers ? auth->signed_headers : ""; *s;) {
        size_t len = strcspn(s, ";");
        if (len == name_len && memcmp(s, name, len) == 0)
            return true;
        s += len + (s[len] == ';');
    }
    return false;
}

const char *sig_unsigned_header(const struct sig_auth *auth, const struct headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        const char *name = headers->rows[i].name;
        if (strncmp(name, "x-amz-", 6) == 0 && strcmp(name, "x-amz-content-sha256") != 0 &&
            !sig_header_is_signed(auth, name))
            return name;
    }
    return NULL;
}

int sig_verify(const struct sig_request *req, const struct sig_auth *auth, const char *secret_key,
               struct diag *diag, struct sig_chain *ret_chain)
{
    CLEANUP(sig_chain_fini) struct sig_chain chain = {0};
    char hex[SIG_HEX_LEN + 1];
    if (auth->how == SIG_ANONYMOUS)
        return diag_fail(diag, S3R_E_ACCESS_DENIED, "the request is not signed");
    const char *loose = sig_unsigned_header(auth, req->headers);
    if (loose)
        return diag_fail(diag, S3R_E_ACCESS_DENIED,
                         "a header is in the request that was not signed: %.64s", loose);
    int rc = canonical_hash(req, auth->how == SIG_PRESIGNED ? "X-Amz-Signature" : NULL,
                            auth->signed_headers, auth->payload_hash, diag, hex);
    if (rc == 0)
        rc = derive_key(secret_key, auth->scope, chain.key);
    if (rc)
        return rc;
    memcpy(chain.scope, auth->scope, sizeof chain.scope);
    memcpy(chain.time, auth->time, sizeof chain.time);
    chain_seed(&chain, hex);
    if (!equal_secret(chain.previous, auth->signature, SIG_HEX_LEN))
        return S3R_E_SIGNATURE;
    if (ret_chain)
        *ret_chain = chain;
    return 0;
}

/* Is the parameter part of the authentication itself, or one that only a header may carry? */
static bool is_auth_param(const char *name)
{
    static const char *const names[] = {"x-amz-algorithm",      "x-amz-credential",
                                        "x-amz-date",           "x-amz-expires",
                                        "x-amz-signedheaders",  "x-amz-signature",
                                        "x-amz-content-sha256", "x-amz-security-token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strncasecmp(name, "x-amz-rdma-", 11) == 0;
}

int sig_adopt_query(const struct query *query, struct headers *headers)
{
    size_t before = headers->count;
    for (size_t i = 0; i < query->count; i++) {
        const struct query_param *p = &query->rows[i];
        if (strncasecmp(p->name, "x-amz-", 6) != 0 || is_auth_param(p->name))
            continue;
        bool is_there = false;
        for (size_t j = 0; j < before && !is_there; j++)
            is_there = strcasecmp(headers->rows[j].name, p->name) == 0;
        int rc = is_there ? 0 : headers_add(headers, p->name, p->value);
        if (rc)
            return rc;
    }
    return 0;
}

/* Signing */

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Hops in between may change these, or the HTTP library sets them by itself. */
static bool is_left_unsigned(const char *name)
{
    static const char *const names[] = {"accept-encoding", "authorization",     "connection",
                                        "expect",          "transfer-encoding", "user-agent"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static int list_signed_headers(const struct headers *headers, struct text *out)
{
    const char *names[LIMIT_HEADERS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < headers->count; i++)
        if (!is_left_unsigned(headers->rows[i].name))
            names[count++] = headers->rows[i].name;
    qsort(names, count, sizeof names[0], name_order);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            text_fmt(out, "%s%s", i ? ";" : "", names[i]);
    return text_error(out);
}

static int chain_init(const struct sig_credentials *cred, int64_t now_s, struct sig_chain *chain)
{
    if (strlen(cred->region) > LIMIT_REGION_LEN_MAX ||
        strlen(cred->access_key) > LIMIT_ACCESS_KEY_LEN_MAX || strchr(cred->region, '/'))
        return S3R_E_INVALID_ARGUMENT;
    clock_print_basic(now_s, chain->time);
    snprintf(chain->scope, sizeof chain->scope, "%.8s/%s/s3/aws4_request", chain->time,
             cred->region);
    return derive_key(cred->secret_key, chain->scope, chain->key);
}

int sig_sign(const struct sig_credentials *cred, int64_t now_s, const struct sig_request *req,
             const char *payload_hash, struct headers *headers, struct sig_chain *ret_chain)
{
    CLEANUP(sig_chain_fini) struct sig_chain chain = {0};
    CLEANUP(text_fini) struct text names, value;
    char hex[SIG_HEX_LEN + 1];
    text_init(&names, LIMIT_HEADERS_LEN_MAX);
    text_init(&value, LIMIT_HEADERS_LEN_MAX);
    if (!headers_get(headers, "host"))
        return S3R_E_INVALID_ARGUMENT;
    int rc = chain_init(cred, now_s, &chain);
    if (rc == 0)
        rc = headers_set(headers, "x-amz-date", chain.time);
    if (rc == 0)
        rc = headers_set(headers, "x-amz-content-sha256", payload_hash);
    if (rc == 0 && cred->session_token)
        rc = headers_set(headers, "x-amz-security-token", cred->session_token);
    if (rc == 0)
        rc = list_signed_headers(headers, &names);
    struct sig_request with_headers = *req;
    with_headers.headers = headers;
    if (rc == 0)
        rc = canonical_hash(&with_headers, NULL, text_cstr(&names), payload_hash, NULL, hex);
    if (rc)
        return rc;
    chain_seed(&chain, hex);
    text_fmt(&value, ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s",
             cred->access_key, chain.scope, text_cstr(&names), chain.previous);
    rc = text_error(&value);
    if (rc == 0)
        rc = headers_set(headers, "authorization", text_cstr(&value));
    if (rc == 0 && ret_chain)
        *ret_chain = chain;
    return rc;
}

static int copy_query(const struct query *from, struct query *to)
{
    int rc = 0;
    for (size_t i = 0; i < from->count && rc == 0; i++)
        rc =
            query_add(to, from->rows[i].name, from->rows[i].has_value ? from->rows[i].value : NULL);
    return rc;
}

/* The X-Amz- parameters but the signature. */
static int add_presign_params(const struct sig_credentials *cred, const struct sig_chain *chain,
                              int64_t expires_s, const char *signed_headers, struct query *q)
{
    char credential[LIMIT_ACCESS_KEY_LEN_MAX + 1 + SIG_SCOPE_SIZE], expires[24];
    snprintf(credential, sizeof credential, "%s/%s", cred->access_key, chain->scope);
    snprintf(expires, sizeof expires, "%lld", (long long)expires_s);
    const struct query_param params[] = {
        {(char *)"X-Amz-Algorithm", (char *)ALGORITHM, true},
        {(char *)"X-Amz-Credential", credential, true},
        {(char *)"X-Amz-Date", (char *)chain->time, true},
        {(char *)"X-Amz-Expires", expires, true},
        {(char *)"X-Amz-SignedHeaders", (char *)signed_headers, true},
        {(char *)"X-Amz-Security-Token", (char *)cred->session_token, true},
    };
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(params) && rc == 0; i++)
        if (params[i].value)
            rc = query_add(q, params[i].name, params[i].value);
    return rc;
}

int sig_presign(const struct sig_credentials *cred, int64_t now_s, int64_t expires_s,
                const struct sig_request *req, struct text *out)
{
    CLEANUP(sig_chain_fini) struct sig_chain chain = {0};
    CLEANUP(query_fini) struct query q = {0};
    CLEANUP(text_fini) struct text names;
    char hex[SIG_HEX_LEN + 1];
    text_init(&names, LIMIT_HEADERS_LEN_MAX);
    if (expires_s < 1 || expires_s > LIMIT_PRESIGN_S_MAX || !headers_get(req->headers, "host"))
        return S3R_E_INVALID_ARGUMENT;
    int rc = chain_init(cred, now_s, &chain);
    if (rc == 0)
        rc = list_signed_headers(req->headers, &names);
    if (rc == 0)
        rc = copy_query(req->query, &q);
    if (rc == 0)
        rc = add_presign_params(cred, &chain, expires_s, text_cstr(&names), &q);
    struct sig_request with_query = *req;
    with_query.query = &q;
    if (rc == 0)
        rc = canonical_hash(&with_query, NULL, text_cstr(&names), SIG_UNSIGNED_PAYLOAD, NULL, hex);
    if (rc)
        return rc;
    chain_seed(&chain, hex);
    rc = query_canonical(&q, NULL, out);
    text_fmt(out, "&X-Amz-Signature=%s", chain.previous);
    return rc ? rc : text_error(out);
}
