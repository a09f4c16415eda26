/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log writer: requests in, one group commit at a time. Requests of a group are made into records (new symbols, new
 * dictionary entries, rows), written at once and synced once; then their rows become visible, their keys known, and
 * their acks are completed.
 *
 * Should the write fail for want of room, nothing of the group counts; the definitions it held stay pending and go with
 * the next record, because symbols that were added stay added. Should the sync fail, nobody knows what is on the disk:
 * the store stops acknowledging for good.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"
#include "store/engines/segment/wal_record.h"

enum { GROUP_BYTES = 8 << 20, STACK_MAX = 1 << 20, EPOCH_NODES_MAX = 16 << 20, AHEAD = 12 };

struct job {
    struct queue_item item;
    struct batch *batch;
    struct sink_context ctx;
    char tenant[128];
    struct ack *ack;
    /* while in a group */
    struct ack_result result;
    bool written;
    struct mempart *part;
    struct symbols *symbols;
    struct sym_memo *memo;
    size_t symbols_at, symbols_n, blobs_at, blobs_n; /* its definitions inside the group's buffer */
    uint32_t first_prof, first_key;
    uint64_t rows, profiles, duplicates;
};

struct writer {
    struct buf group;         /* records */
    struct dedup_entry *keys; /* of the group */
    size_t cap_keys;
    uint32_t n_keys;
    struct map key_map;
    struct arena arena; /* per request */
    uint64_t *nodes;    /* per stack of the batch: service + 1 << 32 | node */
    uint32_t *sets;     /* per offset of an attribute list: set + 1 */
    struct sym_memo memo;
};

int writer_new(struct writer **ret)
{
    struct writer *w = mem_zalloc(sizeof *w);

    if (!w)
        return -ENOMEM;
    arena_init(&w->arena, 0);
    *ret = w;
    return 0;
}

void writer_free(struct writer *w)
{
    if (!w)
        return;
    buf_done(&w->group);
    mem_free(w->keys);
    map_done(&w->key_map);
    arena_done(&w->arena);
    mem_free(w);
}

/* --- one request --- */

static bool key_known(struct engine *g, struct id128 key)
{
    struct writer *w = g->writer;

    for (struct map_pos p = map_find(&w->key_map, key.hi); p.index != MAP_NONE; p = map_next(&w->key_map, p))
        if (id128_eq(w->keys[p.index].key, key))
            return true;
    return dedup_has(&g->dedup, key);
}

static int add_key(struct writer *w, struct id128 key, int64_t now)
{
    int r = mem_grow((void **) &w->keys, &w->cap_keys, (size_t) w->n_keys + 1, sizeof *w->keys, 1 << 24);

    if (r == 0)
        r = map_insert(&w->key_map, key.hi, w->n_keys);
    if (r == 0)
        w->keys[w->n_keys++] = (struct dedup_entry){key, now};
    return r;
}

static int begin_memo(struct writer *w, const struct batch *b)
{
    int r = sym_memo_init(&w->memo, b, &w->arena);

    w->sets = NULL;
    w->nodes = arena_zalloc_array(&w->arena, b->dict.n_stacks + 1, sizeof *w->nodes);
    if (!w->nodes)
        return -ENOMEM;
    if (r == 0)
        prints_samples(&w->memo.prints, b->samples, b->n_samples);
    return r;
}

static int find_node(struct writer *w, struct symbols *s, uint32_t service, uint32_t stack, uint32_t *ret)
{
    uint64_t v = w->nodes[stack];
    uint32_t node;

    if (likely(v >> 32 == service + 1ull)) {
        *ret = (uint32_t) v;
        return 0;
    }
    node = symbols_stack(s, &w->memo, service, stack);
    if (node == UINT32_MAX)
        return -ENOMEM;
    w->nodes[stack] = (service + 1ull) << 32 | node;
    *ret = node;
    return 0;
}

static int find_set(struct writer *w, struct mempart *part, const struct batch *b, struct run attrs, uint32_t *ret)
{
    uint32_t v;

    *ret = 0;
    if (!attrs.n)
        return 0;
    if (!w->sets)
        w->sets = arena_zalloc_array(&w->arena, b->dict.n_indices + 1, sizeof *w->sets);
    if (!w->sets)
        return -ENOMEM;
    v = w->sets[attrs.off];
    if (!v) {
        uint32_t set = blobs_set(&part->blobs, b, attrs);

        if (set == UINT32_MAX)
            return -ENOMEM;
        w->sets[attrs.off] = v = set + 1;
    }
    *ret = v - 1;
    return 0;
}

