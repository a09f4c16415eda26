/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads profiles of the Firefox Profiler, in the form in which it saves them (samply writes it too) and in the form in
 * which Gecko dumps them:
 *
 *   {"meta":{"interval":ms, "sampleUnits":{"threadCPUDelta":"ns"}}, "libs":[{"path","name","codeId"}...],
 *    "threads":[thread...], "shared":{tables of all threads, in newer versions}, "processes":[the same...]}
 *   thread: {"name","pid","tid", "samples", "stackTable", "frameTable", "funcTable", "resourceTable", "stringArray"}
 *
 * A table is a set of columns, {"prefix":[...], "frame":[...], "length":n}, or Gecko's rows with a schema,
 * {"schema":{"prefix":0,"frame":1}, "data":[[...]...]}. A stack has a prefix and a frame; a frame has a function, or
 * in Gecko's form a location, "name (file:line)".
 *
 * The types are samples/count, and cpu/nanoseconds if the profile has the CPU time of samples, else wall/nanoseconds by
 * the interval; allocations (weightType bytes) are inuse_space/bytes. Frames without a symbol ("0x1234") keep their
 * library, with its build id, and their address.
 */
#include <errno.h>
#include <math.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "codec/jsonfile/json_profile.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { PROCESS_DEPTH_MAX = 4, COLUMNS_MAX = 16 };
enum fox_kind { FOX_CPU, FOX_WALL, FOX_BYTES };

/* The tables of a thread, or those that all threads share. */
struct fox_tables {
    struct json_numbers prefix, prefix_offset, stack_frame;
    struct json_numbers func, line, column, address, location, frame_lib;
    struct json_numbers name, file, source, func_line, resource;
    struct json_numbers lib, filename;
    struct json_texts strings;
    struct call_nodes nodes;
    uint32_t *locations; /* of frames, plus one */
};

/* The texts of the tables. */
struct fox_raw {
    struct str samples, stack, frame, func, resource, sources, strings;
};

struct fox_reader {
    struct json_profile *p;
    uint32_t *mappings; /* of libs */
    size_t n_mappings, cap_mappings;
    double interval_ms, cpu_scale; /* cpu_scale: nanoseconds of a unit of threadCPUDelta; 0 = not times */
    struct fox_tables shared;
    struct fox_raw shared_raw;
    bool has_shared;
    bool used[3]; /* by enum fox_kind */
};

/* --- tables --- */

struct fox_column {
    const char *name;
    struct json_numbers *to;
};

static int push_number(struct fox_reader *x, struct json_numbers *to, double v)
{
    return array_push(to->v, to->n, to->cap, json_profile_limit(x->p, sizeof *to->v), v);
}

/* Rows, of which column[i] says where element i goes. */
static int read_rows(struct fox_reader *x, struct json *j, struct json_numbers *const *column)
{
    int r = 0;

    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        size_t i = 0;

        json_begin_array(j);
        for (; r == 0 && json_next_item(j); i++) {
            double v = json_peek(j) == JSON_NUMBER ? json_double(j) : (json_skip(j), NAN);

            if (i < COLUMNS_MAX && column[i])
                r = push_number(x, column[i], v);
        }
        for (; i < COLUMNS_MAX && r == 0; i++) /* Gecko leaves out nulls at the end of a row */
            if (column[i])
                r = push_number(x, column[i], NAN);
    }
    return r;
}

static void read_schema(struct json *j, const struct fox_column *columns, size_t n, struct json_numbers **ret)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        double at = json_double(j);

        for (size_t i = 0; i < n; i++)
            if (str_is(key, columns[i].name) && at >= 0 && at < COLUMNS_MAX)
                ret[(size_t) at] = columns[i].to;
    }
}

static int read_table(struct fox_reader *x, struct str text, const struct fox_column *columns, size_t n)
{
    struct json_numbers *by_schema[COLUMNS_MAX] = {0};
    struct json j, data = {0};
    bool has_data = false;
    struct str key;
    int r = 0;

    if (!text.n)
        return 0;
    json_init(&j, text, &x->p->arena);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        size_t i;

        for (i = 0; i < n && !str_is(key, columns[i].name); i++)
            ;
        if (i < n && !columns[i].to->n) {
            r = json_numbers_read(x->p, &j, columns[i].to);
        } else if (str_is(key, "schema") && json_peek(&j) == JSON_OBJECT) {
            read_schema(&j, columns, n, by_schema);
        } else if (str_is(key, "data") && !has_data) {
            json_init(&data, json_raw(&j), &x->p->arena);
            has_data = true;
        } else {
            json_skip(&j);
        }
    }
    for (size_t i = 0; i < COLUMNS_MAX && has_data && r == 0; i++)
        if (by_schema[i]) {
            r = read_rows(x, &data, by_schema);
            break;
        }
    return r < 0 ? r : j.err ? j.err : has_data ? data.err : 0;
}

