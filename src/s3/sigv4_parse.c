/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/sigv4.h"

#include "base/hex.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sig_auth_fini(struct sig_auth *auth)
{
    free(auth->signed_headers);
    free(auth->payload_hash);
    *auth = (struct sig_auth){0};
}

/* What is being read, and the code for its faults: header and query have one each. */
struct reading {
    const struct sig_request *req;
    const char *region;
    int64_t now_s;
    struct diag *diag;
    int malformed;
    struct sig_auth *auth;
};

/* Copies `len` bytes as a string of at most `size` with its NUL. */
static bool take(char *out, size_t size, const char *s, size_t len)
{
    if (len >= size)
        return false;
    memcpy(out, s, len);
    out[len] = '\0';
    return true;
}

/* Takes the last `/field` off the end of s[0..*len). */
static bool last_field(const char *s, size_t *len, const char **ret_field, size_t *ret_field_len)
{
    const char *slash = memrchr(s, '/', *len);
    if (!slash)
        return false;
    *ret_field = slash + 1;
    *ret_field_len = *len - (size_t)(slash - s) - 1;
    *len = (size_t)(slash - s);
    return true;
}

static bool is_field(const char *s, size_t len, const char *wanted)
{
    return len == strlen(wanted) && memcmp(s, wanted, len) == 0;
}

/* ACCESS/20130524/us-east-1/s3/aws4_request, from the right: an access key may hold slashes. */
static int read_credential(struct reading *r, const char *s, size_t len)
{
    const char *end, *service, *region, *date;
    size_t end_len, service_len, region_len, date_len;
    struct sig_auth *auth = r->auth;
    uint64_t number;
    if (!last_field(s, &len, &end, &end_len) || !last_field(s, &len, &service, &service_len) ||
        !last_field(s, &len, &region, &region_len) || !last_field(s, &len, &date, &date_len) ||
        len == 0)
        return diag_fail(r->diag, r->malformed,
                         "the credential must be ACCESS-KEY/YYYYMMDD/REGION/s3/aws4_request");
    if (!is_field(end, end_len, "aws4_request"))
        return diag_fail(r->diag, r->malformed, "the credential must end in aws4_request");
    if (!is_field(service, service_len, "s3"))
        return diag_fail(r->diag, r->malformed, "the credential's service must be s3");
    if (date_len != 8 || !num_parse_dec(date, date_len, UINT64_MAX, &number))
        return diag_fail(r->diag, r->malformed, "the credential's date must be YYYYMMDD");
    if (region_len == 0 || !take(auth->region, sizeof auth->region, region, region_len))
        return diag_fail(r->diag, r->malformed, "the credential's region is empty or too long");
    if (r->region && strcmp(auth->region, r->region) != 0)
        return diag_fail(r->diag, r->malformed, "the region '%s' is wrong; expecting '%s'",
                         auth->region, r->region);
    if (!take(auth->access_key, sizeof auth->access_key, s, len))
        return diag_fail(r->diag, r->malformed, "the access key has more than %d characters",
                         LIMIT_ACCESS_KEY_LEN_MAX);
    snprintf(auth->scope, sizeof auth->scope, "%.8s/%s/s3/aws4_request", date, auth->region);
    return 0;
}

/* Lower-case names in ascending order, so that each occurs once; `host` among them. */
static int read_signed_headers(struct reading *r, const char *s, size_t len)
{
    char *list = strndup(s, len);
    if (!list)
        return S3R_E_NOMEM;
    free(r->auth->signed_headers);
    r->auth->signed_headers = list;
    bool is_good = list[0] && strlen(list) == len;
    const char *before = "";
    size_t before_len = 0;
    for (const char *name = list; is_good;) {
        size_t name_len = strcspn(name, ";"), common = min_u64(name_len, before_len);
        int order = memcmp(before, name, common);
        is_good = name_len && (order < 0 || (order == 0 && before_len < name_len));
        for (size_t i = 0; i < name_len; i++)
            is_good = is_good && name[i] > ' ' && name[i] < 0x7f && name[i] != ':' &&
                      !(name[i] >= 'A' && name[i] <= 'Z');
        before = name;
        before_len = name_len;
        if (!name[name_len])
            break;
        name += name_len + 1;
    }
    if (!is_good)
        return diag_fail(r->diag, r->malformed,
                         "SignedHeaders must be lower-case names in ascending order, with ';'");
    if (!sig_header_is_signed(r->auth, "host"))
        return diag_fail(r->diag, r->malformed, "SignedHeaders must include host");
    return 0;
}

