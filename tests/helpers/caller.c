/* SPDX-License-Identifier: Apache-2.0 */
/* caller [-k] [-r] [-w] [-c] [-p MS] [-d MS] get|put FILE SIZE INTERFACE... - one transfer through
 * each interface of libminiocpp.so: `s3r`, `piece` (a range, or a part), `queue`, `queue-piece` and
 * `miniocpp`, of the key of that name in the bucket `bucket`. Endpoint, keys and devices come from
 * the environment.
 *   -k  the memory is registered before, and stays so
 *   -r  RDMA or an error   -p  the client's patience   -d  the call's deadline
 *   -c  a line on standard input cancels the call
 *   -w  afterwards the memory is filled anew, and a line (another one) is waited for
 * A PUT is of the first SIZE bytes of FILE. A GET is into memory full of CANARY, SIZE bytes and
 * GUARD_LEN more, all of which is FILE.INTERFACE afterwards. Prints lines of JSON: before a call
 * where its memory is, after it what became of it, and with -w that the memory is filled, and what
 * it is then found to be. */
#include <miniocpp/c_api.h>
#include <s3r/client.h>

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CANARY 0xaa
#define GUARD_LEN 4096
#define RANGE_OFF 100
#define PART_NUMBER 1
#define COOKIE 7

static struct {
    bool is_put, is_kept, is_required, is_to_wait, is_cancellable;
    long long patience_ms, deadline_ms, size;
    const char *file;
} asked;

static char *memory;
static struct s3r_client *client;
static struct s3r_options *options;

static void must(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "caller: %s\n", what);
    exit(2);
}

/* ---- output ---- */

static size_t whole_len(void)
{
    return (size_t)asked.size + GUARD_LEN;
}

static void write_file(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.%s", asked.file, name);
    FILE *f = fopen(path, "wb");
    must(f != NULL && fwrite(memory, 1, whole_len(), f) == whole_len() && fclose(f) == 0,
         "cannot write");
}

static void print_text(const char *name, const char *text)
{
    printf(", \"%s\": \"", name);
    for (const unsigned char *p = (const unsigned char *)(text != NULL ? text : ""); *p; p++)
        printf(*p < ' ' || *p == '"' || *p == '\\' ? "\\u%04x" : "%c", *p);
    printf("\"");
}

static void print_number(const char *name, unsigned long long number)
{
    printf(", \"%s\": %llu", name, number);
}

/* The memory goes to its file first: who reads the line finds it there. */
static void print_begin(const char *name)
{
    if (!asked.is_put)
        write_file(name);
    printf("{\"interface\": \"%s\"", name);
}

/* The end of a line that print_text() and print_number() went on with. */
static void print_end(void)
{
    print_number("registered", s3r_registered_bytes(NULL));
    printf("}\n");
    fflush(stdout);
}

static void print_result(const char *name, const struct s3r_result *r)
{
    print_begin(name);
    print_text("error", s3r_error_name(s3r_result_error(r)));
    print_text("message", s3r_result_message(r));
    print_text("s3_code", s3r_result_s3_code(r));
    print_text("transport", s3r_transport_name(s3r_result_transport(r)));
    print_text("reason", s3r_reason_name(s3r_result_reason(r)));
    print_text("why", s3r_result_reason_text(r));
    print_text("etag", s3r_result_etag(r));
    print_number("requests", s3r_result_requests(r));
    print_number("bytes", s3r_result_len(r));
    print_number("object_bytes", s3r_result_object_len(r));
    print_number("verified", (unsigned)s3r_result_is_verified(r));
    print_end();
}

/* ---- the calls: each returns enum s3r_error, and prints what became of it ---- */

static int is_told(void *arg)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) > 0;
}

static struct s3r_upload *upload_of(const char *key)
{
    struct s3r_upload *upload = NULL;
    must(s3r_upload_open(client, "bucket", key, "id", NULL, &upload) == S3R_OK, "no upload");
    return upload;
}

