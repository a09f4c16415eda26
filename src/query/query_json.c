/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers of query.h as JSON; see query_json.h. */
#include "query/query_json.h"

#include "base/json.h"
#include "query/tree_form.h"

static void put_names(struct buf *out, const struct str *v, uint32_t n)
{
    bool first = true;

    buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        json_sep(out, &first);
        json_put_str(out, v[i]);
    }
    buf_putc(out, ']');
}

static void put_pair(struct buf *out, bool *first, const char *key, const int64_t *v, uint32_t n_columns)
{
    json_put_key(out, first, key);
    if (n_columns == 1) {
        json_put_i64(out, v[0]);
        return;
    }
    buf_putc(out, '[');
    json_put_i64(out, v[0]);
    buf_putc(out, ',');
    json_put_i64(out, v[1]);
    buf_putc(out, ']');
}

void query_notes_json(struct buf *out, const struct store_notes *n)
{
    if (!n || (!n->coarse && !n->damaged && !n->also && !n->hidden[0]))
        return;
    buf_printf(out, ",\"notes\":{\"coarse\":%s,\"damaged\":%u", n->coarse ? "true" : "false", n->damaged);
    if (n->also)
        buf_puts(out, ",\"also\":true");
    if (n->hidden[0]) {
        buf_puts(out, ",\"hidden\":");
        json_put_str(out, str_from(n->hidden));
    }
    if (n->damaged) {
        buf_puts(out, ",\"damage\":");
        json_put_str(out, str_from(n->damage));
    }
    buf_putc(out, '}');
}

void query_callers_json(struct buf *out, const struct store_callers *c)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key(out, &first, "callers");
    tree_to_json(out, c->callers);
    json_put_key(out, &first, "callees");
    tree_to_json(out, c->callees);
    put_pair(out, &first, "total", c->sum, c->callers->n_columns);
    buf_putc(out, '}');
}

static void put_row(struct buf *out, const struct query_row *r, uint32_t n_columns)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "name", r->name);
    if (r->file.n)
        json_put_key_str(out, &first, "file", r->file);
    if (r->line) {
        json_put_key_i64(out, &first, "line", r->line);
    }
    if (r->kind)
        json_put_key_str(out, &first, "kind", str_from(frame_kind_name(r->kind)));
    put_pair(out, &first, "self", r->self, n_columns);
    put_pair(out, &first, "total", r->total, n_columns);
    buf_putc(out, '}');
}

void query_table_json(struct buf *out, const struct query_table *t, const struct store_notes *n)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", t->type);
    json_put_key_str(out, &first, "unit", t->unit);
    put_pair(out, &first, "total", t->total, t->n_columns);
    put_pair(out, &first, "coverage", t->covered_ns, t->n_columns);
    json_put_key_u64(out, &first, "count", t->n_all);
    json_put_key(out, &first, "rows");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < t->n; i++) {
        if (i)
            buf_putc(out, ',');
        put_row(out, &t->rows[i], t->n_columns);
    }
    buf_putc(out, ']');
    query_notes_json(out, n);
    buf_putc(out, '}');
}

void query_rate_json(struct buf *out, const struct store_notes *n)
{
    if (n->rate_min && n->rate_min == n->rate_max)
        buf_printf(out, ",\"rate\":%u", n->rate_min);
    else if (n->rate_min)
        buf_printf(out, ",\"rate\":[%u,%u],\"meanRate\":%.4g", n->rate_min, n->rate_max, n->rate_mean);
}

void query_coverage_json(struct buf *out, const int64_t *covered, uint32_t n_columns)
{
    bool first = true;

    buf_putc(out, '{');
    put_pair(out, &first, "coverage", covered, n_columns);
    buf_putc(out, '}');
}

void query_names_json(struct buf *out, const struct query_names *n)
{
    put_names(out, n->v, n->n);
}

void query_label_names_json(struct buf *out, const struct query_names *n)
{
    buf_putc(out, '[');
    for (uint32_t i = 0; i < n->n; i++) {
        bool first = true;

        buf_puts(out, i ? ",{" : "{");
        json_put_key_str(out, &first, "name", n->v[i]);
        json_put_key(out, &first, "slow");
        buf_puts(out, n->slow[i] ? "true}" : "false}");
    }
    buf_putc(out, ']');
}

