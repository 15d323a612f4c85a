/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include "s3/names.h"
#include "tools/cli.h"
#include "tools/crew.h"
#include "tools/moves.h"
#include "tools/place.h"
#include "tools/sides.h"
#include "tools/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct copy {
    struct cli *cli;
    struct side from, to;
    struct crew *crew;
};

/* ---- one ---- */

/* The key itself, or in a "folder" the source's own name. */
static int choose_key(const struct copy *c, const char *source, char out[LIMIT_KEY_LEN_MAX + 1])
{
    const char *key = c->to.address.key != NULL ? c->to.address.key : "";
    size_t len = strlen(key);
    bool is_folder = len == 0 || key[len - 1] == '/';
    int n =
        snprintf(out, LIMIT_KEY_LEN_MAX + 1, "%s%s", key, is_folder ? last_segment(source) : "");
    struct diag diag = {0};
    int e = n > LIMIT_KEY_LEN_MAX ? S3R_E_KEY_TOO_LONG : key_check(out, strlen(out), &diag);
    return e == 0 ? EXIT_OK : usage_error("%s: %s", source, diag_text(&diag, e));
}

static int file_up(struct copy *c, uint64_t len)
{
    char key[LIMIT_KEY_LEN_MAX + 1];
    int code = choose_key(c, c->from.text, key);
    if (code != EXIT_OK)
        return code;
    const struct near_place from = {.root = AT_FDCWD,
                                    .shown = "",
                                    .name = c->from.text,
                                    .is_link_fine = true};
    const struct far_place to = {.bucket = c->to.address.bucket, .key = key};
    return move_up(c->crew, &from, len, &to, false);
}

