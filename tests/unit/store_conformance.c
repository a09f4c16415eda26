/* SPDX-License-Identifier: Apache-2.0 */
/* The tests that every engine must pass, and the text dumps by which two engines are compared; see
 * store_conformance.h. */
#include "store_conformance.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/regex.h"
#include "batch_validate.h"
#include "labels_text.h"
#include "store/store_cube.h"
#include "store/store_spans.h"
#include "store/store_table.h"
#include "store/store_windows.h"
#include "store_gen.h"
#include "tap.h"

int64_t suite_clock = GEN_T0;

int64_t suite_now(void)
{
    return suite_clock;
}

static void open_suite(struct suite *s)
{
    struct err e = {0};

    s->store = NULL;
    if (store_open(s->ops, &s->config, &s->store, &e) < 0)
        tap_fail("cannot open: %s", e.message);
}

void suite_settle(struct suite *s)
{
    struct err e = {0};

    if (s->settle != SETTLE_FRESH && store_flush(s->store, &e) < 0)
        tap_fail("flush: %s", e.message);
    if (s->settle == SETTLE_COMPACTED && s->store->ops->retain(s->store, true, &e) < 0)
        tap_fail("compact: %s", e.message);
    if (s->settle == SETTLE_REOPENED) {
        store_close(s->store);
        open_suite(s);
    }
}

/* --- small helpers --- */

static void append_as(struct suite *s, struct batch *b, const struct sink_context *ctx, struct ack_result *ret)
{
    struct ack_result result = {0};

    if (!s->store || store_append_wait(s->store, b, ctx, &result) < 0)
        tap_fail("append: %s", result.message);
    if (ret)
        *ret = result;
}

static void append(struct suite *s, struct batch *b)
{
    append_as(s, b, &(struct sink_context){.tenant = "", .received_ns = suite_clock}, NULL);
    if (s->neighbour)
        append_as(s, b, &(struct sink_context){.tenant = "neighbour", .received_ns = suite_clock}, NULL);
}

struct simple {
    const char *service, *host, *exe, *container, *scope, *sdk, *type, *unit;
    int64_t time;
    const char *stack; /* functions, leaf last */
    int64_t value;
    int pid;
    uint8_t trace, span;
    const char *thread;
    bool no_time;
};

static uint32_t simple_stack(struct builder *b, const char *words)
{
    struct str rest = str_from(words), parts[16];
    uint32_t list[16], n = 0, k = 0;

    while (rest.n && n < 16)
        parts[n++] = str_cut(&rest, ' ');
    while (n-- > 0) {
        struct line l = {.function = builder_function(b, &(struct function){.name = builder_string(b, parts[n])}),
                         .line = 1};

        list[k++] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    }
    return builder_stack(b, list, k);
}

static struct batch *simple_batch(const struct simple *rows, size_t n)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct batch *out = NULL;

    if (builder_new(NULL, &b) < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct simple *s = &rows[i];
        struct value_type t = {builder_string(b, str_from(s->type ? s->type : "cpu")),
                               builder_string(b, str_from(s->unit ? s->unit : "nanoseconds"))};
        uint32_t attr = s->thread ? builder_attr_str(b, STR("thread.name"), str_from(s->thread)) : 0, link = 0;
        struct profile *p;

        builder_resource(b);
        builder_resource_attr_str(b, STR("service.name"), str_from(s->service ? s->service : "a"));
        if (s->host)
            builder_resource_attr_str(b, STR("host.name"), str_from(s->host));
        if (s->exe)
            builder_resource_attr_str(b, STR("process.executable.path"), str_from(s->exe));
        if (s->container)
            builder_resource_attr_str(b, STR("container.id"), str_from(s->container));
        if (s->sdk)
            builder_resource_attr_str(b, STR("telemetry.sdk.name"), str_from(s->sdk));
        if (s->pid)
            builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = s->pid});
        builder_scope(b, str_from(s->scope ? s->scope : "t"), STR(""));
        p = builder_profile(b, &t, 1);
        if (p && !s->no_time) {
            p->time_ns = s->time ? s->time : GEN_T0;
            p->duration_ns = NS_PER_S;
        }
        if (s->trace)
            link = builder_link(b, &(struct link){.trace_id = {s->trace}, .span_id = {s->span}});
        builder_sample(b, &(struct builder_sample){.stack = simple_stack(b, s->stack ? s->stack : "main work"),
                                                   .link = link,
                                                   .attrs = builder_attrs(b, &attr, attr ? 1 : 0),
                                                   .values = &s->value,
                                                   .n_values = 1});
    }
    return builder_finish(b, &out, NULL) < 0 ? NULL : out;
}

static void append_simple(struct suite *s, const struct simple *rows, size_t n)
{
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(rows, n);

    append(s, b);
}
#define APPEND(s, ...)                               \
    do {                                             \
        const struct simple rows_[] = {__VA_ARGS__}; \
        append_simple(s, rows_, ARRAY_SIZE(rows_));  \
    } while (0)

/* A query with all the memory that it refers to. */
struct asked {
    struct arena arena;
    struct selector sel[2];
    struct store_query q;
};

static void ask(struct asked *k, const char *selector, int64_t from, int64_t to)
{
    struct err e = {0};

    *k = (struct asked){0};
    arena_init(&k->arena, 0);
    if (selector_parse(str_from(selector), &k->arena, &k->sel[0], &e) < 0)
        tap_fail("%s", e.message);
    k->q = (struct store_query){.tenant = "", .columns = {{&k->sel[0], from, to}}, .n_columns = 1};
}

static void ask_done(struct asked *k)
{
    selector_done(&k->sel[0]);
    selector_done(&k->sel[1]);
    arena_done(&k->arena);
}

static int64_t total_of(struct suite *s, const struct store_query *q)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct err e = {0};

    if (s->store->ops->select(s->store, q, &t, &e) < 0) {
        tap_fail("select: %s", e.message);
        return -1;
    }
    return t->total[0][0];
}

static int64_t total(struct suite *s, const char *selector, int64_t from, int64_t to)
{
    struct asked k;
    int64_t v;

    ask(&k, selector, from, to);
    v = total_of(s, &k.q);
    ask_done(&k);
    return v;
}

#define ALL INT64_MIN / 2, INT64_MAX / 2

/* --- dumps --- */

static int cmp_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Merges lines that are equal up to a tab, adding the two numbers after it: a profile may contain a stack twice. */
static void put_merged(struct buf *out, char **lines, size_t n)
{
    for (size_t i = 0, j; i < n; i = j) {
        char *tab = strchr(lines[i], '\t');
        size_t key = tab ? (size_t) (tab - lines[i]) : strlen(lines[i]);
        long long a = 0, b = 0;

        for (j = i; j < n && (j == i || tab) && strncmp(lines[j], lines[i], key + 1) == 0; j++) {
            char *end;

            if (tab) {
                a += strtoll(lines[j] + key + 1, &end, 10);
                b += strtoll(end, NULL, 10);
            }
        }
        buf_put(out, lines[i], key);
        if (tab)
            buf_printf(out, " = %lld %lld", a, b);
        buf_putc(out, '\n');
    }
}

/* Sorts the lines of b in place. */
static void sort_lines(struct buf *b)
{
    char *text = buf_cstr(b), **lines, *p = text;
    size_t n = 0, cap = 1;
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    for (size_t i = 0; i < b->n; i++)
        cap += text[i] == '\n';
    lines = mem_zalloc_array(cap, sizeof *lines);
    while (p && *p) {
        char *nl = strchr(p, '\n');

        if (nl)
            *nl = 0;
        lines[n++] = p;
        p = nl ? nl + 1 : NULL;
    }
    qsort(lines, n, sizeof *lines, cmp_lines);
    put_merged(&out, lines, n);
    mem_free(lines);
    buf_reset(b);
    buf_put(b, out.p, out.n);
}

