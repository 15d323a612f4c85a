/* SPDX-License-Identifier: Apache-2.0 */
#include "client/carry.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/log.h"
#include "base/num.h"
#include "client/carry_memory.h"
#include "client/linger.h"
#include "rdma/owner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int too_small(const struct carry_run *r, uint64_t object_len)
{
    r->job->result->object_len = object_len;
    return diag_fail(r->job->diag, S3R_E_BUFFER_TOO_SMALL,
                     "the object has %llu bytes, the buffer %llu", (unsigned long long)object_len,
                     (unsigned long long)r->memory.len);
}

/* ---- windows ---- */

static int linger(struct carry_run *r)
{
    bool is_copy = r->stage.host != NULL;
    r->is_unfenced = true;
    linger_add(r->job->client, STEAL(r->window), r->is_registered ? r->base : NULL, &r->stage);
    return diag_fail(r->job->diag, S3R_E_RDMA_UNFENCED,
                     "the server stopped in the middle of the transfer and may still %s the "
                     "memory when it goes on: %s",
                     r->question.is_put ? "read" : "write",
                     is_copy ? "it keeps a copy that was made here, the GPU's memory is free"
                             : "it must not be used");
}

/* After 0 the memory is the caller's again. */
static int withdraw(struct carry_run *r)
{
    if (r->window == NULL)
        return 0;
    struct diag ignored = {0};
    if (owner_window_withdraw(r->window, &ignored) != 0)
        return linger(r);
    owner_window_close(STEAL(r->window));
    return 0;
}

static void print_ip(const struct owner_window *w, char out[64])
{
    struct sockaddr_storage addr;
    out[0] = '\0';
    if (!owner_window_address(w, &addr))
        return;
    const void *ip = addr.ss_family == AF_INET6
                         ? (const void *)&((const struct sockaddr_in6 *)&addr)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)&addr)->sin_addr;
    if (inet_ntop(addr.ss_family, ip, out, 64) == NULL)
        out[0] = '\0';
}

static void note_provider(const struct carry_run *r)
{
    const char *text = owner_window_token(r->window);
    struct token token = {0};
    if (token_parse(text, strlen(text), NULL, &token) == 0)
        snprintf(r->job->result->provider, sizeof(r->job->result->provider), "%s",
                 token_scheme_name(token.scheme));
}

/* ---- bodies of replies ---- */

static int take_object(struct carry_run *r, const void *bytes, size_t len)
{
    const struct client_memory *m = &r->memory;
    if (!span_fits(r->body_off, len, m->len))
        return too_small(r, r->body_off + len);
    memcpy((char *)m->ptr + r->body_off, bytes, len);
    r->body_off += len;
    return 0;
}

static int take_body(struct carry_run *r, const struct http_reply *reply, const void *bytes,
                     size_t len)
{
    if (r->body == BODY_OBJECT)
        return take_object(r, bytes, len);
    return call_keep_document(&r->job->call->document, reply, bytes, len);
}

static int begin_object(struct carry_run *r, const struct http_reply *reply)
{
    r->body = BODY_OBJECT;
    r->body_off = 0;
    if (!r->question.is_ranged && reply->has_length && reply->content_len > r->memory.len)
        return too_small(r, reply->content_len);
    return carry_memory_copy(r);
}

static int bad_reply(const struct carry_run *r, const struct http_reply *reply, const char *flaw)
{
    return diag_fail(r->job->diag, S3R_E_BAD_REPLY, "%s (%d)", flaw, reply->status);
}

/* Where a body arrives on a thread that must not wait, another one withdraws: carry_unblock(). */
static int withdraw_for_body(struct carry_run *r)
{
    if (!r->is_async)
        return withdraw(r);
    if (r->window == NULL)
        return r->unblock_error;
    r->body = BODY_NONE; /* the same piece comes once more */
    return HTTP_BODY_PAUSE;
}

void carry_unblock(struct carry_run *r)
{
    r->unblock_error = withdraw(r);
}