static int read_signature(struct reading *r, const char *s, size_t len)
{
    unsigned char bytes[SHA256_LEN];
    if (!hex_decode(s, len, bytes, sizeof bytes))
        return diag_fail(r->diag, r->malformed, "the signature must be 64 hex digits");
    hex_encode(bytes, sizeof bytes, r->auth->signature);
    return 0;
}

static int read_payload_hash(struct reading *r, const char *value)
{
    static const struct {
        const char *text;
        enum sig_payload kind;
    } kinds[] = {
        {SIG_UNSIGNED_PAYLOAD, SIG_PAYLOAD_UNSIGNED},
        {SIG_STREAMING, SIG_PAYLOAD_STREAM},
        {SIG_STREAMING_TRAILER, SIG_PAYLOAD_STREAM_TRAILER},
        {SIG_STREAMING_UNSIGNED_TRAILER, SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER},
    };
    struct sig_auth *auth = r->auth;
    auth->payload_hash = strdup(value);
    if (!auth->payload_hash)
        return S3R_E_NOMEM;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(value, kinds[i].text) == 0) {
            auth->payload = kinds[i].kind;
            return 0;
        }
    if (strncmp(value, "STREAMING-AWS4-ECDSA", 20) == 0)
        return diag_fail(r->diag, S3R_E_UNSUPPORTED, "SigV4A (ECDSA) is not offered");
    if (!hex_decode(value, strlen(value), auth->payload_sha256, SHA256_LEN))
        return diag_fail(r->diag, S3R_E_INVALID_ARGUMENT,
                         "x-amz-content-sha256 must be " SIG_UNSIGNED_PAYLOAD
                         ", a STREAMING- value, or 64 hex digits");
    auth->payload = SIG_PAYLOAD_SHA256;
    return 0;
}

/* The header's date must be the scope's. */
static int check_scope_date(struct reading *r)
{
    if (memcmp(r->auth->scope, r->auth->time, 8) != 0)
        return diag_fail(r->diag, r->malformed, "the credential's date is not that of the request");
    return 0;
}

/* Authorization: AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=... */

static int read_pair(struct reading *r, const char *s, size_t len, unsigned *seen)
{
    static const struct {
        const char *name;
        int (*read)(struct reading *r, const char *s, size_t len);
    } pairs[] = {{"Credential=", read_credential},
                 {"SignedHeaders=", read_signed_headers},
                 {"Signature=", read_signature}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        size_t name_len = strlen(pairs[i].name);
        if (len < name_len || memcmp(s, pairs[i].name, name_len) != 0)
            continue;
        if (*seen & 1u << i)
            break;
        *seen |= 1u << i;
        return pairs[i].read(r, s + name_len, len - name_len);
    }
    return diag_fail(r->diag, r->malformed,
                     "the Authorization header takes Credential, SignedHeaders and Signature, "
                     "once each");
}

static int read_authorization(struct reading *r, const char *s)
{
    unsigned seen = 0;
    while (*s) {
        s += strspn(s, " \t");
        size_t len = strcspn(s, ","), trimmed = len;
        while (trimmed && (s[trimmed - 1] == ' ' || s[trimmed - 1] == '\t'))
            trimmed--;
        int rc = read_pair(r, s, trimmed, &seen);
        if (rc)
            return rc;
        s += len + (s[len] == ',');
    }
    if (seen != 7)
        return diag_fail(r->diag, r->malformed,
                         "the Authorization header needs Credential, SignedHeaders and Signature");
    return 0;
}

