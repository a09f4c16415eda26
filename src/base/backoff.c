/* SPDX-License-Identifier: Apache-2.0 */
/* The lengths of pauses between attempts (backoff.h). */
#include "base/backoff.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/macros.h"

/* A number in [0, 1). The hash has a random key, so a counter is enough. */
static double random_unit(void)
{
    static _Atomic uint64_t counter;

    return (double) (hash64_u64(atomic_fetch_add(&counter, 1)) >> 11) * 0x1p-53;
}

int64_t backoff_next(const struct backoff *b, int64_t *pause)
{
    double now = (double) (*pause > 0 ? *pause : b->first);

    *pause = (int64_t) MIN(now * MAX(b->factor, 1.0), (double) b->max);
    return (int64_t) (now * (1 - b->spread + 2 * b->spread * random_unit()));
}