static int blocking(const char *name, bool is_piece)
{
    size_t size = (size_t)asked.size;
    struct s3r_result *r = s3r_result_new();
    struct s3r_upload *upload = asked.is_put && is_piece ? upload_of(name) : NULL;
    int e = upload != NULL ? s3r_upload_part(upload, PART_NUMBER, memory, size, options, r)
            : asked.is_put ? s3r_put(client, "bucket", name, memory, size, options, r)
            : is_piece ? s3r_get_range(client, "bucket", name, RANGE_OFF, memory, size, options, r)
                       : s3r_get(client, "bucket", name, memory, size, options, r);
    print_result(name, r);
    s3r_result_free(r);
    s3r_upload_free(upload);
    return e;
}

static struct s3r_result *await(struct s3r_queue *queue)
{
    struct s3r_result *r = NULL;
    struct pollfd fds[2] = {{.fd = s3r_queue_fd(queue), .events = POLLIN},
                            {.fd = asked.is_cancellable ? STDIN_FILENO : -1, .events = POLLIN}};
    must(poll(fds, 2, -1) > 0, "poll");
    if (fds[1].revents != 0)
        s3r_queue_cancel(queue, COOKIE);
    must(s3r_queue_poll(queue, &r, 1, -1) == 1, "one completion");
    return r;
}

static int queued(const char *name, bool is_piece)
{
    size_t size = (size_t)asked.size;
    struct s3r_queue *q = NULL;
    must(s3r_queue_new(client, 0, 0, NULL, &q) == S3R_OK, "no queue");
    struct s3r_upload *upload = asked.is_put && is_piece ? upload_of(name) : NULL;
    int e = upload != NULL ? s3r_submit_part(q, upload, PART_NUMBER, memory, size, options, COOKIE)
            : asked.is_put ? s3r_submit_put(q, "bucket", name, memory, size, options, COOKIE)
            : is_piece
                ? s3r_submit_get_range(q, "bucket", name, RANGE_OFF, memory, size, options, COOKIE)
                : s3r_submit_get(q, "bucket", name, memory, size, options, COOKIE);
    must(e == S3R_OK, "submit");
    struct s3r_result *r = await(q);
    must(s3r_result_cookie(r) == COOKIE && s3r_queue_pending(q) == 0, "the one");
    e = s3r_result_error(r);
    print_result(name, r);
    s3r_result_free(r);
    s3r_queue_free(q);
    s3r_upload_free(upload);
    return e;
}

/* The code of an error is not told. */
static int by_miniocpp(const char *name, bool is_piece)
{
    const char *url = getenv("AWS_ENDPOINT_URL");
    char etag[64] = "", checksum[64] = "";
    miniocpp_client *c =
        miniocpp_client_new(strstr(url, "://") + 3, NULL, getenv("AWS_ACCESS_KEY_ID"),
                            getenv("AWS_SECRET_ACCESS_KEY"), NULL, 0);
    must(c != NULL, "no client");
    ssize_t n = asked.is_put ? miniocpp_put_object(c, "bucket", name, memory, (size_t)asked.size,
                                                   NULL, NULL, etag, checksum)
                             : miniocpp_get_object(c, "bucket", name, memory, (size_t)asked.size,
                                                   NULL, NULL);
    print_begin(name);
    print_text("error", n >= 0 ? "OK" : n == MINIOCPP_ERR_GENERIC ? "GENERIC" : "OTHER");
    print_text("message", n >= 0 ? "" : miniocpp_last_error());
    print_text("etag", etag);
    print_text("checksum", checksum);
    print_number("bytes", n >= 0 ? (unsigned long long)n : 0);
    print_end();
    bool is_unfenced = n < 0 && strstr(miniocpp_last_error(), "must not be used") != NULL;
    miniocpp_client_free(c);
    return n >= 0 ? S3R_OK : is_unfenced ? S3R_ERROR_RDMA_UNFENCED : S3R_ERROR_REMOTE;
}

