/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api.h"

#include <stdlib.h>

struct s3r_page {
    struct client_page core;
};

int s3r_bucket_create(struct s3r_client *client, const char *bucket, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    int e = frame_need(&f, bucket != NULL, "bucket");
    return frame_return(&f, e == 0 ? client_bucket_create(client->core, bucket, f.diag) : e);
}

int s3r_bucket_delete(struct s3r_client *client, const char *bucket, struct s3r_result *result)
{
    struct frame f;
    frame_begin(&f, NULL, result);
    int e = frame_need(&f, bucket != NULL, "bucket");
    return frame_return(&f, e == 0 ? client_bucket_delete(client->core, bucket, f.diag) : e);
}

int s3r_bucket_exists(struct s3r_client *client, const char *bucket, struct s3r_result *result,
                      int *ret_exists)
{
    struct frame f;
    bool exists = false;
    frame_begin(&f, NULL, result);
    int e = frame_need(&f, bucket != NULL, "bucket");
    if (e == 0)
        e = client_bucket_exists(client->core, bucket, f.diag, &exists);
    if (e == 0) {
        *ret_exists = exists;
        diag_clear(f.diag);
    }
    return frame_return(&f, e);
}

static int hand_out(struct client_page *core, struct s3r_page **ret_page)
{
    struct s3r_page *page = calloc(1, sizeof(*page));
    if (page == NULL) {
        client_page_fini(core);
        return S3R_E_NOMEM;
    }
    page->core = *core;
    *ret_page = page;
    return 0;
}

int s3r_bucket_list(struct s3r_client *client, struct s3r_result *result,
                    struct s3r_page **ret_page)
{
    struct frame f;
    struct client_page page = {0};
    frame_begin(&f, NULL, result);
    int e = client_bucket_list(client->core, f.diag, &page);
    return frame_return(&f, e == 0 ? hand_out(&page, ret_page) : e);
}

int s3r_list(struct s3r_client *client, const char *bucket, const char *prefix,
             const char *delimiter, const char *token, unsigned max, struct s3r_result *result,
             struct s3r_page **ret_page)
{
    struct frame f;
    struct client_page page = {0};
    frame_begin(&f, NULL, result);
    int e = frame_need(&f, bucket != NULL, "bucket");
    if (e == 0)
        e = client_object_list_max(client->core, bucket, prefix, delimiter, token, max, f.diag,
                                   &page);
    return frame_return(&f, e == 0 ? hand_out(&page, ret_page) : e);
}

void s3r_page_free(struct s3r_page *page)
{
    if (page == NULL)
        return;
    client_page_fini(&page->core);
    free(page);
}

size_t s3r_page_count(const struct s3r_page *page)
{
    return page->core.count;
}

static const struct client_entry *row(const struct s3r_page *page, size_t index)
{
    return index < page->core.count ? &page->core.entries[index] : NULL;
}

const char *s3r_page_name(const struct s3r_page *page, size_t index)
{
    return row(page, index) != NULL ? row(page, index)->name : NULL;
}

int s3r_page_is_prefix(const struct s3r_page *page, size_t index)
{
    return row(page, index) != NULL && row(page, index)->is_prefix;
}

uint64_t s3r_page_len(const struct s3r_page *page, size_t index)
{
    return row(page, index) != NULL ? row(page, index)->len : 0;
}

const char *s3r_page_etag(const struct s3r_page *page, size_t index)
{
    return row(page, index) != NULL ? row(page, index)->etag : "";
}

const char *s3r_page_time(const struct s3r_page *page, size_t index)
{
    return row(page, index) != NULL ? row(page, index)->time : "";
}

const char *s3r_page_next_token(const struct s3r_page *page)
{
    return page->core.next_token;
}
