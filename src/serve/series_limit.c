/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the series of a tenant and refuses new ones over the limit, see series_limit.h. Keys are hashes: two series
 * that collide count as one, which does no harm here. */
#include "serve/series_limit.h"

#include <errno.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "model/batch.h"
#include "model/labels.h"
#include "store/fingerprints.h"

enum { RESOURCES_MAX = 32768, SERIES_MAX = 64 << 20 };
#define TURN_EVERY (12 * 3600 * NS_PER_S)

static uint32_t find(const struct series_set *s, uint64_t key)
{
    for (struct map_pos p = map_find(&s->map, key); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (s->keys[p.index] == key)
            return p.index;
    return MAP_NONE;
}

static int add(struct series_set *s, uint64_t key)
{
    int r = array_reserve(s->keys, s->cap, (size_t) s->n + 1, SERIES_MAX);

    if (r == 0)
        r = map_insert(&s->map, key, s->n);
    if (r == 0)
        s->keys[s->n++] = key;
    return r;
}

static void set_done(struct series_set *s)
{
    map_done(&s->map);
    mem_free(s->keys);
    *s = (struct series_set){0};
}

/* A hash of the labels of a resource, cached by the hash of the whole resource: most batches repeat the resources of
 * the previous one. */
static int labels_of(struct series_limit *s, const struct batch *b, const struct resource *r, uint64_t *ret)
    _locked_(s->lock)
{
    uint64_t print = hash64_id(fingerprints_resource(r));
    uint32_t known = find(&s->resources, print);
    struct labels l;
    struct arena a;
    int rc;

    if (known != MAP_NONE) {
        *ret = s->labels[known];
        return 0;
    }
    if (s->resources.n == RESOURCES_MAX) {
        map_reset(&s->resources.map);
        s->resources.n = 0;
    }
    arena_init(&a, 0);
    rc = labels_from_resource(b, r, s->allow, &a, &l);
    if (rc == 0)
        *ret = hash64_id(labels_id(&l));
    arena_done(&a);
    if (rc == 0)
        rc = array_reserve(s->labels, s->cap_labels, (size_t) s->resources.n + 1, RESOURCES_MAX);
    if (rc == 0)
        s->labels[s->resources.n] = *ret;
    return rc < 0 ? rc : add(&s->resources, print);
}

static int take_one(struct series_limit *s, uint64_t key, int64_t max) _locked_(s->lock)
{
    if (find(&s->now, key) != MAP_NONE)
        return 0;
    if (find(&s->before, key) == MAP_NONE && s->now.n >= max)
        return -EDQUOT;
    return add(&s->now, key);
}

static int take_profile(struct series_limit *s, const struct batch *b, const struct profile *p, uint64_t labels,
                        int64_t max) _locked_(s->lock)
{
    int r = 0;

    for (uint32_t t = 0; r == 0 && t < p->n_types; t++) {
        uint64_t type = hash64_str(batch_string(b, p->types[t].type)),
                 unit = hash64_str(batch_string(b, p->types[t].unit));

        r = take_one(s, hash_mix(labels ^ type, unit | 1), max);
    }
    return r;
}

static int take_batch(struct series_limit *s, const struct batch *b, int64_t max) _locked_(s->lock)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->n_resources; i++) {
        const struct resource *res = &b->resources[i];
        uint64_t labels = 0;

        r = labels_of(s, b, res, &labels);
        for (uint32_t k = 0; r == 0 && k < res->scopes.n; k++) {
            struct run profiles = b->scopes[res->scopes.off + k].profiles;

            for (uint32_t m = 0; r == 0 && m < profiles.n; m++)
                r = take_profile(s, b, &b->profiles[profiles.off + m], labels, max);
        }
    }
    return r;
}

static void turn(struct series_limit *s) _locked_(s->lock)
{
    int64_t now = clock_mono();

    if (now - s->turned < TURN_EVERY)
        return;
    s->turned = now;
    set_done(&s->before);
    s->before = s->now;
    s->now = (struct series_set){0};
}

int series_limit_take(struct series_limit *s, const struct batch *b, int64_t max)
{
    int r;

    if (max <= 0)
        return 0;
    pthread_mutex_lock(&s->lock);
    turn(s);
    r = take_batch(s, b, max);
    pthread_mutex_unlock(&s->lock);
    return r;
}

void series_limit_init(struct series_limit *s)
{
    *s = (struct series_limit){.allow = labels_default_allow, .turned = clock_mono()};
    pthread_mutex_init(&s->lock, NULL);
}

_unshared_ void series_limit_done(struct series_limit *s)
{
    set_done(&s->now);
    set_done(&s->before);
    set_done(&s->resources);
    mem_free(s->labels);
    pthread_mutex_destroy(&s->lock);
}
