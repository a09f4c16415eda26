# SPDX-License-Identifier: Apache-2.0
"""Registers with the extension where OpenTelemetry keeps the current span and asyncio the name of a task. After that, samples are
joined with them without running any Python code."""
import sys

from . import _wick

_bound = {"span": False, "task": False, "steps": False}


def bind_span():
    """Once. Needs opentelemetry-api; it is imported if it is installed."""
    if _bound["span"]:
        return
    try:
        from opentelemetry import context
        from opentelemetry.trace import SpanContext
        from opentelemetry.trace.propagation import _SPAN_KEY
        runtime = context._RUNTIME_CONTEXT
        variable = runtime._current_context
    except (ImportError, AttributeError):
        return
    _wick.bind_span(variable, _SPAN_KEY, SpanContext)
    _bound["span"] = True
    try:
        _wick.publish_attach(runtime)
    except Exception:  # a runtime context of another kind: the span is not published, but samples still have it
        pass
    _publish_steps()


def _publish_steps():
    """Once, when there are both spans and tasks."""
    events = sys.modules.get("asyncio.events")
    if not (_bound["span"] and _bound["task"]) or events is None or _bound["steps"]:
        return
    _bound["steps"] = True
    try:
        _wick.publish_steps(events.Handle)
    except Exception:
        pass


def bind_late():
    """Called by the extension when asyncio or OpenTelemetry is seen in a stack for the first time."""
    if "opentelemetry.trace" in sys.modules:
        bind_span()
    bind_task()


class _Loop:
    """As much of an event loop as a task needs that never runs."""

    def get_debug(self):
        return False

    def call_soon(self, *args, **kwargs):
        return None

    def call_exception_handler(self, context):
        pass


async def _nothing():
    pass


def bind_task():
    """Once, after asyncio was imported by the program."""
    events = sys.modules.get("asyncio.events")
    if _bound["task"] or events is None or "_asyncio" not in sys.modules:
        return
    _bound["task"] = True
    run = events.Handle._run.__code__
    _publish_steps()
    name = "".join(["wick", " looks for ", "the name of a task"])
    coroutine = _nothing()
    try:
        task = sys.modules["_asyncio"].Task(coroutine, loop=_Loop(), name=name)
        _wick.bind_task(run, events.Handle._callback, task, name)
        task._log_destroy_pending = False
        tasks = sys.modules.get("asyncio.tasks")
        unregister = getattr(tasks, "_unregister_task", None)
        if unregister:
            unregister(task)
        del task
    except Exception:  # another implementation of asyncio: there are no task names then
        pass
    finally:
        coroutine.close()
