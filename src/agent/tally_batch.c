/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tally as a batch: names are resolved, then one resource per process with a profile per type and period. Addresses
 * are ELF addresses, and are kept also for frames with names: a frame is (build id, address). With the option
 * `ranges` they are addresses in ranges that object_place.h chooses, and the program is the first mapping.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent/identity.h"
#include "agent/kernel_names.h"
#include "agent/lang/lang.h"
#include "agent/names.h"
#include "agent/object_place.h"
#include "agent/perf_events.h"
#include "agent/tally_tables.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { LINES_MAX = 256 }; /* calls inlined into each other */

struct batch_maker {
    struct tally *t;
    struct builder *b;
    uint32_t *locations; /* by frame, + 1; 0 = not made */
    uint32_t *stacks;    /* by stack, + 1 */
    uint32_t *order;     /* of rows: by process, kind, period */
    bool own;            /* the profiles that are made are of the time in which a process sends its own */
    bool *used;          /* frames of their stacks */
    uint32_t *scratch;
    size_t cap_scratch;
    int64_t wall_minus_mono;
    const struct tally_scope *scope;
    uint32_t kernel_mapping, jit_mapping;
    const struct object *program; /* with ranges: the mapping that comes first; NULL: not known */
    const struct object *placed;  /* with ranges: the object that `place` is of */
    struct object_place place;
    uint64_t next_place;
};

/* --- names --- */
void tally_name(struct tally *t, uint64_t now_ns)
{
    if (t->options.no_names)
        return;
    tally_name_jit(t);
    for (size_t i = 0; i < t->n_frames; i++)
        if (t->frames[i].kind == FRAME_OBJECT) {
            object_names_resolve(t->frames[i].object); /* names all frames of an object at its first one */
            t->frames[i].object->names_used_ns = now_ns;
        }
    if (!t->kernel && !t->kernel_tried) {
        t->kernel_tried = true;
        kernel_names_new(&t->kernel, NULL);
    }
}

/* --- dictionary --- */
static uint32_t put_flags(struct batch_maker *m, uint32_t *attrs, uint32_t n)
{
    const struct {
        struct str key;
        bool is_set;
    } flags[] = {{STR(SEMCONV_PPROF_HAS_FUNCTIONS), m->place.has_functions},
                 {STR(SEMCONV_PPROF_HAS_FILENAMES), m->place.has_files},
                 {STR(SEMCONV_PPROF_HAS_LINE_NUMBERS), m->place.has_lines},
                 {STR(SEMCONV_PPROF_HAS_INLINE_FRAMES), m->place.inlines}};

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (flags[i].is_set)
            attrs[n++] = builder_attr_bool(m->b, flags[i].key, true);
    return n;
}

static uint32_t object_mapping(struct batch_maker *m, const struct object *o)
{
    uint32_t attrs[7], n = 0;
    struct mapping map = {.start = m->place.start,
                          .limit = m->place.limit,
                          .offset = m->place.offset,
                          .skew = m->place.skew,
                          .filename = builder_string(m->b, str_from(o->path))};

    if (o->gnu_id[0])
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_BUILD_ID_GNU), str_from(o->gnu_id));
    if (o->go_id[0])
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_BUILD_ID_GO), str_from(o->go_id));
    if (!n && o->htlhash[0])
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_BUILD_ID_HTLHASH), str_from(o->htlhash));
    return builder_mapping(m->b, &map, attrs, put_flags(m, attrs, n));
}

static uint32_t kernel_mapping(struct batch_maker *m)
{
    struct mapping map = {.filename = builder_string(m->b, STR("[kernel.kallsyms]"))};
    const char *id = kernel_build_id();
    uint32_t attrs[2], n = 0;

    if (m->kernel_mapping)
        return m->kernel_mapping;
    if (id[0])
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_BUILD_ID_GNU), str_from(id));
    if (m->t->options.ranges) {
        map.start = map.offset = OBJECT_PLACE_KERNEL;
        map.limit = UINT64_MAX;
        if (m->t->kernel)
            attrs[n++] = builder_attr_bool(m->b, STR(SEMCONV_PPROF_HAS_FUNCTIONS), true);
    }
    m->kernel_mapping = builder_mapping(m->b, &map, attrs, n);
    return m->kernel_mapping;
}

static uint32_t type_attr(struct batch_maker *m, const struct tally_frame *f)
{
    return builder_attr_str(m->b, STR(SEMCONV_FRAME_TYPE), str_from(f->type));
}

