/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span index (span_index.h): tenants, the queue of requests, the thread that writes them, retention, and scans.
 *
 * Requests are decoded and made into blocks by the caller of span_index_append(). The writer thread takes all that have
 * arrived, writes those of one tenant at once, syncs, makes them visible and completes their acks. Only this thread changes the
 * lists of files; it holds the lock while it does, and reads them without.
 */
#include "span/span_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "span/span_decode.h"
#include "span/span_files.h"

enum {
    TENANTS_MAX = 10000,
    TENANT_NAME_MAX = 200,
    QUEUE_MAX = 64 << 20, /* bytes */
    RECENT = 1 << 16,     /* spans that are recognized when they are sent again */
    SIZE_DEFAULT = 512 << 20,
    SIZE_MEMORY = 64 << 20,
    FILE_MIN = 64 << 10,
    FILE_MAX = 64 << 20,
    RETAIN_SECONDS = 30,
};

struct span_tenant {
    char *name;
    struct span_files files;
    struct span_tenant *next;
};

struct span_job {
    struct span_job *next;
    struct ack *ack;
    struct ack_result result; /* if it succeeds */
    struct span_tenant *tenant;
    char *blocks;
    size_t n;
    uint32_t spans;
};

struct span_index {
    char dir[SPAN_DIR_SIZE - 420]; /* "": in memory; a tenant's directory is below it */
    int64_t (*now)(void);
    bool async, read_only;
    double min_free;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t wake;
    bool stop;
    _Atomic uint64_t size;
    _Atomic int64_t keep;
    struct span_tenant *tenants;
    uint32_t n_tenants;
    struct span_job *first, **last;
    size_t queued;
    struct span_index_stats stats;
    _Atomic uint64_t duplicates, refused, damaged;
    _Atomic uint64_t *recent; /* hashes of spans, by a part of themselves */
};

/* --- tenants --- */

static struct span_tenant *find_tenant(struct span_index *x, const char *name)
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

static void add_tenant(struct span_index *x, struct span_tenant *t)
{
    t->next = x->tenants;
    x->tenants = t;
    x->n_tenants++;
}

/* With the lock held. NULL: no memory, or too many. */
static struct span_tenant *tenant_of(struct span_index *x, const char *name)
{
    struct span_tenant *t = find_tenant(x, name);

