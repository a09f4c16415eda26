/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock that retention goes by. The wall clock may be wrong: it may jump by a year when a battery is empty, a virtual
 * machine is restored, or somebody types a wrong date. Deleting by such a clock would delete everything. Therefore time
 * passes for retention only
 *   - as it passes for this server (CLOCK_BOOTTIME, which no jump moves and which counts suspended time),
 *   - while the server was down, as far as the wall clock is not ahead by more than `credit` (a quarter of the shortest
 *     retention): a restart, an upgrade, a night,
 *   - when a person confirms the wall clock (`wick store confirm clock`, POST /api/v1/store/confirm?what=clock).
 * Otherwise data is kept longer than configured; retention by size still bounds it. The time is saved in the catalogue.
 *
 * Retention never goes by a time later than the wall clock: when that is moved back, what arrives with the corrected
 * time must not look old. A wall clock that stays behind for a day is believed, because the time before was wrong.
 *
 * No locks: the owner has one.
 */
#ifndef SEGMENT_KEEP_CLOCK_H
#define SEGMENT_KEEP_CLOCK_H

#include <stdint.h>

struct keep_clock {
    int64_t base, boot;   /* the time that is believed, and the boot clock at that moment */
    int64_t behind_since; /* boot clock when the wall clock was first seen behind; 0: it is not behind */
};

/* last: the time that was saved, or of the newest data where none was saved; 0 for an empty store. */
void keep_clock_start(struct keep_clock *c, int64_t last, int64_t wall, int64_t boot, int64_t credit);
/* The time that is believed, whatever the wall clock says. */
int64_t keep_clock_time(const struct keep_clock *c, int64_t boot);
/* The time for retention: that, and never later than the wall clock. */
int64_t keep_clock_now(struct keep_clock *c, int64_t wall, int64_t boot);
/* A person says that the wall clock is right. */
void keep_clock_confirm(struct keep_clock *c, int64_t wall, int64_t boot);

#endif