static void put_path(struct buf *out, const struct tree *t, uint32_t n)
{
    const struct frame *f;

    if (!n)
        return;
    put_path(out, t, t->parent[n]);
    f = &t->frames[t->frame[n]];
    buf_printf(out, "/%.*s|%.*s:%d|%.*s|%.*s+%llx|%d", STR_FMT(f->function), STR_FMT(f->file), (int) f->line,
               STR_FMT(f->mapping), STR_FMT(f->build_id), (unsigned long long) f->address, f->kind);
}

void dump_tree(struct buf *out, const struct tree *t)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    for (uint32_t i = 0; i < t->n_nodes; i++) {
        put_path(&b, t, i);
        for (uint32_t c = 0; c < t->n_columns; c++)
            buf_printf(&b, " %lld(%lld)", (long long) t->self[c][i], (long long) t->total[c][i]);
        buf_putc(&b, '\n');
    }
    sort_lines(&b);
    buf_put(out, b.p, b.n);
}

static int dump_series_fn(void *ctx, const struct type *t, const struct labels *l)
{
    buf_printf(ctx, "series %.*s", STR_FMT(t->name));
    labels_print(ctx, l);
    buf_putc(ctx, '\n');
    return 0;
}

static int dump_profile_fn(void *ctx, const struct store_profile *p)
{
    buf_printf(ctx, "profile %llx %.*s %lld+%lld = %lld id %02x%02x ", (unsigned long long) p->handle.lo,
               STR_FMT(p->type->name), (long long) p->time_ns, (long long) p->duration_ns, (long long) p->value,
               p->id[0], p->id[15]);
    labels_print(ctx, p->labels);
    buf_putc(ctx, '\n');
    return 0;
}

static void dump_attrs(struct buf *out, const struct batch *b, struct run attrs)
{
    for (uint32_t i = 0; i < attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[attrs.off + i]];

        buf_printf(out, " %.*s=", STR_FMT(batch_string(b, a->key)));
        value_print(out, &a->value);
    }
}

static void dump_kvs(struct buf *out, const struct kvs *kvs)
{
    for (uint32_t i = 0; i < kvs->n; i++) {
        buf_printf(out, " %.*s=", STR_FMT(kvs->v[i].key));
        value_print(out, &kvs->v[i].value);
    }
}

static void dump_stack(struct buf *out, const struct batch *b, uint32_t stack)
{
    struct run st = b->dict.stacks[stack];

    for (uint32_t i = 0; i < st.n; i++) {
        const struct location *l = &b->dict.locations[b->dict.indices[st.off + i]];

        buf_printf(out, ";%llx@%.*s", (unsigned long long) l->address,
                   STR_FMT(batch_string(b, b->dict.mappings[l->mapping].filename)));
        dump_attrs(out, b, b->dict.mappings[l->mapping].attrs);
        dump_attrs(out, b, l->attrs);
        for (uint32_t k = 0; k < l->lines.n; k++) {
            const struct line *n = &b->dict.lines[l->lines.off + k];
            const struct function *f = &b->dict.functions[n->function];

            buf_printf(out, ",%.*s %.*s:%lld", STR_FMT(batch_string(b, f->name)), STR_FMT(batch_string(b, f->filename)),
                       (long long) n->line);
        }
    }
}

/* Writes one line per value, after a tab: engines may split or join samples of the same stack, link and attributes. */
static void dump_sample(struct buf *out, const struct batch *b, const struct buf *head, const struct sample *s)
{
    const struct link *l = &b->dict.links[s->link];
    uint32_t n = s->timestamps.n ? s->timestamps.n : 1;

    for (uint32_t i = 0; i < n; i++) {
        buf_put(out, head->p, head->n);
        buf_printf(out, "link %02x%02x/%02x ts %lld", l->trace_id[0], l->trace_id[1], l->span_id[1],
                   s->timestamps.n ? (long long) b->timestamps[s->timestamps.off + i] : 0);
        dump_attrs(out, b, s->attrs);
        dump_stack(out, b, s->stack);
        buf_putc(out, '\t');
        if (s->timestamps.n)
            buf_printf(out, "%lld 0", s->values.n ? (long long) b->values[s->values.off + i] : 1);
        else
            buf_printf(out, "%lld %lld", (long long) b->values[s->values.off],
                       s->values.n > 1 ? (long long) b->values[s->values.off + 1] : 0);
        buf_putc(out, '\n');
    }
}

static int dump_batch_fn(void *ctx, struct batch *b)
{
    struct err e = {0};

    if (batch_validate(b, &e) < 0)
        tap_fail("export: %s", e.message);
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t s = 0; s < b->resources[r].scopes.n; s++) {
            const struct scope *scope = &b->scopes[b->resources[r].scopes.off + s];

            for (uint32_t i = 0; i < scope->profiles.n; i++) {
                const struct profile *p = &b->profiles[scope->profiles.off + i];
                _cleanup_(buf_done) struct buf head = BUF_INIT;

                buf_puts(&head, "sample");
                dump_kvs(&head, &b->resources[r].attrs);
                dump_kvs(&head, &scope->attrs);
                dump_attrs(&head, b, p->attrs);
                for (uint32_t t = 0; t < p->n_types; t++)
                    buf_printf(&head, " %.*s/%.*s", STR_FMT(batch_string(b, p->types[t].type)),
                               STR_FMT(batch_string(b, p->types[t].unit)));
                buf_printf(&head, " %lld+%lld period %lld id %02x group %d ", (long long) p->time_ns,
                           (long long) p->duration_ns, (long long) p->period, p->id[3], p->group != 0);
                for (uint32_t k = 0; k < p->samples.n; k++)
                    dump_sample(ctx, b, &head, &b->samples[p->samples.off + k]);
            }
        }
    return 0;
}

static void dump_points(struct buf *out, struct store *s, const struct store_query *q, struct str by,
                        struct str function)
{
    struct store_series_query sq = {.step = 97 * NS_PER_S, .by = &by, .n_by = by.n ? 1 : 0, .function = function};
    struct store_points p = {0};
    struct err e = {0};

    if (s->ops->series(s, q, &sq, &p, &e) < 0) {
        tap_fail("series: %s", e.message);
        return;
    }
    for (uint32_t i = 0; i < p.n_series; i++)
        for (uint32_t k = 0; k < p.n_points; k++) {
            double v = p.values[(size_t) i * p.n_points + k];

            if (fabs(v) < 1e-9)
                continue;
            buf_puts(out, "point ");
            labels_print(out, &p.labels[i]);
            buf_printf(out, " %u %.4f\n", k, v);
        }
    store_points_done(&p);
}

/* sort_lines() merges equal lines: engines may repeat attributes. */
static int dump_attribute_fn(void *ctx, struct str name, struct str value)
{
    buf_printf(ctx, "attribute %.*s=%.*s\t0 0\n", STR_FMT(name), STR_FMT(value));
    return 0;
}

static void dump_attributes(struct buf *out, struct store *s, const struct store_query *q, struct str name)
{
    struct err e = {0};

    if (s->ops->attributes(s, q, name, dump_attribute_fn, out, &e) < 0)
        tap_fail("attributes: %s", e.message);
}

static void dump_question(struct buf *out, struct store *s, const struct store_query *q, const char *title)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct err e = {0};

    buf_printf(out, "== %s\n", title);
    if (s->ops->select(s, q, &t, &e) < 0) {
        tap_fail("select %s: %s", title, e.message);
        return;
    }
    dump_tree(out, t);
}

