/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/cma/peer.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SWEEP_EVERY_NS NS_PER_S
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define LINK_TEXT "/memfd:" TABLE_NAME " (deleted)"

/* A table and where its process has it. */
struct found {
    char fd_path[24]; /* "fd/N", below the process's directory */
    dev_t dev;
    ino_t ino;
    struct table *map;
};

/* A table of a process. */
struct peer {
    process_id id; /* this and what follows: fixed after open */
    int proc_fd;
    struct found table;
    /* lock `peers.lock` */
    unsigned pins;
    bool is_listed;
    int64_t used_ns;
};

struct peers {
    pthread_mutex_t lock;
    /* lock `lock` */
    struct peer *list[PEERS_MAX];
    unsigned count;
    int64_t swept_ns;
};

static void unmap(struct found *f)
{
    if (f->map)
        munmap(f->map, TABLE_LEN);
    f->map = NULL;
}

static void peer_destroy(struct peer *p)
{
    if (!p)
        return;
    unmap(&p->table);
    closep(&p->proc_fd);
    free(p);
}

static void peer_destroyp(struct peer **p)
{
    peer_destroy(*p);
}

struct table *peer_table(struct peer *peer)
{
    return peer->table.map;
}

/* Does it have the window that the token names? Whether it is open is asked later, and again. */
static bool has_window(const struct found *f, const struct token_cma *t)
{
    return t->slot < TABLE_SLOTS && t->key != 0 &&
           atomic_load(&f->map->slots[t->slot].key) == t->key;
}

/* Asks no file system: a name is only in the kernel. */
static bool is_table_link(int dir_fd, const char *name)
{
    char link[sizeof LINK_TEXT + 1];
    ssize_t n = readlinkat(dir_fd, name, link, sizeof link);
    return n == sizeof LINK_TEXT - 1 && memcmp(link, LINK_TEXT, (size_t)n) == 0;
}

/* What took the descriptor's number after the table was closed may be a file of a server that does
 * not answer. */
bool peer_is_current(const struct peer *peer)
{
    struct stat st;
    const struct found *f = &peer->table;
    return is_table_link(peer->proc_fd, f->fd_path) &&
           fstatat(peer->proc_fd, f->fd_path, &st, 0) == 0 && st.st_dev == f->dev &&
           st.st_ino == f->ino;
}

static int not_there(struct diag *diag, uint64_t pid)
{
    return diag_fail(diag, S3R_E_RDMA_PEER,
                     "process %llu is gone, or is not the one that the token names",
                     (unsigned long long)pid);
}

static int may_not_look(struct diag *diag, uint64_t pid, const char *what)
{
    int error = errno;
    if (error == ENOENT || error == ESRCH)
        return not_there(diag, pid);
    return diag_fail(diag, S3R_E_RDMA_UNAVAILABLE, "cma: %s of process %llu: %s", what,
                     (unsigned long long)pid, strerrordesc_np(error));
}

static int check_namespace(int proc_fd, uint64_t pid, struct diag *diag)
{
    struct stat ours, theirs;
    if (fstatat(proc_fd, "ns/pid", &theirs, 0) != 0)
        return may_not_look(diag, pid, "the pid namespace");
    if (stat("/proc/self/ns/pid", &ours) != 0)
        return may_not_look(diag, pid, "our pid namespace, to compare with that");
    if (ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev)
        return diag_fail(diag, S3R_E_TOKEN_DECLINED,
                         "cma: process %llu is in another pid namespace", (unsigned long long)pid);
    return 0;
}

/* The directory in /proc of the process that is meant, and nothing of another user's. */
static int open_process(uint64_t pid, uint64_t start, struct diag *diag, int *ret_proc_fd)
{
    char path[32];
    struct stat st;
    uint64_t found;
    snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)pid);
    CLEANUP(closep) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return may_not_look(diag, pid, "the directory in /proc");
    if (!process_read_start(fd, &found))
        return may_not_look(diag, pid, "the start time");
    if (found != start)
        return not_there(diag, pid);
    if (st.st_uid != geteuid())
        return diag_fail(diag, S3R_E_TOKEN_DECLINED,
                         "cma: process %llu is another user's (%u, the server is %u)",
                         (unsigned long long)pid, st.st_uid, geteuid());
    int rc = check_namespace(fd, pid, diag);
    if (rc)
        return rc;
    *ret_proc_fd = fd;
    fd = -1;
    return 0;
}

