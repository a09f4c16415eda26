/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's heap, allocs, mutex and block profiles count since the start of the program. This converts a scrape to what
 * happened since the previous one, per stack and labels. A restart of the program is detected by counts that went down.
 * One per target and type; used by one thread.
 */
#ifndef PIPELINE_SCRAPE_DELTA_H
#define PIPELINE_SCRAPE_DELTA_H

#include "base/err.h"

struct batch;
struct delta;

int delta_new(struct delta **ret);
void delta_free(struct delta *d);
/* Changes b, which comes directly from its decoder, in place: columns of cumulative types become differences (0 on the
 * first scrape, which is only remembered), others are unchanged; samples whose values are all 0 are removed. Returns 1
 * if there was a scrape before, 0 on the first, or -ENOMEM, -E2BIG. */
int delta_apply(struct delta *d, struct batch *b);

#endif
