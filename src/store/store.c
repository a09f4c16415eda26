/* SPDX-License-Identifier: Apache-2.0 */
/* What is common to all engines of store.h: the list of engines, opening, synchronous appends, optional operations. */
#include "store/store.h"

#include <errno.h>
#include <pthread.h>

#include "base/mem.h"

static const struct store_ops *const engines[] = {&store_segment, &store_memory, &store_clickhouse};

const struct store_ops *store_engine(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
        if (str_is(name, engines[i]->name))
            return engines[i];
    return NULL;
}

const struct store_ops *store_engine_of(struct str place)
{
    uint32_t n = 0;

    while (n < place.n && place.p[n] >= 'a' && place.p[n] <= 'z')
        n++;
    if (n && n < place.n &&
        (str_is(str_slice(place, n, place.n), ":") || str_starts(str_slice(place, n, place.n), STR("://"))))
        return store_engine(str_slice(place, 0, n));
    return engines[0];
}

static void sink_to_store(struct sink *sink, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    store_append(container_of(sink, struct store, sink), data.batch, ctx, ack);
}

int store_check_config(const struct store_ops *ops, const struct store_config *c, struct err *e)
{
    if (c->cold && !ops->takes_cold)
        return err_set(e, -EINVAL, "store.cold is only possible with a store in a directory (engine segment)");
    if (c->spool && !ops->takes_spool)
        return err_set(e, -EINVAL, "store.ack: spool is only possible with ClickHouse: store.dir: clickhouse://...");
    return ops->check_config ? ops->check_config(c, e) : 0;
}

int store_open(const struct store_ops *ops, const struct store_config *c, struct store **ret, struct err *e)
{
    struct store *s;
    int r = ops ? ops->open(c, &s, e) : err_set(e, -EINVAL, "no storage engine can open '%s'", c->dir ? c->dir : "");

    if (r < 0)
        return r;
    s->ops = ops;
    s->sink.consume = sink_to_store;
    s->labels = c->allow ? c->allow : labels_default_allow;
    *ret = s;
    return 0;
}

int store_open_place(const struct store_config *c, struct store **ret, struct err *e)
{
    return store_open(store_engine_of(str_from(c->dir)), c, ret, e);
}

void store_interrupt(struct store *s)
{
    if (s && s->ops->interrupt)
        s->ops->interrupt(s);
}

void store_close(struct store *s)
{
    if (s)
        s->ops->close(s);
}

struct waiter {
    struct ack ack;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    struct ack_result result;
};

static void waiter_done(struct ack *a, const struct ack_result *r)
{
    struct waiter *w = container_of(a, struct waiter, ack);

    pthread_mutex_lock(&w->lock);
    w->result = *r;
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

int store_append_wait(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack_result *ret)
{
    struct waiter w = {.ack = {waiter_done}, .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

    store_append(s, b, ctx, &w.ack);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    if (ret)
        *ret = w.result;
    return w.result.status == SINK_OK ? 0 : -EIO;
}

static int not_supported(const struct store *s, const char *what, struct err *e)
{
    return err_set(e, -ENOTSUP, "the storage engine '%s' does not support %s", s->ops->name, what);
}

int store_flush(struct store *s, struct err *e)
{
    return s->ops->flush ? s->ops->flush(s, e) : 0;
}

int store_snapshot(struct store *s, const char *dir, struct err *e)
{
    return s->ops->snapshot ? s->ops->snapshot(s, dir, e) : not_supported(s, "snapshots", e);
}

int store_check(struct store *s, store_report_fn fn, void *ctx, struct err *e)
{
    return s->ops->check ? s->ops->check(s, fn, ctx, e) : not_supported(s, "check", e);
}

int store_points_init(const struct store_query *q, const struct store_series_query *sq, struct store_points *ret,
                      struct err *e)
{
    const struct store_column *c = &q->columns[0];

    if (sq->step <= 0 || c->to <= c->from || (c->to - c->from) / sq->step > 1 << 20)
        return err_set(e, -EINVAL, "the time range has too many steps, or none");
    if (sq->n_by > STORE_BY_MAX)
        return err_set(e, -EINVAL, "at most %d labels can be grouped by", STORE_BY_MAX);
    *ret = (struct store_points){.from = c->from, .step = sq->step};
    ret->n_points = (uint32_t) ((c->to - c->from - 1) / sq->step + 1);
    arena_init(&ret->arena, q->memory_limit);
    return 0;
}

int store_points_fit(const struct store_query *q, const struct store_points *p, size_t n_rows)
{
    return q->memory_limit && n_rows > q->memory_limit / sizeof *p->values / p->n_points ? -E2BIG : 0;
}

int store_points_refuse(const struct store_points *p, struct err *e)
{
    return err_set(e, -E2BIG,
                   "the answer would have more than %u series of %u points each: group by fewer labels, select less, "
                   "or use a longer step",
                   p->n_series, p->n_points);
}

void store_points_done(struct store_points *p)
{
    mem_free(p->values);
    p->values = NULL;
    arena_done(&p->arena);
}

int store_confirm_parse(struct str name, enum store_confirm *ret, struct err *e)
{
    if (!str_is(name, "clock") && !str_is(name, "damage"))
        return err_set(e, -EINVAL, "'%.*s' cannot be confirmed; only 'clock' and 'damage' can", STR_FMT(name));
    *ret = str_is(name, "clock") ? STORE_CONFIRM_CLOCK : STORE_CONFIRM_DAMAGE;
    return 0;
}
