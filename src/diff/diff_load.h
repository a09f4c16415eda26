/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of `wick diff`: each side is one or more of them, files or wick:// selections (pprof_wick.h), with commas
 * between. Every profile becomes a tree of functions of one sample type.
 */
#ifndef DIFF_DIFF_LOAD_H
#define DIFF_DIFF_LOAD_H

#include "client/ask.h"
#include "model/tree.h"

enum { DIFF_PROFILES_MAX = 256 };

struct diff_profile {
    struct tree *tree;   /* with totals */
    int64_t duration_ns; /* 0: not known */
};

struct diff_side {
    struct diff_profile v[DIFF_PROFILES_MAX];
    uint32_t n;
};

struct diff_input {
    struct diff_side sides[2]; /* old, new */
    struct str type, unit;
    struct arena arena;
};

/* Loads both sides. type: the sample type, NULL: the default of the first profile. target: the token for servers. */
int diff_load(const char *old, const char *new, const char *type, const struct ask_target *target,
              struct diff_input *ret, struct err *e);
void diff_input_done(struct diff_input *d);

#endif
