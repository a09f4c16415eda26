/* SPDX-License-Identifier: Apache-2.0 */
/* Growing pauses between attempts, with jitter, so that many clients of one peer do not return to it at the same moment. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t first, max; /* ns */
    double factor;      /* of each pause to the one before; below 1: as 1 */
    double spread;      /* 0.5: a pause is between half and one and a half times its nominal length */
};

/* The length of the next pause. *pause is the state: 0 before the first one and after a success. Any thread. */
int64_t backoff_next(const struct backoff *b, int64_t *pause);

#endif
