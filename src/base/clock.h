/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time: monotonic for deadlines, wall for what people and protocols see.
 * Does:     reads both clocks; prints and parses the date forms that S3 uses.
 * Not here: timers.
 * Units:    `_ns` nanoseconds (monotonic), `_s` and `_ms` since the epoch (wall, UTC).
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   false for a date that does not parse.
 * Limits:   years 1970 to 9999. */
#ifndef S3R_BASE_CLOCK_H
#define S3R_BASE_CLOCK_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t clock_mono_ns(void);
int64_t clock_wall_ms(void);
int64_t clock_wall_s(void);
struct timespec clock_timespec(int64_t ns);

#define CLOCK_TEXT_MAX 32
/* "20260102T030405Z" */
void clock_print_basic(int64_t wall_s, char out[CLOCK_TEXT_MAX]);
bool clock_parse_basic(const char *s, size_t len, int64_t *ret_wall_s) MUST_CHECK;
/* "2026-01-02T03:04:05.678Z" */
void clock_print_iso(int64_t wall_ms, char out[CLOCK_TEXT_MAX]);
/* With a fraction of any length, or none. */
bool clock_parse_iso(const char *s, int64_t *ret_wall_ms) MUST_CHECK;
/* "Fri, 02 Jan 2026 03:04:05 GMT" (RFC 9110 IMF-fixdate, also the parse of its two older forms) */
void clock_print_http(int64_t wall_s, char out[CLOCK_TEXT_MAX]);
bool clock_parse_http(const char *s, int64_t *ret_wall_s) MUST_CHECK;

#endif
