// SPDX-License-Identifier: Apache-2.0
#include "rdma/ofi/strays.h"

#include "base/num.h"
#include "rdma/ofi/device.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add(struct strays *s, int fd, ino_t inode)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct stray *list = realloc(s->list, cap * sizeof(*list));
        if (!list)
            return;
        s->list = list;
        s->cap = cap;
    }
    s->list[s->count++] = (struct stray){.fd = fd, .inode = inode};
}

static void look_at(int fd, const struct sockaddr_storage *listener, struct strays *s)
{
    struct stat st;
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof(at);
    if (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0 || ofi_address_len(&at) == 0 ||
        !ofi_address_is_same_ip(&at, listener) ||
        ofi_address_port(&at) != ofi_address_port(listener))
        return;
    (void)shutdown(fd, SHUT_RDWR);
    add(s, fd, st.st_ino);
}

void strays_cut(const struct sockaddr_storage *listener, struct strays *ret_strays)
{
    *ret_strays = (struct strays){0};
    if (ofi_address_port(listener) == 0)
        return;
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        uint64_t fd;
        if (num_parse_dec(entry->d_name, strlen(entry->d_name), INT_MAX, &fd))
            look_at((int)fd, listener, ret_strays);
    }
    if (dir)
        closedir(dir);
}

void strays_close(struct strays *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct stat st;
        const struct stray *stray = &s->list[i];
        if (fstat(stray->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == stray->inode)
            close(stray->fd);
    }
    free(s->list);
    *s = (struct strays){0};
}
