/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to locations that were stored without, when a symbolizer finds them later; see writer.h. They pass through
 * the log writer's queue and group commits like requests, a few thousand addresses per job, so that a million of them
 * do not block incoming data. The caller waits.
 */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "model/symbolizer.h"
#include "store/engines/segment/write/writer.h"

enum { JOB_ADDRESSES = 2048, LINES_MAX = 64 };

/* --- the writer's side --- */

static int name_one(struct symbols *s, uint32_t location, const struct symbol_answer *a, uint32_t i)
{
    _uninit_ struct sym_line lines[LINES_MAX];
    uint32_t n = 0;

    for (uint32_t k = a->first[i]; k < a->first[i + 1] && n < LINES_MAX; k++) {
        const struct symbol_frame *f = &a->frames[k];
        struct sym_function fn = {symbols_string(s, f->function), symbols_string(s, f->system_name),
                                  symbols_string(s, f->file), f->start_line};
        uint32_t id = fn.name == UINT32_MAX || fn.system_name == UINT32_MAX || fn.file == UINT32_MAX
                          ? UINT32_MAX
                          : symbols_function(s, &fn);

        if (id == UINT32_MAX)
            return -ENOMEM;
        lines[n++] = (struct sym_line){id, f->line, f->column};
    }
    return symbols_name(s, location, lines, n);
}

int writer_make_names(struct engine *g, struct job *j, struct err *e)
{
    const struct job_names *n = &j->names;
    struct engine_tenant *t = engine_find_tenant(g, j->tenant);
    struct engine_epoch *k = t ? engine_find_epoch(t, n->epoch) : NULL;
    uint32_t mapping = k ? symbols_find_binary(k->symbols, n->build_id) : UINT32_MAX;
    size_t before;
    int r;

    if (mapping == UINT32_MAX) /* the epoch is gone, or does not have the binary */
        return 1;
    j->symbols = k->symbols;
    r = writer_begin_defs(g, j);
    if (r < 0)
        return err_set(e, r, "out of memory");
    before = j->symbols->defs.n;
    for (uint32_t i = n->from; r == 0 && i < n->to; i++) {
        uint32_t location = symbols_find_native(j->symbols, mapping, n->addresses[i]);

        if (location != UINT32_MAX)
            r = name_one(j->symbols, location, n->answer, i);
    }
    if (r == 0 && j->symbols->defs.n == before)
        return 1;
    j->first_prof = j->part->n_added;
    j->first_key = g->writer->n_keys;
    if (r == 0)
        r = writer_put_record(g, j);
    return r < 0 ? err_set(e, r, "out of memory") : 0;
}

/* --- the caller's side --- */

struct naming {
    struct ack ack; /* held by every job */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    struct ack_result result;
};

static void all_done(struct ack *a, const struct ack_result *r)
{
    struct naming *n = container_of(a, struct naming, ack);

    pthread_mutex_lock(&n->lock);
    n->result = *r;
    n->done = true;
    pthread_cond_signal(&n->cond);
    pthread_mutex_unlock(&n->lock);
}

static int submit(struct engine *g, const char *tenant, const struct job_names *names, struct naming *n)
{
    struct job *j = mem_zalloc(sizeof *j);

    if (!j)
        return -ENOMEM;
    j->names = *names;
    j->ack = &n->ack;
    snprintf(j->tenant, sizeof j->tenant, "%s", tenant);
    ack_hold(&n->ack, 1);
    writer_submit(g, j);
    return 0;
}

/* Numbers of the tenant's epochs, newest first; at most max. */
static uint32_t list_epochs(struct engine *g, struct engine_tenant *t, uint32_t *v, uint32_t max)
{
    uint32_t n = 0;

    pthread_mutex_lock(&g->lock);
    for (struct engine_epoch *k = t->epochs; k && n < max; k = k->next)
        v[n++] = k->epoch;
    pthread_mutex_unlock(&g->lock);
    return n;
}

int engine_name_later(struct store *store, const char *tenant, struct str build_id, const uint64_t *addresses,
                      const struct symbol_answer *answer, struct err *e)
{
    struct engine *g = to_engine(store);
    struct engine_tenant *t = engine_find_tenant(g, tenant);
    struct naming n = {.ack = {all_done}, .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    uint32_t epochs[256], n_epochs = t && !g->config.read_only ? list_epochs(g, t, epochs, ARRAY_SIZE(epochs)) : 0;
    int r = 0;

    for (uint32_t k = 0; r == 0 && k < n_epochs; k++)
        for (uint32_t i = 0; r == 0 && i < answer->n_addresses; i += JOB_ADDRESSES)
            r = submit(g, tenant,
                       &(struct job_names){.epoch = epochs[k],
                                           .from = i,
                                           .to = MIN(i + JOB_ADDRESSES, answer->n_addresses),
                                           .build_id = build_id,
                                           .addresses = addresses,
                                           .answer = answer},
                       &n);
    ack_complete(&n.ack, &(struct ack_result){.status = SINK_OK});
    pthread_mutex_lock(&n.lock);
    while (!n.done)
        pthread_cond_wait(&n.cond, &n.lock);
    pthread_mutex_unlock(&n.lock);
    if (r == 0 && n.result.status != SINK_OK)
        r = err_set(e, sink_status_retryable(&n.result) ? -EAGAIN : -EIO, "cannot log names: %s", n.result.message);
    return r;
}
