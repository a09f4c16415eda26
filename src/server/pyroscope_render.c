/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The older HTTP API of Pyroscope, which its tools and dashboards still call:
 *
 *   GET /pyroscope/render?query=TYPE{…}&from=&until=&maxNodes=&groupBy=&format=   flame graph with its timeline; or dot
 *   GET /pyroscope/render-diff?leftQuery=&leftFrom=&leftUntil=&rightQuery=&rightFrom=&rightUntil=&maxNodes=
 *   GET /pyroscope/label-values?label=&query=&from=&until=
 *   GET /pyroscope/labels?query=&from=&until=
 *
 * Times are now-1h, Unix or RFC 3339. The answer is a "flamebearer" of version 1.
 */
#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/wrap.h"
#include "query/flamebearer.h"
#include "server/api.h"
#include "server/pyroscope.h"

enum { NODES_DEFAULT = 8192, POINTS_MAX = 1500, STEP_MIN_S = 15 };

/* --- parameters --- */

/* A time in milliseconds, 0 when absent. */
static int time_param(struct call *c, const char *name, int64_t *ret, struct err *e)
{
    struct str v = call_param(c, name);
    struct err why = {0};
    int64_t ns = 0;

    *ret = 0;
    if (!v.n)
        return 0;
    if (clock_parse(v, clock_wall(), &ns, &why) < 0)
        return err_set(e, -EINVAL, "%s: %.200s", name, why.message);
    *ret = ns / NS_PER_MS;
    return 0;
}

static int selection(struct call *c, const char *query, const char *from, const char *until, struct py_select *ret,
                     struct err *e)
{
    struct str q = call_param(c, query);
    ptrdiff_t brace = str_find_char(q, '{');
    uint64_t nodes = NODES_DEFAULT;
    int r;

    if (!q.n)
        return err_set(e, -EINVAL,
                       "%s is required, as in process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name=\"x\"}", query);
    ret->type_id = str_trim(brace < 0 ? q : str_slice(q, 0, (size_t) brace));
    ret->selector = brace < 0 ? (struct str){"", 0} : str_slice(q, (size_t) brace, q.n);
    r = call_param_u64(c, "maxNodes", &nodes, e);
    if (r == 0)
        r = call_param_u64(c, "max-nodes", &nodes, e);
    if (r == 0)
        r = time_param(c, from, &ret->start, e);
    if (r == 0)
        r = time_param(c, until, &ret->end, e);
    ret->max_nodes = (int64_t) MIN(nodes ? nodes : NODES_DEFAULT, 1u << 20);
    return r;
}

/* --- answers --- */

static void put_metadata(struct buf *out, struct str sample_type, struct str unit, bool diff)
{
    static const char *const objects[] = {"inuse_objects", "alloc_objects", "goroutine", "samples"};
    bool cpu = str_is(sample_type, "cpu"), first = true;

    if (cpu)
        unit = STR("samples");
    for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
        if (str_is(sample_type, objects[i]))
            unit = STR("objects");
    buf_puts(out, ",\"metadata\":{");
    json_put_key_str(out, &first, "format", diff ? STR("double") : STR("single"));
    json_put_key_str(out, &first, "spyName", STR(""));
    json_put_key(out, &first, "sampleRate"); /* a cpu "sample" is one nanosecond */
    json_put_u64(out, cpu ? (uint64_t) NS_PER_S : 100);
    json_put_key_str(out, &first, "units", unit);
    json_put_key_str(out, &first, "name", sample_type);
    buf_putc(out, '}');
}

int py_put_flamebearer(struct buf *out, const struct tree *t, struct str sample_type, struct str unit)
{
    bool diff = t->n_columns > 1;
    int r;

    buf_puts(out, "{\"version\":1,\"flamebearer\":");
    r = flamebearer_json(out, t);
    put_metadata(out, sample_type, unit, diff);
    if (diff)
        buf_printf(out, ",\"leftTicks\":%lld,\"rightTicks\":%lld", (long long) t->total[0][0],
                   (long long) t->total[1][0]);
    return r;
}

