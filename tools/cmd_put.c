/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/pages.h"
#include "tools/cli.h"
#include "tools/file.h"
#include "tools/metadata.h"
#include "tools/report.h"
#include "tools/show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An upload: a file or stream, piece by piece through one buffer. */
struct upload {
    struct cli *cli;
    const char *file;
    struct address *to;
    int fd;
    bool is_sized; /* a regular file of `size` bytes */
    uint64_t size, done;
    size_t part_len;
    struct client_memory memory; /* registered, part_len bytes */
    struct client_options options;
    struct headers headers;
    struct tally tally;
    struct diag diag;
    char *id; /* of a multipart upload */
    struct client_part *parts;
    size_t part_count;
};

static int local_error(struct upload *u, int error)
{
    char text[100];
    if (error == EINTR && is_stopped())
        return S3R_E_CANCELLED;
    return diag_fail(&u->diag, S3R_E_INVALID_ARGUMENT, "%s: %s", u->file,
                     strerror_r(error, text, sizeof(text)));
}

static int open_source(struct upload *u)
{
    struct stat st;
    u->fd = strcmp(u->file, "-") == 0 ? STDIN_FILENO : open(u->file, O_RDONLY | O_CLOEXEC);
    if (u->fd < 0 || fstat(u->fd, &st) != 0)
        return local_error(u, errno);
    if (S_ISDIR(st.st_mode))
        return local_error(u, EISDIR);
    u->is_sized = S_ISREG(st.st_mode) && u->fd != STDIN_FILENO;
    u->size = u->is_sized ? (uint64_t)st.st_size : 0;
    if (u->size > LIMIT_OBJECT_LEN_MAX)
        return local_error(u, EFBIG);
    return 0;
}

static int choose_part_len(struct upload *u)
{
    uint64_t len = u->cli->o.part_len > 0 ? u->cli->o.part_len : PART_LEN_DEFAULT;
    uint64_t least = (u->size + LIMIT_PARTS_MAX - 1) / LIMIT_PARTS_MAX;
    if (least > len && u->cli->o.part_len > 0)
        return diag_fail(&u->diag, S3R_E_INVALID_ARGUMENT,
                         "an object has at most %d parts: --part-size %llu or more is needed",
                         LIMIT_PARTS_MAX, (unsigned long long)least);
    if (least > len)
        len = align_up(least, 1 << 20);
    u->part_len = (size_t)(u->is_sized ? min_u64(len, u->size) : len);
    return 0;
}

static int prepare(struct upload *u)
{
    int e = open_source(u);
    if (e == 0)
        e = choose_part_len(u);
    if (e == 0)
        e = metadata_add(&u->cli->o, &u->headers, &u->diag);
    if (e != 0)
        return e;
    void *buffer = pages_alloc(u->part_len);
    if (buffer == NULL)
        return S3R_E_NOMEM;
    u->memory = (struct client_memory){.ptr = buffer, .len = u->part_len, .region = buffer};
    u->options = (struct client_options){
        .is_rdma_required = u->cli->o.is_rdma_required,
        .headers = &u->headers,
        .on_progress = tally_progress,
        .progress_arg = &u->tally,
    };
    u->tally.total = u->size;
    if (u->part_len > 0 && client_register(u->cli->client, buffer, u->part_len, &u->diag) != 0) {
        diag_clear(&u->diag); /* each call tries by itself, and says why it cannot */
        u->memory.region = NULL;
    }
    if (u->part_len == 0)
        u->memory.region = NULL;
    return 0;
}

/* The next piece into the buffer; shorter than a part only at the end. */
static int read_piece(struct upload *u, size_t *ret_len)
{
    size_t want = u->is_sized ? (size_t)min_u64(u->part_len, u->size - u->done) : u->part_len;
    size_t len = 0;
    int error = read_full(u->fd, u->memory.ptr, want, &len);
    if (error != 0)
        return local_error(u, error);
    if (u->is_sized && len < want)
        return diag_fail(&u->diag, S3R_E_INCOMPLETE_BODY, "%s became shorter meanwhile", u->file);
    u->done += len;
    *ret_len = len;
    return 0;
}

