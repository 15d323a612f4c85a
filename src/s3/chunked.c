/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/chunked.h"

#include "base/hex.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*  SIZE --size 0, no trailer--------------> LAST_CRLF --> DONE
 *  SIZE --size 0--> TRAILER --empty line----------------> DONE
 *  SIZE --size--> DATA --> DATA_CRLF --> SIZE
 *  any state goes to FAILED on an error and stays there */
enum state {
    STATE_SIZE,      /* waits for a size line's CRLF */
    STATE_DATA,      /* waits for `left` bytes */
    STATE_DATA_CRLF, /* waits for the CRLF behind a chunk */
    STATE_LAST_CRLF, /* waits for the CRLF behind the last chunk */
    STATE_TRAILER,   /* waits for a trailer line's CRLF */
    STATE_DONE,
    STATE_FAILED,
};

struct chunked {
    enum sig_payload kind;
    enum state state;
    uint64_t decoded_len, seen_len, left;
    struct text line; /* of SIZE, TRAILER and the two CRLF states */
    size_t trailers_len;
    struct headers trailers;
    int failure;
    /* for the signed kinds */
    struct sig_chain chain;
    struct digest *sha256;
    char signature[SIG_HEX_LEN + 1];         /* the chunk's own */
    char trailer_signature[SIG_HEX_LEN + 1]; /* "" until it came */
    struct text signed_lines;
};

static bool is_signed(const struct chunked *c)
{
    return c->kind != SIG_PAYLOAD_STREAM_UNSIGNED_TRAILER;
}

int chunked_create(enum sig_payload kind, const struct sig_chain *chain, uint64_t decoded_len,
                   struct chunked **ret_chunked)
{
    CLEANUP(chunked_destroyp) struct chunked *c = calloc(1, sizeof *c);
    if (!c)
        return S3R_E_NOMEM;
    c->kind = kind;
    c->decoded_len = decoded_len;
    text_init(&c->line, LIMIT_CHUNK_HEADER_LEN_MAX);
    text_init(&c->signed_lines, LIMIT_TRAILERS_LEN_MAX);
    if (is_signed(c)) {
        c->chain = *chain;
        int rc = digest_create(DIGEST_SHA256, &c->sha256);
        if (rc)
            return rc;
    }
    *ret_chunked = STEAL(c);
    return 0;
}

void chunked_destroy(struct chunked *c)
{
    if (!c)
        return;
    sig_chain_fini(&c->chain);
    digest_destroy(c->sha256);
    headers_fini(&c->trailers);
    text_fini(&c->line);
    text_fini(&c->signed_lines);
    free(c);
}

void chunked_destroyp(struct chunked **c)
{
    chunked_destroy(*c);
}

/* Appends to the line up to and with its CRLF. Returns the bytes used, sets `ret_is_whole` when
 * the line is; the CRLF is then taken off. */
static size_t collect_line(struct chunked *c, const char *bytes, size_t len, bool *ret_is_whole)
{
    const char *newline = memchr(bytes, '\n', len);
    size_t used = newline ? (size_t)(newline - bytes) + 1 : len;
    text_add(&c->line, bytes, used);
    size_t n = c->line.len;
    *ret_is_whole = text_error(&c->line) == 0 && newline && n >= 2 && c->line.data[n - 2] == '\r';
    if (*ret_is_whole)
        c->line.data[c->line.len = n - 2] = '\0';
    return used;
}

/* The chunk's bytes are all there: is it what was signed? */
static int judge_chunk(struct chunked *c, struct diag *diag)
{
    unsigned char sum[DIGEST_LEN_MAX];
    char wanted[SIG_HEX_LEN + 1];
    if (!is_signed(c))
        return 0;
    digest_final(c->sha256, sum);
    sig_chain_chunk(&c->chain, sum, wanted);
    if (!equal_secret(wanted, c->signature, SIG_HEX_LEN))
        return diag_fail(diag, S3R_E_SIGNATURE,
                         "the signature of the chunk that ends at byte "
                         "%" PRIu64 " does not match",
                         c->seen_len);
    return 0;
}

/* "10000" or "10000;chunk-signature=<64 hex>" */
static int read_size_line(struct chunked *c, struct diag *diag)
{
    static const char extension[] = ";chunk-signature=";
    const char *line = text_cstr(&c->line);
    size_t digits = strcspn(line, ";"), rest = c->line.len - digits;
    uint64_t size;
    unsigned char bytes[SHA256_LEN];
    if (strlen(line) != c->line.len || !num_parse_hex(line, digits, 1, 16, &size))
        return diag_fail(diag, S3R_E_INVALID_REQUEST, "a chunk's size is not 1 to 16 hex digits");
    if (is_signed(c)) {
        const char *s = line + digits;
        size_t skip = sizeof extension - 1;
        if (rest != skip + SIG_HEX_LEN || memcmp(s, extension, skip) != 0 ||
            !hex_decode(s + skip, SIG_HEX_LEN, bytes, sizeof bytes))
            return diag_fail(diag, S3R_E_INVALID_REQUEST,
                             "a chunk's size line has no ;chunk-signature= with 64 hex digits");
        hex_encode(bytes, sizeof bytes, c->signature);
        if (size > LIMIT_CHUNK_LEN_MAX)
            return diag_fail(diag, S3R_E_INVALID_REQUEST, "a signed chunk has at most %llu bytes",
                             (unsigned long long)LIMIT_CHUNK_LEN_MAX);
    } else if (rest) {
        return diag_fail(diag, S3R_E_INVALID_REQUEST, "a chunk's size line has more than a size");
    }
    if (size > c->decoded_len - c->seen_len)
        return diag_fail(diag, S3R_E_INCOMPLETE_BODY,
                         "the chunks hold more than the %" PRIu64 " bytes that were declared",
                         c->decoded_len);
    c->left = size;
    return 0;
}

