/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers that are lists, each as a table with headings (query_page.h). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "client/query_page.h"

enum { SERIES_SHOWN = 6, STACK_SHOWN = 3, POINTS_MAX = 1 << 20 };

/* --- top and lines --- */

struct list_row {
    struct str name, file;
    int64_t line;
    double self[2], total[2];
};

static struct list_row read_row(struct page *p)
{
    struct list_row r = {0};
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "name"))
            r.name = json_str(&p->json);
        else if (str_is(key, "file"))
            r.file = json_str(&p->json);
        else if (str_is(key, "line"))
            r.line = json_i64(&p->json);
        else if (str_is(key, "self"))
            page_pair(p, r.self);
        else if (str_is(key, "total"))
            page_pair(p, r.total);
        else
            json_skip(&p->json);
    }
    return r;
}

/* Two selections are compared per covered second, so that a difference in profiled time does not count as a change. */
static bool is_rate(const struct page *p)
{
    return p->n_columns == 2 && p->type.rule == TYPE_DELTA && p->covered[0] > 0 && p->covered[1] > 0;
}

static double per_second(const struct page *p, int column)
{
    return is_rate(p) ? (double) NS_PER_S / p->covered[column] : 1;
}

static void put_covered(struct page *p)
{
    double seconds = p->covered[0] / (double) NS_PER_S;

    if (is_rate(p))
        buf_printf(p->out, "Values are per covered second: %.1f s in the base, %.1f s in the new range.\n", seconds,
                   p->covered[1] / (double) NS_PER_S);
    else if (p->n_columns < 2 && seconds > 0 && p->type.rule == TYPE_DELTA && str_is(p->type.name, "cpu"))
        buf_printf(p->out, "%.3g CPU-seconds in %.1f covered seconds: %.3g cores\n", p->total[0] / (double) NS_PER_S,
                   seconds, p->total[0] / p->covered[0]);
}

static void put_row(struct page *p, struct text_table *t, const struct list_row *r)
{
    double base = r->self[0] * per_second(p, 0), new = r->self[1] * per_second(p, 1);

    if (p->n_columns == 2) {
        text_table_put(t, "%s", page_value(p, base));
        text_table_put(t, "%s", page_value(p, new));
        text_table_put(t, "%s", page_value(p, new - base));
        text_table_put(t, "%s",
                       page_share(p,
                                  (p->total[1] != 0 ? r->self[1] / p->total[1] : 0) -
                                      (p->total[0] != 0 ? r->self[0] / p->total[0] : 0),
                                  1));
    } else {
        text_table_put(t, "%s", page_value(p, r->self[0]));
        text_table_put(t, "%s", page_share(p, r->self[0], p->total[0]));
        text_table_put(t, "%s", page_value(p, r->total[0]));
        text_table_put(t, "%s", page_share(p, r->total[0], p->total[0]));
    }
    if (r->file.n && r->line)
        text_table_put(t, "%.*s  %.*s:%" PRId64, STR_FMT(r->name), STR_FMT(r->file), r->line);
    else
        text_table_put(t, "%.*s", STR_FMT(r->name));
}

void page_top(struct page *p)
{
    struct text_table t;
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (page_common(p, key))
            continue;
        if (!str_is(key, "rows")) {
            json_skip(&p->json);
            continue;
        }
        if (p->n_columns == 2)
            TABLE(&t, {"BASE", true}, {"NEW", true}, {"CHANGE", true}, {"POINTS", true}, {"SELF OF", false});
        else
            TABLE(&t, {"SELF", true}, {"SELF%", true}, {"TOTAL", true}, {"TOTAL%", true}, {"NAME", false});
        json_begin_array(&p->json);
        while (json_next_item(&p->json)) {
            struct list_row r = read_row(p);

            put_row(p, &t, &r);
        }
        page_table(p, &t);
    }
    if (p->rows)
        put_covered(p);
}

/* --- names --- */

void page_labels(struct page *p)
{
    struct text_table t;

    TABLE(&t, {"NAME", false});
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str name = json_str(&p->json);

        text_table_put(&t, "%.*s", STR_FMT(name));
    }
    page_table(p, &t);
}