static void dump_table(struct buf *out, struct store *s, const struct store_query *q, enum store_rows rows)
{
    struct store_table t = {0};
    struct err e = {0};

    if (s->ops->table(s, q, &(struct store_table_query){.rows = rows}, &t, &e) < 0)
        tap_fail("table: %s", e.message);
    buf_printf(out, "table %d %lld %lld\n", rows, (long long) t.sum[0], (long long) t.sum[1]);
    for (uint32_t i = 0; i < t.n_rows; i++) {
        const struct table_row *r = &t.rows[i];
        const struct frame *f;
        struct frame key;

        if (rows != ROWS_FRAME)
            key = (struct frame){.function = t.keys[i].name,
                                 .file = t.keys[i].file,
                                 .line = t.keys[i].line,
                                 .address = t.keys[i].address};
        f = rows == ROWS_FRAME ? store_table_frame(&t, i) : &key;

        buf_printf(out, "row %d %.*s|%.*s:%d|%.*s+%llx|%d %lld %lld %lld %lld\n", rows, STR_FMT(f->function),
                   STR_FMT(f->file), (int) f->line, STR_FMT(f->build_id), (unsigned long long) f->address, r->kind,
                   (long long) r->self[0], (long long) r->total[0], (long long) r->self[1], (long long) r->total[1]);
    }
    for (uint32_t i = 0; i < t.n_gaps; i++)
        buf_printf(out, "gap %d %.*s %d\n", rows, STR_FMT(t.gaps[i].build_id), t.gaps[i].named);
    store_table_done(&t);
}

/* The same selection as tables: by every kind of row, with filters, and compared with another time. */
static void dump_tables(struct buf *out, struct store *s, const struct store_query *q)
{
    struct str some = STR("fn[1357]"), few = STR("fn.*[45]$"), none = {0};
    struct store_query k = *q;

    for (enum store_rows rows = ROWS_FUNCTION; rows <= ROWS_UNLINED; rows++)
        dump_table(out, s, &k, rows);
    k.focus = some;
    k.hide = few;
    dump_table(out, s, &k, ROWS_FRAME);
    k.focus = none;
    k.hide = some;
    k.ignore = few;
    dump_table(out, s, &k, ROWS_PACKAGE);
    k.ignore = k.hide = none;
    k.n_columns = 2;
    k.columns[1] = k.columns[0];
    k.columns[1].from += (k.columns[1].to - k.columns[1].from) / 3;
    dump_table(out, s, &k, ROWS_FRAME);
    dump_table(out, s, &k, ROWS_LINE);
}

/* Sums by span. The number of samples is approximate, so that it is not compared. */
static void dump_spans(struct buf *out, struct store *s, const struct store_query *q)
{
    struct store_spans v = {0};
    struct err e = {0};

    if (s->ops->spans(s, q, &v, &e) < 0)
        tap_fail("spans: %s", e.message);
    buf_printf(out, "spans %lld %lld %.*s\n", (long long) v.total, (long long) v.linked, STR_FMT(v.unit));
    for (uint32_t i = 0; i < v.n; i++)
        buf_printf(out, "span %02x%02x %02x%02x %.*s %lld %lld %lld\n", v.v[i].link.trace_id[0],
                   v.v[i].link.trace_id[1], v.v[i].link.span_id[0], v.v[i].link.span_id[1], STR_FMT(v.v[i].service),
                   (long long) v.v[i].value, (long long) v.v[i].from, (long long) v.v[i].to);
    store_spans_done(&v);
}

/* The values of each stack in five windows of time. */
static void dump_windows(struct buf *out, struct store *s, const struct store_query *q)
{
    struct store_windows w = {0};
    struct err e = {0};

    if (store_windows(s, q, 5, &w, &e) < 0) {
        tap_fail("windows: %s", e.message);
        return;
    }
    for (uint32_t i = 1; i < w.tree->n_nodes; i++) {
        const int64_t *v = &w.values[(size_t) i * w.n];

        if (!v[0] && !v[1] && !v[2] && !v[3] && !v[4])
            continue;
        buf_puts(out, "windows ");
        for (uint32_t n = i; n; n = w.tree->parent[n])
            buf_printf(out, "%.*s;", STR_FMT(w.tree->frames[w.tree->frame[n]].function));
        buf_printf(out, " %lld %lld %lld %lld %lld\n", (long long) v[0], (long long) v[1], (long long) v[2],
                   (long long) v[3], (long long) v[4]);
    }
    store_windows_done(&w);
}

/* The values of each stack in windows of time, added up over instances: how these are told apart depends on the engine. */
static void dump_cube(struct buf *out, struct store *s, const struct store_query *q, bool by_resource)
{
    struct store_cube_query cq = {.width_ns = (q->columns[0].to - q->columns[0].from) / 6 + 1,
                                  .by_resource = by_resource};
    struct store_cube c = {0};
    struct err e = {0};
    int64_t *sums;

    if (store_cube(s, q, &cq, &c, &e) < 0) {
        tap_fail("cube: %s", e.message);
        return;
    }
    ok(c.n_windows == 6);
    sums = mem_zalloc_array(c.tree->n_nodes, sizeof *sums);
    for (uint32_t i = 0; i < c.n_cells; i++) {
        const struct cube_cell *cell = &c.cells[i];

        ok(cell->instance < c.n_instances && cell->first + cell->n <= c.n_values);
        for (uint32_t k = 0; k < cell->n; k++)
            sums[c.values[cell->first + k].node] += c.values[cell->first + k].self;
        if (i + 1 < c.n_cells && c.cells[i + 1].window == cell->window)
            continue;
        for (uint32_t node = 1; node < c.tree->n_nodes; node++) {
            if (!sums[node])
                continue;
            buf_printf(out, "cube %u %d ", cell->window, by_resource);
            for (uint32_t n = node; n; n = c.tree->parent[n])
                buf_printf(out, "%.*s;", STR_FMT(c.tree->frames[c.tree->frame[n]].function));
            buf_printf(out, " %lld\n", (long long) sums[node]);
            sums[node] = 0;
        }
    }
    mem_free(sums);
    store_cube_done(&c);
}

/* The callers and callees of fn7, for one time and for two; and a check that pruning loses nothing. */
static void dump_callers(struct buf *out, struct store *s, const struct store_query *q)
{
    struct store_query k = *q;

    k.by = BY_FUNCTION;
    k.columns[1] = k.columns[0];
    k.columns[1].to -= (k.columns[1].to - k.columns[1].from) / 4;
    for (k.n_columns = 1; k.n_columns <= 2; k.n_columns++) {
        _cleanup_(store_callers_done) struct store_callers all = {0}, few = {0};
        struct err e = {0};

        k.max_nodes = 0;
        if (s->ops->callers(s, &k, STR("fn7"), &all, &e) < 0)
            tap_fail("callers: %s", e.message);
        buf_printf(out, "callers of %lld, %lld\n", (long long) all.sum[0], (long long) all.sum[1]);
        dump_tree(out, all.callers);
        dump_tree(out, all.callees);
        k.max_nodes = 12;
        if (s->ops->callers(s, &k, STR("fn7"), &few, &e) < 0)
            tap_fail("callers: %s", e.message);
        ok(few.callers->n_nodes <= 2 * 12 + 1 && few.callees->n_nodes <= 2 * 12 + 1); /* including the folded nodes */
        for (uint32_t c = 0; c < k.n_columns; c++) {
            eq_int(few.callers->total[c][0], all.callers->total[c][0]);
            eq_int(few.callees->total[c][0], all.callees->total[c][0]);
            eq_int(few.callees->total[c][0], few.callers->total[c][0]);
        }
    }
}