static uint32_t make_header(struct mempart *part, const struct batch *b, const struct intake *in,
                            const struct intake_item *it)
{
    const struct profile *p = &b->profiles[it->profile];
    struct blobs *blobs = &part->blobs;
    struct blob_header h = {
        .type = batch_string(b, p->types[it->type_index].type),
        .unit = batch_string(b, p->types[it->type_index].unit),
        .scale = it->scale,
        .period_type = batch_string(b, p->period_type.type),
        .period_unit = batch_string(b, p->period_type.unit),
        .period = p->period,
        .default_type = p->default_type,
        .dropped = p->dropped_attrs,
    };

    if (it->has_twin) {
        h.twin_type = batch_string(b, it->twin.type);
        h.twin_unit = batch_string(b, it->twin.unit);
        h.twin_scale = it->twin_scale;
    }
    h.resource = blobs_resource(blobs, &b->resources[it->resource], in->resources[it->resource].instance);
    h.scope = blobs_scope(blobs, &b->scopes[it->scope]);
    h.attrs = blobs_set(blobs, b, p->attrs);
    if (h.resource == UINT32_MAX || h.scope == UINT32_MAX || h.attrs == UINT32_MAX)
        return UINT32_MAX;
    return blobs_header(blobs, &h);
}

static uint64_t cut_timestamp(uint64_t t, enum store_timestamps how)
{
    return how == TIMESTAMPS_US ? t - t % 1000 : how == TIMESTAMPS_MS ? t - t % 1000000 : t;
}

struct filling {
    struct engine *g;
    const struct batch *b;
    const struct intake_item *it;
    struct mempart *part;
    struct symbols *symbols;
    uint32_t service;
    struct prof *out;
    uint32_t rows, extras;
};

static void put_row(struct filling *f, uint32_t node, int64_t value, const struct extra *x)
{
    struct prof *p = f->out;

    if (x) {
        p->extras[f->extras++] = *x;
        p->rows[f->rows++] = (struct row){node, f->extras, value};
    } else {
        p->rows[f->rows++] = (struct row){node, 0, value};
    }
    p->value += value;
}

static int fill_sample(struct filling *f, uint32_t index)
{
    const struct sample *s = &f->b->samples[index];
    struct extra x = {.has_link = s->link != 0};
    uint32_t node;
    bool stamped = s->timestamps.n && f->g->config.timestamps != TIMESTAMPS_OFF;
    int r = find_node(f->g->writer, f->symbols, f->service, s->stack, &node);

    if (r == 0)
        r = find_set(f->g->writer, f->part, f->b, s->attrs, &x.attrs);
    if (r < 0)
        return r;
    if (x.has_link)
        x.link = f->b->dict.links[s->link];
    if (!stamped) {
        int64_t v = intake_value(f->b, f->it, index);

        if (v)
            put_row(f, node, v, x.has_link || x.attrs ? &x : NULL);
        return 0;
    }
    for (uint32_t i = 0; i < s->timestamps.n; i++) {
        int64_t v = s->values.n ? f->b->values[s->values.off + i] : 1;

        x.timestamp = cut_timestamp(f->b->timestamps[s->timestamps.off + i], f->g->config.timestamps);
        put_row(f, node, intake_scale(v, f->it->scale), &x);
    }
    return 0;
}

static void count_rows(const struct batch *b, const struct profile *p, uint32_t *rows, uint32_t *extras)
{
    *rows = *extras = 0;
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];
        uint32_t n = s->timestamps.n ? s->timestamps.n : 1;

        *rows += n;
        if (s->timestamps.n || s->attrs.n || s->link)
            *extras += n;
    }
}

