/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU, or of what stands in for one: gpu BUCKET MODE
 *   all       every kind of call, by s3r/client.h and miniocpp/c_api.h
 *   one       one GET of the key "k" into 4 MiB: what became of it
 *   until     GETs of the key "k" until one fails
 *   stopped   GETs of the key "big", 64 MiB, until one is given up after 700 ms; a line on standard
 *             input has the memory looked at, in which a server that went on may have written
 *
 * GPU_RDMA=off and GPU_HTTP_BELOW=BYTES are options of the calls. Memory of the device faults when
 * it is touched; what is in it is looked at through the stand-in. */
#include "content.h"

#include <dlfcn.h>
#include <miniocpp/c_api.h>
#include <s3r/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PIECE_LEN (5 << 20)
#define ONE_LEN (4 << 20)
#define BIG_LEN ((size_t)64 << 20)
#define CANARY 0xAA

typedef unsigned long long device_ptr;

static int (*device_alloc)(device_ptr *ret_ptr, size_t len);
static int (*mapped_alloc)(device_ptr *ret_ptr, size_t len);
static int (*managed_alloc)(device_ptr *ret_ptr, size_t len, unsigned flags);
static int (*device_free)(device_ptr ptr);
static void *(*shadow)(device_ptr ptr);
static unsigned (*count)(const char *what);

static const char *bucket;
static struct s3r_client *client;
static struct s3r_options *options;
static struct s3r_result *result;
static struct {
    unsigned right, rdma, http, staged, verified;
    char reason[32];
} tally;

static void check(int is_right_so, const char *what)
{
    if (is_right_so)
        return;
    fprintf(stderr, "%s: %s; %s\n", what, s3r_result_message(result),
            s3r_result_reason_text(result));
    exit(1);
}

/* ---- memory ---- */

static void *symbol(void *library, const char *name)
{
    void *s = dlsym(library, name);
    check(s != NULL, name);
    return s;
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    check(library != NULL, "libcuda.so.1");
    *(void **)&device_alloc = symbol(library, "cuMemAlloc_v2");
    *(void **)&mapped_alloc = symbol(library, "stand_in_alloc_mapped");
    *(void **)&managed_alloc = symbol(library, "cuMemAllocManaged");
    *(void **)&device_free = symbol(library, "cuMemFree_v2");
    *(void **)&shadow = symbol(library, "stand_in_shadow");
    *(void **)&count = symbol(library, "stand_in_count");
}

static char *new_memory(size_t len)
{
    device_ptr ptr = 0;
    check(device_alloc(&ptr, len) == 0, "device memory");
    memset(shadow(ptr), CANARY, len);
    return (char *)(size_t)ptr;
}

static void drop(char *memory)
{
    check(device_free((size_t)memory) == 0, "free");
}

static char *seen(const char *memory)
{
    return shadow((size_t)memory);
}

static void wipe(char *memory, size_t len)
{
    memset(seen(memory), CANARY, len);
}

static int is_all_canary(const char *s, size_t len)
{
    return s[0] == (char)CANARY && memcmp(s, s + 1, len - 1) == 0;
}

static int is_untouched(const char *memory, size_t len)
{
    return is_all_canary(seen(memory), len);
}

/* ---- calls ---- */

static void note(const struct s3r_result *r)
{
    tally.right++;
    tally.rdma += s3r_result_transport(r) == S3R_TRANSPORT_RDMA;
    tally.http += s3r_result_transport(r) == S3R_TRANSPORT_HTTP;
    tally.staged += s3r_result_is_staged(r) != 0;
    tally.verified += s3r_result_is_verified(r) != 0;
    snprintf(tally.reason, sizeof(tally.reason), "%s", s3r_reason_name(s3r_result_reason(r)));
}

static void print_tally(void)
{
    check(count("contexts") == 0 && count("retained") == 0, "contexts are left");
    check(s3r_registered_bytes(NULL) == 0, "memory is left registered");
    printf("{\"right\": %u, \"rdma\": %u, \"http\": %u, \"staged\": %u, \"verified\": %u, "
           "\"reason\": \"%s\"}\n",
           tally.right, tally.rdma, tally.http, tally.staged, tally.verified, tally.reason);
}

