/* SPDX-License-Identifier: Apache-2.0 */
/* crew_report.h - what a person or a script sees of many transfers.
 * Does:     one bar for all; a line for each job (--json) and one for all of them.
 * Not here: errors (cli_fail()); one transfer alone (report.h).
 * Units:    bytes; GB are 10^9 bytes.
 * Owns:     nothing.
 * Threads:  under the crew's lock.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_TOOLS_CREW_REPORT_H
#define S3R_TOOLS_CREW_REPORT_H

#include "tools/crew.h"

struct crew_sums {
    size_t jobs, done, same, failed;
    size_t cut; /* ended, or not begun, because of ^C or a silent server */
    int code;   /* of those that failed */
    uint64_t rdma_len, http_len, kept_len;
    uint64_t http_pieces;
    char provider[16];
    enum client_reason reason; /* of the first piece that went by HTTP */
    char why[S3R_DIAG_MAX];
    uint64_t requests;
    int64_t start_ns;
};

void crew_sums_add(struct crew_sums *s, const struct client_result *result);
void crew_sums_report(const struct crew_sums *s, const struct cli *cli);
/* With --json or --dry-run. */
void crew_tell_job(const struct cli *cli, const struct job *j);

struct crew_bar {
    bool is_wanted, is_drawn;
    uint64_t total_len, done_len;
    int64_t drawn_ns;
};

/* Wanted on a terminal, but with --json or --quiet. */
void crew_bar_init(struct crew_bar *b, const struct cli *cli);
void crew_bar_draw(struct crew_bar *b, const struct crew_sums *s, uint64_t in_flight);
void crew_bar_clear(struct crew_bar *b);

#endif