static int read_strings(struct fox_reader *x, struct str text, struct json_texts *ret)
{
    struct json j;
    int r;

    if (!text.n)
        return 0;
    json_init(&j, text, &x->p->arena);
    r = json_texts_read(x->p, &j, ret);
    return r < 0 ? r : j.err;
}

/* The parent of a row of the stack table, or -1: by its number, or since version 66 of the format by the distance. */
static int64_t parent_row(const struct fox_tables *t, size_t i, size_t n)
{
    int64_t offset = json_numbers_index(&t->prefix_offset, i, i + 1);

    return offset > 0 ? (int64_t) i - offset : json_numbers_index(&t->prefix, i, n);
}

static int make_nodes(struct fox_reader *x, struct fox_tables *t)
{
    size_t n = MIN(t->stack_frame.n, (size_t) UINT32_MAX - 1);
    int r = array_reserve(t->nodes.v, t->nodes.cap, n, json_profile_limit(x->p, sizeof *t->nodes.v));

    if (r < 0)
        return r;
    t->locations = mem_zalloc_array(MAX(t->func.n, t->location.n) + 1, sizeof *t->locations);
    if (!t->locations)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        t->nodes.v[i] = (struct call_node){.parent = (uint32_t) (parent_row(t, i, n) + 1)};
    t->nodes.n = n;
    return 0;
}

static int tables_read(struct fox_reader *x, const struct fox_raw *raw, struct fox_tables *t)
{
    const struct fox_column stack[] = {
        {"prefix", &t->prefix}, {"prefixOffset", &t->prefix_offset}, {"frame", &t->stack_frame}};
    const struct fox_column frame[] = {{"func", &t->func},       {"line", &t->line},         {"column", &t->column},
                                       {"address", &t->address}, {"location", &t->location}, {"lib", &t->frame_lib}};
    const struct fox_column func[] = {{"name", &t->name},
                                      {"fileName", &t->file},
                                      {"source", &t->source},
                                      {"lineNumber", &t->func_line},
                                      {"resource", &t->resource}};
    const struct fox_column resource[] = {{"lib", &t->lib}};
    const struct fox_column sources[] = {{"filename", &t->filename}};
    int r = read_table(x, raw->stack, stack, ARRAY_SIZE(stack));

    if (r == 0)
        r = read_table(x, raw->frame, frame, ARRAY_SIZE(frame));
    if (r == 0)
        r = read_table(x, raw->func, func, ARRAY_SIZE(func));
    if (r == 0)
        r = read_table(x, raw->resource, resource, ARRAY_SIZE(resource));
    if (r == 0)
        r = read_table(x, raw->sources, sources, ARRAY_SIZE(sources));
    if (r == 0)
        r = read_strings(x, raw->strings, &t->strings);
    return r < 0 ? r : make_nodes(x, t);
}

