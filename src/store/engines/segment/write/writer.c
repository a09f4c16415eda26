/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log writer: processes requests, one group commit at a time. The requests of a group are turned into records (new
 * symbols, new dictionary entries, rows), written together and synced once; then their rows become visible, their keys
 * are remembered, and their acks are completed.
 *
 * If the write fails for lack of space, nothing of the group is stored; its definitions stay pending and are written
 * with the next record, because symbols that were added stay added. Names that arrive later are jobs like requests. If
 * the sync fails, the state of the disk is unknown, and the store stops acknowledging permanently.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/write/writer.h"

enum { GROUP_BYTES = 8 << 20, EPOCH_NODES_MAX = 16 << 20, LOG_SHARE = 32 };

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
    intake_memo_done(&w->resources);
    arena_done(&w->arena);
    mem_free(w);
}

/* --- the group --- */

static void fail_job(struct job *j, enum sink_status status, int64_t retry, const char *why)
{
    j->result = (struct ack_result){.status = status, .retry_ns = retry};
    snprintf(j->result.message, sizeof j->result.message, "%s", why);
}

/* Discards the group. Its definitions remain defined: they are pending and are written with the next record. */
static void undo_group(struct engine *g, struct job *jobs)
{
    for (struct job *j = jobs; j; j = (struct job *) j->item.next) {
        if (!j->written)
            continue;
        j->symbols->defs_taken = 0;
        j->part->blobs.defs_taken = 0;
        j->part->n_added = MIN(j->part->n_added, j->first_prof);
        j->written = false;
    }
    cumulative_done(&g->cumulative); /* its values are not stored: every instance begins with a new base */
}

static void drop_front(struct buf *b, size_t *n)
{
    if (*n && *n < b->n)
        memmove(b->p, b->p + *n, b->n - *n);
    b->n -= *n;
    *n = 0;
}

/* The group is in the log: its definitions are no longer pending, and the memtable keeps them for the symbol file. Room
 * for them was reserved when the records were made. */
static void keep_defs(struct job *jobs)
{
    for (struct job *j = jobs; j; j = (struct job *) j->item.next)
        if (j->written)
            buf_put(&j->part->defs, j->symbols->defs.p + j->defs_at, j->defs_n);
    for (struct job *j = jobs; j; j = (struct job *) j->item.next)
        if (j->written) {
            drop_front(&j->symbols->defs, &j->symbols->defs_taken);
            drop_front(&j->part->blobs.defs, &j->part->blobs.defs_taken);
        }
}

void engine_stop(struct engine *g, const char *what, int r)
{
    pthread_mutex_lock(&g->lock);
    if (!g->stats.stopped)
        snprintf(g->stop_reason, sizeof g->stop_reason,
                 "%s could not be synced (%s): nothing more is acknowledged until the store is opened again", what,
                 strerror(-r));
    g->stats.stopped = true;
    pthread_mutex_unlock(&g->lock);
    atomic_store(&g->stopped, true);
}

/* Stops acknowledging for a reason other than a failed sync. */
static void stop_for(struct engine *g, const char *why)
{
    pthread_mutex_lock(&g->lock);
    snprintf(g->stop_reason, sizeof g->stop_reason, "%s", why);
    g->stats.stopped = true;
    pthread_mutex_unlock(&g->lock);
    atomic_store(&g->stopped, true);
    engine_tell(g, "%s", g->stop_reason);
}