/* x-amz-date, or Date in either form. */
static int read_header_time(struct reading *r)
{
    const struct headers *h = r->req->headers;
    const char *value = headers_get(h, "x-amz-date");
    int64_t time_s = 0;
    bool is_good = false;
    if (value)
        is_good =
            headers_count(h, "x-amz-date") == 1 && clock_parse_basic(value, strlen(value), &time_s);
    else if ((value = headers_get(h, "date")))
        is_good =
            headers_count(h, "date") == 1 &&
            (clock_parse_basic(value, strlen(value), &time_s) || clock_parse_http(value, &time_s));
    if (!is_good)
        return diag_fail(r->diag, S3R_E_ACCESS_DENIED,
                         "a signed request needs a valid x-amz-date or Date header");
    clock_print_basic(time_s, r->auth->time);
    if (time_s < r->now_s - LIMIT_SKEW_S || time_s > r->now_s + LIMIT_SKEW_S)
        return S3R_E_TIME_SKEWED;
    return check_scope_date(r);
}

static int parse_header(struct reading *r, const char *authorization)
{
    static const char scheme[] = "AWS4-HMAC-SHA256";
    size_t scheme_len = strcspn(authorization, " \t");
    r->malformed = S3R_E_MALFORMED_AUTH;
    r->auth->how = SIG_HEADER;
    if (is_field(authorization, scheme_len, "AWS"))
        return diag_fail(r->diag, S3R_E_INVALID_REQUEST,
                         "Signature Version 2 is not offered; use AWS4-HMAC-SHA256");
    if (strncmp(authorization, "AWS4-ECDSA", 10) == 0)
        return diag_fail(r->diag, S3R_E_UNSUPPORTED, "SigV4A (ECDSA) is not offered");
    if (!is_field(authorization, scheme_len, scheme))
        return diag_fail(r->diag, S3R_E_INVALID_ARGUMENT,
                         "the Authorization header must begin with AWS4-HMAC-SHA256");
    int rc = read_authorization(r, authorization + scheme_len);
    if (rc == 0)
        rc = read_header_time(r);
    if (rc)
        return rc;
    const char *hash = headers_get(r->req->headers, "x-amz-content-sha256");
    if (!hash || headers_count(r->req->headers, "x-amz-content-sha256") != 1)
        return diag_fail(r->diag, S3R_E_INVALID_REQUEST,
                         "a signed request needs the header x-amz-content-sha256, once");
    return read_payload_hash(r, hash);
}

/* ?X-Amz-Algorithm=...&X-Amz-Credential=... */

/* The one value of a parameter; NULL when it is absent or there twice. */
static const char *single_param(const struct query *q, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < q->count; i++)
        if (strcmp(q->rows[i].name, name) == 0) {
            if (value)
                return NULL;
            value = q->rows[i].value;
        }
    return value;
}

static int read_query_time(struct reading *r, const char *date, const char *expires)
{
    int64_t time_s;
    uint64_t expires_s;
    if (!clock_parse_basic(date, strlen(date), &time_s))
        return diag_fail(r->diag, r->malformed, "X-Amz-Date must be YYYYMMDDTHHMMSSZ");
    if (!num_parse_dec(expires, strlen(expires), LIMIT_PRESIGN_S_MAX, &expires_s) || !expires_s)
        return diag_fail(r->diag, r->malformed, "X-Amz-Expires must be 1 to %d seconds",
                         LIMIT_PRESIGN_S_MAX);
    clock_print_basic(time_s, r->auth->time);
    if (time_s > r->now_s + LIMIT_SKEW_S)
        return diag_fail(r->diag, S3R_E_EXPIRED, "the request is not valid yet");
    if (r->now_s > time_s + (int64_t)expires_s)
        return diag_fail(r->diag, S3R_E_EXPIRED, "the request has expired");
    return check_scope_date(r);
}