void dump_answers(struct buf *out, struct store *s, int64_t from, int64_t to)
{
    static const char *const selectors[] = {
        "cpu",
        "cpu{service.name=\"svc-1\"}",
        "cpu{host.name=~\"host-.\",service_name!=\"svc-0\"}",
        "offcpu",
        "heap",
        "heap{service.name=\"svc-0\"}",
        "alloc_objects",
        "cache-misses",
        "cpu{thread.name=\"w1\"}",
        "cpu{process.pid=\"101\"}",
        "heap_objects{process.pid!=\"101\"}",
        "cpu{nothing=\"\"}",
    };
    static const struct link spans[] = {{{1, 2}, {2}}, {{1, 1}, {1}}, {{1, 3}, {2}}, {{1, 2}, {1}}, {{1, 4}, {3}}};
    struct store_span_set set;

    for (size_t i = 0; i < ARRAY_SIZE(selectors); i++) {
        struct asked k;
        _cleanup_(buf_done) struct buf lines = BUF_INIT;

        ask(&k, selectors[i], from, to);
        dump_question(out, s, &k.q, selectors[i]);
        k.q.by = i % 2 ? BY_ADDRESS : BY_LINE;
        k.q.no_inlines = i % 3 == 0;
        dump_question(out, s, &k.q, "finer");
        k.q.has_trace = true;
        k.q.trace_id[0] = 1;
        k.q.trace_id[1] = 2;
        dump_question(out, s, &k.q, "trace");
        k.q.has_span = true;
        k.q.span_id[0] = 2;
        dump_question(out, s, &k.q, "span");
        s->ops->export(s, &k.q, dump_batch_fn, &lines, NULL);
        k.q.has_trace = k.q.has_span = false;
        ok(store_span_set_init(&set, spans, ARRAY_SIZE(spans)) == 0);
        k.q.columns[0].spans = &set;
        dump_question(out, s, &k.q, "set of spans");
        if (i % 2)
            dump_tables(&lines, s, &k.q);
        k.q.columns[0].spans = NULL;
        store_span_set_done(&set);
        k.q.columns[0].taken_from = from + (to - from) / 3;
        k.q.columns[0].taken_to = from + (to - from) / 2;
        dump_question(out, s, &k.q, "taken in a part of the range");
        dump_spans(&lines, s, &k.q);
        s->ops->export(s, &k.q, dump_batch_fn, &lines, NULL);
        dump_table(&lines, s, &k.q, ROWS_FUNCTION);
        k.q.columns[0].taken_from = k.q.columns[0].taken_to = 0;
        dump_points(&lines, s, &k.q, STR("service.name"), STR(""));
        dump_points(&lines, s, &k.q, STR(""), STR("fn7"));
        dump_points(&lines, s, &k.q, i % 2 ? STR("thread_name") : STR("process.pid"), i % 3 ? STR("") : STR("fn7"));
        dump_attributes(&lines, s, &k.q, STR(""));
        dump_attributes(&lines, s, &k.q, i % 2 ? STR("thread.id") : STR("process_pid"));
        if (i % 2 == 0)
            dump_tables(&lines, s, &k.q);
        if (i % 3 != 1)
            dump_callers(&lines, s, &k.q);
        dump_spans(&lines, s, &k.q);
        k.q.by = BY_FUNCTION;
        if (i % 4 == 0)
            dump_windows(&lines, s, &k.q);
        if (!strncmp(selectors[i], "cpu", 3))
            dump_cube(&lines, s, &k.q, i % 2);
        s->ops->profiles(s, &k.q, dump_profile_fn, &lines, NULL);
        sort_lines(&lines);
        buf_put(out, lines.p, lines.n);
        ask_done(&k);
    }
    {
        struct asked k;
        _cleanup_(buf_done) struct buf lines = BUF_INIT;

        ask(&k, "", from, to);
        s->ops->export(s, &k.q, dump_batch_fn, &lines, NULL);
        s->ops->each_series(s, &(struct store_range){"", ALL, NULL}, dump_series_fn, &lines);
        sort_lines(&lines);
        buf_put(out, lines.p, lines.n);
        ask_done(&k);
    }
}

/* --- the suite --- */

static void test_add(struct suite *s)
{
    APPEND(s, {.value = 5}, {.value = 7, .stack = "main idle"}, {.value = 9, .service = "b"});
    suite_settle(s);
    eq_int(total(s, "cpu", ALL), 21);
    eq_int(total(s, "cpu{service.name=\"a\"}", ALL), 12);
    eq_int(total(s, "cpu{service.name=\"none\"}", ALL), 0);
    eq_int(total(s, "wall", ALL), 0);
}

static void test_time(struct suite *s)
{
    APPEND(s, {.value = 1, .time = GEN_T0}, {.value = 10, .time = GEN_T0 + 1},
           {.value = 100, .time = GEN_T0 + NS_PER_S});
    suite_settle(s);
    eq_int(total(s, "cpu", GEN_T0, GEN_T0 + 1), 1);
    eq_int(total(s, "cpu", GEN_T0 + 1, GEN_T0 + NS_PER_S), 10);
    eq_int(total(s, "cpu", GEN_T0 + 1, GEN_T0 + NS_PER_S + 1), 110);
    eq_int(total(s, "cpu", GEN_T0 - 10, GEN_T0), 0);
}

static void test_late(struct suite *s)
{
    const struct simple rows[] = {{.value = 1, .time = GEN_T0 - 7 * 86400 * NS_PER_S - 1, .service = "slow"},
                                  {.value = 2, .time = GEN_T0 - 7 * 86400 * NS_PER_S},
                                  {.value = 4, .time = GEN_T0 + 600 * NS_PER_S},
                                  {.value = 8, .time = GEN_T0 + 600 * NS_PER_S + 1},
                                  {.value = 16, .no_time = true}};
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(rows, ARRAY_SIZE(rows));
    struct ack_result r;

    append_as(s, b, &(struct sink_context){.tenant = "", .received_ns = suite_clock}, &r);
    eq_int(r.rejected, 2);
    ok(strstr(r.message, "slow") && strstr(r.message, "old"));
    suite_settle(s);
    eq_int(total(s, "cpu", ALL), 22);
    eq_int(total(s, "cpu", GEN_T0, GEN_T0 + 1), 16); /* no start: the time of receipt */
}

static void test_dedup(struct suite *s)
{
    _cleanup_(batch_unrefp) struct batch *b = simple_batch((struct simple[]){{.value = 3}}, 1);
    _cleanup_(batch_unrefp) struct batch *c =
        simple_batch((struct simple[]){{.value = 4}, {.value = 3}, {.value = 3, .pid = 9}}, 3);
    _cleanup_(batch_unrefp) struct batch *timeless =
        simple_batch((struct simple[]){{.value = 100, .no_time = true}}, 1);

    append(s, b);
    append(s, b);
    suite_settle(s);
    append(s, b);
    append(s, c); /* the same profile with others; one of another resource is different */
    eq_int(total(s, "cpu", ALL), 10);
    append(s, timeless);
    append(s, timeless); /* neither ID nor time: not deduplicated */
    eq_int(total(s, "cpu", ALL), 210);
    append_as(s, b, &(struct sink_context){.tenant = "other", .received_ns = suite_clock}, NULL);
    suite_settle(s);
    append(s, c);
    eq_int(total(s, "cpu", ALL), 210);
}

static void test_tenants(struct suite *s)
{
    _cleanup_(batch_unrefp) struct batch *b = simple_batch((struct simple[]){{.value = 3, .service = "x"}}, 1);
    struct asked k;

    append_as(s, b, &(struct sink_context){.tenant = "one", .received_ns = suite_clock}, NULL);
    APPEND(s, {.value = 5});
    suite_settle(s);
    ask(&k, "cpu", ALL);
    eq_int(total_of(s, &k.q), 5);
    k.q.tenant = "one";
    eq_int(total_of(s, &k.q), 3);
    k.q.tenant = "two";
    eq_int(total_of(s, &k.q), 0);
    ask_done(&k);
}

