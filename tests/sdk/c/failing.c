/* SPDX-License-Identifier: Apache-2.0 */
/* GETs that fail, many of them: failing miniocpp|s3r BUCKET COUNT
 * One third each: a key that is missing, a wrong secret key, and a server that declines the window,
 * at DECLINING_ENDPOINT. Prints what the process holds after a tenth of the calls and at the end.
 */
#include "content.h"

#include <dirent.h>
#include <miniocpp/c_api.h>
#include <s3r/client.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define LEN 65536

static const char *bucket;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why ? why : "no error was kept");
    exit(1);
}

/* kB of a line of /proc/self/status */
static uint64_t status(const char *name)
{
    char line[256];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = number(line + strlen(name));
    if (f)
        fclose(f);
    return kib;
}

static int descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void print_held(const char *when)
{
    printf("\"%s\": {\"descriptors\": %d, \"registered\": %llu, \"locked\": %llu, "
           "\"resident\": %llu}",
           when, descriptors(), (unsigned long long)s3r_registered_bytes(NULL),
           (unsigned long long)status("VmLck:") * 1024,
           (unsigned long long)status("VmRSS:") * 1024);
}

/* 0, 1, 2: missing, wrong secret, declined. */
typedef void get_fn(int kind, char *memory);

static const char *secret_of(int kind)
{
    return kind == 1 ? "not the secret" : getenv("AWS_SECRET_ACCESS_KEY");
}

/* ---- miniocpp/c_api.h ---- */

static miniocpp_client *mini[3];

static void mini_begin(void)
{
    for (int kind = 0; kind < 3; kind++) {
        mini[kind] =
            miniocpp_client_new(getenv(kind == 2 ? "DECLINING_ENDPOINT" : "S3RDMA_TEST_ENDPOINT"),
                                "", getenv("AWS_ACCESS_KEY_ID"), secret_of(kind), "", 0);
        if (!mini[kind])
            fail("miniocpp_client_new", miniocpp_last_error());
    }
}

/* Declined, it goes on by HTTP; there the object turns out to be too large. */
static void mini_get(int kind, char *memory)
{
    static const char *const words[] = {"NoSuchKey", "SignatureDoesNotMatch", "the object has"};
    ssize_t n = miniocpp_get_object(mini[kind], bucket, kind == 2 ? "large" : "missing", memory,
                                    LEN, NULL, NULL);
    if (n != MINIOCPP_ERR_GENERIC ||
        strncmp(miniocpp_last_error(), words[kind], strlen(words[kind])) != 0)
        fail(words[kind], miniocpp_last_error());
}

static void mini_end(void)
{
    for (int kind = 0; kind < 3; kind++)
        miniocpp_client_free(mini[kind]);
}

/* ---- s3r/client.h ---- */

static struct s3r_client *own[3];
static struct s3r_options *required;

static void own_begin(void)
{
    char url[128];
    struct s3r_result *r = s3r_result_new();
    required = s3r_options_new();
    s3r_options_set_rdma(required, S3R_RDMA_REQUIRED);
    for (int kind = 0; kind < 3; kind++) {
        struct s3r_config *c = s3r_config_new();
        snprintf(url, sizeof(url), "http://%s",
                 getenv(kind == 2 ? "DECLINING_ENDPOINT" : "S3RDMA_TEST_ENDPOINT"));
        s3r_config_set_endpoint(c, url);
        s3r_config_set_keys(c, getenv("AWS_ACCESS_KEY_ID"), secret_of(kind), NULL);
        if (s3r_client_new(c, r, &own[kind]) != S3R_OK)
            fail("s3r_client_new", s3r_result_message(r));
        s3r_config_free(c);
    }
    s3r_result_free(r);
}

static void own_get(int kind, char *memory)
{
    static const int errors[] = {S3R_ERROR_NO_SUCH_KEY, S3R_ERROR_SIGNATURE,
                                 S3R_ERROR_RDMA_REQUIRED};
    struct s3r_result *r = s3r_result_new();
    int e = s3r_get(own[kind], bucket, kind == 2 ? "large" : "missing", memory, LEN,
                    kind == 2 ? required : NULL, r);
    if (e != errors[kind])
        fail(s3r_error_name(errors[kind]), s3r_result_message(r));
    s3r_result_free(r);
}

static void own_end(void)
{
    for (int kind = 0; kind < 3; kind++)
        s3r_client_free(own[kind]);
    s3r_options_free(required);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    bool is_mini = strcmp(argv[1], "miniocpp") == 0;
    uint64_t count = number(argv[3]);
    char *kept = miniocpp_alloc_aligned(LEN), *plain = calloc(1, LEN);
    bucket = argv[2];
    if (!kept || !plain)
        return 1;
    (is_mini ? mini_begin : own_begin)();
    get_fn *get = is_mini ? mini_get : own_get;
    for (uint64_t i = 1; i <= count; i++) {
        /* memory that stays registered, and memory that is for each call */
        get((int)(i % 3), i / 3 % 2 ? kept : plain);
        if (i == count / 10) {
            printf("{");
            print_held("early");
        }
    }
    printf(", ");
    print_held("late");
    miniocpp_free_aligned(kept);
    free(plain);
    (is_mini ? mini_end : own_end)();
    printf(", ");
    print_held("after");
    printf("}\n");
    return 0;
}
