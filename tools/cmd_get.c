/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc64.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/pages.h"
#include "tools/cli.h"
#include "tools/file.h"
#include "tools/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A download: an object, piece by piece through one buffer. */
struct fetch {
    struct cli *cli;
    struct address *from;
    size_t piece_len;
    struct client_memory memory; /* registered, piece_len bytes */
    struct client_options options;
    char if_match[ETAG_SIZE + 2]; /* pins the pieces to the first one's object */
    uint64_t crc64;
    struct download to;
    struct tally tally;
    struct diag diag;
};

static int local_error(struct fetch *f, int error)
{
    char text[100];
    if (error == EINTR && is_stopped())
        return S3R_E_CANCELLED;
    return diag_fail(&f->diag, S3R_E_INVALID_ARGUMENT, "%s: %s",
                     f->to.is_stdout ? "standard output" : f->to.path,
                     strerror_r(error, text, sizeof(text)));
}

static int prepare(struct fetch *f)
{
    f->piece_len = (size_t)(f->cli->o.part_len > 0 ? f->cli->o.part_len : PART_LEN_DEFAULT);
    void *buffer = pages_alloc(f->piece_len);
    if (buffer == NULL)
        return S3R_E_NOMEM;
    f->memory = (struct client_memory){.ptr = buffer, .len = f->piece_len, .region = buffer};
    f->options = (struct client_options){
        .is_rdma_required = f->cli->o.is_rdma_required,
        .is_unverified = f->cli->o.is_unverified,
        .on_progress = tally_progress,
        .progress_arg = &f->tally,
    };
    if (client_register(f->cli->client, buffer, f->piece_len, &f->diag) != 0) {
        diag_clear(&f->diag); /* each call tries by itself, and says why it cannot */
        f->memory.region = NULL;
    }
    return 0;
}

/* One request; what arrived goes to the file. */
static int get_piece(struct fetch *f, uint64_t off, size_t len, struct client_result *result)
{
    f->memory.len = len;
    int e = client_get(f->cli->client, f->from->bucket, f->from->key, off, &f->memory, &f->options,
                       &f->diag, result);
    if (e != 0)
        return e;
    int error = download_write(&f->to, f->memory.ptr, result->len);
    if (error != 0)
        return local_error(f, error);
    f->crc64 = crc64_update(f->crc64, f->memory.ptr, result->len);
    if (f->if_match[0] == '\0' && result->etag[0] != '\0') {
        etag_quote(result->etag, f->if_match);
        f->options.if_match = f->if_match;
    }
    return 0;
}

/* Bytes [off, off + len), all of them there. */
static int get_pieces(struct fetch *f, uint64_t off, uint64_t len)
{
    while (len > 0) {
        struct client_result result = {0};
        size_t want = (size_t)min_u64(len, f->piece_len);
        int e = get_piece(f, off, want, &result);
        uint64_t got = result.len, object_len = result.object_len;
        if (e == 0)
            tally_add(&f->tally, &result);
        client_result_fini(&result);
        if (e != 0)
            return e;
        off += got;
        len -= got;
        if (got < want && (object_len == off || f->cli->o.range.is_given))
            return 0; /* a range that went past the end */
        if (got < want)
            return diag_fail(&f->diag, S3R_E_BAD_REPLY, "the object ended early");
    }
    return 0;
}

static int stat_source(struct fetch *f, struct client_result *result)
{
    int e = client_stat(f->cli->client, f->from->bucket, f->from->key, &f->diag, result);
    f->tally.requests += result->requests;
    if (e != 0 || result->etag[0] == '\0')
        return e;
    char pin[sizeof(f->if_match)];
    etag_quote(result->etag, pin);
    if (f->if_match[0] != '\0' && strcmp(pin, f->if_match) != 0)
        return diag_fail(&f->diag, S3R_E_PRECONDITION, "the object was replaced meanwhile");
    memcpy(f->if_match, pin, sizeof(pin));
    f->options.if_match = f->if_match;
    return 0;
}

/* Larger than one piece: its length, ETag and checksum first, then ranges of exactly that object.
 */
static int get_large(struct fetch *f, uint64_t done)
{
    struct client_result about = {0};
    int e = stat_source(f, &about);
    uint64_t len = about.object_len, crc64 = about.crc64;
    bool has_crc64 = about.has_crc64 && !f->cli->o.is_unverified;
    client_result_fini(&about);
    if (e != 0)
        return e;
    if (len < done)
        return diag_fail(&f->diag, S3R_E_PRECONDITION, "the object was replaced meanwhile");
    f->tally.total = len;
    f->options.is_exact = false;
    e = get_pieces(f, done, len - done);
    if (e != 0)
        return e;
    f->tally.has_crc64 = true;
    f->tally.crc64 = f->crc64;
    f->tally.is_verified = has_crc64;
    if (has_crc64 && crc64 != f->crc64)
        return diag_fail(&f->diag, S3R_E_BAD_DIGEST,
                         "the bytes that arrived do not match the object's checksum");
    return 0;
}

