/* SPDX-License-Identifier: Apache-2.0 */
/* linger.h - windows that could not be withdrawn, and what stays for them.
 * Does:     keeps them and ends them once their server lets go: withdraws, closes, deregisters,
 *           frees copies in host memory.
 * Not here: the withdrawal while the transfer runs (carry.h).
 * Units:    none.
 * Owns:     the windows, the registrations made for them, copies of a GPU's memory.
 * Threads:  any; linger_forget() owner.
 * Errors:   none: what cannot be ended stays.
 * Limits:   none. */
#ifndef S3R_CLIENT_LINGER_H
#define S3R_CLIENT_LINGER_H

#include "client/call.h"
#include "client/stage.h"

#include <stdbool.h>

struct owner_window;

/* `registered`: the memory whose registration ends with the window; NULL: it is the caller's own.
 * Takes the window and what `stage` holds. */
void linger_add(struct client *c, struct owner_window *window, void *registered,
                struct stage *stage);
/* Tries once more to end them; true when none is left. Each that cannot be costs a bounded wait. */
bool linger_end(struct client *c);
/* Nobody asks for them any more; they stay as they are. */
void linger_forget(struct client *c);

#endif