/* A whole object, at a place that begins no page, into memory that is larger. */
static void whole(size_t len)
{
    char *from = new_memory(len + 3), *to = new_memory(2 * len);
    fill(seen(from) + 3, 0, len);
    check(s3r_put(client, bucket, "whole", from + 3, len, options, result) == S3R_OK, "put");
    note(result);
    check(s3r_get(client, bucket, "whole", to, 2 * len, options, result) == S3R_OK &&
              s3r_result_len(result) == len,
          "get");
    note(result);
    check(is_right(seen(to), 0, len) && is_untouched(to + len, len), "get's bytes");
    drop(from);
    drop(to);
}

/* Inside registered memory. */
static void ranges(size_t len)
{
    char *memory = new_memory(len);
    check(s3r_register(client, memory, len, result) == S3R_OK, "register");
    fill(seen(memory), 0, len);
    check(s3r_put(client, bucket, "ranges", memory, len, options, result) == S3R_OK, "put");
    note(result);
    wipe(memory, len);
    for (size_t off = 1; off + 1000 < len; off += len / 5) {
        check(s3r_get_range(client, bucket, "ranges", off, memory + off, 1000, options, result) ==
                  S3R_OK,
              "range");
        note(result);
        check(is_right(seen(memory) + off, off, 1000) && is_untouched(memory + off - 1, 1) &&
                  is_untouched(memory + off + 1000, 1),
              "range's bytes");
    }
    /* cut at the object's end */
    wipe(memory, len);
    check(s3r_get_range(client, bucket, "ranges", len - 10, memory, 100, options, result) ==
                  S3R_OK &&
              s3r_result_len(result) == 10,
          "last range");
    check(is_right(seen(memory), len - 10, 10) && is_untouched(memory + 10, 90), "last bytes");
    check(s3r_deregister(client, memory, result) == S3R_OK, "deregister");
    drop(memory);
}

static void in_pieces(size_t len)
{
    char *from = new_memory(len), *to = new_memory(len + 10);
    fill(seen(from), 0, len);
    check(s3r_options_set_pieces(options, PIECE_LEN, 2) == S3R_OK, "pieces");
    check(s3r_put(client, bucket, "pieces", from, len, options, result) == S3R_OK, "put in pieces");
    note(result);
    check(s3r_get(client, bucket, "pieces", to, len + 10, options, result) == S3R_OK,
          "get in pieces");
    note(result);
    check(is_right(seen(to), 0, len) && is_untouched(to + len, 10), "bytes of pieces");
    check(s3r_options_set_pieces(options, 0, 0) == S3R_OK, "pieces");
    drop(from);
    drop(to);
}

static void end_completions(struct s3r_queue *queue, int expected)
{
    struct s3r_result *ended[16];
    int done = 0;
    for (int n; (n = s3r_queue_poll(queue, ended, 16, -1)) > 0;) {
        for (int i = 0; i < n; i++) {
            if (s3r_result_error(ended[i]) != S3R_OK) {
                fprintf(stderr, "completion: %s\n", s3r_result_message(ended[i]));
                exit(1);
            }
            note(ended[i]);
            s3r_result_free(ended[i]);
        }
        done += n;
    }
    check(done == expected, "completions");
}

static void queued(size_t len)
{
    struct s3r_queue *queue = NULL;
    struct s3r_upload *upload = NULL;
    char *parts = new_memory(2 * PIECE_LEN), *to = new_memory(2 * len), key[32];
    fill(seen(parts), 0, 2 * PIECE_LEN);
    check(s3r_queue_new(client, 0, 3, result, &queue) == S3R_OK, "queue");
    check(s3r_upload_create(client, bucket, "parts", options, result, &upload) == S3R_OK, "upload");
    for (unsigned i = 0; i < 2; i++)
        check(s3r_submit_part(queue, upload, i + 1, parts + (size_t)i * PIECE_LEN, PIECE_LEN,
                              options, i) == S3R_OK,
              "submit a part");
    for (unsigned i = 0; i < 4; i++) {
        snprintf(key, sizeof(key), "queued-%u", i);
        check(s3r_submit_put(queue, bucket, key, parts + i * len / 4, len / 4, options, 0) ==
                  S3R_OK,
              "submit a put");
    }
    end_completions(queue, 6);
    check(s3r_upload_complete(upload, options, result) == S3R_OK &&
              s3r_result_len(result) == 2 * PIECE_LEN,
          "complete");
    for (unsigned i = 0; i < 4; i++) {
        snprintf(key, sizeof(key), "queued-%u", i);
        check(s3r_submit_get(queue, bucket, key, to + i * len / 4, len / 4, options, 0) == S3R_OK,
              "submit a get");
    }
    check(s3r_submit_get_range(queue, bucket, "parts", 8, to + len, len, options, 0) == S3R_OK,
          "submit a range");
    end_completions(queue, 5);
    check(is_right(seen(to), 0, len) && is_right(seen(to) + len, 8, len), "bytes of the queue");
    s3r_queue_free(queue);
    s3r_upload_free(upload);
    drop(parts);
    drop(to);
}