static void test_gauge(struct suite *s)
{
    APPEND(s, {.type = "inuse_space", .unit = "bytes", .value = 100, .pid = 1, .time = GEN_T0},
           {.type = "inuse_space", .unit = "bytes", .value = 200, .pid = 1, .time = GEN_T0 + 10 * NS_PER_S},
           {.type = "inuse_space", .unit = "bytes", .value = 1000, .pid = 2, .time = GEN_T0},
           {.type = "inuse_space",
            .unit = "bytes",
            .value = 40,
            .pid = 1,
            .time = GEN_T0 + 10 * NS_PER_S + 1,
            .stack = "main x"});
    suite_settle(s);
    /* pid 1 has three snapshots: (100 + 200) / 3 on work and 40 / 3 on x; pid 2 has one */
    eq_int(total(s, "heap", ALL), 100 + 13 + 1000);
    eq_int(total(s, "heap", GEN_T0, GEN_T0 + NS_PER_S), 1100);
}

/* A process that is scraped, and then sends its memory itself, holds it once. Containers whose processes have the same names hold
 * theirs each. */
static void test_gauge_of_two_sources(struct suite *s)
{
#define HEAP(h, x, p) .type = "inuse_space", .unit = "bytes", .value = 100, .host = h, .exe = x, .pid = p
#define ONE HEAP("h", "/bin/x", 7)
    APPEND(s, {ONE, .scope = ""}, {ONE, .scope = "", .time = GEN_T0 + 10 * NS_PER_S},
           {ONE, .sdk = "go", .time = GEN_T0 + 20 * NS_PER_S}, {ONE, .scope = "", .time = GEN_T0 + 25 * NS_PER_S},
           {ONE, .sdk = "go", .time = GEN_T0 + 30 * NS_PER_S});
    suite_settle(s);
    eq_int(total(s, "heap", ALL), 100);
    eq_int(total(s, "heap_also", ALL), 100); /* one, after the SDK was there */
    eq_int(total(s, "heap", GEN_T0, GEN_T0 + 11 * NS_PER_S), 100);
    APPEND(s, {HEAP("k", "/bin/x", 7)}, {HEAP("k", "/bin/y", 7)}, {HEAP("k", "/bin/x", 7), .container = "c1"},
           {HEAP("k", "/bin/x", 7), .container = "c2"}, {HEAP("k", "/bin/x", 8)});
    suite_settle(s);
    eq_int(total(s, "heap", ALL), 600);
#undef ONE
#undef HEAP
}

static void test_labels(struct suite *s)
{
    APPEND(s, {.value = 1, .thread = "io", .pid = 7, .host = "h1"},
           {.value = 2, .thread = "cpu", .pid = 7, .host = "h2"}, {.value = 4, .pid = 8, .host = "h1"});
    suite_settle(s);
    eq_int(total(s, "cpu{thread.name=\"io\"}", ALL), 1);
    eq_int(total(s, "cpu{thread_name=~\"io|cpu\"}", ALL), 3);
    eq_int(total(s, "cpu{process.pid=\"7\"}", ALL), 3);
    eq_int(total(s, "cpu{process.pid=\"7\",host.name=\"h2\"}", ALL), 2);
    eq_int(total(s, "cpu{thread.name=\"\"}", ALL), 4);
}

static void test_links(struct suite *s)
{
    struct asked k;

    APPEND(s, {.value = 1, .trace = 1, .span = 1}, {.value = 2, .trace = 1, .span = 2},
           {.value = 4, .trace = 2, .span = 1}, {.value = 8}, {.value = 16, .trace = 1, .span = 1, .service = "b"});
    suite_settle(s);
    ask(&k, "cpu", ALL);
    k.q.has_trace = true;
    k.q.trace_id[0] = 1;
    eq_int(total_of(s, &k.q), 19);
    k.q.has_span = true;
    k.q.span_id[0] = 1;
    eq_int(total_of(s, &k.q), 17);
    k.q.trace_id[0] = 3;
    eq_int(total_of(s, &k.q), 0);
    k.q.has_trace = false; /* a span in any trace */
    eq_int(total_of(s, &k.q), 21);
    ask_done(&k);
}

/* A set of spans per column, in trees, tables and sums. */
static void test_span_sets(struct suite *s)
{
    static const struct link some[] = {{{1}, {1}}, {{2}, {1}}, {{9}, {9}}}, other[] = {{{1}, {2}}};
    struct store_span_set sets[3];
    struct store_spans sums = {0};
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct err e = {0};
    struct asked k;

    APPEND(s, {.value = 1, .trace = 1, .span = 1}, {.value = 2, .trace = 1, .span = 2},
           {.value = 4, .trace = 2, .span = 1}, {.value = 8}, {.value = 16, .trace = 1, .span = 1, .service = "b"},
           {.value = 32, .trace = 2, .span = 2, .stack = "main x"});
    suite_settle(s);
    ok(store_span_set_init(&sets[0], some, 3) == 0 && store_span_set_init(&sets[1], other, 1) == 0 &&
       store_span_set_init(&sets[2], NULL, 0) == 0);
    ok(store_query_by_span(&(struct store_query){.columns[0].spans = &sets[0], .n_columns = 1}));
    ok(!store_query_by_span(&(struct store_query){.columns[0].spans = &sets[0], .n_columns = 2}));
    ask(&k, "cpu", ALL);
    k.q.columns[0].spans = &sets[0];
    eq_int(total_of(s, &k.q), 21);
    eq_int(s->store->ops->spans(s->store, &k.q, &sums, &e), 0);
    eq_int(sums.n, 2);
    eq_int(sums.linked, 21);
    store_spans_done(&sums);
    k.q.columns[0].spans = &sets[2];
    eq_int(total_of(s, &k.q), 0);
    k.q.columns[1] = k.q.columns[0];
    k.q.columns[0].spans = &sets[1];
    k.q.columns[1].spans = &sets[0];
    k.q.n_columns = 2;
    eq_int(s->store->ops->select(s->store, &k.q, &t, &e), 0);
    eq_int(t->total[0][0], 2);
    eq_int(t->total[1][0], 21);
    tree_free(TAKE(t));
    k.q.columns[1].spans = NULL; /* against everything */
    eq_int(s->store->ops->select(s->store, &k.q, &t, &e), 0);
    eq_int(t->total[0][0], 2);
    eq_int(t->total[1][0], 63);
    ask_done(&k);
    for (int i = 0; i < 3; i++)
        store_span_set_done(&sets[i]);
}

static void test_filters(struct suite *s)
{
    struct asked k;
    struct str zoom[] = {STR("main"), STR("a")};

    APPEND(s, {.value = 1, .stack = "main a x"}, {.value = 2, .stack = "main a y"}, {.value = 4, .stack = "main b x"},
           {.value = 8, .stack = "main b"});
    suite_settle(s);
    ask(&k, "cpu", ALL);
    k.q.focus = STR("^x$");
    eq_int(total_of(s, &k.q), 5);
    k.q.ignore = STR("^b$");
    eq_int(total_of(s, &k.q), 1);
    k.q.focus = k.q.ignore = (struct str){0};
    k.q.hide = STR("^a$");
    eq_int(total_of(s, &k.q), 15);
    k.q.hide = (struct str){0};
    k.q.zoom = zoom;
    k.q.n_zoom = 2;
    eq_int(total_of(s, &k.q), 3);
    ask_done(&k);
}

