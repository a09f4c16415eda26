// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Frames of JavaScript. V8's code has frame pointers; the native walk notes them (v8js_step). Below a frame pointer are
 *
 *   -8 context, or V8's type of the frame    -16 function    -24 number of arguments    -32 bytecode    -40 its offset
 *
 * and the function leads to its SharedFunctionInfo, which is what names it. Objects may be read while the collector moves
 * them: one that was moved has its new address in place of its map.
 *
 * What names a function is sent with its first sample (struct agent_memory): later it may be collected or moved.
 */
#ifndef AGENT_V8JS_BPF_H
#define AGENT_V8JS_BPF_H

#include "agent/lang/v8js/v8js_abi.h"

/* Indices of words in scratch.lang. */
enum {
    V8_FRAME = 0,
    V8_FUNCTION = 8,
    V8_SHARED = 16,
    V8_SCRIPT = 26,
    V8_SCOPE = 36,
    V8_TAIL = 42,
    V8_STRING = 50,
    V8_ROOM = 52
};
enum { V8_SEND_ROOM = 64 << 10, V8_SEND_COST = 1024 };
/* Where pieces begin at most, and where the last one ends. */
static const __u32 v8js_room[AGENT_PIECES + 1] = {
    0,
    V8_SHARED_BYTES,
    V8_SHARED_BYTES + V8_SCRIPT_BYTES,
    V8_SHARED_BYTES + V8_SCRIPT_BYTES + V8_SCOPE_BYTES,
    V8_SHARED_BYTES + V8_SCRIPT_BYTES + V8_SCOPE_BYTES + V8_TAIL_BYTES,
    V8_SHARED_BYTES + V8_SCRIPT_BYTES + V8_SCOPE_BYTES + V8_TAIL_BYTES + 16 + V8_TEXT,
    V8_SHARED_BYTES + V8_SCRIPT_BYTES + V8_SCOPE_BYTES + V8_TAIL_BYTES + 2 * (16 + V8_TEXT),
};

/* Functions whose memory was sent: the key is a hash of the process, the address and the content. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, __u8);
} v8js_sent SEC(".maps");

/* Frames of a walk that is under way: their frame pointers, with the indices of their words above bit 48. */
struct v8js_marks {
    __u64 v[AGENT_USER_FRAMES + 1];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct v8js_marks);
} v8js_marked SEC(".maps");

/* In scratch.walk (LANG_VARIABLES). */
struct v8js_variables {
    __u64 shared, content, script; /* of the frame */
    __u64 string;                  /* of the name that is looked for */
    __u64 partial;                 /* there are names that were not sent: they are read later */
};

struct v8js_walk {
    struct scratch *s;
    struct v8js_marks *marks;
    struct agent_v8js *v8;
    struct v8js_variables *v;
};

/* A word of an object that was read; at: its offset. */
static __always_inline __u64 v8js_in(struct v8js_walk *p, __u32 index, __u32 at)
{
    return p->s->lang[(index + (at >> 3 & 7)) & 63];
}

/* The type of the object with this map; 0xffff: it cannot be read. */
static __always_inline __u32 v8js_type(struct v8js_walk *p, __u64 map)
{
    __u16 type = 0xffff;

    if (v8_is_pointer(map))
        bpf_probe_read_user(&type, sizeof type, (void *) (map - 1 + p->v8->map_type));
    return type;
}

/* Reads an object into scratch.lang, or the one that it was moved to. */
#define V8JS_READ(p, object, index, bytes)                                  \
    ({                                                                      \
        __u64 *to_ = &(p)->s->lang[index];                                  \
        long r_ = bpf_probe_read_user(to_, bytes, (void *) (*(object) -1)); \
        if (!r_ && !(to_[0] & 1) && to_[0]) {                               \
            *(object) = to_[0] + 1;                                         \
            r_ = bpf_probe_read_user(to_, bytes, (void *) (*(object) -1));  \
        }                                                                   \
        r_;                                                                 \
    })

/* Adds a string, if it is one. */
static __always_inline bool v8js_string_piece(struct v8js_walk *p, struct agent_memory *to, const __u32 i, __u64 *used,
                                              __u64 string)
{
    __u64 *v = &p->s->lang[V8_STRING], n;
    __u32 type;

    to->pieces[i].n = 0;
    if (!v8_is_pointer(string) || V8JS_READ(p, &string, V8_STRING, 16))
        return true;
    type = v8js_type(p, v[0]);
    if (type >= p->v8->first_non_string)
        return true;
    n = (__u32) (v[p->v8->string_length >> 3 & 1] >> (p->v8->string_length & 4) * 8);
    if (!(type & p->v8->encoding_mask))
        n *= 2;
    if (type & p->v8->representation_mask || n > V8_TEXT) { /* in parts, or too long */
        p->v->partial = 1;
        return true;
    }
    return add_piece(to, i, used, v8js_room, string - 1, 16 + n);
}