static void tables_done(struct fox_tables *t)
{
    struct json_numbers *all[] = {
        &t->prefix,    &t->prefix_offset, &t->stack_frame, &t->func,     &t->line, &t->column,
        &t->address,   &t->location,      &t->frame_lib,   &t->name,     &t->file, &t->source,
        &t->func_line, &t->resource,      &t->lib,         &t->filename,
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        json_numbers_done(all[i]);
    mem_free(t->strings.v);
    mem_free(t->nodes.v);
    mem_free(t->locations);
}

/* --- frames --- */

static struct str text_at(const struct fox_tables *t, const struct json_numbers *column, size_t i)
{
    int64_t s = json_numbers_index(column, i, t->strings.n);

    return s < 0 ? (struct str){0} : t->strings.v[s];
}

/* Gecko: "name (file:line:column)", "0x1234", or the name of a label. */
static void parse_location(struct str text, struct json_frame *f)
{
    ptrdiff_t open = str_find(text, STR(" ("));
    struct str in;
    int64_t number;

    f->name = text;
    if (open <= 0 || text.p[text.n - 1] != ')')
        return;
    in = str_slice(text, (size_t) open + 2, text.n - 1);
    f->name = str_slice(text, 0, (size_t) open);
    f->file = in;
    for (int i = 0; i < 2; i++) {
        uint32_t at = f->file.n;

        while (at > 0 && f->file.p[at - 1] != ':')
            at--;
        if (at < 2 || str_to_i64(str_slice(f->file, at, f->file.n), 10, &number) < 0)
            return;
        f->column = i ? f->line : 0;
        f->line = number;
        f->file.n = at - 1;
    }
}

static uint32_t frame_location(struct fox_reader *x, struct fox_tables *t, size_t i)
{
    int64_t func = json_numbers_index(&t->func, i, t->name.n), source, resource, lib;
    struct json_frame f = {0};
    double address = i < t->address.n ? t->address.v[i] : NAN;

    if (t->locations[i])
        return t->locations[i] - 1;
    lib = json_numbers_index(&t->frame_lib, i, x->n_mappings);
    if (func >= 0) {
        f.name = text_at(t, &t->name, (size_t) func);
        f.file = text_at(t, &t->file, (size_t) func);
        source = json_numbers_index(&t->source, (size_t) func, t->filename.n);
        if (source >= 0)
            f.file = text_at(t, &t->filename, (size_t) source);
        f.start_line = json_profile_round(json_numbers_at(&t->func_line, (size_t) func), 1);
        resource = json_numbers_index(&t->resource, (size_t) func, t->lib.n);
        if (resource >= 0 && lib < 0)
            lib = json_numbers_index(&t->lib, (size_t) resource, x->n_mappings);
    } else {
        parse_location(text_at(t, &t->location, i), &f);
    }
    if (!f.line)
        f.line = json_profile_round(json_numbers_at(&t->line, i), 1);
    if (!f.column)
        f.column = json_profile_round(json_numbers_at(&t->column, i), 1);
    if (lib >= 0)
        f.mapping = x->mappings[lib];
    if (lib >= 0 && address >= 0 && address < 0x1p53 && str_starts(f.name, STR("0x"))) {
        f.address = (uint64_t) address;
        f.name = (struct str){0}; /* to be symbolized */
    } else if (!f.name.n) {
        f.name = STR("[unknown]");
    }
    t->locations[i] = 1 + json_profile_location(x->p, &f);
    return t->locations[i] - 1;
}

/* The builder's stack for a row of the stack table. */
static int stack_of(struct fox_reader *x, struct fox_tables *t, size_t row, uint32_t *ret)
{
    size_t n_frames = MAX(t->func.n, t->location.n), steps = 0;

    for (size_t at = row; !t->nodes.v[at].location && steps <= t->nodes.n; steps++) {
        int64_t frame = json_numbers_index(&t->stack_frame, at, n_frames);

        if (frame >= 0)
            t->nodes.v[at].location = frame_location(x, t, (size_t) frame);
        if (!t->nodes.v[at].parent)
            break;
        at = t->nodes.v[at].parent - 1;
    }
    return json_profile_stack(x->p, &t->nodes, row, ret);
}

/* --- samples --- */

struct fox_thread {
    struct str name, weight_type;
    double pid, tid;
    struct fox_raw raw;
};

static struct str read_weight_type(struct fox_reader *x, struct str samples)
{
    struct str key, type = {0};
    struct json j;

    json_init(&j, samples, &x->p->arena);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (str_is(key, "weightType") && json_peek(&j) == JSON_STRING)
            type = json_str(&j);
        else
            json_skip_unchecked(&j);
    }
    return type;
}

static struct run thread_attrs(struct fox_reader *x, const struct fox_thread *th)
{
    struct builder *b = x->p->b;
    uint32_t attrs[3], n = 0;

    if (th->name.n)
        attrs[n++] = builder_attr_str(b, STR(SEMCONV_THREAD_NAME), th->name);
    if (th->pid > 0)
        attrs[n++] = builder_attr_int(b, STR(SEMCONV_PROCESS_PID), json_profile_round(th->pid, 1), (struct str){0});
    if (th->tid > 0)
        attrs[n++] = builder_attr_int(b, STR(SEMCONV_THREAD_ID), json_profile_round(th->tid, 1), (struct str){0});
    return n ? builder_attrs(b, attrs, n) : (struct run){0};
}

