/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds the memory of the store, and divides it between tenants. The log writer counts symbols (stacks and names of all
 * epochs). Data that only the writer needs is freed for epochs that are no longer written to. When an epoch has grown to a
 * quarter of the bound, or to half of its tenant's share, a new epoch begins, so that a query needs no more than that at a
 * time. When all epochs together reach a quarter of the bound, the flusher moves the symbols of earlier epochs to files, from
 * which the kernel reads what queries use; their room on the disk counts for retention by size.
 *
 * A tenant's share is the bound divided by the number of tenants that have more than a little, and one more. A tenant may
 * exceed it while half of the bound is free. Where moving symbols to files does not keep up, or is impossible, requests
 * with new stacks are refused: those of tenants over their share first, and large ones before small ones. Acknowledged
 * data is never dropped for this. Queries announce how much memory they are about to need, and are refused if that is too
 * much.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/fd.h"
#include "store/engines/segment/engine.h"

/* STACK_BYTES is the approximate memory of a new stack, most of which only the writer needs. */
/* PIECES_MAX: the kernel allows a process 65,530 mappings. */
enum {
    COUNT_BYTES = 1 << 20,
    FEW_STACKS = 2000,
    STACK_BYTES = 100,
    PAGE_OUT_BYTES = 8 << 20,
    LITTLE = 64,
    EPOCH_SHARE = 16,
    EPOCH_BYTES_MIN = 256 << 10,
    PIECES_MAX = 16384
};

#define COUNT_EVERY (100 * NS_PER_MS)

static size_t count_epochs(struct engine *g, struct engine_tenant *t, bool tight)
{
    size_t sum = 0;

    for (struct engine_epoch *k = t->epochs; k; k = k->next) {
        size_t maps, bytes = symbols_bytes(k->symbols, &maps);

        if (k != t->epochs && maps && tight) { /* names arrived for it later */
            symbols_drop_maps(k->symbols);
            bytes -= maps;
        }
        sum += bytes;
    }
    return sum;
}

void engine_count_memory(struct engine *g, bool at_once)
{
    size_t limit = g->config.dictionary, sum = 0;
    int64_t now = clock_mono();
    bool tight = limit && atomic_load(&g->dictionary) > limit / 2;

    if (!at_once && now - g->counted < COUNT_EVERY && g->active && g->active->bytes - g->counted_bytes < COUNT_BYTES)
        return;
    g->counted = now;
    g->counted_bytes = g->active ? g->active->bytes : 0;
    g->n_hungry = 0;
    for (uint32_t i = 0; i < engine_n_tenants(g); i++) {
        size_t own = count_epochs(g, engine_tenant_at(g, i), tight);

        atomic_store(&engine_tenant_at(g, i)->dictionary, own);
        g->n_hungry += own > limit / LITTLE;
        sum += own;
    }
    atomic_store(&g->dictionary, sum);
    if (limit && sum > limit / 4 && g->has_flusher)
        engine_wake_flusher(g);
}

/* What one tenant may have when memory is scarce. */
static size_t share_of(const struct engine *g) _locked_(g->write_lock)
{
    return engine_n_tenants(g) > 1 ? g->config.dictionary / (MAX(g->n_hungry, 1) + 1) : g->config.dictionary;
}

bool engine_takes_stacks(struct engine *g, const struct engine_tenant *t, uint32_t n_stacks)
{
    size_t limit = g->config.dictionary, more = (size_t) n_stacks * STACK_BYTES;
    size_t all = atomic_load(&g->dictionary) + more, own = atomic_load(&t->dictionary) + more;

    if (!limit || all < limit / 2)
        return true;
    return own < share_of(g) + (engine_n_tenants(g) > 1 ? 0 : limit / 4) &&
           all < (n_stacks <= FEW_STACKS ? limit + limit / 4 : limit);
}

/* Returns false when nothing of this epoch can be moved. */
static bool page_out(struct engine *g, struct engine_tenant *t, struct symbols *s)
{
    struct symbols_paging x;
    size_t before = s->out, pieces = s->n_out;
    bool some = false;
    int r;

    pthread_mutex_lock(&g->write_lock);
    if (atomic_load(&g->paged_pieces) < PIECES_MAX)
        some = symbols_page_begin(s, PAGE_OUT_BYTES, &x);
    pthread_mutex_unlock(&g->write_lock);
    if (!some)
        return false;
    r = symbols_page_write(&x, t->sym_dir);
    if (r == 0) {
        pthread_mutex_lock(&g->write_lock);
        symbols_page_end(&x);
        engine_count_memory(g, true);
        pthread_mutex_unlock(&g->write_lock);
    }
    fd_close(x.fd);
    atomic_fetch_add(&g->paged, s->out - before);
    atomic_fetch_add(&g->paged_pieces, s->n_out - pieces);
    return s->out > before;
}

void engine_page_out(struct engine *g)
{
    for (uint32_t i = 0; g->config.dictionary && !g->config.read_only && i < engine_n_tenants(g); i++) {
        struct engine_tenant *t = engine_tenant_at(g, i);

        for (struct engine_epoch *k = t->epochs ? t->epochs->next : NULL; k; k = k->next)
            while (atomic_load(&g->dictionary) > g->config.dictionary / 4 && page_out(g, t, k->symbols))
                ;
    }
}

/* Retention by size drops symbols by whole epochs. */
static bool is_large_on_disk(const struct engine *g, const struct engine_tenant *t)
{
    uint64_t limit = engine_tenant_limit(g, t) / EPOCH_SHARE;

    return t->epochs && atomic_load(&t->epochs)->bytes > MAX(limit, (uint64_t) EPOCH_BYTES_MIN);
}

/* Whether it is large, or makes its tenant reach its share, and there will be memory for another when its maps are freed. */
bool engine_epoch_is_large(struct engine *g, const struct engine_tenant *t)
{
    size_t limit = g->config.dictionary, all = atomic_load(&g->dictionary), share = share_of(g), maps, bytes;

    if (is_large_on_disk(g, t))
        return true;
    if (!limit || !t->epochs)
        return false;
    bytes = symbols_bytes(atomic_load(&t->epochs)->symbols, &maps);
    if (all - MIN(maps, all) >= limit / 4 * 3)
        return false;
    return bytes > MIN(limit / 4, share / 2) || (atomic_load(&t->dictionary) > share / 4 * 3 && bytes > share / 8);
}

bool engine_wants_epoch(struct engine *g)
{
    if (!g->config.dictionary || atomic_load(&g->dictionary) <= MIN(g->config.dictionary / 4, share_of(g) / 2))
        return false;
    for (uint32_t i = 0; i < engine_n_tenants(g); i++)
        if (engine_epoch_is_large(g, engine_tenant_at(g, i)))
            return true;
    return false;
}

int engine_take_answer(struct engine *g, size_t bytes, struct err *e)
{
    size_t limit = g->config.answers, others = atomic_fetch_add(&g->answering, bytes);

    if (!limit || others + bytes <= limit || (!others && bytes <= 2 * limit))
        return 0;
    atomic_fetch_sub(&g->answering, bytes);
    return others
               ? err_set(e, -EAGAIN, "too many large queries at once for limits.memory; retry later")
               : err_set(e, -E2BIG, "the query needs %zu MiB of memory, more than limits.memory allows", bytes >> 20);
}

void engine_give_answer(struct engine *g, size_t bytes)
{
    atomic_fetch_sub(&g->answering, bytes);
}
