/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_peer: a process of its own at the other end of transfers, told what to do line by line on
 * standard input; each command is answered by one line.
 *
 *   own DEVICE SIZE        opens DEVICE and registers SIZE bytes between two guard pages
 *   open OFF LEN           opens a window; answers its token
 *   withdraw               withdraws it; answers the error's name or ok
 *   fill XX                every byte of the memory
 *   is XX                  yes, or the first offset that is something else
 *   guards                 yes while nobody has written into the guard pages
 *   serve DEVICE           opens DEVICE as a server does
 *   move r|w XX OFF LEN TOKEN   one transfer, of bytes XX when writing; answers NAME MOVED
 *   flood XX THREADS TOKEN      each thread writes the whole window until that fails; answers NAME
 */
#include "base/log.h"
#include "rdma/mover.h"
#include "rdma/owner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD_LEN 4096
#define GUARD_BYTE 0xaa
#define THREADS_MAX 8

static struct owner *owner;
static struct owner_window *window;
static struct mover *mover;
static unsigned char *memory;
static size_t memory_len;

static void answer(int rc, const struct diag *diag)
{
    if (rc)
        printf("%s %s\n", error_name(rc), diag->text);
    else
        printf("ok\n");
}

static void own(const char *device, size_t len)
{
    struct diag diag = {""};
    unsigned char *all =
        mmap(NULL, len + 2 * GUARD_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        printf("NOMEM\n");
        return;
    }
    memset(all, GUARD_BYTE, GUARD_LEN);
    memset(all + GUARD_LEN + len, GUARD_BYTE, GUARD_LEN);
    memory = all + GUARD_LEN;
    memory_len = len;
    int rc = owner_open(device, NULL, &diag, &owner);
    if (!rc)
        rc = owner_register(owner, memory, memory_len, &diag);
    answer(rc, &diag);
}

static void open_window(uint64_t off, uint64_t len)
{
    struct diag diag = {""};
    int rc = owner_window_open(owner, memory, off, len, &diag, &window);
    if (rc)
        answer(rc, &diag);
    else
        printf("%s\n", owner_window_token(window));
}

static void withdraw(void)
{
    struct diag diag = {""};
    answer(owner_window_withdraw(window, &diag), &diag);
}

static void is_all(const unsigned char *bytes, size_t len, unsigned value)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != value) {
            printf("%zu\n", i);
            return;
        }
    }
    printf("yes\n");
}

static void guards(void)
{
    for (size_t i = 0; i < GUARD_LEN; i++) {
        if (memory[-1 - (long)i] != GUARD_BYTE || memory[memory_len + i] != GUARD_BYTE) {
            printf("no\n");
            return;
        }
    }
    printf("yes\n");
}

static int transfer(const char *text, enum transfer_direction direction, unsigned value,
                    uint64_t off, uint64_t len, uint64_t *moved)
{
    struct token token;
    *moved = 0;
    int rc = token_parse(text, strlen(text), NULL, &token);
    if (rc)
        return rc;
    CLEANUP(freep) void *local = malloc(len ? len : 1);
    if (!local)
        return S3R_E_NOMEM;
    memset(local, (int)value, len);
    struct transfer t = {
        .direction = direction, .token = &token, .window_off = off, .local = local, .len = len};
    return mover_transfer(mover, NULL, &t, NULL, moved);
}

static void move(char direction, unsigned value, uint64_t off, uint64_t len, const char *token)
{
    uint64_t moved;
    int rc =
        transfer(token, direction == 'r' ? TRANSFER_READ : TRANSFER_WRITE, value, off, len, &moved);
    printf("%s %llu\n", rc ? error_name(rc) : "ok", (unsigned long long)moved);
}

struct flood {
    struct token token;
    unsigned value;
};

static void *flood_main(void *arg)
{
    const struct flood *f = arg;
    int rc = 0;
    CLEANUP(freep) void *local = malloc(f->token.size);
    if (!local)
        return "NOMEM";
    memset(local, (int)f->value, f->token.size);
    while (!rc) {
        uint64_t moved;
        struct transfer t = {.direction = TRANSFER_WRITE,
                             .token = &f->token,
                             .local = local,
                             .len = f->token.size};
        rc = mover_transfer(mover, NULL, &t, NULL, &moved);
    }
    return (void *)error_name(rc);
}

static void flood(unsigned value, int threads, const char *token)
{
    struct flood f = {.value = value};
    pthread_t ids[THREADS_MAX];
    const char *name = "no thread";
    if (token_parse(token, strlen(token), NULL, &f.token) != 0 || threads > THREADS_MAX) {
        printf("bad command\n");
        return;
    }
    int started = 0;
    while (started < threads && pthread_create(&ids[started], NULL, flood_main, &f) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        void *result;
        pthread_join(ids[i], &result);
        name = result;
    }
    printf("%s\n", name);
}

static void obey(const char *line)
{
    char text[1100], direction;
    unsigned value;
    unsigned long long off, len;
    int threads;
    struct diag diag = {""};
    if (sscanf(line, "own %200s %llu", text, &len) == 2)
        own(text, len);
    else if (sscanf(line, "open %llu %llu", &off, &len) == 2)
        open_window(off, len);
    else if (strcmp(line, "withdraw\n") == 0)
        withdraw();
    else if (sscanf(line, "fill %x", &value) == 1)
        printf("%s\n", memset(memory, (int)value, memory_len) ? "ok" : "");
    else if (sscanf(line, "is %x", &value) == 1)
        is_all(memory, memory_len, value);
    else if (strcmp(line, "guards\n") == 0)
        guards();
    else if (sscanf(line, "serve %200s", text) == 1)
        answer(mover_open(text, &diag, &mover), &diag);
    else if (sscanf(line, "move %c %x %llu %llu %1050s", &direction, &value, &off, &len, text) == 5)
        move(direction, value, off, len, text);
    else if (sscanf(line, "flood %x %d %1050s", &value, &threads, text) == 3)
        flood(value, threads, text);
    else
        printf("bad command\n");
}

int main(void)
{
    char line[2048];
    log_set_sink(log_to_stderr, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin))
        obey(line);
    owner_window_close(window);
    owner_close(owner);
    mover_close(mover);
    return 0;
}
