/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator asks of a server that runs. */
#include "server/ops.h"

/* POST /?s3r-backup=DIR: a copy of the index into an absolute path of the server's host. */
int op_backup(struct request *r)
{
    const char *dir = request_query(r, "s3r-backup");
    if (!dir || dir[0] != '/')
        return diag_fail(&r->diag, S3R_E_INVALID_ARGUMENT,
                         "s3r-backup: an absolute path of the server's host is wanted");
    reply_empty(r, 200);
    return store_backup(r->server->store, dir, &r->diag);
}
