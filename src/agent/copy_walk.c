/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the unwind rules for the walk of a copied stack. */
#include "agent/copy_walk.h"

#include "agent/row_store.h"
#include "agent/stack_walk.h"
#include "base/hash.h"
#include "unwind/code_rule.h"
#include "unwind/table.h"

enum { LEARN_BYTES = 8192, LEARN_INSTRUCTIONS = 64 };

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

static size_t read_code(void *arg, uint64_t address, uint8_t *ret, size_t n)
{
    struct walk_context *c = arg;
    ssize_t got = c->p->exited ? -1 : process_read(c->p, address, ret, n);

    return got < 0 ? 0 : (size_t) got;
}

/* What is known of the code at an address, which is found out if it is new; NULL if it is not that of a file. */
static const struct code_known *look_at(struct walk_context *c, uint64_t address, bool called)
{
    struct process_mapping *m = mapping_for(c, called ? address - 1 : address);
    struct code_known *k, want = {.called = called};

    if (m)
        processes_resolve(c->w->processes, c->p, m);
    if (!m || !m->object)
        return NULL;
    want.object = m->object->number;
    want.address = address - m->bias;
    k = &c->w->memo->v[hash64_u64(want.address ^ (uint64_t) want.object << 40 ^ called) % ARRAY_SIZE(c->w->memo->v)];
    if (k->object == want.object && k->address == want.address && k->called == called)
        return k;
    want.found = called ? stack_called(read_code, c, address) : stack_infer(read_code, c, address, &want.rule);
    if (want.found || !c->p->exited)
        *k = want;
    return want.found ? k : NULL;
}

static bool infer(void *arg, uint64_t pc, struct unwind_rule *ret)
{
    const struct code_known *k = look_at(arg, pc, false);

    if (!k || !k->found)
        return false;
    *ret = k->rule;
    return true;
}

static bool called(void *arg, uint64_t pc)
{
    const struct code_known *k = look_at(arg, pc, true);

    return k && k->found;
}

/* The next samples are likely to be at the instructions that follow. */
static void learn_ahead(struct walk_context *c, const struct process_mapping *m, uint64_t pc)
{
    uint8_t code[LEARN_BYTES];
    size_t n = read_code(c, pc, code, sizeof code), at = 0, length;
    struct unwind_rule rule;

    for (int i = 0; i < LEARN_INSTRUCTIONS && (length = code_length(code + at, n - at)) > 0; i++) {
        at += length;
        if (!code_rule(code, n, at, &rule))
            return;
        row_store_learn(c->w->rows, m->object, pc + at - m->bias, &rule);
    }
}

static void learn(void *arg, uint64_t pc, bool exact, const struct unwind_rule *rule)
{
    struct walk_context *c = arg;
    uint64_t address = exact ? pc : pc - 1;
    const struct process_mapping *m = c->w->rows && !c->p->exited ? process_mapping_at(c->p, address) : NULL;

    if (!m || !m->object)
        return;
    row_store_learn(c->w->rows, m->object, address - m->bias, rule);
    if (rule && exact)
        learn_ahead(c, m, pc);
}

enum agent_end copy_walk(const struct copy_walk *w, struct process *p, const struct agent_event *e,
                         const struct agent_stack *s, struct stack_words *to)
{
    struct walk_context c = {.w = w, .p = p};
    struct stack_source source = {find_rule, infer, called, learn, &c};
    struct stack_copy copy = {s->sp, s->n, s->bytes};

    return stack_walk(&e->resume, &copy, &source, to);
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
    if (m && m->object && object_is_start(m->object, pc - m->bias))
        return AGENT_END_ROOT;
    if (m && m->object)
        m->object->cut++;
    return end;
}
