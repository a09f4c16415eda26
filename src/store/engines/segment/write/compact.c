/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites segments into larger ones; see engine.h. A rewrite reads its inputs window by window, so it needs the memory
 * of one window; the result replaces them in one transaction. Windows that lie entirely in one input are copied
 * (compact_copy.c). Between windows, memtables that have been sealed are flushed, so that writing continues however
 * long a rewrite takes.
 *
 * When it is due: all segments of level 0 and 1 of an hour that is over (with ten minutes for late data), or that has
 * eight segments, become one of level 1; all segments of level 1 of a day that is over (with an hour for late data)
 * become one of level 2, unless that would be more than a quarter of its tenant's limit of size: retention drops whole segments.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/format/radix.h"
#include "store/engines/segment/write/compact.h"
#include "store/engines/segment/write/recovery.h"

enum { HOUR_SEGMENTS_MAX = 8, INPUTS_MAX = 4096, DAY_SHARE = 4 };

/* --- rewriting --- */

int compact_damage(struct rewriting *x, uint32_t input, int r, struct err *e)
{
    if (r != -EBADMSG)
        return r;
    engine_damage(x->g, err_message(e, r));
    x->damaged[input] = true;
    return 0;
}

/* Lists every entry of an input's five-minute directories. */
static int list_entries(struct rewriting *x, uint32_t input)
{
    const struct segment_footer *f;
    struct err e = {0};
    struct arena a;
    int r = segment_footer(x->w->inputs[input], &f, &e);

    if (r < 0)
        return r;
    arena_init(&a, 0);
    for (uint32_t i = 0; r == 0 && i < f->n_groups; i++) {
        struct directory dir;

        r = compact_read_error(segment_read_directory(x->w->inputs[input], &f->groups[i], 0, &a, &dir, &e));
        if (r == -EBADMSG) {
            r = compact_damage(x, input, r, &e);
            x->whole = false; /* a chunk may be shared with the groups of that directory */
            continue;
        }
        for (uint32_t k = 0; r == 0 && k < dir.n; k++) {
            if (array_reserve(x->entries, x->cap, (size_t) x->n + 1, UINT32_MAX) < 0)
                r = -ENOMEM;
            else
                x->entries[x->n++] = (struct rewrite_entry){input, dir.v[k]};
        }
    }
    arena_done(&a);
    return r;
}

/* Sorts by window, input and chunk. The entries are already ordered by input. */
static int sort_entries(struct rewriting *x)
{
    _cleanup_(mem_freep) struct radix *keys = mem_alloc((2 * (size_t) x->n + 1) * sizeof *keys);
    struct rewrite_entry *sorted = mem_alloc((x->n + 1) * sizeof *sorted);

    if (!keys || !sorted) {
        mem_free(sorted);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < x->n; i++)
        keys[i] = (struct radix){x->entries[i].d.off, i};
    radix_sort(keys, keys + x->n, x->n);
    for (uint32_t i = 0; i < x->n; i++)
        keys[i].key = x->entries[keys[i].index].input;
    radix_sort(keys, keys + x->n, x->n);
    for (uint32_t i = 0; i < x->n; i++)
        keys[i].key = radix_signed(x->entries[keys[i].index].d.window);
    radix_sort(keys, keys + x->n, x->n);
    for (uint32_t i = 0; i < x->n; i++)
        sorted[i] = x->entries[keys[i].index];
    mem_free(x->entries);
    x->entries = sorted;
    return 0;
}

/* Gives a decoded prof its numbers in the output's dictionary. */
static int adopt(struct rewriting *x, uint32_t input, struct stored_profile *p)
{
    const struct sym_series *s;

    if (p->series >= pinned_count(&x->w->symbols->series))
        return -EBADMSG;
    s = sym_series(x->w->symbols, p->series);
    p->service = s->service;
    p->type = s->type_name;
    p->header = blob_remap_header(&x->maps[input], p->header);
    if (p->header == UINT32_MAX)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_extras; i++) {
        p->extras[i].attrs = blob_remap_set(&x->maps[input], p->extras[i].attrs);
        if (p->extras[i].attrs == UINT32_MAX)
            return -ENOMEM;
    }
    return 0;
}