/* The body of a reply to a request with a token. The memory is written only once the window over it
 * is gone. */
static int body_with_token(void *arg, const struct http_reply *reply, const void *bytes, size_t len)
{
    struct carry_run *r = arg;
    if (r->body == BODY_NONE) {
        r->body = BODY_DOCUMENT;
        if (reply_body_is_object(&r->question, reply) &&
            reply_flaw_of_head(&r->question, reply) == NULL && !r->job->options->is_rdma_required) {
            int e = withdraw_for_body(r);
            if (e == 0)
                e = begin_object(r, reply);
            if (e != 0)
                return e;
        } else if (reply->status < 300) {
            return 0; /* it only counts: an object that cannot be used would not fit a document */
        }
    }
    if (r->body == BODY_DOCUMENT && reply->status < 300)
        return 0;
    return take_body(r, reply, bytes, len);
}

static int body_by_http(void *arg, const struct http_reply *reply, const void *bytes, size_t len)
{
    struct carry_run *r = arg;
    if (r->body == BODY_NONE) {
        r->body = BODY_DOCUMENT;
        if (!r->question.is_put && reply->status / 100 == 2) {
            const char *flaw = reply_flaw_of_head(&r->question, reply);
            int e = flaw != NULL ? bad_reply(r, reply, flaw) : begin_object(r, reply);
            if (e != 0)
                return e;
        }
    }
    return take_body(r, reply, bytes, len);
}

/* ---- what arrived ---- */

/* Compares the checksum of a whole object with the memory. False: they differ. */
static bool verify(const struct carry_run *r, const struct headers *headers, uint64_t len)
{
    uint64_t crc;
    struct client_result *result = r->job->result;
    const struct reply_question *q = &r->question;
    if (q->is_put || q->is_ranged || r->job->options->is_unverified || r->is_device ||
        !reply_named_crc64(headers, &crc))
        return true;
    result->is_verified = crc64_update(0, r->memory.ptr, len) == crc;
    return result->is_verified;
}

static void arrived(const struct carry_run *r, enum client_transport by, uint64_t len)
{
    struct client_result *result = r->job->result;
    result->len = len;
    result->transport = by;
    if (r->question.has_checksum) {
        result->has_crc64 = true;
        result->crc64 = r->question.crc64;
        result->is_verified = true; /* by the server, before it committed */
    }
    if (!r->question.is_ranged)
        result->object_len = len;
    result->has_moved_crc64 = r->job->options->is_crc_wanted && !r->is_device;
    if (result->has_moved_crc64)
        result->moved_crc64 = crc64_update(0, r->memory.ptr, len);
    if (by != CLIENT_RDMA)
        return;
    carry_say_why(r, CLIENT_REASON_NONE, "");
    if (r->job->options->on_progress != NULL)
        r->job->options->on_progress(r->job->options->progress_arg, len);
}

static int arrived_by_http(const struct carry_run *r, uint64_t len)
{
    if (!verify(r, &r->job->result->headers, len))
        return diag_fail(r->job->diag, S3R_E_BAD_DIGEST,
                         "the bytes that arrived do not match the object's checksum");
    arrived(r, CLIENT_HTTP, len);
    return 0;
}

/* ---- one request with a token ---- */

static void set_up_token(struct carry_run *r)
{
    struct call *call = r->job->call;
    call->token = owner_window_token(r->window);
    call->bind_ip = r->ip[0] != '\0' ? r->ip : NULL;
    call->timeout_ms = r->job->client->patience_ms;
    call->body = NULL;
    call->body_len = 0;
    call->on_body = body_with_token;
    call->on_body_arg = r;
    call->on_progress = NULL;
    r->body = BODY_NONE;
    r->unblock_error = 0;
}

