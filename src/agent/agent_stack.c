/* SPDX-License-Identifier: Apache-2.0 */
/* Completes the stack of a sample (agent_stack.h). */
#include "agent/agent_stack.h"

#include "agent/agent_state.h"
#include "agent/copy_walk.h"
#include "agent/lang/lang.h"
#include "agent/process.h"
#include "agent/stack_walk.h"
#include "agent/waits.h"

const struct agent_stack *agent_stack_copy(const struct agent *a, const struct agent_event *e)
{
    const struct agent_stack *s = e->cpu < (uint32_t) a->n_cpus ? &a->stacks[e->cpu] : NULL;

    return s && s->time_ns == e->time_ns && s->tid == e->tid ? s : NULL;
}

static enum agent_end walk_copy(struct agent *a, struct process *p, const struct agent_event *e, uint32_t *n_words)
{
    struct copy_walk w = {a->processes, a->objects, a->rows, &a->memo, a->now_ns};
    struct stack_words to = {.v = a->words, .n = *n_words, .max = e->n_kernel + AGENT_USER_FRAMES, .fps = a->fps};
    const struct agent_stack *s = agent_stack_copy(a, e);
    enum agent_end end = s ? copy_walk(&w, p, e, s, &to) : e->end;

    *n_words = to.n;
    a->inferred |= to.inferred;
    return end;
}

/* Appends the language's frames of native words that were found in a copy of the stack. */
static uint32_t frames_of_copy(struct agent *a, struct process *p, const struct agent_event *e, uint32_t from,
                               uint32_t n, uint32_t n_lang)
{
    const struct agent_stack *s = n > from ? agent_stack_copy(a, e) : NULL;
    struct stack_copy copy;
    struct proc_memory memory;

    if (!s)
        return n_lang;
    copy = (struct stack_copy){s->sp, s->n, s->bytes};
    memory = stack_copy_memory(&copy);
    return lang_frames(p, &(struct lang_stack){&memory, a->words, a->fps, from, n}, n_lang);
}

/* Reads the stack of a thread that waits, as if the BPF program had copied it. */
static bool ask_for_stack(struct agent *a, struct process *p, const struct agent_event *e)
{
    return e->cpu < (uint32_t) a->n_cpus && waits_read_stack(p, e, &a->stacks[e->cpu]);
}

enum agent_end agent_stack_finish(struct agent *a, struct process *p, const struct agent_event *e, uint32_t *n)
{
    uint32_t native = MIN(e->n_kernel, *n), lang, copied;
    const __u64 *tail = e->words;
    enum agent_end end = e->end;

    while (native < *n && AGENT_WORD_KIND(a->words[native]) < AGENT_WORD_LANG)
        native++;
    lang = *n - native, tail += native;
    copied = native;
    if (a->perf && e->flags & AGENT_EVENT_RESUME) {
        lang = MIN(lang_read(a->processes, p, e->tid, e->resume.sp, a->lang_words), 1024u * AGENT_LANG_WORDS);
        tail = (const __u64 *) a->lang_words;
    }
    if (e->flags & AGENT_EVENT_RESUME || (e->flags & AGENT_EVENT_ASK && ask_for_stack(a, p, e)))
        end = walk_copy(a, p, e, &native);
    if (native > e->n_kernel)
        end = copy_walk_judge(a->processes, p, a->words[native - 1], end);
    *n = native;
    a->labels = (struct str){0};
    if (!p->lang || !p->lang->merge)
        return end;
    if (p->lang->labels && lang)
        a->labels = p->lang->labels((const uint64_t *) tail, lang);
    memcpy(a->words + native, tail, lang * sizeof a->words[0]);
    lang = frames_of_copy(a, p, e, copied, native, lang);
    if (!lang)
        return end;
    p->lang_seen = true;
    *n = p->lang->merge(p, a->words, e->n_kernel, native, native + lang, end == AGENT_END_ROOT);
    return end == AGENT_END_ROOT && e->flags & AGENT_EVENT_LANG_CUT ? AGENT_END_DEPTH : end;
}
