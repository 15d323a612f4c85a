/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is slow or broken, for a program that knows nothing of it: LD_PRELOAD this library.
 *
 *   S3R_FAULT_DIR    files below this folder are concerned, no others
 *   S3R_FAULT_FILE   the rules in force; looked at before each call, so a test switches by renaming
 *                    a new file into its place
 *
 * A rule is a line `CALL PART ACTION`. CALL: open, read, write, sync, allocate or unlink. PART: a
 * text that the path below the folder contains, or with $ behind it ends with; or *. ACTION:
 * delay_ms=N, or an errno's name. The first rule that fits a call and path counts. A read that asks
 * not to wait (RWF_NOWAIT) finds nothing cached where reads are slow. */
/* Both names of each call are wrapped, those with 64 too: off_t has 64 bits here anyhow. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RULES_MAX 16
#define PATH_LEN_MAX 4096

enum call { CALL_OPEN, CALL_READ, CALL_WRITE, CALL_SYNC, CALL_ALLOCATE, CALL_UNLINK, CALL_COUNT };
static const char *const call_names[CALL_COUNT] = {"open", "read",     "write",
                                                   "sync", "allocate", "unlink"};
static const struct {
    const char *name;
    int number;
} errnos[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT}};

struct rule {
    enum call call;
    char part[64];
    int error;
    long delay_ms;
};

/* Real calls, found when first needed: a sanitizer calls before constructors have run. */
#define REAL(name) ((__typeof__(&name))find(&real_##name, #name))
#define HAS_REAL(name) static void *real_##name

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static int rule_count;
static struct timespec rules_time;
static ino_t rules_ino;

static void *find(void **known, const char *name)
{
    void *found = __atomic_load_n(known, __ATOMIC_ACQUIRE);
    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        __atomic_store_n(known, found, __ATOMIC_RELEASE);
    }
    return found;
}

/* ---- the rules ---- */

static void bad_rule(const char *line)
{
    fprintf(stderr, "fault library: not a rule: %s\n", line);
    abort();
}

static void parse_rule(const char *line)
{
    char call[16], action[32];
    struct rule r = {.call = CALL_COUNT};
    if (sscanf(line, "%15s %63s %31s", call, r.part, action) != 3 || rule_count == RULES_MAX)
        bad_rule(line);
    for (int i = 0; i < CALL_COUNT; i++)
        if (strcmp(call, call_names[i]) == 0)
            r.call = (enum call)i;
    for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++)
        if (strcmp(action, errnos[i].name) == 0)
            r.error = errnos[i].number;
    if (sscanf(action, "delay_ms=%ld", &r.delay_ms) != 1)
        r.delay_ms = 0;
    if (r.call == CALL_COUNT || (!r.error && r.delay_ms <= 0))
        bad_rule(line);
    rules[rule_count++] = r;
}

static void load_rules(const char *path)
{
    char line[256];
    rule_count = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (*line != '\n')
            parse_rule(line);
    if (f)
        fclose(f);
}

/* Own calls must not be looked at, or the lock would be taken twice. */
static __thread bool is_inside;

static bool fits(const char *part, const char *path)
{
    size_t len = strlen(part), path_len = strlen(path);
    if (part[len - 1] != '$')
        return strcmp(part, "*") == 0 || strstr(path, part);
    return path_len >= len - 1 && memcmp(path + path_len - (len - 1), part, len - 1) == 0;
}

/* The first rule for the call and path; for the call alone when path is NULL. */
static bool find_rule(enum call call, const char *path, struct rule *ret)
{
    const char *trigger = getenv("S3R_FAULT_FILE");
    struct stat st;
    bool is_found = false;
    if (!trigger || stat(trigger, &st) != 0)
        return false;
    pthread_mutex_lock(&lock);
    if (st.st_ino != rules_ino || memcmp(&st.st_mtim, &rules_time, sizeof rules_time) != 0) {
        load_rules(trigger);
        rules_ino = st.st_ino;
        rules_time = st.st_mtim;
    }
    for (int i = 0; i < rule_count && !is_found; i++)
        if (rules[i].call == call && (!path || fits(rules[i].part, path))) {
            *ret = rules[i];
            is_found = true;
        }
    pthread_mutex_unlock(&lock);
    return is_found;
}

/* The path below the folder; NULL when it is not there. */
static const char *below(const char *path)
{
    const char *dir = getenv("S3R_FAULT_DIR");
    size_t len = dir ? strlen(dir) : 0;
    return len && strncmp(path, dir, len) == 0 && path[len] == '/' ? path + len : NULL;
}

static bool path_of(int fd, char path[PATH_LEN_MAX])
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_LEN_MAX - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return true;
}