/* No complete reply. 0: go on by HTTP, as `j` says. */
static int after_fault(struct carry_run *r, int error, const struct diag *diag,
                       const struct http_reply *reply, struct reply_judgement *j)
{
    int e = withdraw(r);
    if (e != 0)
        return e;
    /* Without a binding nothing else would come through either. */
    bool is_hopeless = reply->fault == HTTP_UNSENT && r->job->call->bind_ip == NULL;
    if (is_hopeless || reply->fault == HTTP_STOPPED || reply->fault == HTTP_NO_FAULT)
        return diag_fail(r->job->diag, error, "%s", diag_text(diag, error));
    j->reason = reply->fault == HTTP_SILENT    ? CLIENT_REASON_SILENT
                : reply->fault == HTTP_GARBLED ? CLIENT_REASON_BAD_REPLY
                                               : CLIENT_REASON_LOST;
    snprintf(j->why, sizeof(j->why), "%.199s", diag_text(diag, error));
    return 0;
}

/* Did the reply say that nothing is, or ever was, on its way? A 408 can be a proxy's, which gave up
 * waiting for a server that is at work. */
static bool is_settled(const struct reply_judgement *j, int status)
{
    return j->verdict == REPLY_MOVED || j->verdict == REPLY_FINAL ||
           j->reason == CLIENT_REASON_DECLINED ||
           (j->reason == CLIENT_REASON_REFUSED && status != 408);
}

static int end_window(struct carry_run *r, const struct reply_judgement *j, int status)
{
    if (r->window != NULL && is_settled(j, status))
        owner_window_settle(r->window);
    if (r->window != NULL && j->is_rail_at_fault)
        owner_window_blame(r->window);
    return withdraw(r);
}

/* A complete reply. 0: moved, or go on by HTTP, as `j` says. */
static int after_reply(struct carry_run *r, struct http_reply *reply, struct reply_judgement *j)
{
    char s3_code[64];
    call_s3_code(r->job->call, s3_code);
    reply_judge(&r->question, reply, s3_code, j);
    /* Before the window ends: where the bytes are not there, they may still be on their way. */
    if (j->verdict == REPLY_MOVED && !verify(r, &reply->headers, j->moved))
        *j = (struct reply_judgement){.verdict = REPLY_ASK_AGAIN,
                                      .reason = CLIENT_REASON_CHECKSUM,
                                      .why = "the bytes that were moved do not match the object's "
                                             "checksum"};
    const char *flaw =
        r->body == BODY_OBJECT ? reply_flaw_of_body(&r->question, reply, r->body_off) : NULL;
    int e = end_window(r, j, reply->status);
    if (e == 0 && j->verdict == REPLY_FINAL) {
        e = call_error(r->job->call, reply, r->job->diag);
        call_s3_code(r->job->call, r->job->result->s3_code);
    }
    result_take_reply(r->job->result, reply);
    if (e != 0)
        return e;
    if (r->body == BODY_OBJECT && flaw == NULL) { /* along with the decline */
        carry_say_why(r, j->reason, j->why);
        j->verdict = REPLY_MOVED;
        return arrived_by_http(r, r->body_off);
    }
    if (j->verdict == REPLY_MOVED)
        arrived(r, CLIENT_RDMA, j->moved);
    return 0;
}

static void go_to(struct carry_run *r, enum carry_state state)
{
    r->state = state;
}

static void end(struct carry_run *r, int error)
{
    r->error = carry_memory_close(r, error);
    r->job->result->elapsed_ns = clock_mono_ns() - r->started_ns;
    go_to(r, CARRY_ENDED);
}

/* A window, and with it a request; without one the attempt is over. */
static void open_window(struct carry_run *r)
{
    const struct client_memory *m = &r->memory;
    struct diag diag = {0};
    r->judged =
        (struct reply_judgement){.verdict = REPLY_ASK_AGAIN, .reason = CLIENT_REASON_NO_DEVICE};
    r->is_stale = false;
    uint64_t off = m->len > 0 ? (uint64_t)((char *)m->ptr - (char *)r->base) : 0;
    int e = owner_window_open(r->owner, r->base, off, m->len, &diag, &r->window);
    if (e != 0) {
        snprintf(r->judged.why, sizeof(r->judged.why), "no window: %.180s", diag_text(&diag, e));
        go_to(r, CARRY_JUDGED);
        return;
    }
    note_provider(r);
    print_ip(r->window, r->ip);
    set_up_token(r);
    go_to(r, CARRY_TOKEN_SENT);
}