static void test_diff(struct suite *s)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct asked k;

    APPEND(s, {.value = 1, .stack = "main a"}, {.value = 5, .stack = "main b", .time = GEN_T0 + 60 * NS_PER_S},
           {.value = 3, .stack = "main a", .time = GEN_T0 + 60 * NS_PER_S});
    suite_settle(s);
    ask(&k, "cpu", GEN_T0, GEN_T0 + NS_PER_S);
    k.q.n_columns = 2;
    k.q.columns[1] = (struct store_column){&k.sel[0], GEN_T0 + 60 * NS_PER_S, GEN_T0 + 61 * NS_PER_S};
    eq_int(s->store->ops->select(s->store, &k.q, &t, NULL), 0);
    if (t) {
        _cleanup_(buf_done) struct buf out = BUF_INIT;

        dump_tree(&out, t);
        eq_str(buf_str(&out), STR(" 0(1) 0(8)\n"
                                  "/main|:0||+0|0 0(1) 0(8)\n"
                                  "/main|:0||+0|0/a|:0||+0|0 1(1) 3(3)\n"
                                  "/main|:0||+0|0/b|:0||+0|0 0(0) 5(5)\n"));
    }
    ask_done(&k);
}

static void test_prune(struct suite *s)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct asked k;
    struct gen g = {.state = 11, .services = 3, .instances = 1, .stacks = 100, .depth = 12};
    int64_t full;

    for (int i = 0; i < 10; i++) {
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, GEN_T0);

        append(s, b);
    }
    suite_settle(s);
    full = total(s, "cpu", ALL);
    ask(&k, "cpu", ALL);
    k.q.max_nodes = 50;
    eq_int(s->store->ops->select(s->store, &k.q, &t, NULL), 0);
    if (t) {
        uint32_t kept = 0;

        for (uint32_t i = 1; i < t->n_nodes; i++)
            kept += t->frame[i] != TREE_FOLDED;
        ok(kept <= 50 && kept >= 10);
        eq_int(t->total[0][0], full); /* folded parts are exact */
    }
    ask_done(&k);
}

static void test_delete(struct suite *s)
{
    struct asked k;
    struct err e = {0};

    APPEND(s, {.value = 1}, {.value = 2, .service = "b"}, {.value = 4, .service = "b", .time = GEN_T0 + 60 * NS_PER_S},
           {.value = 8, .service = "b", .time = GEN_T0 + 61 * NS_PER_S});
    suite_settle(s);
    ask(&k, "cpu{service.name=\"b\"}", GEN_T0 + 60 * NS_PER_S, GEN_T0 + 61 * NS_PER_S);
    eq_int(s->store->ops->delete (s->store, "", &k.q.columns[0], &e), 0);
    ask_done(&k);
    eq_int(total(s, "cpu", ALL), 11); /* hidden immediately */
    suite_settle(s);
    eq_int(total(s, "cpu", ALL), 11);
    APPEND(s, {.value = 32, .service = "b", .time = GEN_T0 + 60 * NS_PER_S}); /* later data is not affected */
    suite_settle(s);
    eq_int(total(s, "cpu", ALL), 43);
}

static int count_series(void *ctx, const struct type *t, const struct labels *l)
{
    (void) t;
    (void) l;
    ++*(int *) ctx;
    return 0;
}

static int count_one_profile(void *ctx, const struct store_profile *p)
{
    (void) p;
    ++*(int *) ctx;
    return 0;
}

static int count_exported(void *ctx, struct batch *b)
{
    *(int *) ctx += (int) b->n_samples;
    return 0;
}

/* Everything that can be queried about service b, one number each, in one line. */
static void look_everywhere(struct suite *s, struct buf *out)
{
    struct store_series_query sq = {.step = 30 * NS_PER_S};
    struct store_points p = {0};
    struct asked k;
    int series = 0, listed = 0, exported = 0;
    double points = 0;

    s->store->ops->each_series(s->store, &(struct store_range){"", ALL, NULL}, count_series, &series);
    ask(&k, "cpu{service.name=\"b\"}", GEN_T0, GEN_T0 + 600 * NS_PER_S);
    if (s->store->ops->series(s->store, &k.q, &sq, &p, NULL) == 0)
        for (uint32_t i = 0; i < p.n_series * p.n_points; i++)
            points += p.values[i];
    store_points_done(&p);
    s->store->ops->profiles(s->store, &k.q, count_one_profile, &listed, NULL);
    s->store->ops->export(s->store, &k.q, count_exported, &exported, NULL);
    buf_printf(out, "tree %lld points %.0f series %d listed %d exported %d", (long long) total_of(s, &k.q), points,
               series, listed, exported);
    k.q.has_trace = true;
    k.q.trace_id[0] = 5;
    buf_printf(out, " trace %lld", (long long) total_of(s, &k.q));
    ask_done(&k);
    buf_printf(out, " thread %lld all %lld\n", (long long) total(s, "cpu{service.name=\"b\",thread.name=\"io\"}", ALL),
               (long long) total(s, "cpu", ALL));
}

static void delete_from(struct suite *s, const char *selector, int64_t from, int64_t to)
{
    struct asked k;
    struct err e = {0};

    ask(&k, selector, from, to);
    if (s->store->ops->delete (s->store, "", &k.q.columns[0], &e) < 0)
        tap_fail("delete: %s", e.message);
    ask_done(&k);
}

/* Four or more hosts have a sum entry; b's rows are in one window, some deleted and some not. */
static void append_for_deletion(struct suite *s)
{
    static const char *const hosts[] = {"h1", "h2", "h3", "h4", "h5"};

    for (int i = 0; i < 5; i++)
        APPEND(s, {.value = 1, .service = "b", .host = hosts[i], .time = GEN_T0 + i * NS_PER_S},
               {.value = 10,
                .service = "b",
                .host = hosts[i],
                .time = GEN_T0 + (60 + i) * NS_PER_S,
                .trace = 5,
                .span = 1,
                .thread = "io"},
               {.value = 1000, .host = hosts[i], .time = GEN_T0 + i * NS_PER_S});
}

static void check_everywhere(struct suite *s, const char *want)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    look_everywhere(s, &out);
    eq_str(str_trim(buf_str(&out)), str_from(want));
}

static void test_delete_hides(struct suite *s)
{
    append_for_deletion(s);
    suite_settle(s);
    check_everywhere(s, "tree 55 points 55 series 10 listed 10 exported 10 trace 50 thread 50 all 5055");
    delete_from(s, "cpu{service.name=\"b\"}", GEN_T0 + 60 * NS_PER_S, GEN_T0 + 63 * NS_PER_S);
    for (int i = 0; i < 2; i++, suite_settle(s)) /* immediately, and in every state of the data afterwards */
        check_everywhere(s, "tree 25 points 25 series 10 listed 7 exported 7 trace 20 thread 20 all 5025");
    delete_from(s, "cpu{service.name=\"b\",host.name=~\"h[1-3]\"}", ALL);
    for (int i = 0; i < 2; i++, suite_settle(s))
        check_everywhere(s, "tree 22 points 22 series 7 listed 4 exported 4 trace 20 thread 20 all 5022");
    delete_from(s, "wall", ALL); /* nothing */
    delete_from(s, "{service.name=\"b\"}", ALL);
    for (int i = 0; i < 2; i++, suite_settle(s))
        check_everywhere(s, "tree 0 points 0 series 5 listed 0 exported 0 trace 0 thread 0 all 5000");
}