static bool is_kept(const struct rewriting *x, uint32_t input, uint32_t series, int64_t time_ns)
{
    const struct segment_meta *m = &x->w->inputs[input]->meta;
    const struct sym_series *s;

    if (series >= pinned_count(&x->w->symbols->series))
        return true;
    s = sym_series(x->w->symbols, series);
    return (!x->w->keep || x->w->keep(x->w->ctx, s, time_ns)) &&
           !tombstones_hide(x->snap->tombstones, x->snap->n_tombstones, m->tenant, m->log, s, time_ns);
}

struct window {
    struct stored_profile **profs;
    size_t cap;
    uint32_t n;
};

static int take_chunk(struct rewriting *x, const struct rewrite_entry *ref, struct arena *a, struct window *win,
                      struct err *e)
{
    struct chunk_profiles p;
    struct chunk c;
    int r = compact_read_error(segment_chunk(x->w->inputs[ref->input], ref->d.off, ref->d.len, ~0u, &c, e));

    if (r < 0)
        return r;
    r = chunk_decode_profiles(&c, a, &p);
    if (r == 0)
        r = chunk_decode_rows(&c, a, &p,
                              &(struct chunk_wanted){.plain = true,
                                                     .traces = x->traces[ref->input].ids,
                                                     .n_traces = x->traces[ref->input].n});
    for (uint32_t i = 0; r == 0 && i < p.n_profs; i++) {
        r = adopt(x, ref->input, &p.profs[i]);
        if (r < 0)
            break;
        if (!is_kept(x, ref->input, p.profs[i].series, p.profs[i].time_ns))
            continue;
        if (array_reserve(win->profs, win->cap, (size_t) win->n + 1, UINT32_MAX) < 0)
            r = -ENOMEM;
        else
            win->profs[win->n++] = &p.profs[i];
    }
    chunk_done(&c);
    return r == -EBADMSG
               ? err_set(e, r, "segment %llu at %llu: a chunk's columns are damaged",
                         (unsigned long long) x->w->inputs[ref->input]->meta.number, (unsigned long long) ref->d.off)
               : r;
}

/* Entries [from, to) are one window: decodes all its profiles and writes them again. */
static int rewrite_window(struct rewriting *x, uint32_t from, uint32_t to, struct window *win, struct err *e)
{
    struct arena a;
    int r = 0;

    arena_init(&a, 0);
    win->n = 0;
    for (uint32_t i = from; r == 0 && i < to; i++) {
        const struct rewrite_entry *ref = &x->entries[i];
        uint32_t before = win->n;

        if (i > from && ref->input == ref[-1].input && ref->d.off == ref[-1].d.off)
            continue; /* several groups share a chunk */
        r = take_chunk(x, ref, &a, win, e);
        if (r == -EBADMSG) {
            r = compact_damage(x, ref->input, r, e);
            win->n = before;
        }
    }
    if (r == 0 && win->n)
        r = segment_writer_window(x->out, x->entries[from].d.window, win->profs, win->n, e);
    arena_done(&a);
    return r;
}

_aliased_lock_ static int rewrite_detail(struct rewriting *x, struct err *e)
{
    struct window win = {0};
    uint64_t rows = 0;
    int r = 0;

    for (uint32_t i = 0, j; r == 0 && i < x->n; i = j) {
        for (j = i + 1; j < x->n && x->entries[j].d.window == x->entries[i].d.window;)
            j++;
        r = compact_can_copy(x, i, j) ? compact_copy(x, i, j, e) : rewrite_window(x, i, j, &win, e);
        if (r == 0)
            r = engine_flush_sealed(x->g, e); /* a long rewrite must not block incoming data */
    }
    for (uint32_t i = 0; i < x->w->n; i++)
        rows += x->w->inputs[i]->meta.rows;
    if (r == 0 && x->whole)
        segment_writer_rows(x->out, rows);
    mem_free(win.profs);
    return r;
}

/* Whether a part of the window is omitted, so that the sum of its series is no longer valid. */
static bool is_cut(const struct rewriting *x, uint32_t input, const struct dir_entry *d, uint32_t n, int64_t window)
{
    for (uint32_t i = 0; i < n; i++)
        if (d[i].window == window && !is_kept(x, input, d[i].e.series, d[i].e.min_time))
            return true;
    return false;
}

