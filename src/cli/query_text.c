/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the JSON of an answer as text (query_text.h). It reads the JSON once, in the order in which query_json.c and
 * tree_form.c write it. */
#include "cli/query_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/types.h"

enum { TREE_LINES_MAX = 200 };

struct page {
    struct json json;
    struct arena arena;
    struct buf *out;
    int width;
    struct type type; /* type of the values: set by "type" and "unit" */
    double total[2];
    double covered[2]; /* nanoseconds; 0: not known */
    int n_columns;
};

static void put_value(struct page *p, double v)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (v < 0)
        buf_putc(&b, '-');
    type_format(&b, &p->type, fabs(v), false);
    buf_printf(p->out, "%10.*s", STR_FMT(buf_str(&b)));
}

/* A string's text, padded on the right to width. */
static void put_padded(struct page *p, struct str s, int width)
{
    buf_printf(p->out, "%-*.*s", width, STR_FMT(s));
}

static void put_share(struct page *p, double v, double whole)
{
    buf_printf(p->out, " %6.2f%%", whole != 0 ? 100 * v / whole : 0.0);
}

/* Ends a line, cut to the terminal's width. */
static void end_line(struct page *p, size_t start)
{
    if (p->width > 0 && p->out->n - start > (size_t) p->width)
        p->out->n = start + (size_t) p->width;
    buf_putc(p->out, '\n');
}

/* A number, or a pair of them for a diff. */
static void read_pair(struct page *p, double v[2])
{
    int i = 0;

    v[0] = v[1] = 0;
    if (json_peek(&p->json) != JSON_ARRAY) {
        v[0] = json_double(&p->json);
        return;
    }
    p->n_columns = 2;
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        double d = json_double(&p->json);

        if (i < 2)
            v[i++] = d;
    }
}

static void put_note(struct page *p)
{
    struct str key, damage = {0};
    int64_t damaged = 0;
    bool coarse = false;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "damaged"))
            damaged = json_i64(&p->json);
        else if (str_is(key, "damage"))
            damage = json_str(&p->json);
        else if (str_is(key, "coarse"))
            coarse = json_bool(&p->json);
        else
            json_skip(&p->json);
    }
    if (damaged)
        buf_printf(p->out, "warning: %lld damaged pieces are missing from this answer (%.*s); run 'wick store check'\n",
                   (long long) damaged, STR_FMT(damage));
    if (coarse)
        buf_puts(p->out, "note: part of the range has no detail any more; its edges are rounded to five minutes\n");
}

/* type, unit, total and other keys that every answer starts with; returns false for keys of a particular answer. */
static bool read_common(struct page *p, struct str key)
{
    if (str_is(key, "type"))
        type_by_name(json_str(&p->json), &p->type);
    else if (str_is(key, "unit"))
        p->type.unit = json_str(&p->json);
    else if (str_is(key, "total"))
        read_pair(p, p->total);
    else if (str_is(key, "coverage") && json_peek(&p->json) == JSON_NUMBER)
        p->covered[0] = json_double(&p->json);
    else if (str_is(key, "coverage"))
        read_pair(p, p->covered);
    else if (str_is(key, "notes"))
        put_note(p);
    else
        return false;
    return true;
}

/* --- tables --- */

struct row {
    struct str name, file;
    int64_t line;
    double self[2], total[2];
};

static struct row read_row(struct page *p)
{
    struct row r = {0};
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
            read_pair(p, r.self);
        else if (str_is(key, "total"))
            read_pair(p, r.total);
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
        buf_printf(p->out, "values are per covered second: %.1f s of base, %.1f s of new\n", seconds,
                   p->covered[1] / (double) NS_PER_S);
    else if (p->n_columns < 2 && seconds > 0 && p->type.rule == TYPE_DELTA && str_is(p->type.name, "cpu"))
        buf_printf(p->out, "%.3g s in %.1f covered s: %.3g cores\n", p->total[0] / (double) NS_PER_S, seconds,
                   p->total[0] / p->covered[0]);
}

