/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Java Flight Recorder files: chunks, their events, and the profiles that the events become (jfr.h). */
#include "codec/jfr/jfr.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "codec/jfr/jfr_reader.h"
#include "model/builder.h"

enum { HEADER_BYTES = 68, STEPS_PER_BYTE = 64, STEPS_LEAST = 1 << 16 };
enum { TYPE_METADATA, TYPE_CHECKPOINT };

/* What is summed up: the profiles that a recording may become. */
enum jfr_kind {
    KIND_CPU,
    KIND_CPU_TIME,  /* values are nanoseconds already */
    KIND_EXECUTION, /* every jdk.ExecutionSample: wall-clock samples of older versions of async-profiler */
    KIND_WALL,
    KIND_NATIVE,
    KIND_IN_TLAB,
    KIND_OUTSIDE_TLAB,
    KIND_ALLOC_SAMPLE,
    KIND_LIVE,
    KIND_MALLOC,
    KIND_MUTEX,
    KIND_BLOCK,
    KINDS
};

struct jfr_type {
    const char *type, *unit;
};

static const struct {
    struct jfr_type types[2], period;
} kinds[KINDS] = {
    [KIND_CPU] = {{{"cpu", "nanoseconds"}}, {"cpu", "nanoseconds"}},
    [KIND_CPU_TIME] = {{{"cpu", "nanoseconds"}}, {"cpu", "nanoseconds"}},
    [KIND_EXECUTION] = {{{"wall", "nanoseconds"}}, {"wall", "nanoseconds"}},
    [KIND_WALL] = {{{"wall", "nanoseconds"}}, {"wall", "nanoseconds"}},
    [KIND_NATIVE] = {{{"native", "nanoseconds"}}, {"native", "nanoseconds"}},
    [KIND_IN_TLAB] = {{{"alloc_in_new_tlab_objects", "count"}, {"alloc_in_new_tlab_bytes", "bytes"}},
                      {"space", "bytes"}},
    [KIND_OUTSIDE_TLAB] = {{{"alloc_outside_tlab_objects", "count"}, {"alloc_outside_tlab_bytes", "bytes"}},
                           {"space", "bytes"}},
    [KIND_ALLOC_SAMPLE] = {{{"alloc_sample_objects", "count"}, {"alloc_sample_bytes", "bytes"}}, {"space", "bytes"}},
    [KIND_LIVE] = {{{"live", "count"}, {"inuse_space", "bytes"}}, {"objects", "count"}},
    [KIND_MALLOC] = {{{"malloc_objects", "count"}, {"malloc_bytes", "bytes"}}, {0}},
    [KIND_MUTEX] = {{{"contentions", "count"}, {"delay", "nanoseconds"}}, {"mutex", "count"}},
    [KIND_BLOCK] = {{{"contentions", "count"}, {"delay", "nanoseconds"}}, {"block", "count"}},
};

/* --- settings --- */

/* A period as the JDK prints it, "20 ms", or async-profiler, a number of nanoseconds. 0 if it is not a time. */
static int64_t parse_period(struct str text)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", NS_PER_S}};
    struct str rest = str_trim(text), number;
    int64_t v;

    number = str_cut(&rest, ' ');
    rest = str_trim(rest);
    if (str_to_i64(number, 10, &v) < 0 || v <= 0 || v > 3600 * NS_PER_S)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_is(rest, units[i].name))
            return MIN(v, 3600 * NS_PER_S / units[i].ns) * units[i].ns;
    return 0;
}

static void read_setting(struct jfr_reader *r, const struct jfr_object *o)
{
    struct str name = jfr_string(r, &o->v[JFR_NAME]), value = jfr_string(r, &o->v[JFR_VALUE]);
    const struct jfr_class *of = jfr_class_by_id(r, (uint64_t) o->v[JFR_ID].n);
    int64_t period = parse_period(value);

    if (str_is(name, "event") && value.n) {
        r->wall_event = str_is(value, "wall");
        r->event_name = builder_string(r->b, value);
    } else if (str_is(name, "interval") && period) {
        r->cpu_period = period;
    } else if (str_is(name, "wall") && period) {
        r->wall_period = period;
    } else if (str_is(name, "period") && period && of && of->role == JFR_EXECUTION_SAMPLE) {
        r->jdk_period = period;
    } else if (str_is(name, "period") && period && of && of->role == JFR_NATIVE_SAMPLE) {
        r->native_period = period;
    }
}

/* --- events --- */

