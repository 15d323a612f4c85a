/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/shim/shim.h"

#include "rdma/owner.h"
#include "s3rdma.h"

#include <stdio.h>
#include <string.h>

/* The interface wants it per thread; nothing below this layer does. */
static _Thread_local char last_error[S3R_DIAG_MAX];

int shim_fail(const struct diag *diag, int code)
{
    snprintf(last_error, sizeof last_error, "%s", diag_text(diag, code));
    return -1;
}

void shim_copy_text(char *out, size_t len, const char *text)
{
    if (out && len > 0)
        snprintf(out, len, "%s", text);
}

/* Numbers of enum ibv_wc_status, which are part of the verbs ABI. */
int32_t shim_status(int code)
{
    switch (code) {
    case 0:
        return 0;
    case S3R_E_INVALID_ARGUMENT:
    case S3R_E_RDMA_NOT_FOUND:
    case S3R_E_RDMA_REGISTER:
        return 4; /* local protection */
    case S3R_E_CANCELLED:
    case S3R_E_SHUTTING_DOWN:
        return 5; /* flushed */
    case S3R_E_TOKEN_MALFORMED:
    case S3R_E_TOKEN_DECLINED:
        return 9; /* remote: invalid request */
    case S3R_E_RDMA_BOUNDS:
        return 10; /* remote access */
    case S3R_E_RDMA_TRANSFER:
        return 11; /* remote operation */
    case S3R_E_RDMA_PEER:
        return 12; /* retries exceeded */
    case S3R_E_RDMA_DEADLINE:
    case S3R_E_TIMEOUT:
        return 20; /* no response in time */
    default:
        return 21; /* general */
    }
}

const char *s3rdma_version(void)
{
    return S3R_VERSION;
}

size_t s3rdma_last_error(char *buf, size_t len)
{
    if (!buf || len == 0)
        return 0;
    shim_copy_text(buf, len, last_error);
    return strlen(buf);
}

int s3rdma_check_rdma(char *err, size_t len)
{
    struct owner *o;
    struct diag diag = {""};
    char line[S3R_DIAG_MAX], all[4 * S3R_DIAG_MAX] = "";
    int rc = owner_open(NULL, NULL, &diag, &o);
    if (rc) {
        shim_fail(&diag, rc);
        shim_copy_text(err, len, diag_text(&diag, rc));
        return 0;
    }
    for (int i = 0; i < owner_rail_count(o); i++) {
        size_t used = strlen(all);
        owner_describe(o, i, line, sizeof line);
        snprintf(all + used, sizeof all - used, "%s%s", used ? "; " : "", line);
    }
    owner_close(o);
    shim_copy_text(err, len, all);
    return 1;
}