/* Where to put the file: `dir` is opened, `name` is below it. */
static int choose_file(struct copy *c, const char **ret_name, char copy[PATH_MAX])
{
    struct stat st;
    const char *path = c->to.text;
    size_t len = strlen(path);
    bool is_there = stat(path, &st) == 0;
    bool is_folder = path[len - 1] == '/' || (is_there && S_ISDIR(st.st_mode));
    if (len >= PATH_MAX)
        return usage_error("the file's name is too long");
    /* A link to a device would be replaced, too. */
    if (is_there && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return usage_error("%s is no regular file: get writes into it", path);
    if (is_folder) {
        *ret_name = last_segment(c->from.address.key);
        return side_open_folder(c->cli, &c->to, path, false);
    }
    memcpy(copy, path, len + 1);
    *ret_name = last_segment(path);
    return side_open_folder(c->cli, &c->to, dirname(copy), false);
}

static int stat_far(struct copy *c, struct far_place *from, char etag[ETAG_SIZE])
{
    struct diag diag = {0};
    struct client_result about = {0};
    int e = client_stat(c->cli->client, from->bucket, from->key, &diag, &about);
    from->len = about.object_len;
    memcpy(etag, about.etag, ETAG_SIZE);
    from->etag = etag;
    client_result_fini(&about);
    return e == 0 ? EXIT_OK : cli_fail(c->cli, c->from.text, e, &diag);
}

static int object_down(struct copy *c, const struct far_place *from)
{
    char copy[PATH_MAX];
    const char *name = NULL;
    int code = choose_file(c, &name, copy);
    if (code != EXIT_OK)
        return code;
    const char *flaw = place_flaw(name);
    if (flaw != NULL)
        return usage_error("%s cannot be a file: %s", c->from.text, flaw);
    const struct near_place to = {.root = c->to.root, .shown = "", .name = name};
    return move_down(c->crew, from, &to, false);
}

static int object_across(struct copy *c, const struct far_place *from)
{
    char key[LIMIT_KEY_LEN_MAX + 1];
    int code = choose_key(c, from->key, key);
    const struct far_place to = {.bucket = c->to.address.bucket, .key = key};
    return code != EXIT_OK ? code : move_across(c->crew, from, &to);
}

static int one_object(struct copy *c)
{
    char etag[ETAG_SIZE];
    struct far_place from = {.bucket = c->from.address.bucket, .key = c->from.address.key};
    if (from.key == NULL)
        return usage_error("%s names no object; -r copies all that is in a bucket", c->from.text);
    int code = stat_far(c, &from, etag);
    if (code != EXIT_OK)
        return code;
    return c->to.is_far ? object_across(c, &from) : object_down(c, &from);
}

/* ---- trees ---- */

/* What cannot be a key is an error; the others go on. */
static int key_below(struct copy *c, const char *prefix, const char *name,
                     char out[LIMIT_KEY_LEN_MAX + 2])
{
    struct diag diag = {0};
    int n = snprintf(out, LIMIT_KEY_LEN_MAX + 2, "%s%s", prefix, name);
    int e = n > LIMIT_KEY_LEN_MAX ? S3R_E_KEY_TOO_LONG : key_check(out, strlen(out), &diag);
    if (e == 0)
        return 0;
    CLEANUP(freep) char *shown = far_text(c->to.address.bucket, out);
    crew_fault(c->crew, shown, e, &diag);
    return e;
}

static int tree_up(struct copy *c)
{
    CLEANUP(tree_finip) struct tree tree = {0};
    char prefix[LIMIT_KEY_LEN_MAX + 2], key[LIMIT_KEY_LEN_MAX + 2];
    int code = side_open_folder(c->cli, &c->from, c->from.text, false);
    if (code != EXIT_OK)
        return code;
    side_prefix(&c->to, prefix);
    int e = tree_read_folder(c->crew, c->from.root, &tree);
    for (size_t i = 0; i < tree.count && e == 0; i++) {
        const struct near_place from = {.root = c->from.root,
                                        .shown = c->from.text,
                                        .name = tree.entries[i].name};
        const struct far_place to = {.bucket = c->to.address.bucket, .key = key};
        if (key_below(c, prefix, from.name, key) == 0)
            e = move_up(c->crew, &from, tree.entries[i].len, &to, false);
    }
    return e;
}

static int objects_down(struct copy *c, const struct tree *tree, const char *prefix)
{
    int code = side_open_folder(c->cli, &c->to, c->to.text, true), e = 0;
    for (size_t i = 0; i < tree->count && e == 0 && code == EXIT_OK; i++)
        e = move_entry_down(c->crew, &tree->entries[i], c->from.address.bucket, prefix, c->to.root,
                            c->to.text, false);
    return code != EXIT_OK ? code : e;
}

static int objects_across(struct copy *c, const struct tree *tree, const char *prefix)
{
    char to_prefix[LIMIT_KEY_LEN_MAX + 2], key[LIMIT_KEY_LEN_MAX + 2];
    char from_key[2 * LIMIT_KEY_LEN_MAX + 2];
    int e = 0;
    side_prefix(&c->to, to_prefix);
    for (size_t i = 0; i < tree->count && e == 0; i++) {
        const struct tree_entry *entry = &tree->entries[i];
        snprintf(from_key, sizeof(from_key), "%s%s", prefix, entry->name);
        const struct far_place from = {.bucket = c->from.address.bucket,
                                       .key = from_key,
                                       .len = entry->len,
                                       .etag = entry->etag};
        const struct far_place to = {.bucket = c->to.address.bucket, .key = key};
        if (key_below(c, to_prefix, entry->name, key) == 0)
            e = move_across(c->crew, &from, &to);
    }
    return e;
}

static int bucket_tree(struct copy *c)
{
    CLEANUP(tree_finip) struct tree tree = {0};
    char prefix[LIMIT_KEY_LEN_MAX + 2];
    struct diag diag = {0};
    side_prefix(&c->from, prefix);
    int e = tree_read_bucket(c->cli->client, c->from.address.bucket, prefix, &diag, &tree);
    if (e == 0 && tree.count == 0 && prefix[0] != '\0')
        e = diag_fail(&diag, S3R_E_NO_SUCH_KEY, "no key begins with %.200s", prefix);
    if (e != 0)
        return cli_fail(c->cli, c->from.text, e, &diag);
    return c->to.is_far ? objects_across(c, &tree, prefix) : objects_down(c, &tree, prefix);
}

/* ---- the command ---- */

/* EXIT_OK, an exit code, or a negative error that nobody has told. */
static int plan(struct copy *c)
{
    struct stat st;
    if (c->from.is_far)
        return c->cli->o.is_recursive ? bucket_tree(c) : one_object(c);
    if (stat(c->from.text, &st) != 0) {
        struct diag diag = {0};
        return cli_fail(c->cli, NULL, place_error(&diag, c->from.text, errno), &diag);
    }
    if (!S_ISDIR(st.st_mode))
        return file_up(c, (uint64_t)st.st_size);
    if (!c->cli->o.is_recursive)
        return usage_error("%s is a folder: -r copies what is in it", c->from.text);
    return tree_up(c);
}

static int run(struct copy *c)
{
    int e = crew_create(c->cli, &c->crew);
    int code = e == 0 ? plan(c) : e;
    if (code == S3R_E_CANCELLED)
        return crew_report(c->crew);
    if (code < 0)
        return cli_fail(c->cli, NULL, code, NULL);
    if (code != EXIT_OK)
        return code;
    crew_run(c->crew);
    return crew_report(c->crew);
}

int cmd_cp(struct cli *cli)
{
    struct copy c = {.cli = cli, .from.root = -1, .to.root = -1};
    int code = side_parse(cli->o.args[1], &c.from);
    if (code == EXIT_OK)
        code = side_parse(cli->o.args[2], &c.to);
    if (code == EXIT_OK && !c.from.is_far && !c.to.is_far)
        code = usage_error("one of the two is s3://BUCKET/KEY: %s and %s are files", c.from.text,
                           c.to.text);
    if (code == EXIT_OK)
        code = run(&c);
    crew_destroyp(&c.crew);
    side_finip(&c.from);
    side_finip(&c.to);
    return code;
}