static const struct interface {
    const char *name;
    int (*call)(const char *name, bool is_piece);
    bool is_piece;
} interfaces[] = {{"s3r", blocking, false},
                  {"piece", blocking, true},
                  {"queue", queued, false},
                  {"queue-piece", queued, true},
                  {"miniocpp", by_miniocpp, false}};

/* ---- one interface ---- */

static void read_file(void)
{
    FILE *f = fopen(asked.file, "rb");
    must(f != NULL && fread(memory, 1, (size_t)asked.size, f) == (size_t)asked.size, "no file");
    fclose(f);
}

/* What no stopped server may reach any more; after S3R_ERROR_RDMA_UNFENCED nobody touches it. */
static void wait_with_canary(int error)
{
    char line[16];
    size_t i = 0;
    if (error != S3R_ERROR_RDMA_UNFENCED)
        memset(memory, CANARY, whole_len());
    printf("{\"given_back\": %s}\n", error != S3R_ERROR_RDMA_UNFENCED ? "true" : "false");
    fflush(stdout);
    for (int lines = asked.is_cancellable ? 2 : 1; lines > 0; lines--)
        (void)!fgets(line, sizeof(line), stdin);
    while (i < whole_len() && (unsigned char)memory[i] == CANARY)
        i++;
    printf("{\"untouched\": %s}\n", i == whole_len() ? "true" : "false");
    fflush(stdout);
}

static void use(const struct interface *how)
{
    memset(memory, CANARY, whole_len());
    if (asked.is_put)
        read_file();
    printf("{\"pid\": %ld, \"address\": %llu}\n", (long)getpid(),
           (unsigned long long)(uintptr_t)memory);
    fflush(stdout);
    int error = how->call(how->name, how->is_piece);
    if (asked.is_to_wait)
        wait_with_canary(error);
}

static void use_named(const char *name)
{
    for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++)
        if (strcmp(interfaces[i].name, name) == 0) {
            use(&interfaces[i]);
            return;
        }
    must(false, "no such interface");
}

static void open_client(void)
{
    struct s3r_config *config = s3r_config_new();
    s3r_config_set_credentials(config, S3R_CREDENTIALS_ENVIRONMENT, NULL);
    s3r_config_set_patience_ms(config, asked.patience_ms);
    must(s3r_client_new(config, NULL, &client) == S3R_OK, "no client");
    s3r_config_free(config);
    options = s3r_options_new();
    s3r_options_set_rdma(options, asked.is_required ? S3R_RDMA_REQUIRED : S3R_RDMA_AUTO);
    s3r_options_set_deadline_ms(options, asked.deadline_ms);
    s3r_options_set_cancel(options, asked.is_cancellable ? is_told : NULL, NULL);
}

static void parse(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "krwcp:d:")) != -1) {
        asked.is_kept |= option == 'k';
        asked.is_required |= option == 'r';
        asked.is_to_wait |= option == 'w';
        asked.is_cancellable |= option == 'c';
        if (option == 'p' || option == 'd')
            must(sscanf(optarg, "%lld", option == 'p' ? &asked.patience_ms : &asked.deadline_ms) ==
                     1,
                 "a number");
    }
    must(argc - optind > 3 && sscanf(argv[optind + 2], "%lld", &asked.size) == 1, "usage");
    asked.is_put = strcmp(argv[optind], "put") == 0;
    asked.file = argv[optind + 1];
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    open_client();
    memory = malloc(whole_len());
    must(memory != NULL, "no memory");
    if (asked.is_kept)
        must(s3r_register(client, memory, whole_len(), NULL) == S3R_OK, "cannot register");
    for (int i = optind + 3; i < argc; i++)
        use_named(argv[i]);
    if (asked.is_kept)
        must(s3r_deregister(client, memory, NULL) == S3R_OK, "cannot deregister");
    s3r_options_free(options);
    s3r_client_free(client);
    free(memory);
    return 0;
}