static int parse_presigned(struct reading *r)
{
    const struct query *q = r->req->query;
    enum { ALGORITHM, CREDENTIAL, DATE, EXPIRES, SIGNED_HEADERS, SIGNATURE, PARAMS };
    static const char *const names[PARAMS] = {"X-Amz-Algorithm",     "X-Amz-Credential",
                                              "X-Amz-Date",          "X-Amz-Expires",
                                              "X-Amz-SignedHeaders", "X-Amz-Signature"};
    const char *values[PARAMS];
    r->malformed = S3R_E_MALFORMED_QUERY_AUTH;
    r->auth->how = SIG_PRESIGNED;
    for (size_t i = 0; i < PARAMS; i++)
        if (!(values[i] = single_param(q, names[i])))
            return diag_fail(r->diag, r->malformed, "a presigned request needs %s, once", names[i]);
    if (strncmp(values[ALGORITHM], "AWS4-ECDSA", 10) == 0)
        return diag_fail(r->diag, S3R_E_UNSUPPORTED, "SigV4A (ECDSA) is not offered");
    if (strcmp(values[ALGORITHM], "AWS4-HMAC-SHA256") != 0)
        return diag_fail(r->diag, r->malformed, "X-Amz-Algorithm must be AWS4-HMAC-SHA256");
    int rc = read_credential(r, values[CREDENTIAL], strlen(values[CREDENTIAL]));
    if (rc == 0)
        rc = read_signed_headers(r, values[SIGNED_HEADERS], strlen(values[SIGNED_HEADERS]));
    if (rc == 0 && read_signature(r, values[SIGNATURE], strlen(values[SIGNATURE])))
        rc = S3R_E_SIGNATURE; /* of a link that was tampered with, as S3 answers it */
    if (rc == 0)
        rc = read_query_time(r, values[DATE], values[EXPIRES]);
    if (rc)
        return rc;
    const char *hash = query_get(q, "X-Amz-Content-Sha256");
    if (!hash)
        hash = headers_get(r->req->headers, "x-amz-content-sha256");
    return read_payload_hash(r, hash ? hash : SIG_UNSIGNED_PAYLOAD);
}

/* Nobody vouches for an anonymous body, but its framing and hash are still to be obeyed. */
static int parse_anonymous(struct reading *r)
{
    const char *hash = headers_get(r->req->headers, "x-amz-content-sha256");
    int rc = read_payload_hash(r, hash ? hash : SIG_UNSIGNED_PAYLOAD);
    if (rc == 0 &&
        (r->auth->payload == SIG_PAYLOAD_STREAM || r->auth->payload == SIG_PAYLOAD_STREAM_TRAILER))
        return diag_fail(r->diag, S3R_E_INVALID_REQUEST, "signed chunks need a signed request");
    return rc;
}

int sig_parse(const struct sig_request *req, const char *region, int64_t now_s, struct diag *diag,
              struct sig_auth *ret_auth)
{
    CLEANUP(sig_auth_fini) struct sig_auth auth = {0};
    struct reading r = {.req = req, .region = region, .now_s = now_s, .diag = diag, .auth = &auth};
    const struct query *q = req->query;
    size_t headers = headers_count(req->headers, "authorization");
    bool is_presigned = query_has(q, "X-Amz-Algorithm") || query_has(q, "X-Amz-Credential") ||
                        query_has(q, "X-Amz-Signature");
    int rc;
    if (headers + is_presigned > 1)
        return diag_fail(diag, S3R_E_INVALID_ARGUMENT,
                         "only one authentication is allowed: one "
                         "Authorization header or one in the query");
    if (query_has(q, "AWSAccessKeyId") && query_has(q, "Signature"))
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "Signature Version 2 is not offered; use AWS4-HMAC-SHA256");
    if (is_presigned)
        rc = parse_presigned(&r);
    else if (headers)
        rc = parse_header(&r, headers_get(req->headers, "authorization"));
    else
        rc = parse_anonymous(&r);
    if (rc)
        return rc;
    *ret_auth = auth;
    auth = (struct sig_auth){0};
    return 0;
}
