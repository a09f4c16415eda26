/* SPDX-License-Identifier: Apache-2.0 */
/* Times are int64 nanoseconds since the Unix epoch (wall) or since boot (monotonic); durations int64 nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define NS_PER_US 1000ll
#define NS_PER_MS 1000000ll
#define NS_PER_S 1000000000ll

int64_t clock_wall(void);
int64_t clock_mono(void);
int64_t clock_boot(void); /* since boot, including the time that the machine was suspended */
int64_t clock_cpu(void); /* CPU time of this process */
struct rusage;
int64_t clock_rusage(const struct rusage *u); /* user and system CPU time in u */

/* The range of parsed times is 1970 to 2116: times outside it are clamped. Parsed durations are not longer than CLOCK_MAX.
 * The sum or difference of any two of them therefore fits, and the end of the last step of a range as well. */
#define CLOCK_MAX (((int64_t) 1 << 62) - 1)
#define CLOCK_MIN ((int64_t) 0)
/* "now", "now-1h", RFC 3339 ("2026-11-15T10:00:00Z", offset or fraction allowed), Unix seconds, ms, us or ns
 * (distinguished by magnitude). now is the time that "now" stands for. */
int clock_parse(struct str s, int64_t now, int64_t *ret, struct err *e);
/* "1h30m", "10s", "250ms", "7d", a bare number is seconds. */
int clock_parse_duration(struct str s, int64_t *ret, struct err *e);
/* RFC 3339 in UTC, with a fraction if it is not zero. */
void clock_format(struct buf *b, int64_t t);

#endif
