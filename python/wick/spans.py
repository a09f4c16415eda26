# SPDX-License-Identifier: Apache-2.0
"""Registers with the extension where OpenTelemetry keeps the current span and asyncio the name of a task. After that, samples are
joined with them without running any Python code. Tasks that await are looked at by a thread of the extension."""

import _thread
import gc
import sys

from . import _wick

_bound = {"span": False, "task": False, "steps": False, "awaits": False}
_wanted = _watching = False  # wall-clock time, by the profiler that runs; a thread looks at tasks


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
    _watch()


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
        context = next(x for x in gc.get_referents(task) if type(x).__name__ == "Context")
        _bound["awaits"] = _wick.bind_awaits(task, context)
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


def _sources():
    """What holds the tasks: sets; since 3.14, where thread states list them, the function that collects those of a loop."""
    tasks = sys.modules["asyncio.tasks"]
    if sys.version_info >= (3, 14):
        return (tasks.all_tasks,)
    if sys.version_info >= (3, 12):
        return (tasks._scheduled_tasks.data, tasks._eager_tasks)
    return (tasks._all_tasks.data,)


def _watch():
    """Once for each profiler, when there is asyncio."""
    global _watching
    if not _wanted or _watching or not _bound["awaits"]:
        return
    _watching = True
    try:
        _thread.start_new_thread(_wick.watch_awaits, _sources())
    except Exception:  # another implementation of asyncio, or no room for a thread
        pass


def watch(wanted, again=False):
    """A profiler starts, with wall-clock time or without, or stops. again: in a forked child, which has no other thread."""
    global _wanted, _watching
    _wanted = _wanted if again else wanted
    _watching = False
    _watch()
