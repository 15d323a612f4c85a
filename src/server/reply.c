/* SPDX-License-Identifier: Apache-2.0 */
/* Composing a reply: see request.h. */
#include "server/request.h"

#include <inttypes.h>
#include <stdio.h>

int reply_header(struct request *r, const char *name, const char *value)
{
    return headers_set(&r->reply.headers, name, value);
}

int reply_header_u64(struct request *r, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return reply_header(r, name, text);
}

int reply_etag(struct request *r, const char *etag)
{
    char quoted[STORE_ETAG_MAX + 2];
    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    return reply_header(r, "etag", quoted);
}

int reply_xml(struct request *r)
{
    r->reply.status = 200;
    return reply_header(r, "content-type", "application/xml");
}

void reply_empty(struct request *r, unsigned status)
{
    r->reply.status = status;
}
