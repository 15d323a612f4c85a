/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/place.h"

#include "base/limits.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void place_fini(struct place *p)
{
    if (p->dir >= 0)
        close(p->dir);
    p->dir = -1;
}

int place_error(struct diag *diag, const char *name, int error)
{
    char text[100], shown[200];
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s: %s",
                     log_escape(name, strlen(name), shown, sizeof(shown)),
                     strerror_r(error, text, sizeof(text)));
}

static const char *segment_flaw(const char *s, size_t len)
{
    if (len == 0)
        return "a segment of it is empty";
    if ((len == 1 && s[0] == '.') || (len == 2 && memcmp(s, "..", 2) == 0))
        return "a segment of it is . or ..";
    if (len > NAME_MAX)
        return "a segment of it has more than 255 bytes";
    if (strncmp(s, PLACE_UNDER_WAY, strlen(PLACE_UNDER_WAY)) == 0)
        return "names that begin with " PLACE_UNDER_WAY " are those of unfinished transfers";
    return NULL;
}

size_t control_len(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    if ((u[0] != '\0' && u[0] < ' ') || u[0] == 0x7f)
        return 1;
    return u[0] == 0xc2 && u[1] >= 0x80 && u[1] <= 0x9f ? 2 : 0;
}

const char *place_flaw(const char *name)
{
    size_t len = strlen(name);
    if (len > LIMIT_KEY_LEN_MAX)
        return "it has more than 1024 bytes";
    for (size_t i = 0; i < len; i++)
        if (control_len(name + i) > 0)
            return "it has a control character";
    for (const char *s = name;; s++) {
        size_t n = strcspn(s, "/");
        const char *flaw = segment_flaw(s, n);
        if (flaw != NULL)
            return flaw;
        s += n;
        if (*s == '\0')
            return NULL;
    }
}

static int no_file(struct diag *diag, const char *name, const char *flaw)
{
    char shown[300];
    return diag_fail(diag, S3R_E_INVALID_ARGUMENT, "%s cannot be a file: %s",
                     log_escape(name, strlen(name), shown, sizeof(shown)), flaw);
}

/* One folder down: -1 with errno. */
static int descend(int dir, const char *segment, bool is_made)
{
    int fd = openat(dir, segment, FOLDER);
    if (fd >= 0 || errno != ENOENT || !is_made)
        return fd;
    if (mkdirat(dir, segment, 0777) != 0 && errno != EEXIST)
        return -1;
    return openat(dir, segment, FOLDER);
}

int place_find(int root, const char *name, bool is_made, struct diag *diag, struct place *ret_place)
{
    const char *flaw = place_flaw(name);
    if (flaw != NULL)
        return no_file(diag, name, flaw);
    struct place p = {.dir = fcntl(root, F_DUPFD_CLOEXEC, 0)};
    const char *s = name;
    while (p.dir >= 0) {
        size_t n = strcspn(s, "/");
        memcpy(p.name, s, n);
        p.name[n] = '\0';
        if (s[n] == '\0') {
            *ret_place = p;
            return 0;
        }
        int below = descend(p.dir, p.name, is_made);
        int error = errno;
        place_fini(&p);
        errno = error == ELOOP || error == ENOTDIR ? ENOTDIR : error;
        p.dir = below;
        s += n + 1;
    }
    return place_error(diag, name, errno);
}

int place_check_free(const struct place *p, const char *name, struct diag *diag)
{
    struct stat st;
    if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : place_error(diag, name, errno);
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
        return 0;
    return no_file(diag, name, S_ISDIR(st.st_mode) ? "a folder is there" : "what is there is none");
}

void place_path(const struct place *p, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "/proc/self/fd/%d/%s", p->dir, p->name);
}

int place_make_folder(int root, const char *name, struct diag *diag)
{
    struct place p = {.dir = -1};
    char bare[LIMIT_KEY_LEN_MAX + 1];
    size_t len = strlen(name);
    if (len >= sizeof(bare))
        return no_file(diag, name, "it has more than 1024 bytes");
    memcpy(bare, name, len + 1);
    if (len > 0 && bare[len - 1] == '/')
        bare[len - 1] = '\0';
    int e = place_find(root, bare, true, diag, &p);
    if (e != 0)
        return e;
    int fd = descend(p.dir, p.name, true);
    int error = errno;
    if (fd >= 0)
        close(fd);
    place_fini(&p);
    return fd >= 0 ? 0 : place_error(diag, name, error);
}

int place_remove(int root, const char *name, struct diag *diag)
{
    struct place p = {.dir = -1};
    char above[LIMIT_KEY_LEN_MAX + 1];
    int e = place_find(root, name, false, diag, &p);
    if (e != 0)
        return e;
    e = unlinkat(p.dir, p.name, 0) == 0 ? 0 : place_error(diag, name, errno);
    place_fini(&p);
    if (e != 0)
        return e;
    memcpy(above, name, strlen(name) + 1);
    for (char *slash; (slash = strrchr(above, '/')) != NULL;) {
        *slash = '\0';
        struct diag ignored = {0};
        if (place_find(root, above, false, &ignored, &p) != 0)
            return 0;
        bool is_gone = unlinkat(p.dir, p.name, AT_REMOVEDIR) == 0;
        place_fini(&p);
        if (!is_gone)
            return 0;
    }
    return 0;
}
