/* SPDX-License-Identifier: Apache-2.0 */
/* The error message of wick_last_error(), kept per thread. */
#ifndef SDK_LAST_ERROR_H
#define SDK_LAST_ERROR_H

#include "base/err.h"
#include "base/macros.h"

/* Stores a code (WICK_E...) and an error message for the calling thread; returns code. */
int last_error_set(int code, const char *fmt, ...) _printf_(2, 3);
/* The same from a negative errno and its message. */
int last_error_from(int r, const struct err *e);
int last_error_code(int r); /* negative errno -> WICK_E... */

#endif