static void judge_token(struct carry_run *r)
{
    struct call *call = r->job->call;
    if (r->reply.fault != HTTP_UNSENT)
        r->job->result->requests++;
    r->is_stale = r->sent_error != 0 && r->reply.fault == HTTP_STALE;
    int e = r->sent_error != 0 ? after_fault(r, r->sent_error, &r->sent_diag, &r->reply, &r->judged)
                               : after_reply(r, &r->reply, &r->judged);
    call->token = call->bind_ip = NULL;
    call->is_fresh = false;
    if (e != 0)
        end(r, e);
    else
        go_to(r, CARRY_JUDGED);
}

/* Some servers cut an object that is larger than the window and call that a success. Where the
 * checksum does not tell, the object's length does. (None that names the checksum is known to cut;
 * a GPU's memory is not compared with it.) */
static bool is_perhaps_cut(const struct carry_run *r)
{
    const struct reply_question *q = &r->question;
    const struct client_result *result = r->job->result;
    bool is_known = result->is_verified || (r->is_device && result->has_crc64);
    return !q->is_put && !q->is_ranged && !r->job->options->is_unverified && !is_known &&
           result->transport == CLIENT_RDMA && result->len == q->window_len;
}

static void ask_length(struct carry_run *r)
{
    struct call *call = r->job->call;
    call->method = "HEAD";
    call->timeout_ms = 0;
    call->on_body = NULL;
    r->job->result->requests++;
    go_to(r, CARRY_LENGTH_SENT);
}

static void judge_length(struct carry_run *r)
{
    const struct carry *job = r->job;
    const struct http_reply *reply = &r->reply;
    int e = r->sent_error;
    if (e != 0)
        (void)diag_fail(job->diag, e, "%s", diag_text(&r->sent_diag, e));
    else if (reply->status / 100 != 2)
        e = call_error(job->call, reply, job->diag);
    else if (!reply->has_length)
        e = bad_reply(r, reply, "the reply does not say how long the object is");
    else if (reply->content_len > r->memory.len)
        e = too_small(r, reply->content_len);
    end(r, e);
}

/* Over, another window, or HTTP. */
static void after_attempt(struct carry_run *r)
{
    const struct carry *job = r->job;
    if (r->is_stale && r->may_retry_stale) {
        r->may_retry_stale = false;
        job->call->is_fresh = true;
        go_to(r, CARRY_OPENING);
        return;
    }
    if (r->judged.verdict == REPLY_MOVED) {
        if (is_perhaps_cut(r))
            ask_length(r);
        else
            end(r, 0);
        return;
    }
    carry_say_why(r, r->judged.reason, r->judged.why);
    if (r->judged.may_other_rail && --r->rails_left > 0)
        go_to(r, CARRY_OPENING);
    else if (job->options->is_exact && r->judged.is_bounds && !r->question.is_put)
        end(r, diag_fail(job->diag, S3R_E_BUFFER_TOO_SMALL,
                         "the server refused a window of %llu bytes",
                         (unsigned long long)r->memory.len));
    else
        go_to(r, CARRY_FALLING_BACK);
}

/* ---- plain HTTP ---- */

static void set_up_http(struct carry_run *r)
{
    const struct carry *job = r->job;
    struct call *call = job->call;
    call->timeout_ms = 0;
    call->body = r->question.is_put ? r->memory.ptr : NULL;
    call->body_len = r->question.is_put ? r->memory.len : 0;
    call->on_body = body_by_http;
    call->on_body_arg = r;
    call->on_progress = job->options->on_progress;
    call->progress_arg = job->options->progress_arg;
    r->body = BODY_NONE;
    r->body_off = 0;
    job->result->requests++;
}