static struct line line_of(struct batch_maker *m, struct str name, struct str system_name, struct str file,
                           int64_t line, int64_t start_line)
{
    struct function fn = {.name = builder_string(m->b, name),
                          .system_name = builder_string(m->b, system_name),
                          .filename = builder_string(m->b, file),
                          .start_line = start_line};

    return (struct line){.function = builder_function(m->b, &fn), .line = line};
}

static uint32_t object_location(struct batch_maker *m, const struct tally_frame *f)
{
    const struct object_name *name = object_names_find(f->object, f->address);
    uint32_t mapping = object_mapping(m, f->object), attr = type_attr(m, f);
    _uninit_ struct line lines[LINES_MAX];
    uint32_t n = name ? MIN(name->n_frames, (uint32_t) LINES_MAX) : 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct object_frame *x = &name->frames[i];

        lines[i] = line_of(m, x->name, x->system_name, x->file, x->line, x->start_line);
    }
    m->t->counts.frames++;
    m->t->counts.frames_named += n > 0;
    return builder_location(m->b, &(struct builder_location){.mapping = mapping,
                                                             .address = f->address + m->place.bias,
                                                             .lines = lines,
                                                             .n_lines = n,
                                                             .attrs = &attr,
                                                             .n_attrs = 1});
}

static uint32_t kernel_location(struct batch_maker *m, const struct tally_frame *f)
{
    uint32_t attr = type_attr(m, f);
    struct kernel_name name;
    struct line line;

    m->t->counts.frames++;
    if (!m->t->kernel || !kernel_names_find(m->t->kernel, f->address, &name))
        return builder_location(m->b,
                                &(struct builder_location){
                                    .mapping = kernel_mapping(m), .address = f->address, .attrs = &attr, .n_attrs = 1});
    m->t->counts.frames_named++;
    line = line_of(m, name.name, name.name, name.module, 0, 0);
    return builder_location(m->b, &(struct builder_location){.mapping = kernel_mapping(m),
                                                             .address = f->address,
                                                             .lines = &line,
                                                             .n_lines = 1,
                                                             .attrs = &attr,
                                                             .n_attrs = 1});
}

/* Frames that have only a name: of languages, of JITs, and marks. */
static uint32_t named_location(struct batch_maker *m, const struct tally_frame *f)
{
    uint32_t attr = type_attr(m, f);
    struct str name = f->function.n          ? f->function
                      : f->kind == FRAME_JIT ? STR("[JIT code that the perf map does not name]")
                                             : STR("[unknown]");
    struct line lines[LANG_INLINED_MAX];
    uint32_t n = 0;

    for (; n < f->n_inlined && n < LANG_INLINED_MAX - 1; n++) {
        const struct lang_frame *i = &f->inlined[n];

        lines[n] = line_of(m, i->function, i->function, i->file, i->line, i->start_line);
    }
    lines[n++] = line_of(m, name, name, f->file, f->line, f->start_line);
    m->t->counts.frames++;
    m->t->counts.frames_named += f->function.n && f->kind != FRAME_MARK;
    return builder_location(m->b,
                            &(struct builder_location){.lines = lines, .n_lines = n, .attrs = &attr, .n_attrs = 1});
}

static uint32_t location_of(struct batch_maker *m, uint32_t frame)
{
    const struct tally_frame *f = &m->t->frames[frame];

    if (!m->locations[frame])
        m->locations[frame] = f->kind == FRAME_OBJECT   ? object_location(m, f)
                              : f->kind == FRAME_KERNEL ? kernel_location(m, f)
                                                        : named_location(m, f);
    return m->locations[frame];
}

static const struct tally *sorting; /* qsort passes no argument; used by one thread */

static int by_place(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *) a, k = *(const uint32_t *) b;
    const struct tally_frame *x = &sorting->frames[i], *y = &sorting->frames[k];

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->object != y->object)
        return x->object->number < y->object->number ? -1 : 1;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Chooses the range of the object, and notes what is known of its frames: order[0] to order[n - 1], while they are of
 * this object. */
