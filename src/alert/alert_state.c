/* SPDX-License-Identifier: Apache-2.0 */
/* The states of alerts: how findings change them, and when they are forgotten. See alert_state.h. */
#include "alert/alert_state.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

/* How long a resolved alert is kept: Alertmanagers are notified several times; a receiver that is away must be notified, but
 * not for ever. */
#define RESOLVED_KEEP (15 * 60 * NS_PER_S)
#define RESOLVED_MAX (86400 * NS_PER_S)
/* After a longer break (the server was down), the time of a pending alert begins again. */
#define BREAK_MAX (3600 * NS_PER_S)

const char *const alert_stage_names[] = {"pending", "firing", "resolved", NULL};
const char *const alert_unit_names[] = {"share", "rate", "points", "ratio", "seconds", NULL};

void alert_free(struct alert *a)
{
    if (!a)
        return;
    mem_free(a->tenant);
    mem_free(a->rule);
    mem_free(a->service);
    mem_free(a->function);
    mem_free(a->version);
    mem_free(a->summary);
    mem_free(a->link);
    mem_free(a);
}

void alert_states_done(struct alert_states *s)
{
    for (size_t i = 0; i < s->n; i++)
        alert_free(s->v[i]);
    mem_free(s->v);
    *s = (struct alert_states){0};
}

static char *dup_str(struct str s)
{
    char *p = mem_alloc((size_t) s.n + 1);

    if (p) {
        if (s.n)
            memcpy(p, s.p, s.n);
        p[s.n] = 0;
    }
    return p;
}

static int replace(char **at, struct str s)
{
    char *p = dup_str(str_slice(s, 0, ALERT_TEXT_MAX));

    if (!p)
        return -ENOMEM;
    mem_free(*at);
    *at = p;
    return 0;
}

static uint64_t alert_id(struct str tenant, struct str rule, const struct alert_finding *f)
{
    const struct str parts[] = {tenant, rule, f->service, f->function, f->version};
    struct hash128_state h;

    hash128_init(&h, 0x616c657274ull);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        hash128_u64(&h, parts[i].n);
        hash128_bytes(&h, parts[i].p ? parts[i].p : "", parts[i].n);
    }
    return hash128_final(&h).hi;
}

/* --- rules --- */

int alert_states_bind(struct alert_states *s, const struct alert_rules *rules)
{
    struct map m = MAP_INIT;
    int r = map_reserve(&m, rules->n);

    for (uint32_t i = 0; r == 0 && i < rules->n; i++)
        r = map_insert(&m, hash64_str(str_from(rules->v[i].name)), i);
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        struct alert *a = s->v[i];

        a->at = ALERT_NO_RULE;
        for (struct map_pos p = map_find(&m, hash64_str(str_from(a->rule))); p.index != MAP_NONE; p = map_next(&m, p))
            if (strcmp(rules->v[p.index].name, a->rule) == 0 && strcmp(rules->v[p.index].tenant, a->tenant) == 0)
                a->at = p.index;
    }
    map_done(&m);
    return r;
}

/* --- findings --- */

static int new_alert(struct alert_states *s, const struct alert_rules *rules, uint32_t index,
                     const struct alert_finding *f, int64_t now)
{
    const struct alert_rule *r = &rules->v[index];
    _cleanup_(alert_freep) struct alert *a = mem_zalloc(sizeof *a);
    int x;

    if (s->n >= ALERTS_MAX) {
        s->dropped++;
        return 0;
    }
    if (!a)
        return -ENOMEM;
    a->tenant = mem_strdup(r->tenant);
    a->rule = mem_strdup(r->name);
    a->service = dup_str(f->service);
    a->function = dup_str(f->function);
    a->version = dup_str(f->version);
    a->summary = mem_strdup("");
    a->link = mem_strdup("");
    if (!a->tenant || !a->rule || !a->service || !a->function || !a->version || !a->summary || !a->link)
        return -ENOMEM;
    a->id = alert_id(str_from(r->tenant), str_from(r->name), f);
    a->stage = ALERT_RESOLVED; /* found() begins it */
    a->at = index;
    a->active = a->seen = now;
    x = array_push(s->v, s->n, s->cap, ALERTS_MAX, a);
    if (x == 0)
        TAKE(a);
    return x;
}

static int set_stage(struct alert_states *s, struct alert *a, enum alert_stage stage, int64_t now)
{
    if (a->stage == stage)
        return 0;
    a->stage = stage;
    a->since = now;
    a->change = ++s->changes;
    return 1;
}

/* The alert's condition holds. */
static int found(struct alert_states *s, struct alert *a, const struct alert_rule *r, const struct alert_finding *f,
                 int64_t now)
{
    bool is_broken = a->stage == ALERT_PENDING && now - a->seen > MAX(BREAK_MAX, r->hold);
    int x;

    if (a->stage == ALERT_RESOLVED || is_broken)
        a->active = now;
    a->seen = now;
    a->type = r->type;
    a->value = f->value;
    a->limit = f->limit;
    a->unit = f->unit;
    x = replace(&a->summary, f->summary);
    if (x == 0)
        x = replace(&a->link, f->link);
    if (x < 0)
        return x;
    if (a->stage == ALERT_FIRING)
        return 0;
    return set_stage(s, a, now - a->active >= r->hold ? ALERT_FIRING : ALERT_PENDING, now);
}

