/* SPDX-License-Identifier: Apache-2.0 */
/* query_chart() of query_chart.h. Samples are collected as pieces (thread, stack, from, to); then the busiest threads are
 * chosen, and their pieces are drawn into columns. */
#include "query/query_chart.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/batch.h"
#include "model/semconv.h"
#include "query/query_heat.h"
#include "query/query_names.h"
#include "store/frames.h"

#define WAITS_AFTER (60 * NS_PER_S) /* a wait is sent with a profile that starts at most this long after it began */
enum { THREADS_SEEN_MAX = 1 << 16, THREADS_KNOWN = 256 };

struct chart_piece {
    int64_t from, to;
    uint32_t thread, node, link; /* link + 1; 0 = none */
    uint32_t column;             /* if only a short time of a column is read: the column */
    uint8_t kind;
};

/* A thread while pieces are collected. */
struct seen_thread {
    struct chart_thread t;
    uint64_t key;
    uint32_t shown; /* its number in the answer + 1 */
};

/* Samples of one thread share their attributes in a batch: which thread a run of attributes belongs to. */
struct known_thread {
    struct run attrs;
    uint32_t thread; /* + 1; 0 = not known */
};

struct charting {
    struct query_chart *out;
    struct chart_piece *pieces;
    struct seen_thread *seen;
    struct link *links;
    size_t n_pieces, cap_pieces, n_seen, cap_seen, n_links, cap_links;
    struct map by_key, by_link;
    int64_t from, to; /* of the present part */
    uint32_t column;  /* of the present part */
    uint8_t kind;
    struct {
        const struct batch *batch;
        uint32_t *node;  /* per stack, + 1 */
        uint32_t *frame; /* per location without inlined calls, + 1 */
        struct str service;
        int64_t pid;
        struct known_thread known[THREADS_KNOWN];
    } now;
};

/* --- collecting --- */

static struct str text_of(const struct value *v)
{
    return v->kind == VALUE_STR ? (struct str){v->str, v->n} : (struct str){0};
}

static void read_resource(struct charting *x, const struct batch *b, uint32_t index)
{
    const struct kvs *a = &b->resources[index].attrs;

    x->now.service = (struct str){0};
    x->now.pid = 0;
    memset(x->now.known, 0, sizeof x->now.known);
    for (uint32_t i = 0; i < a->n; i++) {
        if (str_is(a->v[i].key, SEMCONV_SERVICE_NAME))
            x->now.service = text_of(&a->v[i].value);
        else if (str_is(a->v[i].key, SEMCONV_PROCESS_PID) && a->v[i].value.kind == VALUE_INT)
            x->now.pid = a->v[i].value.integer;
    }
}

/* Finds or adds the thread that a sample's attributes name. */
static int find_thread(struct charting *x, const struct batch *b, const struct sample *s)
{
    struct str name = {0};
    int64_t id = 0, pid = x->now.pid;
    uint64_t key;
    struct seen_thread *t;

    for (uint32_t i = 0; i < s->attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[s->attrs.off + i]];
        struct str k = b->dict.strings[a->key];

        if (str_is(k, SEMCONV_THREAD_ID) && a->value.kind == VALUE_INT)
            id = a->value.integer;
        else if (str_is(k, SEMCONV_THREAD_NAME))
            name = text_of(&a->value);
        else if (!pid && str_is(k, SEMCONV_PROCESS_PID) &&
                 a->value.kind == VALUE_INT) /* of a file with several processes */
            pid = a->value.integer;
    }
    /* threads have a number of their own on a host; without one, they are distinguished by name and process */
    key = hash64_u64((uint64_t) pid * 0x9e3779b97f4a7c15u ^ (uint64_t) id) ^ hash64_str(x->now.service);
    if (!id)
        key ^= hash64_str(name);
    for (struct map_pos i = map_find(&x->by_key, key); i.index != MAP_NONE; i = map_next(&x->by_key, i))
        if (x->seen[i.index].key == key)
            return (int) i.index;
    if (array_reserve(x->seen, x->cap_seen, x->n_seen + 1, THREADS_SEEN_MAX) < 0 ||
        map_insert(&x->by_key, key, (uint32_t) x->n_seen) < 0)
        return -E2BIG;
    t = &x->seen[x->n_seen];
    *t = (struct seen_thread){.key = key, .t = {.id = id, .pid = pid}};
    t->t.name = arena_str(&x->out->arena, name);
    t->t.service = arena_str(&x->out->arena, x->now.service);
    return (int) x->n_seen++;
}

