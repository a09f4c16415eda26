/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock that retention uses. The wall clock may be wrong: it may jump by a year when a battery is empty, a virtual
 * machine is restored, or an administrator enters a wrong date. Deleting by such a clock would delete everything.
 * Therefore the time of retention advances only
 *   - as it passes for this server (CLOCK_BOOTTIME, which no jump moves and which counts suspended time),
 *   - while the server was down, as far as the wall clock is not ahead by more than `credit` (a quarter of the shortest
 *     retention): a restart, an upgrade, a night,
 *   - when a user confirms the wall clock (`wick store confirm clock`, POST /api/v1/store/confirm?what=clock).
 * Otherwise data is kept longer than configured; retention by size still bounds it. The time is saved in the catalogue.
 *
 * Retention never uses a time later than the wall clock: when that is set back, data that arrives with the corrected
 * time must not appear old. A wall clock that stays behind for a day is trusted, since the earlier time was wrong.
 *
 * There are no locks here; the owner must hold one.
 */
#ifndef SEGMENT_KEEP_CLOCK_H
#define SEGMENT_KEEP_CLOCK_H

#include <stdint.h>

struct keep_clock {
    int64_t base, boot;   /* the trusted time, and the boot clock at that moment */
    int64_t behind_since; /* boot clock when the wall clock was first seen behind; 0: it is not behind */
};

/* last: the saved time, or that of the newest data if none was saved; 0 for an empty store. */
void keep_clock_start(struct keep_clock *c, int64_t last, int64_t wall, int64_t boot, int64_t credit);
/* The trusted time, whatever the wall clock shows. */
int64_t keep_clock_time(const struct keep_clock *c, int64_t boot);
/* The time for retention: the trusted time, but never later than the wall clock. */
int64_t keep_clock_now(struct keep_clock *c, int64_t wall, int64_t boot);
/* A user confirms that the wall clock is right. */
void keep_clock_confirm(struct keep_clock *c, int64_t wall, int64_t boot);

#endif
