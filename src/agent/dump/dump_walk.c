/* SPDX-License-Identifier: Apache-2.0 */
/* Native stacks of a process and the names of their frames (dump_walk.h), with the agent's objects: their tables and
 * names come from the confined process that reads binaries. */
#include "agent/dump/dump_walk.h"

#include <errno.h>

#include "agent/lang/lang.h"
#include "agent/names.h"
#include "agent/perf_map.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proc/jit_names.h"
#include "unwind/table.h"

void dump_walk_prepare(struct dump *s)
{
    struct process *p = s->process;

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct process_mapping *m = &p->mappings[i];

        processes_resolve(s->processes, p, m);
        if (m->object)
            objects_table(s->objects, m->object, (uint64_t) clock_mono());
    }
}

/* Code of a JIT, or that a JIT's compiler made at build time. */
static bool is_by_frame_pointer(const struct process_mapping *m, uint64_t at)
{
    const struct object *o = m ? m->object : NULL;

    return !o || !o->table || at - m->bias - o->fp_lo < o->fp_hi - o->fp_lo;
}

/* A step without a rule: code without tables is walked by frame pointers; a stack that ends in the start code of a
 * program is complete; any other is not. */
static enum remote_result step_without(const struct process_mapping *m, uint64_t at, struct remote_regs *w,
                                       const struct proc_memory *memory)
{
    if (is_by_frame_pointer(m, at))
        return remote_step_fp(w, memory);
    return object_is_start(m->object, at - m->bias) ? REMOTE_ROOT : REMOTE_NO_RULE;
}

uint32_t dump_walk(struct dump *s, const struct remote_regs *from, const struct proc_memory *memory, uint64_t *words,
                   bool *ret_whole)
{
    struct remote_regs w = *from;
    uint32_t n = 0;

    *ret_whole = false;
    while (n < DUMP_FRAMES_MAX) {
        uint64_t at = w.exact ? w.pc : w.pc - 1;
        const struct process_mapping *m = process_mapping_at(s->process, at);
        const struct unwind_table *t = m && m->object ? m->object->table : NULL;
        const struct unwind_rule *rule = t ? unwind_find(t, at - m->bias) : NULL;
        enum remote_result r;

        if (!m && n) /* not code: the step before was wrong */
            break;
        s->fps[n] = is_by_frame_pointer(m, at) ? w.fp : 0;
        words[n++] =
            AGENT_WORD_VALUE(w.pc) |
            (uint64_t) (w.exact || (rule && rule->cfa == UNWIND_CFA_SIGNAL) ? AGENT_WORD_EXACT : AGENT_WORD_NATIVE)
                << 56;
        r = rule ? remote_step(&w, rule, memory) : step_without(m, at, &w, memory);
        if (r == REMOTE_STEPPED)
            continue;
        *ret_whole = r == REMOTE_ROOT;
        break;
    }
    return n;
}

/* --- frames --- */
static struct dump_line *one_line(struct dump *s, struct str function)
{
    struct dump_line *l = arena_zalloc_array(&s->arena, 1, sizeof *l);

    if (l)
        l->function = function;
    return l;
}

static int module_of(struct dump *s, struct object *o)
{
    for (uint32_t i = 0; i < s->n_modules; i++)
        if (s->modules[i].object == o)
            return (int) i;
    if (s->n_modules == DUMP_MODULES_MAX)
        return -1;
    s->modules[s->n_modules] = (struct dump_module){o, o->path};
    return (int) s->n_modules++;
}

static void set_native(struct dump *s, uint64_t word, struct dump_frame *f)
{
    bool exact = AGENT_WORD_KIND(word) == AGENT_WORD_EXACT;
    uint64_t address = AGENT_WORD_VALUE(word), at = address - !exact;
    const struct process_mapping *m = process_mapping_at(s->process, at);

    *f = (struct dump_frame){.type = "native", .exact = exact, .address = address, .module = -1};
    if (m && m->object) {
        f->module = module_of(s, m->object);
        f->elf = at - m->bias;
    }
}

