/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up the values of a selection per service (see gather.h). A range is composed of the largest sums that lie in it:
 * those of a day, an hour, or five minutes; where it cuts through a five-minute window, of the rows. Sums exist per
 * segment, so the composition is found segment by segment.
 */
#include "store/engines/segment/read/gather.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "base/thread.h"
#include "base/wrap.h"

/* NODE_BYTES is the memory that a query needs per node of a service: its sums, its part of a view, what is folded. */
enum { JOBS_FOR_TWO = 4, NODE_BYTES = 100, LARGE = 8 << 20 };

#define WAIT_MAX (10 * NS_PER_S)

/* The sums of a gauge for one instance, divided by the number of snapshots at the end. */
struct gauge_instance {
    struct id128 id;
    struct totals totals[2];
    uint64_t count[2];
};

struct held {
    struct scan_prof p;
    uint32_t next; /* of the same service, + 1 */
};

static struct gauge_instance *find_instance(struct gather *x, struct id128 id)
{
    for (struct map_pos p = map_find(&x->instance_map, hash64_id(id)); p.index != MAP_NONE;
         p = map_next(&x->instance_map, p))
        if (id128_eq(x->instances[p.index].id, id))
            return &x->instances[p.index];
    if (array_reserve(x->instances, x->cap_instances, (size_t) x->n_instances + 1, 1 << 24) < 0 ||
        map_insert(&x->instance_map, hash64_id(id), x->n_instances) < 0)
        return NULL;
    x->instances[x->n_instances] = (struct gauge_instance){.id = id};
    return &x->instances[x->n_instances++];
}

/* --- adding --- */

static int add_value(struct gather *x, uint32_t column, uint32_t node, int64_t v)
{
    if (x->few && !x->acc[0][node]) {
        if (array_push(x->touched, x->n_touched, x->cap_touched, UINT32_MAX, node) < 0)
            return -ENOMEM;
    }
    wrap_inc(&x->acc[column][node], v);
    return 0;
}

static int add_prof(void *ctx, const struct scan_prof *p)
{
    struct gather *x = ctx;
    struct gauge_instance *inst = NULL;
    bool look = x->scan.needs_detail[p->column];
    int r = 0;

    x->scan.notes->profiles++;
    if (x->gauge) {
        inst = find_instance(x, p->p->instance);
        if (!inst)
            return -ENOMEM;
        inst->count[p->column] += p->p->n_rows || !store_query_by_span(x->scan.q);
    }
    for (uint32_t i = 0; r == 0 && i < p->p->n_rows; i++) {
        const struct row *row = &p->p->rows[i];

        if (look && !scan_row(&x->scan, p, row))
            continue;
        if (row->node >= x->n_nodes)
            return -EBADMSG;
        x->any = true;
        x->scan.notes->samples++;
        if (inst)
            r = totals_add(&inst->totals[p->column], row->node, row->value);
        else
            r = add_value(x, p->column, row->node, row->value);
    }
    return r;
}

static int add_totals(struct gather *x, struct segment *s, const struct dir_entry *d, const struct chunk *c,
                      uint32_t column)
{
    struct gauge_instance *inst;
    struct totals t = {0};
    int r;

    x->any = true;
    x->scan.notes->profiles += d->e.n_profs;
    (void) s;
    if (!x->gauge)
        return chunk_add_totals(c, d->e.totals_off, x->acc[column], x->n_nodes);
    inst = find_instance(x, d->e.instance);
    r = inst ? chunk_read_totals(c, d->e.totals_off, x->n_nodes, &t) : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < t.n; i++)
        r = totals_add(&inst->totals[column], t.nodes[i], t.values[i]);
    if (r == 0)
        inst->count[column] += d->e.n_profs;
    totals_done(&t);
    return r;
}

/* --- one group of one segment --- */

/* Whether the column selects this directory entry. */
static bool is_meant(const struct gather *x, const struct segment *s, int level, const struct dir_entry *d,
                     uint32_t column)
{
    return d->e.series < x->sym->n_series && x->sym->bits[d->e.series] >> column & 1 &&
           scan_hidden(&x->scan, x->sym, s, &d->e, level) != HIDDEN_ALL;
}

enum fit { FIT_NONE, FIT_WHOLE, FIT_PART };

