/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/hex.h"
#include "client/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct s3r_result *s3r_result_new(void)
{
    return calloc(1, sizeof(struct s3r_result));
}

void api_result_reset(struct s3r_result *r)
{
    client_result_fini(&r->core);
    *r = (struct s3r_result){0};
}

void s3r_result_free(struct s3r_result *result)
{
    if (result == NULL)
        return;
    client_result_fini(&result->core);
    free(result);
}

int s3r_result_error(const struct s3r_result *result)
{
    return result->error;
}

const char *s3r_result_message(const struct s3r_result *result)
{
    return result->error == 0 ? "" : result->diag.text;
}

const char *s3r_result_s3_code(const struct s3r_result *result)
{
    return result->error == 0 ? "" : result->core.s3_code;
}

int s3r_result_status(const struct s3r_result *result)
{
    return result->core.status;
}

enum s3r_transport s3r_result_transport(const struct s3r_result *result)
{
    return (enum s3r_transport)result->core.transport;
}

const char *s3r_result_provider(const struct s3r_result *result)
{
    return result->core.provider;
}

enum s3r_reason s3r_result_reason(const struct s3r_result *result)
{
    return (enum s3r_reason)result->core.reason;
}

const char *s3r_result_reason_text(const struct s3r_result *result)
{
    return result->core.why;
}

uint64_t s3r_result_len(const struct s3r_result *result)
{
    return result->core.len;
}

uint64_t s3r_result_object_len(const struct s3r_result *result)
{
    return result->core.object_len;
}

const char *s3r_result_etag(const struct s3r_result *result)
{
    return result->core.etag;
}

const char *s3r_result_version_id(const struct s3r_result *result)
{
    const char *id = headers_get(&result->core.headers, "x-amz-version-id");
    return id != NULL ? id : "";
}

int s3r_result_crc64(const struct s3r_result *result, uint64_t *ret_crc64)
{
    if (result->core.has_crc64 && ret_crc64 != NULL)
        *ret_crc64 = result->core.crc64;
    return result->core.has_crc64;
}

const char *s3r_result_crc64_text(const struct s3r_result *result)
{
    return result->crc_text;
}

int s3r_result_is_verified(const struct s3r_result *result)
{
    return result->core.is_verified;
}

int s3r_result_is_staged(const struct s3r_result *result)
{
    return result->core.is_staged;
}

unsigned s3r_result_requests(const struct s3r_result *result)
{
    return result->core.requests;
}

int64_t s3r_result_elapsed_ns(const struct s3r_result *result)
{
    return result->core.elapsed_ns;
}

const char *s3r_result_header(const struct s3r_result *result, const char *name)
{
    const struct headers *h = &result->core.headers;
    for (size_t i = 0; name != NULL && i < h->count; i++)
        if (strcasecmp(h->rows[i].name, name) == 0)
            return h->rows[i].value;
    return NULL;
}

size_t s3r_result_header_count(const struct s3r_result *result)
{
    return result->core.headers.count;
}

const char *s3r_result_header_name(const struct s3r_result *result, size_t index)
{
    return index < result->core.headers.count ? result->core.headers.rows[index].name : NULL;
}

const char *s3r_result_header_value(const struct s3r_result *result, size_t index)
{
    return index < result->core.headers.count ? result->core.headers.rows[index].value : NULL;
}

uint64_t s3r_result_cookie(const struct s3r_result *result)
{
    return result->cookie;
}

/* ---- the frame of a call ---- */

void frame_begin(struct frame *f, const struct s3r_options *options, struct s3r_result *result)
{
    memset(f, 0, sizeof(*f));
    f->result = result != NULL ? result : &f->own;
    api_result_reset(f->result);
    f->diag = &f->result->diag;
    f->core = &f->result->core;
    f->options = api_options(options);
    f->retries_left = options != NULL ? options->retries : 0;
    f->started_ns = clock_mono_ns();
}

static bool pause_for(struct frame *f)
{
    f->pause_ms = api_next_pause_ms(f->pause_ms);
    int64_t end_ns = clock_mono_ns() + f->pause_ms * NS_PER_MS;
    if (f->options.deadline_ns != 0 && end_ns >= f->options.deadline_ns)
        return false;
    for (int64_t left; (left = end_ns - clock_mono_ns()) > 0;) {
        if (f->options.is_cancelled != NULL && f->options.is_cancelled(f->options.cancel_arg))
            return false;
        struct timespec t = clock_timespec(left < 50 * NS_PER_MS ? left : 50 * NS_PER_MS);
        nanosleep(&t, NULL);
    }
    return true;
}

bool frame_again(struct frame *f, int error)
{
    unsigned requests = f->core->requests;
    if (error == 0 || f->retries_left == 0 || !api_may_retry(error, f->core->status) ||
        !pause_for(f))
        return false;
    f->retries_left--;
    api_result_reset(f->result);
    f->core->requests = requests;
    return true;
}

int frame_need(struct frame *f, bool is_there, const char *what)
{
    return is_there ? 0 : diag_fail(f->diag, S3R_E_INVALID_ARGUMENT, "there is no %s", what);
}

static void print_crc(struct s3r_result *r)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(r->core.crc64 >> (56 - 8 * i));
    base64_encode(bytes, sizeof(bytes), r->crc_text);
}

void api_result_finish(struct s3r_result *r, int error)
{
    r->error = api_error(error, r->core.status);
    if (error != 0 && r->diag.text[0] == '\0')
        (void)diag_fail(&r->diag, error, "%s", error_text(error));
    if (r->error <= S3R_ERROR_REMOTE && r->core.s3_code[0] == '\0' && error != S3R_E_REMOTE)
        snprintf(r->core.s3_code, sizeof(r->core.s3_code), "%s", error_s3_code(error));
    if (r->core.has_crc64)
        print_crc(r);
}

int frame_return(struct frame *f, int error)
{
    if (f->core->elapsed_ns == 0 || f->pause_ms > 0)
        f->core->elapsed_ns = clock_mono_ns() - f->started_ns;
    api_result_finish(f->result, error);
    int e = f->result->error;
    if (f->result == &f->own)
        api_result_reset(&f->own);
    return e;
}