/* ["a","b"] as "a, b" */
static const char *read_joined(struct page *p, const char *separator)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str s = json_str(&p->json);

        buf_puts(&b, b.n ? separator : "");
        buf_put_str(&b, s);
    }
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

/* {"a":"b"} as "a=b" */
static const char *read_labels(struct page *p)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        struct str value = json_str(&p->json);

        buf_printf(&b, "%s%.*s=%.*s", b.n ? " " : "", STR_FMT(key), STR_FMT(value));
    }
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

const char *page_time(struct page *p, int64_t ns, int64_t unit_ns)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;

    clock_format(&b, ns / unit_ns * unit_ns);
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

void page_services(struct page *p)
{
    struct text_table t;
    struct str key;

    TABLE(&t, {"SERVICE", false}, {"TYPES", false}, {"VERSIONS", false});
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        const char *types = "", *versions = "";
        struct str name = {0};

        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key)) {
            if (str_is(key, "name"))
                name = json_str(&p->json);
            else if (str_is(key, "types"))
                types = read_joined(p, ",");
            else if (str_is(key, "versions"))
                versions = read_joined(p, ",");
            else
                json_skip(&p->json);
        }
        text_table_put(&t, "%.*s", STR_FMT(name));
        text_table_put(&t, "%s", types);
        text_table_put(&t, "%s", versions);
    }
    page_table(p, &t);
}

static void put_deploy(struct page *p, struct text_table *t)
{
    int64_t first = 0, last = 0, since = 0;
    struct str service = {0}, version = {0}, key;
    bool latest = false;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "service"))
            service = json_str(&p->json);
        else if (str_is(key, "version"))
            version = json_str(&p->json);
        else if (str_is(key, "first"))
            first = json_i64(&p->json);
        else if (str_is(key, "last"))
            last = json_i64(&p->json);
        else if (str_is(key, "since"))
            since = json_i64(&p->json);
        else if (str_is(key, "latest"))
            latest = json_bool(&p->json);
        else
            json_skip(&p->json);
    }
    text_table_put(t, "%.*s", STR_FMT(service));
    text_table_put(t, "%.*s", STR_FMT(version));
    text_table_put(t, "%s", page_time(p, first, NS_PER_S));
    text_table_put(t, "%s", page_time(p, since, NS_PER_S));
    text_table_put(t, "%s", page_time(p, last, NS_PER_S));
    text_table_put(t, "%s", latest ? "yes" : "");
}

void page_deploys(struct page *p)
{
    struct text_table t;
    struct str key;

    TABLE(&t, {"SERVICE", false}, {"VERSION", false}, {"FIRST", false}, {"SINCE", false}, {"LAST", false},
          {"LATEST", false});
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "deploys")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                put_deploy(p, &t);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    page_table(p, &t);
}

void page_types(struct page *p)
{
    struct text_table t;
    struct str key;

    TABLE(&t, {"TYPE", false}, {"UNIT", false}, {"RULE", false}, {"MEANING", false});
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str v[4] = {{0}};
        size_t i = 0;

        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key)) {
            struct str s = json_str(&p->json);

            if (i < ARRAY_SIZE(v))
                v[i++] = s;
        }
        for (i = 0; i < ARRAY_SIZE(v); i++)
            text_table_put(&t, "%.*s", STR_FMT(v[i]));
    }
    page_table(p, &t);
}

/* --- profiles --- */

static void put_profile(struct page *p, struct text_table *t)
{
    struct str key, handle = {0};
    const char *labels = "";
    int64_t time = 0, samples = 0;
    double value = 0;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "handle"))
            handle = json_str(&p->json);
        else if (str_is(key, "time"))
            time = json_i64(&p->json);
        else if (str_is(key, "value"))
            value = json_double(&p->json);
        else if (str_is(key, "samples"))
            samples = json_i64(&p->json);
        else if (str_is(key, "labels"))
            labels = read_labels(p);
        else
            json_skip(&p->json);
    }
    text_table_put(t, "%s", page_time(p, time, NS_PER_MS));
    text_table_put(t, "%s", page_value(p, value));
    text_table_put(t, "%" PRId64, samples);
    text_table_put(t, "%.*s", STR_FMT(handle));
    text_table_put(t, "%s", labels);
}

