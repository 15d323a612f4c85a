/* SPDX-License-Identifier: Apache-2.0 */
/* attr.h - what the compiler should know about a function, and scoped clean-up.
 * Does:     names the attributes used here; CLEANUP and STEAL for locals that own something.
 * Not here: the destroyers themselves: each module has `<thing>_destroyp(struct thing **)`.
 * Units:    none.
 * Owns:     nothing.
 * Threads:  any.
 * Errors:   none.
 * Limits:   none. */
#ifndef S3R_BASE_ATTR_H
#define S3R_BASE_ATTR_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define UNUSED __attribute__((unused))

/* A local that is handed to `fn(&local)` when it goes out of scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Takes the pointer out of a CLEANUP local: the caller owns it from here. */
#define STEAL(ptr)                                                                                 \
    __extension__({                                                                                \
        __typeof__(ptr) stolen_ = (ptr);                                                           \
        (ptr) = NULL;                                                                              \
        stolen_;                                                                                   \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* For malloc'd memory: CLEANUP(freep) char *p. */
void freep(void *pointer_to_pointer);
/* For file descriptors: CLEANUP(closep) int fd = -1. */
void closep(int *fd);

#endif