static bool is_sleeping(struct jfr_reader *r, uint64_t state)
{
    struct jfr_constant *k = jfr_constant(r, JFR_THREAD_STATE, state);
    struct jfr_object o;

    if (!k)
        return false;
    if (!k->made && jfr_look_up(r, JFR_THREAD_STATE, state, &o))
        k->made = 1 + str_is(jfr_string(r, &o.v[JFR_NAME]), "STATE_SLEEPING");
    return k->made == 2;
}

/* Converts ticks to nanoseconds. */
static int64_t ticks_to_ns(const struct jfr_reader *r, int64_t ticks)
{
    __int128 ns = (__int128) MAX(ticks, 0) * NS_PER_S / r->ticks_per_s;

    return ns > INT64_MAX ? INT64_MAX : (int64_t) ns;
}

/* When an event ended. */
static int64_t end_of(const struct jfr_reader *r, const struct jfr_object *o)
{
    int64_t since = wrap_sub(o->v[JFR_START].n, r->start_ticks);

    if (!r->start_ns || !o->v[JFR_START].n || since < 0)
        return 0;
    return wrap_add(r->start_ns, wrap_add(ticks_to_ns(r, since), ticks_to_ns(r, o->v[JFR_DURATION].n)));
}

static int add(struct jfr_reader *r, enum jfr_kind kind, const struct jfr_object *o, int64_t first, int64_t second)
{
    struct sum_row row = {.profile = kind, .values = {first, second}};

    if (first < 0 || second < 0 || !jfr_stack(r, (uint64_t) o->v[JFR_STACK].n, &row.stack))
        return 0;
    row.attrs = jfr_attrs(r, o);
    row.time = end_of(r, o);
    return builder_error(r->b) ? builder_error(r->b) : sample_sum_add(&r->sum, &row);
}

static int read_sample(struct jfr_reader *r, enum jfr_role role, const struct jfr_object *o)
{
    int rc = 0;

    switch (role) {
    case JFR_EXECUTION_SAMPLE:
        if (!is_sleeping(r, (uint64_t) o->v[JFR_STATE].n))
            rc = add(r, KIND_CPU, o, 1, 0);
        return rc < 0 ? rc : add(r, KIND_EXECUTION, o, 1, 0);
    case JFR_CPU_TIME_SAMPLE:
        return add(r, KIND_CPU_TIME, o, ticks_to_ns(r, o->v[JFR_PERIOD].n), 0);
    case JFR_NATIVE_SAMPLE:
        return add(r, KIND_NATIVE, o, 1, 0);
    case JFR_WALL_SAMPLE:
        return add(r, KIND_WALL, o, o->v[JFR_SAMPLES].n, 0);
    case JFR_ALLOC_IN_TLAB:
        return add(r, KIND_IN_TLAB, o, 1, o->v[JFR_TLAB_SIZE].n);
    case JFR_ALLOC_OUTSIDE_TLAB:
        return add(r, KIND_OUTSIDE_TLAB, o, 1, o->v[JFR_ALLOCATION_SIZE].n);
    case JFR_ALLOC_SAMPLE:
        return add(r, KIND_ALLOC_SAMPLE, o, 1, o->v[JFR_WEIGHT].n);
    case JFR_LIVE_OBJECT:
        return add(r, KIND_LIVE, o, 1, o->v[JFR_ALLOCATION_SIZE].n);
    case JFR_MALLOC:
        return add(r, KIND_MALLOC, o, 1, o->v[JFR_SIZE].n);
    case JFR_MONITOR_ENTER:
        return add(r, KIND_MUTEX, o, 1, ticks_to_ns(r, o->v[JFR_DURATION].n));
    case JFR_THREAD_PARK:
        return add(r, KIND_BLOCK, o, 1, ticks_to_ns(r, o->v[JFR_DURATION].n));
    case JFR_SETTING:
        read_setting(r, o);
        return 0;
    default:
        return 0;
    }
}

/* Finds the event at *at: the cursor then covers its payload, and *at is the position after it. */
static bool next_event(const struct jfr_reader *r, size_t *at, uint64_t *ret_type, struct cursor *ret)
{
    struct cursor c = jfr_cursor(r, *at);
    uint64_t size = jfr_get(&c);

    if (c.bad || size < 2 || size > r->end - *at)
        return false;
    c.end = (const unsigned char *) r->data.p + *at + size;
    *ret_type = jfr_get(&c);
    *ret = c;
    *at += size;
    return !c.bad;
}

