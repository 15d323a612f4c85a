/* SPDX-License-Identifier: Apache-2.0 */
/* sigv4.h - AWS Signature Version 4, one implementation for both sides.
 * Does:     server: reads a request's authentication (header, presigned query, none), checks time,
 *           region and form, verifies. Client: signs headers, presigns a query. Both: the chain of
 *           chunk signatures of a streamed body.
 * Not here: who owns an access key and what it may do (server); the body's bytes (s3/payload.h).
 * Units:    seconds since the epoch; hex in lower case.
 * Owns:     sig_auth owns copies until sig_auth_fini(). Keys are wiped where they are dropped.
 * Threads:  any; owner for one sig_chain.
 * Errors:   S3R_E_MALFORMED_AUTH, S3R_E_MALFORMED_QUERY_AUTH, S3R_E_TIME_SKEWED, S3R_E_EXPIRED,
 *           S3R_E_SIGNATURE, S3R_E_ACCESS_DENIED, S3R_E_INVALID_REQUEST, S3R_E_INVALID_ARGUMENT,
 *           S3R_E_UNSUPPORTED (SigV4A), S3R_E_NOMEM; the diag says what was wrong.
 * Limits:   LIMIT_SKEW_S, LIMIT_PRESIGN_S_MAX, LIMIT_ACCESS_KEY_LEN_MAX, LIMIT_REGION_LEN_MAX. */
#ifndef S3R_S3_SIGV4_H
#define S3R_S3_SIGV4_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"
#include "s3/headers.h"
#include "s3/uri.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIG_HEX_LEN 64
#define SIG_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"
#define SIG_STREAMING "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
#define SIG_STREAMING_TRAILER "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
#define SIG_STREAMING_UNSIGNED_TRAILER "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
#define SIG_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
/* "20130524/us-east-1/s3/aws4_request" */
#define SIG_SCOPE_SIZE (8 + 1 + LIMIT_REGION_LEN_MAX + sizeof "/s3/aws4_request")

/* A request as it is signed. `path` is raw: as on the wire, undecoded, without the query. */
struct sig_request {
    const char *method, *path;
    const struct query *query;
    const struct headers *headers;
};

enum sig_how { SIG_ANONYMOUS, SIG_HEADER, SIG_PRESIGNED };

/* x-amz-content-sha256: what is known of the body before it arrives. */
enum sig_payload {
    SIG_PAYLOAD_UNSIGNED,
    SIG_PAYLOAD_SHA256,
    SIG_PAYLOAD_STREAM,                  /* aws-chunked, each chunk signed */
    SIG_PAYLOAD_STREAM_TRAILER,          /* the same, then a signed trailer */
    SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER, /* aws-chunked, nothing signed, then a trailer */
};

/* All zeroes is an anonymous request with an unsigned payload. */
struct sig_auth {
    enum sig_how how;
    enum sig_payload payload;
    char access_key[LIMIT_ACCESS_KEY_LEN_MAX + 1];
    char scope[SIG_SCOPE_SIZE];
    char time[CLOCK_TEXT_MAX]; /* "20130524T000000Z" */
    char region[LIMIT_REGION_LEN_MAX + 1];
    char signature[SIG_HEX_LEN + 1];
    char *signed_headers;                     /* "host;x-amz-date" */
    char *payload_hash;                       /* the text that is signed in the payload's place */
    unsigned char payload_sha256[SHA256_LEN]; /* for SIG_PAYLOAD_SHA256 */
};

void sig_auth_fini(struct sig_auth *auth);

/* Everything that can be judged without the secret. `region`: what scopes must say, NULL for any.
 * A header that is malformed, SigV2, two kinds at once, a wrong date, region or service are errors
 * here; a missing authentication is not. */
int sig_parse(const struct sig_request *req, const char *region, int64_t now_s, struct diag *diag,
              struct sig_auth *ret_auth) MUST_CHECK;

/* The key of one day, region and service, and the signature that the next chunk continues. */
struct sig_chain {
    unsigned char key[SHA256_LEN];
    char scope[SIG_SCOPE_SIZE];
    char time[CLOCK_TEXT_MAX];
    char previous[SIG_HEX_LEN + 1];
};

/* For an auth that is not anonymous. `ret_chain` may be NULL; it starts at the request's
 * signature. */
int sig_verify(const struct sig_request *req, const struct sig_auth *auth, const char *secret_key,
               struct diag *diag, struct sig_chain *ret_chain) MUST_CHECK;
/* Was the header covered by the signature? `name` in lower case. */
bool sig_header_is_signed(const struct sig_auth *auth, const char *name);
/* The first x-amz- header that is there and not signed, NULL when all are. For a presigned request
 * too. (x-amz-content-sha256 is always covered: its value is signed as the payload's hash.)
 * sig_verify() refuses such a request already. */
const char *sig_unsigned_header(const struct sig_auth *auth, const struct headers *headers);
/* Presigners put x-amz- headers into the query: copies those (not the X-Amz- authentication
 * parameters and nothing of x-amz-rdma-) into `headers` unless there already. After sig_verify(),
 * which they are covered by as a part of the query. */
int sig_adopt_query(const struct query *query, struct headers *headers) MUST_CHECK;

struct sig_credentials {
    const char *access_key, *secret_key;
    const char *session_token; /* NULL for none */
    const char *region;
};

/* Sets x-amz-date, x-amz-content-sha256 (`payload_hash`: 64 hex digits or one of SIG_*),
 * x-amz-security-token and Authorization. `headers` must hold host; all of them but
 * authorization, user-agent, expect, connection, accept-encoding, transfer-encoding are signed.
 * `ret_chain` may be NULL. `req->headers` is not looked at. */
int sig_sign(const struct sig_credentials *cred, int64_t now_s, const struct sig_request *req,
             const char *payload_hash, struct headers *headers,
             struct sig_chain *ret_chain) MUST_CHECK;
/* Appends the query string (without '?') of a presigned request: `req->query` and the X-Amz-
 * parameters. `req->headers` are those that the user of the link has to send, host at least. */
int sig_presign(const struct sig_credentials *cred, int64_t now_s, int64_t expires_s,
                const struct sig_request *req, struct text *out) MUST_CHECK;

/* The signature of the next chunk, of which the SHA-256 is given; the chain moves on. */
void sig_chain_chunk(struct sig_chain *chain, const unsigned char sha256_of_chunk[SHA256_LEN],
                     char ret_signature[SIG_HEX_LEN + 1]);
/* The signature of the trailer: "name:value\n" for each of its lines. */
void sig_chain_trailer(struct sig_chain *chain, const char *lines, size_t len,
                       char ret_signature[SIG_HEX_LEN + 1]);
void sig_chain_fini(struct sig_chain *chain);

#endif