static void parts_of_an_upload(void)
{
    struct s3r_upload *upload = NULL;
    char *memory = new_memory(PIECE_LEN + 100);
    fill(seen(memory), 0, PIECE_LEN + 100);
    check(s3r_upload_create(client, bucket, "upload", options, result, &upload) == S3R_OK,
          "upload");
    check(s3r_upload_part(upload, 1, memory, PIECE_LEN, options, result) == S3R_OK, "part 1");
    note(result);
    check(s3r_upload_part(upload, 2, memory + PIECE_LEN, 100, options, result) == S3R_OK, "part 2");
    note(result);
    check(s3r_upload_complete(upload, options, result) == S3R_OK, "complete");
    wipe(memory, PIECE_LEN + 100);
    check(s3r_get(client, bucket, "upload", memory, PIECE_LEN + 100, options, result) == S3R_OK,
          "get");
    note(result);
    check(is_right(seen(memory), 0, PIECE_LEN + 100), "bytes of an upload");
    s3r_upload_free(upload);
    drop(memory);
}

/* Memory without a context of its own, and memory that the processor may touch. */
static void other_kinds(size_t len)
{
    device_ptr mapped = 0, managed = 0;
    check(mapped_alloc(&mapped, len) == 0 && managed_alloc(&managed, len, 1) == 0, "memory");
    fill(shadow(mapped), 0, len);
    check(s3r_put(client, bucket, "kinds", (char *)(size_t)mapped, len, options, result) == S3R_OK,
          "put of mapped memory");
    note(result);
    char *memory = (char *)(size_t)managed;
    check(s3r_get(client, bucket, "kinds", memory, len, options, result) == S3R_OK,
          "get into managed memory");
    check(!s3r_result_is_staged(result), "managed memory is staged");
    check(is_right(memory, 0, len), "managed memory");
    check(device_free(mapped) == 0 && device_free(managed) == 0, "free");
}

/* What fails leaves the device's memory as it was. */
static void errors(void)
{
    char *memory = new_memory(1000);
    check(s3r_get(client, bucket, "no-such-key", memory, 1000, options, result) ==
              S3R_ERROR_NO_SUCH_KEY,
          "missing");
    check(is_untouched(memory, 1000), "untouched after an error");
    fill(seen(memory), 0, 1000);
    check(s3r_put(client, bucket, "small", memory, 1000, options, result) == S3R_OK, "put");
    wipe(memory, 1000);
    check(s3r_get(client, bucket, "small", memory, 999, options, result) ==
              S3R_ERROR_BUFFER_TOO_SMALL,
          "too small");
    check(is_untouched(memory, 1000), "untouched by what is too large");
    setenv("CUDA_STAND_IN_REFUSES", "htod", 1);
    check(s3r_get(client, bucket, "small", memory, 1000, options, result) == S3R_ERROR_INTERNAL,
          "get that cannot be delivered");
    setenv("CUDA_STAND_IN_REFUSES", "dtoh", 1);
    check(s3r_put(client, bucket, "never", memory, 1000, options, result) == S3R_ERROR_INTERNAL,
          "put that cannot be read");
    unsetenv("CUDA_STAND_IN_REFUSES");
    check(s3r_stat(client, bucket, "never", options, result) == S3R_ERROR_NO_SUCH_KEY, "stat");
    drop(memory);
}