static int read_events(struct jfr_reader *r, struct err *e)
{
    struct jfr_object o;
    struct cursor c;
    uint64_t type;
    int rc = 0;

    for (size_t at = r->start + HEADER_BYTES; rc == 0 && at < r->end && next_event(r, &at, &type, &c);) {
        const struct jfr_class *k = type > TYPE_CHECKPOINT ? jfr_class_by_id(r, type) : NULL;
        size_t from = (size_t) ((const char *) c.p - r->data.p);

        if (!k || k->role < JFR_ROLE_EVENT)
            continue;
        memset(&o, 0, sizeof o);
        jfr_get_object(r, &c, k, &o);
        if (c.bad)
            return err_set(e, -EINVAL, "JFR: the event at byte %zu is damaged", from);
        rc = read_sample(r, k->role, &o);
        if (rc < 0)
            return err_set(e, rc, "JFR: the event at byte %zu: %m", from);
    }
    return 0;
}

/* --- chunks --- */

static uint64_t be64(const char *p)
{
    return (uint64_t) load_be32(p) << 32 | load_be32(p + 4);
}

/* Finds the metadata, of which the last one counts, and checks that the events follow one another. A chunk that was not
 * finished may end within an event. */
static int find_metadata(struct jfr_reader *r, struct cursor *ret, struct err *e)
{
    bool found = false;
    struct cursor c;
    uint64_t type;
    size_t at = r->start + HEADER_BYTES;

    while (at < r->end && next_event(r, &at, &type, &c))
        if (type == TYPE_METADATA) {
            *ret = c;
            found = true;
        }
    if (at < r->end && r->end < r->data.n)
        return err_set(e, -EINVAL, "JFR: no event at byte %zu", at);
    return found ? 0 : err_set(e, -EINVAL, "JFR: the chunk at byte %zu has no metadata", r->start);
}

static int read_checkpoints(struct jfr_reader *r, struct err *e)
{
    struct cursor c;
    uint64_t type;
    int rc = 0;

    for (size_t at = r->start + HEADER_BYTES; rc == 0 && at < r->end && next_event(r, &at, &type, &c);)
        if (type == TYPE_CHECKPOINT)
            rc = jfr_read_checkpoint(r, c, e);
    return rc;
}

static int read_header(struct jfr_reader *r, size_t at, struct err *e)
{
    const char *h = r->data.p + at;
    uint64_t size, start, duration, ticks;

    if (r->data.n - at < HEADER_BYTES || memcmp(h, "FLR", 4) != 0)
        return err_set(e, -EINVAL, "JFR: no chunk at byte %zu", at);
    if (h[5] < 1 || h[5] > 2)
        return err_set(e, -EINVAL, "JFR: version %d.%d is not supported: versions 1 and 2 are", h[5], h[7]);
    if (!(h[67] & 1))
        return err_set(e, -EINVAL, "JFR: recordings without compressed integers are not supported");
    size = be64(h + 8);
    start = be64(h + 32);
    duration = be64(h + 40);
    ticks = be64(h + 56);
    if (size == 0) /* the recording was copied while it was written */
        size = r->data.n - at;
    if (size < HEADER_BYTES || size > r->data.n - at)
        return err_set(e, -EINVAL, "JFR: the chunk at byte %zu is cut short: it says %llu bytes, and %zu are left", at,
                       (unsigned long long) size, (size_t) r->data.n - at);
    r->start = at;
    r->end = at + (size_t) size;
    r->start_ticks = (int64_t) be64(h + 48);
    r->start_ns = start <= CLOCK_MAX ? (int64_t) start : 0;
    r->ticks_per_s = ticks > 0 && ticks <= INT64_MAX ? (int64_t) ticks : NS_PER_S;
    if (start <= INT64_MAX && duration <= INT64_MAX - start) {
        r->time_ns = r->time_ns ? MIN(r->time_ns, (int64_t) start) : (int64_t) start;
        r->end_ns = MAX(r->end_ns, (int64_t) (start + duration));
    }
    return 0;
}

static int read_chunk(struct jfr_reader *r, size_t at, struct err *e)
{
    struct cursor metadata;
    int rc = read_header(r, at, e);

    if (rc < 0)
        return rc;
    r->steps = (r->end - r->start) * STEPS_PER_BYTE + STEPS_LEAST;
    arena_init(&r->arena, r->memory);
    rc = find_metadata(r, &metadata, e);
    if (rc == 0)
        rc = jfr_read_metadata(r, metadata, e);
    if (rc == 0)
        rc = read_checkpoints(r, e);
    if (rc == 0)
        rc = read_events(r, e);
    jfr_forget_pools(r);
    jfr_forget_metadata(r);
    arena_done(&r->arena);
    return rc;
}

