// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Frames of Java. The native walk steps through HotSpot's code (hotspot_step.h) and notes the words of its frames; hotspot_walk() adds
 * them to the event, and what tells an interpreted method from others at its address.
 */
#ifndef AGENT_HOTSPOT_BPF_H
#define AGENT_HOTSPOT_BPF_H

typedef struct walk_state hotspot_memory;
#define HOTSPOT_READ(to, n, address) ((void) m, bpf_probe_read_user(to, n, (void *) (address)))
#define HOTSPOT_UNROLL _Pragma("unroll")
#include "agent/lang/hotspot/hotspot_step.h"

/* Frames of a walk that is under way. */
struct hotspot_marks {
    __u64 v[AGENT_USER_FRAMES + 1][AGENT_LANG_WORDS];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct hotspot_marks);
} hotspot_marked SEC(".maps");

struct hotspot_walk {
    struct walk_state *w;
    struct hotspot_marks *marks;
};

static __always_inline __u64 *hotspot_mark(struct hotspot_marks *marks, __u64 i)
{
    return step_bytes(marks->v, i * sizeof marks->v[0], sizeof marks->v[0] * AGENT_USER_FRAMES);
}

static __always_inline long hotspot_step(struct walk_state *w)
{
    const struct agent_hotspot *h = (struct agent_hotspot *) w->lang->words;
    struct hotspot_work *work = (struct hotspot_work *) w->s->lang;
    struct hotspot_at *at = &work->at;
    __u32 zero = 0, n = w->s->at.marks;
    struct hotspot_marks *marks;
    __u64 *mark;
    int r;

    at->pc = w->s->at.pc;
    at->sp = w->s->at.sp;
    at->fp = w->s->at.fp;
    at->is_leaf = w->s->at.is_leaf;
    at->rax = w->s->event.resume.leaf[0];
    at->r13 = w->s->event.resume.leaf[13];
    r = hotspot_step_at(w, h, work);
    if (r == HOTSPOT_ELSEWHERE)
        return LANG_NO_STEP;
    marks = n < AGENT_USER_FRAMES && at->words[0] ? bpf_map_lookup_elem(&hotspot_marked, &zero) : NULL;
    if (marks) {
        mark = hotspot_mark(marks, n);
        mark[0] = at->words[0];
        mark[1] = at->words[1] | ((__u64) w->s->event.n_words - 1) << HOTSPOT_PLACE_SHIFT;
        mark[2] = at->words[2];
        w->s->at.marks = n + 1;
    }
    if (r == HOTSPOT_LOST)
        return finish(w, AGENT_END_BAD);
    w->s->at.pc = at->pc;
    w->s->at.sp = at->sp;
    w->s->at.fp = at->fp;
    w->s->at.exact = w->s->at.is_leaf = 0;
    return 0;
}

LANG_HAS_STEP(hotspot)

/* The offset of the bytecode, and the method's content. */
static __always_inline void hotspot_interpreted_words(struct walk_state *w, __u64 out[AGENT_LANG_WORDS])
{
    const struct agent_hotspot *h = (struct agent_hotspot *) w->lang->words;
    __u64 code = 0, bcp = out[1] & HOTSPOT_ADDRESS, place = out[1] & ~HOTSPOT_ADDRESS, content, bci;
    __u32 size = 0;

    content = hotspot_method_content(w, h, out[0] & HOTSPOT_ADDRESS & ~(__u64) HOTSPOT_KINDS, w->s->lang, &code, &size);
    bci = bcp - code;
    if (bci >= size)
        bci = out[2] - code;
    if (bci >= size)
        bci = HOTSPOT_NO_BCI;
    out[1] = place | bci;
    out[2] = content;
}

static __noinline long hotspot_frame(__u32 i, struct hotspot_walk *p)
{
    struct walk_state *w = p->w;
    struct agent_event *e = &w->s->event;
    __u64 n = e->n_words, *out, *mark;

    if (i >= w->s->at.marks)
        return 1;
    if (n > AGENT_WORDS - AGENT_LANG_WORDS) {
        e->flags |= AGENT_EVENT_LANG_CUT;
        return 1;
    }
    mark = hotspot_mark(p->marks, i);
    out = step_words(e->words, n, AGENT_WORDS - AGENT_LANG_WORDS);
    out[0] = mark[0];
    out[1] = mark[1];
    out[2] = mark[2];
    if ((out[0] & HOTSPOT_KINDS) == HOTSPOT_INTERPRETED)
        hotspot_interpreted_words(w, out);
    out[0] |= (__u64) (AGENT_WORD_LANG + LANG_hotspot) << 56;
    e->n_words = n + AGENT_LANG_WORDS;
    return 0;
}

static __always_inline void hotspot_walk(struct walk_state *w, bool bounded)
{
    struct hotspot_walk p = {.w = w};
    __u32 zero = 0;

    p.marks = bpf_map_lookup_elem(&hotspot_marked, &zero);
    if (!p.marks)
        return;
    WALK_REPEAT(bounded, AGENT_USER_FRAMES, hotspot_frame, &p);
    if (bounded && w->s->at.marks > WALK_LANG_PART)
        w->s->event.flags |= AGENT_EVENT_LANG_CUT;
}

#endif
