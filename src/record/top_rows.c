/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the samples of a batch by function or by process (top_rows.h). */
#include "record/top_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/regex.h"
#include "base/unnamed.h"
#include "model/batch.h"
#include "model/semconv.h"

enum { ROWS_MAX = 1 << 20, NAMES_MAX = 16 << 20 };

struct row_adding {
    struct top_rows *rows;
    const struct batch *b;
    const struct top_view *view;
    struct str service;
    int64_t pid;
};

static bool is_same(const struct top_row *r, const struct row_adding *a, struct str function, struct str thread)
{
    return (r->pid == a->pid || !a->view->processes) && str_eq(r->function, function) &&
           str_eq(r->service, a->service) && str_eq(r->thread, thread);
}

static struct top_row *row_of(struct row_adding *a, struct str function, struct str thread)
{
    struct top_rows *t = a->rows;
    uint64_t h = hash64_str(function) ^ hash64_str(a->service) * 3 ^ hash64_str(thread) * 5;

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p)) {
        struct top_row *r = &t->v[p.index];

        if (!is_same(r, a, function, thread))
            continue;
        if (r->last_pid != a->pid) { /* a batch has the samples of a process one after the other */
            r->pid = 0;
            r->last_pid = a->pid;
            r->processes++;
        }
        return r;
    }
    if (map_insert(&t->map, h, (uint32_t) t->n) < 0 || array_push(t->v, t->n, t->cap, ROWS_MAX,
                                                                  (struct top_row){.function = function,
                                                                                   .service = a->service,
                                                                                   .thread = thread,
                                                                                   .pid = a->pid,
                                                                                   .last_pid = a->pid,
                                                                                   .processes = 1}) < 0)
        return NULL;
    return &t->v[t->n - 1];
}

/* A location without names is called by the file it is in, in brackets, as pprof's reports do. */
static struct str name_of_file(struct row_adding *a, const struct location *l)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str text;

    unnamed_put(&b, batch_string(a->b, a->b->dict.mappings[l->mapping].filename), 0);
    text = buf_error(&b) ? (struct str){0} : arena_str(&a->rows->names, buf_str(&b));
    return text.n ? text : STR("[unknown]");
}

static bool is_kernel(const struct batch *b, const struct location *l)
{
    const struct attr *type = batch_attr(b, l->attrs, STR(SEMCONV_FRAME_TYPE));

    return type && str_is(value_str(&type->value), "kernel");
}

static int add_frame(struct row_adding *a, struct str function, struct str thread, uint32_t sample, int64_t value,
                     bool leaf)
{
    struct top_row *r = row_of(a, function, thread);

    if (!r)
        return -ENOMEM;
    if (leaf)
        r->self += value;
    if (r->last != sample + 1)
        r->total += value;
    r->last = sample + 1;
    return 0;
}

static int add_stack(struct row_adding *a, struct run stack, struct str thread, uint32_t sample, int64_t value)
{
    const struct dict *d = &a->b->dict;
    bool leaf = true;
    int r = 0;

    for (uint32_t i = 0; i < stack.n && r == 0; i++) {
        const struct location *l = &d->locations[d->indices[stack.off + i]];

        if (a->view->no_kernel && is_kernel(a->b, l))
            continue;
        if (!l->lines.n) {
            r = add_frame(a, name_of_file(a, l), thread, sample, value, leaf);
            leaf = false;
        }
        for (uint32_t k = 0; k < l->lines.n && r == 0; k++) {
            uint32_t function = d->lines[l->lines.off + k].function;

            r = add_frame(a, batch_string(a->b, d->functions[function].name), thread, sample, value, leaf);
            leaf = false;
        }
    }
    return leaf && r == 0 ? add_frame(a, STR("[kernel]"), thread, sample, value, true) : r;
}

static int add_sample(struct row_adding *a, const struct profile *p, uint32_t at)
{
    const struct sample *s = &a->b->samples[at];
    const struct attr *named = a->view->threads ? batch_attr(a->b, s->attrs, STR(SEMCONV_THREAD_NAME)) : NULL;
    int64_t value = batch_sample_value(a->b, p, s, 0);

    a->rows->sum += value;
    return add_stack(a, a->b->dict.stacks[s->stack], named ? value_str(&named->value) : STR(""), at, value);
}

