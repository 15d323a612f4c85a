/* SPDX-License-Identifier: Apache-2.0 */
#include "store_help.h"

#include "base/crc64.h"
#include "base/log.h"
#include "base/num.h"
#include "store/io.h"
#include "store/le.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

static const struct store_attributes plain = {.etag = "p", .etag_kind = STORE_ETAG_MD5};
static const uint8_t digest[32] = {1};
#define BIG (2 * MIB + 77)

/* ---- one call in the middle fails ---- */

struct fault {
    pthread_t thread; /* calls of others are not counted: their number varies */
    int err;
    size_t at, seen;
    enum io_call call;
};

static int fail_nth(enum io_call call, const char *what, void *arg)
{
    struct fault *f = arg;
    if (call == IO_POINT || !pthread_equal(pthread_self(), f->thread) || ++f->seen != f->at)
        return 0;
    f->call = call;
    return f->err;
}

struct scene {
    struct box *b;
    char id[STORE_UPLOAD_ID_MAX];
};

static int put_part(struct store *s, const char *id, uint32_t number, unsigned seed, size_t len)
{
    struct store_key k = key_of("mp");
    CLEANUP(store_writer_closep) struct store_writer *w = NULL;
    CLEANUP(freep) char *bytes = bytes_of(seed, len);
    int err = store_writer_open(s, len, NULL, &w);
    if (!err)
        err = store_writer_append(w, bytes, len, NULL);
    return err ? err : store_part_put(w, &k, id, number, &plain, NULL, NULL);
}

static void scene_init(struct scene *sc)
{
    struct store_key k = key_of("mp");
    sc->b = box_create_ram();
    OK(put_seed(sc->b->s, "big", 1, BIG));
    OK(put_seed(sc->b->s, "small", 2, 50));
    OK(put_seed(sc->b->s, "mp", 3, BIG));
    OK(store_upload_create(sc->b->s, &k, &plain, 0, 0, NULL, sc->id));
    OK(put_part(sc->b->s, sc->id, 1, 4, MIB));
    OK(put_part(sc->b->s, sc->id, 2, 5, 100));
    assert_int_equal(box_files(sc->b), 5);
}

static int do_new(struct scene *sc)
{
    return put_seed(sc->b->s, "new", 6, BIG);
}

static int do_overwrite(struct scene *sc)
{
    return put_seed(sc->b->s, "big", 6, BIG + 5);
}

static int do_inline(struct scene *sc)
{
    return put_seed(sc->b->s, "big", 6, 10);
}

static int do_delete(struct scene *sc)
{
    struct store_key k = key_of("big");
    return store_delete(sc->b->s, &k, NULL, NULL, NULL);
}

static int do_part(struct scene *sc)
{
    return put_part(sc->b->s, sc->id, 1, 6, MIB);
}

static int do_complete(struct scene *sc)
{
    struct store_key k = key_of("mp");
    CLEANUP(freep) struct store_part *parts = NULL;
    size_t count;
    bool more;
    int err = store_part_list(sc->b->s, &k, sc->id, 0, 10, &parts, &count, &more);
    return err ? err
               : store_upload_complete(sc->b->s, &k, sc->id, parts, 1, &plain, digest, NULL, NULL,
                                       NULL, NULL);
}

/* Each tells whether the store is as it was before (0) or as it is after (1); else -1. */
static int is_new(struct scene *sc)
{
    return !check_seed(sc->b->s, "new", 6, BIG)                       ? 1
           : check_seed(sc->b->s, "new", 6, BIG) == S3R_E_NO_SUCH_KEY ? 0
                                                                      : -1;
}

static int is_overwritten(struct scene *sc)
{
    return !check_seed(sc->b->s, "big", 1, BIG)       ? 0
           : !check_seed(sc->b->s, "big", 6, BIG + 5) ? 1
                                                      : -1;
}

static int is_inline(struct scene *sc)
{
    return !check_seed(sc->b->s, "big", 1, BIG) ? 0 : !check_seed(sc->b->s, "big", 6, 10) ? 1 : -1;
}

