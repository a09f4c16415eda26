/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which of two sources of one process is counted (process_sources.h). */
#include "store/process_sources.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/batch.h"
#include "model/identity.h"
#include "model/semconv.h"

enum { PROCESSES_MAX = 65536, COUNTED_MAX = 6 };
static const int64_t START_ERROR = 2 * NS_PER_S; /* sources round start times to seconds */
static const int64_t JOINED_MAX = 600 * NS_PER_S;
static const int64_t VALUE_MAX = INT64_MAX >> 8; /* larger ones are not added, so that sums do not overflow */

/* What was counted lately: one profile, or several successive ones of a source. */
struct sources_counted {
    uint64_t source, complement; /* id128.lo */
    int64_t start, end, value;
    int64_t left; /* of value: not yet subtracted from profiles of the source that leads */
};

struct sources_process {
    struct id128 process, number; /* number: zero: not known */
    struct id128 source;          /* the one that leads */
    int64_t until;                /* the end of its profiles */
    int64_t started;              /* 0: unknown */
    int64_t period;               /* of the one that leads; 0: unknown */
    enum sources_rank rank, kind;
    uint32_t n;
    struct sources_counted counted[COUNTED_MAX]; /* the oldest first */
};

static const struct value *find(const struct kvs *k, const char *key)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (str_is(k->v[i].key, key))
            return &k->v[i].value;
    return NULL;
}

static struct str find_text(const struct kvs *k, const char *key)
{
    const struct value *x = find(k, key);

    return x && x->kind == VALUE_STR ? value_str(x) : (struct str){0};
}

/* The file name of the program. */
static struct str program(const struct resource *r)
{
    struct str path = find_text(&r->attrs, SEMCONV_PROCESS_EXECUTABLE_PATH);

    if (!path.n)
        path = find_text(&r->attrs, SEMCONV_PROCESS_EXECUTABLE_NAME);
    for (uint32_t i = path.n; i-- > 0;)
        if (path.p[i] == '/')
            return (struct str){path.p + i + 1, path.n - i - 1};
    return path;
}

/* An agent of a host sends no SDK's name. The scopes are those of wick's, OpenTelemetry's and Parca's. */
static enum sources_rank rank_of(const struct scope *s, struct str sdk)
{
    if (str_is(s->name, "wick"))
        return sdk.n ? SOURCES_LIBWICK : SOURCES_AGENT;
    if (!sdk.n && (str_find(s->name, STR("ebpf")) >= 0 || str_find(s->name, STR("parca")) >= 0))
        return SOURCES_AGENT;
    return s->name.n || sdk.n ? SOURCES_SDK : SOURCES_SCRAPED;
}

static bool is_set(struct id128 id)
{
    return id.hi | id.lo;
}

static struct id128 number_of(struct id128 tenant, struct str number, struct str type)
{
    struct hash128_state h;

    hash128_init(&h, tenant.lo);
    hash128_bytes(&h, number.p, number.n);
    hash128_bytes(&h, type.p, type.n);
    return hash128_final(&h);
}

static struct str host_of(const struct resource *r)
{
    struct str host = find_text(&r->attrs, SEMCONV_HOST_NAME);

    return host.n ? host : find_text(&r->attrs, "host.id");
}

/* A process by its names: host, program and pid; false when the resource lacks one of them. */
static bool hash_names(const struct resource *r, struct hash128_state *h)
{
    const struct value *pid = find(&r->attrs, SEMCONV_PROCESS_PID);
    struct str host = host_of(r), exe = program(r);

    if (!pid || pid->kind != VALUE_INT || pid->integer <= 1 || !host.n || !exe.n)
        return false;
    hash128_bytes(h, host.p, host.n);
    hash128_bytes(h, exe.p, exe.n);
    hash128_u64(h, (uint64_t) pid->integer);
    return true;
}

struct id128 sources_instance(const struct resource *r)
{
    static const char *const apart[] = {SEMCONV_CONTAINER_ID, "k8s.pod.uid", "k8s.pod.name"};
    struct hash128_state h;

    hash128_init(&h, 5);
    if (!hash_names(r, &h))
        return identity_resource(r);
    for (size_t i = 0; i < sizeof apart / sizeof apart[0]; i++) {
        struct str v = find_text(&r->attrs, apart[i]);

        hash128_bytes(&h, v.p, v.n);
    }
    return hash128_final(&h);
}

