/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's querier: the methods, their requests, and Connect's rules for answers and errors. See pyroscope.h. */
#include "server/pyroscope.h"

#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "net/encoding.h"
#include "server/api.h"
#include "server/name_source.h"

enum { REQUEST_MAX = 1 << 20 };

/* --- requests --- */

#define SELECT(f) offsetof(struct py_select, f)
#define REQUEST(f) offsetof(struct py_request, f)

static const struct pbjson_field stacktraces_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, SELECT(type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, SELECT(selector)},
    {3, "start", NULL, PBJSON_I64, SELECT(start)},
    {4, "end", NULL, PBJSON_I64, SELECT(end)},
    {5, "maxNodes", "max_nodes", PBJSON_I64, SELECT(max_nodes)},
    {8, "profileIdSelector", "profile_id_selector", PBJSON_STRS, SELECT(profile_ids)},
    {0},
};

static const struct pbjson_field profile_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, SELECT(type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, SELECT(selector)},
    {3, "start", NULL, PBJSON_I64, SELECT(start)},
    {4, "end", NULL, PBJSON_I64, SELECT(end)},
    {5, "maxNodes", "max_nodes", PBJSON_I64, SELECT(max_nodes)},
    {7, "profileIdSelector", "profile_id_selector", PBJSON_STRS, SELECT(profile_ids)},
    {0},
};

