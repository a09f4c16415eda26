/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles call frame information into an unwind table. FDEs are sorted by address and run in that order, so that rows
 * are produced in ascending order and go directly into their pages: besides the table only the list of FDEs is in
 * memory.
 */
#include "unwind/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

enum { FDES_MAX = 1 << 22, FROM_SOURCE = 0 /* in cfi_fde.section; sections count from 1 */ };

struct fdes {
    struct cfi_fde *v;
    size_t n, cap;
};

struct maker {
    struct unwind_table *t;
    size_t cap_pages, cap_rows, cap_rules, cap_blocks;
    struct map rules;
    uint16_t rule;  /* in force at the end of what was emitted */
    uint64_t page;  /* number of the open page, relative to first_page */
    bool open;      /* a page is open */
    uint32_t start; /* its first row */
};

static int collect(const struct cfi_section *s, uint32_t section, enum cfi_arch arch, struct fdes *f)
{
    struct cfi_fde fde;
    size_t pos = 0;
    int r;

    while (cfi_next(s, arch, &pos, &fde)) {
        r = array_reserve(f->v, f->cap, f->n + 1, FDES_MAX);
        if (r < 0)
            return r;
        fde.section = section + 1;
        f->v[f->n++] = fde;
    }
    return 0;
}

static int collect_source(const struct unwind_source *s, struct fdes *f)
{
    for (uint32_t i = 0; s && i < s->n; i++) {
        struct cfi_fde fde = {.offset = i, .section = FROM_SOURCE};
        int r;

        if (!s->range(s, i, &fde.start, &fde.end) || fde.end <= fde.start)
            continue;
        r = array_push(f->v, f->n, f->cap, FDES_MAX, fde);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool fde_less(const struct cfi_fde *a, const struct cfi_fde *b)
{
    return a->start != b->start ? a->start < b->start : a->section < b->section;
}

static void sift(struct cfi_fde *v, size_t i, size_t n)
{
    struct cfi_fde x = v[i];

    for (size_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && fde_less(&v[c], &v[c + 1]))
            c++;
        if (!fde_less(&x, &v[c]))
            break;
        v[i] = v[c];
    }
    v[i] = x;
}

/* Heap sort, because qsort() may call malloc, which the SDK must not. Linkers mostly sort already. */
static void sort_fdes(struct cfi_fde *v, size_t n)
{
    size_t i;

    for (i = 1; i < n && !fde_less(&v[i], &v[i - 1]); i++)
        ;
    if (i >= n)
        return;
    for (i = n / 2; i-- > 0;)
        sift(v, i, n);
    for (i = n; i-- > 1;) {
        struct cfi_fde x = v[0];

        v[0] = v[i];
        v[i] = x;
        sift(v, 0, i);
    }
}

/* The number of an equal rule, added if new; 0 for the empty one, or when there are too many. */
static int intern_rule(struct maker *m, const struct unwind_rule *rule)
{
    struct unwind_table *t = m->t;
    uint64_t h = hash64(rule, sizeof *rule);
    int r;

    if (rule->cfa == UNWIND_CFA_NONE)
        return 0;
    for (struct map_pos p = map_find(&m->rules, h); p.index != MAP_NONE; p = map_next(&m->rules, p))
        if (memcmp(&t->rules[p.index], rule, sizeof *rule) == 0)
            return (int) p.index;
    if (t->n_rules == UNWIND_RULES_MAX)
        return 0;
    r = array_reserve(t->rules, m->cap_rules, t->n_rules + 1u, UNWIND_RULES_MAX);
    if (r == 0)
        r = map_insert(&m->rules, h, t->n_rules);
    if (r < 0)
        return r;
    t->rules[t->n_rules] = *rule;
    return (int) t->n_rules++;
}

static int add_row(struct maker *m, uint16_t low, uint16_t rule)
{
    struct unwind_table *t = m->t;
    int r = array_reserve(t->rows, m->cap_rows, t->n_rows + 1u, UNWIND_ROWS_MAX);

    if (r < 0)
        return r;
    t->rows[t->n_rows++] = (struct unwind_row){low, rule};
    return 0;
}

/* A page that crosses the boundary of a shard moves to the next shard. */
static int align_to_shard(struct maker *m)
{
    struct unwind_table *t = m->t;
    uint32_t n = t->n_rows - m->start, edge = ALIGN_UP(m->start, (uint32_t) UNWIND_SHARD_ROWS);
    int r;

    if (n == 0 || m->start / UNWIND_SHARD_ROWS == (t->n_rows - 1) / UNWIND_SHARD_ROWS)
        return 0;
    r = array_reserve(t->rows, m->cap_rows, (size_t) edge + n, UNWIND_ROWS_MAX);
    if (r < 0)
        return r;
    memmove(t->rows + edge, t->rows + m->start, n * sizeof *t->rows);
    memset(t->rows + m->start, 0, (edge - m->start) * sizeof *t->rows);
    m->start = edge;
    t->n_rows = edge + n;
    return 0;
}

static void index_blocks(struct maker *m, uint32_t n)
{
    uint16_t *block = m->t->blocks + (size_t) m->page * UNWIND_PAGE_BLOCKS;
    const struct unwind_row *rows = m->t->rows + m->start;
    uint32_t i = 0;

    for (uint32_t b = 0; b < UNWIND_PAGE_BLOCKS; b++) {
        while (i + 1 < n && rows[i + 1].pc <= b << UNWIND_BLOCK_BITS)
            i++;
        block[b] = (uint16_t) i;
    }
}

static int close_page(struct maker *m)
{
    struct unwind_table *t = m->t;
    uint32_t n = t->n_rows - m->start;
    int r;

    if (!m->open)
        return 0;
    m->open = false;
    if (n == 1 && t->rows[m->start].rule == 0) { /* a page of nothing */
        t->n_rows--;
        return 0;
    }
    r = align_to_shard(m);
    if (r < 0)
        return r;
    t->pages[m->page] = (struct unwind_page){m->start, n};
    index_blocks(m, n);
    return 0;
}

static int open_page(struct maker *m, uint64_t page)
{
    struct unwind_table *t = m->t;
    int r;

    if (page >= UNWIND_PAGES_MAX)
        return -E2BIG;
    r = array_reserve(t->pages, m->cap_pages, page + 1, UNWIND_PAGES_MAX);
    if (r == 0)
        r = array_reserve(t->blocks, m->cap_blocks, (size_t) (page + 1) * UNWIND_PAGE_BLOCKS,
                          (size_t) UNWIND_PAGES_MAX * UNWIND_PAGE_BLOCKS);
    if (r < 0)
        return r;
    while (t->n_pages <= page) {
        memset(t->blocks + (size_t) t->n_pages * UNWIND_PAGE_BLOCKS, 0, sizeof *t->blocks * UNWIND_PAGE_BLOCKS);
        t->pages[t->n_pages++] = (struct unwind_page){0};
    }
    m->page = page;
    m->open = true;
    m->start = t->n_rows;
    return add_row(m, 0, m->rule);
}

/* Opens the pages up to the one of pc; a rule in force carries on into each. */
static int reach(struct maker *m, uint64_t pc)
{
    uint64_t page = (pc >> UNWIND_PAGE_BITS) - m->t->first_page;
    int r = 0;

    if (!m->open && m->rule == 0)
        return open_page(m, page);
    while (r == 0 && (!m->open || m->page < page)) {
        uint64_t next = m->open ? m->page + 1 : page;

        if (m->rule == 0) /* nothing to carry: skip empty pages */
            next = page;
        r = close_page(m);
        if (r == 0)
            r = open_page(m, next);
    }
    return r;
}

static int set_rule(struct maker *m, uint64_t pc, uint16_t rule)
{
    struct unwind_table *t = m->t;
    uint16_t low = (uint16_t) pc;
    struct unwind_row *last;
    int r = reach(m, pc);

    if (r < 0)
        return r;
    last = &t->rows[t->n_rows - 1];
    m->rule = rule;
    if (last->pc == low) {
        last->rule = rule;
        if (t->n_rows - m->start > 1 && last[-1].rule == rule)
            t->n_rows--;
        return 0;
    }
    return last->rule == rule ? 0 : add_row(m, low, rule);
}

static int on_rule(void *arg, uint64_t pc, const struct unwind_rule *rule)
{
    struct maker *m = arg;
    int id = intern_rule(m, rule);

    if (id < 0)
        return id;
    m->t->n_unknown += id == 0;
    return set_rule(m, pc, (uint16_t) id);
}

static int make_rows(struct maker *m, const struct unwind_source *source, const struct cfi_section *sections,
                     enum cfi_arch arch, const struct fdes *f)
{
    uint64_t covered = 0;
    int r = 0;

    for (size_t i = 0; i < f->n && r >= 0; i++) {
        const struct cfi_fde *fde = &f->v[i];

        if (fde->start < covered) /* described already */
            continue;
        if (fde->end - f->v[0].start > (uint64_t) UNWIND_PAGES_MAX << UNWIND_PAGE_BITS) /* nonsense */
            continue;
        if (fde->start > covered && m->rule)
            r = set_rule(m, covered, 0);
        if (r == 0)
            r = fde->section == FROM_SOURCE ? source->run(source, fde->offset, on_rule, m)
                                            : cfi_run(&sections[fde->section - 1], arch, fde, on_rule, m);
        if (r == -EINVAL) /* damaged after its head */
            r = 0;
        m->t->covered += fde->end - fde->start;
        covered = fde->end;
    }
    if (r >= 0 && m->rule)
        r = set_rule(m, covered, 0);
    return r < 0 ? r : close_page(m);
}

/* Releases excess capacity; a failure to do so is ignored. */
static void trim(struct unwind_table *t)
{
    void *p = mem_realloc_array(t->rows, MAX(t->n_rows, 1u), sizeof *t->rows);

    if (p)
        t->rows = p;
    p = mem_realloc_array(t->blocks, MAX(t->n_pages, 1u), sizeof *t->blocks * UNWIND_PAGE_BLOCKS);
    if (p)
        t->blocks = p;
    p = mem_realloc_array(t->pages, MAX(t->n_pages, 1u), sizeof *t->pages);
    if (p)
        t->pages = p;
    p = mem_realloc_array(t->rules, MAX(t->n_rules, 1u), sizeof *t->rules);
    if (p)
        t->rules = p;
}

int unwind_table_new(const struct cfi_section *sections, uint32_t n, enum cfi_arch arch, struct unwind_table **ret)
{
    return unwind_table_new_from(NULL, sections, n, arch, ret);
}

int unwind_table_new_from(const struct unwind_source *source, const struct cfi_section *sections, uint32_t n,
                          enum cfi_arch arch, struct unwind_table **ret)
{
    _cleanup_(unwind_table_freep) struct unwind_table *t = mem_zalloc(sizeof *t);
    struct maker m = {.t = t, .rules = MAP_INIT};
    struct fdes f = {0};
    int r = t ? collect_source(source, &f) : -ENOMEM;

    for (uint32_t i = 0; i < n && r == 0; i++)
        r = collect(&sections[i], i, arch, &f);
    if (r == 0) {
        sort_fdes(f.v, f.n);
        t->first_page = f.n ? f.v[0].start >> UNWIND_PAGE_BITS : 0;
        r = array_reserve(t->rules, m.cap_rules, 1, UNWIND_RULES_MAX);
    }
    if (r == 0) {
        t->rules[0] = (struct unwind_rule){0};
        t->n_rules = 1;
        r = make_rows(&m, source, sections, arch, &f);
    }
    map_done(&m.rules);
    mem_free(f.v);
    if (r < 0)
        return r;
    trim(t);
    *ret = TAKE(t);
    return 0;
}

void unwind_table_free(struct unwind_table *t)
{
    if (!t)
        return;
    if (t->map) {
        munmap(t->map, t->map_size);
    } else {
        mem_free(t->pages);
        mem_free(t->blocks);
        mem_free(t->rows);
        mem_free(t->rules);
    }
    mem_free(t);
}

size_t unwind_table_memory(const struct unwind_table *t)
{
    return sizeof *t + t->n_pages * (sizeof *t->pages + UNWIND_PAGE_BLOCKS * sizeof *t->blocks) +
           (size_t) t->n_rows * sizeof *t->rows + t->n_rules * sizeof *t->rules;
}