static struct id128 source_of(struct str scope, struct str sdk)
{
    struct hash128_state h;

    hash128_init(&h, 0);
    hash128_bytes(&h, scope.p, scope.n);
    hash128_bytes(&h, sdk.p, sdk.n);
    return hash128_final(&h);
}

bool sources_identify(struct id128 tenant, const struct resource *r, const struct scope *s, struct str type,
                      struct sources_profile *ret)
{
    struct str started = find_text(&r->attrs, "process.creation.time");
    struct str number = find_text(&r->attrs, SEMCONV_WICK_PROCESS), sdk;
    struct hash128_state h;

    ret->number = number.n ? number_of(tenant, number, type) : (struct id128){0};
    ret->process = ret->number;
    hash128_init(&h, tenant.lo);
    hash128_bytes(&h, type.p, type.n);
    if (hash_names(r, &h))
        ret->process = hash128_final(&h);
    if (!is_set(ret->process))
        return false;
    ret->started = 0;
    if (started.n && clock_parse(started, 0, &ret->started, NULL) < 0)
        ret->started = 0;
    sdk = find_text(&r->attrs, "telemetry.sdk.name");
    ret->rank = ret->kind = rank_of(s, sdk);
    ret->source = source_of(s->name, ret->rank == SOURCES_LIBWICK ? STR("libwick") : sdk);
    ret->complement = (struct id128){0};
    if (ret->rank == SOURCES_AGENT && find(&s->attrs, SEMCONV_WICK_LEAVES_OUT))
        ret->complement = source_of(s->name, STR("libwick"));
    return true;
}

static struct sources_process *find_by(struct sources *s, struct id128 id)
{
    for (struct map_pos p = map_find(&s->map, hash64_id(id)); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (id128_eq(s->v[p.index].process, id) || id128_eq(s->v[p.index].number, id))
            return &s->v[p.index];
    return NULL;
}

/* Those that are still there come back with their next profile. */
static void forget_all(struct sources *s)
{
    s->n = s->n_numbers = 0;
    map_reset(&s->map);
}

/* By its number, else by its names. *ret_other: it has the names of a process that had another number. */
static struct sources_process *find_process(struct sources *s, const struct sources_profile *p, bool *ret_other)
{
    struct sources_process *x = is_set(p->number) ? find_by(s, p->number) : NULL;

