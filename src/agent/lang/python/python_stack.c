/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the lists of thread states and the chains of frames: see python.h. */
#include <errno.h>

#include "agent/lang/python/python.h"

enum {
    FRAME_BYTES = 128,   /* all that is read of a frame is within these */
    OWNER_SHIM = 3,      /* FRAME_OWNED_BY_CSTACK, FRAME_OWNED_BY_INTERPRETER and later ones: not Python code */
    TAGS = 7,            /* tag bits of a pointer, for reference counting (3.14) */
    STATE_BYTES = 512,   /* what is read of a thread state at once */
    SEARCH_READS = 2048, /* frames of all threads together in which a shim is looked for */
};

/* Finds out whether a chain is a circle: a later element is one that was remembered, at distances that double. */
struct chain {
    uint64_t remembered;
    uint32_t n, until;
};

static bool is_circle(struct chain *c, uint64_t element)
{
    if (element == c->remembered)
        return true;
    if (c->n++ >= c->until) {
        c->remembered = element;
        c->until = 2 * c->n;
    }
    return false;
}

/* Id and successor of a thread state, by one read if they are near one another. */
static bool read_state(const struct python_offsets *at, const struct proc_memory *m, uint64_t state, uint64_t *ret_id,
                       uint64_t *ret_next)
{
    uint8_t b[STATE_BYTES];
    size_t n = MAX((size_t) at->thread_id, (size_t) at->thread_next) + 8;

    if (n > sizeof b)
        return proc_memory_u64(m, state + at->thread_id, ret_id) &&
               proc_memory_u64(m, state + at->thread_next, ret_next);
    if (proc_memory_read(m, state, b, n) < 0)
        return false;
    memcpy(ret_id, b + at->thread_id, sizeof *ret_id);
    memcpy(ret_next, b + at->thread_next, sizeof *ret_next);
    return true;
}

int python_each_thread(const struct python *py, const struct proc_memory *m,
                       int (*f)(void *data, uint64_t state, uint64_t thread_id), void *data)
{
    const struct python_offsets *at = &py->at;
    uint64_t interp, state, next, id;
    unsigned interps = 0, threads = 0;
    struct chain all = {0}, list;
    int r = 0;

    if (!proc_memory_u64(m, py->runtime + at->interpreters_head, &interp))
        return -EFAULT;
    while (interp && interps++ < PYTHON_INTERPRETERS_MAX) {
        if (is_circle(&all, interp))
            return -ELOOP;
        if (!proc_memory_u64(m, interp + at->interp_threads, &state))
            return -EFAULT;
        list = (struct chain){0};
        while (state && threads++ < PYTHON_THREADS_MAX) {
            if (is_circle(&list, state))
                return -ELOOP;
            if (!read_state(at, m, state, &id, &next))
                return -EFAULT;
            r = f(data, state, id);
            if (r)
                return r;
            state = next;
        }
        if (!proc_memory_u64(m, interp + at->interp_next, &interp))
            return -EFAULT;
    }
    return 0;
}

static uint64_t u64_in(const uint8_t *p, uint16_t at)
{
    uint64_t v;

    memcpy(&v, p + at, sizeof v);
    return v;
}

/* Up to 3.10 a number: of bytes in 3.9, of instructions of 2 bytes in 3.10. Then a pointer. */
static int64_t instr_of(const struct python_offsets *at, const uint8_t *frame, uint64_t code)
{
    int32_t index;

    if (at->minor >= 11)
        return (int64_t) (u64_in(frame, at->frame_instr) - code - at->code_start);
    memcpy(&index, frame + at->frame_instr, sizeof index);
    return at->minor == 10 ? (int64_t) index * 2 : index;
}

