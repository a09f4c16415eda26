/* SPDX-License-Identifier: Apache-2.0 */
/* The suite that every engine must pass: a test calls store_conformance() with TAP around it. */
#ifndef TESTS_STORE_CONFORMANCE_H
#define TESTS_STORE_CONFORMANCE_H

#include "store/store.h"

/* The state of the stored data when it is queried. Engines without storage are tested only in the first state. */
enum settle { SETTLE_FRESH, SETTLE_FLUSHED, SETTLE_COMPACTED, SETTLE_REOPENED, SETTLES };

struct suite {
    const struct store_ops *ops;
    struct store_config config;
    enum settle settle;
    struct store *store;
    bool neighbour;                 /* everything is also appended for a second tenant, which no query may see */
    void (*after)(struct suite *s); /* cleans up after a test; may be NULL */
};

int64_t suite_now(void);
extern int64_t suite_clock; /* returned by suite_now() */

/* Brings the suite's store into the configured state; s->store may be another one afterwards. */
void suite_settle(struct suite *s);
void store_conformance(struct suite *s);

/* Writes a tree as sorted lines "path self [self2]", for comparison. To be freed with buf_done(). */
void dump_tree(struct buf *out, const struct tree *t);
/* Writes all answers of a store to a list of queries as text: two engines with the same data give the same text. */
void dump_answers(struct buf *out, struct store *s, int64_t from, int64_t to);

#endif
