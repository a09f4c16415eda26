/* SPDX-License-Identifier: Apache-2.0 */
/* The suite that every engine passes: store_conformance() in a test of its own with TAP around it. */
#ifndef TESTS_STORE_CONFORMANCE_H
#define TESTS_STORE_CONFORMANCE_H

#include "store/store.h"

/* How the stored data lies when the questions come. Engines that rest nowhere are asked in the first way only. */
enum settle { SETTLE_FRESH, SETTLE_FLUSHED, SETTLE_COMPACTED, SETTLE_REOPENED, SETTLES };

struct suite {
    const struct store_ops *ops;
    struct store_config config;
    enum settle settle;
    struct store *store;
    bool neighbour; /* everything is appended for a second tenant as well, which no question may see */
    void (*after)(struct suite *s); /* clears away what a test left; NULL = nothing */
};

int64_t suite_now(void);
extern int64_t suite_clock; /* what suite_now() says */

/* Brings the suite's store into its way of lying; the store may be another one afterwards. */
void suite_settle(struct suite *s);
void store_conformance(struct suite *s);

/* A tree as sorted lines "path self [self2]", for comparing. To be freed by buf_done. */
void dump_tree(struct buf *out, const struct tree *t);
/* All answers of a store to a list of questions, as text: two engines with the same data give the same. */
void dump_answers(struct buf *out, struct store *s, int64_t from, int64_t to);

#endif