/* Whether the word i of the tail of the ScopeInfo is the function's name: the first string that is not empty. */
static __always_inline bool v8js_is_name(struct v8js_walk *p, __u64 word)
{
    __u64 *v = &p->s->lang[V8_STRING];

    return v8_is_pointer(word) && !V8JS_READ(p, &word, V8_STRING, 16) && v8js_type(p, v[0]) < p->v8->first_non_string &&
           (__u32) (v[p->v8->string_length >> 3 & 1] >> (p->v8->string_length & 4) * 8);
}

static __noinline long v8js_find_name(__u32 i, struct v8js_walk *p)
{
    __u64 word = p->s->lang[(V8_TAIL + i) & 63];

    if (i >= V8_TAIL_NAMES)
        return 1;
    if (!v8js_is_name(p, word))
        return 0;
    p->v->string = word;
    return 1;
}

/* Adds the ScopeInfo, the part of it that has the name, and finds the name. */
static __always_inline bool v8js_scope_piece(struct v8js_walk *p, struct agent_memory *to, __u64 *used, __u64 scope)
{
    __u64 *v = &p->s->lang[V8_SCOPE], n, first = p->v8->scope_first, at;

    if (V8JS_READ(p, &scope, V8_SCOPE, V8_SCOPE_BYTES))
        return false;
    if (v8js_type(p, v[0]) != p->v8->type_scope) { /* the name itself */
        p->v->string = scope;
        return true;
    }
    n = v[(p->v8->scope_locals + 1) & 3] >> 32;
    if (n > V8_LOCALS_MAX || !add_piece(to, V8_PIECE_SCOPE, used, v8js_room, scope - 1, V8_SCOPE_BYTES))
        return false;
    at = scope - 1 + 8 * (1 + first + (n < V8_LOCALS_INLINE ? 2 * n : 1 + n));
    if (!add_piece(to, V8_PIECE_TAIL, used, v8js_room, at, V8_TAIL_BYTES))
        p->v->partial = 1; /* it is smaller, at the end of a page */
    bpf_probe_read_user(&p->s->lang[V8_TAIL], V8_TAIL_NAMES * 8, (void *) at);
    for (int i = 0; i < V8_TAIL_NAMES; i++)
        if (v8js_find_name(i, p))
            break;
    return true;
}

/* Sends what names the function, unless that was done before. */
static __noinline long v8js_send(struct v8js_walk *p)
{
    struct agent_event *e = &p->s->event;
    __u64 key = agent_hash_step(p->v->content ^ e->mm, p->v->shared), used = 0, *room = &p->s->lang[V8_ROOM];
    __u32 cpu = e->cpu;
    __u8 sent = 1;
    struct agent_memory *to;

    if ((__s64) *room < 0 || bpf_map_lookup_elem(&v8js_sent, &key))
        return 0;
    *room -= V8_SEND_COST;
    to = bpf_map_lookup_elem(&stacks, &cpu);
    if (!to || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > control.copy_room)
        return 0;
    p->v->string = p->v->partial = 0;
    to->pieces[V8_PIECE_SCOPE].n = to->pieces[V8_PIECE_TAIL].n = 0;
    if (!add_piece(to, V8_PIECE_SHARED, &used, v8js_room, p->v->shared - 1, V8_SHARED_BYTES) ||
        !add_piece(to, V8_PIECE_SCRIPT, &used, v8js_room, p->v->script - 1, V8_SCRIPT_BYTES) ||
        !v8js_scope_piece(p, to, &used, v8js_in(p, V8_SHARED, p->v8->shared_name)) ||
        !v8js_string_piece(p, to, V8_PIECE_NAME, &used, p->v->string) ||
        !v8js_string_piece(p, to, V8_PIECE_FILE, &used, v8js_in(p, V8_SCRIPT, p->v8->script_name)))
        return 0;
    to->kind = AGENT_EVENT_MEMORY;
    to->pid = e->pid;
    to->time_ns = e->time_ns;
    to->words[0] = p->v->shared - 1;
    to->words[1] = p->v->partial;
    to->words[2] = p->v->content;
    if (!put_ring(&events, to, __builtin_offsetof(struct agent_memory, bytes) + used, sizeof *to, BPF_RB_NO_WAKEUP))
        bpf_map_update_elem(&v8js_sent, &key, &sent, BPF_ANY);
    return 0;
}

static __always_inline long v8js_put(struct v8js_walk *p, __u64 first, __u64 second, __u64 third)
{
    struct agent_event *e = &p->s->event;
    __u64 n = e->n_words, *out;

    if (n > AGENT_WORDS - AGENT_LANG_WORDS) {
        e->flags |= AGENT_EVENT_LANG_CUT;
        return 1;
    }
    out = step_words(e->words, n, AGENT_WORDS - AGENT_LANG_WORDS);
    out[0] = (__u64) (AGENT_WORD_LANG + LANG_v8js) << 56 | first;
    out[1] = second;
    out[2] = third;
    e->n_words = n + AGENT_LANG_WORDS;
    return 0;
}

