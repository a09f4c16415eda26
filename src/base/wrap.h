/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic on numbers chosen by a sender. A sum or difference of two such numbers may not fit into 64 bits: these
 * functions wrap around, as Go's pprof does, where C's signed operators would be undefined. A value that becomes an
 * index is computed as a double and clamped instead.
 */
#ifndef BASE_WRAP_H
#define BASE_WRAP_H

#include <stdint.h>

static inline int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t) ((uint64_t) a + (uint64_t) b);
}

static inline void wrap_inc(int64_t *sum, int64_t v)
{
    *sum = wrap_add(*sum, v);
}

static inline int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t) ((uint64_t) a - (uint64_t) b);
}

static inline int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t) ((uint64_t) a * (uint64_t) b);
}

/* b != 0. */
static inline int64_t wrap_div(int64_t a, int64_t b)
{
    return b == -1 ? wrap_sub(0, a) : a / b;
}

/* The absolute value of the smallest number is itself. */
static inline int64_t wrap_abs(int64_t v)
{
    return v < 0 ? wrap_sub(0, v) : v;
}

/* Go's int64(float64) on amd64: the smallest number for a value that does not fit. */
static inline int64_t wrap_int64(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t) v : INT64_MIN;
}

/* The nearest int64_t; 0 for NaN. A plain cast of a double out of range is undefined. */
static inline int64_t clamp_double(double v)
{
    if (v != v)
        return 0;
    if (v >= 0x1p63)
        return INT64_MAX;
    return v < -0x1p63 ? INT64_MIN : (int64_t) v;
}

#endif