static int judge(enum call call, const char *path, bool may_wait)
{
    struct rule rule;
    const char *name = below(path);
    if (!name || !find_rule(call, name, &rule))
        return 0;
    if (rule.error)
        return rule.error;
    if (!may_wait)
        return EAGAIN;
    struct timespec delay = {rule.delay_ms / 1000, rule.delay_ms % 1000 * 1000000};
    nanosleep(&delay, NULL);
    return 0;
}

/* 0, or the errno to fail with. */
static int ask(enum call call, const char *path, bool may_wait)
{
    if (is_inside)
        return 0;
    int saved = errno;
    is_inside = true;
    int error = judge(call, path, may_wait);
    is_inside = false;
    errno = error ? error : saved;
    return error;
}

static int ask_fd(enum call call, int fd, bool may_wait)
{
    char path[PATH_LEN_MAX];
    struct rule rule;
    if (is_inside)
        return 0;
    int saved = errno;
    is_inside = true;
    bool is_concerned = find_rule(call, NULL, &rule) && path_of(fd, path);
    is_inside = false;
    errno = saved;
    return is_concerned ? ask(call, path, may_wait) : 0;
}

/* ---- the calls ---- */

HAS_REAL(open);
HAS_REAL(open64);
EXPORT int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return ask(CALL_OPEN, path, true) ? -1 : REAL(open)(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return ask(CALL_OPEN, path, true) ? -1 : REAL(open64)(path, flags, mode);
}

#define WRAP_FD(type, name, call, parameters, arguments)                                           \
    HAS_REAL(name);                                                                                \
    EXPORT type name parameters                                                                    \
    {                                                                                              \
        return ask_fd(call, fd, true) ? -1 : REAL(name) arguments;                                 \
    }

WRAP_FD(ssize_t, read, CALL_READ, (int fd, void *buf, size_t len), (fd, buf, len))
WRAP_FD(ssize_t, pread, CALL_READ, (int fd, void *buf, size_t len, off_t off), (fd, buf, len, off))
WRAP_FD(ssize_t, pread64, CALL_READ, (int fd, void *buf, size_t len, off64_t off),
        (fd, buf, len, off))
WRAP_FD(ssize_t, preadv, CALL_READ, (int fd, const struct iovec *iov, int count, off_t off),
        (fd, iov, count, off))
WRAP_FD(ssize_t, write, CALL_WRITE, (int fd, const void *buf, size_t len), (fd, buf, len))
WRAP_FD(ssize_t, pwrite, CALL_WRITE, (int fd, const void *buf, size_t len, off_t off),
        (fd, buf, len, off))
WRAP_FD(ssize_t, pwrite64, CALL_WRITE, (int fd, const void *buf, size_t len, off64_t off),
        (fd, buf, len, off))
WRAP_FD(ssize_t, pwritev, CALL_WRITE, (int fd, const struct iovec *iov, int count, off_t off),
        (fd, iov, count, off))
WRAP_FD(ssize_t, pwritev64, CALL_WRITE, (int fd, const struct iovec *iov, int count, off64_t off),
        (fd, iov, count, off))
WRAP_FD(int, fsync, CALL_SYNC, (int fd), (fd))
WRAP_FD(int, fdatasync, CALL_SYNC, (int fd), (fd))
WRAP_FD(int, sync_file_range, CALL_SYNC, (int fd, off64_t off, off64_t len, unsigned flags),
        (fd, off, len, flags))
WRAP_FD(int, fallocate, CALL_ALLOCATE, (int fd, int mode, off_t off, off_t len),
        (fd, mode, off, len))
WRAP_FD(int, fallocate64, CALL_ALLOCATE, (int fd, int mode, off64_t off, off64_t len),
        (fd, mode, off, len))

HAS_REAL(preadv2);
EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t off, int flags)
{
    bool may_wait = !(flags & RWF_NOWAIT);
    return ask_fd(CALL_READ, fd, may_wait) ? -1 : REAL(preadv2)(fd, iov, count, off, flags);
}

HAS_REAL(preadv64v2);
EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int count, off64_t off, int flags)
{
    bool may_wait = !(flags & RWF_NOWAIT);
    return ask_fd(CALL_READ, fd, may_wait) ? -1 : REAL(preadv64v2)(fd, iov, count, off, flags);
}

HAS_REAL(unlink);
EXPORT int unlink(const char *path)
{
    return ask(CALL_UNLINK, path, true) ? -1 : REAL(unlink)(path);
}

static bool is_listening(int fd)
{
    int is = 0;
    socklen_t len = sizeof is;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) == 0 && is;
}

HAS_REAL(epoll_ctl);
EXPORT int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    const char *text = getenv("S3R_FAULT_UNLISTEN_MS");
    long ms = 0;
    if (text && sscanf(text, "%ld", &ms) != 1)
        bad_rule(text);
    struct timespec delay = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0 && op == EPOLL_CTL_DEL && is_listening(fd))
        nanosleep(&delay, NULL);
    return REAL(epoll_ctl)(set, op, fd, event);
}
