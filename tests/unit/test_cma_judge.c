/* SPDX-License-Identifier: Apache-2.0 */
/* Judging other processes where the system's answers are less than plain: /proc that is not there
 * or another namespace's, a descriptor that has become a file of a dead file system, a process that
 * was once of the server's user. Where the kernel does not permit the set-up, a test is skipped. */
#include "cm.h"

#include "cma_side.h"

#include "rdma/cma/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { CHILD_NO = 0, CHILD_YES = 1, CHILD_CANNOT = 2 };

static int exit_code(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static process_id self(void)
{
    process_id id;
    assert_int_equal(process_self(NULL, &id), 0);
    return id;
}

/* ---- whose /proc ---- */

static void a_process_is_not_gone_because_proc_is(void **state)
{
    char dir[] = "/tmp/s3rdma-judge-XXXXXX";
    assert_non_null(mkdtemp(dir));
    process_id living = self();
    pid_t child = fork();
    if (child == 0) {
        if (chroot(dir) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(dir) != 0))
            _exit(CHILD_CANNOT);
        _exit(process_is_gone(living));
    }
    int said = exit_code(child);
    assert_int_equal(rmdir(dir), 0);
    if (said == CHILD_CANNOT)
        skip();
    assert_int_equal(said, CHILD_NO);
}

/* The caller's mounts are its own from here on, and /proc shows a namespace in which it is not. */
static bool mount_proc_of_others(void)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return false;
    pid_t first = fork();
    if (first == 0)
        _exit(mount("proc", "/proc", "proc", 0, NULL) != 0);
    int status;
    return waitpid(first, &status, 0) == first && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void the_proc_of_another_namespace_buries_nobody(void **state)
{
    process_id living = self();
    pid_t child = fork();
    if (child == 0) {
        if (!mount_proc_of_others())
            _exit(CHILD_CANNOT);
        _exit(process_is_gone(living));
    }
    int said = exit_code(child);
    if (said == CHILD_CANNOT)
        skip();
    assert_int_equal(said, CHILD_NO);
}

static void the_dead_are_gone_and_so_is_who_had_the_pid_before(void **state)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    char path[32];
    uint64_t start;
    snprintf(path, sizeof path, "/proc/%d", child);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(process_read_start(fd, &start));
    close(fd);
    process_id dead = process_id_of((uint64_t)child, start);
    assert_true(process_is_gone(dead)); /* a zombie */
    waitpid(child, NULL, 0);
    assert_true(process_is_gone(dead));
    assert_true(process_is_gone(process_id_of((uint64_t)getpid(), process_start(self()) - 1)));
    assert_false(process_is_gone(self()));
    assert_true(process_is_gone(0));
}

/* ---- whose user ---- */

/* A child's token goes into the pipe; the child lives until its other end is closed. */
static pid_t start_owner(bool drops_root, int *ret_lifeline, char token[LIMIT_TOKEN_LEN_MAX + 1])
{
    int out[2], life[2];
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(life), 0);
    pid_t child = fork();
    if (child == 0) {
        struct owner *o;
        struct owner_window *w;
        static char memory[64];
        close(life[1]);
        if (owner_open("cma", NULL, NULL, &o) || owner_register(o, memory, sizeof memory, NULL) ||
            owner_window_open(o, memory, 0, sizeof memory, NULL, &w) ||
            (drops_root && setresuid(65534, 65534, 65534) != 0) ||
            write(out[1], owner_window_token(w), strlen(owner_window_token(w))) < 0)
            _exit(1);
        char c;
        _exit(read(life[0], &c, 1) != 0 || memory[0] != 0);
    }
    close(out[1]);
    close(life[0]);
    ssize_t n = read(out[0], token, LIMIT_TOKEN_LEN_MAX);
    close(out[0]);
    assert_true(n > 0);
    token[n] = '\0';
    *ret_lifeline = life[1];
    return child;
}

/* Its table, and the descriptor of it, are root's still. */
static void root_does_not_serve_a_process_that_gave_up_root(void **state)
{
    int lifeline;
    char text[LIMIT_TOKEN_LEN_MAX + 1], byte = 1;
    uint64_t moved;
    struct side *s = *state;
    struct token token;
    if (geteuid() != 0)
        skip();
    pid_t child = start_owner(true, &lifeline, text);
    assert_int_equal(token_parse(text, strlen(text), NULL, &token), 0);
    const struct transfer t = {.direction = TRANSFER_WRITE,
                               .token = &token,
                               .local = &byte,
                               .len = 1};
    int rc = mover_transfer(s->mover, NULL, &t, NULL, &moved);
    close(lifeline);
    assert_int_equal(exit_code(child), 0);
    assert_int_equal(rc, S3R_E_TOKEN_DECLINED);
}

/* ---- a descriptor that has become another file ---- */

/* A file system of one file, which answers what it must until it is told to be dead. */
struct dying {
    int fd;
    atomic_bool is_dead;
    pthread_t thread;
    char dir[40];
};

static void answer(const struct dying *d, uint64_t unique, int error, const void *body, size_t len)
{
    char out[256];
    struct fuse_out_header head = {.len = (uint32_t)(sizeof head + len),
                                   .error = error,
                                   .unique = unique};
    memcpy(out, &head, sizeof head);
    if (len > 0)
        memcpy(out + sizeof head, body, len);
    (void)!write(d->fd, out, sizeof head + len);
}

static struct fuse_attr attr_of(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644,
                              .nlink = 1};
}

