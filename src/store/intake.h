/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first step of every engine with a batch: decides which profiles are accepted, under which canonical type, with
 * which labels and at which time. One item is one sample type of one profile.
 *
 *   - start 0 becomes the time of receipt; outside the window the profile is refused, with a message that names it;
 *   - a count whose product with the period is exactly its sibling's time (Go's samples and cpu) is not stored twice:
 *     the sibling records it as its twin, and an exported profile contains both again;
 *   - what a second source sends of a process gets a type of its own, of CPU time cpu_also (process_sources.h); a profile of which a part
 *     is counted becomes two items;
 *   - cumulative types are differenced here (cumulative.h), so items carry their own values where they differ.
 */
#ifndef STORE_INTAKE_H
#define STORE_INTAKE_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/map.h"
#include "model/batch.h"
#include "model/labels.h"
#include "model/sink.h"
#include "model/types.h"
#include "store/cumulative.h"
#include "store/fingerprints.h"
#include "store/label_choice.h"
#include "store/process_sources.h"

struct store_config;

struct intake_item {
    uint32_t resource, scope, profile; /* indices into the batch */
    uint32_t type_index;               /* which of the profile's types */
    struct type type;
    int64_t scale; /* values are multiplied by it */
    bool has_twin; /* a sibling counts the same in periods: its twin */
    struct value_type twin;
    int64_t twin_scale; /* value = count * twin_scale */
    int64_t *values;    /* one per sample instead of the batch's, or NULL; the sample's timestamps do not apply then */
};

struct intake_profile {
    uint32_t profile, resource, scope;
    int64_t time_ns;
    bool has_key;
    struct id128 key; /* for deduplication */
    uint32_t first_item, n_items;
};

struct intake_resource {
    struct id128 tenant, print; /* fingerprints.h: hash of all that the resource says */
    struct labels labels;
    struct id128 labels_id, sender; /* sender: the resource as it was sent, for deduplication and differences */
    struct id128 instance;          /* of gauges (process_sources.h), stored with the resource */
};

/* Results for resources that were seen recently: an agent sends the same hundreds of them every few seconds. Belongs to
 * one thread. */
struct intake_memo {
    struct intake_resource *v;
    size_t cap;
    uint32_t n;
    struct map map;
    struct arena arena; /* labels */
    struct sources sources;
};
void intake_memo_done(struct intake_memo *m);

struct intake {
    struct intake_resource *resources; /* per resource of the batch */
    struct intake_profile *profiles;   /* the accepted ones */
    struct intake_item *items;
    uint32_t n_profiles, n_items;
    uint64_t rejected;
    char message[256]; /* the reason for the first refusal */
};

struct intake_limits {
    const char *const *allow;
    struct label_choice *choice; /* of further labels; NULL: there are none. It belongs to the memo's thread */
    int64_t max_late, max_early; /* resolved: INT64_MAX = none */
    int64_t now;                 /* set for each batch */
    int64_t believed;            /* another time that may be the right one (keep_clock.h); 0 = none */
};

void intake_limits_init(struct intake_limits *l, const struct store_config *c);
/* Everything in *ret lives in the arena; labels live until the memo is used again. prints: of this batch. */
int intake_plan(struct fingerprints *prints, const struct sink_context *ctx, const struct intake_limits *limits,
                struct intake_memo *memo, struct arena *a, struct intake *ret);
/* Differences cumulative items in place, after the profile was found not to be a duplicate. -ENOMEM or >= 0. */
int intake_difference(const struct batch *b, const struct intake *in, const struct intake_profile *p,
                      struct cumulative *c, struct arena *a);

static inline int64_t intake_scale(int64_t v, int64_t scale)
{
    int64_t r;

    if (__builtin_mul_overflow(v, scale, &r))
        return v < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

/* Whether each timestamp of the sample has a value of its own. */
static inline bool intake_is_stamped(const struct intake_item *it, const struct sample *s)
{
    return s->timestamps.n && !it->values;
}

/* Returns the value of a sample for this item, summed over its timestamps. */
static inline int64_t intake_value(const struct batch *b, const struct intake_item *it, uint32_t sample)
{
    const struct profile *p = &b->profiles[it->profile];
    int64_t v = it->values ? it->values[sample - p->samples.off]
                           : batch_sample_value(b, p, &b->samples[sample], it->type_index);

    return intake_scale(v, it->scale);
}

#endif
