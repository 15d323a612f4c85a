/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "store/file.h"
#include "store/io.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* data, the folders in it, the folders in those */
#define DEPTH_FILES 2

static int visit(const char *store_dir, const char *path, int depth, file_each_fn *fn, void *arg);

/* Anything whose name does not have the form, or that lies in the wrong folder, is not ours. */
static int visit_entry(const char *store_dir, const char *path, const char *name, int depth,
                       file_each_fn *fn, void *arg)
{
    static const size_t name_len[] = {11, 3, 16};
    char below[FILE_PATH_MAX], right[FILE_PATH_MAX];
    uint64_t number;
    size_t len = name_len[depth];
    if (!num_parse_hex(name, strlen(name), len, len, &number))
        return 0;
    if (snprintf(below, sizeof(below), "%s/%s", path, name) >= (int)sizeof(below))
        return 0;
    if (depth < DEPTH_FILES)
        return visit(store_dir, below, depth + 1, fn, arg);
    file_path(right, store_dir, number);
    return strcmp(below, right) ? 0 : fn(number, arg);
}

static int visit(const char *store_dir, const char *path, int depth, file_each_fn *fn, void *arg)
{
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOTDIR || errno == ENOENT ? 0 : io_error(errno);
    int err = 0;
    while (!err) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e) {
            err = errno ? io_error(errno) : 0;
            break;
        }
        err = visit_entry(store_dir, path, e->d_name, depth, fn, arg);
    }
    closedir(d);
    return err;
}

int file_each(const char *store_dir, file_each_fn *fn, void *arg)
{
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof(path), "%s/data", store_dir);
    return visit(store_dir, path, 0, fn, arg);
}
