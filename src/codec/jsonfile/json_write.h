/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles for Chrome DevTools and for the Firefox Profiler. */
#ifndef CODEC_JSON_WRITE_H
#define CODEC_JSON_WRITE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct batch;
struct profile;

/* Appends type `type` of profile p as a .cpuprofile: one sample for each stack, in order, whose time is its value. Times are in
 * microseconds; a value of another unit is written as if it were one. Samples of value 0 and less are left out. */
int cpuprofile_encode(const struct batch *b, const struct profile *p, uint32_t type, struct buf *out, struct err *e);
/* Appends type `type` of profile p in the Firefox Profiler's processed format, version 55. A sample's weight is its value: in
 * milliseconds for times, in bytes for sizes, else a count. name is shown as the product. */
int firefox_encode(const struct batch *b, const struct profile *p, uint32_t type, struct str name, struct buf *out,
                   struct err *e);

#endif