/* The number of a sample's thread; negative on failure. */
static int thread_of(struct charting *x, const struct batch *b, const struct sample *s)
{
    struct known_thread *k = &x->now.known[s->attrs.off % THREADS_KNOWN];
    int r;

    if (k->thread && k->attrs.off == s->attrs.off && k->attrs.n == s->attrs.n)
        return (int) k->thread - 1;
    r = find_thread(x, b, s);
    if (r >= 0)
        *k = (struct known_thread){s->attrs, (uint32_t) r + 1};
    return r;
}

static uint32_t link_of(struct charting *x, const struct link *l)
{
    uint64_t h = hash64(l, sizeof *l);

    for (struct map_pos i = map_find(&x->by_link, h); i.index != MAP_NONE; i = map_next(&x->by_link, i))
        if (memcmp(&x->links[i.index], l, sizeof *l) == 0)
            return i.index + 1;
    if (array_reserve(x->links, x->cap_links, x->n_links + 1, CHART_SPANS_MAX) < 0 ||
        map_insert(&x->by_link, h, (uint32_t) x->n_links) < 0)
        return 0; /* spans over the limit are not shown */
    x->links[x->n_links] = *l;
    return (uint32_t) ++x->n_links;
}

static int begin_batch(struct charting *x, const struct batch *b)
{
    mem_free(x->now.node);
    mem_free(x->now.frame);
    x->now.node = mem_zalloc_array(b->dict.n_stacks + 1u, sizeof *x->now.node);
    x->now.frame = mem_zalloc_array(b->dict.n_locations + 1u, sizeof *x->now.frame);
    x->now.batch = b;
    return x->now.node && x->now.frame ? 0 : -ENOMEM;
}

/* The frame of line k of a location in the answer's tree. */
static uint32_t frame_at(struct charting *x, uint32_t location, uint32_t k)
{
    const struct batch *b = x->now.batch;
    bool only = b->dict.locations[location].lines.n <= 1;
    struct frame f;
    uint32_t frame;

    if (only && x->now.frame[location])
        return x->now.frame[location] - 1;
    frame_of_location(b, location, k, &f);
    frame_reduce(&f, BY_FUNCTION);
    frame = tree_frame(x->out->tree, &f);
    if (only && frame != TREE_NONE)
        x->now.frame[location] = frame + 1;
    return frame;
}

/* The node of a stack in the answer's tree. */
static uint32_t node_of(struct charting *x, uint32_t stack)
{
    const struct batch *b = x->now.batch;
    struct run st = b->dict.stacks[stack];
    struct tree *t = x->out->tree;
    uint32_t node = 0;

    if (x->now.node[stack])
        return x->now.node[stack] - 1;
    for (uint32_t i = st.n; i-- > 0 && node != TREE_NONE;) {
        uint32_t location = b->dict.indices[st.off + i], lines = b->dict.locations[location].lines.n;

        for (uint32_t k = lines ? lines : 1; k-- > 0 && node != TREE_NONE;) {
            uint32_t frame = frame_at(x, location, k);

            node = frame == TREE_NONE ? TREE_NONE : tree_child(t, node, frame);
        }
    }
    if (node != TREE_NONE)
        x->now.node[stack] = node + 1;
    return node;
}

static int add_piece(struct charting *x, const struct sample *s, uint32_t thread, int64_t time, int64_t ns)
{
    bool waits = x->kind == CHART_WAITING;
    struct chart_piece p = {.from = waits ? time : wrap_sub(time, ns),
                            .to = waits ? wrap_add(time, ns) : time,
                            .thread = thread,
                            .column = x->column,
                            .kind = x->kind};

    p.from = MAX(p.from, x->from);
    p.to = MIN(p.to, x->to);
    if (p.from >= p.to)
        return 0;
    p.node = node_of(x, s->stack);
    if (p.node == TREE_NONE)
        return -ENOMEM;
    if (s->link)
        p.link = link_of(x, &x->now.batch->dict.links[s->link]);
    x->seen[thread].t.value[x->kind] += p.to - p.from;
    x->seen[thread].t.samples++;
    return array_push(x->pieces, x->n_pieces, x->cap_pieces, CHART_PIECES_MAX, p);
}

