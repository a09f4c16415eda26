/* SPDX-License-Identifier: Apache-2.0 */
/* The table of types.h, and how the names that senders use are mapped to its rows. */
#include "model/types.h"

#include <math.h>
#include <stdio.h>

enum {
    T_CPU,
    T_WALL,
    T_OFFCPU,
    T_ALLOC,
    T_ALLOC_OBJECTS,
    T_HEAP,
    T_HEAP_OBJECTS,
    T_LOCK,
    T_LOCK_COUNT,
    T_BLOCK,
    T_BLOCK_COUNT,
    T_GOROUTINE,
    T_THREAD,
    T_CPU_ALSO,
    TYPES
};

static const struct type table[TYPES] = {
    [T_CPU] = {STR("cpu"), STR("nanoseconds"), TYPE_DELTA, STR("cpu"), STR("nanoseconds"), STR("CPU time")},
    [T_WALL] = {STR("wall"), STR("nanoseconds"), TYPE_DELTA, STR("wall"), STR("nanoseconds"), STR("wall-clock time")},
    [T_OFFCPU] = {STR("offcpu"), STR("nanoseconds"), TYPE_DELTA, STR("off_cpu"), STR("nanoseconds"),
                  STR("off-CPU time")},
    [T_ALLOC] = {STR("alloc"), STR("bytes"), TYPE_DELTA, STR("alloc_space"), STR("bytes"), STR("allocated memory")},
    [T_ALLOC_OBJECTS] = {STR("alloc_objects"), STR("count"), TYPE_DELTA, STR("alloc_objects"), STR("count"),
                         STR("allocated objects")},
    [T_HEAP] = {STR("heap"), STR("bytes"), TYPE_GAUGE, STR("inuse_space"), STR("bytes"), STR("memory in use")},
    [T_HEAP_OBJECTS] = {STR("heap_objects"), STR("count"), TYPE_GAUGE, STR("inuse_objects"), STR("count"),
                        STR("objects in use")},
    [T_LOCK] = {STR("lock"), STR("nanoseconds"), TYPE_DELTA, STR("delay"), STR("nanoseconds"),
                STR("time waiting for locks")},
    [T_LOCK_COUNT] = {STR("lock_count"), STR("count"), TYPE_DELTA, STR("contentions"), STR("count"),
                      STR("lock contentions")},
    [T_BLOCK] = {STR("block"), STR("nanoseconds"), TYPE_DELTA, STR("delay"), STR("nanoseconds"),
                 STR("time blocked on synchronization")},
    [T_BLOCK_COUNT] = {STR("block_count"), STR("count"), TYPE_DELTA, STR("contentions"), STR("count"),
                       STR("blocking events")},
    [T_GOROUTINE] = {STR("goroutine"), STR("count"), TYPE_GAUGE, STR("goroutine"), STR("count"), STR("goroutines")},
    [T_THREAD] = {STR("thread"), STR("count"), TYPE_GAUGE, STR("threadcreate"), STR("count"), STR("threads")},
    [T_CPU_ALSO] = {STR("cpu_also"), STR("nanoseconds"), TYPE_DELTA, STR("cpu_also"), STR("nanoseconds"),
                    STR("CPU time that another source sends as well")},
};

/* The names that arrive. `dim` is what the unit must measure: a time by its own unit, a count by the period if there is
 * one. */
enum dim { DIM_TIME, DIM_BYTES, DIM_COUNT, DIM_TIMED_COUNT };

