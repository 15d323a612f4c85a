/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.h - --content-type and --metadata as headers of a PUT.
 * Does:     checks them and adds them.
 * Not here: parsing the command line (options.c).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   as s3/headers.h, the diag names the option.
 * Limits:   METADATA_MAX pairs. */
#ifndef S3R_TOOLS_METADATA_H
#define S3R_TOOLS_METADATA_H

#include "tools/cli.h"

int metadata_add(const struct cli_options *o, struct headers *headers,
                 struct diag *diag) MUST_CHECK;

#endif