static enum fit window_fit(const struct gather *x, const struct segment *s, int level, const struct dir_entry *d,
                           uint32_t n, uint32_t column)
{
    const struct store_column *c = &x->scan.q->columns[column];
    bool inside = false, outside = false;

    for (uint32_t i = 0; i < n; i++) {
        if (!is_meant(x, s, level, &d[i], column))
            continue;
        if (scan_hidden(&x->scan, x->sym, s, &d[i].e, level) == HIDDEN_PART)
            return FIT_PART;
        if (d[i].e.max_time < c->from || d[i].e.min_time >= c->to) {
            outside = true;
        } else if (d[i].e.min_time >= c->from && d[i].e.max_time < c->to) {
            inside = true;
        } else {
            return FIT_PART;
        }
    }
    return inside && outside ? FIT_PART : inside ? FIT_WHOLE : FIT_NONE;
}

/* Adds the whole window from its sums: one entry for all series when all are selected. Returns 1 when the sums are
 * damaged and nothing was added; the data that they sum may still be intact. */
static int add_window(struct gather *x, struct segment *s, int level, const struct dir_entry *d, uint32_t n,
                      uint32_t column)
{
    struct chunk c = {0};
    uint64_t off = UINT64_MAX;
    uint32_t all = UINT32_MAX;
    bool every = true, any = false;
    int r = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (d[i].e.series == SERIES_ALL)
            all = i;
        else
            every &= is_meant(x, s, level, &d[i], column);
    }
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        if (every && all != UINT32_MAX ? i != all : !is_meant(x, s, level, &d[i], column))
            continue;
        if (x->plan) {
            r = scan_plan_add(x->plan, d[i].off, d[i].head);
            any = true;
            continue;
        }
        if (d[i].off != off) {
            chunk_done(&c);
            off = d[i].off;
            r = segment_totals(s, d[i].off, d[i].head, &c, x->scan.e);
        }
        if (r == 0) {
            r = add_totals(x, s, &d[i], &c, column);
            any = true;
        }
    }
    chunk_done(&c);
    if (r < 0)
        r = scan_damage(&x->scan, r, err_message(x->scan.e, r));
    else
        any = true;
    return r < 0 ? r : !any;
}

/* Rows are added for one column at a time here: other columns that select the same window are processed separately. */
struct one_column {
    struct gather *x;
    uint32_t column;
};

static int add_prof_of_column(void *ctx, const struct scan_prof *p)
{
    struct one_column *k = ctx;

    return p->column == k->column ? add_prof(k->x, p) : 0;
}

/* Adds the profiles of a chunk that lie in the column's range directly to acc. */
static int add_chunk_sums(struct gather *x, struct segment *s, uint64_t off, uint32_t len, uint32_t column)
{
    const struct store_column *c = &x->scan.q->columns[column];
    struct chunk_profiles p;
    struct chunk chunk;
    struct arena a;
    struct chunk_sums sums = {.acc = x->acc[column], .n_acc = x->n_nodes};
    uint8_t *wanted;
    int r = segment_chunk(s, off, len, ~0u, &chunk, x->scan.e);

    if (r < 0)
        return scan_damage(&x->scan, r, err_message(x->scan.e, r));
    arena_init(&a, 0);
    r = chunk_decode_profiles(&chunk, &a, &p);
    wanted = r == 0 ? arena_zalloc_array(&a, p.n_profs + 1, 1) : NULL;
    for (uint32_t i = 0; wanted && i < p.n_profs; i++) {
        const struct stored_profile *v = &p.profs[i];

        wanted[i] = v->series < x->sym->n_series && x->sym->bits[v->series] >> column & 1 && v->time_ns >= c->from &&
                    v->time_ns < c->to && sym_series(x->sym->symbols, v->series)->service == x->service &&
                    !scan_deleted(&x->scan, x->sym, s->meta.log, v->series, v->time_ns);
        x->scan.notes->profiles += wanted[i];
    }
    sums.wanted = wanted;
    if (r == 0)
        r = wanted ? chunk_sum_rows(&chunk, &a, &p, &sums) : -ENOMEM;
    x->scan.notes->samples += sums.rows;
    x->any |= sums.rows != 0;
    arena_done(&a);
    chunk_done(&chunk);
    return r == -EBADMSG ? scan_damaged_chunk(&x->scan, r, s, off) : r;
}

