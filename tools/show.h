/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - texts for a terminal that somebody else may have chosen: keys, names, a server's words.
 * Does:     writes control characters as \xNN, so that none moves the cursor or ends a line.
 * Not here: JSON, which has escapes of its own (json.h); logs (base/log.h).
 * Units:    none.
 * Owns:     nothing.
 * Threads:  any, each line in one piece.
 * Errors:   a line for which there is no memory is left out.
 * Limits:   SHOW_LEN_MAX bytes a line. */
#ifndef S3R_TOOLS_SHOW_H
#define S3R_TOOLS_SHOW_H

#include "base/attr.h"
#include "base/text.h"

#include <stdio.h>

#define SHOW_LEN_MAX (64 * 1024)

/* `s` as it can be shown. */
void show_add(struct text *out, const char *s);
/* One line and its end; what is formatted is shown, too. */
void show_line(FILE *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
