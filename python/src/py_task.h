/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of the asyncio task that runs, as the label asyncio.task.name. The event loop runs every step of a task
 * through Handle._run(), whose frame is on the stack: its `self` has the callback, which belongs to the task.
 */
#ifndef PYTHON_PY_TASK_H
#define PYTHON_PY_TASK_H

#include <stdbool.h>

#include "cpython_layout.h"
#include "sdk/ext.h"

/* With the GIL. code: Handle._run's; task: a task of class task_type with the name `name`, from which the place of the
 * name is learned. True on success. */
bool py_task_bind(PyObject *code, PyObject *handle_callback, PyObject *task, PyObject *name);
/* With the GIL: the label of a task. */
void py_task_label(struct wick_ext_stack *s, PyObject *task);
void py_task_find(struct wick_ext_stack *s, uint64_t tstate);

#endif
