/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the span that is current for each thread, so that readers outside the process (the host agent) see it: as the
 * thread's otel_thread_ctx_v1 (sdk/span.h). It is looked up as for a sample (py_span.h) whenever it may change:
 *
 *   - when OpenTelemetry attaches or detaches a context,
 *   - when a task of asyncio begins and ends a step. Since CPython 3.14 the interpreter reports every change of a context,
 *     whatever event loop there is; before, Handle._run() of asyncio is replaced by a function that calls it.
 *
 * The functions stay in place until the process ends, so that nothing outdated is published after the profiler stopped.
 */
#ifndef PYTHON_PY_PUBLISH_H
#define PYTHON_PY_PUBLISH_H

#include "cpython_layout.h"

#include <stdbool.h>

/* runtime: OpenTelemetry's runtime context, whose methods attach and detach are replaced. Once. False with an exception. */
bool py_publish_attach(PyObject *runtime);
/* handle: the class asyncio.events.Handle. Once. False with an exception. */
bool py_publish_steps(PyObject *handle);

#endif