static int add_samples(struct fox_reader *x, struct fox_tables *t, const struct fox_thread *th)
{
    struct json_numbers stack = {0}, weight = {0}, cpu = {0}, time = {0}, deltas = {0};
    const struct fox_column columns[] = {
        {"stack", &stack}, {"weight", &weight}, {"threadCPUDelta", &cpu}, {"time", &time}, {"timeDeltas", &deltas}};
    bool bytes = str_is(th->weight_type, "bytes"), ms = str_is(th->weight_type, "tracing-ms");
    struct run attrs = thread_attrs(x, th);
    int r = read_table(x, th->raw.samples, columns, ARRAY_SIZE(columns));
    double at = 0;
    enum fox_kind kind = bytes ? FOX_BYTES : cpu.n && x->cpu_scale > 0 ? FOX_CPU : FOX_WALL;

    for (size_t i = 0; i < stack.n && r == 0; i++) {
        int64_t row = json_numbers_index(&stack, i, t->nodes.n);
        double w = weight.n ? json_numbers_at(&weight, i) : 1;
        struct sum_row sum = {.profile = kind, .attrs = attrs};

        at = time.n ? json_numbers_at(&time, i) : at + json_numbers_at(&deltas, i);
        if (row < 0)
            continue;
        if ((time.n || deltas.n) && kind != FOX_BYTES)
            sum.time = MAX(json_profile_round(at, 1e6), 1);
        sum.values[0] = json_profile_round(ms ? 1 : w, 1);
        sum.values[1] = kind == FOX_CPU ? json_profile_round(json_numbers_at(&cpu, i), x->cpu_scale)
                                        : json_profile_round(ms ? w : w * x->interval_ms, 1e6);
        r = stack_of(x, t, (size_t) row, &sum.stack);
        if (r == 0)
            r = sample_sum_add(&x->p->sum, &sum);
        x->used[kind] = true;
    }
    json_numbers_done(&stack);
    json_numbers_done(&weight);
    json_numbers_done(&cpu);
    json_numbers_done(&time);
    json_numbers_done(&deltas);
    return r;
}

/* --- threads --- */

static bool raw_key(struct fox_raw *raw, struct str key, struct json *j)
{
    struct str *to = str_is(key, "samples")                                     ? &raw->samples
                     : str_is(key, "stackTable")                                ? &raw->stack
                     : str_is(key, "frameTable")                                ? &raw->frame
                     : str_is(key, "funcTable")                                 ? &raw->func
                     : str_is(key, "resourceTable")                             ? &raw->resource
                     : str_is(key, "sources")                                   ? &raw->sources
                     : str_is(key, "stringArray") || str_is(key, "stringTable") ? &raw->strings
                                                                                : NULL;

    if (to)
        *to = json_raw(j);
    return to;
}

/* A number, which may be written as a string. */
static double loose_number(struct json *j)
{
    struct str text;
    double v = 0;

    if (json_peek(j) == JSON_NUMBER)
        return json_double(j);
    if (json_peek(j) == JSON_STRING) {
        text = json_str(j);
        return str_to_double(text, &v) == 0 ? v : 0;
    }
    json_skip(j);
    return 0;
}

static int read_thread(struct fox_reader *x, struct json *j)
{
    struct fox_thread th = {0};
    struct fox_tables own = {0};
    struct str key;
    bool shared;
    int r = 0;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name") && json_peek(j) == JSON_STRING)
            th.name = json_str(j);
        else if (str_is(key, "pid"))
            th.pid = loose_number(j);
        else if (str_is(key, "tid"))
            th.tid = loose_number(j);
        else if (!raw_key(&th.raw, key, j))
            json_skip(j);
    }
    if (j->err || !th.raw.samples.n)
        return 0;
    th.weight_type = read_weight_type(x, th.raw.samples);
    shared = x->has_shared && !th.raw.stack.n;
    if (!shared) {
        if (!th.raw.strings.n)
            th.raw.strings = x->shared_raw.strings;
        r = tables_read(x, &th.raw, &own);
    }
    if (r == 0)
        r = add_samples(x, shared ? &x->shared : &own, &th);
    tables_done(&own);
    return r;
}

/* --- the whole file --- */

static void read_meta(struct fox_reader *x, struct json *j)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "interval")) {
            x->interval_ms = json_double(j);
        } else if (str_is(key, "sampleUnits") && json_peek(j) == JSON_OBJECT) {
            json_begin_object(j);
            while (json_next_key(j, &key)) {
                struct str unit = json_str(j);

                if (str_is(key, "threadCPUDelta"))
                    x->cpu_scale = str_is(unit, "ns") ? 1 : str_is(unit, "\302\265s") || str_is(unit, "us") ? 1000 : 0;
            }
        } else {
            json_skip(j);
        }
    }
}

static bool is_hex(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (hex_digit(s.p[i]) < 0)
            return false;
    return s.n >= 16 && s.n <= 64;
}