/* Copies the totals of an input's windows from its directories, without detail. */
_aliased_lock_ static int rewrite_totals(struct rewriting *x, uint32_t input, struct err *e)
{
    struct segment *s = x->w->inputs[input];
    const struct segment_footer *f;
    struct arena a;
    struct directory *dirs = NULL;
    int64_t window = INT64_MIN;
    int r = segment_footer(s, &f, e);

    arena_init(&a, 0);
    if (r == 0) {
        dirs = arena_zalloc_array(&a, f->n_groups + 1, sizeof *dirs);
        r = dirs ? 0 : -ENOMEM;
    }
    for (uint32_t i = 0; r == 0 && i < f->n_groups; i++)
        r = compact_damage(x, input, compact_read_error(segment_read_directory(s, &f->groups[i], 0, &a, &dirs[i], e)),
                           e);
    while (r == 0) { /* windows in ascending order over all groups */
        struct chunk_entry *entries;
        struct totals *totals;
        uint32_t n = 0, max = 0;
        int64_t next = INT64_MAX;

        for (uint32_t i = 0; i < f->n_groups; i++)
            for (uint32_t k = 0; k < dirs[i].n; k++)
                if (dirs[i].v[k].window > window && dirs[i].v[k].window < next)
                    next = dirs[i].v[k].window;
        if (next == INT64_MAX)
            break;
        window = next;
        for (uint32_t i = 0; i < f->n_groups; i++)
            max += dirs[i].n;
        entries = mem_alloc(max * sizeof *entries);
        totals = mem_zalloc_array(max, sizeof *totals);
        r = entries && totals ? 0 : -ENOMEM;
        for (uint32_t i = 0; r == 0 && i < f->n_groups; i++) {
            bool cut = is_cut(x, input, dirs[i].v, dirs[i].n, window);

            for (uint32_t k = 0; r == 0 && k < dirs[i].n; k++) {
                const struct dir_entry *d = &dirs[i].v[k];
                struct chunk c;

                if (d->window != window)
                    continue;
                if (d->e.series == SERIES_ALL ? cut : !is_kept(x, input, d->e.series, d->e.min_time))
                    continue;
                r = compact_read_error(segment_chunk(s, d->off, d->head, 1u << SEC_TOTALS, &c, e));
                if (r == 0) {
                    entries[n] = d->e;
                    r = chunk_read_totals(&c, d->e.totals_off, UINT32_MAX, &totals[n]);
                    n += r == 0;
                    chunk_done(&c);
                }
                if (r == -EBADMSG)
                    err_set(e, r, "segment %llu at %llu: its totals are damaged", (unsigned long long) s->meta.number,
                            (unsigned long long) d->off);
                r = compact_damage(x, input, r, e);
            }
        }
        if (r == 0 && n)
            r = segment_writer_totals(x->out, window, entries, totals, n, e);
        for (uint32_t i = 0; totals && i < n; i++)
            totals_done(&totals[i]);
        mem_free(entries);
        mem_free(totals);
        if (r == 0)
            r = engine_flush_sealed(x->g, e);
    }
    arena_done(&a);
    return r;
}

/* An input whose footer or dictionary cannot be read stays unchanged: none of it is lost, and the others are rewritten
 * without it. */
static int open_input(struct rewriting *x, uint32_t i, struct err *e)
{
    struct segment *s = x->w->inputs[i];
    const struct segment_footer *f;
    const struct blobs *b;
    int r = compact_read_error(segment_footer(s, &f, e));

    if (r == 0 && s->meta.has_detail)
        r = compact_read_error(segment_blobs(s, &b, e));
    if (r == 0 && s->meta.has_detail)
        r = compact_read_error(segment_trace_ids(s, &x->arena, &x->traces[i].ids, &x->traces[i].n, e));
    if (r == -EBADMSG && !atomic_exchange(&s->unreadable, true))
        engine_damage(x->g, err_message(e, r));
    return r;
}

/* Copies damaged inputs to lost/ before they are replaced, unless a deletion applies to them. */
static int keep_damaged(struct rewriting *x, const struct engine_tenant *t, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->w->n; i++) {
        const struct segment_meta *m = &x->w->inputs[i]->meta;
        bool deleted = false;

        for (uint32_t k = 0; k < x->snap->n_tombstones; k++)
            deleted |= tombstone_concerns(x->snap->tombstones[k], m->tenant, m->log, m->t0, m->t1);
        if (x->damaged[i] && !deleted)
            r = lost_copy(x->g, t->number, t->seg_dir, m, e);
    }
    return r;
}

