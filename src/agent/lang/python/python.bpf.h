// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * CPython's frames, stored after the native ones in the event; the user side merges them (lang_python.c). The thread's
 * state is found by its thread pointer in the interpreters' lists, and cached; then the chain of frames is followed.
 *
 * Words of a frame: code object; offset of the instruction; the code object's content (python_abi.h), so that another
 * code object at the same address is a different frame. What names it is sent with its first sample (struct agent_memory):
 * the code of a module is freed when its import is done, often before the user side reads the sample.
 */
#ifndef AGENT_PYTHON_BPF_H
#define AGENT_PYTHON_BPF_H

#include "agent/lang/python/python_abi.h"

enum { PYTHON_OWNER_SHIM = 3, PYTHON_TAGS = 7, PYTHON_STEPS = 2048, PYTHON_THREADS = 4096 };
/* Indices of words in scratch.lang, after those of a frame: the content of its code object; the end of a text;
 * bytes that may still be sent with this sample (a process can have any number of frames in its memory). */
enum { PYTHON_CODE = 16, PYTHON_TEXT = 32, PYTHON_ROOM = 48 };
enum {
    PYTHON_PIECES = 4,
    PYTHON_SEND_ROOM = 128 << 10,
    PYTHON_SEND_COST = 1024
}; /* the cost of each, besides its bytes */

/* Thread -> its state; checked at each use. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u64);
    __type(value, __u64);
} python_threads SEC(".maps");

/* Code objects whose memory was sent: the key is a hash of the process, the address and the content. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, __u8);
} python_sent SEC(".maps");

/* In scratch.walk (LANG_VARIABLES). */
struct python_variables {
    __u64 tp;
    __u64 interp, state; /* while searching */
    __u64 frame;         /* the next one */
    __u64 last;          /* index in the event of the first word of the last frame, + 1; 0: there is none yet */
    __u64 code, content; /* of the frame */
};

struct python_walk {
    struct scratch *s;
    struct agent_python *py;
    struct python_variables *v;
};

/* Moves to the next thread state; returns 1 to end, with p->v->state set if it was found. */
static __noinline long python_search(__u32 i, struct python_walk *p)
{
    struct agent_python *py = p->py;
    __u64 id = 0;

    if (!p->v->state) {
        if (read_word(p->v->interp ? p->v->interp + py->interp_next : py->interpreters, &p->v->interp) ||
            !p->v->interp || read_word(p->v->interp + py->interp_threads, &p->v->state)) {
            p->v->state = 0;
            return 1;
        }
        return 0;
    }
    if (!read_word(p->v->state + py->thread_id, &id) && python_is_thread(id, p->v->tp))
        return 1;
    if (read_word(p->v->state + py->thread_next, &p->v->state)) {
        p->v->state = 0;
        return 1;
    }
    return 0;
}

