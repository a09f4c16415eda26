/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's profiles, as Node and Chrome write them:
 *
 *   .cpuprofile   {"nodes":[node...], "startTime":us, "endTime":us, "samples":[id...], "timeDeltas":[us...]}
 *   .heapprofile  {"head":{"callFrame", "selfSize":bytes, "children":[the same...]}, "samples":[...]}
 *   trace events  {"name":"Profile", "id", "pid", "args":{"data":{"startTime":us}}}, then
 *                 {"name":"ProfileChunk", "id", "pid", "args":{"data":{"cpuProfile":{"nodes", "samples"}, "timeDeltas"}}};
 *                 old versions have one "CpuProfile" with all of it
 *
 * V8 samples by the clock, and counts an idle thread as "(idle)": the types are samples/count and wall/nanoseconds. The
 * time of a sample is that until the next one, as DevTools shows it. Sampled heaps are inuse_space/bytes.
 */
#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "codec/jsonfile/v8_nodes.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { HEAP_DEPTH_MAX = 4096, TRACE_PROFILES_MAX = 4096 };

/* --- .cpuprofile --- */

struct cpuprofile {
    struct v8_nodes n;
    struct str nodes;
    struct json_numbers samples, deltas;
    double start, end;
};

static int read_keys(struct json_profile *p, struct json *j, struct cpuprofile *c)
{
    struct str key;
    int r = 0;

    json_begin_object(j);
    while (r == 0 && json_next_key(j, &key)) {
        if (str_is(key, "nodes"))
            c->nodes = json_raw(j);
        else if (str_is(key, "samples"))
            r = json_numbers_read(p, j, &c->samples);
        else if (str_is(key, "timeDeltas"))
            r = json_numbers_read(p, j, &c->deltas);
        else if (str_is(key, "startTime"))
            c->start = json_double(j);
        else if (str_is(key, "endTime"))
            c->end = json_double(j);
        else
            json_skip(j);
    }
    return r;
}

/* Files without a list of samples have the number of hits of each node. */
static int add_hits(struct json_profile *p, struct v8_nodes *n)
{
    int r = 0;

    for (size_t i = 0; i < n->nodes.n && r == 0; i++) {
        struct sum_row row = {.values = {json_profile_round(n->hits[i], 1), 0}};

        if (row.values[0] <= 0)
            continue;
        r = json_profile_stack(p, &n->nodes, i, &row.stack);
        if (r == 0)
            r = sample_sum_add(&p->sum, &row);
    }
    return r;
}

static int cpuprofile_build(struct json_profile *p, struct cpuprofile *c, struct err *e)
{
    int r = c->nodes.n ? v8_nodes_read(p, &c->n, c->nodes) : 0;

    if (r == -EINVAL)
        return err_set(e, r, "%s: 'nodes' is not a list of nodes", p->format);
    if (r == 0 && c->samples.n)
        r = v8_samples_add(p, &c->n, &c->samples, &c->deltas, c->end - c->start,
                           &(struct sum_row){.time = json_profile_round(c->start, 1000)});
    else if (r == 0)
        r = add_hits(p, &c->n);
    if (r == -EINVAL)
        return err_set(e, r, "%s: the parents of a node do not end", p->format);
    if (r == 0 && !p->sum.n)
        return err_set(e, -ENODATA, "%s: no samples", p->format);
    if (r == 0)
        r = v8_profile_write(p, 0, c->samples.n > 0, json_profile_round(c->end - c->start, 1000));
    return r;
}

int cpuprofile_read(struct json_profile *p, struct err *e)
{
    struct cpuprofile c = {0};
    struct json j;
    int r;

    json_init(&j, p->text, &p->arena);
    r = read_keys(p, &j, &c);
    if (r == 0 && json_end(&j) < 0)
        r = json_profile_error(p, &j, e);
    if (r == 0)
        r = cpuprofile_build(p, &c, e);
    v8_nodes_done(&c.n);
    json_numbers_done(&c.samples);
    json_numbers_done(&c.deltas);
    return r;
}

/* --- .heapprofile --- */

struct heap_size {
    size_t node;
    double bytes;
};

struct heap_read {
    struct json_profile *p;
    struct v8_nodes n;
    struct heap_size *sizes; /* of nodes that have bytes of their own */
    size_t n_sizes, cap_sizes;
};

/* A node and its children. Each level is two levels of JSON, of which the parser allows 128: stacks are deeper than that,
 * so the depth is counted here. */