static void accept_group(struct engine *g, struct job *jobs) _locked_(g->write_lock)
{
    struct writer *w = g->writer;

    keep_defs(jobs);
    for (uint32_t i = 0; i < w->n_keys; i++) {
        if (i + 8 < w->n_keys)
            dedup_ahead(&g->dedup, w->keys[i + 8].key, false);
        dedup_add(&g->dedup, w->keys[i].key, w->keys[i].time_ns); /* no memory: duplicates possible, no loss */
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

static bool space_is_low(struct engine *g) _locked_(g->write_lock)
{
    int64_t now = clock_mono();

    if (!g->space_checked || now - g->space_checked > NS_PER_S || g->config.manual) {
        g->space_checked = now;
        g->space_low = engine_is_low(g, g->low_reason, sizeof g->low_reason);
    }
    return g->space_low;
}

static void prepare_jobs(struct engine *g, struct job *jobs) _locked_(g->write_lock)
{
    for (struct job *j = jobs; j; j = (struct job *) j->item.next) {
        struct err e = {0};
        int r;

        arena_done(&g->writer->arena);
        r = j->names.answer ? writer_make_names(g, j, &e) : writer_make_record(g, j, &e);
        j->written = r == 0;
        if (r < 0)
            fail_job(j, r == -E2BIG ? SINK_INVALID : SINK_UNAVAILABLE, NS_PER_S, err_message(&e, r));
    }
}

static void write_group(struct engine *g, struct job *jobs) _locked_(g->write_lock)
{
    struct writer *w = g->writer;
    char why[240] = "cannot write the log";
    int r;

    buf_reset(&w->group);
    w->n_keys = 0;
    map_reset(&w->key_map);
    prepare_jobs(g, jobs);
    r = w->group.n ? log_write(&g->log, w->group.p, w->group.n) : 0;
    if (r < 0) {
        if (fd_is_full(r))
            engine_full_reason(g, r, why, sizeof why);
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            if (j->written)
                fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S, why);
        undo_group(g, jobs);
        if (!fd_is_full(r))
            engine_stop(g, "the log", r);
        return;
    }
    r = w->group.n && !g->config.async ? log_sync(&g->log) : 0;
    if (r < 0) {
        engine_stop(g, "the log", r);
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S, g->stop_reason);
        return;
    }
    if (w->group.n && engine_is_gone(g, why, sizeof why)) {
        stop_for(g, why);
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S, g->stop_reason);
        return;
    }
    if (w->group.n && engine_log_is_gone(g)) {
        undo_group(g, jobs);
        engine_replace_log(g);
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            fail_job(j, SINK_UNAVAILABLE, NS_PER_S,
                     atomic_load(&g->stopped) ? g->stop_reason : "the store's log was removed; send again");
        return;
    }
    accept_group(g, jobs);
}

static size_t memtable_limit(const struct engine *g)
{
    size_t bytes = g->config.memory ? g->config.memory : 64 << 20;

    return (size_t) MIN((uint64_t) bytes,
                        MAX(engine_size_limit(g) / LOG_SHARE, (uint64_t) 1 << 20)); /* its log counts, too */
}

bool engine_is_behind(const struct engine *g, const struct snapshot *s)
{
    size_t limit = memtable_limit(g), bytes = 0;

    for (uint32_t i = 0; s && i < s->n_memtables; i++)
        if (atomic_load(&s->memtables[i]->sealed))
            bytes += MIN(s->memtables[i]->bytes, limit);
    return s && (s->n_memtables > LOGS_MAX || bytes >= SEALED_MAX * limit);
}

static bool is_behind(struct engine *g)
{
    bool behind;

    pthread_mutex_lock(&g->lock);
    behind = engine_is_behind(g, g->snapshot);
    pthread_mutex_unlock(&g->lock);
    return behind;
}

void engine_wake_flusher(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    g->flush_wanted = true;
    pthread_cond_signal(&g->flush_wake);
    pthread_mutex_unlock(&g->lock);
}

/* Creates the file of the current log if there was no space for it when the store was opened. */
int engine_need_log(struct engine *g)
{
    int r = g->log.fd >= 0 ? 0 : log_create(g->log_dir, g->active->log, &g->log, NULL);

    if (r == 0)
        atomic_store(&g->no_log, false);
    return r;
}

/* Writes one group and completes it. */
static void commit_jobs(struct engine *g, struct job *jobs)
{
    size_t limit = memtable_limit(g);
    const char *refuse = NULL;

    pthread_mutex_lock(&g->write_lock);
    if (atomic_load(&g->stopped))
        refuse = g->stop_reason;
    else if (space_is_low(g))
        refuse = g->low_reason;
    else if (engine_need_log(g) < 0 || g->active->bytes >= 2 * limit) /* no space for another log */
        refuse = (engine_full_reason(g, -ENOSPC, g->low_reason, sizeof g->low_reason), g->low_reason);
    else if (is_behind(g))
        refuse = "segments cannot be written fast enough";
    if (refuse)
        for (struct job *j = jobs; j; j = (struct job *) j->item.next)
            fail_job(j, SINK_UNAVAILABLE, 10 * NS_PER_S, refuse);
    else
        write_group(g, jobs);
    if (g->config.async) { /* acknowledged once written; the sync follows */
        complete(jobs);
        jobs = NULL;
        if (!refuse && !atomic_load(&g->stopped) && g->writer->group.n) {
            int r = log_sync(&g->log);

            if (r < 0)
                engine_stop(g, "the log", r);
        }
    }
    engine_count_memory(g, false);
    if (!refuse && (g->active->bytes >= limit || engine_wants_epoch(g)) && !atomic_load(&g->stopped) &&
        engine_seal(g, NULL) >= 0)
        engine_wake_flusher(g);
    pthread_mutex_unlock(&g->write_lock);
    complete(jobs);
}

/* The weight of a job in a group; for names it is chosen so that a group of them does not take long. */
static size_t job_bytes(const struct job *j)
{
    return j->batch ? batch_memory(j->batch) : GROUP_BYTES / 8;
}

