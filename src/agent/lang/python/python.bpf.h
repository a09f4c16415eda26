// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * CPython's frames, stored after the native ones in the event; the user side merges them (lang_python.c). The thread's
 * state is found by its thread pointer in the interpreters' lists, and cached; then the chain of frames is followed.
 *
 * Words of a frame: code object; offset of the instruction; a hash of what the code object points to, so that another
 * code object at the same address is a different frame.
 */
#ifndef AGENT_PYTHON_BPF_H
#define AGENT_PYTHON_BPF_H

#include "agent/lang/python/python_abi.h"

enum { PYTHON_OWNER_SHIM = 3, PYTHON_TAGS = 7, PYTHON_STEPS = 2048, PYTHON_THREADS = 4096, PYTHON_POINTERS = 16 };

/* Thread -> its state; checked at each use. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u64);
    __type(value, __u64);
} python_threads SEC(".maps");

struct python_walk {
    struct scratch *s;
    struct agent_python *py;
    __u64 tp;
    __u64 interp, state; /* while searching */
    __u64 frame;         /* the next one */
    __u64 last;          /* index in the event of the first word of the last frame, + 1; 0: there is none yet */
};

/* Moves to the next thread state; returns 1 to end, with p->state set if it was found. */
static __noinline long python_search(__u32 i, struct python_walk *p)
{
    struct agent_python *py = p->py;
    __u64 id = 0;

    if (!p->state) {
        if (read_word(p->interp ? p->interp + py->interp_next : py->interpreters, &p->interp) || !p->interp ||
            read_word(p->interp + py->interp_threads, &p->state)) {
            p->state = 0;
            return 1;
        }
        return 0;
    }
    if (!read_word(p->state + py->thread_id, &id) && id == p->tp)
        return 1;
    if (read_word(p->state + py->thread_next, &p->state)) {
        p->state = 0;
        return 1;
    }
    return 0;
}

static __always_inline __u64 python_find_state(struct python_walk *p, bool bounded)
{
    __u64 key = (__u64) p->s->event.pid << 32 | p->s->event.tid, id = 0;
    __u64 *known = bpf_map_lookup_elem(&python_threads, &key);

    if (known) {
        p->state = *known;
        if (!read_word(p->state + p->py->thread_id, &id) && id == p->tp)
            return p->state;
    }
    p->state = 0;
    WALK_REPEAT(bounded, PYTHON_THREADS, python_search, p);
    if (!p->state || read_word(p->state + p->py->thread_id, &id) || id != p->tp)
        return 0;
    bpf_map_update_elem(&python_threads, &key, &p->state, BPF_ANY);
    return p->state;
}

static __always_inline __u64 python_in(struct python_walk *p, __u32 at)
{
    return *(__u64 *) ((char *) p->s->lang + (at & 120));
}

static __always_inline __u32 python_byte(struct python_walk *p, __u32 at)
{
    return ((__u8 *) p->s->lang)[at & 127];
}

/* The offset of the instruction in the code. */
static __always_inline __u64 python_instr(struct python_walk *p, __u64 code)
{
    __u64 v = python_in(p, p->py->frame_instr);

    if (p->py->minor >= 11)
        return v - code - p->py->code_start;
    v = python_in(p, p->py->frame_instr) >> (p->py->frame_instr & 4) * 8; /* 32 bits */
    v = (__s64) (__s32) v;
    return p->py->minor == 10 ? v << 1 : v;
}

/* A hash of the code object's pointers to its file, name and line table. */
static __always_inline __u64 python_content(struct python_walk *p, __u64 code)
{
    __u64 *v = p->s->lang + PYTHON_POINTERS;

    if (bpf_probe_read_user(v, 32, (void *) (code + p->py->code_filename)))
        return 0;
    return v[0] ^ (v[1] << 21 | v[1] >> 43) ^ (v[2] << 42 | v[2] >> 22) ^ v[3] * 0x9e3779b97f4a7c15ull;
}

/* Marks the last frame as the outermost one of its native frame. */
static __always_inline void python_mark_entry(struct python_walk *p)
{
    __u64 at = p->last - 1;

    if (at < AGENT_WORDS)
        p->s->event.words[at] |= (__u64) AGENT_PYTHON_ENTRY;
}

static __always_inline long python_put(struct python_walk *p, __u64 code, __u64 entry)
{
    __u64 instr = python_instr(p, code), content = python_content(p, code);
    struct agent_event *e = &p->s->event;
    __u64 n = e->n_words, *out;

    BARRIER(n);
    if (n > AGENT_WORDS - AGENT_LANG_WORDS) {
        e->flags |= AGENT_EVENT_LANG_CUT;
        return 1;
    }
    out = e->words + n;
    BARRIER(out);
    out[0] = (__u64) (AGENT_WORD_LANG + LANG_python) << 56 | (code & ~(0xffull << 56)) | entry;
    out[1] = instr;
    out[2] = content;
    e->n_words = n + AGENT_LANG_WORDS;
    p->last = n + 1;
    return 0;
}

static __noinline long python_frame(__u32 i, struct python_walk *p)
{
    struct agent_python *py = p->py;
    __u64 code, entry = py->minor <= 10;
    long r;

    if (!p->frame)
        return 1;
    if (py->minor >= 11)
        r = bpf_probe_read_user(p->s->lang, 80, (void *) p->frame);
    else
        r = bpf_probe_read_user(p->s->lang, 112, (void *) p->frame);
    if (r) {
        p->s->event.flags |= AGENT_EVENT_LANG_CUT;
        return 1;
    }
    p->frame = python_in(p, py->frame_previous);
    if (py->minor >= 12 && python_byte(p, py->frame_owner) >= PYTHON_OWNER_SHIM) {
        python_mark_entry(p);
        return 0;
    }
    code = python_in(p, py->frame_code) & ~(__u64) PYTHON_TAGS;
    if (py->minor == 11)
        entry = python_byte(p, py->frame_entry) == 1;
    return python_put(p, code, entry * AGENT_PYTHON_ENTRY);
}

static __always_inline void python_walk(struct walk_state *w, bool bounded)
{
    struct agent_python *py = (struct agent_python *) w->lang->words;
    struct python_walk p = {.s = w->s, .py = py, .tp = w->s->at.tp};
    __u64 state = python_find_state(&p, bounded), frame = 0;

    if (!state || read_word(state + py->thread_frame, &frame) || !frame)
        return;
    if (py->cframe_frame != AGENT_PYTHON_NONE && (read_word(frame + py->cframe_frame, &frame) || !frame))
        return;
    p.frame = frame;
    WALK_REPEAT(bounded, PYTHON_STEPS, python_frame, &p);
    if (p.frame)
        w->s->event.flags |= AGENT_EVENT_LANG_CUT;
    python_mark_entry(&p);
}

LANG_HAS_NO_STEP(python)

#endif
