/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of a thread's Python frames, innermost first, read without the interpreter's help. Async-signal-safe. */
#ifndef PYTHON_PY_FRAMES_H
#define PYTHON_PY_FRAMES_H

#include "cpython_layout.h"
#include "peek.h"

struct py_frames {
    struct peek peek;
    uint64_t at; /* address of the next frame; 0: the end */
    uint32_t steps;
    bool broken; /* a frame could not be read */
};

/* other: the thread state is not the calling thread's. */
void py_frames_begin(struct py_frames *c, uint64_t tstate, bool other);
/* Reads the head of the next frame; false at the end. */
bool py_frames_next(struct py_frames *c, py_frame *head);
/* The number of a frame (code_names.h), 0 for frames without code. */
uint64_t py_frames_number(struct peek *p, const py_frame *f);
/* The first local variable of the innermost frame that runs `code`; false if there is none. */
bool py_frames_local(uint64_t tstate, bool other, uint64_t code, uint64_t *ret);

#endif