static void by_miniocpp(size_t len)
{
    miniocpp_client *mini =
        miniocpp_client_new(getenv("S3RDMA_TEST_ENDPOINT"), "", getenv("AWS_ACCESS_KEY_ID"),
                            getenv("AWS_SECRET_ACCESS_KEY"), "", 0);
    char *from = new_memory(len), *to = new_memory(len), etag[64], checksum[64];
    fill(seen(from), 0, len);
    check(miniocpp_put_object(mini, bucket, "mini", from, len, NULL, NULL, etag, checksum) ==
              (ssize_t)len,
          miniocpp_last_error());
    check(strlen(checksum) == 12, "checksum");
    check(miniocpp_get_object(mini, bucket, "mini", to, len, NULL, NULL) == (ssize_t)len,
          miniocpp_last_error());
    check(is_right(seen(to), 0, len), "bytes of miniocpp");
    drop(from);
    drop(to);
    miniocpp_client_free(mini);
}

static void all(void)
{
    static const size_t lens[] = {1, 1000, (1 << 20) + 3, 9 << 20};
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
        whole(lens[i]);
    ranges(1 << 20);
    in_pieces(2 * PIECE_LEN + 77);
    parts_of_an_upload();
    queued(1 << 20);
    other_kinds(100000);
    errors();
    by_miniocpp(1 << 20);
    print_tally();
}

/* ---- an object of somebody else's ---- */

static void one(void)
{
    char *memory = new_memory(ONE_LEN);
    int e = s3r_get(client, bucket, "k", memory, ONE_LEN, options, result);
    printf("{\"error\": \"%s\", \"transport\": \"%s\", \"reason\": \"%s\", \"staged\": %d, "
           "\"verified\": %d, \"right\": %d, \"untouched\": %d}\n",
           s3r_error_name(e), s3r_transport_name(s3r_result_transport(result)),
           s3r_reason_name(s3r_result_reason(result)), s3r_result_is_staged(result),
           s3r_result_is_verified(result), is_right(seen(memory), 0, ONE_LEN),
           is_untouched(memory, ONE_LEN));
    drop(memory);
}

static void until_one_fails(void)
{
    char *memory = new_memory(ONE_LEN);
    int e;
    do {
        wipe(memory, ONE_LEN);
        e = s3r_get(client, bucket, "k", memory, ONE_LEN, options, result);
        check(e != S3R_OK || is_right(seen(memory), 0, ONE_LEN), "bytes");
        puts(s3r_transport_name(s3r_result_transport(result)));
        fflush(stdout);
    } while (e == S3R_OK);
    check(is_untouched(memory, ONE_LEN), "untouched");
    printf("%s\n", s3r_error_name(e));
    drop(memory);
}

/* The copy's memory must not come back while the server may write it: what is mapped afterwards
 * would be its. */
static void stopped(void)
{
    char *memory = new_memory(BIG_LEN);
    int e;
    check(s3r_options_set_deadline_ms(options, 700) == S3R_OK, "deadline");
    do {
        wipe(memory, BIG_LEN);
        puts("begun");
        fflush(stdout);
        e = s3r_get(client, bucket, "big", memory, BIG_LEN, options, result);
    } while (e == S3R_OK);
    char *other =
        mmap(NULL, 4 * BIG_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(other != MAP_FAILED, "memory");
    memset(other, CANARY, 4 * BIG_LEN);
    puts(s3r_error_name(e));
    fflush(stdout);
    check(getchar() == '\n', "a line");
    check(is_untouched(memory, BIG_LEN) && is_all_canary(other, 4 * BIG_LEN), "untouched");
    drop(memory);
}

static void set_up(void)
{
    struct s3r_config *config = s3r_config_new();
    const char *below = getenv("GPU_HTTP_BELOW");
    result = s3r_result_new();
    options = s3r_options_new();
    load();
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    s3r_config_set_endpoint(config, getenv("AWS_ENDPOINT_URL"));
    check(s3r_client_new(config, result, &client) == S3R_OK, "client");
    s3r_config_free(config);
    if (getenv("GPU_RDMA") != NULL)
        check(s3r_options_set_rdma(options, S3R_RDMA_OFF) == S3R_OK, "off");
    if (below != NULL)
        check(s3r_options_set_http_below(options, number(below)) == S3R_OK, "below");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    bucket = argv[1];
    set_up();
    if (strcmp(argv[2], "all") == 0)
        all();
    else if (strcmp(argv[2], "one") == 0)
        one();
    else if (strcmp(argv[2], "until") == 0)
        until_one_fails();
    else if (strcmp(argv[2], "stopped") == 0)
        stopped();
    else
        return 2;
    s3r_client_free(client);
    s3r_options_free(options);
    s3r_result_free(result);
    return 0;
}