static int add_part(struct gather *x, struct segment *s, const struct dir_entry *d, uint32_t n, uint32_t column)
{
    struct one_column k = {x, column};
    uint64_t last = UINT64_MAX;
    int r = 0;

    if (!s->meta.has_detail) { /* only five-minute sums are left: a window counts where it starts */
        x->scan.notes->coarse |= !x->plan;
        if (d[0].window < x->scan.q->columns[column].from || d[0].window >= x->scan.q->columns[column].to)
            return 0;
        return MIN(add_window(x, s, 0, d, n, column), 0);
    }
    for (uint32_t i = 0; r == 0 && i < n; i++)
        if (is_meant(x, s, 0, &d[i], column) && d[i].off != last) {
            last = d[i].off;
            if (x->plan) {
                r = scan_plan_add(x->plan, d[i].off, d[i].len);
                continue;
            }
            if (!x->gauge && !x->few && !x->scan.q->has_profile) {
                r = add_chunk_sums(x, s, d[i].off, d[i].len, column);
                continue;
            }
            r = scan_chunk(&x->scan, x->sym, &(struct scan_part){s, d[i].off, d[i].len, x->service, true},
                           add_prof_of_column, &k);
        }
    return r;
}

struct covered {
    int64_t *windows;
    size_t cap;
    uint32_t n;
    int64_t size;
};

static bool is_covered(const struct covered *c, int64_t window)
{
    int64_t start = c->size ? window_start(window, c->size) : 0;

    for (uint32_t i = c->n; i-- > 0;)
        if (c->windows[i] == start)
            return true;
    return false;
}

/* Returns 1 if the level below is needed too: only a part of a window is selected, or this level is damaged. */
static int add_level(struct gather *x, struct segment *s, const struct segment_group *g, int level, uint32_t column,
                     struct covered covered[2])
{
    static const int64_t sizes[] = {WINDOW_5M, WINDOW_1H, WINDOW_1D};
    struct covered *mine = level ? &covered[level - 1] : NULL;
    struct directory dir;
    struct arena a;
    bool part;
    int r;

    arena_init(&a, 0);
    r = segment_directory(s, g, level, &a, &dir, x->scan.e);
    if (r < 0)
        r = scan_damage(&x->scan, r, err_message(x->scan.e, r));
    part = !dir.n; /* damaged: perhaps a lower level is not */
    for (uint32_t i = 0, j; r == 0 && i < dir.n; i = j) {
        const struct dir_entry *d = dir.v;
        enum fit fit;

        for (j = i + 1; j < dir.n && d[j].window == d[i].window;)
            j++;
        if (is_covered(&covered[1], d[i].window) || (level == 0 && is_covered(&covered[0], d[i].window)))
            continue;
        fit = window_fit(x, s, level, d + i, j - i, column);
        part |= fit == FIT_PART;
        if (fit == FIT_WHOLE) {
            r = add_window(x, s, level, d + i, j - i, column);
            if (r > 0 && (mine || s->meta.has_detail)) { /* use the data that they sum */
                part = true;
                r = mine ? 0 : add_part(x, s, d + i, j - i, column);
            } else if (r == 0 && mine) {
                mine->size = sizes[level];
                r = array_push(mine->windows, mine->n, mine->cap, 1 << 24, d[i].window);
            }
            r = MIN(r, 0);
        } else if (fit == FIT_PART && level == 0) {
            r = add_part(x, s, d + i, j - i, column);
        }
    }
    arena_done(&a);
    return r < 0 ? r : part;
}

static int add_group(struct gather *x, struct segment *s, const struct segment_group *g, uint32_t column)
{
    struct covered covered[2] = {0};
    int r = 1;

    for (int level = SEGMENT_LEVELS - 1; r > 0 && level >= 0; level--)
        if (g->dirs[level].len)
            r = add_level(x, s, g, level, column, covered);
    mem_free(covered[0].windows);
    mem_free(covered[1].windows);
    return MIN(r, 0);
}

