/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - one line per event to a sink.
 * Does:     levels, a sink that the program sets, escaping of strings from outside.
 * Not here: request lines (server/accesslog.c composes them and calls log_line).
 * Units:    none.
 * Owns:     the sink is a process-wide setting: the one mutable global of this project.
 * Threads:  any; the sink is called under a lock.
 * Errors:   none; a line that cannot be written is lost.
 * Limits:   LOG_LINE_MAX bytes a line, cut.
 * Never log keys, signatures or RDMA tokens: a token is a right to write into memory. */
#ifndef S3R_BASE_LOG_H
#define S3R_BASE_LOG_H

#include "base/attr.h"

#include <stddef.h>

#define LOG_LINE_MAX 4096

/* error = something lost; warn = went on degraded; info = start, stop, configuration;
 * debug = per object. */
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

typedef void log_sink_fn(enum log_level level, const char *line, void *arg);

/* NULL: nothing is written (the default: libraries are silent until a program says otherwise). */
void log_set_sink(log_sink_fn *fn, void *arg);
void log_set_level(enum log_level level);
/* A sink for programs: `TIME LEVEL LINE` on standard error. */
log_sink_fn log_to_stderr;

void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* Copies with control characters, quotes, backslashes and non-ASCII as \xNN, so that a value stays
 * one token of a `key=value` line; blanks become \x20. Cut to fit; returns `out`. */
const char *log_escape(const char *s, size_t len, char *out, size_t out_size);

#endif