static int read_heap_node(struct heap_read *h, struct json *j, uint32_t parent, int depth)
{
    struct json_profile *p = h->p;
    struct v8_nodes *n = &h->n;
    struct call_node node = {.parent = parent};
    size_t at = n->nodes.n;
    struct str key;
    int r = array_push(n->nodes.v, n->nodes.n, n->nodes.cap, json_profile_limit(p, sizeof node), node);
    double size = 0;

    if (depth > HEAP_DEPTH_MAX)
        json_fail(j, "stacks are too deep");
    json_begin_object(j);
    while (r == 0 && json_next_key(j, &key)) {
        if (str_is(key, "callFrame")) {
            n->nodes.v[at].location = v8_frame_read(p, n, j);
        } else if (str_is(key, "selfSize")) {
            size = json_double(j);
        } else if (str_is(key, "children")) {
            uint8_t saved;

            json_begin_array(j);
            saved = j->depth;
            j->depth = 1;
            while (r == 0 && json_next_item(j))
                r = read_heap_node(h, j, (uint32_t) at + 1, depth + 1);
            /* next_item() has left the array, which lowered the depth by one */
            j->depth = j->err ? j->depth : (uint8_t) (saved - 1);
        } else {
            json_skip(j);
        }
    }
    if (r == 0 && !j->err && size > 0)
        r = array_push(h->sizes, h->n_sizes, h->cap_sizes, json_profile_limit(p, sizeof *h->sizes),
                       ((struct heap_size){at, size}));
    return r;
}

/* Only after all nodes are read: the frame of a node may come after its children. */
static int add_heap_sizes(struct heap_read *h)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < h->n_sizes; i++) {
        struct sum_row row = {.values = {json_profile_round(h->sizes[i].bytes, 1), 0}};

        r = json_profile_stack(h->p, &h->n.nodes, h->sizes[i].node, &row.stack);
        if (r == 0)
            r = sample_sum_add(&h->p->sum, &row);
    }
    return r;
}

int heapprofile_read(struct json_profile *p, struct err *e)
{
    struct value_type type = {builder_string(p->b, STR("inuse_space")), builder_string(p->b, STR("bytes"))};
    struct heap_read h = {.p = p};
    struct json j;
    struct str key;
    int r = 0;

    json_init(&j, p->text, &p->arena);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (str_is(key, "head") && !h.n.nodes.n)
            r = read_heap_node(&h, &j, 0, 0);
        else
            json_skip(&j);
    }
    if (r == 0 && json_end(&j) < 0)
        r = json_profile_error(p, &j, e);
    if (r == 0)
        r = add_heap_sizes(&h);
    if (r == 0 && !p->sum.n)
        r = err_set(e, -ENODATA, "%s: no samples", p->format);
    if (r == 0)
        r = sample_sum_write(&p->sum, 0, &(struct profile){.types = &type, .n_types = 1}, 1, p->b);
    mem_free(h.sizes);
    v8_nodes_done(&h.n);
    return r;
}

/* --- trace events --- */

/* The profile of one thread: its chunks follow one another. */
struct trace_profile {
    struct str id;
    double pid, tid; /* tid: 0 = not known */
    struct cpuprofile c;
};

struct chrome_trace {
    struct json_profile *p;
    struct trace_profile *v;
    size_t n, cap;
};

struct trace_event {
    struct str name, id, args;
    double pid, tid;
};

static struct trace_profile *find_profile(struct chrome_trace *t, const struct trace_event *ev, int *ret)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].pid == ev->pid && str_eq(t->v[i].id, ev->id))
            return &t->v[i];
    *ret = array_push(t->v, t->n, t->cap, TRACE_PROFILES_MAX, (struct trace_profile){.id = ev->id, .pid = ev->pid});
    return *ret == 0 ? &t->v[t->n - 1] : NULL;
}

/* args.data: of a Profile, its start; of a chunk, nodes, samples and times. */
static int read_data(struct chrome_trace *t, struct json *j, struct trace_profile *to)
{
    struct str key, nodes = {0};
    int r = 0;

    json_begin_object(j);
    while (r == 0 && json_next_key(j, &key)) {
        if (str_is(key, "timeDeltas")) {
            r = json_numbers_read(t->p, j, &to->c.deltas);
        } else if (str_is(key, "startTime") && json_peek(j) == JSON_NUMBER) {
            to->c.start = json_double(j);
        } else if (str_is(key, "cpuProfile") && json_peek(j) == JSON_OBJECT) {
            json_begin_object(j);
            while (r == 0 && json_next_key(j, &key)) {
                if (str_is(key, "nodes"))
                    nodes = json_raw(j);
                else if (str_is(key, "samples"))
                    r = json_numbers_read(t->p, j, &to->c.samples);
                else if (str_is(key, "timeDeltas"))
                    r = json_numbers_read(t->p, j, &to->c.deltas);
                else
                    json_skip(j);
            }
        } else {
            json_skip(j);
        }
    }
    if (r == 0 && nodes.n)
        r = v8_nodes_read(t->p, &to->c.n, nodes);
    return r;
}

