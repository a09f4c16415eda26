/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span index (span_index.h): tenants, the queue of requests, the thread that writes them, and retention.
 *
 * Requests are decoded and made into blocks by the caller of span_index_append(). The writer thread takes all that have
 * arrived, writes those of one tenant at once, syncs, makes them visible and completes their acks. span_index_state.h
 * says which thread may touch what.
 *
 * A repeated span is recognized when it arrives, when the first one may still be waiting to be written. Its request is
 * therefore acknowledged by the writer thread, too, after everything that was queued before it; and if any write failed
 * since it arrived, it is refused as well, and the sender tries again.
 */
#include "span/span_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "span/span_decode.h"
#include "span/span_index_state.h"

enum {
    TENANTS_MAX = 10000,
    QUEUE_DEFAULT = 64 << 20, /* bytes; one tenant may use half of it */
    WRITE_MAX = 8 << 20,      /* bytes that are written at once */
    RECENT = 1 << 16,         /* spans that are recognized when they are sent again */
    SIZE_DEFAULT = 512 << 20,
    SIZE_MEMORY = 64 << 20,
    FILE_MIN = 64 << 10,
    FILE_MAX = 64 << 20,
    RETAIN_SECONDS = 30,
};

struct span_job {
    struct span_job *next;
    struct ack *ack;
    struct ack_result result; /* if it succeeds */
    struct span_tenant *tenant;
    char *blocks; /* NULL: all its spans were repeated */
    size_t n;
    uint32_t spans;
    bool repeated;     /* some of its spans were */
    uint64_t failures; /* of the index when it arrived */
};

int64_t span_index_now(struct span_index *x)
{
    return x->now() - atomic_load(&x->ahead_ns);
}

/* --- tenants --- */

struct span_tenant *span_index_tenant(struct span_index *x, const char *name)
{
    struct span_tenant *t = x->tenants;

    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static void tenant_free(struct span_tenant *t)
{
    if (!t)
        return;
    span_files_done(&t->files);
    mem_free(t->name);
    mem_free(t);
}
DEFINE_CLEANUP(struct span_tenant *, tenant_free)

/* A tenant whose files are found later, or that has none yet. */
static struct span_tenant *tenant_new(struct span_index *x, const char *name)
{
    _cleanup_(tenant_freep) struct span_tenant *t = mem_zalloc(sizeof *t);
    _cleanup_(buf_done) struct buf dir = BUF_INIT;
    const char *text;

    if (t)
        t->name = mem_strdup(name);
    if (!t || !t->name)
        return NULL;
    if (x->dir[0]) {
        buf_printf(&dir, "%s/t-", x->dir);
        hex_encode(&dir, name, strlen(name));
        text = buf_cstr(&dir);
        if (!text || dir.n >= sizeof t->files.dir)
            return NULL;
        snprintf(t->files.dir, sizeof t->files.dir, "%s", text);
    }
    return TAKE(t);
}

static void add_tenant(struct span_index *x, struct span_tenant *t) _locked_(x->lock)
{
    t->next = x->tenants;
    x->tenants = t;
    x->n_tenants++;
}

/* With the lock held. NULL: no memory, or too many. */
static struct span_tenant *tenant_of(struct span_index *x, const char *name) _locked_(x->lock)
{
    struct span_tenant *t = span_index_tenant(x, name);

