/* SPDX-License-Identifier: Apache-2.0 */
/* -tags: the sums of each label key, value by value. See report.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "report/report.h"
#include "report/tabwriter.h"

struct tag_sum {
    uint32_t key, value; /* strings; value UINT32_MAX = the key's own line */
    int64_t sum;
};

struct tag_sums {
    struct report *r;
    struct tag_sum *v;
    size_t n, cap;
    struct map map;
};

static int add_sum(struct tag_sums *t, uint32_t key, uint32_t value, int64_t v)
{
    uint64_t h = hash64_u64(((uint64_t) key << 32) | value);

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (t->v[p.index].key == key && t->v[p.index].value == value) {
            wrap_inc(&t->v[p.index].sum, v);
            return 0;
        }
    if (array_reserve(t->v, t->cap, t->n + 1, 1u << 28) < 0 || map_insert(&t->map, h, (uint32_t) t->n) < 0)
        return -ENOMEM;
    t->v[t->n++] = (struct tag_sum){key, value, v};
    return 0;
}

static int add_sample(struct tag_sums *t, const struct prof_sample *s)
{
    const struct prof *p = t->r->prof;
    const struct prof_labels *set = &p->label_sets[s->labels];
    int64_t v = p->values[s->values + t->r->o.value];

    for (uint32_t i = 0; i < set->n_str + set->n_num; i++) {
        const struct prof_label *l = &p->labels[set->off + i];
        uint32_t value = l->str;

        if (i >= set->n_str) {
            _cleanup_(buf_done) struct buf text = BUF_INIT;

            units_label(&text, l->num, label_unit(p, &t->r->units, l->key), t->r->o.output_unit);
            value = strtab_copy(&p->pool->strings, buf_str(&text));
        }
        if (add_sum(t, l->key, value, v) < 0 || add_sum(t, l->key, UINT32_MAX, v) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* By key; its own line first, then values by size. */
static int compare_sums(const void *a, const void *b, void *pool)
{
    const struct tag_sum *x = a, *y = b;
    const struct strtab *t = pool;

    if (x->key != y->key)
        return str_cmp(strtab_get(t, x->key), strtab_get(t, y->key));
    if ((x->value == UINT32_MAX) != (y->value == UINT32_MAX))
        return x->value == UINT32_MAX ? -1 : 1;
    if (x->sum != y->sum && wrap_abs(x->sum) != wrap_abs(y->sum))
        return wrap_abs(x->sum) > wrap_abs(y->sum) ? -1 : 1;
    if (x->sum != y->sum) /* pprof does not define the order of equal sums */
        return x->sum > y->sum ? -1 : 1;
    return str_cmp(strtab_get(t, x->value), strtab_get(t, y->value));
}

static void put_sum(const struct tag_sums *t, struct buf *out, const struct tag_sum *s)
{
    const struct report *r = t->r;
    bool key = s->value == UINT32_MAX;

    if (key)
        report_put_text(r->prof, out, "", s->key, ":\t Total ");
    else
        buf_puts(out, " \t");
    report_value(r, out, s->sum);
    if (key) {
        buf_puts(out, " of ");
        report_value(r, out, r->total);
    }
    if (r->total > 0) {
        buf_puts(out, " (");
        units_percentage(out, s->sum, r->total);
        buf_putc(out, ')');
    }
    if (!key)
        report_put_text(r->prof, out, ":\t ", s->value, "");
    buf_putc(out, '\n');
}

int report_tags(struct report *r, struct buf *out)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct tag_sums t = {.r = r};
    int e = 0;

    for (size_t i = 0; e >= 0 && i < r->prof->n_samples; i++)
        e = add_sample(&t, &r->prof->samples[i]);
    if (t.n)
        qsort_r(t.v, t.n, sizeof(*t.v), compare_sums, &r->prof->pool->strings);
    for (size_t i = 0; i < t.n; i++) {
        put_sum(&t, &text, &t.v[i]);
        if (i + 1 == t.n || t.v[i + 1].key != t.v[i].key)
            buf_putc(&text, '\n');
    }
    mem_free(t.v);
    map_done(&t.map);
    return e < 0 ? e : tabwriter_format(buf_str(&text), out);
}