static const char *flaw_of_http(struct carry_run *r)
{
    struct reply_judgement *j = &r->judged;
    if (!r->question.is_put)
        return reply_flaw_of_body(&r->question, &r->reply, r->body_off);
    if (reply_stored_nothing(&r->question, &r->reply))
        return "the server stored an empty object";
    reply_judge(&r->question, &r->reply, "", j);
    return j->verdict == REPLY_MOVED || j->reason == CLIENT_REASON_IGNORED ? NULL : j->why;
}

static void judge_http(struct carry_run *r)
{
    const struct carry *job = r->job;
    struct http_reply *reply = &r->reply;
    int e = r->sent_error;
    if (e != 0)
        (void)diag_fail(job->diag, e, "%s", diag_text(&r->sent_diag, e));
    else if (reply->status / 100 != 2)
        e = call_error(job->call, reply, job->diag);
    const char *flaw = e == 0 ? flaw_of_http(r) : NULL;
    if (flaw != NULL)
        e = bad_reply(r, reply, flaw);
    if (e != 0 && reply->status >= 300)
        call_s3_code(job->call, job->result->s3_code);
    if (reply->status != 0)
        result_take_reply(job->result, reply);
    if (e == 0)
        e = arrived_by_http(r, r->question.is_put ? r->memory.len : r->body_off);
    end(r, e);
}

/* ---- all of it ---- */

static void start(struct carry_run *r)
{
    bool is_open = false;
    int e = carry_memory_open(r, &is_open);
    if (e != 0) {
        end(r, e);
        return;
    }
    if (is_open)
        r->rails_left = owner_rail_count(r->owner) > 1 ? 2 : 1;
    go_to(r, is_open ? CARRY_OPENING : CARRY_FALLING_BACK);
}

static void fall_back(struct carry_run *r)
{
    int e = 0;
    carry_memory_deregister(r);
    if (r->job->options->is_rdma_required)
        e = diag_fail(r->job->diag, S3R_E_RDMA_REQUIRED,
                      "RDMA was required and could not be used: %s", r->job->result->why);
    if (e == 0)
        e = carry_memory_read(r);
    if (e != 0) {
        end(r, e);
        return;
    }
    set_up_http(r);
    go_to(r, CARRY_HTTP_SENT);
}

void carry_begin(struct carry_run *r, const struct carry *job)
{
    *r = (struct carry_run){.job = job,
                            .memory = *job->memory,
                            .question = job->question,
                            .may_retry_stale = true,
                            .started_ns = clock_mono_ns()};
}

static bool is_over_or_sent(enum carry_state state)
{
    return state == CARRY_ENDED || state == CARRY_TOKEN_SENT || state == CARRY_LENGTH_SENT ||
           state == CARRY_HTTP_SENT;
}

bool carry_next(struct carry_run *r)
{
    static void (*const steps[])(struct carry_run *) = {
        [CARRY_BEGUN] = start,
        [CARRY_OPENING] = open_window,
        [CARRY_TOKEN_SENT] = judge_token,
        [CARRY_JUDGED] = after_attempt,
        [CARRY_LENGTH_SENT] = judge_length,
        [CARRY_FALLING_BACK] = fall_back,
        [CARRY_HTTP_SENT] = judge_http,
    };
    do {
        steps[r->state](r);
        http_reply_fini(&r->reply);
        r->sent_error = 0;
        diag_clear(&r->sent_diag);
    } while (!is_over_or_sent(r->state));
    return r->state != CARRY_ENDED;
}

int carry_run(const struct carry *job)
{
    struct carry_run r;
    carry_begin(&r, job);
    while (carry_next(&r))
        r.sent_error = call_send(job->client, job->call, &r.sent_diag, &r.reply);
    return r.error;
}
