/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wall-clock time of asyncio's tasks that await something: no thread waits in them, so that looking at threads does not see
 * them. A thread of the package looks at the tasks at the times of the wall profile. Each that is suspended gets the time
 * since the look before, at the coroutines that it is in, below a frame `[await]`, with the span of its context and its name.
 */
#ifndef PYTHON_PY_AWAIT_H
#define PYTHON_PY_AWAIT_H

#include <stdbool.h>

#include "cpython_layout.h"

/* task: of asyncio, with `context`, from which the place of a task's context is learned. */
bool py_await_bind(PyObject *task, PyObject *context);
/*
 * The thread's function; returns when the profiler has stopped. sources: sets of tasks or of weak references to them; since
 * 3.14 a function that returns the tasks of a loop.
 */
PyObject *py_await_watch(PyObject *sources);
/* With the GIL: ends the threads that watch. */
void py_await_stop(void);

#endif
