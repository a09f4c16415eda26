/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's heap, allocs, mutex and block profiles count since the program began. This turns one scrape into what happened
 * since the one before it, per stack and labels. A program that was started again is noticed: its counts went down.
 * One per target and type; used by one thread.
 */
#ifndef PIPELINE_SCRAPE_DELTA_H
#define PIPELINE_SCRAPE_DELTA_H

#include "base/err.h"

struct batch;
struct delta;

int delta_new(struct delta **ret);
void delta_free(struct delta *d);
/* Changes b, fresh from its decoder, in place: columns of cumulative types become differences (nothing on the first
 * scrape, which only remembers), others stay; samples of which nothing is left go. Returns 1 when there was a scrape
 * before, 0 on the first, or -ENOMEM, -E2BIG. */
int delta_apply(struct delta *d, struct batch *b);

#endif