static int add_item(struct engine *g, struct job *j, const struct intake *in, const struct intake_profile *ip,
                    const struct intake_item *it)
{
    const struct batch *b = j->batch;
    const struct profile *p = &b->profiles[it->profile];
    const struct intake_resource *res = &in->resources[it->resource];
    struct filling f = {.g = g, .b = b, .it = it, .part = j->part, .symbols = j->symbols};
    uint32_t series = symbols_series(j->symbols, &it->type, &res->labels, res->labels_id), rows, extras;
    int r = 0;

    if (series == UINT32_MAX)
        return -ENOMEM;
    count_rows(b, p, &rows, &extras);
    f.out = mempart_add(j->part, rows, extras);
    if (!f.out)
        return -ENOMEM;
    f.service = sym_series(j->symbols, series)->service;
    f.out->series = series;
    f.out->service = f.service;
    f.out->type = sym_series(j->symbols, series)->type_name;
    f.out->gauge = it->type.rule == TYPE_GAUGE;
    f.out->instance = res->instance;
    f.out->time_ns = ip->time_ns;
    f.out->duration_ns = p->duration_ns;
    f.out->group = p->n_types > 1 || p->group ? (uint32_t) (ip->key.lo ^ p->group) | 1 : 0;
    memcpy(f.out->id, p->id, 16);
    f.out->header = make_header(j->part, b, in, it);
    if (f.out->header == UINT32_MAX)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        if (i + AHEAD < p->samples.n)
            symbols_stack_ahead(j->symbols, j->memo, f.service, b->samples[p->samples.off + i + AHEAD].stack);
        r = fill_sample(&f, p->samples.off + i);
    }
    f.out->n_rows = f.rows;
    f.out->n_extras = f.extras;
    j->rows += f.rows;
    return r;
}

static int add_profile(struct engine *g, struct job *j, const struct intake *in, const struct intake_profile *ip,
                       int64_t now)
{
    int r;

    if (ip->has_key && key_known(g, ip->key)) {
        j->duplicates++;
        return 0;
    }
    r = intake_difference(j->batch, in, ip, &g->cumulative, &g->writer->arena);
    for (uint32_t i = 0; r >= 0 && i < ip->n_items; i++)
        r = add_item(g, j, in, ip, &in->items[ip->first_item + i]);
    if (r >= 0 && ip->has_key)
        r = add_key(g->writer, ip->key, now);
    j->profiles++;
    return r;
}

static int find_symbols(struct engine *g, struct job *j, struct err *e)
{
    struct engine_tenant *t = engine_find_tenant(g, j->tenant);
    struct engine_epoch *k;
    int r;

    if (!t) {
        r = engine_add_tenant(g, g->n_tenants + 1, j->tenant, &t, e);
        if (r < 0)
            return r;
    }
    if (!t->epochs) {
        r = engine_add_epoch(g, t, 1, engine_now(g), &k);
        if (r < 0)
            return r;
    }
    j->symbols = t->epochs->symbols;
    return memtable_part(g->active, j->symbols, &j->part);
}

/* Pending definitions begin with the counts they start from. */
static void begin_defs(struct job *j)
{
    j->part->blobs.recording = true;
    if (!j->symbols->defs.n)
        symbols_put_start(j->symbols, &j->symbols->defs);
    if (!j->part->blobs.defs.n)
        blobs_put_start(&j->part->blobs, &j->part->blobs.defs);
}

static int put_defs(struct buf *group, struct buf *defs, size_t *ret_at, size_t *ret_n)
{
    put_varint(group, defs->n);
    *ret_at = group->n;
    *ret_n = defs->n;
    buf_put(group, defs->p, defs->n);
    return buf_error(defs);
}

/* The record of a request whose profs are [first_prof, n_added) of its part. */
static int put_record(struct engine *g, struct job *j)
{
    struct buf *b = &g->writer->group;
    struct writer *w = g->writer;
    size_t at = b->n;
    int r;

    buf_pad(b, 0, LOG_RECORD);
    put_varint(b, j->symbols->tenant);
    put_varint(b, j->symbols->epoch);
    put_bytes(b, j->tenant, strlen(j->tenant));
    r = put_defs(b, &j->symbols->defs, &j->symbols_at, &j->symbols_n);
    if (r == 0)
        r = put_defs(b, &j->part->blobs.defs, &j->blobs_at, &j->blobs_n);
    put_varint(b, w->n_keys - j->first_key);
    for (uint32_t i = j->first_key; i < w->n_keys; i++) {
        put_u64(b, w->keys[i].key.hi);
        put_u64(b, w->keys[i].key.lo);
        put_zigzag(b, w->keys[i].time_ns);
    }
    put_varint(b, j->part->n_added - j->first_prof);
    for (uint32_t i = j->first_prof; i < j->part->n_added; i++)
        record_put_prof(b, stable_at(&j->part->profs, i));
    if (r == 0)
        r = buf_error(b);
    if (r < 0)
        return r;
    log_frame(b, at, ++g->lsn);
    buf_put(&j->part->defs, j->symbols->defs.p, j->symbols->defs.n);
    buf_reset(&j->symbols->defs);
    buf_reset(&j->part->blobs.defs);
    return buf_error(&j->part->defs);
}

