/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admin.h"

#include <string.h>

#define METRICS_TYPE "text/plain; version=0.0.4"

bool admin_is_meant(const struct request *r)
{
    return strncmp(http_target(r->ex), "/minio/", 7) == 0;
}

static int check_metrics_access(struct request *r)
{
    if (r->server->config->metrics_public)
        return 0;
    int rc = request_authenticate(r);
    return rc ? rc : request_authorise(r);
}

static int answer_metrics(struct request *r, void (*print)(struct server *, struct text *))
{
    int rc = check_metrics_access(r);
    if (rc)
        return rc;
    print(r->server, &r->reply.body);
    r->reply.status = 200;
    return reply_header(r, "content-type", METRICS_TYPE);
}

static int answer_live(struct request *r)
{
    reply_empty(r, 200);
    return 0;
}

static int answer_ready(struct request *r)
{
    if (atomic_load(&r->server->is_draining))
        return S3R_E_SHUTTING_DOWN;
    int rc = store_ready(r->server->store, &r->diag);
    if (rc)
        return rc;
    reply_empty(r, 200);
    return 0;
}

static int answer_rdma_metrics(struct request *r)
{
    return answer_metrics(r, metrics_print_minio);
}

static int answer_all_metrics(struct request *r)
{
    return answer_metrics(r, metrics_print_all);
}

int admin_answer(struct request *r)
{
    static const struct {
        const char *path;
        int (*answer)(struct request *r);
    } pages[] = {{"/minio/metrics/v3/api/rdma", answer_rdma_metrics},
                 {"/minio/metrics", answer_all_metrics},
                 {"/minio/health/live", answer_live},
                 {"/minio/health/ready", answer_ready}};
    const char *target = http_target(r->ex);
    size_t len = strcspn(target, "?");
    int rc = http_framing_error(r->ex, &r->diag);
    if (rc)
        return rc;
    if (strcmp(http_method(r->ex), "GET") != 0 && !request_is_head(r))
        return S3R_E_METHOD_NOT_ALLOWED;
    for (size_t i = 0; i < ARRAY_LEN(pages); i++)
        if (strlen(pages[i].path) == len && strncmp(pages[i].path, target, len) == 0)
            return pages[i].answer(r);
    return diag_fail(&r->diag, S3R_E_NO_SUCH_KEY,
                     "the bucket name minio is reserved, and there is "
                     "nothing at this path");
}
