/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's querier: the methods, their requests, and Connect's rules for answers and errors. See pyroscope.h. */
#include "server/pyroscope.h"

#include <errno.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "net/encoding.h"
#include "net/grpc.h"
#include "server/api.h"
#include "server/name_source.h"

enum { REQUEST_MAX = 1 << 20, UPLOAD_MAX = 48 << 20 };

/* --- requests --- */

#define SELECT(f) offsetof(struct py_select, f)
#define REQUEST(f) offsetof(struct py_request, f)

static const char *const formats[] = {"PROFILE_FORMAT_UNSPECIFIED", "PROFILE_FORMAT_FLAMEGRAPH", "PROFILE_FORMAT_TREE",
                                      "PROFILE_FORMAT_DOT",         "PROFILE_FORMAT_PPROF",      NULL};
static const char *const aggregations[] = {"TIME_SERIES_AGGREGATION_TYPE_SUM", "TIME_SERIES_AGGREGATION_TYPE_AVERAGE",
                                           NULL};
static const char *const exemplar_types[] = {"EXEMPLAR_TYPE_UNSPECIFIED", "EXEMPLAR_TYPE_NONE",
                                             "EXEMPLAR_TYPE_INDIVIDUAL", "EXEMPLAR_TYPE_SPAN", NULL};
static const char *const heat_types[] = {"HEATMAP_QUERY_TYPE_UNSPECIFIED", "HEATMAP_QUERY_TYPE_INDIVIDUAL",
                                         "HEATMAP_QUERY_TYPE_SPAN", NULL};

static const struct pbjson_field location_fields[] = {
    {1, "name", NULL, PBJSON_STR_ADD, 0},
    {0},
};

static const struct pbjson_field pgo_fields[] = {
    {1, "keepLocations", "keep_locations", PBJSON_I64, SELECT(pgo_keep)},
    {2, "aggregateCallees", "aggregate_callees", PBJSON_BOOL, SELECT(pgo_aggregate)},
    {0},
};

/* Offsets are those of struct py_select. */
static const struct pbjson_field call_site_fields[] = {
    {1, "callSite", "call_site", PBJSON_MESSAGE, SELECT(call_site), location_fields},
    {2, "goPgo", "go_pgo", PBJSON_MESSAGE, 0, pgo_fields},
    {0},
};

static const char *const async_types[] = {"ASYNC_QUERY_TYPE_DISABLED", "ASYNC_QUERY_TYPE_FORCE", NULL};

static const struct pbjson_field async_fields[] = {
    {2, "type", NULL, PBJSON_ENUM, SELECT(async), .names = async_types},
    {0},
};

static const struct pbjson_field stacktraces_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, SELECT(type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, SELECT(selector)},
    {3, "start", NULL, PBJSON_I64, SELECT(start)},
    {4, "end", NULL, PBJSON_I64, SELECT(end)},
    {5, "maxNodes", "max_nodes", PBJSON_I64, SELECT(max_nodes)},
    {6, "format", NULL, PBJSON_ENUM, SELECT(format), .names = formats},
    {7, "stackTraceSelector", "stack_trace_selector", PBJSON_MESSAGE, 0, call_site_fields},
    {8, "profileIdSelector", "profile_id_selector", PBJSON_STRS, SELECT(profile_ids)},
    {9, "async", NULL, PBJSON_MESSAGE, 0, async_fields},
    {10, "traceIdSelector", "trace_id_selector", PBJSON_STRS, SELECT(trace_ids)},
    {11, "spanSelector", "span_selector", PBJSON_STRS, SELECT(spans)},
    {0},
};

static const struct pbjson_field profile_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, SELECT(type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, SELECT(selector)},
    {3, "start", NULL, PBJSON_I64, SELECT(start)},
    {4, "end", NULL, PBJSON_I64, SELECT(end)},
    {5, "maxNodes", "max_nodes", PBJSON_I64, SELECT(max_nodes)},
    {6, "stackTraceSelector", "stack_trace_selector", PBJSON_MESSAGE, 0, call_site_fields},
    {7, "profileIdSelector", "profile_id_selector", PBJSON_STRS, SELECT(profile_ids)},
    {8, "traceIdSelector", "trace_id_selector", PBJSON_STRS, SELECT(trace_ids)},
    {0},
};