/* A timeline of Pyroscope begins at a multiple of its step, and points belong to the step in which their own ends. */
struct py_timeline {
    int64_t start, step; /* seconds */
    uint32_t n;
};

static void put_timeline(struct buf *out, const struct py_timeline *t, const struct store_points *p, uint32_t series)
{
    uint32_t at = 0;

    buf_printf(out, "{\"startTime\":%lld,\"durationDelta\":%lld,\"watermarks\":null,\"samples\":[",
               (long long) t->start, (long long) t->step);
    for (uint32_t i = 0; series < p->n_series && i < p->n_points; i++) {
        int64_t end = (p->from + (i + 1) * p->step) / NS_PER_S, slot = (end - t->start) / t->step;
        double v = p->values[(size_t) series * p->n_points + i];

        if (v == 0 || end < t->start || slot >= (int64_t) t->n)
            continue;
        for (; at < slot; at++)
            buf_puts(out, at ? ",0" : "0");
        if (at++)
            buf_putc(out, ',');
        json_put_i64(out, clamp_double(round(v)));
    }
    for (; at < t->n; at++)
        buf_puts(out, at ? ",0" : "0");
    buf_puts(out, "]}");
}

/* Writes the sum over all as "timeline", and the sum per value of the label as "groups". */
static int put_series(struct call *c, const struct py_request *r, struct str by, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct py_request *aligned = arena_zalloc(&c->q->arena, sizeof *aligned);
    struct query_series_params p = {.by = by};
    int64_t now = clock_wall() / NS_PER_MS, end = r->left.end ? r->left.end : now;
    int64_t start = r->left.start ? r->left.start : end - 3600000;
    struct py_timeline t = {.step = MAX((end - start) / POINTS_MAX / 1000, STEP_MIN_S)};
    struct store_points points;
    bool first = true;
    int result;

    if (!aligned)
        return -ENOMEM;
    *aligned = *r;
    aligned->step = (double) t.step;
    aligned->left.start = start;
    aligned->left.end = end;
    p.step = py_align(aligned);
    t.start = start / 1000 / t.step * t.step;
    t.n = (uint32_t) MAX((end / 1000 / t.step * t.step - t.start) / t.step, 0);
    result = py_compile(c, aligned, false, NULL, &q, e);
    if (result == 0)
        result = py_points(c, r, q, &p, &points, e);
    if (result < 0)
        return result;
    if (!by.n) {
        buf_puts(&c->out, ",\"timeline\":");
        put_timeline(&c->out, &t, &points, 0);
    } else {
        buf_puts(&c->out, ",\"groups\":{");
        for (uint32_t i = 0; i < points.n_series; i++) {
            json_sep(&c->out, &first);
            json_put_str(&c->out, points.labels[i].n ? points.labels[i].v[0].value : STR(""));
            buf_putc(&c->out, ':');
            put_timeline(&c->out, &t, &points, i);
        }
        buf_putc(&c->out, '}');
    }
    store_points_done(&points);
    return 0;
}

static int put_flame(struct call *c, const struct py_request *r, bool diff, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct str id, sample_type;
    int result = py_compile(c, r, diff, NULL, &q, e);

    if (result == 0)
        result = py_flame(c, r, q, &t, e);
    if (result < 0)
        return result;
    id = py_counts(r->left.type_id) ? r->left.type_id
                                    : py_type_id(&c->q->arena, &(struct type){.name = t->type, .unit = t->unit});
    str_cut(&id, ':');
    sample_type = str_cut(&id, ':');
    return py_put_flamebearer(&c->out, t, sample_type, str_cut(&id, ':'));
}

