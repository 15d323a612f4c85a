// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/strays.h"

#include "base/num.h"
#include "rdma/ofi/device.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool add(struct strays *s, int fd, ino_t inode)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct stray *list = realloc(s->list, cap * sizeof(*list));
        if (!list)
            return false;
        s->list = list;
        s->cap = cap;
    }
    s->list[s->count++] = (struct stray){.fd = fd, .inode = inode};
    return true;
}

static bool is_listening(int fd)
{
    int is = 0;
    socklen_t len = sizeof(is);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) == 0 && is;
}

/* False when there is no memory to remember it. */
static bool look_at(int fd, const struct sockaddr_storage *listener, enum strays_of of,
                    struct strays *s, bool *ret_listener)
{
    struct stat st;
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof(at);
    if (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0 || ofi_address_len(&at) == 0 ||
        !ofi_address_is_same_ip(&at, listener) ||
        ofi_address_port(&at) != ofi_address_port(listener))
        return true;
    if (is_listening(fd)) {
        *ret_listener = true;
        if (of == STRAYS_CONNECTIONS)
            return true;
    }
    (void)shutdown(fd, SHUT_RDWR);
    return add(s, fd, st.st_ino);
}

bool strays_cut(const struct sockaddr_storage *listener, enum strays_of of,
                struct strays *ret_strays)
{
    bool is_all = true, has_listener = false;
    *ret_strays = (struct strays){0};
    if (ofi_address_port(listener) == 0)
        return false;
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        uint64_t fd;
        if (num_parse_dec(entry->d_name, strlen(entry->d_name), INT_MAX, &fd))
            is_all &= look_at((int)fd, listener, of, ret_strays, &has_listener);
    }
    if (dir)
        closedir(dir);
    return is_all && has_listener;
}

static bool look_through(int epoll_fd, int depth, struct strays *s, bool *ret_listener);

/* False when there is no memory to remember it. */
static bool look_at_watched(int fd, int depth, struct strays *s, bool *ret_listener)
{
    struct stat st;
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof(at);
    if (fstat(fd, &st) != 0)
        return true;
    if (!S_ISSOCK(st.st_mode))
        return depth == 0 || look_through(fd, depth - 1, s, ret_listener);
    if (getsockname(fd, (struct sockaddr *)&at, &len) != 0 || ofi_address_len(&at) == 0)
        return true;
    if (is_listening(fd)) {
        *ret_listener = true;
        return true;
    }
    (void)shutdown(fd, SHUT_RDWR);
    return add(s, fd, st.st_ino);
}

/* The kernel lists what an epoll descriptor watches, one line "tfd: NUMBER events: ..." each. */
static bool look_through(int epoll_fd, int depth, struct strays *s, bool *ret_listener)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll_fd);
    FILE *f = fopen(path, "re");
    bool is_all = f != NULL;
    while (f && fgets(line, sizeof(line), f)) {
        uint64_t fd;
        const char *number = line + strlen("tfd:");
        if (strncmp(line, "tfd:", strlen("tfd:")) != 0)
            continue;
        number += strspn(number, " \t");
        if (num_parse_dec(number, strspn(number, "0123456789"), INT_MAX, &fd))
            is_all &= look_at_watched((int)fd, depth, s, ret_listener);
    }
    if (f)
        fclose(f);
    return is_all;
}

bool strays_cut_watched(int epoll_fd, struct strays *ret_strays)
{
    bool has_listener = false;
    *ret_strays = (struct strays){0};
    return look_through(epoll_fd, 1, ret_strays, &has_listener) && has_listener;
}

/* By its name in /proc: the descriptor itself may be another thread's by now. */
static bool is_open(const struct stray *stray)
{
    char path[64], name[64], link[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", stray->fd);
    int len = snprintf(name, sizeof(name), "socket:[%llu]", (unsigned long long)stray->inode);
    return readlink(path, link, sizeof(link)) == len && memcmp(link, name, (size_t)len) == 0;
}

bool strays_are_gone(const struct strays *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_open(&s->list[i]))
            return false;
    return true;
}

void strays_forget(struct strays *s)
{
    free(s->list);
    *s = (struct strays){0};
}

void strays_close(struct strays *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_open(&s->list[i]))
            close(s->list[i].fd);
    strays_forget(s);
}
