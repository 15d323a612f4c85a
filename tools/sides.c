/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sides.h"

#include "tools/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void side_finip(struct side *s)
{
    address_fini(&s->address);
    if (s->root >= 0)
        close(s->root);
    s->root = -1;
}

int side_parse(const char *text, struct side *ret_side)
{
    struct side s = {.text = text, .is_far = strncmp(text, "s3://", 5) == 0, .root = -1};
    if (s.is_far) {
        int code = address_parse(text, false, &s.address);
        if (code != EXIT_OK)
            return code;
    } else if (text[0] == '\0' || strcmp(text, "-") == 0) {
        return usage_error("files and folders are wanted, and s3://BUCKET/KEY: put and get take -");
    }
    *ret_side = s;
    return EXIT_OK;
}

static int make_folders(const char *path)
{
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof(copy))
        return ENAMETOOLONG;
    memcpy(copy, path, strlen(path) + 1);
    for (char *p = copy + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(copy, 0777) != 0 && errno != EEXIST)
                return errno;
            *p = '/';
        }
    return mkdir(copy, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

int side_open_folder(const struct cli *cli, struct side *s, const char *path, bool is_made)
{
    struct diag diag = {0};
    int error = is_made ? make_folders(path) : 0;
    if (error == 0) {
        s->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        error = s->root >= 0 ? 0 : errno;
    }
    return error == 0 ? EXIT_OK : cli_fail(cli, NULL, place_error(&diag, path, error), &diag);
}

void side_prefix(const struct side *s, char out[LIMIT_KEY_LEN_MAX + 2])
{
    const char *key = s->address.key != NULL ? s->address.key : "";
    size_t len = strlen(key);
    snprintf(out, LIMIT_KEY_LEN_MAX + 2, "%s%s", key, len > 0 && key[len - 1] != '/' ? "/" : "");
}

const char *last_segment(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}
