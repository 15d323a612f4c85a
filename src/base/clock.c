/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* Names are written out: strftime and strptime follow the locale of whoever loaded us. */
static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

int64_t clock_mono_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}

int64_t clock_wall_s(void)
{
    return clock_wall_ms() / 1000;
}

struct timespec clock_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static struct tm utc(int64_t wall_s)
{
    time_t t = (time_t)wall_s;
    struct tm tm = {0};
    gmtime_r(&t, &tm);
    return tm;
}

/* snprintf cannot know that tm's fields are small; one place tells it. */
static unsigned two(int n)
{
    return (unsigned)n % 100;
}

static unsigned year_of(const struct tm *tm)
{
    return (unsigned)(tm->tm_year + 1900) % 10000;
}

void clock_print_basic(int64_t wall_s, char out[CLOCK_TEXT_MAX])
{
    struct tm tm = utc(wall_s);
    snprintf(out, CLOCK_TEXT_MAX, "%04u%02u%02uT%02u%02u%02uZ", year_of(&tm), two(tm.tm_mon + 1),
             two(tm.tm_mday), two(tm.tm_hour), two(tm.tm_min), two(tm.tm_sec));
}

void clock_print_iso(int64_t wall_ms, char out[CLOCK_TEXT_MAX])
{
    struct tm tm = utc(wall_ms / 1000);
    snprintf(out, CLOCK_TEXT_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year_of(&tm),
             two(tm.tm_mon + 1), two(tm.tm_mday), two(tm.tm_hour), two(tm.tm_min), two(tm.tm_sec),
             (unsigned)(wall_ms % 1000) % 1000);
}

void clock_print_http(int64_t wall_s, char out[CLOCK_TEXT_MAX])
{
    struct tm tm = utc(wall_s);
    snprintf(out, CLOCK_TEXT_MAX, "%s, %02u %s %04u %02u:%02u:%02u GMT", day_names[tm.tm_wday % 7],
             two(tm.tm_mday), month_names[tm.tm_mon % 12], year_of(&tm), two(tm.tm_hour),
             two(tm.tm_min), two(tm.tm_sec));
}

/* Refuses what timegm would silently carry over (month 13, 31 February, hour 24). */
static bool to_wall(struct tm tm, int64_t *ret_wall_s)
{
    struct tm want = tm;
    time_t t = timegm(&tm);
    if (t < 0 || tm.tm_year != want.tm_year || tm.tm_mon != want.tm_mon ||
        tm.tm_mday != want.tm_mday || tm.tm_hour != want.tm_hour || tm.tm_min != want.tm_min ||
        tm.tm_sec != want.tm_sec)
        return false;
    *ret_wall_s = t;
    return true;
}

static bool digits(const char *s, size_t n, int *ret)
{
    int value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (s[i] - '0');
    }
    *ret = value;
    return true;
}

bool clock_parse_basic(const char *s, size_t len, int64_t *ret_wall_s)
{
    struct tm tm = {0};
    if (len != 16 || s[8] != 'T' || s[15] != 'Z' || !digits(s, 4, &tm.tm_year) ||
        !digits(s + 4, 2, &tm.tm_mon) || !digits(s + 6, 2, &tm.tm_mday) ||
        !digits(s + 9, 2, &tm.tm_hour) || !digits(s + 11, 2, &tm.tm_min) ||
        !digits(s + 13, 2, &tm.tm_sec))
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return to_wall(tm, ret_wall_s);
}

bool clock_parse_iso(const char *s, int64_t *ret_wall_ms)
{
    struct tm tm = {0};
    int64_t wall_s;
    int ms = 0;
    if (strnlen(s, 20) < 20 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' ||
        s[16] != ':' || !digits(s, 4, &tm.tm_year) || !digits(s + 5, 2, &tm.tm_mon) ||
        !digits(s + 8, 2, &tm.tm_mday) || !digits(s + 11, 2, &tm.tm_hour) ||
        !digits(s + 14, 2, &tm.tm_min) || !digits(s + 17, 2, &tm.tm_sec))
        return false;
    const char *end = s + 19;
    if (*end == '.') {
        size_t len = strspn(++end, "0123456789");
        for (size_t i = 0, unit = 100; i < 3 && i < len; i++, unit /= 10)
            ms += (end[i] - '0') * (int)unit;
        end = len > 0 ? end + len : "";
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    if (strcmp(end, "Z") != 0 || !to_wall(tm, &wall_s))
        return false;
    *ret_wall_ms = wall_s * 1000 + ms;
    return true;
}

static int month_of(const char *name)
{
    for (int i = 0; i < 12; i++)
        if (strcmp(name, month_names[i]) == 0)
            return i;
    return -1;
}

bool clock_parse_http(const char *s, int64_t *ret_wall_s)
{
    struct tm tm = {0};
    char month[4] = "", zone[4] = "";
    int end = 0, year = 0;
    /* RFC 1123, RFC 850, asctime; the day's name is not checked */
    if (sscanf(s, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d %3[A-Z]%n", &tm.tm_mday, month,
               &year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, zone, &end) == 7 &&
        s[end] == '\0' && strcmp(zone, "GMT") == 0) {
        ;
    } else if (sscanf(s, "%*9[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d %3[A-Z]%n", &tm.tm_mday,
                      month, &year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, zone, &end) == 7 &&
               s[end] == '\0' && strcmp(zone, "GMT") == 0) {
        year += year < 70 ? 2000 : 1900;
    } else if (sscanf(s, "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d%n", month, &tm.tm_mday,
                      &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &year, &end) != 6 ||
               s[end] != '\0') {
        return false;
    }
    tm.tm_mon = month_of(month);
    tm.tm_year = year - 1900;
    return tm.tm_mon >= 0 && to_wall(tm, ret_wall_s);
}
