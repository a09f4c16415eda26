/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an unwind table as a sealed memory file, and checks and maps one that an untrusted process wrote
 * (table_share.h). */
#include "unwind/table_share.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/sealed.h"

struct head {
    uint64_t first_page, covered;
    uint32_t n_pages, n_rows, n_rules, n_unknown;
};

enum { FILE_MAX = 256 << 20 };

struct share_layout {
    size_t pages, rows, rules, blocks, end; /* offsets */
};

static struct share_layout layout_of(const struct head *h)
{
    struct share_layout l = {.pages = sizeof *h};

    l.rows = ALIGN_UP(l.pages + h->n_pages * sizeof(struct unwind_page), (size_t) 8);
    l.rules = ALIGN_UP(l.rows + h->n_rows * sizeof(struct unwind_row), (size_t) 8);
    l.blocks = ALIGN_UP(l.rules + h->n_rules * sizeof(struct unwind_rule), (size_t) 8);
    l.end = l.blocks + (size_t) h->n_pages * UNWIND_PAGE_BLOCKS * sizeof(uint16_t);
    return l;
}

static struct str bytes(const void *p, size_t n)
{
    return (struct str){p, (uint32_t) n};
}

int unwind_table_share(const struct unwind_table *t, int *ret)
{
    static const char zeros[8];
    struct head h = {t->first_page, t->covered, t->n_pages, t->n_rows, t->n_rules, t->n_unknown};
    struct share_layout l = layout_of(&h);
    size_t n_pages = t->n_pages * sizeof *t->pages, n_rows = t->n_rows * sizeof *t->rows;
    size_t n_rules = t->n_rules * sizeof *t->rules;
    struct str parts[] = {
        bytes(&h, sizeof h),
        bytes(t->pages, n_pages),
        bytes(zeros, l.rows - l.pages - n_pages),
        bytes(t->rows, n_rows),
        bytes(zeros, l.rules - l.rows - n_rows),
        bytes(t->rules, n_rules),
        bytes(zeros, l.blocks - l.rules - n_rules),
        bytes(t->blocks, l.end - l.blocks),
    };

    return sealed_new("wick-unwind-rows", parts, ARRAY_SIZE(parts), ret);
}

/* Rows ascend from pc 0, lie in one shard and have rules of this table; blocks are in the page and ascend. */
static bool is_page_valid(const struct unwind_table *t, uint32_t page)
{
    const struct unwind_page *p = &t->pages[page];
    const struct unwind_row *rows;
    const uint16_t *block = t->blocks + (size_t) page * UNWIND_PAGE_BLOCKS;

    if (!p->n)
        return true;
    if (p->row > t->n_rows || p->n > t->n_rows - p->row ||
        p->row / UNWIND_SHARD_ROWS != (p->row + p->n - 1) / UNWIND_SHARD_ROWS)
        return false;
    rows = t->rows + p->row;
    if (rows[0].pc)
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (rows[i].rule >= t->n_rules || (i && rows[i].pc <= rows[i - 1].pc))
            return false;
    for (uint32_t b = 0; b < UNWIND_PAGE_BLOCKS; b++)
        if (block[b] >= p->n || (b && block[b] < block[b - 1]))
            return false;
    return true;
}

static bool is_rule_valid(const struct unwind_rule *r)
{
    return r->cfa <= UNWIND_CFA_SWITCH && r->ra <= UNWIND_RA_REG &&
           r->flags <= (UNWIND_FP_AT_FP | UNWIND_BX_AT_FP | UNWIND_FP_SAVED | UNWIND_BX_SAVED);
}

int unwind_table_check(const void *p, size_t n, struct unwind_table *ret)
{
    const char *at = p;
    struct head h;
    struct share_layout l;

    if (n < sizeof h)
        return -EBADMSG;
    memcpy(&h, p, sizeof h);
    if (h.n_pages > UNWIND_PAGES_MAX || h.n_rows > UNWIND_ROWS_MAX || !h.n_rules || h.n_rules > UNWIND_RULES_MAX)
        return -EBADMSG;
    l = layout_of(&h);
    if (l.end != n || h.first_page > UINT64_MAX >> UNWIND_PAGE_BITS)
        return -EBADMSG;
    *ret = (struct unwind_table){.first_page = h.first_page,
                                 .n_pages = h.n_pages,
                                 .n_rows = h.n_rows,
                                 .n_rules = h.n_rules,
                                 .covered = h.covered,
                                 .n_unknown = h.n_unknown,
                                 .pages = (struct unwind_page *) (uintptr_t) (at + l.pages),
                                 .blocks = (uint16_t *) (uintptr_t) (at + l.blocks),
                                 .rows = (struct unwind_row *) (uintptr_t) (at + l.rows),
                                 .rules = (struct unwind_rule *) (uintptr_t) (at + l.rules)};
    for (uint32_t i = 0; i < h.n_rules; i++)
        if (!is_rule_valid(&ret->rules[i]) || (!i && ret->rules[i].cfa != UNWIND_CFA_NONE))
            return -EBADMSG;
    for (uint32_t i = 0; i < h.n_pages; i++)
        if (!is_page_valid(ret, i))
            return -EBADMSG;
    return 0;
}

int unwind_table_map(int fd, struct unwind_table **ret)
{
    struct unwind_table *t = mem_zalloc(sizeof *t);
    void *p = NULL;
    size_t n = 0;
    int r = t ? sealed_map(fd, FILE_MAX, &p, &n) : -ENOMEM;

    if (r == 0)
        r = unwind_table_check(p, n, t);
    if (r < 0) {
        if (p)
            munmap(p, n);
        mem_free(t);
        return r;
    }
    t->map = p;
    t->map_size = n;
    *ret = t;
    return 0;
}
