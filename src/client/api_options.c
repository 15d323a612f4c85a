/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/limits.h"
#include "client/api.h"
#include "client/object.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MS_MAX (INT64_C(365) * 24 * 3600 * 1000)

struct s3r_options *s3r_options_new(void)
{
    return calloc(1, sizeof(struct s3r_options));
}

void api_options_fini(struct s3r_options *o)
{
    free(o->if_match);
    free(o->if_none_match);
    headers_fini(&o->headers);
    *o = (struct s3r_options){0};
}

void s3r_options_free(struct s3r_options *options)
{
    if (options == NULL)
        return;
    api_options_fini(options);
    free(options);
}

int api_options_copy(const struct s3r_options *from, struct s3r_options *ret_to)
{
    struct s3r_options to = {0};
    int e = 0;
    if (from != NULL) {
        to = *from;
        to.headers = (struct headers){0};
        to.if_match = from->if_match != NULL ? strdup(from->if_match) : NULL;
        to.if_none_match = from->if_none_match != NULL ? strdup(from->if_none_match) : NULL;
        if ((to.if_match == NULL) != (from->if_match == NULL) ||
            (to.if_none_match == NULL) != (from->if_none_match == NULL))
            e = S3R_E_NOMEM;
        for (size_t i = 0; i < from->headers.count && e == 0; i++)
            e = headers_add(&to.headers, from->headers.rows[i].name, from->headers.rows[i].value);
    }
    if (e != 0)
        api_options_fini(&to);
    else
        *ret_to = to;
    return e;
}

/* The public function says it with an int. */
static bool is_cancelled(void *arg)
{
    const struct s3r_options *o = arg;
    return o->is_cancelled(o->cancel_arg) != 0;
}

struct client_options api_options(const struct s3r_options *o)
{
    struct client_options c = {0};
    if (o == NULL)
        return c;
    c.is_rdma_off = o->rdma == S3R_RDMA_OFF;
    c.is_rdma_required = o->rdma == S3R_RDMA_REQUIRED;
    c.is_unverified = o->is_unverified;
    c.is_exact = o->is_exact;
    c.if_match = o->if_match;
    c.if_none_match = o->if_none_match;
    c.headers = &o->headers;
    c.on_progress = o->on_progress;
    c.progress_arg = o->progress_arg;
    c.http_below = o->http_below;
    c.deadline_ns = o->deadline_ms > 0 ? clock_mono_ns() + o->deadline_ms * NS_PER_MS : 0;
    if (o->is_cancelled != NULL) {
        c.is_cancelled = is_cancelled;
        c.cancel_arg = (void *)o;
    }
    return c;
}

/* ---- setters ---- */

int s3r_options_set_rdma(struct s3r_options *options, enum s3r_rdma mode)
{
    if (mode != S3R_RDMA_AUTO && mode != S3R_RDMA_REQUIRED && mode != S3R_RDMA_OFF)
        return S3R_ERROR_INVALID_ARGUMENT;
    options->rdma = mode;
    return S3R_OK;
}

int s3r_options_set_verify(struct s3r_options *options, int is_on)
{
    options->is_unverified = !is_on;
    return S3R_OK;
}

int s3r_options_set_deadline_ms(struct s3r_options *options, int64_t deadline_ms)
{
    if (deadline_ms < 0 || deadline_ms > TIME_MS_MAX)
        return S3R_ERROR_INVALID_ARGUMENT;
    options->deadline_ms = deadline_ms;
    return S3R_OK;
}

int s3r_options_set_retries(struct s3r_options *options, unsigned retries)
{
    if (retries > RETRIES_MAX)
        return S3R_ERROR_INVALID_ARGUMENT;
    options->retries = retries;
    return S3R_OK;
}

int s3r_options_set_http_below(struct s3r_options *options, uint64_t bytes)
{
    options->http_below = bytes;
    return S3R_OK;
}

int s3r_options_set_exact(struct s3r_options *options, int is_on)
{
    options->is_exact = is_on != 0;
    return S3R_OK;
}

/* Conditions go out as they are given; an ETag without quotes gets its own. */
static int set_etag(char **place, const char *etag)
{
    char *copy = NULL;
    if (etag != NULL && etag[0] != '\0') {
        bool is_plain = strchr(etag, '"') == NULL && strcmp(etag, "*") != 0;
        if (asprintf(&copy, is_plain ? "\"%s\"" : "%s", etag) < 0)
            return S3R_ERROR_NOMEM;
    }
    free(*place);
    *place = copy;
    return S3R_OK;
}

int s3r_options_set_if_match(struct s3r_options *options, const char *etag)
{
    return set_etag(&options->if_match, etag);
}

int s3r_options_set_if_none_match(struct s3r_options *options, const char *etag)
{
    return set_etag(&options->if_none_match, etag);
}

static int set_header(struct s3r_options *options, const char *prefix, const char *name,
                      const char *value)
{
    char full[LIMIT_METADATA_LEN_MAX];
    int n = name != NULL ? snprintf(full, sizeof(full), "%s%s", prefix, name) : -1;
    if (n <= 0 || (size_t)n >= sizeof(full) || name[0] == '\0')
        return S3R_ERROR_INVALID_ARGUMENT;
    for (char *p = full; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    if (object_is_reserved(full))
        return S3R_ERROR_INVALID_ARGUMENT;
    if (value == NULL) {
        headers_remove(&options->headers, full);
        return S3R_OK;
    }
    int e = headers_set(&options->headers, full, value);
    return e == 0 ? S3R_OK : e == S3R_E_NOMEM ? S3R_ERROR_NOMEM : S3R_ERROR_INVALID_ARGUMENT;
}

int s3r_options_set_header(struct s3r_options *options, const char *name, const char *value)
{
    return set_header(options, "", name, value);
}

int s3r_options_set_metadata(struct s3r_options *options, const char *name, const char *value)
{
    return set_header(options, "x-amz-meta-", name, value);
}

int s3r_options_set_progress(struct s3r_options *options, void (*fn)(void *arg, uint64_t bytes),
                             void *arg)
{
    options->on_progress = fn;
    options->progress_arg = arg;
    return S3R_OK;
}

int s3r_options_set_cancel(struct s3r_options *options, int (*fn)(void *arg), void *arg)
{
    options->is_cancelled = fn;
    options->cancel_arg = arg;
    return S3R_OK;
}

int s3r_options_set_pieces(struct s3r_options *options, uint64_t piece_len, unsigned in_flight)
{
    if ((piece_len != 0 && piece_len < LIMIT_PART_LEN_MIN) || piece_len > LIMIT_DC_WINDOW_LEN_MAX ||
        in_flight > 100)
        return S3R_ERROR_INVALID_ARGUMENT;
    options->piece_len = piece_len;
    options->in_flight = in_flight;
    return S3R_OK;
}