/* A stack by what it is made of. */
static struct id128 stack_id(void *ctx, uint32_t stack)
{
    struct job *j = ctx;

    return prints_stack(&j->memo->prints, stack);
}

static int make_record(struct engine *g, struct job *j, struct err *e)
{
    struct writer *w = g->writer;
    int64_t now = engine_now(g);
    struct intake in;
    int r = find_symbols(g, j, e);

    if (r == 0)
        r = begin_memo(w, j->batch);
    if (r < 0)
        return r;
    j->memo = &w->memo;
    begin_defs(j);
    r = intake_plan(j->batch, &j->ctx, &g->limits, now, stack_id, j, &w->arena, &in);
    if (r < 0)
        return r;
    j->first_prof = j->part->n_added;
    j->first_key = w->n_keys;
    for (uint32_t i = 0; r >= 0 && i < in.n_profiles; i++)
        r = add_profile(g, j, &in, &in.profiles[i], now);
    if (r >= 0)
        r = put_record(g, j);
    if (r < 0) {
        j->part->n_added = j->first_prof;
        return r;
    }
    j->result.rejected = in.rejected;
    snprintf(j->result.message, sizeof j->result.message, "%s", in.message);
    g->active->bytes += j->rows * (sizeof(struct row) + 4) + j->profiles * sizeof(struct prof);
    return 0;
}

/* --- the group --- */

static void fail_job(struct job *j, enum sink_status status, int64_t retry, const char *why)
{
    j->result = (struct ack_result){.status = status, .retry_ns = retry};
    snprintf(j->result.message, sizeof j->result.message, "%s", why);
}

/* Nothing of the group counts. What it defined is defined all the same: it goes with the next record. */
static void undo_group(struct engine *g, struct job *jobs)
{
    for (struct job *j = jobs; j; j = (struct job *) j->item.next) {
        if (!j->written)
            continue;
        buf_put(&j->symbols->defs, g->writer->group.p + j->symbols_at, j->symbols_n);
        buf_put(&j->part->blobs.defs, g->writer->group.p + j->blobs_at, j->blobs_n);
        j->part->defs.n -= MIN(j->part->defs.n, j->symbols_n);
        j->part->n_added = MIN(j->part->n_added, j->first_prof);
        j->written = false;
    }
    cumulative_done(&g->cumulative); /* its values ran ahead: every instance begins with a new base */
}

static void stop(struct engine *g, int r)
{
    snprintf(g->stop_reason, sizeof g->stop_reason,
             "the log could not be synced (%s): nothing more is acknowledged until the store is opened again",
             strerror(-r));
    atomic_store(&g->stopped, true);
    pthread_mutex_lock(&g->lock);
    g->stats.stopped = true;
    pthread_mutex_unlock(&g->lock);
}

static void accept_group(struct engine *g, struct job *jobs)
{
    struct writer *w = g->writer;

    for (uint32_t i = 0; i < w->n_keys; i++) {
        dedup_add(&g->dedup, w->keys[i].key, w->keys[i].time_ns); /* without memory a duplicate is possible, no loss */
        memtable_add_key(g->active, w->keys[i].key, w->keys[i].time_ns);
    }
    pthread_mutex_lock(&g->lock);
    for (struct job *j = jobs; j; j = (struct job *) j->item.next) {
        if (!j->written)
            continue;
        mempart_publish(j->part);
        g->stats.profiles += j->profiles;
        g->stats.samples += j->rows;
        g->stats.duplicates += j->duplicates;
        g->stats.rejected += j->result.rejected;
        g->active->n_profs += j->profiles;
        g->active->n_rows += j->rows;
    }
    g->stats.syncs++;
    pthread_mutex_unlock(&g->lock);
    if (!g->active->created)
        g->active->created = clock_mono();
}