static const struct alias {
    const char *type;
    uint8_t dim, to;
} aliases[] = {
    {"cpu", DIM_TIME, T_CPU},
    {"process_cpu", DIM_TIME, T_CPU},
    {"on_cpu", DIM_TIME, T_CPU},
    {"on-cpu", DIM_TIME, T_CPU},
    {"oncpu", DIM_TIME, T_CPU},
    {"CPU", DIM_TIME, T_CPU},
    {"cpu_also", DIM_TIME, T_CPU_ALSO},
    {"wall", DIM_TIME, T_WALL},
    {"off_cpu", DIM_TIME, T_OFFCPU},
    {"off-cpu", DIM_TIME, T_OFFCPU},
    {"offcpu", DIM_TIME, T_OFFCPU},
    {"delay", DIM_TIME, T_LOCK},
    {"lock", DIM_TIME, T_LOCK},
    {"lock_time", DIM_TIME, T_LOCK},
    {"lock_duration", DIM_TIME, T_LOCK},
    {"contention", DIM_TIME, T_LOCK},
    {"contentions", DIM_TIME, T_LOCK},
    {"block", DIM_TIME, T_BLOCK},
    {"block_duration", DIM_TIME, T_BLOCK},
    {"block_count", DIM_COUNT, T_BLOCK_COUNT},
    {"alloc", DIM_BYTES, T_ALLOC},
    {"alloc_space", DIM_BYTES, T_ALLOC},
    {"alloc-space", DIM_BYTES, T_ALLOC},
    {"alloc_bytes", DIM_BYTES, T_ALLOC},
    {"allocations", DIM_BYTES, T_ALLOC},
    {"alloc_in_new_tlab_bytes", DIM_BYTES, T_ALLOC},
    {"alloc_size", DIM_BYTES, T_ALLOC},
    {"heap", DIM_BYTES, T_HEAP},
    {"space", DIM_BYTES, T_HEAP},
    {"inuse_space", DIM_BYTES, T_HEAP},
    {"inuse-space", DIM_BYTES, T_HEAP},
    {"inuse_bytes", DIM_BYTES, T_HEAP},
    {"alloc_objects", DIM_COUNT, T_ALLOC_OBJECTS},
    {"alloc-objects", DIM_COUNT, T_ALLOC_OBJECTS},
    {"allocations", DIM_COUNT, T_ALLOC_OBJECTS},
    {"alloc_in_new_tlab_objects", DIM_COUNT, T_ALLOC_OBJECTS},
    {"alloc_samples", DIM_COUNT, T_ALLOC_OBJECTS},
    {"heap_objects", DIM_COUNT, T_HEAP_OBJECTS},
    {"objects", DIM_COUNT, T_HEAP_OBJECTS},
    {"inuse_objects", DIM_COUNT, T_HEAP_OBJECTS},
    {"inuse-objects", DIM_COUNT, T_HEAP_OBJECTS},
    {"lock_count", DIM_COUNT, T_LOCK_COUNT},
    {"contentions", DIM_COUNT, T_LOCK_COUNT},
    {"contention", DIM_COUNT, T_LOCK_COUNT},
    {"goroutine", DIM_COUNT, T_GOROUTINE},
    {"goroutines", DIM_COUNT, T_GOROUTINE},
    {"thread", DIM_COUNT, T_THREAD},
    {"threads", DIM_COUNT, T_THREAD},
    {"threadcreate", DIM_COUNT, T_THREAD},
    {"wall", DIM_TIMED_COUNT, T_WALL},
    {"off_cpu", DIM_TIMED_COUNT, T_OFFCPU},
    {"cpu", DIM_TIMED_COUNT, T_CPU},
    {"on_cpu", DIM_TIMED_COUNT, T_CPU},
};

