/* SPDX-License-Identifier: Apache-2.0 */
/* How many bytes a tenant may have of something, asked whenever it matters, so that a changed configuration applies at once. */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include <stdint.h>

#include "base/macros.h"

struct quota {
    uint64_t (*of)(void *ctx, const char *tenant); /* tenant NULL: of all together. Any thread; NULL: no quota */
    void *ctx;
};

/* The lower of the quota and another limit. */
static inline uint64_t quota_of(const struct quota *q, const char *tenant, uint64_t limit)
{
    return q->of ? MIN(q->of(q->ctx, tenant), limit) : limit;
}

#endif