static int after_size_line(struct chunked *c, struct diag *diag)
{
    int rc = read_size_line(c, diag);
    if (rc)
        return rc;
    if (c->left) {
        c->state = STATE_DATA;
        return 0;
    }
    if (c->seen_len != c->decoded_len)
        return diag_fail(diag, S3R_E_INCOMPLETE_BODY,
                         "the chunks hold %" PRIu64 " bytes; %" PRIu64 " were declared",
                         c->seen_len, c->decoded_len);
    c->state = c->kind == SIG_PAYLOAD_STREAM ? STATE_LAST_CRLF : STATE_TRAILER;
    return judge_chunk(c, diag);
}

/* "name:value" */
static int read_trailer(struct chunked *c, const char *line, size_t len, struct diag *diag)
{
    const char *colon = memchr(line, ':', len);
    if (!colon || c->trailer_signature[0])
        return diag_fail(diag, S3R_E_MALFORMED_TRAILER,
                         "a trailer line is not name:value, or follows the signature");
    size_t name_len = (size_t)(colon - line);
    int rc = headers_add_n(&c->trailers, line, name_len, colon + 1, len - name_len - 1);
    if (rc)
        return rc == S3R_E_NOMEM ? rc
                                 : diag_fail(diag, S3R_E_MALFORMED_TRAILER,
                                             "a trailer line holds what a header cannot");
    const struct header *row = &c->trailers.rows[c->trailers.count - 1];
    if (strcmp(row->name, "x-amz-trailer-signature") != 0) {
        text_fmt(&c->signed_lines, "%s:%s\n", row->name, row->value);
        return text_error(&c->signed_lines);
    }
    unsigned char bytes[SHA256_LEN];
    if (!hex_decode(row->value, strlen(row->value), bytes, sizeof bytes))
        return diag_fail(diag, S3R_E_MALFORMED_TRAILER,
                         "x-amz-trailer-signature is not 64 hex digits");
    hex_encode(bytes, sizeof bytes, c->trailer_signature);
    headers_remove(&c->trailers, "x-amz-trailer-signature");
    return 0;
}

/* The field's writers end a trailer line with CRLF, or with LF and then an extra CRLF: one line
 * here may hold several. */
static int read_trailer_line(struct chunked *c, struct diag *diag)
{
    const char *s = text_cstr(&c->line);
    size_t left = c->line.len;
    while (left) {
        const char *newline = memchr(s, '\n', left);
        size_t len = newline ? (size_t)(newline - s) : left;
        int rc = len ? read_trailer(c, s, len, diag) : 0;
        if (rc)
            return rc;
        size_t step = len + (newline != NULL);
        s += step;
        left -= step;
    }
    return 0;
}

static int end_trailer(struct chunked *c, struct diag *diag)
{
    c->state = STATE_DONE;
    if (!is_signed(c) || c->signed_lines.len == 0)
        return 0;
    if (!c->trailer_signature[0])
        return diag_fail(diag, S3R_E_MALFORMED_TRAILER,
                         "a signed trailer needs x-amz-trailer-signature");
    char wanted[SIG_HEX_LEN + 1];
    sig_chain_trailer(&c->chain, c->signed_lines.data, c->signed_lines.len, wanted);
    if (!equal_secret(wanted, c->trailer_signature, SIG_HEX_LEN))
        return diag_fail(diag, S3R_E_SIGNATURE, "the trailer's signature does not match");
    return 0;
}

/* A whole line in `c->line`: what comes next? */
static int on_line(struct chunked *c, struct diag *diag)
{
    switch (c->state) {
    case STATE_SIZE:
        return after_size_line(c, diag);
    case STATE_TRAILER:
        return c->line.len ? read_trailer_line(c, diag) : end_trailer(c, diag);
    case STATE_DATA_CRLF:
    case STATE_LAST_CRLF:
        if (c->line.len)
            return diag_fail(diag, S3R_E_INVALID_REQUEST, "a chunk is not followed by CRLF");
        c->state = c->state == STATE_DATA_CRLF ? STATE_SIZE : STATE_DONE;
        return 0;
    default:
        return S3R_E_INTERNAL;
    }
}

