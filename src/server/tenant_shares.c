/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tenants and what they use. Tenants come from the token file, so that there are not very many. See
 * tenant_shares.h. */
#include "server/tenant_shares.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

enum { SHARES_MAX = 1 << 20 };

struct tenant_shares {
    pthread_mutex_t lock;
    size_t answers;
    struct map map _guarded_by_(lock);
    struct tenant_share **v _guarded_by_(lock);
    size_t n _guarded_by_(lock), cap _guarded_by_(lock);
};

int tenant_shares_new(size_t answers, struct tenant_shares **ret)
{
    struct tenant_shares *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->answers = answers;
    *ret = s;
    return 0;
}

_unshared_ void tenant_shares_free(struct tenant_shares *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        mem_free(s->v[i]);
    map_done(&s->map);
    mem_free(s->v);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static struct tenant_share *add(struct tenant_shares *s, uint64_t hash, const char *tenant) _locked_(s->lock)
{
    struct tenant_share *t = array_reserve(s->v, s->cap, s->n + 1, SHARES_MAX) == 0 ? mem_zalloc(sizeof *t) : NULL;

    if (!t || map_insert(&s->map, hash, (uint32_t) s->n) < 0) {
        mem_free(t);
        return NULL;
    }
    t->answers.limit = s->answers;
    snprintf(t->name, sizeof t->name, "%s", tenant);
    return s->v[s->n++] = t;
}

struct tenant_share *tenant_shares_of(struct tenant_shares *s, const char *tenant)
{
    uint64_t hash = hash64_str(str_from(tenant));
    struct tenant_share *found = NULL;

    pthread_mutex_lock(&s->lock);
    for (struct map_pos p = map_find(&s->map, hash); !found && p.index != MAP_NONE; p = map_next(&s->map, p))
        if (strcmp(s->v[p.index]->name, tenant) == 0)
            found = s->v[p.index];
    if (!found)
        found = add(s, hash, tenant);
    pthread_mutex_unlock(&s->lock);
    return found;
}
