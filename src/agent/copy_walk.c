/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the unwind rules for the walk of a copied stack. */
#include "agent/copy_walk.h"

#include "agent/row_store.h"
#include "agent/stack_walk.h"
#include "unwind/table.h"

struct walk_context {
    const struct copy_walk *w;
    struct process *p;
    bool refreshed;
};

/* The mapping at an address. If none is known, it may be new and /proc/PID/maps is read again. */
static struct process_mapping *mapping_for(struct walk_context *c, uint64_t address)
{
    struct process_mapping *m = process_mapping_at(c->p, address);

    if (!m && !c->refreshed && !c->p->exited && address >> 47 == 0) {
        c->refreshed = true;
        if (processes_refresh(c->w->processes, c->p) == 0)
            m = process_mapping_at(c->p, address);
    }
    return m;
}

static const struct unwind_rule *find_rule(void *arg, uint64_t address, uint32_t *ret_end)
{
    struct walk_context *c = arg;
    struct process_mapping *m = mapping_for(c, address);
    const struct unwind_table *t;
    const struct unwind_rule *u;

    if (!m) {
        *ret_end = AGENT_END_NO_MAPPING;
        return NULL;
    }
    m->hit = true;
    processes_resolve(c->w->processes, c->p, m);
    t = m->object ? objects_table(c->w->objects, m->object, c->w->now_ns) : NULL;
    if (!t || address - m->bias - m->object->fp_lo < m->object->fp_hi - m->object->fp_lo) {
        if (m->object && c->p->loaded) /* the record says otherwise */
            c->p->stale = true;
        *ret_end = AGENT_END_NONE;
        return NULL;
    }
    if (c->w->rows)
        row_store_load(c->w->rows, m->object, (uint32_t) ((address - m->bias) >> UNWIND_PAGE_BITS), c->w->now_ns);
    u = unwind_find(t, address - m->bias);
    *ret_end = AGENT_END_NO_RULE;
    return u;
}

enum agent_end copy_walk(const struct copy_walk *w, struct process *p, const struct agent_event *e,
                         const struct agent_stack *s, uint64_t *words, uint32_t *n_words)
{
    struct walk_context c = {.w = w, .p = p};
    struct stack_words to = {words, *n_words, e->n_kernel + AGENT_USER_FRAMES};
    struct stack_copy copy = {s->sp, s->n, s->bytes};
    enum agent_end end = stack_walk(&e->resume, &copy, find_rule, &c, &to);

    *n_words = to.n;
    return end;
}

enum agent_end copy_walk_judge(struct processes *s, struct process *p, uint64_t last, enum agent_end end)
{
    uint64_t pc = AGENT_WORD_VALUE(last);
    struct process_mapping *m;

    if (end != AGENT_END_NO_RULE || !p || AGENT_WORD_KIND(last) >= AGENT_WORD_LANG)
        return end;
    m = process_mapping_at(p, pc);
    if (m)
        processes_resolve(s, p, m);
    return m && m->object && object_is_start(m->object, pc - m->bias) ? AGENT_END_ROOT : end;
}
