/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span that is current for a thread, read from the interpreter's memory:
 *
 *   thread state -> context -> variables (a hash trie) -> OpenTelemetry's ContextVar -> its Context (a dict)
 *   -> the span under the key "current-span-..." -> attribute _context, a SpanContext (a tuple) -> trace id, span id
 *
 * A context belongs to a thread or to an asyncio task, and the interpreter switches it with the task: so this is the span
 * of the code that runs. Contexts and span contexts are immutable: a change replaces a pointer.
 */
#ifndef PYTHON_PY_SPAN_H
#define PYTHON_PY_SPAN_H

#include "cpython_layout.h"

#include <stdbool.h>

#include "sdk/ext.h"

/* With the GIL: OpenTelemetry's variable, the key of the span in its value, and the class SpanContext. All are kept
 * until the process ends. */
void py_span_bind(PyObject *variable, PyObject *key, PyObject *span_context);
/* The span of a context of the calling thread; false if it has none. With the GIL. */
bool py_span_of_context(PyObject *context, uint8_t trace_id[16], uint8_t span_id[8]);
/* Sets the span of a sample, if there is one. Async-signal-safe. */
void py_span_find(struct wick_ext_stack *s, uint64_t tstate);

#endif