    if (t || x->n_tenants >= TENANTS_MAX || strlen(name) > SPAN_TENANT_NAME_MAX)
        return t;
    t = tenant_new(x, name);
    if (t)
        add_tenant(x, t);
    return t;
}

/* --- appending --- */

struct intake_of_spans {
    struct span_index *x;
    struct span_writer writer;
    uint64_t tenant; /* a number for its name */
    uint64_t duplicates, failures;
};

/* Whether the span was seen a short while ago. Client and server may share one span ID (Zipkin), so the kind and the
 * service count, too. */
static bool is_repeated(struct intake_of_spans *in, const struct span_row *s)
{
    struct {
        struct link link;
        uint64_t tenant, service, start, kind;
    } key = {s->link, in->tenant, hash64_str(s->service), (uint64_t) s->start, s->kind};
    uint64_t h = hash64(&key, sizeof key) | 1;

    return atomic_exchange_explicit(&in->x->recent[h >> 48], h, memory_order_relaxed) == h;
}

static void take_span(void *ctx, const struct span_row *s)
{
    struct intake_of_spans *in = ctx;

    if (is_repeated(in, s))
        in->duplicates++;
    else
        span_writer_add(&in->writer, s);
}

/* Spans that could not be stored are sent again and must not be taken for duplicates then. */
void span_index_forget_recent(struct span_index *x)
{
    atomic_fetch_add(&x->failures, 1);
    for (size_t i = 0; i < RECENT; i++)
        atomic_store_explicit(&x->recent[i], 0, memory_order_relaxed);
}

/* Puts the job into the queue; -EAGAIN if that is full. A tenant may use half of it, so that others find room. */
static int enqueue(struct span_index *x, const char *tenant, struct span_job *j)
{
    int r = 0;

    pthread_mutex_lock(&x->lock);
    j->tenant = tenant_of(x, tenant);
    if (!j->tenant)
        r = -ENOMEM;
    else if (x->stop || (j->n && x->queued && x->queued + j->n > x->queue_max) ||
             (j->n && j->tenant->queued && j->tenant->queued + j->n > x->queue_max / 2))
        r = -EAGAIN;
    if (r == 0) {
        x->queued += j->n;
        j->tenant->queued += j->n;
        *x->last = j;
        x->last = &j->next;
        pthread_cond_signal(&x->wake);
    }
    pthread_mutex_unlock(&x->lock);
    return r;
}

static void job_free(struct span_job *j)
{
    mem_free(j->blocks);
    mem_free(j);
}

static void hand_over(struct intake_of_spans *in, const char *tenant, uint64_t refused, struct ack *ack)
{
    struct ack_result done = {.status = SINK_OK, .rejected = refused};
    struct span_job *j;
    int r;

    if (refused)
        snprintf(done.message, sizeof done.message,
                 "%llu spans without a trace ID, a span ID or a start time were refused", (unsigned long long) refused);
    if (!in->writer.n && !in->duplicates) {
        ack_complete(ack, &done);
        return;
    }
    j = mem_zalloc(sizeof *j);
    if (j) {
        *j = (struct span_job){.ack = ack,
                               .result = done,
                               .spans = in->writer.n,
                               .repeated = in->duplicates > 0,
                               .failures = in->failures};
        if (in->writer.n)
            j->blocks = buf_take(&in->writer.out, &j->n);
    }
    r = j ? enqueue(in->x, tenant, j) : -ENOMEM;
    if (r == 0)
        return;
    if (j)
        job_free(j);
    span_index_forget_recent(in->x);
    ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "%s",
             r == -EAGAIN ? "too many spans are waiting to be written; retry in a second" : "out of memory for spans");
}

void span_index_append(struct span_index *x, const char *tenant, struct str message, bool json, struct ack *ack)
{
    struct intake_of_spans in = {.x = x, .tenant = hash64_str(str_from(tenant)), .failures = atomic_load(&x->failures)};
    struct span_decoded d = {.span = take_span, .ctx = &in};
    struct err e = {0};
    int r;

    span_writer_init(&in.writer, x->now(), x->queue_max);
    r = json ? span_decode_json(message, &d, &e) : span_decode(message, &d, &e);
    if (r == 0)
        r = span_writer_end(&in.writer);
    atomic_fetch_add(&x->duplicates, in.duplicates);
    atomic_fetch_add(&x->refused, d.refused);
    if (r == 0)
        hand_over(&in, tenant, d.refused, ack);
    else
        span_index_forget_recent(x);
    if (r == -EINVAL)
        ack_fail(ack, SINK_INVALID, 0, "%.240s", err_message(&e, r));
    else if (r == -E2BIG || r == -EFBIG)
        ack_fail(ack, SINK_INVALID, 0, "the spans of this request are larger than the queue: send fewer at once");
    else if (r < 0)
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory for this request");
    span_writer_done(&in.writer);
}

/* --- writing --- */