/* Adds, or notes with x->plan, what the segment has of the service. */
static int add_groups(struct gather *x, struct segment *s, const struct segment_footer *f)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < f->n_groups; i++) {
        if (f->groups[i].service != x->service)
            continue;
        for (uint32_t c = 0; r == 0 && c < x->scan.q->n_columns; c++)
            if (s->meta.t1 >= x->scan.q->columns[c].from && s->meta.t0 < x->scan.q->columns[c].to)
                r = add_group(x, s, &f->groups[i], c);
    }
    return r;
}

static int add_segment(struct gather *x, struct segment *s)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    const struct segment_footer *f;
    struct scan_plan plan = {0};
    int r = segment_footer(s, &f, x->scan.e);

    if (r < 0)
        return scan_damage(&x->scan, r, err_message(x->scan.e, r));
    if (s->stub) { /* first only look what will be needed, and read all of that at once */
        x->plan = &plan;
        r = add_groups(x, s, f);
        x->plan = NULL;
        if (r == 0)
            r = scan_plan_run(&x->scan, &plan, s);
        scan_plan_done(&plan);
    }
    return r < 0 ? r : add_groups(x, s, f);
}

/* --- a service --- */

static int fold_instances(struct gather *x)
{
    int r = 0;

    for (uint32_t i = 0; i < x->n_instances; i++)
        for (uint32_t c = 0; c < 2; c++) {
            struct totals *t = &x->instances[i].totals[c];

            if (r == 0 && x->instances[i].count[c])
                r = totals_normalize(t);
            for (uint32_t k = 0; r == 0 && k < t->n; k++)
                r = add_value(x, c, t->nodes[k], llround((double) t->values[k] / (double) x->instances[i].count[c]));
            totals_done(t);
        }
    x->n_instances = 0;
    map_reset(&x->instance_map);
    return r;
}

static int begin_service(struct gather *x, const struct scan_symbols *sym, uint32_t service)
{
    x->sym = sym;
    x->service = service;
    x->any = false;
    x->n_nodes = pinned_count(&sym_service(sym->symbols, service)->nodes);
    x->n_touched = 0;
    for (uint32_t c = 0; c < x->scan.q->n_columns; c++) {
        size_t before = x->cap_acc[c];

        if (array_reserve(x->acc[c], x->cap_acc[c], x->n_nodes, UINT32_MAX) < 0)
            return -ENOMEM;
        memset(x->acc[c] + before, 0, (x->cap_acc[c] - before) * sizeof *x->acc[c]);
    }
    x->gauge = false;
    for (uint32_t i = 0; i < sym->n_series; i++)
        if (sym->bits[i] && sym_series(sym->symbols, i)->service == service) {
            x->gauge = sym_series(sym->symbols, i)->type.rule == TYPE_GAUGE;
            x->type = sym_series(sym->symbols, i)->type.name;
            x->unit = sym_series(sym->symbols, i)->type.unit;
            break;
        }
    return 0;
}

static void end_service(struct gather *x)
{
    for (uint32_t c = 0; c < x->scan.q->n_columns; c++) {
        if (x->few)
            for (uint32_t i = 0; i < x->n_touched; i++)
                x->acc[c][x->touched[i]] = 0;
        else
            memset(x->acc[c], 0, x->n_nodes * sizeof *x->acc[c]);
    }
}

static int add_service(struct gather *x, bool segments)
{
    int r = 0;

    for (uint32_t i = x->held_of[x->sym - x->scan.symbols][x->service]; r == 0 && i; i = x->held[i - 1].next)
        r = add_prof(x, &x->held[i - 1].p);
    for (uint32_t i = 0; segments && r == 0 && i < x->scan.snap->n_segments; i++) {
        if (x->scan.snap->segments[i].symbols != x->sym->symbols)
            continue;
        r = scan_cancelled(&x->scan) ? -ECANCELED : add_segment(x, x->scan.snap->segments[i].segment);
    }
    return r < 0 ? r : fold_instances(x);
}

/* --- data that is not in segments, and queries for rows --- */

static int hold_prof(void *ctx, const struct scan_prof *p)
{
    struct gather *x = ctx;
    uint32_t *first = &x->held_of[scan_find_symbols(&x->scan, p->symbols) - x->scan.symbols][p->series->service];

    if (array_push(x->held, x->n_held, x->cap_held, UINT32_MAX, (struct held){*p, *first}) < 0)
        return -ENOMEM;
    *first = x->n_held;
    return 0;
}

