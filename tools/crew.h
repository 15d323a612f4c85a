/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - many transfers in flight: threads, each with one registered buffer, and a queue of jobs.
 * Does:     runs jobs, the pieces of a large one on several threads at once; adds up what moved;
 *           draws one bar for all of it; collects errors.
 * Not here: what a job does (moves.h).
 * Units:    bytes.
 * Owns:     a job from crew_add() until its kind's `free`. Buffers are the threads': at most
 *           threads times the largest piece.
 * Threads:  crew_add() before crew_run(); what is marked (hand) by the threads of the crew.
 * Errors:   crew_report(): an exit code: that of the failed jobs when all failed alike, EXIT_FAILED
 *           when they did not, EXIT_STOPPED after ^C.
 * Limits:   CREW_MAX threads. */
#ifndef S3R_TOOLS_CREW_H
#define S3R_TOOLS_CREW_H

#include "tools/cli.h"

#define CREW_MAX 256
#define CREW_DEFAULT 8
#define CREW_PART_LEN (16 * MIB) /* by default: eight of them are in flight */

struct crew;
struct hand; /* a thread of the crew */
struct job;

struct job_kind {
    const char *op; /* for --json */
    /* All of the job, or its preparation: then it sets `pieces`, and they follow. (hand) */
    int (*begin)(struct job *j, struct hand *h);
    int (*piece)(struct job *j, struct hand *h, size_t index);
    /* After the last piece, with the first error. Also after an error of begin(). Returns the error
     * of the whole. (hand) */
    int (*end)(struct job *j, struct hand *h, int error);
    void (*free)(struct job *j);
};

/* Embedded at the start of each job. */
struct job {
    const struct job_kind *kind;
    const char *from, *to; /* for messages; `to` may be NULL; they live as long as the job */
    uint64_t len;          /* expected, for the bar */
    struct diag diag;      /* of the first error, under the crew's lock */
    /* What carried it; under the crew's lock. */
    uint64_t rdma_len, http_len, kept_len; /* kept: was there from an interrupted run */
    bool is_verified, has_crc64;
    uint64_t crc64;
    char etag[ETAG_SIZE];
    bool is_compared; /* first: what has the same bytes stays as it is, */
    bool is_same;     /* which is what was found */
    /* the crew's */
    struct job *next;
    size_t pieces, given, out;
    int error;
    uint64_t credited;
};

int crew_create(struct cli *cli, struct crew **ret_crew) MUST_CHECK;
void crew_destroyp(struct crew **crew);
void crew_add(struct crew *crew, struct job *j);
/* A line on standard error, the bar out of its way. */
void crew_note(struct crew *crew, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Something that could not become a job: counts as one that failed. */
void crew_fault(struct crew *crew, const char *about, int error, const struct diag *diag);
/* Until all jobs have ended, one at a time or many (--parallel). Can be called again with others.
 */
void crew_run(struct crew *crew);
/* So many need no job: they are as they should be. */
void crew_add_same(struct crew *crew, size_t count);
/* --dry-run */
bool crew_is_dry(const struct crew *crew);
/* True when all there was to do was done. */
bool crew_is_clean(const struct crew *crew);
/* A line that sums up. The exit code of all. */
int crew_report(struct crew *crew);

/* ---- (hand) ---- */

struct cli *hand_cli(const struct hand *h);
/* The thread's buffer with room for `len` bytes, registered where that is possible. */
int hand_memory(struct hand *h, size_t len, struct diag *diag,
                struct client_memory *ret_memory) MUST_CHECK;
/* A server may still write the buffer: it is left as it is, for good. */
void hand_give_up_memory(struct hand *h);
/* Options of a transfer of this command, with progress. */
void hand_options(struct hand *h, struct client_options *ret_options);
/* A call has moved bytes of the job; `result` may be of a failed one. */
void hand_moved(struct hand *h, struct job *j, const struct client_result *result);
/* A call that moves nothing. */
void hand_asked(struct hand *h, const struct client_result *result);
/* What was wrong with a piece; the first who says it is heard. */
void hand_says(struct hand *h, struct job *j, const struct diag *diag, int error);
/* Ends an upload for good, once the crew is done: also after ^C. */
void hand_abort(struct hand *h, const char *bucket, const char *key, const char *upload_id);
/* Bytes that did not have to move. */
void hand_kept(struct hand *h, struct job *j, uint64_t len);

#endif