/* --- profiles --- */

static struct value_type build_type(struct builder *b, const struct jfr_type *t)
{
    return (struct value_type){builder_string(b, str_from(t->type)), builder_string(b, str_from(t->unit))};
}

/* Nanoseconds that a sample of this kind stands for; 1 where the values are not samples. */
static int64_t kind_period(const struct jfr_reader *r, enum jfr_kind kind, int64_t given)
{
    enum { DEFAULT_CPU = 10000000, DEFAULT_WALL = 50000000, DEFAULT_JDK = 20000000 };

    switch (kind) {
    case KIND_CPU:
        if (given)
            return given;
        if (!r->event_name) /* not async-profiler's */
            return r->jdk_period ? r->jdk_period : DEFAULT_JDK;
        return r->cpu_period ? r->cpu_period : r->wall_event ? DEFAULT_WALL : DEFAULT_CPU;
    case KIND_EXECUTION:
    case KIND_WALL:
        if (given)
            return given;
        if (r->wall_period)
            return r->wall_period;
        return r->wall_event && r->cpu_period ? r->cpu_period : DEFAULT_WALL;
    case KIND_NATIVE:
        return r->native_period ? r->native_period : DEFAULT_JDK;
    default:
        return 1;
    }
}

static int write_profile(struct jfr_reader *r, enum jfr_kind kind, int64_t given)
{
    struct value_type types[2] = {build_type(r->b, &kinds[kind].types[0]), build_type(r->b, &kinds[kind].types[1])};
    int64_t period = kind_period(r, kind, given);
    struct profile as = {.types = types,
                         .n_types = kinds[kind].types[1].type ? 2 : 1,
                         .period_type = build_type(r->b, &kinds[kind].period),
                         .period = kind <= KIND_NATIVE && kind != KIND_CPU_TIME ? period : 0,
                         .time_ns = r->time_ns,
                         .duration_ns = r->end_ns - r->time_ns};

    return sample_sum_write(&r->sum, kind, &as, period, r->b);
}

static int write_profiles(struct jfr_reader *r, int64_t given, struct err *e)
{
    int n = 0, rc = 0;

    if (r->event_name)
        builder_resource_attr_str(r->b, STR("jfr_event"), builder_batch(r->b)->dict.strings[r->event_name]);
    for (int k = 0; rc == 0 && k < KINDS; k++) {
        if (!sample_sum_has(&r->sum, (uint32_t) k) || (k == KIND_EXECUTION && !r->wall_event))
            continue;
        rc = write_profile(r, (enum jfr_kind) k, given);
        n++;
    }
    return rc < 0 ? rc
           : n    ? 0
                  : err_set(e, -ENODATA,
                            "JFR: the recording has no samples of CPU, wall clock, allocations, locks or native memory");
}

/* --- the whole recording --- */

bool jfr_probe(struct str data)
{
    return data.n >= 8 && memcmp(data.p, "FLR", 4) == 0;
}

static int read_recording(struct jfr_reader *r, const struct jfr_options *o, struct err *e)
{
    int rc = builder_new(&(struct builder_limits){.memory = o->memory}, &r->b);

    if (rc == 0 && o->labels.n)
        r->labels = jfr_labels_new(o->labels, o->memory, &rc, e);
    if (rc < 0)
        return rc;
    builder_resource(r->b);
    builder_scope(r->b, (struct str){0}, (struct str){0});
    for (size_t at = 0; rc == 0 && at < r->data.n; at = r->end)
        rc = read_chunk(r, at, e);
    return rc < 0 ? rc : write_profiles(r, o->period_ns, e);
}

int jfr_decode(struct str data, const struct jfr_options *opts, struct batch **ret, struct err *e)
{
    struct jfr_options o = opts ? *opts : (struct jfr_options){0};
    struct jfr_reader r = {.data = data,
                           .memory = o.memory,
                           .threads = !o.no_threads,
                           .sum = {.limit = sample_sum_limit(o.memory), .times = o.times}};
    int rc = read_recording(&r, &o, e);

    if (rc == 0)
        rc = builder_finish(r.b, ret, e);
    builder_free(r.b);
    jfr_labels_free(r.labels);
    sample_sum_done(&r.sum);
    mem_free(r.classes);
    map_done(&r.class_map);
    mem_free(r.constants);
    map_done(&r.constant_map);
    mem_free(r.stack);
    buf_done(&r.name);
    return rc;
}
