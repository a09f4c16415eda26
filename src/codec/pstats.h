/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the files that Python's cProfile and profile write (`python -m cProfile -o FILE`), which the module pstats loads: a
 * dictionary, marshalled,
 *
 *   {(file, line, function): (primitive calls, calls, own time, cumulative time, {caller: (calls, primitive calls, own, cumulative)})}
 *
 * It has no stacks, only pairs of caller and function. Each pair becomes a stack of two frames, and a function that nothing
 * called one of a single frame; the values are calls/count and wall/nanoseconds, the own time. Own times add up to the total.
 */
#ifndef CODEC_PSTATS_H
#define CODEC_PSTATS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct batch;

/* True if data begins like a marshalled dictionary whose first key is a tuple. */
bool pstats_probe(struct str data);
int pstats_decode(struct str data, size_t memory, struct batch **ret, struct err *e);

#endif
