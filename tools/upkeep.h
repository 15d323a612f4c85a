/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.h - what s3rdmad does beside serving: the care of a store.
 * Does:     `scrub DIR [--deep]`, `rebuild DIR`, with a report on standard output; `backup DIR
 *           [OPTIONS]` asks the server that these options would start, and that runs.
 * Not here: serving.
 * Units:    bytes, counts.
 * Owns:     nothing.
 * Threads:  owner.
 * Errors:   exit codes: 0 all is well, 1 it failed or found damage, 2 wrong usage.
 * Limits:   none. */
#ifndef S3R_TOOLS_UPKEEP_H
#define S3R_TOOLS_UPKEEP_H

#include <stdbool.h>

/* Is argv[1] one of the commands? Then *ret_exit is what to exit with. */
bool upkeep_run(int argc, char **argv, int *ret_exit);

#endif