static int is_deleted(struct scene *sc)
{
    int err = check_seed(sc->b->s, "big", 1, BIG);
    return !err ? 0 : err == S3R_E_NO_SUCH_KEY ? 1 : -1;
}

static int is_part_new(struct scene *sc)
{
    struct store_key k = key_of("mp");
    CLEANUP(freep) struct store_part *parts = NULL;
    CLEANUP(freep) char *old = bytes_of(4, MIB);
    size_t count;
    bool more;
    if (store_part_list(sc->b->s, &k, sc->id, 0, 10, &parts, &count, &more) || count != 2)
        return -1;
    return parts[0].crc64 != crc64_update(0, old, MIB);
}

static int is_completed(struct scene *sc)
{
    return !check_seed(sc->b->s, "mp", 3, BIG) ? 0 : !check_seed(sc->b->s, "mp", 4, MIB) ? 1 : -1;
}

struct sweep {
    const char *name;
    int (*act)(struct scene *sc);
    int (*state)(struct scene *sc);
    size_t files[2]; /* before, after */
};

static const struct sweep sweeps[] = {
    {"new", do_new, is_new, {5, 6}},
    {"overwrite", do_overwrite, is_overwritten, {5, 5}},
    {"inline", do_inline, is_inline, {5, 4}},
    {"delete", do_delete, is_deleted, {5, 4}},
    {"part", do_part, is_part_new, {5, 5}},
    {"complete", do_complete, is_completed, {5, 4}}, /* part 2 and the old go, a manifest comes */
};

/* The rest of the store must not be touched by any of it. */
static void check_rest(struct scene *sc)
{
    struct store_scrub_report report;
    OK(check_seed(sc->b->s, "small", 2, 50));
    OK(store_scrub(sc->b->s, true, NULL, &report));
    assert_int_equal(report.bad_blocks, 0);
    assert_int_equal(report.missing_files, 0);
    assert_int_equal(report.orphans_removed, 0);
}

static bool is_sync(enum io_call call)
{
    return call == IO_FSYNC || call == IO_FDATASYNC || call == IO_INDEX_WRITE;
}

/* false: the action passed before its Nth call. */
static bool sweep_once(const struct sweep *sw, int err, size_t n)
{
    struct scene sc;
    struct fault f = {.thread = pthread_self(), .err = err, .at = n};
    scene_init(&sc);
    io_set_hook(fail_nth, &f);
    int result = sw->act(&sc);
    io_set_hook(NULL, NULL);
    bool was_hit = f.seen >= n;
    int state = sw->state(&sc);
    if (result) {
        assert_true(was_hit);
        IS(err == ENOSPC ? S3R_E_STORE_FULL : S3R_E_STORE_IO, result);
        assert_int_equal(state, 0);
        if (is_sync(f.call)) {
            IS(S3R_E_STORE_READ_ONLY, store_writable(sc.b->s, NULL));
            IS(S3R_E_STORE_READ_ONLY, sw->act(&sc));
        } else {
            OK(store_writable(sc.b->s, NULL));
            OK(sw->act(&sc)); /* it can be tried again */
        }
    } else {
        assert_int_equal(state, 1);
    }
    box_reopen(sc.b);
    state = sw->state(&sc);
    assert_true(state >= 0);
    assert_int_equal(box_files(sc.b), sw->files[state]);
    check_rest(&sc);
    box_destroy(sc.b);
    return was_hit;
}

static void any_call_of_a_commit_may_fail(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(sweeps); i++) {
        size_t n = 1;
        while (sweep_once(&sweeps[i], n % 2 ? ENOSPC : EIO, n) && n < 100)
            n++;
        assert_in_range(n, 2, 99);
        for (size_t m = 1; m < n; m++)
            sweep_once(&sweeps[i], m % 2 ? EIO : ENOSPC, m);
    }
}

/* ---- the order of a commit ---- */