    if (t || x->n_tenants >= TENANTS_MAX || strlen(name) > TENANT_NAME_MAX)
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
    uint64_t duplicates;
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
static void forget_recent(struct span_index *x)
{
    for (size_t i = 0; i < RECENT; i++)
        atomic_store_explicit(&x->recent[i], 0, memory_order_relaxed);
}

/* Puts the job into the queue; false if that is full. */
static int enqueue(struct span_index *x, const char *tenant, struct span_job *j)
{
    int r = 0;

    pthread_mutex_lock(&x->lock);
    j->tenant = tenant_of(x, tenant);
    if (!j->tenant)
        r = -ENOMEM;
    else if (x->queued + j->n > QUEUE_MAX || x->stop)
        r = -EAGAIN;
    if (r == 0) {
        x->queued += j->n;
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
    if (!in->writer.n) {
        ack_complete(ack, &done);
        return;
    }
    j = mem_zalloc(sizeof *j);
    if (j) {
        *j = (struct span_job){.ack = ack, .result = done, .spans = in->writer.n};
        j->blocks = buf_take(&in->writer.out, &j->n);
    }
    r = j ? enqueue(in->x, tenant, j) : -ENOMEM;
    if (r == 0)
        return;
    if (j)
        job_free(j);
    forget_recent(in->x);
    ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "%s",
             r == -EAGAIN ? "too many spans are waiting to be written; retry in a second" : "out of memory for spans");
}

void span_index_append(struct span_index *x, const char *tenant, struct str message, bool json, struct ack *ack)
{
    struct intake_of_spans in = {.x = x, .tenant = hash64_str(str_from(tenant))};
    struct span_decoded d = {.span = take_span, .ctx = &in};
    struct err e = {0};
    int r;

    span_writer_init(&in.writer, x->now(), QUEUE_MAX);
    r = json ? span_decode_json(message, &d, &e) : span_decode(message, &d, &e);
    if (r == 0)
        r = span_writer_end(&in.writer);
    atomic_fetch_add(&x->duplicates, in.duplicates);
    atomic_fetch_add(&x->refused, d.refused);
    if (r == 0)
        hand_over(&in, tenant, d.refused, ack);
    else
        forget_recent(x);
    if (r == -EINVAL)
        ack_fail(ack, SINK_INVALID, 0, "%.240s", err_message(&e, r));
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

/* Writes all jobs of one tenant and takes them out of the list; puts them into *ret in any order. */
static int write_tenant(struct span_index *x, struct span_job **list, struct span_job **ret, struct err *e)
{
    struct span_tenant *t = (*list)->tenant;
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    int64_t keep = atomic_load(&x->keep);
    struct span_limits l = {
        .size = MIN(MAX(atomic_load(&x->size) / 32, (uint64_t) FILE_MIN), (uint64_t) FILE_MAX),
        .age = keep > 0 ? MAX(keep / 32, NS_PER_S) : 0,
        .sync = !x->async,
    };
    struct span_file file;
    int r;

    *ret = NULL;
    for (struct span_job **p = list, *j; (j = *p);) {
        if (j->tenant != t) {
            p = &j->next;
            continue;
        }
        buf_put(&all, j->blocks, j->n);
        *p = j->next;
        j->next = *ret;
        *ret = j;
    }
    r = buf_error(&all);
    if (r == 0)
        r = check_space(x, e);
    if (r == 0)
        r = span_files_append(&t->files, buf_str(&all), &l, &file, e);
    if (r < 0)
        return r;
    pthread_mutex_lock(&x->lock);
    r = span_files_publish(&t->files, &file);
    pthread_mutex_unlock(&x->lock);
    return r;
}

static void finish_jobs(struct span_index *x, struct span_job *list, int r, const struct err *e)
{
    uint64_t spans = 0;

    if (r < 0)
        forget_recent(x);
    for (struct span_job *j = list; j; j = j->next)
        spans += r < 0 ? 0 : j->spans;
    pthread_mutex_lock(&x->lock);
    x->stats.spans += spans;
    pthread_mutex_unlock(&x->lock);
    for (struct span_job *j = list, *next; j; j = next) {
        next = j->next;
        if (r < 0)
            ack_fail(j->ack, SINK_UNAVAILABLE, NS_PER_S, "%.240s", err_message(e, r));
        else
            ack_complete(j->ack, &j->result);
        job_free(j);
    }
}

/* --- retention --- */

/* Takes a file that is over a limit out of its list: one that is too old, else the oldest of the tenant with the most
 * bytes. */
static bool pick_file(struct span_index *x, struct span_tenant **ret_tenant, struct span_file *ret)
{
    struct span_tenant *largest = NULL, *old = NULL;
    int64_t keep = atomic_load(&x->keep), limit = keep > 0 ? x->now() - keep : INT64_MIN;
    uint64_t bytes = 0;

    for (struct span_tenant *t = x->tenants; t; t = t->next) {
        bytes += t->files.bytes;
        if (t->files.n && (!largest || t->files.bytes > largest->files.bytes))
            largest = t;
        if (t->files.n && t->files.v[0].received_last < limit)
            old = t;
    }
    *ret_tenant = old ? old : bytes > atomic_load(&x->size) ? largest : NULL;
    if (!*ret_tenant)
        return false;
    pthread_mutex_lock(&x->lock);
    *ret = span_files_drop(&(*ret_tenant)->files);
    x->stats.dropped += ret->size;
    pthread_mutex_unlock(&x->lock);
    return true;
}

static void retain(struct span_index *x)
{
    struct span_tenant *t;
    struct span_file file;

    while (pick_file(x, &t, &file))
        span_files_delete(&t->files, &file);
}

/* Waits for jobs, but not for ever: retention by age has to run, too. False at the end. */
static bool take_jobs(struct span_index *x, struct span_job **ret)
{
    struct timespec until;
    bool more;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RETAIN_SECONDS;
    pthread_mutex_lock(&x->lock);
    if (!x->first && !x->stop)
        pthread_cond_timedwait(&x->wake, &x->lock, &until);
    *ret = x->first;
    x->first = NULL;
    x->last = &x->first;
    x->queued = 0;
    more = *ret || !x->stop;
    pthread_mutex_unlock(&x->lock);
    return more;
}

static void *run_writer(void *arg)
{
    struct span_index *x = arg;
    struct span_job *jobs, *written;

    while (take_jobs(x, &jobs)) {
        while (jobs) {
            struct err e = {0};
            int r = write_tenant(x, &jobs, &written, &e);

            finish_jobs(x, written, r, &e);
        }
        retain(x);
    }
    return NULL;
}

/* --- life --- */

/* Finds the tenants' directories: "t-" and the name in hex. */
static int find_tenants(struct span_index *x, struct span_found *found, struct err *e)
{
    DIR *d = opendir(x->dir);
    struct dirent *entry;
    int r = 0;

    if (!d)
        return errno == ENOENT ? 0 : err_set(e, -errno, "cannot read '%s': %m", x->dir);
    while (r == 0 && (entry = readdir(d))) {
        char name[TENANT_NAME_MAX + 1] = "";
        struct str hex = str_slice(str_from(entry->d_name), 2, SIZE_MAX);
        struct span_tenant *t;

        if (strncmp(entry->d_name, "t-", 2) != 0 || hex.n > 2 * TENANT_NAME_MAX || hex_decode(hex, name) < 0 ||
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

void span_index_set_retention(struct span_index *x, const struct span_index_config *c)
{
    pthread_mutex_lock(&x->lock);
    atomic_store(&x->size, x->dir[0] ? (c->size ? c->size : SIZE_DEFAULT)
                                     : MIN(c->size ? c->size : SIZE_MEMORY, (uint64_t) SIZE_MEMORY));
    atomic_store(&x->keep, c->keep);
    pthread_cond_signal(&x->wake);
    pthread_mutex_unlock(&x->lock);
}

static int index_start(struct span_index *x, struct err *e)
{
    struct span_found found = {0};
    int r = x->dir[0] && !x->read_only ? fd_mkdir_all(x->dir, 0700) : 0;

    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", x->dir);
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

int span_index_open(const struct span_index_config *c, struct span_index **ret, struct err *e)
{
    _cleanup_(span_index_closep) struct span_index *x = mem_zalloc(sizeof *x);
    int r;

    if (!x)
        return -ENOMEM;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->wake, NULL);
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

void span_index_close(struct span_index *x)
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
    pthread_cond_destroy(&x->wake);
    pthread_mutex_destroy(&x->lock);
    mem_free(x);
}

void span_index_stats(struct span_index *x, struct span_index_stats *ret)
{
    pthread_mutex_lock(&x->lock);
    *ret = x->stats;
    ret->tenants = x->n_tenants;
    for (struct span_tenant *t = x->tenants; t; t = t->next) {
        ret->bytes += t->files.bytes;
        ret->files += t->files.n;
    }
    pthread_mutex_unlock(&x->lock);
    ret->duplicates = atomic_load(&x->duplicates);
    ret->refused = atomic_load(&x->refused);
    ret->damaged += atomic_load(&x->damaged);
}

/* --- scanning --- */

/* What a filter means in one block: the numbers of the strings. */
struct block_filter {
    const struct span_filter *f;
    const struct span_block *b;
    uint32_t name;    /* UINT32_MAX: any */
    bool *of_service; /* per sender */
};

static bool has_string(struct str wanted, struct str s)
{
    return !wanted.n || str_eq(wanted, s);
}

/* False if no row of the block can match. */
static bool filter_block(struct block_filter *x)
{
    const struct span_filter *f = x->f;
    bool any = false;

    x->name = UINT32_MAX;
    for (uint32_t i = 0; f->name.n && i < x->b->head.n_strings && x->name == UINT32_MAX; i++)
        if (str_eq(x->b->strings[i], f->name))
            x->name = i;
    if (f->name.n && x->name == UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < x->b->head.n_senders; i++) {
        const uint8_t *p = x->b->senders + (size_t) i * 12;

        x->of_service[i] = has_string(f->service, x->b->strings[load_u32(p)]) &&
                           has_string(f->version, x->b->strings[load_u32(p + 4)]);
        any |= x->of_service[i];
    }
    return any;
}

static bool row_matches(const struct block_filter *x, const uint8_t *p, struct span_row *s)
{
    const struct span_filter *f = x->f;
    int64_t start = (int64_t) load_u64(p + 32), duration = (int64_t) load_u64(p + 40);

    if (start < f->from || start >= f->to || duration < f->min_duration ||
        (f->max_duration > 0 && duration >= f->max_duration) || !x->of_service[load_u32(p + 52)] ||
        (x->name != UINT32_MAX && load_u32(p + 48) != x->name) || (f->of_trace && memcmp(p, f->trace_id, 16) != 0) ||
        (f->errors && p[57] != SPAN_ERROR))
        return false;
    span_block_row(x->b, (uint32_t) ((size_t) (p - x->b->rows) / SPAN_BLOCK_ROW), s);
    return !f->requests || span_is_request(s);
}

static int scan_block(const struct span_block *b, const struct span_filter *f, span_fn fn, void *ctx)
{
    struct block_filter x = {f, b, 0, mem_zalloc_array((size_t) b->head.n_senders + 1, sizeof(bool))};
    struct span_row s;
    int r = 0;

    if (!x.of_service)
        return -ENOMEM;
    if (filter_block(&x))
        for (uint32_t i = 0; r == 0 && i < b->head.n_rows; i++)
            if (row_matches(&x, span_block_raw(b, i), &s))
                r = fn(ctx, &s);
    mem_free(x.of_service);
    return r;
}

static int scan_span_file(struct span_index *x, struct span_reader *r, const struct span_filter *f, span_fn fn,
                          void *ctx)
{
    struct span_head h;
    int rc;

    while ((rc = span_reader_head(r, &h)) == 1) {
        if (f->cancel && atomic_load_explicit(f->cancel, memory_order_relaxed))
            return -ECANCELED;
        if (h.first >= f->to || h.last < f->from) {
            span_reader_skip(r, &h);
            continue;
        }
        rc = span_reader_block(r);
        if (rc == -EBADMSG) { /* the next one may be whole: its place is known */
            atomic_fetch_add(&x->damaged, 1);
            continue;
        }
        if (rc == 0)
            rc = scan_block(&r->block, f, fn, ctx);
        if (rc != 0)
            return rc;
    }
    if (rc == -EBADMSG)
        atomic_fetch_add(&x->damaged, 1);
    return rc == -EBADMSG || rc == -ENODATA ? 0 : rc;
}

/* Copies the list of files that may have spans of this time. Memory files are duplicated: they may be deleted
 * meanwhile. */
static int copy_files(struct span_index *x, const struct span_filter *f, char *dir, struct span_file **ret,
                      uint32_t *ret_n)
{
    struct span_tenant *t;
    int r = 0;

    *ret = NULL;
    *ret_n = 0;
    pthread_mutex_lock(&x->lock);
    t = find_tenant(x, f->tenant);
    if (t && t->files.n) {
        *ret = mem_zalloc_array(t->files.n, sizeof **ret);
        memcpy(dir, t->files.dir, SPAN_DIR_SIZE);
        r = *ret ? 0 : -ENOMEM;
    }
    for (uint32_t i = 0; r == 0 && t && i < t->files.n; i++) {
        struct span_file file = t->files.v[i];

        if (file.first >= f->to || file.last < f->from)
            continue;
        if (file.fd >= 0)
            file.fd = fcntl(file.fd, F_DUPFD_CLOEXEC, 0);
        if (file.fd < 0 && !dir[0])
            r = -errno;
        else
            (*ret)[(*ret_n)++] = file;
    }
    pthread_mutex_unlock(&x->lock);
    return r;
}

static int scan_one(struct span_index *x, const char *dir, const struct span_file *file, const struct span_filter *f,
                    span_fn fn, void *ctx)
{
    struct span_reader reader;
    int r = span_reader_open(&reader, dir, file);

    if (r == 0)
        r = scan_span_file(x, &reader, f, fn, ctx);
    span_reader_done(&reader);
    return r == -ENOENT ? 0 : r; /* deleted by retention meanwhile */
}

int span_index_each(struct span_index *x, const struct span_filter *f, span_fn fn, void *ctx, struct err *e)
{
    struct span_file *files;
    struct span_filter own = *f;
    char dir[SPAN_DIR_SIZE] = "";
    int64_t keep;
    uint32_t n;
    int r;

    if (!x)
        return 0;
    keep = atomic_load(&x->keep);
    if (keep > 0) /* files are deleted as a whole, some time after their first spans are over the limit */
        own.from = MAX(own.from, x->now() - keep);
    r = copy_files(x, &own, dir, &files, &n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = scan_one(x, dir, &files[i], &own, fn, ctx);
    for (uint32_t i = 0; i < n; i++)
        fd_close(files[i].fd);
    mem_free(files);
    if (r == -ECANCELED)
        return err_set(e, r, "cancelled");
    return r < 0 && e && !e->code ? err_set(e, r, "cannot read the span index: %m") : r;
}