/* Later data is not affected. Deleted data is still known: sent again, it is a duplicate. */
static void test_delete_then_more(struct suite *s)
{
    append_for_deletion(s);
    suite_settle(s);
    delete_from(s, "cpu{service.name=\"b\"}", ALL);
    append_for_deletion(s);
    check_everywhere(s, "tree 0 points 0 series 5 listed 0 exported 0 trace 0 thread 0 all 5000");
    APPEND(s, {.value = 32, .service = "b", .host = "h1", .time = GEN_T0 + 60 * NS_PER_S, .trace = 5});
    for (int i = 0; i < 2; i++, suite_settle(s))
        check_everywhere(s, "tree 32 points 32 series 6 listed 1 exported 1 trace 32 thread 0 all 5032");
    delete_from(s, "cpu{service.name=\"b\"}", ALL);
    APPEND(s, {.value = 64, .service = "b", .host = "h1", .time = GEN_T0 + 60 * NS_PER_S, .trace = 5});
    for (int i = 0; i < 2; i++, suite_settle(s))
        check_everywhere(s, "tree 64 points 64 series 6 listed 1 exported 1 trace 64 thread 0 all 5064");
}

static void test_delete_refuses(struct suite *s)
{
    struct asked k;
    struct err e = {0};

    APPEND(s, {.value = 1, .thread = "io"});
    ask(&k, "cpu{thread.name=\"io\"}", ALL);
    eq_int(s->store->ops->delete (s->store, "", &k.q.columns[0], &e), -EINVAL);
    ok(strstr(e.message, "thread.name") != NULL);
    ask_done(&k);
    ask(&k, "cpu", ALL);
    eq_int(s->store->ops->delete (s->store, "nobody", &k.q.columns[0], &e), 0);
    ask_done(&k);
    eq_int(total(s, "cpu", ALL), 1);
}

static void test_retention(struct suite *s)
{
    struct err e = {0};

    APPEND(s, {.value = 1, .time = GEN_T0 - 6 * 86400 * NS_PER_S}, {.value = 2},
           {.value = 4, .service = "short", .time = GEN_T0 - 43200 * NS_PER_S}, {.value = 8, .service = "short"});
    suite_settle(s);
    eq_int(total(s, "cpu", ALL), 15);
    suite_clock += 25 * 86400 * NS_PER_S;
    eq_int(store_flush(s->store, &e), 0);
    eq_int(s->store->ops->retain(s->store, false, &e), 0);
    suite_settle(s);
    eq_int(total(s, "cpu{service.name=\"a\"}", ALL), 2);
    eq_int(total(s, "cpu{service.name=\"short\"}", ALL), 0);
    suite_clock = GEN_T0;
}

static void test_cumulative(struct suite *s)
{
    struct sink_context ctx = {.tenant = "", .received_ns = suite_clock, .cumulative = true};
    static const int64_t values[] = {1000, 1500, 1500, 300};

    for (int i = 0; i < 4; i++) {
        _cleanup_(batch_unrefp) struct batch *b = simple_batch(
            (struct simple[]){{.type = "alloc_space", .unit = "bytes", .value = values[i], .time = GEN_T0 + i}}, 1);

        append_as(s, b, &ctx, NULL);
    }
    suite_settle(s);
    eq_int(total(s, "alloc", ALL), 500 + 0 + 300); /* the first is the base, the last a reset */
}

static void test_series(struct suite *s)
{
    struct store_series_query sq = {.step = 10 * NS_PER_S};
    struct store_points p = {0};
    struct asked k;

    APPEND(s, {.value = 1}, {.value = 2, .time = GEN_T0 + 9 * NS_PER_S}, {.value = 4, .time = GEN_T0 + 10 * NS_PER_S},
           {.value = 8, .time = GEN_T0 + 25 * NS_PER_S, .stack = "main other"});
    suite_settle(s);
    ask(&k, "cpu", GEN_T0, GEN_T0 + 30 * NS_PER_S);
    eq_int(s->store->ops->series(s->store, &k.q, &sq, &p, NULL), 0);
    eq_int(p.n_series, 1);
    eq_int(p.n_points, 3);
    if (p.n_points == 3 && p.n_series == 1) {
        eq_int(p.values[0], 3);
        eq_int(p.values[1], 4);
        eq_int(p.values[2], 8);
    }
    store_points_done(&p);
    sq.function = STR("work");
    eq_int(s->store->ops->series(s->store, &k.q, &sq, &p, NULL), 0);
    if (p.n_points == 3 && p.n_series == 1) {
        eq_int(p.values[0], 3);
        eq_int(p.values[2], 0);
    }
    store_points_done(&p);
    ask_done(&k);
}

/* However many groups and points a question has, its answer is bounded. */
static void test_series_bounded(struct suite *s)
{
    struct store_series_query sq = {.step = 10 * NS_PER_S, .by = (struct str[]){STR("thread.name")}, .n_by = 1};
    struct store_points p = {0};
    struct err e = {0};
    struct asked k;

    for (int i = 0; i < 100; i++) {
        char name[16];

        snprintf(name, sizeof name, "thread-%d", i);
        APPEND(s, {.value = 1, .thread = name, .time = GEN_T0 + i});
    }
    suite_settle(s);
    ask(&k, "cpu", GEN_T0, GEN_T0 + 10000 * NS_PER_S);
    eq_int(s->store->ops->series(s->store, &k.q, &sq, &p, &e), 0);
    ok(p.n_series == 100 && p.n_points == 1000);
    store_points_done(&p);
    k.q.memory_limit = 99 * 1000 * sizeof(double);
    eq_int(s->store->ops->series(s->store, &k.q, &sq, &p, &e), -E2BIG);
    ok(strstr(e.message, "99 series of 1000 points"));
    k.q.columns[0].to = k.q.columns[0].from - 1;
    eq_int(s->store->ops->series(s->store, &k.q, &sq, &p, &e), -EINVAL);
    ask_done(&k);
}

/* The sum of the points of the series whose first label has this value; -1 when there is no such series. */
static int64_t group_sum(struct suite *s, const char *selector, const char *by, const char *value)
{
    struct str names[2] = {str_from(by), STR("service.name")};
    struct store_series_query sq = {.step = 10 * NS_PER_S, .by = names, .n_by = 2};
    struct store_points p = {0};
    double sum = -1;
    struct asked k;
    struct err e = {0};

    ask(&k, selector, GEN_T0, GEN_T0 + 30 * NS_PER_S);
    if (s->store->ops->series(s->store, &k.q, &sq, &p, &e) < 0)
        tap_fail("series: %s", e.message);
    for (uint32_t i = 0; i < p.n_series; i++)
        if (str_is(p.labels[i].v[0].value, value)) {
            sum = 0;
            for (uint32_t t = 0; t < p.n_points; t++)
                sum += p.values[(size_t) i * p.n_points + t];
        }
    store_points_done(&p);
    ask_done(&k);
    return (int64_t) sum;
}

static void test_groups(struct suite *s)
{
    APPEND(s, {.value = 1, .thread = "io", .pid = 7}, {.value = 2, .thread = "cpu", .pid = 7},
           {.value = 4, .thread = "io", .pid = 8, .time = GEN_T0 + 10 * NS_PER_S}, {.value = 8, .pid = 8},
           {.type = "heap", .unit = "bytes", .value = 100, .thread = "io", .pid = 7},
           {.type = "heap", .unit = "bytes", .value = 60, .thread = "cpu", .pid = 7, .time = GEN_T0 + NS_PER_S});
    suite_settle(s);
    eq_int(group_sum(s, "cpu", "thread.name", "io"), 5);
    eq_int(group_sum(s, "cpu", "thread_name", "cpu"), 2);
    eq_int(group_sum(s, "cpu", "thread.name", ""), 8);
    eq_int(group_sum(s, "cpu", "process.pid", "7"), 3);
    eq_int(group_sum(s, "cpu", "process_pid", "8"), 12);
    eq_int(group_sum(s, "cpu{process.pid=\"8\"}", "thread.name", "io"), 4);
    eq_int(group_sum(s, "heap", "thread.name", "io"), 50); /* in one of the two snapshots of the instance */
    eq_int(group_sum(s, "heap", "thread.name", "cpu"), 30);
}