static int check_space(struct span_index *x, struct err *e)
{
    uint64_t free_bytes, total;
    int fd, r;

    if (!x->dir[0] || x->min_free < 0)
        return 0;
    fd = fd_open(AT_FDCWD, x->dir, O_RDONLY | O_DIRECTORY, 0);
    r = fd < 0 ? fd : fd_space(fd, &free_bytes, &total);
    fd_close(fd);
    if (r == 0 && (double) free_bytes < x->min_free * (double) total)
        return err_set(e, -ENOSPC, "the disk of the span index has less than %.0f %% free space", x->min_free * 100);
    return 0;
}

/* Takes jobs of the tenant of the first one out of the list, as far as they are written at once. */
static struct span_job *take_of_tenant(struct span_job **list, struct buf *all)
{
    struct span_tenant *t = (*list)->tenant;
    struct span_job *taken = NULL, **end = &taken;

    for (struct span_job **p = list, *j; (j = *p);) {
        if (j->tenant != t) {
            p = &j->next;
            continue;
        }
        if (taken && all->n + j->n > WRITE_MAX)
            break;
        buf_put(all, j->blocks, j->n);
        *p = j->next;
        j->next = NULL;
        *end = j;
        end = &j->next;
    }
    return taken;
}

/* Writes blocks of a tenant and makes them visible. */
static int write_blocks(struct span_index *x, struct span_tenant *t, const struct buf *all, struct err *e)
{
    int64_t keep = atomic_load(&x->keep);
    struct span_limits l = {
        .size = MIN(MAX(atomic_load(&x->size) / 32, (uint64_t) FILE_MIN), (uint64_t) FILE_MAX),
        .age = keep > 0 ? MAX(keep / 32, NS_PER_S) : 0,
        .sync = !x->async,
    };
    struct span_traces traces = {0};
    struct span_file file;
    int r = buf_error(all);

    if (r < 0 || !all->n)
        return r;
    r = check_space(x, e);
    if (r == 0)
        r = span_files_append(&t->files, buf_str(all), &l, &file, e);
    if (r < 0)
        return r;
    span_traces_add_all(&traces, file.size - all->n, all->p, all->n);
    pthread_mutex_lock(&x->lock);
    r = span_files_publish(&t->files, &file, &traces);
    pthread_mutex_unlock(&x->lock);
    span_traces_done(&traces);
    return r;
}

static void finish_jobs(struct span_index *x, struct span_job *list, int r, const struct err *e)
{
    uint64_t failures;

    if (r < 0)
        span_index_forget_recent(x);
    failures = atomic_load(&x->failures);
    pthread_mutex_lock(&x->lock);
    for (struct span_job *j = list; j; j = j->next) {
        x->stats.spans += r < 0 ? 0 : j->spans;
        x->queued -= j->n;
        j->tenant->queued -= j->n;
    }
    pthread_mutex_unlock(&x->lock);
    for (struct span_job *j = list, *next; j; j = next) {
        next = j->next;
        if (r < 0)
            ack_fail(j->ack, SINK_UNAVAILABLE, NS_PER_S, "%.240s", err_message(e, r));
        else if (j->repeated && j->failures != failures)
            ack_fail(j->ack, SINK_UNAVAILABLE, NS_PER_S,
                     "spans that were sent before were not stored; send them again");
        else
            ack_complete(j->ack, &j->result);
        job_free(j);
    }
}

static void write_jobs(struct span_index *x, struct span_job *jobs)
{
    while (jobs) {
        _cleanup_(buf_done) struct buf all = BUF_INIT;
        struct span_tenant *t = jobs->tenant;
        struct span_job *taken = take_of_tenant(&jobs, &all);
        struct err e = {0};
        int r = write_blocks(x, t, &all, &e);

        finish_jobs(x, taken, r, &e);
    }
}

/* --- retention --- */

/* Takes a file that is over a limit out of its list: one that is too old, else the oldest of the tenant with the most
 * bytes. */