static void complete(struct job *jobs)
{
    struct job *next;

    for (struct job *j = jobs; j; j = next) {
        next = (struct job *) j->item.next;
        ack_complete(j->ack, &j->result);
        batch_unref(j->batch);
        mem_free(j);
    }
}

static bool space_is_low(struct engine *g)
{
    double min = g->config.min_free ? g->config.min_free : 0.05;
    int64_t now = clock_mono();
    uint64_t free, total;

    if (min < 0)
        return false;
    if (!g->space_checked || now - g->space_checked > NS_PER_S || g->config.manual) {
        g->space_checked = now;
        g->space_low = fd_space(g->dir_fd, &free, &total) == 0 && total && (double) free < min * (double) total;
    }
    return g->space_low;
}

static void prepare_jobs(struct engine *g, struct job *jobs)
{
    for (struct job *j = jobs; j; j = (struct job *) j->item.next) {
        struct err e = {0};
        int r;

        arena_done(&g->writer->arena);
        r = make_record(g, j, &e);
        j->written = r >= 0;
        if (r < 0)
            fail_job(j, r == -E2BIG ? SINK_INVALID : SINK_UNAVAILABLE, NS_PER_S, err_message(&e, r));
    }
}

static void write_group(struct engine *g, struct job *jobs)
{
    struct writer *w = g->writer;
    int r;

    buf_reset(&w->group);
    w->n_keys = 0;
    map_reset(&w->key_map);
    prepare_jobs(g, jobs);
    r = w->group.n ? log_write(&g->log, w->group.p, w->group.n) : 0;
    if (r < 0) {
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            if (j->written)
                fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S,
                         r == -ENOSPC ? "no space left on the disk" : "cannot write the log");
        undo_group(g, jobs);
        if (r != -ENOSPC)
            stop(g, r);
        return;
    }
    r = w->group.n && !g->config.async ? log_sync(&g->log) : 0;
    if (r < 0) {
        stop(g, r);
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S, g->stop_reason);
        return;
    }
    accept_group(g, jobs);
}

static uint32_t count_memtables(struct engine *g)
{
    uint32_t n;

    pthread_mutex_lock(&g->lock);
    n = g->snapshot ? g->snapshot->n_memtables : 0;
    pthread_mutex_unlock(&g->lock);
    return n;
}

static void wake_flusher(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    g->flush_wanted = true;
    pthread_cond_signal(&g->flush_wake);
    pthread_mutex_unlock(&g->lock);
}

/* Writes one group and completes it. */
static void commit_jobs(struct engine *g, struct job *jobs)
{
    size_t limit = g->config.memory ? g->config.memory : 64 << 20;
    const char *refuse = NULL;

    pthread_mutex_lock(&g->write_lock);
    if (atomic_load(&g->stopped))
        refuse = g->stop_reason;
    else if (space_is_low(g))
        refuse = "the disk is nearly full: writes wait until there is room";
    else if (count_memtables(g) > SEALED_MAX)
        refuse = "segments cannot be written fast enough";
    if (refuse)
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S, refuse);
    else
        write_group(g, jobs);
    if (g->config.async) { /* acknowledged when written; the sync follows */
        complete(jobs);
        jobs = NULL;
        if (!refuse && !atomic_load(&g->stopped) && g->writer->group.n) {
            int r = log_sync(&g->log);

            if (r < 0)
                stop(g, r);
        }
    }
    if (!refuse && g->active->bytes >= limit && !atomic_load(&g->stopped) && engine_seal(g, NULL) >= 0)
        wake_flusher(g);
    pthread_mutex_unlock(&g->write_lock);
    complete(jobs);
}

/* Cuts a list of jobs into groups of at most GROUP_BYTES. */
static void commit_all(struct engine *g, struct queue_item *items)
{
    while (items) {
        struct queue_item *last = items, *next;
        size_t bytes = batch_memory(((struct job *) items)->batch);

        while (last->next && bytes < GROUP_BYTES) {
            last = last->next;
            bytes += batch_memory(((struct job *) last)->batch);
        }
        next = last->next;
        last->next = NULL;
        commit_jobs(g, (struct job *) items);
        items = next;
    }
}

