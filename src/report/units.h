/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values with units, as pprof scales and prints them. Families: memory (B kB MB GB TB PB, by 1024), time (ns us ms s hrs)
 * and GCU. Within a family values convert; a value of another unit keeps its number.
 *
 * Scaling to "minimum" or "auto" picks the largest unit in which the value is at least 1. Scaling to a unit of another
 * family gives the source family's default unit (B, s, GCU).
 */
#ifndef REPORT_UNITS_H
#define REPORT_UNITS_H

#include "base/buf.h"
#include "base/str.h"

/* The value in unit `to`, and the name to print for it: empty for counts and the like. */
double units_scale(int64_t value, struct str from, struct str to, struct str *ret_unit);
/* "%.2f" without ".00", with the unit; zero has none. */
void units_label(struct buf *out, int64_t value, struct str from, struct str to);
/* "12.34%", at least two digits, right-aligned in 6 columns. */
void units_percentage(struct buf *out, int64_t value, int64_t total);
/* Whether two value types may be merged: equal types (except for a plural s) and units of one family. */
bool units_compatible(struct str type1, struct str unit1, struct str type2, struct str unit2);

/* A conversion prepared once, for many labels. */
struct units_conversion {
    struct str to; /* printed when the source unit is of no family */
    double from_factor, to_factor;
    struct str name; /* of to_factor's unit */
    int8_t family;   /* -1 = none */
    bool automatic;
};
void units_prepare(struct units_conversion *c, struct str from, struct str to);
void units_put(struct buf *out, const struct units_conversion *c, int64_t value);
double units_convert(const struct units_conversion *c, int64_t value, struct str *ret_unit);

#endif
