/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_response.h"

#include "base/limits.h"

#include <stdlib.h>

#define STREAM_BLOCK (1 * MIB)

_Static_assert(HTTP_STREAM_FAILED == MHD_CONTENT_READER_END_WITH_ERROR, "one value, two names");

static void give_block(void *block)
{
    buffer_give(block);
}

/* No copy of the library's: the bytes go from the block to the socket. */
static struct MHD_Response *respond_from_block(struct http_reply *reply)
{
    struct buffer *block = STEAL(reply->block);
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(reply->block_len, block->bytes,
                                                               give_block, block);
    if (!response)
        buffer_give(block);
    return response;
}

struct MHD_Response *http_response_create(struct http_reply *reply, bool is_read)
{
    if (reply->stream)
        return MHD_create_response_from_callback(reply->stream_len, is_read ? STREAM_BLOCK : 1,
                                                 reply->stream, reply->stream_arg, NULL);
    if (reply->block)
        return respond_from_block(reply);
    size_t len = reply->body ? reply->body->len : 0;
    char *bytes = len ? text_take(reply->body) : NULL;
    if (!bytes)
        return MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(bytes);
    return response;
}