/* A profile of 1 s of a process: of an agent, with timestamps, or of an SDK, without. */
static void append_process(struct suite *s, bool agent, int64_t time, int64_t value)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    uint64_t times[4];
    int64_t values[4] = {value / 4, value / 4, value / 4, value - value / 4 * 3};
    struct value_type t;
    struct profile *p;

    ok(builder_new(NULL, &b) == 0);
    for (uint64_t i = 0; i < 4; i++)
        times[i] = (uint64_t) (time + (int64_t) i * NS_PER_S / 4);
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("a"));
    builder_resource_attr_str(b, STR("host.name"), STR("web-1"));
    builder_resource_attr_str(b, STR("process.executable.path"), STR("/usr/bin/a"));
    builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = 77});
    if (!agent)
        builder_resource_attr_str(b, STR("telemetry.sdk.name"), STR("other"));
    builder_scope(b, agent ? STR("wick") : STR("other"), STR(""));
    p = builder_profile(b, &t, 1);
    ok(p != NULL);
    p->time_ns = time;
    p->duration_ns = NS_PER_S;
    builder_sample(b, &(struct builder_sample){.stack = simple_stack(b, agent ? "main outside" : "main inside"),
                                               .values = agent ? values : &value,
                                               .n_values = agent ? 4 : 1,
                                               .timestamps = agent ? times : NULL,
                                               .n_timestamps = agent ? 4 : 0});
    ok(builder_finish(b, &batch, NULL) == 0);
    append(s, batch);
}

/* An SDK's profile is counted until the agent's comes: of that, what exceeds it. */
static void test_two_sources(struct suite *s)
{
    int64_t half = NS_PER_S / 2;

    append_process(s, false, GEN_T0, 800);
    append_process(s, true, GEN_T0, 1001); /* all of the 800 are in its time */
    append_process(s, false, GEN_T0 + NS_PER_S, 800);
    append_process(s, true, GEN_T0 + NS_PER_S, 1000);
    suite_settle(s);
    eq_int(total(s, "cpu", ALL), 2001);
    eq_int(total(s, "cpu_also", ALL), 1600);
    eq_int(total(s, "cpu", GEN_T0, GEN_T0 + NS_PER_S), 1001);
    eq_int(total(s, "cpu", GEN_T0 + half, GEN_T0 + 2 * NS_PER_S), 1000);
}

static void test_list(struct suite *s)
{
    int n = 0;

    APPEND(s, {.value = 1}, {.value = 1, .service = "b", .time = GEN_T0 - 3600 * NS_PER_S},
           {.value = 2, .type = "wall"});
    suite_settle(s);
    eq_int(s->store->ops->each_series(s->store, &(struct store_range){"", ALL, NULL}, count_series, &n), 0);
    eq_int(n, 3);
    n = 0;
    eq_int(s->store->ops->each_series(s->store, &(struct store_range){"", GEN_T0, GEN_T0 + 1, NULL}, count_series, &n),
           0);
    eq_int(n, 2);
    n = 0;
    eq_int(s->store->ops->each_series(s->store, &(struct store_range){"nobody", ALL, NULL}, count_series, &n), 0);
    eq_int(n, 0);
}

struct biggest {
    struct id128 handle;
    int64_t value;
};

static int find_biggest(void *ctx, const struct store_profile *p)
{
    struct biggest *b = ctx;

    if (p->value > b->value)
        *b = (struct biggest){p->handle, p->value};
    return 0;
}

/* The times and the numbers of samples of all profiles, added up in a way that tells profiles apart. */
struct listed_sum {
    uint64_t times, samples, profiles;
};

static int add_listed(void *ctx, const struct store_profile *p)
{
    struct listed_sum *x = ctx;

    x->times += (uint64_t) (p->time_ns - GEN_T0) * 3 + (uint64_t) p->duration_ns;
    x->samples += p->n_samples * (uint64_t) (p->time_ns - GEN_T0 + 1);
    x->profiles++;
    return 0;
}

/* A list without numbers of samples first, which must not spoil one with them; and each list twice, from a cache. */
static void test_lists_again(struct suite *s)
{
    struct asked k;

    for (int i = 0; i < 20; i++)
        APPEND(s, {.value = i + 1, .time = GEN_T0 + i * NS_PER_S, .stack = "main"},
               {.value = 1, .time = GEN_T0 + i * NS_PER_S, .stack = "main deep"});
    suite_settle(s);
    ask(&k, "cpu", ALL);
    for (int i = 0; i < 4; i++) {
        struct listed_sum x = {0};

        k.q.times_only = i % 2 == 0;
        eq_int(s->store->ops->profiles(s->store, &k.q, add_listed, &x, NULL), 0);
        eq_int(x.profiles, 40);
        eq_int(x.times, 2 * 3 * 190 * NS_PER_S + x.profiles * NS_PER_S);
        if (!k.q.times_only)
            eq_int(x.samples, 40 + 2 * 190 * NS_PER_S);
    }
    ask_done(&k);
}

/* The profile that causes a spike: found in the list, then queried alone. */
static void test_profiles(struct suite *s)
{
    struct biggest big = {0};
    struct asked k;

    for (int i = 0; i < 20; i++)
        APPEND(
            s,
            {.value = i == 13 ? 1000 : i + 1, .time = GEN_T0 + i * NS_PER_S, .stack = i == 13 ? "main spike" : "main"});
    suite_settle(s);
    ask(&k, "cpu", ALL);
    eq_int(s->store->ops->profiles(s->store, &k.q, find_biggest, &big, NULL), 0);
    eq_int(big.value, 1000);
    k.q.has_profile = true;
    k.q.profile = big.handle;
    eq_int(total_of(s, &k.q), 1000);
    ask_done(&k);
}

void store_conformance(struct suite *s)
{
    static const struct {
        const char *name;
        void (*run)(struct suite *);
    } tests[] = {
        {"adds up", test_add},
        {"time ranges", test_time},
        {"lists of profiles, again", test_lists_again},
        {"late data", test_late},
        {"deduplicates", test_dedup},
        {"tenants", test_tenants},
        {"gauges", test_gauge},
        {"gauges of two sources", test_gauge_of_two_sources},
        {"labels", test_labels},
        {"groups", test_groups},
        {"traces and spans", test_links},
        {"sets of spans", test_span_sets},
        {"filters", test_filters},
        {"diff", test_diff},
        {"pruning", test_prune},
        {"delete", test_delete},
        {"delete hides from every answer", test_delete_hides},
        {"delete means what came before", test_delete_then_more},
        {"delete refuses", test_delete_refuses},
        {"retention", test_retention},
        {"cumulative", test_cumulative},
        {"series", test_series},
        {"series bounded", test_series_bounded},
        {"two sources of a process", test_two_sources},
        {"lists", test_list},
        {"single profiles", test_profiles},
    };

    s->neighbour = true;
    s->config.now = suite_now;
    s->config.services[0].service = "short";
    s->config.services[0].keep = 86400 * NS_PER_S;
    s->config.n_services = 1;
    for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
        char name[64];

        open_suite(s);
        if (s->store)
            tests[i].run(s);
        store_close(s->store);
        s->store = NULL;
        snprintf(name, sizeof name, "%s, settled %d", tests[i].name, s->settle);
        tap_end(name);
        if (s->after)
            s->after(s);
    }
}