static __always_inline __u64 python_find_state(struct python_walk *p, bool bounded)
{
    __u64 key = (__u64) p->s->event.pid << 32 | p->s->event.tid, id = 0;
    __u64 *known = bpf_map_lookup_elem(&python_threads, &key);

    if (known) {
        p->v->state = *known;
        if (!read_word(p->v->state + p->py->thread_id, &id) && python_is_thread(id, p->v->tp))
            return p->v->state;
    }
    p->v->state = 0;
    WALK_REPEAT(bounded, PYTHON_THREADS, python_search, p);
    if (!p->v->state || read_word(p->v->state + p->py->thread_id, &id) || !python_is_thread(id, p->v->tp))
        return 0;
    bpf_map_update_elem(&python_threads, &key, &p->v->state, BPF_ANY);
    return p->v->state;
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

/* A pointer in the code object, of which the content was read. */
static __always_inline __u64 python_pointer(struct python_walk *p, __u32 at)
{
    return p->s->lang[PYTHON_CODE + ((at - p->py->content) >> 3 & 15)];
}

/* Where the characters of a str begin, or the bytes of a bytes object, and how many bytes they are. */
static __always_inline bool python_text(struct python_walk *p, __u64 object, bool is_bytes, __u64 *at, __u64 *n)
{
    struct agent_python *py = p->py;
    __u32 state = 0;

    if (is_bytes) {
        *at = object + py->bytes_data;
        return !read_word(object + py->bytes_size, n);
    }
    if (read_word(object + py->str_length, n) || bpf_probe_read_user(&state, 4, (void *) (object + py->str_state)))
        return false;
    state >>= py->str_kind & 15;
    *n *= state & 7;
    *at = object + (state >> 4 & 1 ? py->str_ascii : py->str_compact);
    return true;
}

static __noinline long python_hash_text(struct python_walk *p, __u64 object, __u32 is_bytes)
{
    __u64 *v = p->s->lang + PYTHON_TEXT, at = 0, n = 0;

    __builtin_memset(v, 0, AGENT_PYTHON_TEXT);
    if (!python_text(p, object, is_bytes, &at, &n))
        return 0;
    p->v->content = agent_hash_step(p->v->content, n);
    if (n > AGENT_PYTHON_TEXT) {
        at += n - AGENT_PYTHON_TEXT;
        n = AGENT_PYTHON_TEXT;
    }
    read_user(v, n, AGENT_PYTHON_TEXT, at);
#pragma unroll
    for (int i = 0; i < AGENT_PYTHON_TEXT / 8; i++)
        p->v->content = agent_hash_step(p->v->content, v[i]);
    return 0;
}

/* Sets the content of the code object; 0 if it cannot be read. */
static __always_inline void python_content(struct python_walk *p)
{
    __u64 *v = p->s->lang + PYTHON_CODE;
    struct agent_python *py = p->py;

    p->v->content = 0;
    if (bpf_probe_read_user(v, AGENT_PYTHON_CONTENT, (void *) (p->v->code + py->content)))
        return;
#pragma unroll
    for (__u32 i = 0; i < AGENT_PYTHON_CONTENT / 8; i++)
        if (i * 8 < py->content_bytes)
            p->v->content = agent_hash_step(p->v->content, v[i]);
    if (py->has_version)
        return;
    python_hash_text(p, python_pointer(p, py->code_name), 0);
    python_hash_text(p, python_pointer(p, py->code_filename), 0);
    python_hash_text(p, python_pointer(p, py->code_linetable), 1);
}

/* The pieces of what is sent: where each may begin at most, and where the last one ends. */
static const __u32 python_room[PYTHON_PIECES + 1] = {0, 256, 256 + 512, 256 + 512 + 4096, AGENT_MEMORY_BYTES};

static __always_inline bool python_piece(struct agent_memory *to, const __u32 i, __u64 *used, __u64 address, __u64 n)
{
    return add_piece(to, i, used, python_room, address, n);
}

static __always_inline bool python_text_piece(struct python_walk *p, struct agent_memory *to, const __u32 i,
                                              __u64 *used, __u32 pointer)
{
    __u64 object = python_pointer(p, pointer), at = 0, n = 0;

    return python_text(p, object, i == 3, &at, &n) && n <= AGENT_MEMORY_BYTES &&
           python_piece(to, i, used, object, at + n - object);
}

/* Sends what names the code object, unless that was done before. */
static __noinline long python_send(struct python_walk *p)
{
    struct agent_event *e = &p->s->event;
    __u64 key = agent_hash_step(p->v->content ^ e->mm, p->v->code), used = 0, *room = &p->s->lang[PYTHON_ROOM];
    __u32 cpu = e->cpu;
    __u8 sent = 1;
    struct agent_memory *to;

    if (!p->v->content || (__s64) *room < 0 || bpf_map_lookup_elem(&python_sent, &key))
        return 0;
    *room -= PYTHON_SEND_COST;
    to = bpf_map_lookup_elem(&stacks, &cpu);
    if (!to || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > control.copy_room)
        return 0;
    if (python_piece(to, 0, &used, p->v->code, p->py->code_bytes) &&
        python_text_piece(p, to, 1, &used, p->py->code_name) &&
        python_text_piece(p, to, 2, &used, p->py->code_filename) &&
        python_text_piece(p, to, 3, &used, p->py->code_linetable)) {
        *room -= used;
        to->pieces[PYTHON_PIECES].n = to->pieces[PYTHON_PIECES + 1].n = 0;
        to->kind = AGENT_EVENT_MEMORY;
        to->pid = e->pid;
        to->time_ns = e->time_ns;
        to->words[0] = p->v->code & ~(0xffull << 56);
        to->words[1] = 0;
        to->words[2] = p->v->content;
        if (put_ring(&events, to, __builtin_offsetof(struct agent_memory, bytes) + used, sizeof *to, BPF_RB_NO_WAKEUP))
            return 0;
    }
    bpf_map_update_elem(&python_sent, &key, &sent, BPF_ANY);
    return 0;
}

/* Marks the last frame as the outermost one of its native frame. */
static __always_inline void python_mark_entry(struct python_walk *p)
{
    __u64 at = p->v->last - 1;

    if (at < AGENT_WORDS)
        *step_words(p->s->event.words, at, AGENT_WORDS - 1) |= (__u64) AGENT_PYTHON_ENTRY;
}

static __always_inline long python_put(struct python_walk *p, __u64 entry)
{
    __u64 instr = python_instr(p, p->v->code);
    struct agent_event *e = &p->s->event;
    __u64 n = e->n_words, *out;

    if (n > AGENT_WORDS - AGENT_LANG_WORDS) {
        e->flags |= AGENT_EVENT_LANG_CUT;
        return 1;
    }
    out = step_words(e->words, n, AGENT_WORDS - AGENT_LANG_WORDS);
    out[0] = (__u64) (AGENT_WORD_LANG + LANG_python) << 56 | (p->v->code & ~(0xffull << 56)) | entry;
    out[1] = instr;
    out[2] = p->v->content;
    e->n_words = n + AGENT_LANG_WORDS;
    p->v->last = n + 1;
    return 0;
}

/* Frames that the interpreter makes for itself are left out: shims, and those whose code has one text as its name and file
 * (_Py_InitCleanup, from 3.13 on). */
static __noinline long python_frame(__u32 i, struct python_walk *p)
{
    struct agent_python *py = p->py;
    __u64 entry = py->minor <= 10;
    long r;

    if (!p->v->frame)
        return 1;
    if (py->minor >= 11)
        r = bpf_probe_read_user(p->s->lang, 80, (void *) p->v->frame);
    else
        r = bpf_probe_read_user(p->s->lang, 112, (void *) p->v->frame);
    if (r) {
        p->s->event.flags |= AGENT_EVENT_LANG_CUT;
        return 1;
    }
    p->v->frame = python_in(p, py->frame_previous);
    if (py->minor >= 12 && python_byte(p, py->frame_owner) >= PYTHON_OWNER_SHIM) {
        python_mark_entry(p);
        return 0;
    }
    p->v->code = python_in(p, py->frame_code) & ~(__u64) PYTHON_TAGS;
    if (py->minor == 11)
        entry = python_byte(p, py->frame_entry) == 1;
    python_content(p);
    if (py->minor >= 13 && p->v->content && python_pointer(p, py->code_name) == python_pointer(p, py->code_filename))
        return 0;
    python_send(p);
    return python_put(p, entry * AGENT_PYTHON_ENTRY);
}

static __always_inline void python_walk(struct walk_state *w, bool bounded)
{
    struct agent_python *py = (struct agent_python *) w->lang->words;
    struct python_variables *v = LANG_VARIABLES(w, struct python_variables);
    struct python_walk p = {w->s, py, v};
    __u64 state;

    v->tp = w->s->at.tp;
    v->interp = v->last = 0;
    state = python_find_state(&p, bounded);
    if (!state || read_word(state + py->thread_frame, &v->frame) || !v->frame)
        return;
    if (py->cframe_frame != AGENT_PYTHON_NONE && (read_word(v->frame + py->cframe_frame, &v->frame) || !v->frame))
        return;
    w->s->lang[PYTHON_ROOM] = PYTHON_SEND_ROOM;
    WALK_REPEAT(bounded, PYTHON_STEPS, python_frame, &p);
    if (v->frame)
        w->s->event.flags |= AGENT_EVENT_LANG_CUT;
    python_mark_entry(&p);
}

LANG_HAS_NO_STEP(python)

#endif