void *engine_writer_run(void *arg)
{
    struct engine *g = arg;
    struct queue_item *items;

    while ((items = queue_wait(&g->queue, -1)))
        commit_all(g, items);
    return NULL;
}

void engine_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct engine *g = to_engine(s);
    struct job *j;

    if (strlen(ctx->tenant) >= sizeof j->tenant) {
        ack_fail(ack, SINK_INVALID, 0, "a tenant's name has at most %zu bytes", sizeof j->tenant - 1);
        return;
    }
    j = g->config.read_only ? NULL : mem_zalloc(sizeof *j);
    if (!j) {
        ack_fail(ack, g->config.read_only ? SINK_DENIED : SINK_UNAVAILABLE, NS_PER_S,
                 g->config.read_only ? "the store is open for reading only" : "no memory");
        return;
    }
    j->batch = batch_ref(b);
    j->ctx = *ctx;
    snprintf(j->tenant, sizeof j->tenant, "%s", ctx->tenant);
    j->ctx.tenant = j->tenant;
    j->ctx.peer = NULL;
    j->ack = ack;
    if (!g->has_writer) {
        commit_all(g, &j->item);
        return;
    }
    if (queue_push(&g->queue, &j->item) < 0) {
        fail_job(j, SINK_UNAVAILABLE, NS_PER_S, "too many requests are waiting for the disk");
        complete(j);
    }
}

/* --- logs --- */

int engine_begin_log(struct engine *g, struct err *e)
{
    struct memtable *m;
    struct log log;
    int r = memtable_new(g->next_log, &m);

    if (r < 0)
        return r;
    r = log_create(g->log_dir, g->next_log, &log, e);
    if (r == 0) {
        r = snapshot_publish(g, &(struct snapshot_change){.add_memtable = m});
        if (r < 0)
            log_close(&log);
    }
    if (r < 0) {
        memtable_unref(m);
        return r;
    }
    if (g->active)
        log_close(&g->log);
    memtable_unref(g->active);
    g->active = m;
    g->log = log;
    g->next_log++;
    return 0;
}

/* Symbols that have grown large or old give way to a new epoch, with the next memtable. */
static void roll_epochs(struct engine *g)
{
    int64_t now = engine_now(g), keep = g->config.keep > 0 ? g->config.keep : 30 * 86400 * NS_PER_S;

    for (uint32_t i = 0; i < g->n_tenants; i++) {
        struct engine_epoch *k = g->tenants[i]->epochs, *next;
        uint64_t nodes = 0;

        for (uint32_t v = 0; k && v < stable_count(&k->symbols->services); v++)
            nodes += stable_count(&sym_service(k->symbols, v)->nodes);
        if (k && !k->symbols->defs.n && (nodes > EPOCH_NODES_MAX || now - k->born > keep / 2 + 86400 * NS_PER_S))
            engine_add_epoch(g, g->tenants[i], k->epoch + 1, now, &next); /* without memory: later */
    }
}

int engine_seal(struct engine *g, struct err *e)
{
    int r;

    if (!g->active->parts)
        return 0;
    r = engine_begin_log(g, e);
    if (r == 0)
        roll_epochs(g);
    return r;
}

int writer_log_definitions(struct engine *g, struct engine_tenant *t, struct symbols *s, struct err *e)
{
    struct job j = {.symbols = s};
    int r = memtable_part(g->active, s, &j.part);

    if (r < 0)
        return r;
    snprintf(j.tenant, sizeof j.tenant, "%s", t->name);
    j.first_prof = j.part->n_added;
    j.part->blobs.recording = true;
    if (!j.part->blobs.defs.n)
        blobs_put_start(&j.part->blobs, &j.part->blobs.defs);
    buf_reset(&g->writer->group);
    g->writer->n_keys = 0;
    r = put_record(g, &j);
    if (r == 0)
        r = log_write(&g->log, g->writer->group.p, g->writer->group.n);
    if (r < 0)
        return err_set(e, r, "cannot log names: %m");
    r = log_sync(&g->log);
    if (r < 0) {
        stop(g, r);
        return err_set(e, r, "%s", g->stop_reason);
    }
    return 0;
}
