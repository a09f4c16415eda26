/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers about spans as tables (query_page.h): spans, one span or a comparison of them, traces, names, latency. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/wrap.h"
#include "client/query_page.h"

enum { INDENT_MAX = 20 };

static const char *duration(struct page *p, int64_t ns)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct type t = {.unit = STR("nanoseconds")};
    const char *text;

    type_format(&b, &t, (double) ns, false);
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

/* --- spans and traces --- */

struct listed_span {
    struct str trace, id, service, name, status;
    int64_t from, start, samples, duration, depth;
    double value;
    bool known;
};

static struct listed_span read_span(struct page *p)
{
    struct listed_span s = {.duration = -1};
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "traceId"))
            s.trace = json_str(&p->json);
        else if (str_is(key, "spanId"))
            s.id = json_str(&p->json);
        else if (str_is(key, "service"))
            s.service = json_str(&p->json);
        else if (str_is(key, "name"))
            s.name = json_str(&p->json);
        else if (str_is(key, "status"))
            s.status = json_str(&p->json);
        else if (str_is(key, "from"))
            s.from = json_i64(&p->json);
        else if (str_is(key, "start"))
            s.start = json_i64(&p->json);
        else if (str_is(key, "duration"))
            s.duration = json_i64(&p->json);
        else if (str_is(key, "depth"))
            s.depth = json_i64(&p->json);
        else if (str_is(key, "value"))
            s.value = json_double(&p->json);
        else if (str_is(key, "samples"))
            s.samples = json_i64(&p->json);
        else
            json_skip(&p->json);
    }
    return s;
}

static void put_span(struct page *p, struct text_table *t)
{
    struct listed_span s = read_span(p);

    text_table_put(t, "%s", page_time(p, s.start ? s.start : s.from, NS_PER_MS));
    text_table_put(t, "%s", page_value(p, s.value));
    text_table_put(t, "%" PRId64, s.samples);
    text_table_put(t, "%.*s", STR_FMT(s.trace));
    text_table_put(t, "%.*s", STR_FMT(s.id));
    text_table_put(t, "%.*s", STR_FMT(s.service));
    text_table_put(t, "%s", s.duration >= 0 ? duration(p, s.duration) : "-");
    text_table_put(t, "%.*s", STR_FMT(s.name));
}

void page_spans(struct page *p)
{
    struct text_table t;

    TABLE(&t, {"TIME", false}, {"VALUE", true}, {"SAMPLES", true}, {"TRACE", false}, {"SPAN", false},
          {"SERVICE", false}, {"DURATION", true}, {"NAME", false});
    page_list(p, "spans", &t, put_span);
}

static void put_trace_span(struct page *p, struct text_table *t)
{
    struct listed_span s = read_span(p);

    text_table_put(t, "%s", page_time(p, s.start ? s.start : s.from, NS_PER_MS));
    text_table_put(t, "%s", s.duration >= 0 ? duration(p, s.duration) : "-");
    text_table_put(t, "%s", page_value(p, s.value));
    text_table_put(t, "%.*s", STR_FMT(s.id));
    text_table_put(t, "%.*s", STR_FMT(s.service));
    text_table_put(t, "%*s%.*s%s", (int) MIN(2 * s.depth, INDENT_MAX), "", STR_FMT(s.name.n ? s.name : STR("?")),
                   str_is(s.status, "error") ? " (error)" : "");
}

void page_trace(struct page *p)
{
    struct text_table t;

    TABLE(&t, {"START", false}, {"DURATION", true}, {"VALUE", true}, {"SPAN", false}, {"SERVICE", false},
          {"NAME", false});
    page_list(p, "spans", &t, put_trace_span);
}

/* --- what spans did --- */

struct picked_counts {
    int64_t selected, rest, duration, threshold, one_in;
};

/* The counts follow the rows, which need them: a copy of the reader looks for them first. */
static struct picked_counts find_counts(const struct page *p)
{
    struct picked_counts n = {0};
    struct json j = p->json;
    struct str key;

    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (!str_is(key, "spans")) {
            json_skip(&j);
            continue;
        }
        json_begin_object(&j);
        while (json_next_key(&j, &key)) {
            int64_t v = json_i64(&j);

            if (str_is(key, "selected"))
                n.selected = v;
            else if (str_is(key, "rest"))
                n.rest = v;
            else if (str_is(key, "duration"))
                n.duration = v;
            else if (str_is(key, "threshold"))
                n.threshold = v;
            else if (str_is(key, "oneIn"))
                n.one_in = v;
        }
    }
    return n;
}

