// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/strays.h"

#include "base/num.h"
#include "rdma/ofi/device.h"

#include <dirent.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE 64

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

/* What a descriptor is, by its name in /proc: asking itself would touch what may be another
 * thread's by now. "" when it is closed. */
static void read_name(int fd, char name[NAME_SIZE])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, name, NAME_SIZE - 1);
    name[len > 0 ? len : 0] = '\0';
}

/* 0: it is no socket. */
static ino_t inode_of(int fd)
{
    static const char begin[] = "socket:[";
    char name[NAME_SIZE];
    uint64_t inode;
    read_name(fd, name);
    const char *digits = name + strlen(begin);
    if (strncmp(name, begin, strlen(begin)) != 0 ||
        !num_parse_dec(digits, strcspn(digits, "]"), UINT64_MAX, &inode))
        return 0;
    return (ino_t)inode;
}

static bool is_watcher(int fd)
{
    char name[NAME_SIZE];
    read_name(fd, name);
    return strcmp(name, "anon_inode:[eventpoll]") == 0;
}

/* ---- by address ---- */

/* As /proc/net/tcp and tcp6 print an address: words as they lie in memory. False: no IP. */
static bool print_local(const struct sockaddr_storage *at, char *out, size_t size)
{
    uint32_t words[4];
    unsigned port = ofi_address_port(at);
    if (at->ss_family == AF_INET) {
        memcpy(words, &((const struct sockaddr_in *)at)->sin_addr, sizeof(words[0]));
        snprintf(out, size, "%08X:%04X", words[0], port);
        return true;
    }
    memcpy(words, &((const struct sockaddr_in6 *)at)->sin6_addr, sizeof(words));
    snprintf(out, size, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3], port);
    return at->ss_family == AF_INET6;
}

/* A line of these files: "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
 * ...". 0: it is another address's, or nobody's any more. */
static ino_t inode_at(const char *line, const char *local)
{
    uint64_t inode;
    for (int field = 0; field < 10; field++) {
        line += strspn(line, " ");
        size_t len = strcspn(line, " \n");
        if (field == 1 && (len != strlen(local) || memcmp(line, local, len) != 0))
            return 0;
        if (field == 9 && num_parse_dec(line, len, UINT64_MAX, &inode))
            return (ino_t)inode;
        line += len;
    }
    return 0;
}

static void find_inodes(const struct sockaddr_storage *listener, struct strays *s)
{
    char local[64], line[512];
    if (!print_local(listener, local, sizeof(local)))
        return;
    FILE *f =
        fopen(listener->ss_family == AF_INET ? "/proc/self/net/tcp" : "/proc/self/net/tcp6", "re");
    while (f && fgets(line, sizeof(line), f)) {
        ino_t inode = inode_at(line, local);
        if (inode != 0 && !add(s, -1, inode))
            break;
    }
    if (f)
        fclose(f);
}

/* Those that are this process's. */
static void find_descriptors(struct strays *s)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        uint64_t fd;
        if (!num_parse_dec(entry->d_name, strlen(entry->d_name), INT_MAX, &fd))
            continue;
        ino_t inode = inode_of((int)fd);
        for (size_t i = 0; i < s->count && inode != 0; i++)
            if (s->list[i].inode == inode)
                s->list[i].fd = (int)fd;
    }
    if (dir)
        closedir(dir);
}

void strays_cut(const struct sockaddr_storage *listener, struct strays *ret_strays)
{
    struct strays s = {0};
    find_inodes(listener, &s);
    if (s.count > 0)
        find_descriptors(&s);
    size_t kept = 0;
    for (size_t i = 0; i < s.count; i++) {
        if (s.list[i].fd < 0)
            continue;
        (void)shutdown(s.list[i].fd, SHUT_RDWR);
        s.list[kept++] = s.list[i];
    }
    s.count = kept;
    *ret_strays = s;
}

/* ---- by who watches them ---- */

static bool look_through(int epoll_fd, int depth, struct strays *s, bool *ret_listener);

/* False when there is no memory to remember it. */
static bool look_at_watched(int fd, ino_t inode, int depth, struct strays *s, bool *ret_listener)
{
    if (depth > 0 && is_watcher(fd))
        return look_through(fd, depth - 1, s, ret_listener);
    if (inode_of(fd) != inode)
        return true;
    if (is_listening(fd)) {
        *ret_listener = true;
        return true;
    }
    (void)shutdown(fd, SHUT_RDWR);
    return add(s, fd, inode);
}

/* The number behind a label of a line, blanks between them allowed. */
static bool labelled(const char *line, const char *label, bool is_hex, uint64_t *ret)
{
    const char *at = strstr(line, label);
    if (!at)
        return false;
    at += strlen(label);
    at += strspn(at, " \t");
    size_t len = strcspn(at, " \t\n");
    return is_hex ? num_parse_hex(at, len, 1, 16, ret) : num_parse_dec(at, len, INT_MAX, ret);
}

/* The kernel lists what an epoll descriptor watches: "tfd: NUMBER events: ... ino:HEX sdev:...". A
 * number alone may be another file's by now: what was closed is watched on while a forked child has
 * it open. */
static bool look_through(int epoll_fd, int depth, struct strays *s, bool *ret_listener)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll_fd);
    FILE *f = fopen(path, "re");
    bool is_all = f != NULL;
    while (f && fgets(line, sizeof(line), f)) {
        uint64_t fd, inode;
        if (labelled(line, "tfd:", false, &fd) && labelled(line, " ino:", true, &inode))
            is_all &= look_at_watched((int)fd, (ino_t)inode, depth, s, ret_listener);
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

/* ---- afterwards ---- */

bool strays_are_gone(const struct strays *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (inode_of(s->list[i].fd) == s->list[i].inode)
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
        if (inode_of(s->list[i].fd) == s->list[i].inode)
            close(s->list[i].fd);
    strays_forget(s);
}