static void put_row(struct page *p, const struct row *r)
{
    double base = r->self[0] * per_second(p, 0), new = r->self[1] * per_second(p, 1);
    size_t start = p->out->n;

    if (p->n_columns == 2) {
        put_value(p, base);
        put_value(p, new);
        put_value(p, new - base);
        put_share(p, (p->total[1] ? r->self[1] / p->total[1] : 0) - (p->total[0] ? r->self[0] / p->total[0] : 0), 1);
    } else {
        put_value(p, r->self[0]);
        put_share(p, r->self[0], p->total[0]);
        put_value(p, r->total[0]);
        put_share(p, r->total[0], p->total[0]);
    }
    buf_printf(p->out, "  %.*s", STR_FMT(r->name));
    if (r->file.n && r->line)
        buf_printf(p->out, "  %.*s:%lld", STR_FMT(r->file), (long long) r->line);
    end_line(p, start);
}

static void table(struct page *p)
{
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (read_common(p, key))
            continue;
        if (!str_is(key, "rows")) {
            json_skip(&p->json);
            continue;
        }
        if (p->n_columns == 2)
            buf_printf(p->out, "%10s%10s%10s %7s  %s\n", "base", "new", "change", "points", "self of");
        else
            buf_printf(p->out, "%10s %7s%10s %7s  %s\n", "self", "", "total", "", "of");
        json_begin_array(&p->json);
        while (json_next_item(&p->json)) {
            struct row r = read_row(p);

            put_row(p, &r);
        }
    }
    put_covered(p);
}

/* --- trees --- */

struct node {
    int64_t parent, frame;
    double self[2], total[2], folded;
    uint32_t depth, first_child, next;
};

struct forest {
    struct str *names;
    struct node *nodes;
    size_t n_names, n_nodes, cap_names, cap_nodes;
};

static void read_frames(struct page *p, struct forest *f)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str key, name = {0}, mapping = {0}, address = {0};

        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key)) {
            if (str_is(key, "function"))
                name = json_str(&p->json);
            else if (str_is(key, "mapping"))
                mapping = json_str(&p->json);
            else if (str_is(key, "address"))
                address = json_str(&p->json);
            else
                json_skip(&p->json);
        }
        if (!name.n && (mapping.n || address.n))
            name = str_from(arena_printf(&p->arena, "%.*s+%.*s", STR_FMT(mapping), STR_FMT(address)));
        if (array_push(f->names, f->n_names, f->cap_names, UINT32_MAX, name) < 0) {
            p->json.err = -ENOMEM;
            return;
        }
    }
}

static struct node read_node(struct page *p)
{
    struct node n = {0};
    double v[8] = {0};
    int i = 0, values = 2 * MAX(p->n_columns, 1);

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        double d = json_double(&p->json);

        if (i < 8)
            v[i++] = d;
    }
    n.parent = (int64_t) v[0];
    n.frame = (int64_t) v[1];
    for (int c = 0; c < values / 2; c++) {
        n.self[c] = v[2 + 2 * c];
        n.total[c] = v[3 + 2 * c];
    }
    n.folded = i > 2 + values ? v[2 + values] : 0;
    return n;
}

static void read_nodes(struct page *p, struct forest *f)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        if (array_push(f->nodes, f->n_nodes, f->cap_nodes, UINT32_MAX, read_node(p)) < 0) {
            p->json.err = -ENOMEM;
            return;
        }
    }
}

/* Orders children by their number; answers with nodes that point out of range are refused. */
static int link_nodes(struct forest *f)
{
    for (size_t i = f->n_nodes; i-- > 1;) {
        struct node *n = &f->nodes[i];

        if (n->parent < 0 || (size_t) n->parent >= i || n->frame < 0 || (size_t) n->frame >= f->n_names)
            return -EINVAL;
        n->next = f->nodes[n->parent].first_child;
        f->nodes[n->parent].first_child = (uint32_t) i;
    }
    for (size_t i = 1; i < f->n_nodes; i++)
        f->nodes[i].depth = f->nodes[f->nodes[i].parent].depth + 1;
    return 0;
}

static void put_node(struct page *p, const struct forest *f, const struct node *n)
{
    const struct node *root = &f->nodes[0];
    size_t start = p->out->n;
    int last = p->n_columns == 2;

    if (last)
        put_value(p, n->total[0]);
    put_value(p, n->total[last]);
    put_share(p, n->total[last], root->total[last]);
    buf_printf(p->out, "  %*s", (int) MIN(n->depth - 1, 60u) * 2, "");
    if (n->folded > 0)
        buf_printf(p->out, "(%.0f smaller)", n->folded);
    else
        buf_put_str(p->out, f->names[n->frame]);
    end_line(p, start);
}