static int run_rewrite(struct rewriting *x, struct err *e)
{
    int r = 0;

    x->maps = mem_zalloc_array(x->w->n, sizeof *x->maps);
    x->traces = arena_zalloc_array(&x->arena, x->w->n, sizeof *x->traces);
    x->damaged = arena_zalloc_array(&x->arena, x->w->n, sizeof *x->damaged);
    if (!x->maps || !x->traces || !x->damaged)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < x->w->n; i++)
        r = open_input(x, i, e);
    if (r < 0)
        return r;
    if (x->w->drop_detail || !x->w->inputs[0]->meta.has_detail) {
        for (uint32_t i = 0; r == 0 && i < x->w->n; i++)
            r = rewrite_totals(x, i, e);
        return r;
    }
    for (uint32_t i = 0; r == 0 && i < x->w->n; i++) {
        const struct blobs *b;

        r = segment_blobs(x->w->inputs[i], &b, e);
        if (r == 0)
            r = blob_remap_init(&x->maps[i], b, segment_writer_blobs(x->out));
        x->traces[i].numbers = arena_alloc(&x->arena, (x->traces[i].n + 1) * sizeof *x->traces[i].numbers);
        if (r == 0)
            r = x->traces[i].numbers ? list_entries(x, i) : -ENOMEM;
    }
    if (r == 0)
        r = sort_entries(x);
    return r < 0 ? r : rewrite_detail(x, e);
}

/* Replaces the inputs by s, or by nothing when nothing is left. Steps that can fail come before the transaction. */
static int replace_inputs(struct engine *g, const struct rewrite *w, struct segment *s, const uint64_t *removed,
                          struct err *e) _locked_(g->flush_lock)
{
    bool unsure = false, empty = s->meta.t0 > s->meta.t1;
    struct catalog_change change = {.removed = removed, .n_removed = w->n, .next = g->next_segment, .unsure = &unsure};
    struct snapshot_change snap = {.removed = removed, .n_removed = w->n};
    struct snapshot_room room = {0};
    int r = snapshot_make_room(g, 1, &room);

    atomic_store(&s->dead, true);
    if (!empty) {
        change.added = &s->meta;
        change.n_added = snap.n_added = 1;
        snap.added = &s;
        snap.added_symbols = (struct symbols *const *) &w->symbols;
    }
    if (r == 0)
        r = catalog_commit(g->catalog, &change, e);
    if (unsure)
        engine_stop(g, "the catalogue", r);
    if (unsure || (r == 0 && !empty))
        atomic_store(&s->dead, false);
    if (r == 0)
        snapshot_publish_in(&room, &snap);
    else
        snapshot_room_done(&room);
    return r;
}

static int commit_rewrite(struct engine *g, struct engine_tenant *t, const struct rewrite *w,
                          struct segment_writer *out, const uint64_t *removed, struct err *e) _locked_(g->flush_lock)
{
    _cleanup_(segment_unrefp) struct segment *s = NULL;
    struct segment_meta meta;
    int r = segment_writer_finish(out, &meta, e);

    if (r < 0)
        return r;
    r = fd_sync(t->seg_dir);
    if (r == 0)
        r = segment_open(t->seg_dir, meta.number, &g->lru, &s, e);
    if (r < 0) {
        segment_discard(t->seg_dir, meta.number);
        return r;
    }
    s->meta = meta;
    r = replace_inputs(g, w, s, removed, e);
    if (r < 0)
        return r;
    pthread_mutex_lock(&g->lock);
    g->stats.compactions++;
    pthread_mutex_unlock(&g->lock);
    return 0;
}

static int u64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

int engine_rewrite(struct engine *g, struct engine_tenant *t, const struct rewrite *w, struct err *e)
{
    _cleanup_(segment_writer_freep) struct segment_writer *out = NULL;
    uint64_t *removed = mem_alloc(w->n * sizeof *removed), log = 0;
    struct rewriting x = {.g = g, .w = w};
    int r = removed ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < w->n; i++) /* it is read as a whole, so from disk */
        r = engine_thaw(g, w->inputs[i], e);
    if (r < 0) {
        mem_free(removed);
        return r;
    }
    arena_init(&x.arena, 0);
    x.snap = snapshot_get(g);
    for (uint32_t i = 0; i < w->n; i++)
        segment_use(w->inputs[i]);
    x.whole = !w->keep && !x.snap->n_tombstones;
    for (uint32_t i = 0; r == 0 && i < w->n; i++) {
        removed[i] = w->inputs[i]->meta.number;
        log = MAX(log, w->inputs[i]->meta.log);
    }
    if (r == 0) {
        qsort(removed, w->n, sizeof *removed, u64_cmp);
        r = segment_writer_new(&(struct segment_writer_options){.dir = t->seg_dir,
                                                                .meta = {.number = g->next_segment++,
                                                                         .tenant = t->number,
                                                                         .epoch = w->symbols->epoch,
                                                                         .level = w->level,
                                                                         .log = log},
                                                                .replaced = removed,
                                                                .n_replaced = w->n},
                               &out, e);
    }
    x.out = out;
    if (r == 0)
        r = run_rewrite(&x, e);
    if (r == 0)
        r = keep_damaged(&x, t, e);
    if (r == 0)
        r = commit_rewrite(g, t, w, out, removed, e);
    for (uint32_t i = 0; x.maps && i < w->n; i++)
        blob_remap_done(&x.maps[i]);
    arena_done(&x.arena);
    for (uint32_t i = 0; i < w->n; i++)
        segment_release(w->inputs[i]);
    snapshot_unref(x.snap);
    mem_free(x.maps);
    mem_free(x.entries);
    mem_free(removed);
    return r;
}

