/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds the memory of the store. The log writer counts symbols (stacks and names of all epochs). Data that only the
 * writer needs is freed for epochs that are no longer written to. When an epoch has grown to a quarter of the bound, a
 * new epoch begins, so that a query needs no more than that at a time. When all epochs together reach the bound, large
 * requests with new stacks are refused until retention drops an epoch; at a quarter over the bound, all requests with
 * new stacks are refused, so that a flood from one sender does not immediately shut out the others. Acknowledged data
 * is never dropped for this. Queries announce how much memory they are about to need, and are refused if that is too
 * much.
 */
#include <errno.h>

#include "base/clock.h"
#include "store/engines/segment/engine.h"

/* STACK_BYTES is the approximate memory of a new stack, most of which only the writer needs. */
enum { COUNT_BYTES = 1 << 20, FEW_STACKS = 2000, STACK_BYTES = 100 };

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
    for (uint32_t i = 0; i < engine_n_tenants(g); i++)
        sum += count_epochs(g, engine_tenant_at(g, i), tight);
    atomic_store(&g->dictionary, sum);
}

bool engine_takes_stacks(struct engine *g, uint32_t n_stacks)
{
    size_t limit = g->config.dictionary, bytes = atomic_load(&g->dictionary) + (size_t) n_stacks * STACK_BYTES;

    return !limit || bytes < limit || (n_stacks <= FEW_STACKS && bytes < limit + limit / 4);
}

/* Whether it is large, and there will be memory for another when its maps are freed. */
bool engine_epoch_is_large(struct engine *g, const struct engine_epoch *k)
{
    size_t limit = g->config.dictionary, all = atomic_load(&g->dictionary), maps, bytes;

    if (!limit)
        return false;
    bytes = symbols_bytes(k->symbols, &maps);
    return bytes > limit / 4 && all - MIN(maps, all) < limit / 4 * 3;
}

bool engine_wants_epoch(struct engine *g)
{
    if (!g->config.dictionary || atomic_load(&g->dictionary) <= g->config.dictionary / 4)
        return false;
    for (uint32_t i = 0; i < engine_n_tenants(g); i++) {
        struct engine_epoch *k = engine_tenant_at(g, i)->epochs;

        if (k && engine_epoch_is_large(g, k))
            return true;
    }
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
