/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walker that the package gives to wick (sdk/ext.h): merges Python frames into native stacks, and finds the span and
 * the asyncio task of the sampled thread.
 *
 * Merging: each native frame of the evaluation loop stands for the Python frames of that call of the loop. Other frames
 * of the interpreter itself, and frames of the C library between them, are left out: their time belongs to the Python
 * function that called them. Frames of extension modules stay, with what they call. If the number of loops on the native
 * stack is not the number of calls that the interpreter knows (its code may have cold parts that cannot be distinguished from
 * other functions), the native frames above the first loop are kept, then all Python frames follow.
 */
#ifndef PYTHON_PY_WALK_H
#define PYTHON_PY_WALK_H

#include "sdk/ext.h"

enum py_native {
    PY_NATIVE_OFF,        /* Python frames only */
    PY_NATIVE_EXTENSIONS, /* frames of extension modules and what they call */
    PY_NATIVE_ALL,        /* also of the interpreter, above the Python frame that called it */
};

/* With the GIL. Returns 0, or -1 with a message in *ret_message. */
int py_walk_start(enum py_native native, const char **ret_message);
void py_walk_stop(void);

/* The Python frames alone of the calling thread; for hooks. Returns the number of frames. */
uint32_t py_walk_here(uint64_t *frames, uint32_t max);

#endif