/* For queries on rows (a trace, attributes, one profile), everything in range is scanned once, and each service's rows
 * are kept until that service is processed. */
static int hold_rows(void *ctx, const struct scan_prof *p)
{
    struct gather *x = ctx;
    struct scan_prof kept = *p;
    struct stored_profile *copy;
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->p->n_rows; i++)
        n += scan_row(&x->scan, p, &p->p->rows[i]);
    if (!n && !p->p->gauge) { /* a snapshot counts even if it has none of the rows */
        x->scan.notes->profiles++;
        return 0;
    }
    copy = arena_alloc(&x->arena, sizeof *copy);
    if (!copy)
        return -ENOMEM;
    *copy = *p->p;
    copy->n_rows = 0;
    copy->rows = arena_alloc(&x->arena, (n + 1) * sizeof *copy->rows);
    if (!copy->rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->p->n_rows; i++)
        if (scan_row(&x->scan, p, &p->p->rows[i])) {
            copy->rows[copy->n_rows] = p->p->rows[i];
            copy->rows[copy->n_rows++].extra = 0;
        }
    kept.p = copy;
    return hold_prof(x, &kept);
}

/* --- the whole query --- */

int gather_init(struct gather *x, struct engine *g, const struct store_query *q, struct err *e)
{
    int r;

    *x = (struct gather){0};
    arena_init(&x->arena, q->memory_limit);
    r = scan_init(&x->scan, g, q, true, e);
    if (r < 0)
        return r;
    x->held_of = arena_zalloc_array(&x->arena, x->scan.n_symbols + 1, sizeof *x->held_of);
    for (uint32_t i = 0; x->held_of && i < x->scan.n_symbols; i++) {
        x->held_of[i] = arena_zalloc_array(&x->arena, x->scan.symbols[i].n_services + 1, sizeof **x->held_of);
        if (!x->held_of[i])
            return -ENOMEM;
        for (uint32_t k = 0; k < x->scan.symbols[i].n_services; k++)
            x->n_parts += x->scan.symbols[i].services[k] != 0;
    }
    return x->held_of ? 0 : -ENOMEM;
}

/* State that the threads of a query share. */
struct crew {
    struct job {
        const struct scan_symbols *sym;
        uint32_t service;
    } * jobs;
    uint32_t n_jobs;
    bool segments; /* else all selected rows are already held */
    _Atomic uint32_t next;
    _Atomic int result;
    gather_fn fn;
    void *ctx;
    pthread_mutex_t lock; /* held while fn runs */
};

/* Waits while other queries, or the other thread of this one, need the memory. */
static int take_memory(struct gather *x, size_t bytes)
{
    int64_t until = clock_mono() + WAIT_MAX;
    int r;

    while ((r = engine_take_answer(x->scan.g, bytes, x->scan.e)) == -EAGAIN && clock_mono() < until) {
        if (scan_cancelled(&x->scan))
            return -ECANCELED;
        usleep(2000);
    }
    if (r == 0)
        *x->scan.e = (struct err){0};
    return r;
}

static int run_job(struct gather *x, struct crew *c, const struct job *j)
{
    size_t need = (size_t) pinned_count(&sym_service(j->sym->symbols, j->service)->nodes) * NODE_BYTES;
    int r = take_memory(x, need);

    if (r < 0)
        return r;
    r = begin_service(x, j->sym, j->service);
    if (r == 0)
        r = add_service(x, c->segments);
    if (r == 0 && x->any) {
        pthread_mutex_lock(&c->lock);
        r = c->fn(c->ctx, x);
        pthread_mutex_unlock(&c->lock);
    }
    engine_give_answer(x->scan.g, need);
    x->most = MAX(x->most, need);
    return r;
}

static void run_jobs(struct gather *x, struct crew *c)
{
    uint32_t i;

    while (atomic_load(&c->result) == 0 && (i = atomic_fetch_add(&c->next, 1)) < c->n_jobs) {
        int r = run_job(x, c, &c->jobs[i]);

        if (r < 0)
            atomic_store(&c->result, r);
        else
            end_service(x);
    }
}