static void place_object(struct batch_maker *m, const struct object *o, const uint32_t *order, size_t n)
{
    object_place_choose(o, o == m->program, &m->next_place, &m->place);
    m->placed = o;
    for (size_t i = 0; i < n && m->t->frames[order[i]].object == o; i++) {
        const struct object_name *name = object_names_find(o, m->t->frames[order[i]].address);

        for (uint32_t k = 0; name && k < name->n_frames; k++) {
            m->place.has_functions = true;
            m->place.has_files |= name->frames[k].file.n > 0;
            m->place.has_lines |= name->frames[k].line > 0;
        }
        m->place.inlines |= name && (name->n_frames > 1 || m->place.has_lines);
    }
}

/* The program of the process with the most samples. */
static const struct object *find_program(const struct tally *t)
{
    int64_t *sums = mem_zalloc_array(t->n_processes + 1, sizeof *sums);
    const struct object *best = NULL;
    int64_t most = 0;

    for (size_t i = 0; sums && i < t->n_rows; i++)
        sums[t->rows[i].process] += t->rows[i].count;
    for (size_t i = 0; sums && i < t->n_processes; i++) {
        const struct tally_process *p = &t->processes[i];
        const struct object *exe = p->process ? p->process->exe : p->exe;

        if (exe && sums[i] > most) {
            most = sums[i];
            best = exe;
        }
    }
    mem_free(sums);
    return best;
}

/* pprof takes the first mapping for the program. */
static void put_program(struct batch_maker *m, const uint32_t *order)
{
    size_t i = 0;

    m->next_place = OBJECT_PLACE_FIRST;
    m->program = find_program(m->t);
    if (!m->program)
        return;
    while (i < m->t->n_frames && m->t->frames[order[i]].object != m->program)
        i++;
    place_object(m, m->program, order + i, m->t->n_frames - i);
    object_mapping(m, m->program);
}

/* In order of address, similar entries are next to each other, especially names of one class: this makes the compressed
 * batch a tenth smaller. */
static int put_locations(struct batch_maker *m)
{
    const struct tally *t = m->t;
    uint32_t *order = mem_zalloc_array(t->n_frames + 1, sizeof *order);

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n_frames; i++)
        order[i] = i;
    sorting = t;
    qsort(order, t->n_frames, sizeof *order, by_place);
    if (t->options.ranges)
        put_program(m, order);
    for (uint32_t i = 0; i < t->n_frames; i++) {
        const struct object *o = t->frames[order[i]].object;

        if (t->options.ranges && o && o != m->placed)
            place_object(m, o, order + i, t->n_frames - i);
        if (m->used[order[i]])
            location_of(m, order[i]);
    }
    mem_free(order);
    return 0;
}

static uint32_t stack_of(struct batch_maker *m, uint32_t stack)
{
    const struct tally_stack *s = &m->t->stacks[stack];

    if (m->stacks[stack])
        return m->stacks[stack];
    if (array_reserve(m->scratch, m->cap_scratch, s->n + 1u, 1 << 16) < 0)
        return 0;
    for (uint32_t i = 0; i < s->n; i++)
        m->scratch[i] = location_of(m, m->t->list[s->first + i]);
    m->stacks[stack] = builder_stack(m->b, m->scratch, s->n);
    return m->stacks[stack];
}

/* --- samples --- */
static struct run row_attrs(struct batch_maker *m, const struct tally_row *row)
{
    uint32_t attrs[5 + AGENT_LABELS], n = 0;
    struct str key, value;

    if (row->comm[0])
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_THREAD_NAME), str_from(row->comm));
    if (row->tid)
        attrs[n++] = builder_attr_int(m->b, STR(SEMCONV_THREAD_ID), row->tid, STR(""));
    if (!m->t->options.pprof && row->kind == AGENT_EVENT_CPU)
        attrs[n++] = builder_attr_int(m->b, STR("cpu.logical_number"), row->cpu, STR(""));
    if (row->inferred)
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_WICK_STACK), STR("inferred"));
    for (uint32_t i = 0; i < AGENT_LABELS && tally_label(row->labels, i, &key, &value); i++)
        if (key.n && !str_is(key, SEMCONV_WICK_STACK) && str_is_utf8(key) && str_is_utf8(value))
            attrs[n++] = builder_attr_str(m->b, key, value);
    return builder_attrs(m->b, attrs, n);
}

static uint32_t row_link(struct batch_maker *m, const struct tally_row *row)
{
    struct link l;

    if (!row->has_span)
        return 0;
    memcpy(l.trace_id, row->trace_id, sizeof l.trace_id);
    memcpy(l.span_id, row->span_id, sizeof l.span_id);
    return builder_link(m->b, &l);
}