static int read_args(struct chrome_trace *t, const struct trace_event *ev)
{
    struct trace_profile *to;
    struct json j;
    struct str key;
    int r = 0;

    if (!str_is(ev->name, "Profile") && !str_is(ev->name, "ProfileChunk") && !str_is(ev->name, "CpuProfile"))
        return 0;
    to = find_profile(t, ev, &r);
    if (to && !str_is(ev->name, "ProfileChunk")) /* chunks are of the thread that writes them */
        to->tid = ev->tid;
    json_init(&j, ev->args, &t->p->arena);
    json_begin_object(&j);
    while (to && r == 0 && json_next_key(&j, &key)) {
        if (str_is(key, "data") && json_peek(&j) == JSON_OBJECT)
            r = read_data(t, &j, to);
        else
            json_skip(&j);
    }
    return r < 0 ? r : j.err;
}

static int read_event(struct chrome_trace *t, struct json *j)
{
    struct trace_event ev = {0};
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name"))
            ev.name = json_peek(j) == JSON_STRING ? json_str(j) : (json_skip(j), (struct str){0});
        else if (str_is(key, "id"))
            ev.id = json_raw(j);
        else if (str_is(key, "pid"))
            ev.pid = json_peek(j) == JSON_NUMBER ? json_double(j) : (json_skip(j), 0);
        else if (str_is(key, "tid"))
            ev.tid = json_peek(j) == JSON_NUMBER ? json_double(j) : (json_skip(j), 0);
        else if (str_is(key, "args"))
            ev.args = json_raw(j);
        else
            json_skip(j);
    }
    return j->err || !ev.args.n ? 0 : read_args(t, &ev);
}

static int read_events(struct chrome_trace *t, struct json *j)
{
    int r = 0;

    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        if (json_peek(j) == JSON_OBJECT)
            r = read_event(t, j);
        else
            json_skip(j);
    }
    return r;
}

static int read_trace(struct chrome_trace *t, struct err *e)
{
    struct json_profile *p = t->p;
    struct json j;
    struct str key;
    int r = 0;

    json_init(&j, p->text, &p->arena);
    if (json_peek(&j) == JSON_ARRAY) {
        r = read_events(t, &j);
    } else {
        json_begin_object(&j);
        while (r == 0 && json_next_key(&j, &key)) {
            if (str_is(key, "traceEvents"))
                r = read_events(t, &j);
            else
                json_skip(&j);
        }
    }
    return r < 0 ? r : json_end(&j) < 0 ? json_profile_error(p, &j, e) : 0;
}

int chrome_trace_read(struct json_profile *p, struct err *e)
{
    struct chrome_trace t = {.p = p};
    int r = read_trace(&t, e);

    for (size_t i = 0; i < t.n && r == 0; i++) {
        struct cpuprofile *c = &t.v[i].c;
        uint32_t attrs[2], n = 0;

        attrs[n++] =
            builder_attr_int(p->b, STR(SEMCONV_PROCESS_PID), json_profile_round(t.v[i].pid, 1), (struct str){0});
        if (t.v[i].tid)
            attrs[n++] =
                builder_attr_int(p->b, STR(SEMCONV_THREAD_ID), json_profile_round(t.v[i].tid, 1), (struct str){0});

        r = v8_samples_add(
            p, &c->n, &c->samples, &c->deltas, 0,
            &(struct sum_row){.attrs = builder_attrs(p->b, attrs, n), .time = json_profile_round(c->start, 1000)});
    }
    if (r == 0 && !p->sum.n)
        r = err_set(e, -ENODATA, "%s: no samples; record with the category disabled-by-default-v8.cpu_profiler",
                    p->format);
    if (r == 0)
        r = v8_profile_write(p, 0, true, 0);
    for (size_t i = 0; i < t.n; i++) {
        v8_nodes_done(&t.v[i].c.n);
        json_numbers_done(&t.v[i].c.samples);
        json_numbers_done(&t.v[i].c.deltas);
    }
    mem_free(t.v);
    return r;
}