/* Lines have to end within their bounds, and only with CRLF. */
static int check_partial_line(const struct chunked *c, struct diag *diag)
{
    size_t n = c->line.len;
    bool ends_in_lf = n && c->line.data[n - 1] == '\n';
    if (c->state == STATE_TRAILER) {
        if (text_error(&c->line))
            return diag_fail(diag, S3R_E_MALFORMED_TRAILER, "the trailer is too long");
        return 0;
    }
    if (text_error(&c->line) || ends_in_lf)
        return diag_fail(diag, S3R_E_INVALID_REQUEST,
                         "a chunk's size line is too long or does not end in CRLF");
    if (c->state != STATE_SIZE && (n > 1 || (n && c->line.data[0] != '\r')))
        return diag_fail(diag, S3R_E_INVALID_REQUEST, "a chunk is not followed by CRLF");
    return 0;
}

static int feed_line(struct chunked *c, const char *bytes, size_t len, struct diag *diag,
                     size_t *ret_used)
{
    bool is_whole;
    *ret_used = collect_line(c, bytes, len, &is_whole);
    if (c->state == STATE_TRAILER) {
        c->trailers_len += *ret_used;
        if (c->trailers_len > LIMIT_TRAILERS_LEN_MAX)
            return diag_fail(diag, S3R_E_MALFORMED_TRAILER, "the trailer is too long");
    }
    if (!is_whole)
        return check_partial_line(c, diag);
    int rc = on_line(c, diag);
    text_reset(&c->line);
    return rc;
}

static int feed_data(struct chunked *c, const char *bytes, size_t len, struct diag *diag,
                     bytes_sink_fn *sink, void *sink_arg, size_t *ret_used)
{
    size_t n = (size_t)min_u64(c->left, len);
    if (is_signed(c))
        digest_update(c->sha256, bytes, n);
    int rc = sink(sink_arg, bytes, n);
    if (rc)
        return rc;
    c->left -= n;
    c->seen_len += n;
    *ret_used = n;
    if (c->left)
        return 0;
    c->state = STATE_DATA_CRLF;
    return judge_chunk(c, diag);
}

int chunked_feed(struct chunked *c, const void *bytes, size_t len, struct diag *diag,
                 bytes_sink_fn *sink, void *sink_arg)
{
    const char *p = bytes;
    if (c->state == STATE_FAILED)
        return c->failure;
    while (len) {
        size_t used = 0;
        int rc;
        if (c->state == STATE_DONE)
            rc = diag_fail(diag, S3R_E_INVALID_REQUEST, "bytes follow the end of the chunks");
        else if (c->state == STATE_DATA)
            rc = feed_data(c, p, len, diag, sink, sink_arg, &used);
        else
            rc = feed_line(c, p, len, diag, &used);
        if (rc) {
            c->state = STATE_FAILED;
            c->failure = rc;
            return rc;
        }
        p += used;
        len -= used;
    }
    return 0;
}

bool chunked_is_done(const struct chunked *c)
{
    return c->state == STATE_DONE;
}

int chunked_finish(struct chunked *c, struct diag *diag)
{
    if (c->state == STATE_FAILED)
        return c->failure;
    /* some writers leave out the empty line behind a trailer; the body's end stands for it */
    if (c->state == STATE_TRAILER && c->line.len == 0 && c->trailers_len) {
        c->failure = end_trailer(c, diag);
        c->state = c->failure ? STATE_FAILED : STATE_DONE;
        return c->failure;
    }
    if (c->state != STATE_DONE)
        return diag_fail(diag, S3R_E_INCOMPLETE_BODY,
                         "the body ended before its last chunk, after %" PRIu64 " of %" PRIu64
                         " bytes",
                         c->seen_len, c->decoded_len);
    return 0;
}

const struct headers *chunked_trailers(const struct chunked *c)
{
    return &c->trailers;
}

/* Writing */

void chunked_print_head(struct text *out, struct sig_chain *chain, const void *bytes, size_t len)
{
    if (!chain) {
        text_fmt(out, "%zx\r\n", len);
        return;
    }
    unsigned char sum[SHA256_LEN];
    char signature[SIG_HEX_LEN + 1];
    sha256(bytes, len, sum);
    sig_chain_chunk(chain, sum, signature);
    text_fmt(out, "%zx;chunk-signature=%s\r\n", len, signature);
}

void chunked_print_end(struct text *out, struct sig_chain *chain, const struct headers *trailers)
{
    CLEANUP(text_fini) struct text lines;
    text_init(&lines, LIMIT_TRAILERS_LEN_MAX);
    for (size_t i = 0; trailers && i < trailers->count; i++) {
        text_fmt(&lines, "%s:%s\n", trailers->rows[i].name, trailers->rows[i].value);
        text_fmt(out, "%s:%s\r\n", trailers->rows[i].name, trailers->rows[i].value);
    }
    if (chain && lines.len) {
        char signature[SIG_HEX_LEN + 1];
        sig_chain_trailer(chain, lines.data, lines.len, signature);
        text_fmt(out, "x-amz-trailer-signature:%s\r\n", signature);
    }
    text_str(out, "\r\n");
}