static int add_resource(struct row_adding *a, const struct resource *res)
{
    const struct value *service = kvs_get(&res->attrs, STR(SEMCONV_SERVICE_NAME));
    const struct value *pid = kvs_get(&res->attrs, STR(SEMCONV_PROCESS_PID));
    int r = 0;

    a->service = service ? value_str(service) : STR("");
    a->pid = pid && pid->kind == VALUE_INT ? pid->integer : 0;
    for (uint32_t s = res->scopes.off; s < res->scopes.off + res->scopes.n; s++) {
        struct run profiles = a->b->scopes[s].profiles;

        for (uint32_t k = profiles.off; k < profiles.off + profiles.n; k++) {
            const struct profile *p = &a->b->profiles[k];

            for (uint32_t i = 0; i < p->samples.n && r == 0; i++)
                r = add_sample(a, p, p->samples.off + i);
        }
    }
    return r;
}

static int by_process(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (!str_eq(x->thread, y->thread))
        return str_cmp(x->thread, y->thread);
    return x->self > y->self ? -1 : x->self < y->self;
}

/* Turns the rows of functions of each process into one row a process, named by the function with the most time of its
 * own. The self times of all functions add up to the total. */
static void join_processes(struct top_rows *t)
{
    size_t n = 0;

    if (t->n)
        qsort(t->v, t->n, sizeof *t->v, by_process);
    for (size_t i = 0; i < t->n; i++) {
        struct top_row *to = n ? &t->v[n - 1] : NULL;

        if (to && to->pid == t->v[i].pid && str_eq(to->thread, t->v[i].thread)) {
            to->total += t->v[i].self;
            continue;
        }
        t->v[n] = t->v[i];
        t->v[n].total = t->v[n].self;
        n++;
    }
    t->n = n;
}

static bool is_wanted(const struct top_row *r, const struct regex *filter)
{
    return !filter || regex_search(filter, r->function) || regex_search(filter, r->service) ||
           regex_search(filter, r->thread);
}

static int by_weight(const void *a, const void *b, void *cumulative)
{
    const struct top_row *x = a, *y = b;
    int64_t first = *(bool *) cumulative ? y->total - x->total : y->self - x->self;
    int64_t second = *(bool *) cumulative ? y->self - x->self : y->total - x->total;

    if (first || second)
        return first ? first < 0 ? -1 : 1 : second < 0 ? -1 : 1;
    return str_cmp(x->function, y->function);
}

int top_rows_make(struct top_rows *t, const struct batch *b, const struct top_view *view)
{
    struct row_adding a = {.rows = t, .b = b, .view = view};
    bool cumulative = view->cumulative || view->processes;
    size_t kept = 0;
    int r = 0;

    *t = (struct top_rows){0};
    arena_init(&t->names, NAMES_MAX);
    for (uint32_t i = 0; b && i < b->n_resources && r == 0; i++)
        r = add_resource(&a, &b->resources[i]);
    if (view->processes)
        join_processes(t);
    for (size_t i = 0; i < t->n; i++)
        if (is_wanted(&t->v[i], view->filter))
            t->v[kept++] = t->v[i];
    t->n = kept;
    if (t->n)
        qsort_r(t->v, t->n, sizeof *t->v, by_weight, &cumulative);
    return r;
}

void top_rows_done(struct top_rows *t)
{
    arena_done(&t->names);
    map_done(&t->map);
    mem_free(t->v);
    *t = (struct top_rows){0};
}

void top_rows_json(const struct top_rows *t, const struct top_view *view, size_t n, int64_t interval_ns,
                   struct buf *out)
{
    buf_puts(out, "{\"cores\":");
    json_put_double(out, (double) t->sum / (double) interval_ns);
    buf_puts(out, view->processes ? ",\"processes\":[" : ",\"functions\":[");
    for (size_t i = 0; i < MIN(n, t->n); i++) {
        const struct top_row *r = &t->v[i];

        buf_puts(out, i ? ",{\"function\":" : "{\"function\":");
        json_put_str(out, r->function);
        buf_puts(out, ",\"service\":");
        json_put_str(out, r->service);
        if (view->threads) {
            buf_puts(out, ",\"thread\":");
            json_put_str(out, r->thread);
        }
        if (r->pid)
            buf_printf(out, ",\"pid\":%" PRId64, r->pid);
        buf_puts(out, ",\"self\":");
        json_put_double(out, (double) r->self / (double) interval_ns);
        buf_puts(out, ",\"total\":");
        json_put_double(out, (double) r->total / (double) interval_ns);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}
