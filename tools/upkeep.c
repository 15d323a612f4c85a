/* SPDX-License-Identifier: Apache-2.0 */
#include "upkeep.h"

#include "base/log.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_DAMAGE = 1, EXIT_USAGE = 2 };

static int print_report(const struct store_scrub_report *r)
{
    printf("objects %" PRIu64 ", files %" PRIu64 ", bytes %" PRIu64 ", bad blocks %" PRIu64
           ", missing files %" PRIu64 ", orphans removed %" PRIu64 "\n",
           r->objects, r->files, r->bytes, r->bad_blocks, r->missing_files, r->orphans_removed);
    return r->bad_blocks || r->missing_files ? EXIT_DAMAGE : 0;
}

static int report_failure(const char *command, int rc, const struct diag *diag)
{
    fprintf(stderr, "s3rdmad %s: %s\n", command, diag_text(diag, rc));
    return EXIT_DAMAGE;
}

static int scrub(const char *dir, bool is_deep)
{
    struct store_config config = {.dir = dir, .is_direct = true};
    struct store_scrub_report report = {0};
    struct diag diag = {0};
    struct store *s;
    int rc = store_open(&config, &diag, &s);
    if (rc)
        return report_failure("scrub", rc, &diag);
    rc = store_scrub(s, is_deep, &diag, &report);
    store_close(s);
    return rc ? report_failure("scrub", rc, &diag) : print_report(&report);
}

static int rebuild(const char *dir)
{
    struct store_scrub_report report = {0};
    struct diag diag = {0};
    int rc = store_rebuild(dir, &diag, &report);
    return rc ? report_failure("rebuild", rc, &diag) : print_report(&report);
}

bool upkeep_run(int argc, char **argv, int *ret_exit)
{
    bool is_scrub = argc > 1 && strcmp(argv[1], "scrub") == 0;
    bool is_rebuild = argc > 1 && strcmp(argv[1], "rebuild") == 0;
    bool is_deep = is_scrub && argc == 4 && strcmp(argv[3], "--deep") == 0;
    if (!is_scrub && !is_rebuild)
        return false;
    log_set_sink(log_to_stderr, NULL);
    if ((argc != 3 && !is_deep) || argv[2][0] == '-') {
        fprintf(stderr, "usage: s3rdmad scrub DIR [--deep] | s3rdmad rebuild DIR\n");
        *ret_exit = EXIT_USAGE;
    } else {
        *ret_exit = is_scrub ? scrub(argv[2], is_deep) : rebuild(argv[2]);
    }
    return true;
}