/* timed: the profile's values are times; otherwise a sample stands for the period. */
static int add_sample(struct charting *x, const struct profile *p, const struct sample *s, bool timed)
{
    const struct batch *b = x->now.batch;
    int thread = s->timestamps.n ? thread_of(x, b, s) : 0, r = thread < 0 ? thread : 0;

    if (!s->timestamps.n)
        x->out->untimed++;
    for (uint32_t i = 0; r == 0 && i < s->timestamps.n; i++) {
        int64_t ns = timed && s->values.n ? query_value_at(b, p, s, i) : p->period;

        r = add_piece(x, s, (uint32_t) thread, (int64_t) b->timestamps[s->timestamps.off + i], ns > 0 ? ns : 1);
    }
    return r;
}

static int add_profile(struct charting *x, const struct profile *p)
{
    const struct batch *b = x->now.batch;
    bool timed = str_is(batch_string(b, p->types[p->n_types - 1].unit), "nanoseconds");
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++)
        r = add_sample(x, p, &b->samples[p->samples.off + i], timed);
    return r;
}

static int add_batch(void *ctx, struct batch *b)
{
    struct charting *x = ctx;
    int r = begin_batch(x, b);

    for (uint32_t i = 0; r == 0 && i < b->n_resources; i++) {
        struct run scopes = b->resources[i].scopes;

        read_resource(x, b, i);
        for (uint32_t k = scopes.off; r == 0 && k < scopes.off + scopes.n; k++) {
            struct run profiles = b->scopes[k].profiles;

            for (uint32_t p = profiles.off; r == 0 && p < profiles.off + profiles.n; p++)
                r = add_profile(x, &b->profiles[p]);
        }
    }
    return r;
}

/* Collects the samples of one type that concern [x->from, x->to). */
static int collect_type(struct charting *x, struct store *s, const struct query *q, struct str type, struct err *e)
{
    struct store_query sq = q->q;
    struct store_column *c = &sq.columns[0];
    struct selector selector;
    int r;

    *c = q->q.columns[q->is_diff];
    selector = *c->selector;
    selector.type = type;
    c->selector = &selector;
    sq.n_columns = 1;
    x->kind = str_is(type, "off_cpu") ? CHART_WAITING : CHART_RUNNING;
    c->taken_from = x->kind == CHART_WAITING ? wrap_sub(x->from, WAITS_AFTER) : x->from;
    c->taken_to = wrap_add(x->to, NS_PER_S); /* the sample that ends the last period */
    c->from = wrap_sub(c->taken_from, QUERY_TAKEN_BEFORE);
    c->to = wrap_add(x->to, x->kind == CHART_WAITING ? WAITS_AFTER : NS_PER_S);
    r = named_export(&(struct named_store){.store = s, .names = q->names}, &sq, add_batch, x, e);
    return r == -E2BIG ? err_set(e, r, "too many samples: use a shorter time range or select a thread") : r;
}

/* CPU time and waiting belong together; other types stand alone. */
static int collect_part(struct charting *x, struct store *s, const struct query *q, struct err *e)
{
    struct str type = q->q.columns[q->is_diff].selector->type;
    bool both = str_is(type, "cpu") || str_is(type, "off_cpu");
    int r = collect_type(x, s, q, both ? STR("cpu") : type, e);

    return r == 0 && both ? collect_type(x, s, q, STR("off_cpu"), e) : r;
}

/* --- drawing --- */

struct painted {
    int64_t weight;
    uint32_t node;
    uint8_t kind;
};

/* The stack that fills the most of a column is the one that is shown there. */
static void paint(struct painted *row, const struct query_chart *c, const struct chart_piece *p)
{
    int64_t first = (p->from - c->from) / c->step, last = (p->to - 1 - c->from) / c->step;

    if (c->sliced)
        first = last = p->column;
    for (int64_t i = MAX(first, 0); i <= last && i < (int64_t) c->n_columns; i++) {
        int64_t start = c->from + i * c->step, weight = MIN(p->to, start + c->step) - MAX(p->from, start);

        if (weight > row[i].weight)
            row[i] = (struct painted){weight, p->node, p->kind};
    }
}

