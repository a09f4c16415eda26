/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the values of resource attributes and chooses those that are labels, see label_choice.h. Values and sets are
 * counted by their hashes: two that collide count as one, which does no harm here. */
#include "store/label_choice.h"

#include <errno.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/batch.h"
#include "model/labels.h"
#include "store/match.h"

enum {
    NAMES_MAX = 1024,
    COUNTS_MAX = 8192,
    TENANTS_MAX = 1024,
    NAME_BYTES = 100,
    VALUE_SIZE_MAX = 200,
    ALLOW_MAX = 63
};
#define TURN_EVERY (12 * 3600 * NS_PER_S)

struct choice_name {
    const char *text;
};

struct choice_count {
    struct id128 tenant;
    uint32_t name, n;
    bool dropped;     /* it had too many values */
    uint64_t *values; /* hashes of the last half day, at most label_choice.values */
};

struct choice_sets {
    struct id128 tenant;
    struct map map;
    uint64_t *keys;
    size_t cap;
    uint32_t n;
};

void label_choice_done(struct label_choice *c)
{
    for (uint32_t i = 0; i < c->n_counts; i++)
        mem_free(c->counts[i].values);
    for (uint32_t i = 0; i < c->n_sets; i++) {
        map_done(&c->sets[i].map);
        mem_free(c->sets[i].keys);
    }
    mem_free(c->counts);
    mem_free(c->sets);
    mem_free(c->names);
    map_done(&c->name_map);
    map_done(&c->count_map);
    arena_done(&c->names_arena);
    *c = (struct label_choice){.allow = c->allow, .values = c->values};
}

/* --- which attributes may be chosen --- */

static bool ends_in(struct str name, struct str word)
{
    return name.n > word.n && memcmp(name.p + name.n - word.n, word.p, word.n) == 0 &&
           strchr("._-/", name.p[name.n - word.n - 1]);
}

/* Whether an attribute identifies one process, file or moment, by its name. */
static bool is_identity(struct str name)
{
    static const char *const last[] = {"id",   "uid",  "uuid", "guid", "pid",       "ppid",    "tid",  "ip",
                                       "mac",  "hash", "time", "date", "timestamp", "address", "port", "path",
                                       "args", "line", "vpid", "gnu",  "go",        "htlhash", "url"};

    if (str_starts(name, STR("wick.")) || str_starts(name, STR("process.command")) ||
        str_starts(name, STR("process.environment_variable")) || str_eq(name, STR("pid")))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(last); i++)
        if (ends_in(name, str_from(last[i])))
            return true;
    return false;
}

static bool may_be_label(const struct kv *kv)
{
    if (!kv->key.n || kv->key.n > NAME_BYTES || str_starts(kv->key, STR("__")) || is_identity(kv->key))
        return false;
    if (kv->value.kind == VALUE_STR)
        return value_str(&kv->value).n && value_str(&kv->value).n <= VALUE_SIZE_MAX;
    return kv->value.kind == VALUE_INT || kv->value.kind == VALUE_BOOL;
}

/* --- counting --- */

/* The number of a name, added if it is new. -E2BIG when there are too many. */
static int find_name(struct label_choice *c, struct str name, uint32_t *ret)
{
    uint64_t h = label_name_hash(name);
    int r;

    for (struct map_pos p = map_find(&c->name_map, h); p.index != MAP_NONE; p = map_next(&c->name_map, p))
        if (label_name_eq(str_from(c->names[p.index].text), name)) {
            *ret = p.index;
            return 0;
        }
    if (c->n_names >= NAMES_MAX)
        return -E2BIG;
    r = array_reserve(c->names, c->cap_names, (size_t) c->n_names + 1, NAMES_MAX);
    if (r < 0)
        return r;
    c->names[c->n_names].text = arena_cstr(&c->names_arena, label_canonical_name(name));
    if (!c->names[c->n_names].text)
        return -ENOMEM;
    r = map_insert(&c->name_map, h, c->n_names);
    if (r == 0)
        *ret = c->n_names++;
    return r;
}

static int find_count(struct label_choice *c, struct id128 tenant, uint32_t name, struct choice_count **ret)
{
    uint64_t h = hash_mix(hash64_id(tenant) ^ name, 0x9e3779b97f4a7c15ull);
    struct choice_count *x;
    int r;

    for (struct map_pos p = map_find(&c->count_map, h); p.index != MAP_NONE; p = map_next(&c->count_map, p))
        if (c->counts[p.index].name == name && id128_eq(c->counts[p.index].tenant, tenant)) {
            *ret = &c->counts[p.index];
            return 0;
        }
    if (c->n_counts >= COUNTS_MAX)
        return -E2BIG;
    r = array_reserve(c->counts, c->cap_counts, (size_t) c->n_counts + 1, COUNTS_MAX);
    if (r < 0)
        return r;
    x = &c->counts[c->n_counts];
    *x = (struct choice_count){.tenant = tenant, .name = name, .values = mem_alloc(c->values * sizeof *x->values)};
    if (!x->values)
        return -ENOMEM;
    r = map_insert(&c->count_map, h, c->n_counts);
    if (r < 0) {
        mem_free(x->values);
        return r;
    }
    c->n_counts++;
    *ret = x;
    return 0;
}

