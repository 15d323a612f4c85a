/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static log_sink_fn *sink; /* lock sink_lock */
static void *sink_arg;    /* lock sink_lock */
static _Atomic int level_max = LOG_INFO;

void log_set_sink(log_sink_fn *fn, void *arg)
{
    pthread_mutex_lock(&sink_lock);
    sink = fn;
    sink_arg = arg;
    pthread_mutex_unlock(&sink_lock);
}

void log_set_level(enum log_level level)
{
    atomic_store(&level_max, (int)level);
}

void log_to_stderr(enum log_level level, const char *line, void *arg UNUSED)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char when[CLOCK_TEXT_MAX];
    clock_print_iso(clock_wall_ms(), when);
    fprintf(stderr, "%s %s %s\n", when, names[level], line);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    char line[LOG_LINE_MAX];
    va_list args;
    if ((int)level > atomic_load(&level_max))
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    pthread_mutex_lock(&sink_lock);
    if (sink)
        sink(level, line, sink_arg);
    pthread_mutex_unlock(&sink_lock);
}

const char *log_escape(const char *s, size_t len, char *out, size_t out_size)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c > ' ' && c < 0x7f && c != '"' && c != '\\') {
            if (n + 2 > out_size)
                break;
            out[n++] = (char)c;
        } else {
            if (n + 5 > out_size)
                break;
            snprintf(out + n, 5, "\\x%02x", c);
            n += 4;
        }
    }
    if (out_size)
        out[n] = '\0';
    return out;
}