static int put_cells(struct query_chart *c, struct chart_thread *t, const struct painted *row)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_columns; i++)
        n += row[i].weight &&
             (!i || !row[i - 1].weight || row[i].node != row[i - 1].node || row[i].kind != row[i - 1].kind);
    t->cells = arena_zalloc_array(&c->arena, n + 1u, sizeof *t->cells);
    if (!t->cells)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_columns; i++) {
        struct chart_cell *last = t->n_cells ? &t->cells[t->n_cells - 1] : NULL;

        if (!row[i].weight)
            continue;
        if (last && last->column + last->n == i && last->node == row[i].node && last->kind == row[i].kind)
            last->n++;
        else
            t->cells[t->n_cells++] = (struct chart_cell){i, 1, row[i].node, row[i].kind};
    }
    return 0;
}

static int draw(struct charting *x)
{
    struct query_chart *c = x->out;
    struct painted *rows = mem_zalloc_array((size_t) c->n_threads * c->n_columns + 1, sizeof *rows);
    int r = rows ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < x->n_pieces; i++) {
        uint32_t shown = x->seen[x->pieces[i].thread].shown;

        if (shown)
            paint(&rows[(size_t) (shown - 1) * c->n_columns], c, &x->pieces[i]);
    }
    for (uint32_t i = 0; r == 0 && i < c->n_threads; i++)
        r = put_cells(c, &c->threads[i], &rows[(size_t) i * c->n_columns]);
    mem_free(rows);
    return r;
}

/* --- threads and spans --- */

static int busiest_first(const void *a, const void *b)
{
    const struct seen_thread *x = *(struct seen_thread *const *) a, *y = *(struct seen_thread *const *) b;

    for (int k = 0; k < 2; k++)
        if (x->t.value[k] != y->t.value[k])
            return x->t.value[k] < y->t.value[k] ? 1 : -1;
    return x->t.id < y->t.id ? -1 : x->t.id > y->t.id;
}

static int choose_threads(struct charting *x)
{
    struct query_chart *c = x->out;
    struct seen_thread **order = arena_zalloc_array(&c->arena, x->n_seen + 1, sizeof *order);

    c->n_all = (uint32_t) x->n_seen;
    c->n_threads = MIN(c->n_threads, c->n_all);
    c->threads = arena_zalloc_array(&c->arena, c->n_threads + 1u, sizeof *c->threads);
    if (!order || !c->threads)
        return -ENOMEM;
    for (size_t i = 0; i < x->n_seen; i++)
        order[i] = &x->seen[i];
    if (x->n_seen)
        qsort(order, x->n_seen, sizeof *order, busiest_first);
    for (uint32_t i = 0; i < c->n_threads; i++) {
        order[i]->shown = i + 1;
        c->threads[i] = order[i]->t;
    }
    return 0;
}

/* A span of a thread lasts from its first to its last sample there. */
static int list_spans(struct charting *x)
{
    struct query_chart *c = x->out;
    uint32_t *at = mem_zalloc_array(x->n_links + 1, sizeof *at);

    c->spans = arena_zalloc_array(&c->arena, x->n_links + 1, sizeof *c->spans);
    for (size_t i = 0; at && c->spans && i < x->n_pieces; i++) {
        const struct chart_piece *p = &x->pieces[i];
        uint32_t thread = x->seen[p->thread].shown;
        struct chart_span *s;

        if (!p->link || !thread)
            continue;
        if (!at[p->link]) {
            at[p->link] = ++c->n_spans;
            c->spans[c->n_spans - 1] =
                (struct chart_span){.link = x->links[p->link - 1], .thread = thread - 1, .from = p->from, .to = p->to};
        }
        s = &c->spans[at[p->link] - 1];
        s->from = MIN(s->from, p->from);
        s->to = MAX(s->to, p->to);
    }
    mem_free(at);
    return at && c->spans ? 0 : -ENOMEM;
}

/* --- the answer --- */

static uint32_t reversed(uint32_t i, uint32_t n)
{
    uint32_t r = 0;

    for (uint32_t bit = 1; bit < n; bit <<= 1)
        r = r << 1 | ((i & bit) != 0);
    return r;
}

/* Where in a long range there is data. */
struct chart_data {
    int64_t from, step;
    int64_t first[CHART_SLICES]; /* of a column: when its first profile begins; INT64_MAX: there is none */
};

static int note_profile(void *ctx, const struct store_profile *p)
{
    struct chart_data *d = ctx;
    int64_t end = d->from + CHART_SLICES * d->step, from = MAX(p->time_ns, d->from);
    int64_t to = MIN(wrap_add(p->time_ns, MAX(p->duration_ns, 1)), end);

    for (int64_t i = (from - d->from) / d->step; i < CHART_SLICES && d->from + i * d->step < to; i++)
        d->first[i] = MIN(d->first[i], MAX(from, d->from + i * d->step));
    return 0;
}