/* One request when the object fits one piece, which nobody knows before. */
static int get_whole(struct fetch *f)
{
    struct client_result result = {0};
    f->options.is_exact = true;
    int e = get_piece(f, CLIENT_WHOLE, f->piece_len, &result);
    uint64_t got = result.len;
    f->tally.requests += e != 0 ? result.requests : 0;
    if (e == 0)
        tally_add(&f->tally, &result);
    client_result_fini(&result);
    if (e == S3R_E_BUFFER_TOO_SMALL) {
        diag_clear(&f->diag);
        return get_large(f, 0);
    }
    /* Some servers cut a larger object to the window and call that a success. */
    return e == 0 && got == f->piece_len ? get_large(f, got) : e;
}

static int get_range(struct fetch *f)
{
    const struct cli_range *r = &f->cli->o.range;
    f->tally.total = r->last - r->first + 1;
    if (!r->is_open && !r->is_suffix)
        return get_pieces(f, r->first, f->tally.total);
    struct client_result about = {0};
    int e = stat_source(f, &about);
    uint64_t len = about.object_len;
    client_result_fini(&about);
    if (e != 0)
        return e;
    uint64_t first = !r->is_suffix ? r->first : r->first < len ? len - r->first : 0;
    if (first >= len)
        return diag_fail(&f->diag, S3R_E_INVALID_RANGE, "the object has %llu bytes",
                         (unsigned long long)len);
    f->tally.total = len - first;
    return get_pieces(f, first, len - first);
}

static int fetch(struct fetch *f, const char *path)
{
    int e = prepare(f);
    if (e != 0)
        return e;
    int error = download_init(&f->to, path);
    if (error != 0)
        return local_error(f, error);
    e = f->cli->o.range.is_given ? get_range(f) : get_whole(f);
    if (e != 0)
        return e;
    error = download_commit(&f->to);
    return error == 0 ? 0 : local_error(f, error);
}

static int run(struct cli *cli, const char *path)
{
    CLEANUP(address_finip) struct address from = {0};
    int code = address_parse(cli->o.args[1], true, &from);
    if (code != EXIT_OK)
        return code;
    struct fetch f = {.cli = cli, .from = &from, .to = {.fd = -1}};
    cli->is_stdout_taken = path == NULL;
    tally_init(&f.tally, cli, &from, path);
    int e = fetch(&f, path);
    tally_clear(&f.tally);
    if (e == 0)
        tally_report(&f.tally);
    else
        code = cli_fail(cli, cli->o.args[1], e, &f.diag);
    if (f.memory.region != NULL && e != S3R_E_RDMA_UNFENCED)
        client_deregister(cli->client, f.memory.region);
    if (e != S3R_E_RDMA_UNFENCED)
        pages_free(f.memory.ptr, f.piece_len);
    download_fini(&f.to);
    tally_fini(&f.tally);
    return code;
}

/* The name of the file: what was given, in a directory the key's last part. */
static int choose_path(const char *given, const char *address, char out[PATH_MAX])
{
    struct stat st;
    const char *slash = strrchr(address, '/');
    const char *base = slash != NULL ? slash + 1 : address;
    bool is_dir = given == NULL || (stat(given, &st) == 0 && S_ISDIR(st.st_mode));
    bool has_base = base[0] != '\0' && strcmp(base, ".") != 0 && strcmp(base, "..") != 0;
    if (is_dir && !has_base)
        return usage_error("%s: the key gives no file name; name the file", address);
    int n = !is_dir         ? snprintf(out, PATH_MAX, "%s", given)
            : given == NULL ? snprintf(out, PATH_MAX, "%s", base)
                            : snprintf(out, PATH_MAX, "%s/%s", given, base);
    return n >= 0 && n < PATH_MAX ? EXIT_OK : usage_error("the file's name is too long");
}

int cmd_get(struct cli *cli)
{
    char path[PATH_MAX];
    const char *given = cli->o.arg_count > 2 ? cli->o.args[2] : NULL;
    if (given != NULL && strcmp(given, "-") == 0)
        return run(cli, NULL);
    int code = choose_path(given, cli->o.args[1], path);
    return code == EXIT_OK ? run(cli, path) : code;
}

int cmd_cat(struct cli *cli)
{
    return run(cli, NULL);
}