static void forget(struct alert_states *s, size_t i)
{
    alert_free(s->v[i]);
    s->v[i] = s->v[--s->n];
    s->changes++;
}

/* The findings of one evaluation, and which of them have an alert already. */
struct finding_set {
    const struct alert_finding *v;
    uint64_t *ids;
    bool *known;
    uint32_t n;
    struct map map; /* by id */
};

static const struct alert_finding *find(const struct alert *a, const struct finding_set *set)
{
    for (struct map_pos p = map_find(&set->map, a->id); p.index != MAP_NONE; p = map_next(&set->map, p))
        if (set->ids[p.index] == a->id)
            return &set->v[p.index];
    return NULL;
}

/* Whether nothing is known about the alert's service at present. */
static bool is_skipped(const struct alert *a, const struct finding_set *set)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->v[i].of_service && str_is(set->v[i].service, a->service))
            return true;
    return false;
}

/* The rule's alerts that were there before. Marks the findings that have one. */
static int apply_known(struct alert_states *s, const struct alert_rule *r, uint32_t index, struct finding_set *set,
                       int64_t now)
{
    int changed = 0;

    for (size_t i = s->n; i-- > 0;) {
        struct alert *a = s->v[i];
        const struct alert_finding *f;
        int x = 0;

        if (a->at != index)
            continue;
        f = find(a, set);
        if (f)
            set->known[f - set->v] = true;
        if ((f && f->as_before) || (!f && is_skipped(a, set)))
            continue;
        if (f)
            x = found(s, a, r, f, now);
        else if (a->stage == ALERT_PENDING) {
            forget(s, i);
            x = 1;
        } else if (a->stage == ALERT_FIRING && now - a->seen >= r->keep)
            x = set_stage(s, a, ALERT_RESOLVED, now);
        if (x < 0)
            return x;
        changed += x;
    }
    return changed;
}

static int apply_new(struct alert_states *s, const struct alert_rules *rules, uint32_t index,
                     const struct finding_set *set, int64_t now)
{
    int changed = 0, x = 0;
    size_t of_tenant = 0;

    for (size_t i = 0; i < s->n; i++)
        of_tenant += strcmp(s->v[i]->tenant, rules->v[index].tenant) == 0;
    for (uint32_t i = 0; x >= 0 && i < set->n; i++) {
        size_t before = s->n;

        if (set->known[i] || set->v[i].as_before)
            continue;
        if (of_tenant++ >= ALERTS_OF_TENANT_MAX) {
            s->dropped++;
            continue;
        }
        x = new_alert(s, rules, index, &set->v[i], now);
        if (x == 0 && s->n > before)
            x = found(s, s->v[before], &rules->v[index], &set->v[i], now);
        changed += MAX(x, 0);
    }
    return x < 0 ? x : changed;
}

int alert_states_apply(struct alert_states *s, const struct alert_rules *rules, uint32_t index,
                       const struct alert_finding *v, uint32_t n, int64_t now)
{
    _cleanup_(mem_freep) uint64_t *ids = mem_zalloc_array((size_t) n + 1, sizeof *ids);
    _cleanup_(mem_freep) bool *known = mem_zalloc_array((size_t) n + 1, sizeof *known);
    const struct alert_rule *r = &rules->v[index];
    struct finding_set set = {.v = v, .ids = ids, .known = known, .n = n};
    int changed = 0, more = 0;

    if (!ids || !known)
        return -ENOMEM;
    for (uint32_t i = 0; changed == 0 && i < n; i++) {
        struct alert same;

        same.id = ids[i] = alert_id(str_from(r->tenant), str_from(r->name), &v[i]);
        known[i] = find(&same, &set); /* the same function in two files: the first counts */
        if (!known[i])
            changed = map_insert(&set.map, ids[i], i);
    }
    if (changed == 0)
        changed = apply_known(s, r, index, &set, now);
    if (changed >= 0)
        more = apply_new(s, rules, index, &set, now);
    map_done(&set.map);
    return changed < 0 ? changed : more < 0 ? more : changed + more;
}

/* --- sweeping --- */

static bool is_over(const struct alert *a, int64_t now)
{
    return a->stage == ALERT_RESOLVED && now - a->since > (a->notified ? RESOLVED_MAX : RESOLVED_KEEP);
}

/* The wall clock may have been set back: no time of an alert lies in the future. */
static void set_back(struct alert *a, int64_t now)
{
    a->active = MIN(a->active, now);
    a->since = MIN(a->since, now);
    a->seen = MIN(a->seen, now);
    a->notified_at = MIN(a->notified_at, now);
}

void alert_states_sweep(struct alert_states *s, const struct alert_sweep *w)
{
    for (size_t i = s->n; i-- > 0;) {
        struct alert *a = s->v[i];

        set_back(a, w->now);
        a->notified &= w->used;
        a->remind &= w->webhooks;
        if (a->at == ALERT_NO_RULE && a->stage == ALERT_FIRING)
            set_stage(s, a, ALERT_RESOLVED, w->now);
        if ((a->at == ALERT_NO_RULE && a->stage == ALERT_PENDING) || is_over(a, w->now)) {
            forget(s, i);
            continue;
        }
        if (a->stage == ALERT_FIRING && w->repeat && a->notified & w->webhooks &&
            w->now - a->notified_at >= w->repeat) {
            a->remind |= a->notified & w->webhooks;
            a->notified_at = w->now;
        }
    }
}