void query_services_json(struct buf *out, const struct query_services *l)
{
    buf_putc(out, '[');
    for (uint32_t i = 0; i < l->n; i++) {
        bool first = true;

        buf_puts(out, i ? ",{" : "{");
        json_put_key_str(out, &first, "name", l->v[i].name);
        json_put_key(out, &first, "types");
        put_names(out, l->v[i].types, l->v[i].n_types);
        json_put_key(out, &first, "versions");
        put_names(out, l->v[i].versions, l->v[i].n_versions);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

void query_labels_json(struct buf *out, const struct labels *l)
{
    bool first = true;

    buf_putc(out, '{');
    for (uint32_t i = 0; i < l->n; i++) {
        json_sep(out, &first);
        json_put_str(out, l->v[i].name);
        buf_putc(out, ':');
        json_put_str(out, l->v[i].value);
    }
    buf_putc(out, '}');
}

void query_profiles_json(struct buf *out, const struct query_profiles *l)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", l->type.name);
    json_put_key_str(out, &first, "unit", l->type.unit);
    json_put_key_u64(out, &first, "count", l->n_all);
    buf_puts(out, ",\"profiles\":[");
    for (uint32_t i = 0; i < l->n; i++) {
        const struct query_profile *p = &l->v[i];
        bool inner = true;

        buf_puts(out, i ? ",{" : "{");
        json_put_key(out, &inner, "handle");
        buf_printf(out, "\"%016llx%016llx\"", (unsigned long long) p->handle.hi, (unsigned long long) p->handle.lo);
        json_put_key_ns(out, &inner, "time", p->time_ns);
        json_put_key_ns(out, &inner, "duration", p->duration_ns);
        json_put_key_i64(out, &inner, "value", p->value);
        json_put_key_u64(out, &inner, "samples", p->n_samples);
        json_put_key(out, &inner, "labels");
        query_labels_json(out, &p->labels);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}");
}

static void put_numbers(struct buf *out, const char *key, const int64_t *v, uint32_t n)
{
    buf_printf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            buf_putc(out, ',');
        json_put_i64(out, v[i]);
    }
    buf_putc(out, ']');
}

void query_points_json(struct buf *out, const struct store_points *p, const int64_t *covered, const int64_t *each,
                       const struct store_notes *n)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", p->type.name);
    json_put_key_str(out, &first, "unit", p->type.unit);
    json_put_key_ns(out, &first, "from", p->from);
    json_put_key_ns(out, &first, "step", p->step);
    put_numbers(out, "coverage", covered, p->n_points);
    buf_puts(out, ",\"series\":[");
    for (uint32_t i = 0; i < p->n_series; i++) {
        buf_puts(out, i ? ",{\"labels\":" : "{\"labels\":");
        query_labels_json(out, &p->labels[i]);
        buf_puts(out, ",\"values\":[");
        for (uint32_t k = 0; k < p->n_points; k++) {
            if (k)
                buf_putc(out, ',');
            json_put_double(out, p->values[(size_t) i * p->n_points + k]);
        }
        buf_putc(out, ']');
        put_numbers(out, "coverage", each + (size_t) i * p->n_points, p->n_points);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    query_notes_json(out, n);
    buf_putc(out, '}');
}

/* Prints the names from the root down to the node. */
static void put_path(struct buf *out, const struct tree *t, uint32_t node)
{
    uint32_t path[512], n = 0;

    for (; node && node != TREE_NONE && n < ARRAY_SIZE(path); node = t->parent[node])
        path[n++] = node;
    buf_putc(out, '[');
    for (uint32_t i = n; i-- > 0;) {
        json_put_str(out, t->frames[t->frame[path[i]]].function);
        if (i)
            buf_putc(out, ',');
    }
    buf_putc(out, ']');
}

static void put_leak(struct buf *out, const struct query_leaks *l, const struct query_leak *x)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key(out, &first, "stack");
    put_path(out, l->tree, x->node);
    json_put_key_double(out, &first, "slopePerHour", x->slope);
    json_put_key_double(out, &first, "fit", x->fit);
    buf_puts(out, ",\"values\":[");
    for (int k = 0; k < QUERY_LEAK_WINDOWS; k++) {
        if (k)
            buf_putc(out, ',');
        json_put_double(out, x->values[k]);
    }
    buf_puts(out, "]}");
}

void query_leaks_json(struct buf *out, const struct query_leaks *l, const struct store_notes *n)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", l->tree->type);
    json_put_key_str(out, &first, "unit", l->tree->unit);
    json_put_key_ns(out, &first, "window", l->window_ns);
    buf_puts(out, ",\"leaks\":[");
    for (uint32_t i = 0; i < l->n; i++) {
        if (i)
            buf_putc(out, ',');
        put_leak(out, l, &l->rows[i]);
    }
    buf_putc(out, ']');
    query_notes_json(out, n);
    buf_putc(out, '}');
}
