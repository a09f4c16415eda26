/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the span index: selects spans by a filter, block by block; of one trace only the blocks that may have it. Any thread may scan while the writer appends; see
 * span_index.h. */
#include <errno.h>
#include <fcntl.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/mem.h"
#include "span/span_index_state.h"

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

/* A file as it was when a question began, and for a question about one trace, its blocks that may have spans of it. */
struct scanned_file {
    struct span_file file;
    uint64_t *blocks; /* NULL: all */
    uint32_t n_blocks;
};

static int scan_all_blocks(struct span_index *x, struct span_reader *r, const struct span_filter *f, span_fn fn,
                           void *ctx)
{
    struct span_head h;
    int rc;

    while ((rc = span_reader_head(r, &h)) != 0) {
        if (f->cancel && atomic_load_explicit(f->cancel, memory_order_relaxed))
            return -ECANCELED;
        if (rc == 1 && (h.first >= f->to || h.last < f->from)) {
            span_reader_skip(r, &h);
            continue;
        }
        if (rc == 1)
            rc = span_reader_block(r);
        if (rc == -EBADMSG) {
            atomic_fetch_add(&x->damaged, 1);
            rc = span_reader_resync(r);
            if (rc == 1)
                continue;
            return rc;
        }
        if (rc == 0) {
            atomic_fetch_add_explicit(&x->blocks_read, 1, memory_order_relaxed);
            rc = scan_block(&r->block, f, fn, ctx);
        }
        if (rc != 0)
            return rc == -ENODATA ? 0 : rc; /* replaced by a shorter file: all of it is deleted */
    }
    return 0;
}

static int scan_some_blocks(struct span_index *x, struct span_reader *r, const struct scanned_file *s,
                            const struct span_filter *f, span_fn fn, void *ctx)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < s->n_blocks; i++) {
        if (f->cancel && atomic_load_explicit(f->cancel, memory_order_relaxed))
            return -ECANCELED;
        r->at = s->blocks[i];
        rc = span_reader_block(r);
        atomic_fetch_add_explicit(rc == -EBADMSG ? &x->damaged : &x->blocks_read, 1, memory_order_relaxed);
        if (rc == 0)
            rc = scan_block(&r->block, f, fn, ctx);
        else if (rc == -EBADMSG)
            rc = 0;
    }
    return rc;
}

/* Copies a file of the list. Memory files are duplicated: they may be deleted meanwhile. With the lock held. */
static int copy_file(const struct span_file *file, const struct span_filter *f, struct scanned_file *ret)
{
    uint64_t hash = f->of_trace ? span_trace_hash(f->trace_id) : 0;
    const struct span_traces *t = &file->traces;

    ret->file = *file;
    if (file->fd >= 0) {
        ret->file.fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
        if (ret->file.fd < 0)
            return -errno;
    }
    if (!f->of_trace || t->partial)
        return 0;
    ret->blocks = mem_zalloc_array((size_t) t->n + 1, sizeof *ret->blocks);
    if (!ret->blocks)
        return 0; /* all of them */
    for (uint32_t i = 0; i < t->n; i++)
        if (span_trace_block_has(t->v[i], hash))
            ret->blocks[ret->n_blocks++] = t->v[i]->at;
    return 0;
}

/* Copies the list of files that may have spans of this time. */
static int copy_files(struct span_index *x, const struct span_filter *f, char *dir, struct scanned_file **ret,
                      uint32_t *ret_n)
{
    struct span_tenant *t;
    int r = 0;

    *ret = NULL;
    *ret_n = 0;
    pthread_mutex_lock(&x->lock);
    t = span_index_tenant(x, f->tenant);
    if (t && t->files.n) {
        *ret = mem_zalloc_array(t->files.n, sizeof **ret);
        memcpy(dir, t->files.dir, SPAN_DIR_SIZE);
        r = *ret ? 0 : -ENOMEM;
    }
    for (uint32_t i = 0; r == 0 && t && i < t->files.n; i++) {
        const struct span_file *file = &t->files.v[i];

        if (file->first >= f->to || file->last < f->from)
            continue;
        r = copy_file(file, f, &(*ret)[*ret_n]);
        if (r == 0)
            ++*ret_n;
    }
    pthread_mutex_unlock(&x->lock);
    return r;
}

static int scan_one(struct span_index *x, const char *dir, const struct scanned_file *s, const struct span_filter *f,
                    span_fn fn, void *ctx)
{
    struct span_reader reader;
    int r;

    if (s->blocks && !s->n_blocks)
        return 0;
    r = span_reader_open(&reader, dir, &s->file);
    if (r == 0 && s->blocks && !reader.shorter)
        r = scan_some_blocks(x, &reader, s, f, fn, ctx);
    else if (r == 0)
        r = scan_all_blocks(x, &reader, f, fn, ctx);
    span_reader_done(&reader);
    return r == -ENOENT ? 0 : r; /* deleted by retention meanwhile */
}

int span_index_each(struct span_index *x, const struct span_filter *f, span_fn fn, void *ctx, struct err *e)
{
    struct scanned_file *files;
    struct span_filter own = *f;
    char dir[SPAN_DIR_SIZE] = "";
    int64_t keep;
    uint32_t n;
    int r;

    if (!x)
        return 0;
    keep = atomic_load(&x->keep);
    if (keep > 0) /* files are deleted as a whole, some time after their first spans are over the limit */
        own.from = MAX(own.from, span_index_now(x) - keep);
    r = copy_files(x, &own, dir, &files, &n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = scan_one(x, dir, &files[i], &own, fn, ctx);
    for (uint32_t i = 0; i < n; i++) {
        fd_close(files[i].file.fd);
        mem_free(files[i].blocks);
    }
    mem_free(files);
    if (r == -ECANCELED)
        return err_set(e, r, "cancelled");
    return r < 0 && e && !e->code ? err_set(e, r, "cannot read the span index: %m") : r;
}
