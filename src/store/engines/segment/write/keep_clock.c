/* SPDX-License-Identifier: Apache-2.0 */
/* The trusted time that retention uses, which a jump of the wall clock does not affect; see keep_clock.h. */
#include "store/engines/segment/write/keep_clock.h"

#include "base/clock.h"
#include "base/macros.h"

#define BELIEVED_BEHIND (86400 * NS_PER_S)

void keep_clock_confirm(struct keep_clock *c, int64_t wall, int64_t boot)
{
    *c = (struct keep_clock){.base = wall, .boot = boot};
}

void keep_clock_start(struct keep_clock *c, int64_t last, int64_t wall, int64_t boot, int64_t credit)
{
    bool believed = last <= 0 || (wall >= last && wall - last <= credit);

    keep_clock_confirm(c, believed ? wall : last, boot);
}

int64_t keep_clock_time(const struct keep_clock *c, int64_t boot)
{
    return c->base + MAX(boot - c->boot, 0);
}

int64_t keep_clock_now(struct keep_clock *c, int64_t wall, int64_t boot)
{
    int64_t time = keep_clock_time(c, boot);

    if (wall >= time) {
        c->behind_since = 0;
        return time;
    }
    if (!c->behind_since)
        c->behind_since = boot;
    if (boot - c->behind_since > BELIEVED_BEHIND)
        keep_clock_confirm(c, wall, boot);
    return wall;
}
