/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks, the format of flamegraph.pl: a line per stack, frames from the root to the leaf with ';' between them,
 * a space, a number.
 *
 *     main;parse;read_[k] 12
 *
 * Suffixes are async-profiler's: _[j] compiled Java, _[0] interpreted, _[1] compiled by C1, _[i] inlined into the frame
 * before it, _[k] kernel. They become profile.frame.type (jvm, kernel) and lines of one location (inlined). '#' starts
 * a comment line.
 */
#ifndef CODEC_FOLDED_H
#define CODEC_FOLDED_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct batch;
struct profile;

struct folded_options {
    struct str type, unit; /* of the numbers; empty = samples, count */
    size_t memory;         /* limit of the batch, 0 = none */
};

/* True if text begins like folded stacks: its first line that is not a comment has frames, a space and a number. */
bool folded_probe(struct str text);
/* Every line is a sample, in order. -EINVAL with an error message that names the invalid line. opts may be NULL. */
int folded_decode(struct str text, const struct folded_options *opts, struct batch **ret, struct err *e);
/* Appends type `type` of profile p: equal stacks are summed and sorted, stacks of value 0 left out. ';' in a name
 * becomes ':', a line end a space. With annotate, kernel, Java and inlined frames carry their suffix. */
int folded_encode(const struct batch *b, const struct profile *p, uint32_t type, bool annotate, struct buf *out,
                  struct err *e);

#endif