static int read_libs(struct fox_reader *x, struct json *j)
{
    struct builder *b = x->p->b;
    struct str key;
    int r = 0;

    if (json_peek(j) != JSON_ARRAY) { /* old versions of Gecko have them as text */
        json_skip(j);
        return 0;
    }
    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        struct str path = {0}, name = {0}, code = {0};
        uint32_t attr = 0;

        json_begin_object(j);
        while (json_next_key(j, &key)) {
            struct str *to = str_is(key, "path")     ? &path
                             : str_is(key, "name")   ? &name
                             : str_is(key, "codeId") ? &code
                                                     : NULL;

            if (to && json_peek(j) == JSON_STRING)
                *to = json_str(j);
            else
                json_skip(j);
        }
        if (is_hex(code))
            attr = builder_attr_str(b, STR(SEMCONV_BUILD_ID_GNU), code);
        r = array_push(x->mappings, x->n_mappings, x->cap_mappings, json_profile_limit(x->p, sizeof *x->mappings),
                       builder_mapping(b, &(struct mapping){.filename = builder_string(b, path.n ? path : name)}, &attr,
                                       attr ? 1 : 0));
    }
    return r;
}

static int read_shared(struct fox_reader *x, struct str text)
{
    struct str key;
    struct json j;

    if (!text.n)
        return 0;
    json_init(&j, text, &x->p->arena);
    json_begin_object(&j);
    while (json_next_key(&j, &key))
        if (!raw_key(&x->shared_raw, key, &j))
            json_skip(&j);
    if (j.err || !x->shared_raw.stack.n)
        return j.err;
    x->has_shared = true;
    return tables_read(x, &x->shared_raw, &x->shared);
}

static int read_process(struct json_profile *p, struct str text, int depth, bool *used, struct err *e);

static int read_list(struct fox_reader *x, struct str text, bool processes, int depth, struct err *e)
{
    struct json j;
    int r = 0;

    if (!text.n)
        return 0;
    json_init(&j, text, &x->p->arena);
    json_begin_array(&j);
    while (r == 0 && json_next_item(&j)) {
        if (!processes)
            r = read_thread(x, &j);
        else
            r = read_process(x->p, json_raw(&j), depth + 1, x->used, e);
    }
    return r < 0 ? r : j.err;
}

static int read_process(struct json_profile *p, struct str text, int depth, bool *used, struct err *e)
{
    struct fox_reader x = {.p = p, .interval_ms = 1};
    struct str key, threads = {0}, processes = {0}, shared = {0};
    struct json j;
    int r = 0;

    if (depth > PROCESS_DEPTH_MAX)
        return err_set(e, -EINVAL, "%s: processes are nested too deeply", p->format);
    json_init(&j, text, &p->arena);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (str_is(key, "meta"))
            read_meta(&x, &j);
        else if (str_is(key, "libs"))
            r = read_libs(&x, &j);
        else if (str_is(key, "threads"))
            threads = json_raw(&j);
        else if (str_is(key, "processes"))
            processes = json_raw(&j);
        else if (str_is(key, "shared"))
            shared = json_raw(&j);
        else
            json_skip(&j);
    }
    if (r == 0 && json_end(&j) < 0)
        r = json_profile_error(p, &j, e);
    if (r == 0)
        r = read_shared(&x, shared);
    if (r == 0)
        r = read_list(&x, threads, false, depth, e);
    if (r == 0)
        r = read_list(&x, processes, true, depth, e);
    for (int i = 0; i < 3; i++)
        used[i] |= x.used[i];
    tables_done(&x.shared);
    mem_free(x.mappings);
    return r;
}

int firefox_read(struct json_profile *p, struct err *e)
{
    static const struct {
        struct str type, unit;
    } kinds[] = {
        {STR("cpu"), STR("nanoseconds")}, {STR("wall"), STR("nanoseconds")}, {STR("inuse_space"), STR("bytes")}};
    bool used[3] = {0};
    int r = read_process(p, p->text, 0, used, e);

    if (r == -EINVAL && e && !e->code)
        return err_set(e, r, "%s: a table is malformed", p->format);
    if (r < 0)
        return r;
    if (!p->sum.n)
        return err_set(e, -ENODATA, "%s: no samples", p->format);
    for (uint32_t k = 0; r == 0 && k < 3; k++) {
        struct value_type types[2] = {{builder_string(p->b, STR("samples")), builder_string(p->b, STR("count"))},
                                      {builder_string(p->b, kinds[k].type), builder_string(p->b, kinds[k].unit)}};
        uint32_t n = k == FOX_BYTES ? 1 : 2;

        if (!used[k])
            continue;
        r = sample_sum_write(&p->sum, k, &(struct profile){.types = n == 1 ? &types[1] : types, .n_types = n}, 1, p->b);
    }
    return r;
}
