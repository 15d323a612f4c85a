/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what a person sees of a transfer: a bar while it runs, one line after it.
 * Does:     adds up the pieces of a transfer; says what carried it, how fast, and why not RDMA.
 * Not here: errors (cli_fail()).
 * Units:    bytes; GB are 10^9 bytes.
 * Owns:     a tally owns the headers it keeps, until tally_fini().
 * Threads:  owner of the standard streams.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_TOOLS_REPORT_H
#define S3R_TOOLS_REPORT_H

#include "tools/cli.h"

struct tally {
    const struct cli *cli;
    const char *op, *bucket, *key, *file; /* file NULL: a standard stream */
    uint64_t total;                       /* expected, 0: not known */
    uint64_t rdma_len, http_len;
    uint64_t http_pieces, pieces;
    unsigned requests;
    char provider[16];
    enum client_reason reason; /* of the first piece that went by HTTP */
    char why[S3R_DIAG_MAX];
    char etag[ETAG_SIZE];
    bool is_verified;
    bool has_crc64;
    uint64_t crc64;
    struct headers headers; /* of the last reply */
    int64_t start_ns, drawn_ns;
    bool is_bar, is_drawn;
};

/* Begins the clock. */
void tally_init(struct tally *t, const struct cli *cli, const struct address *a, const char *file);
void tally_fini(struct tally *t);
/* One piece has moved. Takes the headers of the result. */
void tally_add(struct tally *t, struct client_result *result);
/* A client_options.on_progress; arg is the tally. */
void tally_progress(void *arg, uint64_t bytes_of_piece);
/* Takes the bar away. */
void tally_clear(struct tally *t);
/* The bar goes, the line comes (with --headers the reply's headers before it). */
void tally_report(struct tally *t);
/* "name: value" lines. */
void print_headers(const struct headers *headers);
/* Base64 of the 8 bytes. */
void print_crc64(uint64_t crc, char out[16]);

#endif
