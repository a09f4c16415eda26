/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of Python frames (py_frames.h). */
#include "py_frames.h"

#include "code_names.h"

enum { DEPTH_LIMIT = 20000 };

void py_frames_begin(struct py_frames *c, uint64_t tstate, bool other)
{
    uint64_t v = 0;

    peek_init(&c->peek, other);
    c->at = 0;
    c->steps = 0;
    c->broken = false;
#if PY_VERSION_HEX >= 0x030d0000
    if (tstate && peek_u64(&c->peek, tstate + offsetof(PyThreadState, current_frame), &v))
        c->at = v;
#elif PY_VERSION_HEX >= 0x030b0000
    if (tstate && peek_u64(&c->peek, tstate + offsetof(PyThreadState, cframe), &v) && v &&
        peek_u64(&c->peek, v + offsetof(_PyCFrame, current_frame), &v))
        c->at = v;
#else
    if (tstate && peek_u64(&c->peek, tstate + offsetof(PyThreadState, frame), &v))
        c->at = v;
#endif
}

/* Reads the next frame; false at the end. */
bool py_frames_next(struct py_frames *c, py_frame *head)
{
    if (!c->at)
        return false;
    if (c->at & 7 || ++c->steps > DEPTH_LIMIT || !peek_copy(&c->peek, c->at, head, PY_FRAME_HEAD)) {
        c->broken = true;
        c->at = 0;
        return false;
    }
    c->at = PY_FRAME_PREVIOUS(head);
    return true;
}

uint64_t py_frames_number(struct peek *p, const py_frame *f)
{
    if (PY_FRAME_IS_SHIM(f))
        return 0;
#if PY_VERSION_HEX >= 0x030b0000
    return code_names_frame(p, PY_FRAME_CODE(f), PY_FRAME_INSTR(f));
#else
    return code_names_frame(p, PY_FRAME_CODE(f), (uint64_t) (int64_t) f->f_lasti);
#endif
}

bool py_frames_local(uint64_t tstate, bool other, uint64_t code, uint64_t *ret)
{
    py_frame head;
    struct py_frames c;
    uint64_t at;

    py_frames_begin(&c, tstate, other);
    for (at = c.at; py_frames_next(&c, &head); at = c.at)
        if (PY_FRAME_CODE(&head) == code) {
            bool got = peek_u64(&c.peek, at + PY_FRAME_LOCALS, ret);

            *ret &= ~(uint64_t) 7; /* 3.14 tags references */
            return got;
        }
    return false;
}