static int run_render(struct call *c, struct err *e)
{
    struct py_request *r = arena_zalloc(&c->q->arena, sizeof *r);
    struct str by = call_param(c, "groupBy"), format = call_param(c, "format");
    int result;

    if (!r)
        return -ENOMEM;
    result = selection(c, "query", "from", "until", &r->left, e);
    if (result == 0 && str_is(format, "dot")) {
        c->content_type = "text/plain; charset=utf-8";
        r->left.max_nodes = call_param(c, "maxNodes").n || call_param(c, "max-nodes").n ? r->left.max_nodes : 0;
        return py_dot(c, r, &c->out, e);
    }
    if (result == 0 && format.n && !str_is(format, "json"))
        result = err_set(e, -ENOSYS, "format: '%.*s' is not supported; json and dot are", STR_FMT(format));
    if (result == 0)
        result = put_flame(c, r, false, e);
    if (result == 0)
        result = put_series(c, r, (struct str){"", 0}, e);
    if (result == 0 && by.n)
        result = put_series(c, r, by, e);
    if (result == 0)
        buf_puts(&c->out, by.n ? ",\"heatmap\":null}\n" : ",\"groups\":null,\"heatmap\":null}\n");
    return result;
}

static int run_render_diff(struct call *c, struct err *e)
{
    struct py_request *r = arena_zalloc(&c->q->arena, sizeof *r);
    int result;

    if (!r)
        return -ENOMEM;
    result = selection(c, "leftQuery", "leftFrom", "leftUntil", &r->left, e);
    if (result == 0)
        result = selection(c, "rightQuery", "rightFrom", "rightUntil", &r->right, e);
    if (result == 0)
        result = put_flame(c, r, true, e);
    if (result == 0)
        buf_puts(&c->out, ",\"timeline\":null,\"groups\":null,\"heatmap\":null}\n");
    return result;
}

/* --- lists: those of the querier, as bare arrays --- */

/* Runs a method that writes {"names":[…]} and keeps the array. */
static int put_names(struct call *c, struct py_request *r,
                     int (*run)(struct call *c, struct py_request *r, struct pbjson *w, struct err *e), struct err *e)
{
    static const char head[] = "{\"names\":";
    struct pbjson w;
    int result;

    pbjson_open(&w, &c->out, true);
    result = run(c, r, &w, e);
    if (result < 0)
        return result;
    if (buf_error(&c->out))
        return buf_error(&c->out);
    memmove(c->out.p, c->out.p + sizeof head - 1, c->out.n - (sizeof head - 1));
    c->out.n -= sizeof head - 1;
    buf_putc(&c->out, '\n');
    return 0;
}

static int list_request(struct call *c, struct py_request **ret, struct err *e)
{
    struct py_request *r = arena_zalloc(&c->q->arena, sizeof *r);
    struct str query = call_param(c, "query");
    int result;

    if (!r)
        return -ENOMEM;
    if (query.n)
        r->matchers.v[r->matchers.n++] = query;
    result = time_param(c, "from", &r->left.start, e);
    if (result == 0)
        result = time_param(c, "until", &r->left.end, e);
    *ret = r;
    return result;
}

static int run_label_values(struct call *c, struct err *e)
{
    struct py_request *r = NULL;
    int result = list_request(c, &r, e);

    if (result < 0)
        return result;
    r->name = call_param(c, "label");
    if (!r->name.n)
        return err_set(e, -EINVAL, "label is required");
    if (str_is(r->name, "__name__"))
        r->name = STR("__profile_type__");
    return put_names(c, r, py_label_values, e);
}

static int run_labels(struct call *c, struct err *e)
{
    struct py_request *r = NULL;
    int result = list_request(c, &r, e);

    return result < 0 ? result : put_names(c, r, py_label_names, e);
}

static const struct route routes[] = {
    {"GET", "/pyroscope/render", AUTH_READ, false, run_render},
    {"GET", "/pyroscope/render-diff", AUTH_READ, false, run_render_diff},
    {"GET", "/pyroscope/label-values", AUTH_READ, false, run_label_values},
    {"GET", "/pyroscope/labels", AUTH_READ, false, run_labels},
};

int api_mount_render(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