/* A descriptor that says nothing but what the file is: opening something else than a memfd for
 * reading and writing could have effects. */
static bool is_tmpfs_file(int path_fd, struct stat *ret_st)
{
    struct statfs fs;
    return fstat(path_fd, ret_st) == 0 && S_ISREG(ret_st->st_mode) && fstatfs(path_fd, &fs) == 0 &&
           fs.f_type == TMPFS_MAGIC && ret_st->st_uid == geteuid() &&
           ret_st->st_size == (off_t)TABLE_LEN;
}

static bool is_right_header(struct table_header *h, process_id id)
{
    return atomic_load(&h->magic) == TABLE_MAGIC && atomic_load(&h->version) == TABLE_VERSION &&
           atomic_load(&h->len) == TABLE_LEN && atomic_load(&h->slots) == TABLE_SLOTS &&
           atomic_load(&h->slot_len) == sizeof(struct slot) && atomic_load(&h->owner) == id;
}

/* Sealed against shrinking, so that no access to the mapping can fault. */
static struct table *map_table(int path_fd, process_id id)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
    CLEANUP(closep) int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
        return NULL;
    void *map = mmap(NULL, TABLE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (!is_right_header(map, id)) {
        munmap(map, TABLE_LEN);
        return NULL;
    }
    return map;
}

/* Is the descriptor `name` of the process a table of its own? It may hold others' too: a forked
 * child its parent's, a server its clients'. */