void page_list(struct page *p, const char *list, struct text_table *t,
               void (*put)(struct page *p, struct text_table *t))
{
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, list)) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                put(p, t);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    page_table(p, t);
}

void page_profiles(struct page *p)
{
    struct text_table t;

    TABLE(&t, {"TIME", false}, {"VALUE", true}, {"SAMPLES", true}, {"PROFILE", false}, {"LABELS", false});
    page_list(p, "profiles", &t, put_profile);
}

/* --- series --- */

struct listed_numbers {
    double *v;
    size_t n, cap;
};

struct series {
    const char *labels;
    struct listed_numbers values;
};

static void read_numbers(struct page *p, struct listed_numbers *to)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        double v = json_double(&p->json);

        if (array_push(to->v, to->n, to->cap, POINTS_MAX, v) < 0)
            p->json.err = -ENOMEM;
    }
}

static struct series read_series(struct page *p)
{
    struct series s = {.labels = ""};
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "labels"))
            s.labels = read_labels(p);
        else if (str_is(key, "values"))
            read_numbers(p, &s.values);
        else
            json_skip(&p->json);
    }
    return s;
}

/* A row a point, a column a series. A point that no profile covers has no value. */
static void put_points(struct page *p, const struct series *s, size_t n, const struct listed_numbers *covered,
                       int64_t from, int64_t step)
{
    struct text_column columns[SERIES_SHOWN + 1] = {{"TIME", false}};
    struct text_table t;
    size_t points = 0;

    for (size_t i = 0; i < n; i++) {
        columns[i + 1] = (struct text_column){s[i].labels[0] ? s[i].labels : "VALUE", true};
        points = MAX(points, s[i].values.n);
    }
    text_table_init(&t, n + 1, columns);
    for (size_t k = 0; k < points; k++) {
        bool known = k >= covered->n || covered->v[k] > 0;

        if (!known)
            continue;
        text_table_put(&t, "%s", page_time(p, from + (int64_t) k * step, NS_PER_S));
        for (size_t i = 0; i < n; i++)
            text_table_put(&t, "%s", k < s[i].values.n ? page_value(p, s[i].values.v[k]) : "-");
    }
    page_table(p, &t);
}

void page_series(struct page *p)
{
    struct series shown[SERIES_SHOWN];
    struct listed_numbers covered = {0};
    int64_t from = 0, step = 0;
    size_t n = 0, more = 0;
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "from")) {
            from = json_i64(&p->json);
        } else if (str_is(key, "step")) {
            step = json_i64(&p->json);
        } else if (str_is(key, "coverage")) { /* a number for each point */
            read_numbers(p, &covered);
        } else if (str_is(key, "series")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json)) {
                if (n < SERIES_SHOWN) {
                    shown[n++] = read_series(p);
                } else {
                    json_skip(&p->json);
                    more++;
                }
            }
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    put_points(p, shown, n, &covered, from, step);
    if (more)
        buf_printf(p->out, "%zu more series; --json has all of them\n", more);
    for (size_t i = 0; i < n; i++)
        mem_free(shown[i].values.v);
    mem_free(covered.v);
}

void page_coverage(struct page *p)
{
    struct text_table t;
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key))
        if (!page_common(p, key))
            json_skip(&p->json);
    TABLE(&t, {"SELECTION", false}, {"COVERED SECONDS", true});
    for (int i = 0; i < MAX(p->n_columns, 1); i++) {
        if (p->covered[i] <= 0)
            continue;
        text_table_put(&t, "%s", p->n_columns < 2 ? "query" : i ? "query (new)" : "base");
        text_table_put(&t, "%.3f", p->covered[i] / (double) NS_PER_S);
    }
    page_table(p, &t);
}

/* --- leaks --- */