static const struct pbjson_field span_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, REQUEST(left.type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, REQUEST(left.selector)},
    {3, "spanSelector", "span_selector", PBJSON_STRS, REQUEST(left.spans)},
    {4, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {5, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {6, "maxNodes", "max_nodes", PBJSON_I64, REQUEST(left.max_nodes)},
    {7, "format", NULL, PBJSON_ENUM, REQUEST(left.format), .names = formats},
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
    {7, "aggregation", NULL, PBJSON_ENUM, REQUEST(aggregation), .names = aggregations},
    {8, "stackTraceSelector", "stack_trace_selector", PBJSON_MESSAGE, REQUEST(left), call_site_fields},
    {9, "limit", NULL, PBJSON_I64, REQUEST(limit)},
    {10, "exemplarType", "exemplar_type", PBJSON_ENUM, REQUEST(exemplar_type), .names = exemplar_types},
    {0},
};

static const struct pbjson_field heatmap_fields[] = {
    {1, "profileTypeID", "profile_typeID", PBJSON_STR, REQUEST(left.type_id)},
    {2, "labelSelector", "label_selector", PBJSON_STR, REQUEST(left.selector)},
    {3, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {4, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {5, "step", NULL, PBJSON_DOUBLE, REQUEST(step)},
    {6, "groupBy", "group_by", PBJSON_STRS, REQUEST(group_by)},
    {7, "queryType", "query_type", PBJSON_ENUM, REQUEST(query_type), .names = heat_types},
    {8, "exemplarType", "exemplar_type", PBJSON_ENUM, REQUEST(exemplar_type), .names = exemplar_types},
    {9, "limit", NULL, PBJSON_I64, REQUEST(limit)},
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

static const struct pbjson_field analyze_fields[] = {
    {2, "start", NULL, PBJSON_I64, REQUEST(left.start)},
    {3, "end", NULL, PBJSON_I64, REQUEST(left.end)},
    {4, "query", NULL, PBJSON_STR, REQUEST(query)},
    {0},
};

static const struct pbjson_field setting_fields[] = {
    {1, "name", NULL, PBJSON_STR, REQUEST(name)},
    {2, "value", NULL, PBJSON_STR, REQUEST(value)},
    {0},
};

static const struct pbjson_field set_fields[] = {
    {1, "setting", NULL, PBJSON_MESSAGE, 0, setting_fields},
    {0},
};

static const struct pbjson_field no_fields[] = {{0}};

static const struct pbjson_field rule_id_fields[] = {
    {1, "id", NULL, PBJSON_STR, REQUEST(name)},
    {0},
};

static const struct pbjson_field pair_fields[] = {
    {1, "name", NULL, PBJSON_STR_ADD, REQUEST(label_names)},
    {0},
};

static const struct pbjson_field function_fields[] = {
    {1, "functionName", "function_name", PBJSON_STR, REQUEST(query)},
    {0},
};

static const struct pbjson_field filter_fields[] = {
    {1, "functionName", "function_name", PBJSON_MESSAGE, 0, function_fields},
    {0},
};

static const struct pbjson_field rule_fields[] = {
    {1, "id", NULL, PBJSON_STR, REQUEST(name)},
    {2, "metricName", "metric_name", PBJSON_STR, REQUEST(value)},
    {3, "matchers", NULL, PBJSON_STRS, REQUEST(matchers)},
    {4, "groupBy", "group_by", PBJSON_STRS, REQUEST(group_by)},
    {5, "externalLabels", "external_labels", PBJSON_MESSAGE, 0, pair_fields},
    {6, "generation", NULL, PBJSON_I64, REQUEST(generation)},
    {7, "stacktraceFilter", "stacktrace_filter", PBJSON_MESSAGE, 0, filter_fields},
    {0},
};

static const struct pbjson_field adhoc_upload_fields[] = {
    {1, "name", NULL, PBJSON_STR, REQUEST(name)},
    {2, "profile", NULL, PBJSON_STR, REQUEST(value)},
    {3, "maxNodes", "max_nodes", PBJSON_I64, REQUEST(left.max_nodes)},
    {0},
};

static const struct pbjson_field adhoc_get_fields[] = {
    {1, "id", NULL, PBJSON_STR, REQUEST(name)},
    {2, "profileType", "profile_type", PBJSON_STR, REQUEST(left.type_id)},
    {3, "maxNodes", "max_nodes", PBJSON_I64, REQUEST(left.max_nodes)},
    {0},
};

static const struct pbjson_field adhoc_diff_fields[] = {
    {1, "leftId", "left_id", PBJSON_STR, REQUEST(name)},
    {2, "rightId", "right_id", PBJSON_STR, REQUEST(value)},
    {3, "profileType", "profile_type", PBJSON_STR, REQUEST(left.type_id)},
    {4, "maxNodes", "max_nodes", PBJSON_I64, REQUEST(left.max_nodes)},
    {0},
};

#define QUERIER "querier.v1.QuerierService"
#define SETTINGS "settings.v1.SettingsService"
#define RULES "settings.v1.RecordingRulesService"
#define ADHOC "adhocprofiles.v1.AdHocProfileService"

static const struct method {
    const char *service, *name;
    const struct pbjson_field *fields;
    size_t offset; /* in py_request, of the struct that the fields fill */
    int (*run)(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
    enum auth_scope scope; /* AUTH_READ unless set */
    size_t max_body;       /* REQUEST_MAX unless set */
} methods[] = {
    {QUERIER, "ProfileTypes", types_fields, 0, py_profile_types},
    {QUERIER, "LabelNames", names_fields, 0, py_label_names},
    {QUERIER, "LabelValues", values_fields, 0, py_label_values},
    {QUERIER, "Series", series_fields, 0, py_series},
    {QUERIER, "SelectMergeStacktraces", stacktraces_fields, REQUEST(left), py_stacktraces},
    {QUERIER, "SelectMergeProfile", profile_fields, REQUEST(left), py_merge_profile},
    {QUERIER, "SelectMergeSpanProfile", span_fields, 0, py_span_profile},
    {QUERIER, "SelectSeries", select_series_fields, 0, py_select_series},
    {QUERIER, "SelectHeatmap", heatmap_fields, 0, py_heatmap},
    {QUERIER, "Diff", diff_fields, 0, py_diff},
    {QUERIER, "GetProfileStats", no_fields, 0, py_profile_stats},
    {QUERIER, "AnalyzeQuery", analyze_fields, 0, py_analyze_query},
    {SETTINGS, "Get", no_fields, 0, py_settings_get},
    {SETTINGS, "Set", set_fields, 0, py_settings_set, AUTH_SEND},
    {SETTINGS, "Delete", setting_fields, 0, py_settings_delete, AUTH_SEND},
    {ADHOC, "Upload", adhoc_upload_fields, 0, py_adhoc_upload, AUTH_SEND, UPLOAD_MAX},
    {ADHOC, "Get", adhoc_get_fields, 0, py_adhoc_get},
    {ADHOC, "List", no_fields, 0, py_adhoc_list},
    {ADHOC, "Diff", adhoc_diff_fields, 0, py_adhoc_diff},
    {RULES, "ListRecordingRules", no_fields, 0, py_rules_list},
    {RULES, "GetRecordingRule", rule_id_fields, 0, py_rules_get},
    {RULES, "UpsertRecordingRule", rule_fields, 0, py_rules_upsert, AUTH_SEND},
    {RULES, "DeleteRecordingRule", rule_id_fields, 0, py_rules_delete, AUTH_SEND},
    {"capabilities.v1.FeatureFlagsService", "GetFeatureFlags", no_fields, 0, py_no_flags},
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

/* A time in ms. */
static struct query_time time_of(int64_t ms, int64_t fallback)
{
    return query_at(ms ? py_time(ms) : fallback);
}

/* Replaces Pyroscope's own labels in the selector: __profile_type__ names the type, __service_name__ is service.name. */
static int replace_own_labels(struct selector *s, struct err *e)
{
    uint32_t kept = 0;
    int r = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        struct matcher *m = &s->v[i];
        struct type t = {0};

        if (str_is(m->name, "__service_name__"))
            m->name = STR("service.name");
        if (!str_starts(m->name, STR("__"))) {
            s->v[kept++] = *m;
            continue;
        }
        if (str_is(m->name, "__profile_type__") && m->op == MATCH_EQ) {
            type_by_name(m->value, &t);
            s->type = t.name;
        } else {
            r = err_set(e, -ENOSYS, "a selector by %.*s is not supported, only __profile_type__=\"ID\"",
                        STR_FMT(m->name));
        }
        regex_free(m->regex);
        m->regex = NULL;
    }
    s->n = kept;
    return r;
}

int py_compile(struct call *c, const struct py_request *r, bool diff, const struct query_params *extra,
               struct query **ret, struct err *e)
{
    struct arena *a = &c->q->arena;
    int64_t now = clock_wall();
    const struct py_select *main = diff ? &r->right : &r->left;
    struct query_params p = extra ? *extra : (struct query_params){0};
    int64_t nodes = MAX(main->max_nodes, r->left.max_nodes);
    int result;

    p.tenant = c->who.tenant;
    p.query = query_text(a, main->type_id.n ? main->type_id : STR("*"), main->selector);
    p.from = time_of(main->start, now - 3600 * NS_PER_S);
    p.to = time_of(main->end, now);
    if (diff) {
        p.base_query = query_text(a, r->left.type_id, r->left.selector);
        p.base_from = time_of(r->left.start, now - 3600 * NS_PER_S);
        p.base_to = time_of(r->left.end, now);
    }
    if (!p.query.p)
        return -ENOMEM;
    if (nodes < 0 || nodes > UINT32_MAX)
        return err_set(e, -EINVAL, "max_nodes: '%lld' is not a number", (long long) nodes);
    p.max_nodes = (uint32_t) nodes;
    p.names = name_source_names(front_options(c->front)->names);
    p.now = now;
    p.memory_limit = front_options(c->front)->memory_limit;
    p.cancel = &c->cancel;
    p.notes = &c->notes;
    result = query_compile(&p, ret, e);
    for (uint32_t i = 0; result == 0 && i < (*ret)->q.n_columns; i++)
        result = replace_own_labels(&(*ret)->selectors[i], e);
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

/* --- Connect, gRPC and gRPC-web --- */

static const struct code {
    int code, status;
    enum grpc_code grpc;
    const char *name;
} codes[] = {
    {EINVAL, 400, GRPC_INVALID_ARGUMENT, "invalid_argument"},
    {ERANGE, 400, GRPC_INVALID_ARGUMENT, "invalid_argument"}, /* a number */
    {ENOENT, 404, GRPC_NOT_FOUND, "not_found"},
    {EEXIST, 409, GRPC_ALREADY_EXISTS, "already_exists"},
    {EDQUOT, 429, GRPC_RESOURCE_EXHAUSTED, "resource_exhausted"},
    {EPERM, 403, GRPC_PERMISSION_DENIED, "permission_denied"},
    {E2BIG, 429, GRPC_RESOURCE_EXHAUSTED, "resource_exhausted"},
    {EFBIG, 413, GRPC_RESOURCE_EXHAUSTED, "resource_exhausted"},
    {ECANCELED, 499, GRPC_CANCELLED, "canceled"},
    {ENOMEM, 503, GRPC_UNAVAILABLE, "unavailable"},
    {ENOSPC, 503, GRPC_UNAVAILABLE, "unavailable"},
    {EROFS, 503, GRPC_UNAVAILABLE, "unavailable"},
    {ECONNREFUSED, 503, GRPC_UNAVAILABLE, "unavailable"}, /* the store's database */
    {ECONNRESET, 503, GRPC_UNAVAILABLE, "unavailable"},
    {EHOSTUNREACH, 503, GRPC_UNAVAILABLE, "unavailable"},
    {ENETUNREACH, 503, GRPC_UNAVAILABLE, "unavailable"},
    {EAGAIN, 429, GRPC_RESOURCE_EXHAUSTED, "resource_exhausted"},
    {ENOSYS, 501, GRPC_UNIMPLEMENTED, "unimplemented"},
    {EOPNOTSUPP, 415, GRPC_UNKNOWN, "unknown"},
};
static const struct code internal = {0, 500, GRPC_INTERNAL, "internal"};

static const struct code *code_of(int r)
{
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (codes[i].code == -r)
            return &codes[i];
    return &internal;
}

enum wire_kind { WIRE_CONNECT_JSON, WIRE_CONNECT_PROTO, WIRE_GRPC, WIRE_GRPC_WEB };

/* Writes an error as Connect does: its error code, message and HTTP status. */
static void put_error(struct call *c, int r, const struct err *e)
{
    const struct code *k = code_of(r);

    buf_reset(&c->out);
    c->q->status = k->status;
    c->content_type = "application/json";
    buf_printf(&c->out, "{\"code\":\"%s\",\"message\":", k->name);
    json_put_str(&c->out, str_from(err_message(e, r)));
    buf_puts(&c->out, "}\n");
}

/* Frames the answer as gRPC does, with the status in trailers; gRPC-web has the trailers in a frame of the body. */
static void put_grpc(struct call *c, bool web, int r, const struct err *e)
{
    _cleanup_(buf_done) struct buf framed = BUF_INIT, text = BUF_INIT;
    struct grpc_status st = {.code = r < 0 ? code_of(r)->grpc : GRPC_OK};
    char code[16];

    snprintf(code, sizeof code, "%d", (int) st.code);
    if (r < 0)
        grpc_percent_encode(&text, str_from(err_message(e, r)));
    else
        grpc_frame(&framed, buf_str(&c->out), COMPRESS_NONE, 0, NULL);
    c->q->status = 200;
    c->content_type = web ? "application/grpc-web+proto" : "application/grpc";
    if (web) {
        size_t at = framed.n + 1;

        buf_putc(&framed, (char) 0x80);
        buf_pad(&framed, 0, 4);
        buf_printf(&framed, "grpc-status:%s\r\n", code);
        if (r < 0)
            buf_printf(&framed, "grpc-message:%.*s\r\n", STR_FMT(buf_str(&text)));
        if (!buf_error(&framed))
            store_be32((unsigned char *) framed.p + at, (uint32_t) (framed.n - at - 4));
    } else if (r < 0) { /* a status without a message is in the headers */
        http_add_header(c->q, "content-type", str_from(c->content_type));
        http_add_header(c->q, "grpc-status", str_from(code));
        http_add_header(c->q, "grpc-message", buf_str(&text));
    } else {
        http_add_trailer(c->q, "grpc-status", str_from(code));
    }
    buf_done(&c->out);
    c->out = framed;
    framed = BUF_INIT;
}

static int kind_of(const struct http_request *q, enum wire_kind *ret, struct err *e)
{
    struct str type = http_headers_get(&q->headers, "content-type");

    if (str_starts(type, STR("application/grpc-web-text")) || str_starts(type, STR("application/grpc-web+json")))
        return err_set(e, -EOPNOTSUPP, "gRPC-web is supported as application/grpc-web+proto");
    if (str_starts(type, STR("application/grpc-web")))
        *ret = WIRE_GRPC_WEB;
    else if (str_starts(type, STR("application/grpc")))
        *ret = WIRE_GRPC;
    else if (str_starts(type, STR("application/json")))
        *ret = WIRE_CONNECT_JSON;
    else if (str_starts(type, STR("application/proto")))
        *ret = WIRE_CONNECT_PROTO;
    else
        return err_set(e, -EOPNOTSUPP, "content-type must be application/json, application/proto or application/grpc");
    return 0;
}

static int run_method(struct call *c, const struct method *m, enum wire_kind kind, struct err *e)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct py_request *r = arena_zalloc(&c->q->arena, sizeof *r);
    bool json = kind == WIRE_CONNECT_JSON;
    size_t max = m->max_body ? m->max_body : REQUEST_MAX;
    struct grpc_status st;
    struct pbjson w;
    struct str body;
    int result;

    if (!r)
        return -ENOMEM;
    if (m->scope && (c->who.scope & m->scope) != m->scope)
        return err_set(e, -EPERM, "this token cannot change anything: the scope write is required");
    if (kind >= WIRE_GRPC) {
        result = grpc_request_message(c->q, max, &inflated, &body, &st);
        if (result < 0)
            return err_set(e, -EINVAL, "%.400s", st.message);
    } else {
        result = http_decode_body(c->q, max, &inflated, &body, e);
    }
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

/* /SERVICE/METHOD */
static int run_connect(struct call *c, struct err *e)
{
    struct str path = str_slice(c->q->path, 1, c->q->path.n), service = str_cut(&path, '/');
    enum wire_kind kind = WIRE_CONNECT_JSON;
    int r = kind_of(c->q, &kind, e);

    if (r == 0) {
        r = err_set(e, -ENOSYS, "%.*s/%.*s is not supported by wick", STR_FMT(service), STR_FMT(path));
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
            if (str_is(service, methods[i].service) && str_is(path, methods[i].name)) {
                r = run_method(c, &methods[i], kind, e);
                break;
            }
    }
    if (kind >= WIRE_GRPC)
        put_grpc(c, kind == WIRE_GRPC_WEB, r, e);
    else if (r < 0)
        put_error(c, r, e);
    else if (!c->out.n) /* an empty protobuf message is a valid answer */
        http_add_header(c->q, "content-type", str_from(c->content_type));
    return 0;
}

static const struct route routes[] = {
    {"POST", "/" QUERIER "/{method}", AUTH_READ, false, run_connect},
    {"POST", "/" SETTINGS "/{method}", AUTH_READ, false, run_connect},
    {"POST", "/" RULES "/{method}", AUTH_READ, false, run_connect},
    {"POST", "/capabilities.v1.FeatureFlagsService/{method}", AUTH_READ, false, run_connect},
    {"POST", "/" ADHOC "/{method}", AUTH_READ, false, run_connect},
    {"POST", "/vcs.v1.VCSService/{method}", AUTH_READ, false, run_connect},
};

int api_mount_pyroscope(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