static void set_language(struct dump *s, const uint64_t *words, struct dump_frame *f)
{
    const struct lang *lang = s->process->lang;
    struct lang_frame got[LANG_INLINED_MAX] = {{.function = STR("[a frame that cannot be read]")}};
    int n = lang->resolve(s->process, words, &s->arena, got, LANG_INLINED_MAX);
    struct dump_line *l;

    *f = (struct dump_frame){
        .type = lang_words[s->process->lang_record.number], .address = AGENT_WORD_VALUE(words[0]), .module = -1};
    n = MAX(n, 1);
    l = arena_zalloc_array(&s->arena, (size_t) n, sizeof *l);
    if (!l)
        return;
    for (int i = 0; i < n; i++)
        l[i] = (struct dump_line){got[i].function, got[i].file, got[i].line};
    f->lines = l;
    f->n_lines = (uint32_t) n;
}

int dump_frames(struct dump *s, const uint64_t *words, uint32_t n, struct dump_stack *ret)
{
    ret->n_frames = 0;
    ret->frames = arena_zalloc_array(&s->arena, MAX(n, 1u), sizeof *ret->frames);
    if (!ret->frames)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        struct dump_frame *f = &ret->frames[ret->n_frames++];

        if (AGENT_WORD_KIND(words[i]) < AGENT_WORD_LANG) {
            set_native(s, words[i], f);
        } else if (n - i >= AGENT_LANG_WORDS && s->process->lang) {
            set_language(s, words + i, f);
            i += AGENT_LANG_WORDS - 1;
        }
    }
    return 0;
}

/* --- names --- */
static void each_native(struct dump *s, void (*f)(struct dump *s, struct dump_frame *frame))
{
    for (uint32_t i = 0; i < s->n_threads + s->n_tasks; i++) {
        struct dump_stack *t = i < s->n_threads ? &s->threads[i].stack : &s->tasks[i - s->n_threads].stack;

        for (uint32_t k = 0; k < t->n_frames; k++)
            if (!t->frames[k].n_lines)
                f(s, &t->frames[k]);
    }
}

static void want(struct dump *s, struct dump_frame *f)
{
    if (f->module >= 0)
        object_names_want(s->modules[f->module].object, f->elf);
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    return slash ? slash + 1 : path ? path : "";
}

static void name_jit(struct dump *s, struct dump_frame *f)
{
    struct process *p = s->process;
    const char *hint = NULL;
    struct str name = {0};

    if (!p->perf_map && perf_map_new(p, &p->perf_map, NULL) < 0)
        p->perf_map = NULL;
    if (!p->perf_map || !perf_map_find(p->perf_map, p, f->address - !f->exact, &name))
        hint = jit_names_hint(str_from(base_name(p->exe_path)), p->perf_map && perf_map_count(p->perf_map));
    if (!hint && !name.n)
        return;
    f->lines = one_line(s, hint ? str_from(hint) : arena_str(&s->arena, name));
    f->n_lines = f->lines != NULL;
}

static void name(struct dump *s, struct dump_frame *f)
{
    struct object *o = f->module >= 0 ? s->modules[f->module].object : NULL;
    const struct object_name *found = o ? object_names_find(o, f->elf) : NULL;
    struct dump_line *l;

    if (!o) {
        name_jit(s, f);
        return;
    }
    if (!found || !found->n_frames)
        return;
    l = arena_zalloc_array(&s->arena, found->n_frames, sizeof *l);
    if (!l)
        return;
    for (uint32_t i = 0; i < found->n_frames; i++)
        l[i] = (struct dump_line){found->frames[i].name, found->frames[i].file, found->frames[i].line};
    if (o->is_go && l[0].file.n)
        f->type = "go";
    f->lines = l;
    f->n_lines = found->n_frames;
}

void dump_names(struct dump *s)
{
    each_native(s, want);
    for (uint32_t i = 0; i < s->n_modules; i++)
        object_names_resolve(s->modules[i].object);
    each_native(s, name);
}