static bool fits(const struct python_offsets *at)
{
    uint16_t owner = at->frame_owner == PYTHON_NONE ? 0 : at->frame_owner;
    uint16_t entry = at->frame_entry == PYTHON_NONE ? 0 : at->frame_entry;

    return at->frame_previous <= FRAME_BYTES - 8 && at->frame_code <= FRAME_BYTES - 8 &&
           at->frame_instr <= FRAME_BYTES - 8 && owner < FRAME_BYTES && entry < FRAME_BYTES;
}

/* Reads a complete frame; at the end of a mapping only the part that is needed. */
static bool read_frame(const struct python_offsets *at, const struct proc_memory *m, uint64_t frame,
                       uint8_t ret[FRAME_BYTES])
{
    size_t n = at->minor >= 11 ? 80 : 112;

    if (frame & 7 || !frame)
        return false;
    return proc_memory_read(m, frame, ret, n) >= 0;
}

/* The newest frame of a thread; 0: it has none. */
static bool newest_frame(const struct python *py, const struct proc_memory *m, uint64_t state, uint64_t *ret)
{
    const struct python_offsets *at = &py->at;

    if (!fits(at) || !proc_memory_u64(m, state + at->thread_frame, ret))
        return false;
    return at->cframe_frame == PYTHON_NONE || (*ret && proc_memory_u64(m, *ret + at->cframe_frame, ret));
}

static bool is_shim(const struct python_offsets *at, const uint8_t *frame)
{
    return at->frame_owner != PYTHON_NONE && at->minor >= 12 && frame[at->frame_owner] >= OWNER_SHIM;
}

int python_frames(const struct python *py, const struct proc_memory *m, uint64_t state, struct python_frame *v,
                  uint32_t max, uint32_t *ret_n)
{
    const struct python_offsets *at = &py->at;
    uint8_t b[FRAME_BYTES] = {0};
    struct chain chain = {0};
    uint64_t frame, code;
    uint32_t n = 0;

    *ret_n = 0;
    if (!newest_frame(py, m, state, &frame))
        return -EFAULT;
    for (uint32_t i = 0; frame; i++) {
        if (n == max || i == PYTHON_FRAMES_MAX || is_circle(&chain, frame) || !read_frame(at, m, frame, b)) {
            *ret_n = n;
            return 1;
        }
        code = u64_in(b, at->frame_code) & ~(uint64_t) TAGS;
        if (is_shim(at, b)) {
            if (n)
                v[n - 1].entry = true;
        } else {
            v[n++] = (struct python_frame){
                .code = code,
                .instr = instr_of(at, b, code),
                .entry = at->minor <= 10 || (at->frame_entry != PYTHON_NONE && b[at->frame_entry] == 1),
            };
        }
        frame = u64_in(b, at->frame_previous);
    }
    if (n)
        v[n - 1].entry = true;
    *ret_n = n;
    return 0;
}

struct shim_search {
    const struct python *py;
    const struct proc_memory *m;
    uint64_t found;
    unsigned reads;
};

static int find_shim(void *arg, uint64_t state, uint64_t thread_id)
{
    struct shim_search *q = arg;
    struct chain chain = {0};
    uint8_t b[FRAME_BYTES] = {0};
    uint64_t frame;

    (void) thread_id;
    if (q->reads++ >= SEARCH_READS)
        return -E2BIG;
    if (!newest_frame(q->py, q->m, state, &frame))
        return 0;
    while (frame && q->reads++ < SEARCH_READS && !is_circle(&chain, frame) && read_frame(&q->py->at, q->m, frame, b)) {
        if (is_shim(&q->py->at, b)) {
            q->found = u64_in(b, q->py->at.frame_instr);
            return q->found != 0;
        }
        frame = u64_in(b, q->py->at.frame_previous);
    }
    return 0;
}

int python_shim_instr(const struct python *py, const struct proc_memory *m, uint64_t *ret)
{
    struct shim_search q = {.py = py, .m = m};
    int r = python_each_thread(py, m, find_shim, &q);

    if (r < 0)
        return r;
    *ret = q.found - py->bias;
    return q.found ? 0 : -EAGAIN;
}