/* Finds the function's SharedFunctionInfo and its script; false if it has none: V8's own functions. */
static __always_inline bool v8js_function(struct v8js_walk *p, __u64 function)
{
    __u64 *v = p->s->lang;

    if (V8JS_READ(p, &function, V8_FUNCTION, V8_FUNCTION_BYTES))
        return false;
    p->v->shared = v8js_in(p, V8_FUNCTION, p->v8->function_shared);
    if (!v8_is_pointer(p->v->shared) || V8JS_READ(p, &p->v->shared, V8_SHARED, V8_SHARED_BYTES) ||
        v8js_type(p, v[V8_SHARED]) != p->v8->type_shared)
        return false;
    p->v->script = v8js_in(p, V8_SHARED, p->v8->shared_script);
    if (!v8_is_pointer(p->v->script) || V8JS_READ(p, &p->v->script, V8_SCRIPT, V8_SCRIPT_BYTES) ||
        v8js_type(p, v[V8_SCRIPT]) != p->v8->type_script)
        return false;
    p->v->content = v8_content(v8js_in(p, V8_SHARED, p->v8->shared_name), p->v->script,
                               v8js_in(p, V8_SHARED, p->v8->shared_id) >> (p->v8->shared_id & 4) * 8,
                               v[V8_SCRIPT + V8_SCRIPT_BYTES / 8 - 1]);
    return true;
}

static __noinline long v8js_frame(__u32 i, struct v8js_walk *p)
{
    __u64 *v = p->s->lang, mark, fp, place, word, pc, bytecode;
    struct agent_v8js *v8 = p->v8;

    if (i >= p->s->at.marks)
        return 1;
    mark = *step_words(p->marks->v, i, AGENT_USER_FRAMES);
    place = (mark & ~V8_INTERPRETS) >> V8_PLACE_SHIFT;
    fp = mark & V8_ADDRESS;
    if (place >= AGENT_WORDS || bpf_probe_read_user(v, V8_FRAME_BYTES, (void *) (fp - V8_FRAME_BYTES)))
        return 0;
    word = *step_words(p->s->event.words, place, AGENT_WORDS - 1);
    pc = AGENT_WORD_VALUE(word);
    place <<= V8_PLACE_SHIFT;
    if (v[4] == (__u64) v8->frame_wasm * 2 || v[4] == (__u64) v8->frame_regexp * 2)
        return v[4] ? v8js_put(p, v[4] >> 1 << V8_KIND_SHIFT | V8_KIND_OTHER, place | pc, 0) : 0;
    if (!v8_is_pointer(v[4]) || !v8_is_pointer(v[3]))
        return 0;
    bytecode = v[1];
    if (!v8js_function(p, v[3]))
        return 0;
    v8js_send(p);
    if (mark & V8_INTERPRETS && v8_is_pointer(bytecode) && !(__u32) v[0])
        return v8js_put(p, p->v->shared - 1 + V8_KIND_BYTECODE, place | v[0] >> 32, p->v->content);
    return v8js_put(p, p->v->shared - 1 + (AGENT_WORD_KIND(word) == AGENT_WORD_EXACT ? V8_KIND_LEAF : V8_KIND_CODE),
                    place | pc, p->v->content);
}

/* Notes the frame; the walk goes on by its frame pointer. */
static __always_inline long v8js_step(struct walk_state *w)
{
    struct agent_v8js *v8 = (struct agent_v8js *) w->lang->words;
    __u32 zero = 0, n = w->s->at.marks;
    struct v8js_marks *marks = n < AGENT_USER_FRAMES ? bpf_map_lookup_elem(&v8js_marked, &zero) : NULL;
    __u64 elf = w->s->at.pc - w->s->at.bias, mark;

    if (!marks)
        return LANG_NO_STEP;
    mark = (w->s->at.fp & V8_ADDRESS) | ((__u64) w->s->event.n_words - 1) << V8_PLACE_SHIFT;
    if (elf - v8->entry_lo < v8->entry_hi - v8->entry_lo || elf - v8->handlers_lo < v8->handlers_hi - v8->handlers_lo)
        mark |= V8_INTERPRETS;
    *step_words(marks->v, n, AGENT_USER_FRAMES) = mark;
    w->s->at.marks = n + 1;
    return LANG_NO_STEP;
}

LANG_HAS_STEP(v8js)

static __always_inline void v8js_walk(struct walk_state *w, bool bounded)
{
    struct v8js_walk p = {
        .s = w->s, .v8 = (struct agent_v8js *) w->lang->words, .v = LANG_VARIABLES(w, struct v8js_variables)};
    __u32 zero = 0;

    p.marks = bpf_map_lookup_elem(&v8js_marked, &zero);
    if (!p.marks)
        return;
    w->s->lang[V8_ROOM] = V8_SEND_ROOM;
    WALK_REPEAT(bounded, AGENT_USER_FRAMES, v8js_frame, &p);
    if (bounded && w->s->at.marks > WALK_LANG_PART)
        w->s->event.flags |= AGENT_EVENT_LANG_CUT;
}

#endif
