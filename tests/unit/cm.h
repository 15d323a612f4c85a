/* SPDX-License-Identifier: Apache-2.0 */
/* cm.h - cmocka with the includes that it needs, in the order that it needs them. */
#ifndef S3R_TESTS_CM_H
#define S3R_TESTS_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
