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
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct mirror {
    struct cli *cli;
    struct side from, to;
    struct side *near, *far; /* which of the two is which */
    char prefix[LIMIT_KEY_LEN_MAX + 2];
    struct tree here, there; /* the folder; the bucket */
    struct crew *crew;
};

enum verdict { SAME, UNSURE, DIFFERENT };

/* By length and time. A file that is older than its object went there; an object as old as its file
 * came from there: mirror and cp give a file that they write its object's time. */
static enum verdict judge(const struct mirror *m, const struct tree_entry *file,
                          const struct tree_entry *object)
{
    if (file == NULL || object == NULL || file->len != object->len)
        return DIFFERENT;
    if (m->cli->o.is_checksum || object->time_ms == 0)
        return UNSURE;
    bool is_same =
        m->to.is_far ? file->time_ms <= object->time_ms : file->time_ms == object->time_ms;
    return is_same ? SAME : UNSURE;
}

/* ---- what there is to do ---- */

static int key_of(const struct mirror *m, const char *name, char out[LIMIT_KEY_LEN_MAX + 2])
{
    struct diag diag = {0};
    int n = snprintf(out, LIMIT_KEY_LEN_MAX + 2, "%s%s", m->prefix, name);
    int e = n > LIMIT_KEY_LEN_MAX ? S3R_E_KEY_TOO_LONG : key_check(out, strlen(out), &diag);
    if (e == 0)
        return 0;
    CLEANUP(freep) char *shown = far_text(m->far->address.bucket, out);
    crew_fault(m->crew, shown, e, &diag);
    return e;
}

static int plan_up(struct mirror *m)
{
    char key[LIMIT_KEY_LEN_MAX + 2];
    int e = 0;
    for (size_t i = 0; i < m->here.count && e == 0; i++) {
        const struct tree_entry *file = &m->here.entries[i];
        enum verdict verdict = judge(m, file, tree_find(&m->there, file->name));
        const struct near_place from = {.root = m->near->root,
                                        .shown = m->near->text,
                                        .name = file->name};
        const struct far_place to = {.bucket = m->far->address.bucket, .key = key};
        if (verdict == SAME)
            crew_add_same(m->crew, 1);
        else if (key_of(m, file->name, key) == 0)
            e = move_up(m->crew, &from, file->len, &to, verdict == UNSURE);
    }
    return e;
}

static int plan_down(struct mirror *m)
{
    int e = 0;
    for (size_t i = 0; i < m->there.count && e == 0; i++) {
        const struct tree_entry *object = &m->there.entries[i];
        enum verdict verdict = judge(m, tree_find(&m->here, object->name), object);
        if (verdict == SAME)
            crew_add_same(m->crew, 1);
        else
            e = move_entry_down(m->crew, object, m->far->address.bucket, m->prefix, m->near->root,
                                m->near->text, verdict == UNSURE);
    }
    return e;
}

/* A key that ends in a slash stands for a folder: no file is meant to be there. */
static bool is_folder(const char *name)
{
    size_t len = strlen(name);
    return len == 0 || name[len - 1] == '/';
}

static int plan_removals(struct mirror *m)
{
    const struct tree *target = m->to.is_far ? &m->there : &m->here;
    const struct tree *source = m->to.is_far ? &m->here : &m->there;
    char key[LIMIT_KEY_LEN_MAX + 2];
    int e = 0;
    for (size_t i = 0; i < target->count && e == 0; i++) {
        const char *name = target->entries[i].name;
        const struct far_place far = {.bucket = m->far->address.bucket, .key = key};
        const struct near_place near = {.root = m->near->root,
                                        .shown = m->near->text,
                                        .name = name};
        if (tree_find(source, name) != NULL || is_folder(name))
            continue;
        if (!m->to.is_far)
            e = remove_near(m->crew, &near);
        else if (key_of(m, name, key) == 0)
            e = remove_far(m->crew, &far);
    }
    return e;
}

/* ---- the two sides ---- */

static int open_folder(struct mirror *m)
{
    struct stat st;
    bool is_target = !m->to.is_far;
    /* What would be made is empty. */
    if (is_target && m->cli->o.is_dry_run && stat(m->near->text, &st) != 0 && errno == ENOENT)
        return EXIT_OK;
    return side_open_folder(m->cli, m->near, m->near->text, is_target);
}

/* EXIT_OK, an exit code, or a negative error that nobody has told. */
static int look(struct mirror *m)
{
    struct diag diag = {0};
    side_prefix(m->far, m->prefix);
    int e = tree_read_bucket(m->cli->client, m->far->address.bucket, m->prefix, &diag, &m->there);
    if (e == 0 && !m->to.is_far && m->prefix[0] != '\0' && m->there.count == 0)
        e = diag_fail(&diag, S3R_E_NO_SUCH_KEY, "no key begins with %.200s", m->prefix);
    if (e != 0 && e != S3R_E_CANCELLED)
        return cli_fail(m->cli, m->far->text, e, &diag);
    int code = e == 0 ? open_folder(m) : e;
    if (code != EXIT_OK)
        return code;
    return m->near->root >= 0 ? tree_read_folder(m->crew, m->near->root, &m->here) : 0;
}

/* Only what is certain not to be in the source is removed: after an error nothing is. */
static int remove_others(struct mirror *m)
{
    if (!m->cli->o.is_delete)
        return 0;
    if (!crew_is_clean(m->crew)) {
        crew_note(m->crew, "not everything could be done: nothing was removed");
        return 0;
    }
    int e = plan_removals(m);
    if (e == 0)
        crew_run(m->crew);
    return e;
}

static int run(struct mirror *m)
{
    int code = crew_create(m->cli, &m->crew);
    if (code == 0)
        code = look(m);
    if (code == EXIT_OK)
        code = m->to.is_far ? plan_up(m) : plan_down(m);
    if (code == EXIT_OK) {
        crew_run(m->crew);
        code = remove_others(m);
    }
    if (code == S3R_E_CANCELLED)
        code = EXIT_OK; /* the report says it */
    if (code < 0)
        return cli_fail(m->cli, NULL, code, NULL);
    return code != EXIT_OK ? code : crew_report(m->crew);
}

int cmd_mirror(struct cli *cli)
{
    struct mirror m = {.cli = cli, .from.root = -1, .to.root = -1};
    int code = side_parse(cli->o.args[1], &m.from);
    if (code == EXIT_OK)
        code = side_parse(cli->o.args[2], &m.to);
    if (code == EXIT_OK && m.from.is_far == m.to.is_far)
        code = usage_error("one of the two is s3://BUCKET[/PREFIX], the other a folder");
    m.near = m.from.is_far ? &m.to : &m.from;
    m.far = m.from.is_far ? &m.from : &m.to;
    if (code == EXIT_OK)
        code = run(&m);
    crew_destroyp(&m.crew);
    tree_finip(&m.here);
    tree_finip(&m.there);
    side_finip(&m.from);
    side_finip(&m.to);
    return code;
}
