/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation samples of Python objects: hooks around the interpreter's allocators for objects and memory, with the rule
 * of sdk/heap.h. malloc() itself, which serves large blocks and extension modules, is hooked by wick; a block that both
 * see counts once. The hooks never call the interpreter.
 */
#ifndef PYTHON_PY_ALLOC_H
#define PYTHON_PY_ALLOC_H

/* Both with the GIL. */
void py_alloc_start(void);
void py_alloc_stop(void);

#endif
