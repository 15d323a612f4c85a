/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tree.h"

#include "base/clock.h"
#include "base/log.h"
#include "tools/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tree_finip(struct tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->entries[i].name);
    free(t->entries);
    *t = (struct tree){0};
}

/* Takes a name; the entry is all zeroes but for it. */
static int add(struct tree *t, char *name, struct tree_entry **ret_entry)
{
    if (name == NULL)
        return S3R_E_NOMEM;
    if (t->count == t->cap) {
        size_t cap = t->cap > 0 ? 2 * t->cap : 256;
        struct tree_entry *more = reallocarray(t->entries, cap, sizeof(*more));
        if (more == NULL) {
            free(name);
            return S3R_E_NOMEM;
        }
        t->entries = more;
        t->cap = cap;
    }
    struct tree_entry *entry = &t->entries[t->count++];
    *entry = (struct tree_entry){.name = name};
    *ret_entry = entry;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tree_entry *)a)->name, ((const struct tree_entry *)b)->name);
}

static void sort(struct tree *t)
{
    if (t->count > 0)
        qsort(t->entries, t->count, sizeof(*t->entries), by_name);
}

const struct tree_entry *tree_find(const struct tree *t, const char *name)
{
    const struct tree_entry key = {.name = (char *)(uintptr_t)name};
    if (t->count == 0)
        return NULL;
    return bsearch(&key, t->entries, t->count, sizeof(key), by_name);
}

/* ---- a folder ---- */

struct walk {
    struct crew *crew;
    struct tree *tree;
    char path[PATH_MAX]; /* of the folder, below the root; "" or with a slash at its end */
    size_t depth;
};

static void fault(struct walk *w, const char *name, const char *why)
{
    char about[PATH_MAX + NAME_MAX + 1], shown[300];
    struct diag diag = {0};
    snprintf(about, sizeof(about), "%s%s", w->path, name);
    log_escape(about, strlen(about), shown, sizeof(shown));
    int e = diag_fail(&diag, S3R_E_INVALID_ARGUMENT, "%s", why);
    crew_fault(w->crew, shown, e, &diag);
}

static void fault_errno(struct walk *w, const char *name, int error)
{
    char text[100];
    fault(w, name, strerror_r(error, text, sizeof(text)));
}

static int take_file(struct walk *w, const char *name, const struct stat *st)
{
    char *path = NULL;
    struct tree_entry *entry;
    if (asprintf(&path, "%s%s", w->path, name) < 0)
        return S3R_E_NOMEM;
    int e = add(w->tree, path, &entry);
    if (e == 0) {
        entry->len = (uint64_t)st->st_size;
        entry->time_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
    }
    return e;
}

static int walk(struct walk *w, int dir);

static int walk_below(struct walk *w, int dir, const char *name)
{
    size_t len = strlen(w->path), name_len = strlen(name);
    if (w->depth == TREE_DEPTH_MAX || len + name_len + 2 > sizeof(w->path)) {
        fault(w, name, "too many folders below each other");
        return 0;
    }
    int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
        fault_errno(w, name, errno);
        return 0;
    }
    memcpy(w->path + len, name, name_len);
    memcpy(w->path + len + name_len, "/", 2);
    w->depth++;
    int e = walk(w, below);
    w->depth--;
    w->path[len] = '\0';
    return e;
}

static int take(struct walk *w, int dir, const char *name)
{
    struct stat st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        strncmp(name, PLACE_UNDER_WAY, strlen(PLACE_UNDER_WAY)) == 0)
        return 0;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        fault_errno(w, name, errno);
        return 0;
    }
    if (S_ISDIR(st.st_mode))
        return walk_below(w, dir, name);
    if (S_ISREG(st.st_mode))
        return take_file(w, name, &st);
    crew_note(w->crew, "%.600s%s: left out, it is %s", w->path, name,
              S_ISLNK(st.st_mode) ? "a symbolic link" : "no regular file");
    return 0;
}

/* Takes the descriptor. */
static int walk(struct walk *w, int dir)
{
    DIR *d = fdopendir(dir);
    int e = 0;
    if (d == NULL) {
        fault_errno(w, "", errno);
        close(dir);
        return 0;
    }
    while (e == 0 && !is_stopped()) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (entry == NULL) {
            if (errno != 0)
                fault_errno(w, "", errno);
            break;
        }
        e = take(w, dirfd(d), entry->d_name);
    }
    closedir(d);
    return is_stopped() ? S3R_E_CANCELLED : e;
}

int tree_read_folder(struct crew *crew, int root, struct tree *t)
{
    struct walk w = {.crew = crew, .tree = t};
    /* A descriptor of its own: the position in the folder belongs to it. */
    int dir = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        fault_errno(&w, ".", errno);
        return 0;
    }
    int e = walk(&w, dir);
    sort(t);
    return e;
}

/* ---- a bucket ---- */

static int take_page(struct tree *t, const struct client_page *page, const char *prefix,
                     struct diag *diag)
{
    size_t skip = strlen(prefix);
    for (size_t i = 0; i < page->count; i++) {
        const struct client_entry *from = &page->entries[i];
        struct tree_entry *entry;
        if (from->is_prefix)
            continue;
        if (strncmp(from->name, prefix, skip) != 0)
            return diag_fail(diag, S3R_E_BAD_REPLY, "the listing names a key outside %.200s",
                             prefix);
        int e = add(t, strdup(from->name + skip), &entry);
        if (e != 0)
            return e;
        entry->len = from->len;
        memcpy(entry->etag, from->etag, sizeof(entry->etag));
        if (!clock_parse_iso(from->time, &entry->time_ms))
            entry->time_ms = 0;
    }
    return 0;
}

int tree_read_bucket(struct client *c, const char *bucket, const char *prefix, struct diag *diag,
                     struct tree *t)
{
    struct client_page page = {0}, next = {0};
    int e;
    do {
        e = client_object_list(c, bucket, prefix[0] != '\0' ? prefix : NULL, NULL, page.next_token,
                               diag, &next);
        client_page_fini(&page);
        page = next;
        next = (struct client_page){0};
        if (e == 0)
            e = take_page(t, &page, prefix, diag);
    } while (e == 0 && page.next_token != NULL && !is_stopped());
    client_page_fini(&page);
    sort(t);
    return e == 0 && is_stopped() ? S3R_E_CANCELLED : e;
}
