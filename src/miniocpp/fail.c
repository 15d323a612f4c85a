/* SPDX-License-Identifier: Apache-2.0 */
#include "miniocpp/fail.h"

#include "miniocpp/c_api.h"

#include <stdbool.h>
#include <stdio.h>

/* The interface wants it per thread; nothing below this layer does. */
static _Thread_local char last_error[S3R_DIAG_MAX];
static _Thread_local bool has_failed;

int fail_with(const struct diag *diag, int code)
{
    snprintf(last_error, sizeof(last_error), "%s", diag_text(diag, code));
    has_failed = true;
    return code == S3R_E_INVALID_ARGUMENT ? MINIOCPP_ERR_INVALID_ARG : MINIOCPP_ERR_GENERIC;
}

const char *miniocpp_last_error(void)
{
    return has_failed ? last_error : NULL;
}
