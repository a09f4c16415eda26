/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and checks the process context in which a process publishes the profile types that it sends. */
#include "agent/own_profiles.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/bpf/agent_abi.h"
#include "agent/process.h"
#include "base/clock.h"
#include "model/semconv.h"

enum { CONTEXT_BYTES = 1 << 20 };
static const uint64_t PAUSE_FOUND_NS = NS_PER_S / 10, PAUSE_MIN_NS = NS_PER_S, PAUSE_MAX_NS = 300ull * NS_PER_S,
                      NEW_NS = NS_PER_S / 2, PAUSE_LIKELY_MAX_NS = 5ull * NS_PER_S;

static unsigned type_bit(struct str name)
{
    return str_is(str_trim(name), "cpu") ? OWN_CPU : 0;
}

static unsigned types_of(const struct value *v)
{
    unsigned types = 0;
    struct str rest;

    if (v->kind == VALUE_ARRAY) {
        for (uint32_t i = 0; i < v->n; i++)
            types |= v->array[i].kind == VALUE_STR ? type_bit(value_str(&v->array[i])) : 0;
        return types;
    }
    if (v->kind != VALUE_STR)
        return 0;
    for (rest = value_str(v); rest.n;)
        types |= type_bit(str_cut(&rest, ','));
    return types;
}

unsigned own_profiles_types(const struct process_context *c)
{
    for (uint32_t i = 0; i < c->attributes.n; i++)
        if (str_is(c->attributes.v[i].key, SEMCONV_WICK_PROFILE_TYPES))
            return types_of(&c->attributes.v[i].value);
    return 0;
}

static void take_id(struct own_profiles *o, const struct process_context *c)
{
    o->id[0] = 0;
    for (uint32_t i = 0; i < c->attributes.n; i++) {
        const struct value *v = &c->attributes.v[i].value;

        if (str_is(c->attributes.v[i].key, SEMCONV_WICK_PROCESS) && v->kind == VALUE_STR && v->n < sizeof o->id &&
            str_is_utf8(value_str(v)))
            snprintf(o->id, sizeof o->id, "%.*s", STR_FMT(value_str(v)));
    }
}

uint64_t own_profiles_mono_of_boot(uint64_t boot_ns)
{
    int64_t mono = clock_mono(); /* before the other, so that the difference is never negative */
    uint64_t ahead = (uint64_t) (clock_boot() - mono);

    return boot_ns > ahead ? boot_ns - ahead : 0;
}

void own_profiles_take(struct own_profiles *o, unsigned types, uint64_t since_ns)
{
    if (types == o->types)
        return;
    o->before = o->types;
    o->before_ns = o->since_ns;
    o->types = types;
    o->since_ns = since_ns;
}

static int read_context(struct process *p, const struct proc_memory *memory)
{
    struct own_profiles *o = &p->own;
    struct process_context c;
    struct proc_maps maps = {0};
    const struct proc_map *map;
    struct arena a;
    int r = proc_maps_read((int) p->pid, false, &maps, NULL);

    if (r < 0)
        return r;
    arena_init(&a, CONTEXT_BYTES);
    map = process_context_find(&maps);
    r = process_context_read(&maps, memory, &a, &c);
    if (r == 0) {
        o->address = map->start;
        o->published_ns = c.published_ns;
        o->found = true;
        take_id(o, &c);
        own_profiles_take(o, own_profiles_types(&c), own_profiles_mono_of_boot(c.published_ns));
    }
    arena_done(&a);
    proc_maps_done(&maps);
    return r;
}

static bool is_unchanged(const struct own_profiles *o, const struct proc_memory *memory)
{
    uint64_t published;

    return o->address && process_context_time(memory, o->address, &published) == 0 && published == o->published_ns;
}

/* An SDK needs time to start: a process that is younger is checked later, if it is still sampled then. */
static bool is_new(const struct process *p, uint64_t now_ns)
{
    return !p->own.likely && now_ns < p->since_ns + NEW_NS;
}

bool own_profiles_may_have_context(const struct process *p, uint64_t now_ns)
{
    return p->own.address || (!p->own.next_ns && !is_new(p, now_ns));
}

void own_profiles_check(struct process *p, uint64_t now_ns)
{
    struct proc_memory memory = proc_memory_of((int) p->pid);
    struct own_profiles *o = &p->own;
    int r;

    if (now_ns < o->next_ns || p->exited || p->until_ns != UINT64_MAX || is_new(p, now_ns))
        return;
    o->pause_ns = MIN(MAX(o->pause_ns * 2, PAUSE_MIN_NS), PAUSE_MAX_NS);
    o->next_ns = now_ns + (o->likely ? MIN(o->pause_ns / 10, PAUSE_LIKELY_MAX_NS) : o->pause_ns);
    if (is_unchanged(o, &memory)) {
        o->next_ns = now_ns + PAUSE_FOUND_NS;
        return;
    }
    r = read_context(p, &memory);
    if (r == 0) {
        o->next_ns = now_ns + PAUSE_FOUND_NS;
    } else if (r == -EAGAIN) {
        o->next_ns = now_ns;                 /* the context is being changed */
    } else if (r == -ENOENT && o->address) { /* it was unmapped: nothing is sent any more */
        o->address = 0;
        own_profiles_take(o, 0, now_ns);
    }
}

void own_profiles_check_last(struct process *p, uint64_t now_ns)
{
    if (p->own.likely || p->own.address)
        p->own.next_ns = MIN(p->own.next_ns, now_ns);
    own_profiles_check(p, now_ns);
}

void own_profiles_mapped(struct own_profiles *o, const char *path)
{
    const char *base = path ? strrchr(path, '/') : NULL;

    if (!base || strncmp(base, "/libwick", 8) != 0)
        return;
    o->likely = true;
    o->next_ns = o->pause_ns = 0;
}

bool own_profiles_cover(const struct own_profiles *o, unsigned kind, uint64_t time_ns)
{
    if (kind != AGENT_EVENT_CPU)
        return false;
    if (time_ns < o->since_ns)
        return o->before & OWN_CPU && time_ns >= o->before_ns;
    return o->types & OWN_CPU;
}

void own_profiles_narrow(const struct own_profiles *o, int64_t *from_ns, int64_t *to_ns)
{
    int64_t since = (int64_t) (o->types & OWN_CPU ? o->since_ns : o->before_ns);

    *from_ns = MIN(MAX(*from_ns, since), *to_ns);
    if (!(o->types & OWN_CPU))
        *to_ns = MAX(MIN(*to_ns, (int64_t) o->since_ns), *from_ns);
}