/* Depth first, each level's children by weight, until the page is full. */
static int by_weight(const void *a, const void *b, void *arg)
{
    const struct forest *f = arg;
    const struct node *x = &f->nodes[*(const uint32_t *) a], *y = &f->nodes[*(const uint32_t *) b];
    double wx = MAX(x->total[0], x->total[1]), wy = MAX(y->total[0], y->total[1]);

    return wx != wy ? (wx < wy ? 1 : -1) : (x > y) - (x < y);
}

static int print_tree(struct page *p, struct forest *f)
{
    _cleanup_(mem_freep) uint32_t *stack = mem_zalloc_array(f->n_nodes + 1, sizeof *stack);
    size_t n = 0, lines = 0;

    if (!stack)
        return -ENOMEM;
    stack[n++] = 0;
    while (n && lines < TREE_LINES_MAX) {
        uint32_t i = stack[--n], k = 0;

        if (i) {
            put_node(p, f, &f->nodes[i]);
            lines++;
        }
        for (uint32_t c = f->nodes[i].first_child; c; c = f->nodes[c].next)
            stack[n + k++] = c;
        qsort_r(stack + n, k, sizeof *stack, by_weight, f);
        for (uint32_t a = 0; a < k / 2; a++) { /* the heaviest is popped first */
            uint32_t t = stack[n + a];

            stack[n + a] = stack[n + k - 1 - a];
            stack[n + k - 1 - a] = t;
        }
        n += k;
    }
    if (n)
        buf_printf(p->out, "… %zu more nodes; narrow with --focus or --zoom, or write -o FILE.html\n",
                   f->n_nodes - 1 - lines);
    return 0;
}

static int tree(struct page *p)
{
    struct forest f = {0};
    struct str key;
    int r = 0;

    p->n_columns = 1;
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "columns"))
            p->n_columns = (int) json_i64(&p->json);
        else if (str_is(key, "frames"))
            read_frames(p, &f);
        else if (str_is(key, "nodes"))
            read_nodes(p, &f);
        else if (!read_common(p, key))
            json_skip(&p->json);
    }
    if (!p->json.err && f.n_nodes)
        r = link_nodes(&f);
    if (r == 0 && !p->json.err && f.n_nodes)
        r = print_tree(p, &f);
    mem_free(f.names);
    mem_free(f.nodes);
    return r;
}

static int sandwich(struct page *p)
{
    struct str key;
    int r = 0;

    json_begin_object(&p->json);
    while (r == 0 && json_next_key(&p->json, &key)) {
        buf_printf(p->out, "%.*s\n", STR_FMT(key));
        r = tree(p);
    }
    return r;
}

/* --- lists --- */

static void put_line(struct page *p, struct str s)
{
    buf_put_str(p->out, s);
    buf_putc(p->out, '\n');
}

static void names(struct page *p)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json))
        put_line(p, json_str(&p->json));
}

/* ["a","b"] -> a,b */
static void put_joined(struct page *p)
{
    bool first = true;

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        json_sep(p->out, &first);
        buf_put_str(p->out, json_str(&p->json));
    }
}

static void services(struct page *p)
{
    struct str key;

    buf_printf(p->out, "%-32s %s\n", "SERVICE", "TYPES  VERSIONS");
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        size_t start = p->out->n;

        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key)) {
            if (str_is(key, "name")) {
                put_padded(p, json_str(&p->json), 32);
            } else {
                buf_puts(p->out, str_is(key, "types") ? " " : "  ");
                put_joined(p);
            }
        }
        end_line(p, start);
    }
}

static void types(struct page *p)
{
    struct str key;

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key))
            put_padded(p, json_str(&p->json), 15);
        buf_putc(p->out, '\n');
    }
}