    *ret_other = false;
    if (!x)
        x = find_by(s, p->process);
    if (!x || !is_set(p->number) || id128_eq(x->number, p->number))
        return x;
    *ret_other = is_set(x->number);
    if (map_insert(&s->map, hash64_id(p->number), (uint32_t) (x - s->v)) == 0) {
        x->number = p->number;
        s->n_numbers++;
    }
    return x;
}

static struct sources_process *add_process(struct sources *s, const struct sources_profile *p)
{
    if (array_reserve(s->v, s->cap, s->n + 1, PROCESSES_MAX) < 0 ||
        map_insert(&s->map, hash64_id(p->process), (uint32_t) s->n) < 0 ||
        (is_set(p->number) && map_insert(&s->map, hash64_id(p->number), (uint32_t) s->n) < 0))
        return NULL;
    return &s->v[s->n++];
}

static void lead(struct sources_process *x, const struct sources_profile *p)
{
    x->source = p->source;
    x->rank = p->rank;
    x->kind = p->kind;
    x->period = p->period;
    x->until = p->end;
    for (uint32_t i = 0; i < x->n; i++)
        x->counted[i].left = x->counted[i].value;
}

/* Whether a source samples clearly more often than another. Rates that are meant to be equal may differ: 99 and 100 Hz. */
static bool is_denser(int64_t period, int64_t than)
{
    return period > 0 && than > 0 && period < than - than / 3;
}

/* Whether a source leads rather than the one that does. */
static bool precedes(const struct sources_profile *p, const struct sources_process *x)
{
    if (p->rank != x->rank)
        return p->rank > x->rank;
    if (p->rank == SOURCES_SPANS && is_denser(p->period, x->period))
        return true;
    if (p->rank == SOURCES_SPANS && is_denser(x->period, p->period))
        return false;
    if (p->kind != x->kind)
        return p->kind > x->kind;
    return p->source.hi != x->source.hi ? p->source.hi < x->source.hi : p->source.lo < x->source.lo;
}

/* Which share of what was counted lies in the time of the profile. Either may be a point in time. */
static double share_of(const struct sources_counted *c, const struct sources_profile *p)
{
    int64_t from = MAX(c->start, p->start), to = MIN(c->end, p->end);

    if (c->start >= c->end || p->start >= p->end)
        return from <= to;
    return from < to ? (double) (to - from) / (double) (c->end - c->start) : 0;
}

/* Takes out what was counted of other sources, and returns what is left of the value. */
static int64_t subtract(struct sources_process *x, const struct sources_profile *p)
{
    int64_t value = p->value;

    for (uint32_t i = 0; i < x->n; i++) {
        struct sources_counted *c = &x->counted[i];
        int64_t part;

        if (c->source == p->source.lo || c->complement == p->source.lo)
            continue;
        part = (int64_t) ((double) c->value * share_of(c, p));
        part = MIN(MIN(part, c->left), value);
        c->left -= part;
        value -= part;
    }
    return value;
}

/* Makes room: two successive profiles of a source become one, or the oldest is forgotten. */
static void forget_oldest(struct sources_process *x)
{
    const struct sources_counted *old = &x->counted[0];
    struct sources_counted *next = &x->counted[1];

    if (next->source == old->source && next->complement == old->complement && next->start >= old->start &&
        next->end - old->start <= JOINED_MAX && next->start - old->end <= next->end - next->start &&
        next->value <= VALUE_MAX && old->value <= VALUE_MAX) {
        next->start = old->start;
        next->end = MAX(next->end, old->end);
        next->value += old->value;
        next->left += old->left;
    }
    memmove(&x->counted[0], &x->counted[1], (COUNTED_MAX - 1) * sizeof x->counted[0]);
    x->n--;
}

static void remember(struct sources_process *x, const struct sources_profile *p, int64_t value)
{
    struct sources_counted *last = x->n ? &x->counted[x->n - 1] : NULL;

    value = MIN(value, VALUE_MAX);
    if (last && last->source == p->source.lo && last->complement == p->complement.lo && last->start == p->start &&
        last->end == p->end && last->value <= VALUE_MAX) {
        last->value += value;
        last->left += value;
        return;
    }
    if (x->n == COUNTED_MAX)
        forget_oldest(x);
    x->counted[x->n++] = (struct sources_counted){p->source.lo, p->complement.lo, p->start, p->end, value, value};
}

static bool is_another_process(const struct sources_process *x, const struct sources_profile *p)
{
    return x->started && p->started &&
           (p->started > x->started ? p->started - x->started : x->started - p->started) > START_ERROR;
}

bool sources_count(struct sources *s, const struct sources_profile *p, int64_t *ret)
{
    struct sources_process *x;
    bool is_known, is_other;

    *ret = p->value;
    if (s->n >= PROCESSES_MAX || s->n_numbers >= PROCESSES_MAX)
        forget_all(s);
    x = find_process(s, p, &is_other);
    is_known = x != NULL;
    if (!x)
        x = add_process(s, p);
    if (!x)
        return true;
    if (!is_known || is_other || is_another_process(x, p)) /* the pid was used again */
        *x = (struct sources_process){.process = p->process,
                                      .number = p->number,
                                      .source = p->source,
                                      .rank = p->rank,
                                      .period = p->period,
                                      .until = p->end};
    x->started = x->started ? x->started : p->started;
    if (is_set(p->complement) && id128_eq(x->source, p->complement)) {
        remember(x, p, p->value);
        return true;
    }
    if (!id128_eq(x->source, p->source)) {
        if (!precedes(p, x) && p->start < x->until + SOURCES_SILENCE)
            return false;
        lead(x, p);
    }
    x->rank = MAX(x->rank, p->rank);
    x->period = p->period ? p->period : x->period;
    x->until = MAX(x->until, p->end);
    *ret = subtract(x, p);
    remember(x, p, *ret);
    return true;
}

void sources_done(struct sources *s)
{
    mem_free(s->v);
    map_done(&s->map);
    *s = (struct sources){0};
}