static void answer_one(struct dying *d, const struct fuse_in_header *in)
{
    struct fuse_init_out init = {
        .major = 7, .minor = 31, .max_write = 4096, .max_background = 8, .congestion_threshold = 8};
    struct fuse_entry_out entry = {.nodeid = 2, .attr = attr_of(2)};
    struct fuse_attr_out attr = {.attr = attr_of(in->nodeid)};
    struct fuse_open_out opened = {.fh = 1};
    switch (in->opcode) {
    case FUSE_INIT:
        answer(d, in->unique, 0, &init, sizeof init);
        break;
    case FUSE_LOOKUP:
        answer(d, in->unique, 0, &entry, sizeof entry);
        break;
    case FUSE_GETATTR:
        answer(d, in->unique, 0, &attr, sizeof attr);
        break;
    case FUSE_OPEN:
        answer(d, in->unique, 0, &opened, sizeof opened);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(d, in->unique, -ENOSYS, NULL, 0);
    }
}

static void *serve_file_system(void *arg)
{
    struct dying *d = arg;
    static _Alignas(8) char in[1 << 16];
    while (read(d->fd, in, sizeof in) > 0) {
        if (!atomic_load(&d->is_dead))
            answer_one(d, (const struct fuse_in_header *)in);
    }
    return NULL;
}

static bool mount_dying(struct dying *d)
{
    char options[80];
    *d = (struct dying){.dir = "/tmp/s3rdma-judge-XXXXXX"};
    assert_non_null(mkdtemp(d->dir));
    d->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", d->fd);
    if (d->fd < 0 || mount("judge", d->dir, "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        if (d->fd >= 0)
            close(d->fd);
        rmdir(d->dir);
        return false;
    }
    assert_int_equal(pthread_create(&d->thread, NULL, serve_file_system, d), 0);
    return true;
}

/* Whoever waits for it gets an error. */
static void unmount_dying(struct dying *d)
{
    (void)umount2(d->dir, MNT_FORCE);
    (void)umount2(d->dir, MNT_DETACH);
    pthread_cancel(d->thread);
    pthread_join(d->thread, NULL);
    close(d->fd);
    rmdir(d->dir);
}

static int table_fd(void)
{
    char path[64], link[64];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n > 0 && memmem(link, (size_t)n, TABLE_NAME, strlen(TABLE_NAME)))
            return fd;
    }
    return -1;
}

/* An owner whose table's descriptor becomes the file once `swap` is written to. */
static pid_t start_swapping_owner(const char *file, int *ret_swap, int *ret_is_swapped)
{
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        struct owner *o;
        char c = 0;
        close(in[1]);
        if (owner_open("cma", NULL, NULL, &o))
            _exit(1);
        int at = table_fd(), fd = open(file, O_RDONLY);
        if (at < 0 || fd < 0 || write(out[1], &c, 1) != 1 || read(in[0], &c, 1) != 1 ||
            dup3(fd, at, O_CLOEXEC) != at || write(out[1], &c, 1) != 1)
            _exit(1);
        _exit(read(in[0], &c, 1) != 0);
    }
    close(in[0]);
    close(out[1]);
    *ret_swap = in[1];
    *ret_is_swapped = out[0];
    return child;
}

static void await_byte(int fd)
{
    char c;
    assert_int_equal(read(fd, &c, 1), 1);
}

static uint64_t start_of(pid_t pid)
{
    char path[32];
    uint64_t start;
    snprintf(path, sizeof path, "/proc/%d", pid);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(process_read_start(fd, &start));
    close(fd);
    return start;
}

struct look {
    struct peers *peers;
    struct token_cma token;
    atomic_int rc;
};

static void *look(void *arg)
{
    struct look *l = arg;
    struct peer *p;
    int rc = peers_get(l->peers, &l->token, NULL, &p);
    if (rc == 0)
        peers_put(l->peers, p);
    atomic_store(&l->rc, rc);
    return NULL;
}

/* Everybody's transfers would wait with it: it is asked under the lock of all peers. */
static void a_client_s_dead_file_system_stops_no_server(void **state)
{
    struct dying d;
    struct peers *peers;
    struct peer *p;
    char file[64];
    int swap, is_swapped;
    if (!mount_dying(&d))
        skip();
    snprintf(file, sizeof file, "%s/file", d.dir);
    pid_t child = start_swapping_owner(file, &swap, &is_swapped);
    await_byte(is_swapped);
    struct look l = {.token = {.pid = (uint64_t)child, .start = start_of(child)}, .rc = 1};
    assert_int_equal(peers_create(&peers), 0);
    l.peers = peers;
    assert_int_equal(peers_get(peers, &l.token, NULL, &p), 0);
    peers_put(peers, p);
    assert_int_equal(write(swap, "", 1), 1);
    await_byte(is_swapped);
    atomic_store(&d.is_dead, true);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look, &l), 0);
    struct timespec end = clock_timespec(clock_wall_s() * NS_PER_S + 60 * NS_PER_S);
    bool is_late = pthread_timedjoin_np(thread, NULL, &end) != 0;
    close(swap);
    unmount_dying(&d);
    if (is_late)
        pthread_join(thread, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(is_swapped);
    peers_destroy(peers);
    assert_false(is_late);
    assert_int_equal(atomic_load(&l.rc), S3R_E_RDMA_PEER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_not_gone_because_proc_is),
        cmocka_unit_test(the_proc_of_another_namespace_buries_nobody),
        cmocka_unit_test(the_dead_are_gone_and_so_is_who_had_the_pid_before),
        cmocka_unit_test_setup_teardown(root_does_not_serve_a_process_that_gave_up_root, set_up,
                                        tear_down),
        cmocka_unit_test(a_client_s_dead_file_system_stops_no_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
