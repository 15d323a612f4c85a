/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/journal.h"

#include "base/crypto.h"
#include "tools/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "s3rdma-upload 1"
#define FILE_MAX (JOURNAL_ID_MAX + 512)

/* Each folder of `path`, as `mkdir -p`. */
static int make_folders(char *path)
{
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        int made = mkdir(path, 0700);
        int error = errno;
        *p = end;
        if (made != 0 && error != EEXIST)
            return error;
        if (end == '\0')
            return 0;
    }
}

static int state_folder(char out[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct stat st;
    int n;
    if (state != NULL && state[0] == '/')
        n = snprintf(out, PATH_MAX, "%s/s3rdma/uploads", state);
    else if (home != NULL && home[0] == '/' && stat(home, &st) == 0) /* never made by us */
        n = snprintf(out, PATH_MAX, "%s/.local/state/s3rdma/uploads", home);
    else
        return ENOENT;
    return n > 0 && n < PATH_MAX - 80 ? make_folders(out) : ENAMETOOLONG;
}

int journal_open(const void *identity, size_t len, struct journal *ret_journal)
{
    struct journal j = {.fd = -1};
    char folder[PATH_MAX], name[2 * SHA256_LEN + 1];
    struct stat st;
    int error = state_folder(folder);
    if (error != 0)
        return error;
    sha256_hex(identity, len, name);
    int n = snprintf(j.path, sizeof(j.path), "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof(j.path))
        return ENAMETOOLONG;
    j.fd = open(j.path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (j.fd < 0)
        return errno;
    /* No link left: whoever had the lock before has just ended its upload and dropped the file. */
    if (flock(j.fd, LOCK_EX | LOCK_NB) != 0 || fstat(j.fd, &st) != 0 || st.st_nlink != 1 ||
        !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        close(j.fd);
        return EBUSY;
    }
    *ret_journal = j;
    return 0;
}

/* Takes the line that begins at *at, without its end. */
static char *take_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (end == NULL)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

bool journal_load(const struct journal *j, const char *stamp, char **ret_id, bool *ret_is_same)
{
    char text[FILE_MAX + 1], *at = text;
    ssize_t len = pread(j->fd, text, FILE_MAX, 0);
    if (len <= 0)
        return false;
    text[len] = '\0';
    const char *head = take_line(&at);
    const char *saved = head != NULL ? take_line(&at) : NULL;
    const char *id = saved != NULL ? take_line(&at) : NULL;
    if (id == NULL || strcmp(head, HEAD) != 0 || id[0] == '\0' || at != text + len)
        return false;
    char *copy = strdup(id);
    if (copy == NULL)
        return false;
    *ret_is_same = strcmp(saved, stamp) == 0;
    *ret_id = copy;
    return true;
}

int journal_save(const struct journal *j, const char *stamp, const char *id)
{
    char text[FILE_MAX];
    int n = snprintf(text, sizeof(text), HEAD "\n%s\n%s\n", stamp, id);
    if (n < 0 || (size_t)n >= sizeof(text) || strlen(id) > JOURNAL_ID_MAX || strchr(id, '\n'))
        return EINVAL;
    if (ftruncate(j->fd, 0) != 0 || lseek(j->fd, 0, SEEK_SET) != 0)
        return errno;
    int error = write_all(j->fd, text, (size_t)n);
    return error != 0 ? error : fsync(j->fd) != 0 ? errno : 0;
}

void journal_close(struct journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

void journal_drop(struct journal *j)
{
    if (j->fd >= 0)
        unlink(j->path);
    journal_close(j);
}
