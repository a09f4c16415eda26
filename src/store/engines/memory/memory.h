/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine `memory`: keeps batches as received and answers every query by scanning all of them. It is simple on purpose:
 * it is the reference for the other engines, and is used in tests and demonstrations. One lock protects everything.
 */
#ifndef STORE_ENGINES_MEMORY_MEMORY_H
#define STORE_ENGINES_MEMORY_MEMORY_H

#include <pthread.h>

#include "store/cumulative.h"
#include "store/dedup.h"
#include "store/intake.h"
#include "store/match.h"
#include "store/store.h"

/* One sample type of one stored profile. */
struct memory_item {
    struct batch *batch;
    struct intake_item in; /* values are a private copy */
    struct labels *labels;
    struct id128 labels_id, instance;
    const char *tenant;
    int64_t time_ns;
    int64_t value;
    uint32_t group;
};

struct memory_store {
    struct store store;
    pthread_mutex_t lock;
    struct store_config config;
    struct intake_limits limits;
    struct label_choice choice;
    struct memory_item *items;
    size_t cap;
    uint32_t n;
    struct arena arena; /* labels, tenants, values: not freed before close */
    struct dedup dedup;
    struct intake_memo memo;
    struct cumulative cumulative;
    struct store_stats stats;
};

/* Whether the item belongs to the query's column. */
bool memory_item_matches(const struct memory_store *m, const struct memory_item *it, const struct store_query *q,
                         const struct match *match, const struct store_column *c);
/* Whether the query also selects this sample of it (trace, span, time, detail matchers). */
bool memory_sample_matches(const struct memory_item *it, const struct sample *s, const struct store_query *q,
                           const struct match *match);
/* The value of sample number `index` of the batch, without what was taken at other times than the column selects. */
int64_t memory_sample_value(const struct memory_item *it, uint32_t index, const struct match *match);
/* Appends the text of the attribute of this name that is nearest to the sample: its own, the profile's, the
 * resource's. */
void memory_find_attr(const struct memory_item *it, const struct sample *s, struct str name, struct buf *out);
int memory_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                      struct err *e);

int memory_select(struct store *s, const struct store_query *q, struct tree **ret, struct err *e);
int memory_table(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                 struct store_table *ret, struct err *e);
int memory_spans(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e);
int memory_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct err *e);
int memory_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e);
int memory_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);

#endif