struct order {
    pthread_t thread;
    char calls[64];
    size_t count;
};

static int note_order(enum io_call call, const char *what, void *arg)
{
    static const char letters[] = {
        [IO_PWRITE] = 'w', [IO_FDATASYNC] = 'd', [IO_FSYNC] = 'n', [IO_INDEX_WRITE] = 'i'};
    struct order *o = arg;
    char letter = (size_t)call < sizeof(letters) ? letters[call] : 0;
    if (letter && pthread_equal(pthread_self(), o->thread) && o->count < sizeof(o->calls) - 1)
        o->calls[o->count++] = letter;
    return 0;
}

/* w: bytes written, d: the file synced, n: its name synced, i: the index written and synced */
static void check_order(struct scene *sc, int (*act)(struct scene *sc), const char *want)
{
    struct order o = {.thread = pthread_self()};
    io_set_hook(note_order, &o);
    OK(act(sc));
    io_set_hook(NULL, NULL);
    assert_string_equal(o.calls, want);
}

static void a_commit_syncs_bytes_then_name_then_index(void **state)
{
    struct scene sc;
    scene_init(&sc);
    check_order(&sc, do_part, "wwdni");
    check_order(&sc, do_complete, "wdni");
    check_order(&sc, do_overwrite, "wwwdni");
    check_order(&sc, do_inline, "i");
    check_order(&sc, do_delete, "i");
    box_destroy(sc.b);
}

static int shorten(enum io_call call, const char *what, void *arg)
{
    return call == IO_PWRITE || call == IO_PREAD ? IO_SHORT : 0;
}

static void short_reads_and_writes_are_gone_on_with(void **state)
{
    struct box *b = *state;
    io_set_hook(shorten, NULL);
    OK(put_seed(b->s, "k", 1, 5 * MIB + 333));
    OK(check_seed(b->s, "k", 1, 5 * MIB + 333));
    io_set_hook(NULL, NULL);
    OK(check_seed(b->s, "k", 1, 5 * MIB + 333));
}

static int fail_reads(enum io_call call, const char *what, void *arg)
{
    return call == IO_PREAD ? EIO : 0;
}

static void a_disk_error_is_an_error_of_that_read(void **state)
{
    struct box *b = *state;
    OK(put_seed(b->s, "k", 1, BIG));
    io_set_hook(fail_reads, NULL);
    IS(S3R_E_STORE_IO, check_seed(b->s, "k", 1, BIG));
    io_set_hook(NULL, NULL);
    OK(check_seed(b->s, "k", 1, BIG));
    OK(store_writable(b->s, NULL));
}

static int refuse_direct(enum io_call call, const char *what, void *arg)
{
    return call == IO_SET_DIRECT ? EINVAL : 0;
}

static void count_lines(enum log_level level, const char *line, void *arg)
{
    *(size_t *)arg += strstr(line, "o-direct") != NULL;
}

static void without_o_direct_all_works_with_one_log_line(void **state)
{
    struct box *b = *state;
    size_t lines = 0;
    log_set_sink(count_lines, &lines);
    io_set_hook(refuse_direct, NULL);
    for (unsigned i = 0; i < 3; i++) {
        OK(put_seed(b->s, "k", i, BIG));
        OK(check_seed(b->s, "k", i, BIG));
    }
    io_set_hook(NULL, NULL);
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, 1);
}

/* ---- a disk that is slow to unlink ---- */

enum { GOES = 20 };

/* The first unlink lasts until the others are queued, the second until the reaper is to stop. */
struct slow_unlinks {
    struct store *s; /* NULL: none is slow any more */
    atomic_size_t count;
    atomic_bool is_queued;
};

static bool is_stopping(struct store *s)
{
    pthread_mutex_lock(&s->reaper.lock);
    bool is = s->reaper.is_stopping;
    pthread_mutex_unlock(&s->reaper.lock);
    return is;
}

static void wait_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = 1000 * 1000};
    nanosleep(&moment, NULL);
}