/* Divides a list of jobs into groups of at most GROUP_BYTES. */
static void commit_all(struct engine *g, struct queue_item *items)
{
    while (items) {
        struct queue_item *last = items, *next;
        size_t bytes = job_bytes((struct job *) items);

        while (last->next && bytes < GROUP_BYTES) {
            last = last->next;
            bytes += job_bytes((struct job *) last);
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

void writer_submit(struct engine *g, struct job *j)
{
    if (!g->has_writer) {
        commit_all(g, &j->item);
        return;
    }
    if (queue_push(&g->queue, &j->item) < 0) {
        fail_job(j, SINK_UNAVAILABLE, NS_PER_S, "too many requests are waiting for the disk");
        complete(j);
    }
}

#define READ_ONLY "the store is open for reading only"

void engine_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct engine *g = to_engine(s);
    struct job *j;

    if (strlen(ctx->tenant) >= sizeof j->tenant) {
        ack_fail(ack, SINK_INVALID, 0, "a tenant name can have at most %zu bytes", sizeof j->tenant - 1);
        return;
    }
    j = g->config.read_only ? NULL : mem_zalloc(sizeof *j);
    if (!j) {
        ack_fail(ack, SINK_UNAVAILABLE, g->config.read_only ? 5 * NS_PER_S : NS_PER_S, "%s",
                 g->config.read_only ? READ_ONLY : "out of memory");
        return;
    }
    j->batch = batch_ref(b);
    j->ctx = *ctx;
    snprintf(j->tenant, sizeof j->tenant, "%s", ctx->tenant);
    j->ctx.tenant = j->tenant;
    j->ctx.peer = NULL;
    j->ack = ack;
    writer_submit(g, j);
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
    if (fd_is_full(r) && !g->active) { /* opening: queries work, and the log is created when there is space */
        log = (struct log){.fd = -1};
        atomic_store(&g->no_log, true);
        r = 0;
    }
    if (r == 0) {
        r = snapshot_publish(g, &(struct snapshot_change){.add_memtable = m});
        if (r < 0)
            log_close(&log);
    }
    if (r < 0) {
        memtable_unref(m);
        return r;
    }
    if (g->active) {
        log_close(&g->log);
        atomic_store(&g->active->sealed, true);
    }
    memtable_unref(g->active);
    g->active = m;
    g->log = log;
    g->next_log++;
    return 0;
}

/* Begins a new epoch, with the next memtable, when the symbols have grown large or old. */
static void roll_epochs(struct engine *g) _locked_(g->write_lock)
{
    int64_t now = engine_now(g), keep = g->config.keep > 0 ? g->config.keep : 30 * 86400 * NS_PER_S;

    for (uint32_t i = 0; i < engine_n_tenants(g); i++) {
        struct engine_epoch *k = engine_tenant_at(g, i)->epochs, *next;
        uint64_t nodes = 0;

        for (uint32_t v = 0; k && v < pinned_count(&k->symbols->services); v++)
            nodes += pinned_count(&sym_service(k->symbols, v)->nodes);
        if (k &&
            (nodes > EPOCH_NODES_MAX || now - k->born > keep / 2 + 86400 * NS_PER_S ||
             engine_epoch_is_large(g, engine_tenant_at(g, i))) &&
            engine_add_epoch(g, engine_tenant_at(g, i), k->epoch + 1, now, &next) == 0) /* if memory runs out, later */
            symbols_drop_maps(k->symbols);
    }
    engine_count_memory(g, true);
}

/* Opens the directory of logs again if it was removed or moved away. */
static int reopen_log_dir(struct engine *g)
{
    int fd, r;

    if (engine_is_same(g->log_dir, g->dir_fd, "log"))
        return 0;
    r = fd_mkdir(g->dir_fd, "log", 0755);
    fd = r < 0 ? r : fd_open(g->dir_fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    r = dup3(fd, g->log_dir, O_CLOEXEC) < 0 ? -errno : fd_sync(g->dir_fd); /* the flusher uses the same number */
    fd_close(fd);
    return r;
}

void engine_replace_log(struct engine *g)
{
    unsigned long long number = g->active->log;
    char why[240];
    struct err e = {0};
    int r = reopen_log_dir(g);

    if (r == 0)
        r = engine_begin_log(g, &e);
    if (r < 0) {
        snprintf(why, sizeof why,
                 "the store's log was removed (%s): nothing more is acknowledged until the server is restarted",
                 err_message(&e, r));
        stop_for(g, why);
        return;
    }
    engine_tell(g, "log %llu was removed while in use: another one was begun, and what it held is written to segments",
                number);
    engine_wake_flusher(g);
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