static int put_whole(struct upload *u, size_t len)
{
    struct client_result result = {0};
    u->memory.len = len;
    int e = client_put(u->cli->client, u->to->bucket, u->to->key, &u->memory, &u->options, &u->diag,
                       &result);
    if (e == 0)
        tally_add(&u->tally, &result);
    client_result_fini(&result);
    return e;
}

static int put_part(struct upload *u, size_t len)
{
    if (u->part_count == LIMIT_PARTS_MAX)
        return diag_fail(&u->diag, S3R_E_ENTITY_TOO_LARGE,
                         "more than %d parts of %zu bytes: use a larger --part-size",
                         LIMIT_PARTS_MAX, u->part_len);
    struct client_part *more = realloc(u->parts, (u->part_count + 1) * sizeof(*u->parts));
    if (more == NULL)
        return S3R_E_NOMEM;
    u->parts = more;
    struct client_result result = {0};
    u->memory.len = len;
    int e = client_upload_part(u->cli->client, u->to->bucket, u->to->key, u->id,
                               (unsigned)u->part_count + 1, &u->memory, &u->options, &u->diag,
                               &result, &u->parts[u->part_count]);
    if (e == 0) {
        u->part_count++;
        tally_add(&u->tally, &result);
    }
    client_result_fini(&result);
    return e;
}

/* `len` bytes of the first part are in the buffer. */
static int put_parts(struct upload *u, size_t len)
{
    int e = client_upload_create(u->cli->client, u->to->bucket, u->to->key, &u->options, &u->diag,
                                 &u->id);
    while (e == 0 && len > 0) {
        e = put_part(u, len);
        if (e == 0)
            e = read_piece(u, &len);
    }
    if (e != 0)
        return e;
    struct client_result result = {0};
    e = client_upload_complete(u->cli->client, u->to->bucket, u->to->key, u->id, u->parts,
                               u->part_count, NULL, &u->diag, &result);
    if (e == 0) {
        free(STEAL(u->id));
        u->tally.requests += result.requests;
        memcpy(u->tally.etag, result.etag, sizeof(u->tally.etag));
        u->tally.crc64 = result.crc64;
    }
    client_result_fini(&result);
    return e;
}

static int put(struct upload *u)
{
    size_t len = 0;
    int e = prepare(u);
    if (e == 0)
        e = read_piece(u, &len);
    if (e != 0)
        return e;
    bool is_all = u->is_sized ? u->done == u->size : len < u->part_len;
    return is_all ? put_whole(u, len) : put_parts(u, len);
}

/* Parts of an upload that will not be completed cost space: they are taken back, also after ^C. */
static void tidy(struct upload *u, int error)
{
    if (u->id != NULL && error != 0) {
        struct diag diag = {0};
        ignore_stop(true);
        int e = client_upload_abort(u->cli->client, u->to->bucket, u->to->key, u->id, &diag);
        ignore_stop(false);
        if (e != 0)
            show_line(stderr, "s3rdma: could not abort the upload %s: %s", u->id,
                      diag_text(&diag, e));
    }
    if (u->memory.region != NULL && error != S3R_E_RDMA_UNFENCED)
        client_deregister(u->cli->client, u->memory.region);
    if (error != S3R_E_RDMA_UNFENCED)
        pages_free(u->memory.ptr, u->part_len);
    if (u->fd > STDERR_FILENO)
        close(u->fd);
    headers_fini(&u->headers);
    tally_fini(&u->tally);
    free(u->parts);
    free(u->id);
}

int cmd_put(struct cli *cli)
{
    CLEANUP(address_finip) struct address to = {0};
    int code = address_parse(cli->o.args[2], true, &to);
    if (code != EXIT_OK)
        return code;
    struct upload u = {.cli = cli, .file = cli->o.args[1], .to = &to, .fd = -1};
    tally_init(&u.tally, cli, &to, u.file);
    int e = put(&u);
    tally_clear(&u.tally);
    if (e == 0)
        tally_report(&u.tally);
    else
        code = cli_fail(cli, cli->o.args[2], e, &u.diag);
    tidy(&u, e);
    return code;
}