static const struct pbjson_field span_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, REQUEST(left.type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, REQUEST(left.selector)},
    {3, "spanSelector", "span_selector", PBJSON_STRS, REQUEST(spans)},
    {4, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {5, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {6, "maxNodes", "max_nodes", PBJSON_I64, REQUEST(left.max_nodes)},
    {0},
};

static const struct pbjson_field diff_fields[] = {
    {1, "left", NULL, PBJSON_MESSAGE, REQUEST(left), stacktraces_fields},
    {2, "right", NULL, PBJSON_MESSAGE, REQUEST(right), stacktraces_fields},
    {0},
};

static const struct pbjson_field select_series_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, REQUEST(left.type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, REQUEST(left.selector)},
    {3, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {4, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {5, "groupBy", "group_by", PBJSON_STRS, REQUEST(group_by)},
    {6, "step", NULL, PBJSON_DOUBLE, REQUEST(step)},
    {7, "aggregation", NULL, PBJSON_I64, REQUEST(aggregation)},
    {9, "limit", NULL, PBJSON_I64, REQUEST(limit)},
    {0},
};

static const struct pbjson_field heatmap_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, REQUEST(left.type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, REQUEST(left.selector)},
    {3, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {4, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {5, "step", NULL, PBJSON_DOUBLE, REQUEST(step)},
    {0},
};

static const struct pbjson_field types_fields[] = {
    {1, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {2, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {0},
};

static const struct pbjson_field names_fields[] = {
    {1, "matchers", NULL, PBJSON_STRS, REQUEST(matchers)},
    {2, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {3, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {0},
};

static const struct pbjson_field values_fields[] = {
    {1, "name", NULL, PBJSON_STR, REQUEST(name)},
    {2, "matchers", NULL, PBJSON_STRS, REQUEST(matchers)},
    {3, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {4, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {0},
};

static const struct pbjson_field series_fields[] = {
    {1, "matchers", NULL, PBJSON_STRS, REQUEST(matchers)},
    {2, "labelNames", "label_names", PBJSON_STRS, REQUEST(label_names)},
    {3, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {4, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {0},
};

static const struct pbjson_field no_fields[] = {{0}};

static const struct method {
    const char *name;
    const struct pbjson_field *fields;
    size_t offset; /* in py_request, of the struct that the fields fill */
    int (*run)(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
} methods[] = {
    {"ProfileTypes", types_fields, 0, py_profile_types},
    {"LabelNames", names_fields, 0, py_label_names},
    {"LabelValues", values_fields, 0, py_label_values},
    {"Series", series_fields, 0, py_series},
    {"SelectMergeStacktraces", stacktraces_fields, REQUEST(left), py_stacktraces},
    {"SelectMergeProfile", profile_fields, REQUEST(left), py_merge_profile},
    {"SelectMergeSpanProfile", span_fields, 0, py_span_profile},
    {"SelectSeries", select_series_fields, 0, py_select_series},
    {"SelectHeatmap", heatmap_fields, 0, py_heatmap},
    {"Diff", diff_fields, 0, py_diff},
    {"GetProfileStats", no_fields, 0, py_profile_stats},
};

/* --- selections --- */

/* TYPE{…}: the canonical name of the id, and the selector's matchers. */
static struct str query_text(struct arena *a, struct str type_id, struct str selector)
{
    struct type t = {0};
    char *text;

    type_by_name(type_id, &t);
    selector = str_trim(selector);
    text = arena_printf(a, "%.*s%.*s", STR_FMT(t.name), STR_FMT(selector));
    return text ? str_from(text) : (struct str){0};
}

static struct str time_text(struct arena *a, int64_t ms, int64_t fallback)
{
    char *text = arena_printf(a, "%lld", (long long) (ms ? py_time(ms) : fallback));

    return text ? str_from(text) : (struct str){0};
}

/* Removes Pyroscope's own labels from the selector; one of them may name the type. */
static void strip_own_labels(struct selector *s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        struct matcher *m = &s->v[i];
        struct type t = {0};

        if (!str_starts(m->name, STR("__"))) {
            s->v[kept++] = *m;
            continue;
        }
        if (str_is(m->name, "__profile_type__") && m->op == MATCH_EQ) {
            type_by_name(m->value, &t);
            s->type = t.name;
        }
        regex_free(m->regex);
    }
    s->n = kept;
}

int py_compile(struct call *c, const struct py_request *r, bool diff, const struct query_params *extra,
               struct query **ret, struct err *e)
{
    struct arena *a = &c->q->arena;
    int64_t now = clock_wall();
    const struct py_select *main = diff ? &r->right : &r->left;
    struct query_params p = extra ? *extra : (struct query_params){0};
    char *nodes = arena_printf(a, "%lld", (long long) MAX(main->max_nodes, r->left.max_nodes));
    int result;

    p.tenant = c->who.tenant;
    p.query = query_text(a, main->type_id.n ? main->type_id : STR("*"), main->selector);
    p.from = time_text(a, main->start, now - 3600 * NS_PER_S);
    p.to = time_text(a, main->end, now);
    if (diff) {
        p.base_query = query_text(a, r->left.type_id, r->left.selector);
        p.base_from = time_text(a, r->left.start, now - 3600 * NS_PER_S);
        p.base_to = time_text(a, r->left.end, now);
    }
    if (main->profile_ids.n == 1)
        p.profile = main->profile_ids.v[0];
    if (!nodes || !p.query.p || !p.from.p || !p.to.p)
        return -ENOMEM;
    p.max_nodes = str_from(nodes);
    p.names = name_source_names(front_options(c->front)->names);
    p.now = now;
    p.memory_limit = front_options(c->front)->memory_limit;
    p.cancel = &c->cancel;
    result = query_compile(&p, ret, e);
    for (uint32_t i = 0; result == 0 && i < (*ret)->q.n_columns; i++)
        strip_own_labels(&(*ret)->selectors[i]);
    if (result == 0)
        (*ret)->q.notes = &c->notes;
    return result;
}

struct str py_label_name(struct arena *a, struct str name)
{
    char *text = arena_cstr(a, name);

    if (!text)
        return name;
    for (uint32_t i = 0; i < name.n; i++)
        if (text[i] == '.' || text[i] == '-' || text[i] == '/')
            text[i] = '_';
    return (struct str){text, name.n};
}

void py_put_label(struct pbjson *w, uint32_t field, struct str name, struct str value)
{
    pbjson_begin(w, field, NULL);
    pbjson_str(w, 1, "name", name);
    pbjson_str(w, 2, "value", value);
    pbjson_end(w);
}

void py_put_labels(struct pbjson *w, uint32_t field, struct arena *a, const struct labels *l)
{
    pbjson_list(w, "labels");
    for (uint32_t i = 0; i < l->n; i++)
        py_put_label(w, field, py_label_name(a, l->v[i].name), l->v[i].value);
    pbjson_list_end(w);
}

struct str py_type_id(struct arena *a, const struct type *t)
{
    struct buf b = BUF_INIT;
    struct str id;

    type_pyroscope_id(t, &b);
    id = arena_str(a, buf_str(&b));
    buf_done(&b);
    return id;
}

/* --- Connect --- */

/* Writes an error as Connect does: its error code, message and HTTP status. */
static void put_error(struct call *c, int r, const struct err *e)
{
    static const struct {
        int code, status;
        const char *name;
    } codes[] = {
        {EINVAL, 400, "invalid_argument"},  {ENOENT, 404, "not_found"},   {E2BIG, 429, "resource_exhausted"},
        {ECANCELED, 499, "canceled"},       {ENOMEM, 503, "unavailable"}, {ENOSYS, 501, "unimplemented"},
        {EFBIG, 413, "resource_exhausted"}, {EOPNOTSUPP, 415, "unknown"},
    };
    const char *name = "internal";

    c->q->status = 500;
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (codes[i].code == -r) {
            c->q->status = codes[i].status;
            name = codes[i].name;
        }
    buf_reset(&c->out);
    c->content_type = "application/json";
    buf_printf(&c->out, "{\"code\":\"%s\",\"message\":", name);
    json_put_str(&c->out, str_from(err_message(e, r)));
    buf_puts(&c->out, "}\n");
}

static int run_method(struct call *c, const struct method *m, bool json, struct err *e)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct py_request *r = arena_zalloc(&c->q->arena, sizeof *r);
    struct pbjson w;
    struct str body;
    int result;

    if (!r)
        return -ENOMEM;
    result = http_decode_body(c->q, REQUEST_MAX, &inflated, &body, e);
    if (result == 0)
        result = pbjson_read(m->fields, body, json, &c->q->arena, (char *) r + m->offset, e);
    if (result < 0)
        return result;
    c->content_type = json ? "application/json" : "application/proto";
    pbjson_open(&w, &c->out, json);
    result = m->run(c, r, &w, e);
    if (result == 0)
        pbjson_close(&w);
    return result;
}

static int run_querier(struct call *c, struct err *e)
{
    struct str type = http_headers_get(&c->q->headers, "content-type");
    bool json = str_starts(type, STR("application/json"));
    int r = -ENOSYS;

    err_set(e, r, "querier.v1.QuerierService/%.*s is not implemented", STR_FMT(c->path_arg));
    if (!json && !str_starts(type, STR("application/proto")))
        r = err_set(e, -EOPNOTSUPP, "content-type must be application/json or application/proto");
    else
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
            if (str_is(c->path_arg, methods[i].name)) {
                r = run_method(c, &methods[i], json, e);
                break;
            }
    if (r < 0)
        put_error(c, r, e);
    else if (!c->out.n) /* an empty protobuf message is a valid answer */
        http_add_header(c->q, "content-type", str_from(c->content_type));
    return 0;
}

static const struct route routes[] = {
    {"POST", "/querier.v1.QuerierService/{method}", AUTH_READ, false, run_querier},
};

int api_mount_pyroscope(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