/* The second thread: shares the query and the held rows, but has its own sums. */
struct helper {
    struct gather gather;
    struct crew *crew;
    struct store_notes notes;
    struct err e;
};

static void *run_helper(void *arg)
{
    struct helper *h = arg;

    run_jobs(&h->gather, h->crew);
    return NULL;
}

static void free_sums(struct gather *x)
{
    for (uint32_t i = 0; i < x->n_instances; i++) {
        totals_done(&x->instances[i].totals[0]);
        totals_done(&x->instances[i].totals[1]);
    }
    mem_free(x->instances);
    map_done(&x->instance_map);
    mem_free(x->touched);
    mem_free(x->acc[0]);
    mem_free(x->acc[1]);
}

static void join_helper(struct gather *x, struct helper *h, pthread_t thread)
{
    struct store_notes *n = x->scan.notes;

    pthread_join(thread, NULL);
    n->profiles += h->notes.profiles;
    n->samples += h->notes.samples;
    n->coarse |= h->notes.coarse;
    if (!n->damaged)
        memcpy(n->damage, h->notes.damage, sizeof n->damage);
    n->damaged += h->notes.damaged;
    if (!x->type.n) {
        x->type = h->gather.type;
        x->unit = h->gather.unit;
    }
    if (h->e.message[0] && !x->scan.e->message[0])
        *x->scan.e = h->e;
    free_sums(&h->gather);
}

static void run_crew(struct gather *x, struct crew *c)
{
    struct helper h = {.crew = c,
                       .gather = {.scan = x->scan,
                                  .few = x->few,
                                  .n_parts = x->n_parts,
                                  .held = x->held,
                                  .n_held = x->n_held,
                                  .held_of = x->held_of}};
    pthread_t thread;
    bool helped = false;

    h.gather.scan.notes = &h.notes;
    h.gather.scan.e = &h.e;
    if (atomic_fetch_add(&x->scan.g->asking, 1) + 1 < x->scan.g->cpus && c->n_jobs >= JOBS_FOR_TWO)
        helped = thread_start(&thread, "query help", run_helper, &h, NULL) == 0;
    run_jobs(x, c);
    if (helped)
        join_helper(x, &h, thread);
    atomic_fetch_sub(&x->scan.g->asking, 1);
}

static int list_jobs(struct gather *x, struct crew *c)
{
    c->jobs = arena_zalloc_array(&x->arena, x->n_parts + 1, sizeof *c->jobs);
    for (uint32_t i = 0; c->jobs && i < x->scan.n_symbols; i++)
        for (uint32_t k = 0; k < x->scan.symbols[i].n_services; k++)
            if (x->scan.symbols[i].services[k] && (c->segments || x->held_of[i][k]))
                c->jobs[c->n_jobs++] = (struct job){&x->scan.symbols[i], k};
    return c->jobs ? 0 : -ENOMEM;
}

int gather_run(struct gather *x, gather_fn fn, void *ctx)
{
    bool rows = x->scan.needs_detail[0] || (x->scan.q->n_columns > 1 && x->scan.needs_detail[1]);
    struct crew c = {.segments = !rows, .fn = fn, .ctx = ctx, .lock = PTHREAD_MUTEX_INITIALIZER};
    int r;

    if (!x->scan.tenant)
        return 0;
    r = rows ? scan_profs(&x->scan, true, hold_rows, x) : scan_memtables(&x->scan, hold_prof, x);
    x->few = rows && x->scan.q->n_columns == 1;
    if (rows) /* the selected rows are held: nothing else to read */
        x->scan.needs_detail[0] = x->scan.needs_detail[1] = false;
    if (r == 0)
        r = list_jobs(x, &c);
    if (r == 0) {
        run_crew(x, &c);
        r = atomic_load(&c.result);
    }
    return r == -ECANCELED ? err_set(x->scan.e, r, "cancelled") : r;
}

uint32_t gather_part_nodes(const struct gather *x)
{
    uint32_t max = x->scan.q->max_nodes;

    return !max || x->n_parts < 4 ? max : MIN(max, MAX(512, 4 * max / x->n_parts));
}

void gather_done(struct gather *x)
{
    free_sums(x);
    if (x->most > LARGE)
        meminfo_trim();
    mem_free(x->held);
    arena_done(&x->arena);
    scan_done(&x->scan);
}
