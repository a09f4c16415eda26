/* SPDX-License-Identifier: Apache-2.0 */
/* The error message of wick_last_error(), kept per thread. */
#ifndef SDK_WORDS_H
#define SDK_WORDS_H

#include "base/err.h"
#include "base/macros.h"

/* Stores a code (WICK_E...) and an error message for the calling thread; returns code. */
int words_set(int code, const char *fmt, ...) _printf_(2, 3);
/* The same from a negative errno and its message. */
int words_from(int r, const struct err *e);
int words_code(int r); /* negative errno -> WICK_E... */

#endif
