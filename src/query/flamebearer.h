/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's flame graph format, which Grafana renders. Each level lists its bars from left to right, each as
 *
 *     x, total, self, name                                  one column
 *     x, total, self, x, total, self, name                  a diff: base, then new
 *
 * where x is the distance from the end of the previous bar and name is an index into names: 0 is "total", any other is
 * the index of a frame in the tree + 1.
 */
#ifndef QUERY_FLAMEBEARER_H
#define QUERY_FLAMEBEARER_H

#include "base/buf.h"
#include "model/tree.h"

struct flamebearer {
    int64_t *values;
    size_t *level_at; /* n_levels + 1: level i is values[level_at[i] .. level_at[i + 1]) */
    uint32_t n_levels;
    uint32_t n_names;  /* name 0 is that of the root */
    uint32_t *frames;  /* per name: its frame in the tree */
    uint32_t *numbers; /* per frame: its name, 0 = it does not occur */
    int64_t ticks[2], max_self;
    struct arena arena;
};

int flamebearer_make(const struct tree *t, struct flamebearer *ret);
void flamebearer_done(struct flamebearer *f);
/* Name i of n_names; allocated in the arena where a frame has no name. */
struct str flamebearer_name(struct flamebearer *f, const struct tree *t, uint32_t i);
/* {"names":[],"levels":[[…]],"numTicks":N,"maxSelf":N} */
int flamebearer_json(struct buf *out, const struct tree *t);

#endif