static bool try_descriptor(process_id id, int dir_fd, const char *name, struct found *ret_found)
{
    struct stat st;
    if (!is_table_link(dir_fd, name))
        return false;
    CLEANUP(closep) int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
    if (fd < 0 || !is_tmpfs_file(fd, &st))
        return false;
    struct table *map = map_table(fd, id);
    if (!map)
        return false;
    *ret_found = (struct found){.dev = st.st_dev, .ino = st.st_ino, .map = map};
    snprintf(ret_found->fd_path, sizeof ret_found->fd_path, "fd/%.10s", name);
    return true;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Each copy of this library in a process has a table. That with the window, else the first: what is
 * wrong with the token is then found there. */
static void choose_table(struct peer *p, DIR *dir, const struct token_cma *t)
{
    struct dirent *entry;
    struct found f;
    int tables = 0;
    for (int seen = 0; seen < PEER_DESCRIPTORS_MAX && tables < PEER_TABLES_MAX; seen++) {
        if (!(entry = readdir(dir)))
            return;
        if (entry->d_name[0] == '.' || !try_descriptor(p->id, dirfd(dir), entry->d_name, &f))
            continue;
        if (tables++ > 0 && !has_window(&f, t)) {
            unmap(&f);
            continue;
        }
        unmap(&p->table);
        p->table = f;
        if (has_window(&f, t))
            return;
    }
}

static int find_table(struct peer *p, const struct token_cma *t, struct diag *diag)
{
    int fd = openat(p->proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return may_not_look(diag, t->pid, "the descriptors");
    CLEANUP(close_dir) DIR *dir = fdopendir(fd);
    if (!dir) {
        closep(&fd);
        return S3R_E_NOMEM;
    }
    choose_table(p, dir, t);
    return p->table.map ? 0
                        : diag_fail(diag, S3R_E_RDMA_PEER, "process %llu has no window table",
                                    (unsigned long long)t->pid);
}

static int peer_open(const struct token_cma *t, struct diag *diag, struct peer **ret_peer)
{
    if (t->pid >> PROCESS_PID_BITS || t->start > UINT64_MAX >> PROCESS_PID_BITS)
        return not_there(diag, t->pid);
    CLEANUP(peer_destroyp) struct peer *p = calloc(1, sizeof *p);
    if (!p)
        return S3R_E_NOMEM;
    p->proc_fd = -1;
    p->id = process_id_of(t->pid, t->start);
    int rc = open_process(t->pid, t->start, diag, &p->proc_fd);
    if (!rc)
        rc = find_table(p, t, diag);
    if (!rc)
        *ret_peer = STEAL(p);
    return rc;
}

/* ---- the cache ---- */

int peers_create(struct peers **ret_peers)
{
    struct peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return S3R_E_NOMEM;
    pthread_mutex_init(&peers->lock, NULL);
    *ret_peers = peers;
    return 0;
}

void peers_destroy(struct peers *peers)
{
    if (!peers)
        return;
    for (unsigned i = 0; i < peers->count; i++)
        peer_destroy(peers->list[i]);
    pthread_mutex_destroy(&peers->lock);
    free(peers);
}

/* Out of the list; whoever still has it pinned destroys it. */
static void unlist(struct peers *peers, unsigned i)
{
    struct peer *p = peers->list[i];
    peers->list[i] = peers->list[--peers->count];
    p->is_listed = false;
    if (p->pins == 0)
        peer_destroy(p);
}

/* So that what a dead client had in its table is given back soon. */
static void sweep(struct peers *peers, int64_t now_ns)
{
    if (now_ns - peers->swept_ns < SWEEP_EVERY_NS)
        return;
    peers->swept_ns = now_ns;
    for (unsigned i = peers->count; i-- > 0;) {
        if (!peer_is_current(peers->list[i]))
            unlist(peers, i);
    }
}

static struct peer *find_listed(struct peers *peers, const struct token_cma *t)
{
    process_id id = process_id_of(t->pid, t->start);
    for (unsigned i = 0; i < peers->count; i++) {
        struct peer *p = peers->list[i];
        if (p->id != id || !has_window(&p->table, t))
            continue;
        if (peer_is_current(p))
            return p;
        unlist(peers, i);
        return NULL;
    }
    return NULL;
}

static struct peer *find_same(struct peers *peers, const struct peer *opened)
{
    for (unsigned i = 0; i < peers->count; i++) {
        struct peer *p = peers->list[i];
        if (p->id == opened->id && p->table.dev == opened->table.dev &&
            p->table.ino == opened->table.ino && peer_is_current(p))
            return p;
    }
    return NULL;
}

static bool make_room(struct peers *peers)
{
    unsigned oldest = PEERS_MAX;
    if (peers->count < PEERS_MAX)
        return true;
    for (unsigned i = 0; i < peers->count; i++) {
        if (peers->list[i]->pins == 0 &&
            (oldest == PEERS_MAX || peers->list[i]->used_ns < peers->list[oldest]->used_ns))
            oldest = i;
    }
    if (oldest == PEERS_MAX)
        return false;
    unlist(peers, oldest);
    return true;
}

static struct peer *pin(struct peer *p, int64_t now_ns)
{
    if (p) {
        p->pins++;
        p->used_ns = now_ns;
    }
    return p;
}

/* Another thread may have opened the same one meanwhile: then that is the one to use. */
static int list_opened(struct peers *peers, struct peer *opened, struct diag *diag,
                       struct peer **ret_peer)
{
    int rc = 0;
    CLEANUP(peer_destroyp) struct peer *p = opened;
    pthread_mutex_lock(&peers->lock);
    struct peer *listed = pin(find_same(peers, p), clock_mono_ns());
    if (listed) {
        *ret_peer = listed;
    } else if (make_room(peers)) {
        p->is_listed = true;
        peers->list[peers->count++] = p;
        *ret_peer = pin(STEAL(p), clock_mono_ns());
    } else {
        rc = diag_fail(diag, S3R_E_BUSY, "cma: transfers with %d processes are under way",
                       PEERS_MAX);
    }
    pthread_mutex_unlock(&peers->lock);
    return rc;
}

int peers_get(struct peers *peers, const struct token_cma *t, struct diag *diag,
              struct peer **ret_peer)
{
    int64_t now_ns = clock_mono_ns();
    pthread_mutex_lock(&peers->lock);
    sweep(peers, now_ns);
    struct peer *p = pin(find_listed(peers, t), now_ns);
    pthread_mutex_unlock(&peers->lock);
    if (p) {
        *ret_peer = p;
        return 0;
    }
    int rc = peer_open(t, diag, &p);
    return rc ? rc : list_opened(peers, p, diag, ret_peer);
}

void peers_put(struct peers *peers, struct peer *peer)
{
    pthread_mutex_lock(&peers->lock);
    bool is_last = --peer->pins == 0 && !peer->is_listed;
    pthread_mutex_unlock(&peers->lock);
    if (is_last)
        peer_destroy(peer);
}

unsigned peers_count(struct peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    unsigned count = peers->count;
    pthread_mutex_unlock(&peers->lock);
    return count;
}