static int slow_unlink(enum io_call call, const char *what, void *arg)
{
    struct slow_unlinks *slow = arg;
    if (call != IO_UNLINK)
        return 0;
    size_t number = ++slow->count;
    while (slow->s && !(number == 1 ? atomic_load(&slow->is_queued) : is_stopping(slow->s)))
        wait_a_moment();
    return 0;
}

static void delete_numbered(struct store *s, unsigned from, unsigned to)
{
    char name[16];
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof(name), "k%u", i);
        struct store_key k = key_of(name);
        OK(store_delete(s, &k, NULL, NULL, NULL));
    }
}

static size_t data_files;

static int count_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    data_files += kind == FTW_F && strstr(path, "/data/") != NULL;
    return 0;
}

static size_t count_data_files(struct box *b)
{
    data_files = 0;
    nftw(b->dir, count_one, 32, FTW_PHYS);
    return data_files;
}

static void a_store_closes_without_the_unlinks_that_are_still_to_do(void **state)
{
    struct box *b = *state;
    struct slow_unlinks slow = {.s = b->s};
    size_t files = count_data_files(b);
    char name[16];
    for (unsigned i = 0; i < GOES; i++) {
        snprintf(name, sizeof(name), "k%u", i);
        OK(put_seed(b->s, name, i, BIG));
    }
    io_set_hook(slow_unlink, &slow);
    delete_numbered(b->s, 0, 1);
    while (!slow.count)
        wait_a_moment();
    delete_numbered(b->s, 1, GOES);
    slow.is_queued = true;
    while (slow.count < 2)
        wait_a_moment();
    store_close(b->s);
    b->s = slow.s = NULL;
    assert_int_equal(slow.count, 2);
    assert_int_equal(count_data_files(b), files + GOES - 2);
    box_open(b);
    reaper_settle(b->s);
    assert_int_equal(count_data_files(b), files);
}

/* ---- the process ends in the middle ---- */

/* What the child does, in this order; a byte on the pipe says that one was acknowledged. */
static int (*const script[])(struct scene *sc) = {do_part,   do_complete, do_new,
                                                  do_inline, do_delete,   do_overwrite};
static uint64_t exit_at;

static int exit_at_point(enum io_call call, const char *what, void *arg)
{
    if (call == IO_POINT && !--exit_at)
        _exit(7);
    return 0;
}

static int child(const char *dir, const char *id, const char *at)
{
    struct box b = {.is_direct = true};
    struct scene sc = {.b = &b};
    struct store_config config = {.dir = dir, .is_direct = true};
    snprintf(sc.id, sizeof(sc.id), "%s", id);
    if (store_open(&config, NULL, &b.s))
        return 1;
    if (!num_parse_dec(at, strlen(at), 1000, &exit_at))
        return 3;
    io_set_hook(exit_at_point, NULL);
    for (size_t i = 0; i < ARRAY_LEN(script); i++)
        if (script[i](&sc) || write(STDOUT_FILENO, "+", 1) != 1)
            return 2;
    _exit(0); /* without closing: that would be one more way to write */
}

/* How many acts were acknowledged; *ret_status as wait() has it. */
static size_t run_child(struct scene *sc, size_t at, int *ret_status)
{
    char number[16], acks[16];
    int pipe_fds[2];
    snprintf(number, sizeof(number), "%zu", at);
    assert_false(pipe(pipe_fds));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_store_fault", "child", sc->b->dir, sc->id, number, NULL);
        _exit(99);
    }
    close(pipe_fds[1]);
    size_t count = 0;
    for (ssize_t n; (n = read(pipe_fds[0], acks, sizeof(acks))) > 0;)
        count += (size_t)n;
    close(pipe_fds[0]);
    assert_int_equal(waitpid(pid, ret_status, 0), pid);
    return count;
}