static void put_counts(struct page *p, const struct picked_counts *n)
{
    if (n->selected && n->threshold)
        buf_printf(p->out, "%" PRId64 " spans that took at least %s, compared with %" PRId64 " others; %.*s per span\n",
                   n->selected, duration(p, n->threshold), n->rest, STR_FMT(p->type.name));
    else if (n->selected && n->rest)
        buf_printf(p->out, "%" PRId64 " spans, compared with %" PRId64 " others; %.*s per span\n", n->selected, n->rest,
                   STR_FMT(p->type.name));
    else if (n->selected)
        buf_printf(p->out, "%" PRId64 " spans, %s in total; %.*s\n", n->selected, duration(p, n->duration),
                   STR_FMT(p->type.name));
    if (n->one_in > 1)
        buf_printf(p->out, "note: there are so many spans that only one in %" PRId64 " traces was looked at\n",
                   n->one_in);
}

static void put_compared(struct page *p, struct text_table *t, const struct picked_counts *n)
{
    double self[2] = {0}, per[2];
    struct str key, name = {0};

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "name"))
            name = json_str(&p->json);
        else if (str_is(key, "self"))
            page_pair(p, self);
        else
            json_skip(&p->json);
    }
    per[0] = n->rest ? self[0] / (double) n->rest : 0;
    per[1] = n->selected ? self[1] / (double) n->selected : 0;
    text_table_put(t, "%s", page_value(p, per[0]));
    text_table_put(t, "%s", page_value(p, per[1]));
    text_table_put(t, "%s", page_value(p, per[1] - per[0]));
    text_table_put(
        t, "%+.2f",
        100 * ((p->total[1] != 0 ? self[1] / p->total[1] : 0) - (p->total[0] != 0 ? self[0] / p->total[0] : 0)));
    text_table_put(t, "%.*s", STR_FMT(name));
}

void page_span(struct page *p)
{
    struct picked_counts n = find_counts(p);
    struct text_table t;
    struct str key;

    if (!n.rest) {
        page_top(p);
        put_counts(p, &n);
        return;
    }
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (!str_is(key, "rows")) {
            if (!page_common(p, key))
                json_skip(&p->json);
            continue;
        }
        put_counts(p, &n);
        TABLE(&t, {"OTHERS", true}, {"THESE", true}, {"CHANGE", true}, {"POINTS", true}, {"SELF OF", false});
        json_begin_array(&p->json);
        while (json_next_item(&p->json))
            put_compared(p, &t, &n);
        page_table(p, &t);
    }
}

/* --- latency --- */

static void put_name(struct page *p, struct text_table *t)
{
    static const char *const keys[] = {"count", "errors", "p50", "p95", "p99", "max", "total"};
    int64_t v[ARRAY_SIZE(keys)] = {0};
    struct str key, name = {0}, service = {0};

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        bool known = false;

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
            if (str_is(key, keys[i])) {
                v[i] = json_i64(&p->json);
                known = true;
            }
        if (str_is(key, "name"))
            name = json_str(&p->json);
        else if (str_is(key, "service"))
            service = json_str(&p->json);
        else if (!known)
            json_skip(&p->json);
    }
    text_table_put(t, "%" PRId64, v[0]);
    text_table_put(t, "%" PRId64, v[1]);
    for (size_t i = 2; i < ARRAY_SIZE(keys); i++)
        text_table_put(t, "%s", duration(p, v[i]));
    text_table_put(t, "%.*s", STR_FMT(service));
    text_table_put(t, "%.*s", STR_FMT(name));
}

void page_span_names(struct page *p)
{
    struct text_table t;

    TABLE(&t, {"COUNT", true}, {"ERRORS", true}, {"P50", true}, {"P95", true}, {"P99", true}, {"MAX", true},
          {"TOTAL", true}, {"SERVICE", false}, {"NAME", false});
    page_list(p, "spans", &t, put_name);
}

struct heat_rows {
    int64_t bounds[256], counts[256];
    size_t n;
};

static void read_heat(struct page *p, struct heat_rows *h, struct str key)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        size_t i = 0;

        if (str_is(key, "bounds")) {
            int64_t v = json_i64(&p->json);

            if (h->n < ARRAY_SIZE(h->bounds))
                h->bounds[h->n++] = v;
            continue;
        }
        json_begin_array(&p->json);
        while (json_next_item(&p->json)) {
            int64_t v = json_i64(&p->json);

            if (i < ARRAY_SIZE(h->counts))
                h->counts[i] = wrap_add(h->counts[i], v);
            i++;
        }
    }
}

/* How many spans took how long, over the whole range: times are for the page and for --json. */
void page_span_heatmap(struct page *p)
{
    struct heat_rows h = {0};
    struct text_table t;
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "bounds") || str_is(key, "counts"))
            read_heat(p, &h, key);
        else if (!page_common(p, key))
            json_skip(&p->json);
    }
    TABLE(&t, {"FROM", true}, {"TO", true}, {"SPANS", true});
    for (size_t i = 0; i + 1 < h.n; i++) {
        if (!h.counts[i])
            continue;
        text_table_put(&t, "%s", duration(p, h.bounds[i]));
        text_table_put(&t, "%s", duration(p, h.bounds[i + 1]));
        text_table_put(&t, "%" PRId64, h.counts[i]);
    }
    page_table(p, &t);
}