/* --- what is due --- */

/* Where a rewrite may begin: the window of the segment `first`. */
struct compact_bucket {
    uint32_t first, level; /* level: of the segment to be made */
    int64_t size;          /* of the window */
    bool due, all;         /* due: the window is over; all: on request, whatever there is */
};

/* Selects the segments of the bucket below the level, and those on the level when it is worthwhile: a few small
 * segments that came late must not cause the whole day to be rewritten. */
static int compact_bucket(struct engine *g, const struct snapshot *snap, const struct compact_bucket *c, struct err *e)
    _locked_(g->flush_lock)
{
    uint32_t first = c->first, level = c->level;
    int64_t size = c->size;
    const struct segment_meta *m = &snap->segments[first].segment->meta;
    int64_t bucket = window_start(m->t0, size);
    struct segment *inputs[INPUTS_MAX];
    struct rewrite w = {.inputs = inputs, .symbols = snap->segments[first].symbols, .level = level};
    uint32_t lower = 0, same = 0;
    uint64_t bytes = 0;
    int r;

    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < snap->n_segments && w.n < INPUTS_MAX; i++) {
            const struct segment_meta *x = &snap->segments[i].segment->meta;

            if (snap->segments[i].symbols != w.symbols || !x->has_detail ||
                atomic_load(&snap->segments[i].segment->unreadable) || window_start(x->t0, size) != bucket ||
                x->level > level)
                continue;
            if (pass == 0) {
                lower += x->level < level;
                same += x->level == level;
            } else if (x->level < level || c->all || lower >= 4 || same >= 4) {
                inputs[w.n++] = snap->segments[i].segment;
                bytes += x->bytes;
            }
        }
    if (level == 2 && !c->all && bytes > engine_tenant_limit(g, engine_tenant_number(g, m->tenant)) / DAY_SHARE)
        return 0;
    if (!lower || (!c->due && lower < HOUR_SEGMENTS_MAX))
        return 0;
    r = engine_rewrite(g, engine_tenant_number(g, m->tenant), &w, e);
    if (r == -EREMOTEIO) { /* an input is in the object store, which cannot be reached: later */
        engine_cold_problem(g, err_message(e, r));
        return 0;
    }
    return r < 0 && r != -EBADMSG ? r : 1; /* an unreadable input is skipped next time */
}

/* Does one rewrite if one is due. Returns 1 if so, else 0. */
static int compact_one(struct engine *g, bool all, uint32_t level, struct err *e) _locked_(g->flush_lock)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int64_t size = level == 1 ? WINDOW_1H : WINDOW_1D, grace = level == 1 ? 2 * WINDOW_5M : WINDOW_1H;
    int64_t now = engine_now(g);
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < snap->n_segments; i++) {
        const struct segment_meta *m = &snap->segments[i].segment->meta;
        bool due = all || now >= window_start(m->t0, size) + size + grace;

        if (m->level >= level || !m->has_detail || atomic_load(&snap->segments[i].segment->unreadable) ||
            (level == 2 && (m->level != 1 || !due)))
            continue;
        r = compact_bucket(g, snap, &(struct compact_bucket){i, level, size, due, all}, e);
    }
    return r;
}

int engine_compact(struct engine *g, bool all, struct err *e)
{
    int deleted = engine_purge(g, e);

    if (deleted < 0)
        return deleted;
    for (uint32_t level = 1; level <= 2; level++) {
        int r;

        do
            r = compact_one(g, all, level, e);
        while (r > 0);
        if (r < 0)
            return r;
    }
    return 0;
}