/* Counts a value. Returns whether its attribute is a label. */
static bool count_value(const struct label_choice *c, struct choice_count *x, uint64_t value)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->values[i] == value)
            return !x->dropped;
    if (x->n == c->values)
        x->dropped = true;
    else
        x->values[x->n++] = value;
    return !x->dropped;
}

static int find_sets(struct label_choice *c, struct id128 tenant, struct choice_sets **ret)
{
    int r;

    for (uint32_t i = 0; i < c->n_sets; i++)
        if (id128_eq(c->sets[i].tenant, tenant)) {
            *ret = &c->sets[i];
            return 0;
        }
    if (c->n_sets >= TENANTS_MAX)
        return -E2BIG;
    r = array_reserve(c->sets, c->cap_sets, (size_t) c->n_sets + 1, TENANTS_MAX);
    if (r < 0)
        return r;
    c->sets[c->n_sets] = (struct choice_sets){.tenant = tenant};
    *ret = &c->sets[c->n_sets++];
    return 0;
}

/* Counts a set of chosen labels. -E2BIG when there are too many different ones. */
static int count_set(struct label_choice *c, struct id128 tenant, uint64_t key)
{
    struct choice_sets *s;
    int r = find_sets(c, tenant, &s);

    if (r < 0)
        return r;
    for (struct map_pos p = map_find(&s->map, key); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (s->keys[p.index] == key)
            return 0;
    if (s->n >= LABEL_CHOICE_SETS)
        return -E2BIG;
    r = array_reserve(s->keys, s->cap, (size_t) s->n + 1, LABEL_CHOICE_SETS);
    if (r == 0)
        r = map_insert(&s->map, key, s->n);
    if (r == 0)
        s->keys[s->n++] = key;
    return r;
}

/* Counts anew twice a day; an attribute that had few values meanwhile may be a label again. */
static void turn(struct label_choice *c, int64_t now)
{
    if (c->turned && now - c->turned < TURN_EVERY && now >= c->turned)
        return;
    c->turned = now;
    for (uint32_t i = 0; i < c->n_counts; i++) {
        c->counts[i].dropped = c->counts[i].dropped && c->counts[i].n > c->values / 2;
        c->counts[i].n = 0;
    }
    for (uint32_t i = 0; i < c->n_sets; i++) {
        map_reset(&c->sets[i].map);
        c->sets[i].n = 0;
    }
}

static uint64_t hash_value(const struct value *v)
{
    uint64_t number = v->kind == VALUE_BOOL ? v->boolean : v->kind == VALUE_INT ? (uint64_t) v->integer : 0;

    return v->kind == VALUE_STR ? hash64_str(value_str(v)) : hash_mix(number ^ v->kind, 0x9e3779b97f4a7c15ull);
}

/* --- choosing --- */

static bool is_listed(const char *const *list, uint32_t n, struct str name)
{
    for (uint32_t i = 0; i < n; i++)
        if (label_name_eq(str_from(list[i]), name))
            return true;
    return false;
}

int label_choice_pick(struct label_choice *c, struct id128 tenant, const struct resource *r, int64_t now,
                      struct arena *a, const char *const **ret)
{
    uint64_t set = 0;
    uint32_t n_allow = 0, n, max;
    const char **v;
    int rc = 0;

    *ret = c->allow;
    while (c->allow[n_allow])
        n_allow++;
    if (!c->values || n_allow >= ALLOW_MAX)
        return 0;
    turn(c, now);
    max = MIN(n_allow + LABEL_CHOICE_MAX, ALLOW_MAX);
    v = arena_zalloc_array(a, max + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    memcpy(v, c->allow, n_allow * sizeof *v);
    n = n_allow;
    for (uint32_t i = 0; i < r->attrs.n && n < max; i++) {
        const struct kv *kv = &r->attrs.v[i];
        struct choice_count *count = NULL;
        uint64_t value = hash_value(&kv->value);
        uint32_t name = 0;

        if (!may_be_label(kv) || is_listed(v, n, kv->key))
            continue;
        rc = find_name(c, kv->key, &name);
        if (rc == 0)
            rc = find_count(c, tenant, name, &count);
        if (rc == -ENOMEM)
            return rc;
        if (rc < 0 || !count_value(c, count, value))
            continue;
        v[n++] = c->names[name].text;
        set += hash_mix(value ^ name, 0x9e3779b97f4a7c15ull); /* in any order */
    }
    rc = n > n_allow ? count_set(c, tenant, set) : 0;
    if (rc == 0)
        *ret = v;
    return rc == -ENOMEM ? rc : 0;
}