static const struct own_profiles *own_of(const struct tally_process *p)
{
    return p->process ? &p->process->own : &p->own;
}

/* True when a sample of that time belongs into the profiles that are made: of each process first what it does not send
 * itself, then the rest. */
static bool is_part(const struct batch_maker *m, const struct tally_row *row, uint64_t time_ns)
{
    return m->own ==
           (m->t->options.mark_own && own_profiles_cover(own_of(&m->t->processes[row->process]), row->kind, time_ns));
}

/* How many samples of the row are. */
static uint32_t part_of(const struct batch_maker *m, const struct tally_row *row)
{
    const struct tally *t = m->t;
    uint32_t n = 0;

    if (t->options.pprof)
        return !m->own;
    for (uint32_t i = row->first; i; i = t->times[i - 1].next)
        n += is_part(m, row, t->times[i - 1].mono_ns);
    return n;
}

/* A wait's stack ends with the scheduler. In most kernels the program leaves out the frames that are its own
 * (ARCH_TRACE_FRAMES); Ubuntu's 6.8 has one more. */
static void drop_tracer(const struct tally *t, struct tally_stack *s)
{
    struct kernel_name name;

    while (s->n && t->kernel && t->frames[t->list[s->first]].kind == FRAME_KERNEL &&
           kernel_names_find(t->kernel, t->frames[t->list[s->first]].address, &name) &&
           str_starts(name.name, STR("__bpf_trace_"))) {
        s->first++;
        s->n--;
    }
}

/* Marks the frames of the rows' stacks: others have no place in the dictionary. */
static void mark_frames(struct batch_maker *m)
{
    const struct tally *t = m->t;

    for (uint32_t i = 0; i < t->n_rows; i++) {
        struct tally_stack *s = &t->stacks[t->rows[i].stack];

        if (t->rows[i].kind == AGENT_EVENT_OFFCPU)
            drop_tracer(t, s);
        for (uint32_t k = 0; k < s->n; k++)
            m->used[t->list[s->first + k]] = true;
    }
}

static int64_t weighed(const struct batch_maker *m, const struct tally_row *row, int64_t value)
{
    double weight = m->t->processes[row->process].weight;

    return row->kind == AGENT_EVENT_CPU && weight != 1 ? MAX(llround((double) value * weight), 1) : value;
}

/* Finer times would cost bytes. */
static int64_t whole_ms(int64_t wall)
{
    return wall - wall % NS_PER_MS;
}

static void put_row(struct batch_maker *m, const struct tally_row *row)
{
    const struct tally *t = m->t;
    int64_t both[2] = {row->count, weighed(m, row, row->value)};
    uint32_t n = part_of(m, row);
    int64_t *values;
    uint64_t *times;

    if (t->options.pprof) {
        builder_sample(m->b, &(struct builder_sample){.stack = stack_of(m, row->stack),
                                                      .link = row_link(m, row),
                                                      .attrs = row_attrs(m, row),
                                                      .values = both,
                                                      .n_values = 2});
        return;
    }
    values = mem_zalloc_array(n, sizeof *values);
    times = mem_zalloc_array(n, sizeof *times);
    n = 0;
    for (uint32_t i = row->first; values && times && i; i = t->times[i - 1].next) {
        int64_t wall = (int64_t) t->times[i - 1].mono_ns + m->wall_minus_mono;

        if (!is_part(m, row, t->times[i - 1].mono_ns))
            continue;
        values[n] = weighed(m, row, t->times[i - 1].value);
        times[n++] = (uint64_t) whole_ms(wall);
    }
    builder_sample(m->b, &(struct builder_sample){.stack = stack_of(m, row->stack),
                                                  .link = row_link(m, row),
                                                  .attrs = row_attrs(m, row),
                                                  .values = values,
                                                  .n_values = n,
                                                  .timestamps = times,
                                                  .n_timestamps = n});
    mem_free(values);
    mem_free(times);
}

static struct value_type type_of(struct batch_maker *m, const struct tally_row *row)
{
    uint32_t i = row->kind - (uint32_t) AGENT_EVENT_COUNTED;

    if (row->kind >= AGENT_EVENT_COUNTED && m->t->options.events && i < m->t->options.events->n)
        return (struct value_type){builder_string(m->b, str_from(m->t->options.events->v[i].name)),
                                   builder_string(m->b, STR("count"))};
    return (struct value_type){builder_string(m->b, row->kind == AGENT_EVENT_CPU ? STR("cpu") : STR("off_cpu")),
                               builder_string(m->b, STR("nanoseconds"))};
}