static bool pick_file(struct span_index *x, struct span_tenant **ret_tenant, struct span_file *ret)
{
    struct span_tenant *largest = NULL, *old = NULL, *over = NULL;
    int64_t keep = atomic_load(&x->keep), limit = keep > 0 ? span_index_now(x) - keep : INT64_MIN;
    uint64_t bytes = 0;

    pthread_mutex_lock(&x->lock);
    for (struct span_tenant *t = x->tenants; t; t = t->next) {
        bytes += t->files.bytes;
        if (t->files.n && (!largest || t->files.bytes > largest->files.bytes))
            largest = t;
        if (t->files.n && t->files.v[0].received_last < limit)
            old = t;
        if (t->files.n && t->files.bytes > quota_of(&x->share, t->name, UINT64_MAX))
            over = t;
    }
    *ret_tenant = old ? old : over ? over : bytes > atomic_load(&x->size) ? largest : NULL;
    if (*ret_tenant) {
        *ret = span_files_drop(&(*ret_tenant)->files, 0);
        x->stats.dropped += ret->size;
    }
    pthread_mutex_unlock(&x->lock);
    return *ret_tenant;
}

static void retain(struct span_index *x)
{
    struct span_tenant *t;
    struct span_file file;

    if (x->ahead)
        atomic_store(&x->ahead_ns, x->ahead(x->ahead_ctx));
    while (pick_file(x, &t, &file))
        span_files_delete(&t->files, &file);
}

/* --- the thread --- */

/* Waits for jobs, but not for ever: retention by age has to run, too. False at the end. */
static bool take_jobs(struct span_index *x, struct span_job **ret, struct span_deletion **ret_deletions)
{
    int64_t until = clock_mono() + RETAIN_SECONDS * NS_PER_S;
    bool more;

    pthread_mutex_lock(&x->lock);
    if (!x->first && !x->deletions && !x->stop)
        thread_wait(&x->wake, &x->lock, until);
    *ret = x->first;
    x->first = NULL;
    x->last = &x->first;
    *ret_deletions = x->deletions;
    x->deletions = NULL;
    more = *ret || *ret_deletions || !x->stop;
    pthread_mutex_unlock(&x->lock);
    return more;
}

static void run_deletions(struct span_index *x, struct span_deletion *list)
{
    for (struct span_deletion *d = list, *next; d; d = next) {
        next = d->next;
        span_deletion_run(x, d);
        pthread_mutex_lock(&x->lock);
        d->done = true; /* its owner frees it from here on */
        pthread_cond_broadcast(&x->deleted);
        pthread_mutex_unlock(&x->lock);
    }
}

static void *run_writer(void *arg)
{
    struct span_index *x = arg;
    struct span_deletion *deletions;
    struct span_job *jobs;

    while (take_jobs(x, &jobs, &deletions)) {
        write_jobs(x, jobs);
        run_deletions(x, deletions);
        retain(x);
    }
    return NULL;
}

/* --- life --- */

/* Finds the tenants' directories: "t-" and the name in hex. */
static int find_tenants(struct span_index *x, struct span_found *found, struct err *e) _locked_(x->lock)
{
    DIR *d = opendir(x->dir);
    struct dirent *entry;
    int r = 0;

    if (!d)
        return errno == ENOENT ? 0 : err_set(e, -errno, "cannot read '%s': %m", x->dir);
    while (r == 0 && (entry = readdir(d))) {
        char name[SPAN_TENANT_NAME_MAX + 1] = "";
        struct str hex = str_slice(str_from(entry->d_name), 2, SIZE_MAX);
        struct span_tenant *t;

        if (strncmp(entry->d_name, "t-", 2) != 0 || hex.n > 2 * SPAN_TENANT_NAME_MAX || hex_decode(hex, name) < 0 ||
            x->n_tenants >= TENANTS_MAX)
            continue;
        t = tenant_new(x, name);
        r = t ? 0 : -ENOMEM;
        if (t) {
            char dir[SPAN_DIR_SIZE];

            snprintf(dir, sizeof dir, "%s", t->files.dir);
            add_tenant(x, t);
            r = span_files_open(&t->files, dir, x->read_only, found, e);
        }
    }
    closedir(d);
    return r;
}

uint64_t span_index_tenant_bytes(struct span_index *x, const char *tenant)
{
    const struct span_tenant *t;
    uint64_t bytes;

    pthread_mutex_lock(&x->lock);
    t = span_index_tenant(x, tenant);
    bytes = t ? t->files.bytes : 0;
    pthread_mutex_unlock(&x->lock);
    return bytes;
}

