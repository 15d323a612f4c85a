/* SPDX-License-Identifier: Apache-2.0 */
/* s3rdmad: the S3 server. */
#include "base/log.h"
#include "server/server.h"
#include "upkeep.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { EXIT_USAGE = 2 };

static const char usage[] =
    "s3rdmad " S3R_VERSION ": an S3 server that moves objects by RDMA\n"
    "\n"
    "usage: s3rdmad --data DIR [--listen HOST:PORT] [--rdma-device LIST|off] [options]\n"
    "       s3rdmad --help | --version | --print-config\n"
    "       s3rdmad scrub DIR [--deep]    check a store that no server has open, clean up\n"
    "       s3rdmad rebuild DIR           make its index anew from the data files\n"
    "       s3rdmad backup DIR [options]  copy the index of the server that runs with these "
    "options\n"
    "\n"
    "Each option is also a variable (S3RDMA_DATA, S3RDMA_RDMA_DEVICE, ...) and a line\n"
    "`name = value` of the file that --config FILE or S3RDMA_CONFIG names; the command line wins\n"
    "over the variable, the variable over the file. A secret can come from a file\n"
    "(S3RDMA_ROOT_PASSWORD_FILE). Exit codes: 0 stopped by SIGTERM or SIGINT, 1 cannot start,\n"
    "2 wrong usage.\n"
    "\n";

static int print_help(void)
{
    struct text text;
    text_init(&text, 64 * 1024);
    config_help(&text);
    printf("%s%s", usage, text_cstr(&text));
    text_fini(&text);
    return 0;
}

static int print_config(const struct config *config)
{
    struct text text;
    text_init(&text, 64 * 1024);
    config_print(config, &text);
    fputs(text_cstr(&text), stdout);
    text_fini(&text);
    return 0;
}

/* A shell's usual soft limit is below what the connections alone may take. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(const struct config *config)
{
    struct server *server;
    struct diag diag = {0};
    sigset_t stop;
    int signal_number;
    /* blocked before any thread starts, so that only sigwait() takes them */
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    int rc = server_start(config, &diag, &server);
    if (rc) {
        fprintf(stderr, "s3rdmad: %s\n", diag_text(&diag, rc));
        return 1;
    }
    printf("listening on %s\n", server->address);
    fflush(stdout);
    log_info("started version=%s address=%s data=%s rdma=%s", S3R_VERSION, server->address,
             config->data, server->mover ? "on" : "off");
    sigwait(&stop, &signal_number);
    log_info("stopping signal=%d", signal_number);
    server_stop(server);
    log_info("stopped");
    return 0;
}

int main(int argc, char **argv)
{
    struct config config;
    struct diag diag = {0};
    int rc;
    /* Buffers of megabytes go back to the system when freed. By default the allocator learns to
     * keep them, in as many arenas as there were threads at once. Fewer arenas than it would take
     * (8 for each processor): each keeps what is free in it for its own threads. */
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_ARENA_MAX, 2 * get_nprocs());
    if (upkeep_run(argc, argv, &rc))
        return rc;
    rc = config_load(argc, argv, environ, &diag, &config);
    if (rc) {
        fprintf(stderr, "s3rdmad: %s\n", diag_text(&diag, rc));
        return EXIT_USAGE;
    }
    log_set_sink(log_to_stderr, NULL);
    log_set_level((enum log_level)config_level(config.log_level));
    if (config.is_version_wanted)
        rc = printf("s3rdmad %s\n", S3R_VERSION) < 0;
    else if (config.is_help_wanted)
        rc = print_help();
    else if (config.is_print_wanted)
        rc = print_config(&config);
    else
        rc = serve(&config);
    config_fini(&config);
    return rc;
}