/* The innermost functions of a stack, outermost last: main < run < malloc would be "malloc < run < main". */
static const char *read_stack(struct page *p)
{
    struct str last[STACK_SHOWN] = {{0}};
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;
    size_t n = 0;

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str name = json_str(&p->json);

        last[n++ % STACK_SHOWN] = name.n ? name : STR("[no name]");
    }
    for (size_t i = 0; i < MIN(n, (size_t) STACK_SHOWN); i++)
        buf_printf(&b, "%s%.*s", i ? " < " : "", STR_FMT(last[(n - 1 - i) % STACK_SHOWN]));
    if (n > STACK_SHOWN)
        buf_printf(&b, " < … (%zu more)", n - STACK_SHOWN);
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

static void put_leak(struct page *p, struct text_table *t)
{
    double slope = 0, fit = 0, now = 0;
    struct listed_numbers values = {0};
    const char *stack = "";
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "stack"))
            stack = read_stack(p);
        else if (str_is(key, "slopePerHour"))
            slope = json_double(&p->json);
        else if (str_is(key, "fit"))
            fit = json_double(&p->json);
        else if (str_is(key, "values"))
            read_numbers(p, &values);
        else
            json_skip(&p->json);
    }
    if (values.n)
        now = values.v[values.n - 1];
    mem_free(values.v);
    text_table_put(t, "%s", page_value(p, slope));
    text_table_put(t, "%s", page_value(p, now));
    text_table_put(t, "%.2f", fit);
    text_table_put(t, "%s", stack);
}

void page_leaks(struct page *p)
{
    struct text_table t;

    TABLE(&t, {"GROWTH/H", true}, {"NOW", true}, {"FIT", true}, {"ALLOCATED BY", false});
    page_list(p, "leaks", &t, put_leak);
}

/* --- symbols --- */

struct listed_binaries {
    double self;
    struct str fixes[8]; /* different ones */
    size_t n_fixes;
};

static void add_fix(struct listed_binaries *b, struct str fix)
{
    for (size_t i = 0; i < b->n_fixes; i++)
        if (str_eq(b->fixes[i], fix))
            return;
    if (fix.n && b->n_fixes < ARRAY_SIZE(b->fixes))
        b->fixes[b->n_fixes++] = fix;
}

static void put_binary(struct page *p, struct text_table *t, struct listed_binaries *b)
{
    struct str key, id = {0}, mapping = {0}, status = {0};
    double self = 0, named = 0;
    int64_t frames = 0, with_names = 0;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "buildId"))
            id = json_str(&p->json);
        else if (str_is(key, "mapping"))
            mapping = json_str(&p->json);
        else if (str_is(key, "status"))
            status = json_str(&p->json);
        else if (str_is(key, "fix"))
            add_fix(b, json_str(&p->json));
        else if (str_is(key, "self"))
            self = json_double(&p->json);
        else if (str_is(key, "selfNamed"))
            named = json_double(&p->json);
        else if (str_is(key, "frames"))
            frames = json_i64(&p->json);
        else if (str_is(key, "named"))
            with_names = json_i64(&p->json);
        else
            json_skip(&p->json);
    }
    text_table_put(t, "%s", page_share(p, self, b->self));
    text_table_put(t, "%s", self != 0 ? page_share(p, named, self) : "-");
    text_table_put(t, "%" PRId64 "/%" PRId64, with_names, frames);
    text_table_put(t, "%.*s", STR_FMT(status));
    text_table_put(t, "%.*s", STR_FMT(str_slice(id, 0, 16)));
    text_table_put(t, "%.*s", STR_FMT(mapping));
}

void page_symbols(struct page *p)
{
    struct listed_binaries b = {0};
    struct text_table t;
    struct str key;

    TABLE(&t, {"SELF%", true}, {"NAMED%", true}, {"FRAMES NAMED", true}, {"STATUS", false}, {"BUILD ID", false},
          {"BINARY", false});
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "self")) {
            b.self = json_double(&p->json);
        } else if (str_is(key, "binaries")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                put_binary(p, &t, &b);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    page_table(p, &t);
    for (size_t i = 0; i < b.n_fixes; i++)
        buf_printf(p->out, "%s%.*s\n", i ? "or: " : "To name the rest: ", STR_FMT(b.fixes[i]));
}