static bool is_one_profile(const struct tally_row *a, const struct tally_row *b)
{
    return a->process == b->process && a->kind == b->kind && a->period_ns == b->period_ns;
}

/*
 * The time of the profile of the rows from m->order[first] on, on the monotonic clock: the interval, for what the process sends itself
 * as much of it as it did so; and from its earliest sample, which the kernel may hand over only after the interval that it was taken
 * in has been sent. Covered time is a union: what overlaps counts once.
 */
static void profile_time(const struct batch_maker *m, uint32_t first, int64_t *from_ns, int64_t *to_ns)
{
    const struct tally *t = m->t;

    *from_ns = (int64_t) t->begin_mono_ns;
    *to_ns = m->scope->end_ns;
    if (m->own)
        own_profiles_narrow(own_of(&t->processes[t->rows[m->order[first]].process]), from_ns, to_ns);
    for (uint32_t k = first; k < t->n_rows; k++) {
        const struct tally_row *row = &t->rows[m->order[k]];

        if (!is_one_profile(row, &t->rows[m->order[first]]))
            break;
        for (uint32_t i = row->first; i; i = t->times[i - 1].next)
            if (is_part(m, row, t->times[i - 1].mono_ns))
                *from_ns = MIN(*from_ns, (int64_t) t->times[i - 1].mono_ns);
    }
}

static void begin_profile(struct batch_maker *m, uint32_t first)
{
    const struct tally *t = m->t;
    const struct tally_row *row = &t->rows[m->order[first]];
    struct value_type types[2] = {type_of(m, row)}, period = types[0];
    int64_t from_ns, to_ns;
    struct profile *p;

    if (t->options.pprof) {
        types[1] = types[0];
        types[0] = (struct value_type){builder_string(m->b, STR("samples")), builder_string(m->b, STR("count"))};
    }
    p = builder_profile(m->b, types, 1 + t->options.pprof);

    if (!p)
        return;
    p->period_type = period;
    p->period = row->period_ns;
    profile_time(m, first, &from_ns, &to_ns);
    p->time_ns = whole_ms(from_ns + m->wall_minus_mono); /* no sample of it is earlier */
    p->duration_ns = to_ns + m->wall_minus_mono - p->time_ns;
}

static void put_scope(struct batch_maker *m, const struct tally_process *p)
{
    const struct tally_scope *s = m->scope;
    const struct {
        struct str key;
        int64_t v;
    } attrs[] = {
        {STR(SEMCONV_WICK_RATE), s->rate}, {STR(SEMCONV_WICK_LOST), s->lost}, {STR(SEMCONV_WICK_CPU_NS), s->cpu_ns}};
    const struct {
        struct str key;
        const char *v;
        bool also_empty;
    } texts[] = {{STR(SEMCONV_WICK_GOVERNOR), s->governor, true},
                 {STR(SEMCONV_WICK_VIA), s->via, false},
                 {STR(SEMCONV_WICK_VIA_REASON), s->why, false},
                 {STR(SEMCONV_WICK_LACKS), s->lacks, false}};

    builder_scope(m->b, STR("wick"), STR(WICK_VERSION));
    for (size_t i = 0; i < ARRAY_SIZE(attrs); i++) {
        struct value v = {.kind = VALUE_INT, .integer = attrs[i].v};

        builder_scope_attr(m->b, attrs[i].key, &v);
    }
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct str v = str_from(texts[i].v);

        if (v.n || texts[i].also_empty)
            builder_scope_attr(m->b, texts[i].key, &(struct value){.kind = VALUE_STR, .n = v.n, .str = v.n ? v.p : ""});
    }
    if (m->t->options.mark_own && own_of(p)->found)
        builder_scope_attr(m->b, m->own ? STR(SEMCONV_WICK_ALSO_SENT) : STR(SEMCONV_WICK_LEAVES_OUT),
                           &(struct value){.kind = VALUE_BOOL, .boolean = true});
}