/* After `acks` acts, and perhaps the next: each key is what one of the two says. */
static void check_crashed(struct scene *sc, size_t acks)
{
    struct store *s = sc->b->s;
    struct store_key k = key_of("mp");
    struct store_upload *u;
    bool is_old_mp = !check_seed(s, "mp", 3, BIG), is_new_mp = !check_seed(s, "mp", 6, MIB);
    int new = is_new(sc);
    assert_true(acks == 0 ? is_old_mp : acks == 1 ? is_old_mp || is_new_mp : is_new_mp);
    OK(store_upload_stat(s, &k, sc->id, &u));
    assert_int_equal(u->is_completed, is_new_mp);
    store_upload_free(u);
    if (is_old_mp) /* the upload is open still */
        assert_true(is_part_new(sc) == 1 || (acks == 0 && is_part_new(sc) == 0));
    assert_int_equal(new, acks < 2 ? 0 : acks > 2 ? 1 : new & 1);
    bool is_old = !check_seed(s, "big", 1, BIG), is_small = !check_seed(s, "big", 6, 10);
    bool is_none = check_seed(s, "big", 1, 1) == S3R_E_NO_SUCH_KEY;
    bool is_last = !check_seed(s, "big", 6, BIG + 5);
    const bool allowed[][4] = {
        {is_old},           {is_old}, {is_old}, {is_old, is_small}, {is_small, is_none},
        {is_none, is_last}, {is_last}};
    assert_true(allowed[acks][0] || allowed[acks][1]);
    check_rest(sc);
}

static void a_process_that_ends_anywhere_leaves_old_or_new(void **state)
{
    size_t at = 1;
    for (int status = 1; status; at++) {
        struct scene sc;
        scene_init(&sc);
        store_close(sc.b->s);
        size_t acks = run_child(&sc, at, &status);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 7 || (!status && acks == ARRAY_LEN(script)));
        box_open(sc.b);
        check_crashed(&sc, acks);
        box_destroy(sc.b);
    }
    assert_in_range(at, 20, 100); /* five points in most of six acts */
}

/* ---- who may open it ---- */

static void a_store_that_is_open_is_locked(void **state)
{
    struct box *b = *state;
    struct store_config config = {.dir = b->dir};
    struct diag diag = {0};
    struct store *s;
    IS(S3R_E_STORE_LOCKED, store_open(&config, &diag, &s));
    assert_non_null(strstr(diag.text, b->dir));
    config.is_read_only = true;
    IS(S3R_E_STORE_LOCKED, store_open(&config, NULL, &s));
}

/* Changes STORE, seals it again, opens. */
static int open_with(struct box *b, size_t off, unsigned char value, bool is_sealed,
                     struct diag *diag)
{
    char path[128];
    unsigned char h[128], saved[128];
    snprintf(path, sizeof(path), "%s/STORE", b->dir);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, h, sizeof(h), 0), sizeof(h));
    memcpy(saved, h, sizeof(h));
    h[off] = value;
    if (is_sealed)
        le64_store(h + 120, crc64_update(0, h, 120));
    assert_int_equal(pwrite(fd, h, sizeof(h), 0), sizeof(h));
    struct store_config config = {.dir = b->dir};
    struct store *s = NULL;
    int err = store_open(&config, diag, &s);
    store_close(s);
    assert_int_equal(pwrite(fd, saved, sizeof(saved), 0), sizeof(saved));
    close(fd);
    return err;
}

static void a_newer_format_is_refused_and_named(void **state)
{
    struct box *b = *state;
    struct diag diag = {0};
    store_close(b->s);
    b->s = NULL;
    IS(S3R_E_STORE_FORMAT, open_with(b, 8, 2, false, &diag));
    assert_non_null(strstr(diag.text, "format 2"));
    diag_clear(&diag);
    IS(S3R_E_STORE_FORMAT, open_with(b, 41, 1, true, &diag));
    assert_non_null(strstr(diag.text, "0x100"));
    IS(S3R_E_STORE_FORMAT, open_with(b, 0, 'x', true, NULL));
    IS(S3R_E_STORE_CORRUPT, open_with(b, 20, 1, false, NULL));
    OK(open_with(b, 33, 1, true, NULL)); /* a compatible feature */
    box_open(b);
}