static void profile(struct page *p)
{
    struct str key, handle = {0}, labels = {0};
    int64_t time = 0, samples = 0;
    double value = 0;
    size_t start = p->out->n;

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
            labels = json_raw(&p->json);
        else
            json_skip(&p->json);
    }
    clock_format(p->out, time / NS_PER_MS * NS_PER_MS);
    put_value(p, value);
    buf_printf(p->out, " %8lld  %.*s  %.*s", (long long) samples, STR_FMT(handle), STR_FMT(labels));
    end_line(p, start);
}

static void profiles(struct page *p)
{
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "profiles")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                profile(p);
        } else if (!read_common(p, key)) {
            json_skip(&p->json);
        }
    }
}

static void span(struct page *p)
{
    struct str key, trace = {0}, id = {0}, service = {0};
    int64_t from = 0, samples = 0;
    double value = 0;
    size_t start = p->out->n;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "traceId"))
            trace = json_str(&p->json);
        else if (str_is(key, "spanId"))
            id = json_str(&p->json);
        else if (str_is(key, "service"))
            service = json_str(&p->json);
        else if (str_is(key, "from"))
            from = json_i64(&p->json);
        else if (str_is(key, "value"))
            value = json_double(&p->json);
        else if (str_is(key, "samples"))
            samples = json_i64(&p->json);
        else
            json_skip(&p->json);
    }
    clock_format(p->out, from / NS_PER_MS * NS_PER_MS);
    put_value(p, value);
    buf_printf(p->out, " %8lld  %.*s  %.*s  %.*s", (long long) samples, STR_FMT(trace), STR_FMT(id), STR_FMT(service));
    end_line(p, start);
}

static void spans(struct page *p)
{
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "spans")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                span(p);
        } else if (!read_common(p, key)) {
            json_skip(&p->json);
        }
    }
}

static void one_series(struct page *p, int64_t from, int64_t step)
{
    struct str key;
    int64_t i = 0;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "labels")) {
            put_line(p, json_raw(&p->json));
            continue;
        }
        json_begin_array(&p->json);
        for (; json_next_item(&p->json); i++) {
            buf_puts(p->out, "  ");
            clock_format(p->out, from + i * step);
            put_value(p, json_double(&p->json));
            buf_putc(p->out, '\n');
        }
    }
}

static void series(struct page *p)
{
    int64_t from = 0, step = 0;
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "from"))
            from = json_i64(&p->json);
        else if (str_is(key, "step"))
            step = json_i64(&p->json);
        else if (str_is(key, "coverage")) /* one number for each point */
            json_skip(&p->json);
        else if (str_is(key, "series")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                one_series(p, from, step);
        } else if (!read_common(p, key)) {
            json_skip(&p->json);
        }
    }
}

static void leak(struct page *p)
{
    struct str key, stack = {0};
    double slope = 0, fit = 0;
    size_t start = p->out->n;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "stack"))
            stack = json_raw(&p->json);
        else if (str_is(key, "slopePerHour"))
            slope = json_double(&p->json);
        else if (str_is(key, "fit"))
            fit = json_double(&p->json);
        else
            json_skip(&p->json);
    }
    put_value(p, slope);
    buf_printf(p->out, "/h  fit %.2f  %.*s", fit, STR_FMT(stack));
    end_line(p, start);
}

static void leaks(struct page *p)
{
    struct str key;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "leaks")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                leak(p);
        } else if (!read_common(p, key)) {
            json_skip(&p->json);
        }
    }
}

int query_text(struct str what, struct str json, int width, struct buf *out, struct err *e)
{
    static const struct {
        const char *name;
        void (*print)(struct page *p);
    } pages[] = {
        {"top", table},         {"lines", table},   {"labels", names}, {"services", services}, {"types", types},
        {"profiles", profiles}, {"series", series}, {"leaks", leaks},  {"spans", spans},
    };
    struct page p = {.out = out, .width = width};
    int r = 0;

    arena_init(&p.arena, 0);
    json_init(&p.json, json, &p.arena);
    if (str_is(what, "flame"))
        r = tree(&p);
    else if (str_is(what, "callers"))
        r = sandwich(&p);
    for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
        if (str_is(what, pages[i].name))
            pages[i].print(&p);
    if (p.json.err)
        r = json_error(&p.json, e);
    else if (r < 0)
        r = err_set(e, r, "the answer cannot be read: %m");
    arena_done(&p.arena);
    return r;
}