/* Returns the number of columns with data, or a negative errno. */
static int find_data(struct chart_data *d, struct store *s, const struct query *q, struct err *e)
{
    const char *const both[] = {"cpu", "off_cpu"};
    struct selector selector = *q->q.columns[q->is_diff].selector;
    bool timed = str_is(selector.type, "cpu") || str_is(selector.type, "off_cpu");
    struct store_query sq = q->q;
    struct store_notes notes = {0};
    int r = 0, n = 0;

    for (int i = 0; i < CHART_SLICES; i++)
        d->first[i] = INT64_MAX;
    sq.columns[0] = q->q.columns[q->is_diff];
    sq.columns[0].selector = &selector;
    sq.columns[0].spans = NULL;
    sq.columns[0].taken_to = 0;
    sq.columns[0].from = wrap_sub(d->from, QUERY_TAKEN_BEFORE);
    sq.n_columns = 1;
    sq.notes = &notes;
    sq.times_only = true;
    for (int i = 0; r == 0 && i < 1 + timed; i++) {
        selector.type = timed ? str_from(both[i]) : selector.type;
        r = s->ops->profiles(s, &sq, note_profile, d, e);
    }
    for (int i = 0; i < CHART_SLICES; i++)
        n += d->first[i] != INT64_MAX;
    return r < 0 ? r : n;
}

static int collect(struct charting *x, const struct chart_data *d, struct store *s, const struct query *q,
                   struct err *e)
{
    struct query_chart *c = x->out;
    int64_t begin = clock_mono(), to = x->to;
    int r = 0;

    if (!c->sliced) {
        c->n_read = c->n_columns;
        return collect_part(x, s, q, e);
    }
    for (uint32_t i = 0; r == 0 && i < c->n_columns && (i < 2 || clock_mono() - begin < CHART_PATIENCE_NS); i++) {
        x->column = reversed(i, c->n_columns);
        x->from = d->first[x->column];
        x->to = MIN(wrap_add(x->from, CHART_SLICE_NS), MIN(c->from + (x->column + 1) * c->step, to));
        c->n_read++;
        if (x->from < x->to)
            r = collect_part(x, s, q, e);
    }
    return r;
}

int query_chart(struct store *s, const struct query *q, struct query_chart *ret, struct err *e)
{
    const struct store_column *col = &q->q.columns[q->is_diff];
    struct charting x = {.out = ret};
    struct chart_data data = {0};
    int r = 0;

    x.from = col->taken_to ? col->taken_from : col->from;
    x.to = col->taken_to ? col->taken_to : col->to;
    arena_init(&ret->arena, 0);
    ret->from = x.from;
    if (x.to - x.from > CHART_WHOLE_NS) {
        data.from = x.from;
        data.step = (x.to - x.from + CHART_SLICES - 1) / CHART_SLICES;
        r = find_data(&data, s, q, e);
        ret->sliced = r * data.step > CHART_WHOLE_NS;
    }
    ret->n_columns =
        ret->sliced ? CHART_SLICES : MIN(ret->n_columns ? ret->n_columns : CHART_COLUMNS, CHART_COLUMNS_MAX);
    ret->n_threads = MIN(ret->n_threads ? ret->n_threads : CHART_THREADS, CHART_THREADS_MAX);
    ret->step = MAX((x.to - x.from + ret->n_columns - 1) / ret->n_columns, 1);
    if (r >= 0)
        r = tree_new(1, q->q.memory_limit, &ret->tree);
    if (r == 0)
        r = collect(&x, &data, s, q, e);
    if (r == 0)
        r = choose_threads(&x);
    if (r == 0)
        r = draw(&x);
    if (r == 0)
        r = list_spans(&x);
    mem_free(x.pieces);
    mem_free(x.seen);
    mem_free(x.links);
    mem_free(x.now.node);
    mem_free(x.now.frame);
    map_done(&x.by_key);
    map_done(&x.by_link);
    if (r < 0)
        query_chart_done(ret);
    return r;
}

void query_chart_done(struct query_chart *c)
{
    tree_free(c->tree);
    c->tree = NULL;
    arena_done(&c->arena);
}
