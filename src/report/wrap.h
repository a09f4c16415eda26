/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on values of a profile, which may be any numbers: it wraps, as Go's does, and never traps. */
#ifndef REPORT_WRAP_H
#define REPORT_WRAP_H

#include <stdint.h>

static inline void add64(int64_t *to, int64_t v)
{
    *to = (int64_t) ((uint64_t) *to + (uint64_t) v);
}

/* b != 0. */
static inline int64_t div64(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t) (0 - (uint64_t) a) : a / b;
}

/* The absolute value of the smallest number is itself. */
static inline int64_t abs64(int64_t v)
{
    return v < 0 ? (int64_t) (0 - (uint64_t) v) : v;
}

/* Go's int64(float64): what amd64 gives for a value that does not fit. */
static inline int64_t int64_of(double v)
{
    return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t) v : INT64_MIN;
}

#endif
