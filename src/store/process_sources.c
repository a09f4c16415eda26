/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which of two sources of one process is counted (process_sources.h). */
#include "store/process_sources.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/batch.h"
#include "model/semconv.h"

enum { PROCESSES_MAX = 65536 };
static const int64_t START_ERROR = 2 * NS_PER_S; /* sources round start times to seconds */

struct sources_process {
    struct id128 process;
    struct id128 source;    /* the one that is counted */
    struct id128 successor; /* takes precedence, and is counted from the end of what was counted on; zero: none */
    int64_t until;          /* the end of what was counted */
    int64_t started;        /* 0: unknown */
    enum sources_rank rank, successor_rank;
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
    return SOURCES_SDK;
}

bool sources_identify(struct id128 tenant, const struct resource *r, const struct scope *s, struct str type,
                      struct sources_profile *ret)
{
    const struct value *pid = find(&r->attrs, SEMCONV_PROCESS_PID);
    struct str host = find_text(&r->attrs, SEMCONV_HOST_NAME), exe = program(r), sdk;
    struct str started = find_text(&r->attrs, "process.creation.time");
    struct hash128_state h;

    if (!host.n)
        host = find_text(&r->attrs, "host.id");
    if (!pid || pid->kind != VALUE_INT || pid->integer <= 1 || !host.n || !exe.n)
        return false;
    hash128_init(&h, tenant.lo);
    hash128_bytes(&h, host.p, host.n);
    hash128_bytes(&h, exe.p, exe.n);
    hash128_bytes(&h, type.p, type.n);
    hash128_u64(&h, (uint64_t) pid->integer);
    ret->process = hash128_final(&h);
    ret->started = 0;
    if (started.n && clock_parse(started, 0, &ret->started, NULL) < 0)
        ret->started = 0;
    sdk = find_text(&r->attrs, "telemetry.sdk.name");
    ret->rank = rank_of(s, sdk);
    /* wick's agent leaves out what libwick sends, sample by sample: together they are one source, unless the agent was
     * configured to sample both. */
    sdk = str_is(s->name, "wick") ? STR("") : sdk;
    hash128_init(&h, find(&s->attrs, "wick.both") != NULL);
    hash128_bytes(&h, s->name.p, s->name.n);
    hash128_bytes(&h, sdk.p, sdk.n);
    ret->source = hash128_final(&h);
    return true;
}

static struct sources_process *find_process(struct sources *s, struct id128 id)
{
    for (struct map_pos p = map_find(&s->map, hash64_id(id)); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (id128_eq(s->v[p.index].process, id))
            return &s->v[p.index];
    return NULL;
}

static void add_process(struct sources *s, const struct sources_profile *p)
{
    if (s->n >= PROCESSES_MAX) { /* those that are still there come back with their next profile */
        s->n = 0;
        map_reset(&s->map);
    }
    if (map_insert(&s->map, hash64_id(p->process), (uint32_t) s->n) == 0 &&
        array_push(s->v, s->n, s->cap, PROCESSES_MAX,
                   (struct sources_process){p->process, p->source, {0}, p->end, p->started, p->rank, 0}) < 0)
        map_reset(&s->map);
}

static bool is_none(struct id128 id)
{
    return !id.hi && !id.lo;
}

static void take_over(struct sources_process *x, const struct sources_profile *p)
{
    x->source = p->source;
    x->successor = (struct id128){0};
    x->until = MAX(x->until, p->end);
    x->rank = p->rank;
}

/* Whether a source is counted rather than another. */
static bool precedes(enum sources_rank rank, struct id128 source, enum sources_rank other_rank, struct id128 other)
{
    if (rank != other_rank)
        return rank > other_rank;
    return source.hi != other.hi ? source.hi < other.hi : source.lo < other.lo;
}

static void find_successor(struct sources_process *x, const struct sources_profile *p)
{
    if (!precedes(p->rank, p->source, x->rank, x->source) ||
        (!is_none(x->successor) && !precedes(p->rank, p->source, x->successor_rank, x->successor)))
        return;
    x->successor = p->source;
    x->successor_rank = p->rank;
}

bool sources_count(struct sources *s, const struct sources_profile *p)
{
    struct sources_process *x = find_process(s, p->process);
    bool is_silent;

    if (!x) {
        add_process(s, p);
        return true;
    }
    if (x->started && p->started &&
        (p->started > x->started ? p->started - x->started : x->started - p->started) >
            START_ERROR) { /* another process got the pid */
        *x = (struct sources_process){p->process, p->source, {0}, p->end, p->started, p->rank, 0};
        return true;
    }
    x->started = x->started ? x->started : p->started;
    is_silent = p->start >= x->until + SOURCES_SILENCE;
    if (id128_eq(x->source, p->source)) {
        if (!is_none(x->successor) && !is_silent && p->start >= x->until)
            return false; /* the successor is about to take over */
        if (is_silent)
            x->successor = (struct id128){0};
        x->rank = MAX(x->rank, p->rank);
        x->until = MAX(x->until, p->end);
        return true;
    }
    if (is_silent) {
        take_over(x, p);
        return true;
    }
    find_successor(x, p);
    if (!id128_eq(x->successor, p->source) || p->start < x->until)
        return false;
    take_over(x, p);
    return true;
}

void sources_done(struct sources *s)
{
    mem_free(s->v);
    map_done(&s->map);
    *s = (struct sources){0};
}