static void a_folder_with_something_else_is_left_alone(void **state)
{
    char dir[] = "/tmp/s3r-store-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/precious", dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    struct store_config config = {.dir = dir};
    struct store *s;
    struct diag diag = {0};
    IS(S3R_E_STORE_FORMAT, store_open(&config, &diag, &s));
    assert_non_null(strstr(diag.text, "precious"));
    assert_false(unlink(path));
    snprintf(path, sizeof(path), "%s/STORE", dir);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/LOCK", dir);
    (void)unlink(path);
    assert_false(rmdir(dir));
}

static uint64_t tree_hash;

static int hash_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    tree_hash = crc64_update(tree_hash, path, strlen(path));
    tree_hash = crc64_update(tree_hash, &st->st_size, sizeof(st->st_size));
    tree_hash = crc64_update(tree_hash, &st->st_mtim, sizeof(st->st_mtim));
    return 0;
}

static void read_only_reads_and_writes_nothing(void **state)
{
    struct box *b = *state;
    struct store_key k = key_of("k");
    OK(put_seed(b->s, "k", 1, BIG));
    OK(put_seed(b->s, "small", 2, 5));
    store_close(b->s);
    tree_hash = 0;
    nftw(b->dir, hash_one, 32, FTW_PHYS);
    uint64_t before = tree_hash;
    struct store_config config = {.dir = b->dir, .is_read_only = true};
    OK(store_open(&config, NULL, &b->s));
    OK(check_seed(b->s, "k", 1, BIG));
    OK(check_seed(b->s, "small", 2, 5));
    IS(S3R_E_STORE_READ_ONLY, store_writable(b->s, NULL));
    IS(S3R_E_STORE_READ_ONLY, put_seed(b->s, "k", 2, 5));
    IS(S3R_E_STORE_READ_ONLY, store_delete(b->s, &k, NULL, NULL, NULL));
    IS(S3R_E_STORE_READ_ONLY, store_bucket_delete(b->s, "bkt"));
    store_close(b->s);
    tree_hash = 0;
    nftw(b->dir, hash_one, 32, FTW_PHYS);
    assert_true(before == tree_hash);
    box_open(b);
}

static int read_only_disk(enum io_call call, const char *what, void *arg)
{
    return call == IO_MKDIR || call == IO_PWRITE ? EROFS : 0;
}

static void a_disk_that_cannot_be_written_is_named(void **state)
{
    struct box *b = *state;
    struct diag diag = {0};
    struct store_config config = {.dir = b->dir};
    store_close(b->s);
    io_set_hook(read_only_disk, NULL);
    IS(S3R_E_STORE_READ_ONLY, store_open(&config, &diag, &b->s));
    io_set_hook(NULL, NULL);
    assert_non_null(strstr(diag.text, b->dir));
    assert_non_null(strstr(diag.text, "Read-only"));
    box_open(b);
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "child"))
        return child(argv[2], argv[3], argv[4]);
#define T(name) cmocka_unit_test_setup_teardown(name, box_setup, box_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_of_a_commit_may_fail),
        cmocka_unit_test(a_commit_syncs_bytes_then_name_then_index),
        T(short_reads_and_writes_are_gone_on_with),
        T(a_disk_error_is_an_error_of_that_read),
        T(without_o_direct_all_works_with_one_log_line),
        T(a_store_closes_without_the_unlinks_that_are_still_to_do),
        cmocka_unit_test(a_process_that_ends_anywhere_leaves_old_or_new),
        T(a_store_that_is_open_is_locked),
        T(a_newer_format_is_refused_and_named),
        T(a_folder_with_something_else_is_left_alone),
        T(read_only_reads_and_writes_nothing),
        T(a_disk_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests_name("store_fault", tests, NULL, NULL);
}