/* Returns the dimension of a unit and how many base units (ns, bytes, 1) it equals; -1 when unknown. */
static int unit_dim(struct str unit, int64_t *ret_scale)
{
    static const struct {
        const char *name;
        int dim;
        int64_t scale;
    } units[] = {
        {"nanoseconds", DIM_TIME, 1},
        {"nanosecond", DIM_TIME, 1},
        {"ns", DIM_TIME, 1},
        {"microseconds", DIM_TIME, 1000},
        {"us", DIM_TIME, 1000},
        {"milliseconds", DIM_TIME, 1000000},
        {"ms", DIM_TIME, 1000000},
        {"seconds", DIM_TIME, 1000000000},
        {"s", DIM_TIME, 1000000000},
        {"bytes", DIM_BYTES, 1},
        {"byte", DIM_BYTES, 1},
        {"By", DIM_BYTES, 1},
        {"kilobytes", DIM_BYTES, 1024},
        {"kb", DIM_BYTES, 1024},
        {"megabytes", DIM_BYTES, 1 << 20},
        {"count", DIM_COUNT, 1},
        {"objects", DIM_COUNT, 1},
        {"1", DIM_COUNT, 1},
        {"samples", DIM_COUNT, 1},
        {"", DIM_COUNT, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_is(unit, units[i].name)) {
            *ret_scale = units[i].scale;
            return units[i].dim;
        }
    return -1;
}

static const struct type *find_alias(struct str type, int dim)
{
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (aliases[i].dim == dim && str_is(type, aliases[i].type))
            return &table[aliases[i].to];
    return NULL;
}

void type_lookup(const struct type_spelling *s, struct type *ret, int64_t *ret_scale)
{
    struct str type = s->type, unit = s->unit;
    int64_t scale = 1, period_scale = 1;
    int dim = unit_dim(unit, &scale);
    bool timed = dim == DIM_COUNT && s->period > 0 && unit_dim(s->period_unit, &period_scale) == DIM_TIME;
    const struct type *t = NULL;

    *ret_scale = 1;
    if (timed && (str_is(type, "samples") || str_is(type, "sample") || str_is(type, "events") || !type.n)) {
        /* counts of timer ticks: the period type says what they measure */
        t = find_alias(s->period_type, DIM_TIME);
        if (!t && !s->period_type.n)
            t = &table[T_CPU];
    } else if (timed) {
        t = find_alias(type, DIM_TIMED_COUNT);
    }
    if (t) {
        *ret = *t;
        if (__builtin_mul_overflow(s->period, period_scale, ret_scale))
            *ret_scale = s->period;
        return;
    }
    t = dim >= 0 ? find_alias(type, dim) : NULL;
    if (t) {
        *ret = *t;
        *ret_scale = scale;
        return;
    }
    *ret = (struct type){.name = type, .unit = unit, .pprof_type = type, .pprof_unit = unit, .title = type};
}

void type_named(struct str name, struct type *t)
{
    if (str_is(name, "block") && str_eq(t->name, table[T_LOCK].name))
        *t = table[T_BLOCK];
    else if (str_is(name, "block") && str_eq(t->name, table[T_LOCK_COUNT].name))
        *t = table[T_BLOCK_COUNT];
}

bool type_is_known(const struct type *t)
{
    for (size_t i = 0; i < TYPES; i++)
        if (str_eq(t->name, table[i].name))
            return true;
    return false;
}

bool type_needs_id(struct str name, const struct type *t, struct str period_type, struct str period_unit)
{
    int64_t scale;

    if (name.n && !str_eq(name, t->name))
        return true;
    return str_eq(period_type, t->name) && period_unit.n && !str_eq(period_unit, t->unit) &&
           unit_dim(period_unit, &scale) != DIM_TIME; /* a time between samples does not make it another type */
}

/* Parses NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT. The canonical name of a type that wick does not know is TYPE if its ID
 * follows from that, and else the whole ID. */
static bool type_by_id(struct str id, struct str name, struct str rest, struct type *ret)
{
    struct str type = str_cut(&rest, ':'), unit = str_cut(&rest, ':'), period = str_cut(&rest, ':');
    int64_t scale;

    if (str_is(name, "process_cpu") && str_is(type, "samples")) {
        *ret = table[T_CPU];
        return true;
    }
    type_lookup(&(struct type_spelling){.type = type, .unit = unit}, ret, &scale);
    type_named(name, ret);
    if (type_is_known(ret))
        return true;
    if (type_needs_id(name, ret, period, rest))
        ret->name = ret->title = id;
    return false;
}

bool type_by_name(struct str name, struct type *ret)
{
    struct str rest = name, first;

    for (size_t i = 0; i < TYPES; i++)
        if (str_eq(name, table[i].name)) {
            *ret = table[i];
            return true;
        }
    first = str_cut(&rest, ':');
    if (rest.p)
        return type_by_id(name, first, rest, ret);
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (str_is(name, aliases[i].type)) {
            *ret = table[aliases[i].to];
            return true;
        }
    if (str_is(name, "memory")) {
        *ret = table[T_HEAP];
        return true;
    }
    *ret = (struct type){.name = name, .pprof_type = name, .title = name};
    return false;
}

void type_pyroscope_id(const struct type *t, struct buf *out)
{
    static const char *const ids[TYPES] = {
        [T_CPU] = "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
        [T_WALL] = "wall:wall:nanoseconds:wall:nanoseconds",
        [T_OFFCPU] = "off_cpu:off_cpu:nanoseconds:off_cpu:nanoseconds",
        [T_ALLOC] = "memory:alloc_space:bytes:space:bytes",
        [T_ALLOC_OBJECTS] = "memory:alloc_objects:count:space:bytes",
        [T_HEAP] = "memory:inuse_space:bytes:space:bytes",
        [T_HEAP_OBJECTS] = "memory:inuse_objects:count:space:bytes",
        [T_LOCK] = "mutex:delay:nanoseconds:contentions:count",
        [T_LOCK_COUNT] = "mutex:contentions:count:contentions:count",
        [T_BLOCK] = "block:delay:nanoseconds:contentions:count",
        [T_BLOCK_COUNT] = "block:contentions:count:contentions:count",
        [T_GOROUTINE] = "goroutines:goroutine:count:goroutine:count",
        [T_THREAD] = "threads:threadcreate:count:threadcreate:count",
        [T_CPU_ALSO] = "cpu_also:cpu_also:nanoseconds:cpu:nanoseconds",
    };

    for (size_t i = 0; i < TYPES; i++)
        if (str_eq(t->name, table[i].name)) {
            buf_puts(out, ids[i]);
            return;
        }
    if (str_find_char(t->name, ':') >= 0) { /* the canonical name is the ID */
        buf_put_str(out, t->name);
        return;
    }
    if ((str_is(t->name, "itimer") || str_is(t->name, "ctimer")) && str_is(t->unit, "count")) {
        buf_printf(out, "%.*s:%.*s:count:%.*s:ns", STR_FMT(t->name), STR_FMT(t->name), STR_FMT(t->name));
        return; /* async-profiler's OTLP: its period is the only one that is not in the unit of the samples */
    }
    buf_printf(out, "%.*s:%.*s:%.*s:%.*s:%.*s", STR_FMT(t->name), STR_FMT(t->name), STR_FMT(t->unit), STR_FMT(t->name),
               STR_FMT(t->unit));
}

size_t type_all(const struct type **ret)
{
    *ret = table;
    return TYPES;
}

/* --- human-readable numbers --- */

static void put_scaled(struct buf *out, double v, const char *unit)
{
    double a = fabs(v);

    buf_printf(out, a >= 100 || a == floor(a) ? "%.0f%s" : a >= 10 ? "%.1f%s" : "%.2f%s", v, unit);
}

static void put_time(struct buf *out, double ns)
{
    double a = fabs(ns);

    if (a >= 86400e9)
        put_scaled(out, ns / 86400e9, "d");
    else if (a >= 3600e9)
        put_scaled(out, ns / 3600e9, "h");
    else if (a >= 60e9)
        put_scaled(out, ns / 60e9, "m");
    else if (a >= 1e9)
        put_scaled(out, ns / 1e9, "s");
    else if (a >= 1e6)
        put_scaled(out, ns / 1e6, "ms");
    else if (a >= 1e3)
        put_scaled(out, ns / 1e3, "us");
    else
        put_scaled(out, ns, ns == 0 ? "s" : "ns");
}

static void put_bytes(struct buf *out, double v)
{
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB"};
    size_t i = 0;

    while (fabs(v) >= 1024 && i + 1 < ARRAY_SIZE(units)) {
        v /= 1024;
        i++;
    }
    put_scaled(out, v, units[i]);
}

/* 12,004 */
static void put_count(struct buf *out, double v)
{
    char digits[64];
    int n;

    if (fabs(v) < 1000 && v != floor(v)) {
        put_scaled(out, v, "");
        return;
    }
    n = snprintf(digits, sizeof digits, "%.0f", v);
    for (int i = 0; i < n; i++) {
        buf_putc(out, digits[i]);
        if (digits[i] != '-' && i + 1 < n && (n - 1 - i) % 3 == 0)
            buf_putc(out, ',');
    }
}

void type_format(struct buf *out, const struct type *t, double value, bool per_s)
{
    int64_t scale = 1;
    int dim = t->unit.n ? unit_dim(t->unit, &scale) : -1;

    if (dim == DIM_TIME && per_s) {
        put_scaled(out, value * (double) scale / 1e9, " cores");
        return;
    }
    if (dim == DIM_TIME)
        put_time(out, value * (double) scale);
    else if (dim == DIM_BYTES)
        put_bytes(out, value * (double) scale);
    else
        put_count(out, value);
    if (dim == -1 && t->unit.n)
        buf_printf(out, " %.*s", STR_FMT(t->unit));
    if (per_s)
        buf_puts(out, "/s");
}