/* A process that was gone before it could be read, or the kernel. */
static void put_plain_resource(struct batch_maker *m, const struct tally_process *p)
{
    struct value pid = {.kind = VALUE_INT, .integer = p->pid};
    struct utsname u;

    if (!p->kernel) {
        builder_resource_attr_str(m->b, STR(SEMCONV_SERVICE_NAME), str_from(p->comm));
        builder_resource_attr(m->b, STR(SEMCONV_PROCESS_PID), &pid);
    } else {
        builder_resource_attr_str(m->b, STR(SEMCONV_SERVICE_NAME), STR("kernel"));
    }
    if (uname(&u) < 0)
        return;
    if (p->kernel)
        builder_resource_attr_str(m->b, STR(SEMCONV_SERVICE_VERSION), str_from(u.release));
    builder_resource_attr_str(m->b, STR(SEMCONV_HOST_NAME), str_from(u.nodename));
}

static void begin_process(struct batch_maker *m, const struct tally_process *p)
{
    const struct identity *i = p->process ? p->process->identity : p->identity;
    enum foreign foreign = p->process ? p->process->foreign : p->foreign;

    builder_resource(m->b);
    if (i)
        identity_put(i, m->b);
    else
        put_plain_resource(m, p);
    if (own_of(p)->id[0])
        builder_resource_attr_str(m->b, STR(SEMCONV_WICK_PROCESS), str_from(own_of(p)->id));
    if (foreign > FOREIGN_NONE)
        builder_resource_attr_str(m->b, STR(SEMCONV_WICK_HIDDEN_RUNTIME), str_from(foreign_name(foreign)));
    put_scope(m, p);
}

static int by_profile(const void *a, const void *b)
{
    const struct tally_row *x = &sorting->rows[*(const uint32_t *) a], *y = &sorting->rows[*(const uint32_t *) b];

    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->period_ns != y->period_ns)
        return x->period_ns < y->period_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The CPU samples of a process add up to the time that it used. */
static void weigh_processes(struct tally *t)
{
    for (size_t i = 0; i < t->n_processes; i++) {
        struct tally_process *x = &t->processes[i];
        int64_t *balance = x->process ? &x->process->cpu.balance_ns : &x->balance_ns;

        x->weight = 1;
        if (x->plain_ns > 0)
            x->weight = (double) process_cpu_weigh(balance, x->plain_ns, x->step_ns, x->used_ns) / (double) x->plain_ns;
    }
}

static void sort_rows(struct batch_maker *m)
{
    sorting = m->t;
    for (uint32_t i = 0; i < m->t->n_rows; i++)
        m->order[i] = i;
    qsort(m->order, m->t->n_rows, sizeof *m->order, by_profile);
}

static void put_rows(struct batch_maker *m, bool own)
{
    struct tally *t = m->t;
    const struct tally_row *last = NULL;

    m->own = own;
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct tally_row *row = &t->rows[m->order[i]];
        uint32_t n = part_of(m, row);

        if (!n)
            continue;
        t->counts.also_sent += own ? n : 0;
        if (!last || last->process != row->process)
            begin_process(m, &t->processes[row->process]);
        if (!last || !is_one_profile(last, row))
            begin_profile(m, i);
        put_row(m, row);
        last = row;
    }
}

int tally_batch(struct tally *t, const struct tally_scope *scope, struct batch **ret, struct err *e)
{
    struct batch_maker m = {.t = t, .scope = scope, .wall_minus_mono = clock_wall() - clock_mono()};
    int r = 0;

    *ret = NULL;
    if (tally_is_empty(t)) {
        tally_clear(t);
        tally_begin(t, scope->end_ns);
        return 0;
    }
    r = builder_new(NULL, &m.b);
    if (r < 0)
        return r;
    m.locations = mem_zalloc_array(t->n_frames + 1, sizeof *m.locations);
    m.stacks = mem_zalloc_array(t->n_stacks + 1, sizeof *m.stacks);
    m.order = mem_zalloc_array(t->n_rows, sizeof *m.order);
    m.used = mem_zalloc_array(t->n_frames + 1, sizeof *m.used);
    if (!m.locations || !m.stacks || !m.order || !m.used) {
        r = -ENOMEM;
    } else {
        weigh_processes(t);
        mark_frames(&m);
        r = put_locations(&m);
        if (r == 0) {
            sort_rows(&m);
            put_rows(&m, false);
            if (t->options.mark_own)
                put_rows(&m, true);
            r = builder_finish(m.b, ret, e);
        }
    }
    mem_free(m.locations);
    mem_free(m.stacks);
    mem_free(m.order);
    mem_free(m.used);
    mem_free(m.scratch);
    builder_free(m.b);
    tally_clear(t);
    tally_begin(t, scope->end_ns);
    return r;
}