void span_index_set_retention(struct span_index *x, const struct span_index_config *c)
{
    pthread_mutex_lock(&x->lock);
    atomic_store(&x->size, x->dir[0] ? (c->size ? c->size : SIZE_DEFAULT)
                                     : MIN(c->size ? c->size : SIZE_MEMORY, (uint64_t) SIZE_MEMORY));
    atomic_store(&x->keep, c->keep);
    pthread_cond_signal(&x->wake);
    pthread_mutex_unlock(&x->lock);
}

/* Two processes that append to the same files would destroy them. */
static int lock_dir(struct span_index *x, struct err *e)
{
    char path[SPAN_DIR_SIZE + 8];
    int r = span_make_dir(x->dir);

    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", x->dir);
    snprintf(path, sizeof path, "%s/LOCK", x->dir);
    x->lock_fd = fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (x->lock_fd < 0)
        return err_set(e, x->lock_fd, "cannot open '%s': %m", path);
    if (flock(x->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, -EBUSY, "the span index in '%s' is in use by another process", x->dir);
    return 0;
}

_unshared_ static int index_start(struct span_index *x, struct err *e)
{
    struct span_found found = {0};
    int r = x->dir[0] && !x->read_only ? lock_dir(x, e) : 0;

    if (r < 0)
        return r;
    if (x->dir[0])
        r = find_tenants(x, &found, e);
    x->stats.torn = found.torn;
    x->stats.damaged = found.damaged;
    x->recent = mem_zalloc_array(RECENT, sizeof *x->recent);
    if (r == 0 && !x->recent)
        r = -ENOMEM;
    if (r == 0 && !x->read_only) {
        r = thread_start(&x->thread, "spans", run_writer, x, e);
        x->started = r == 0;
    }
    return r;
}

_unshared_ int span_index_open(const struct span_index_config *c, struct span_index **ret, struct err *e)
{
    _cleanup_(span_index_closep) struct span_index *x = mem_zalloc(sizeof *x);
    int r;

    if (!x)
        return -ENOMEM;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->wake, NULL);
    pthread_cond_init(&x->deleted, NULL);
    x->lock_fd = -1;
    x->ahead = c->ahead;
    x->ahead_ctx = c->ahead_ctx;
    x->share = c->share;
    x->queue_max = c->queue ? c->queue : QUEUE_DEFAULT;
    x->last = &x->first;
    x->now = c->now ? c->now : clock_wall;
    x->async = c->async;
    x->read_only = c->read_only;
    x->min_free = c->min_free == 0 ? 0.05 : c->min_free;
    if (c->dir && snprintf(x->dir, sizeof x->dir, "%s", c->dir) >= (int) sizeof x->dir)
        return err_set(e, -ENAMETOOLONG, "'%s': the path is too long", c->dir);
    span_index_set_retention(x, c);
    r = index_start(x, e);
    if (r < 0)
        return r;
    *ret = TAKE(x);
    return 0;
}

_unshared_ void span_index_close(struct span_index *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->stop = true;
    pthread_cond_signal(&x->wake);
    pthread_mutex_unlock(&x->lock);
    if (x->started)
        pthread_join(x->thread, NULL);
    for (struct span_tenant *t = x->tenants, *next; t; t = next) {
        next = t->next;
        tenant_free(t);
    }
    mem_free((void *) (uintptr_t) x->recent);
    fd_close(x->lock_fd);
    pthread_cond_destroy(&x->deleted);
    pthread_cond_destroy(&x->wake);
    pthread_mutex_destroy(&x->lock);
    mem_free(x);
}

void span_index_stats(struct span_index *x, struct span_index_stats *ret)
{
    pthread_mutex_lock(&x->lock);
    *ret = x->stats;
    ret->tenants = x->n_tenants;
    ret->queued = x->queued;
    for (struct span_tenant *t = x->tenants; t; t = t->next) {
        ret->bytes += t->files.bytes;
        ret->files += t->files.n;
    }
    pthread_mutex_unlock(&x->lock);
    ret->duplicates = atomic_load(&x->duplicates);
    ret->refused = atomic_load(&x->refused);
    ret->damaged += atomic_load(&x->damaged);
    ret->blocks_read = atomic_load(&x->blocks_read);
}
