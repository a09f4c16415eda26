# SPDX-License-Identifier: Apache-2.0
"""ContinuousProfiler, and functions for the one profiler of the process."""

import atexit
import os
import sys
import threading

from . import _wick, spans
from .exporter import OTLPProfileExporter, pairs

TYPES = {"cpu": 1, "wall": 2, "alloc": 4, "heap": 8, "lock": 16}
NATIVE = {"off": 0, "extensions": 1, "all": 2}
_lock = threading.Lock()
_current = None


def _after_fork():
    """In the child, where profiling continues: another thread may have held the lock; and a process of multiprocessing ends
    without calling atexit's functions."""
    global _lock
    _lock = threading.Lock()
    spans.watch(True, again=True)
    util = sys.modules.get("multiprocessing.util")
    if util and _current:
        util.register_after_fork(_current, lambda p: util.Finalize(None, p._at_exit, exitpriority=0))


os.register_at_fork(after_in_child=_after_fork)


def _number(name, value, low, high):
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must be {low} to {high}")
    return value


def _types(names):
    if isinstance(names, str):
        names = [n.strip() for n in names.split(",") if n.strip()]
    bits = 0
    for n in names:
        if n not in TYPES:
            raise ValueError(f"profile type {n!r} is not known; the types are {', '.join(TYPES)}")
        bits |= TYPES[n]
    if not bits:
        raise ValueError("profile_types is empty")
    return bits


def _service_name():
    """The tracer provider's service.name, else the name of the script: the executable is called python everywhere."""
    trace = sys.modules.get("opentelemetry.trace")
    resource = getattr(trace.get_tracer_provider(), "resource", None) if trace else None
    name = resource.attributes.get("service.name") if resource else None
    if name and not str(name).startswith("unknown_service"):
        return str(name)
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec and spec.name and spec.name not in ("__main__", "wick.__main__"):
        return spec.name[: -len(".__main__")] if spec.name.endswith(".__main__") else spec.name
    path = sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return os.path.splitext(os.path.basename(path))[0] or "python"


class ContinuousProfiler:
    """Samples this process and sends profiles.

    exporter                an OTLPProfileExporter; None: settings from the environment, or none if there is a file
    sample_rate             samples a second of each thread's CPU time and wall-clock time
    profile_types           some of "cpu", "wall", "alloc", "heap", "lock"
    export_interval         seconds
    max_stack_depth         frames
    max_samples_per_export  distinct stacks; further ones are summed up as [truncated]
    tags                    a dict of resource attributes
    service_name            None: OTEL_SERVICE_NAME, the tracer provider's, or the name of the script
    alloc_interval          mean number of bytes between two allocation samples
    native                  "extensions": frames of C extensions; "off": Python only; "all": of the interpreter, too
    file                    a file for the profile, in pprof's format, written when the profiler stops
    """

    def __init__(
        self,
        exporter=None,
        sample_rate=None,
        profile_types=("cpu",),
        export_interval=None,
        max_stack_depth=None,
        max_samples_per_export=None,
        tags=None,
        service_name=None,
        service_version=None,
        alloc_interval=None,
        lock_interval=None,
        cpu_budget=None,
        native="extensions",
        file=None,
    ):
        if native not in NATIVE:
            raise ValueError(f"native is {native!r}; it can be {', '.join(NATIVE)}")
        self.exporter = exporter
        self.options = {
            "types": _types(profile_types),
            "rate": int(_number("sample_rate", sample_rate, 1, 10000)) if sample_rate is not None else 0,
            "interval_ms": int(_number("export_interval", export_interval, 0.1, 86400) * 1000)
            if export_interval is not None
            else 0,
            "max_depth": int(_number("max_stack_depth", max_stack_depth, 1, 1024))
            if max_stack_depth is not None
            else 0,
            "max_samples": int(_number("max_samples_per_export", max_samples_per_export, 1, 1 << 24))
            if max_samples_per_export is not None
            else 0,
            "alloc_interval": int(_number("alloc_interval", alloc_interval, 1, 1 << 40))
            if alloc_interval is not None
            else 0,
            "lock_interval_ns": int(_number("lock_interval", lock_interval, 1e-9, 3600) * 1e9)
            if lock_interval is not None
            else 0,
            "cpu_budget": float(_number("cpu_budget", cpu_budget, 0.001, 1)) if cpu_budget is not None else 0.0,
            "native": NATIVE[native],
            "resource": pairs(tags),
            "service_version": service_version,
            "file": os.fspath(file) if file is not None else None,
        }
        self.service_name = service_name

    def start(self):
        """Starts sampling. Starting twice is harmless; a second profiler in a process is an error."""
        global _current
        with _lock:
            if _current is self:
                return self
            options = dict(self.options)
            if self.exporter or not options["file"]:
                options.update((self.exporter or OTLPProfileExporter()).options())
            spans.bind_span()
            name = self.service_name or os.environ.get("OTEL_SERVICE_NAME")
            options["service_name"] = name or (
                None if "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") else _service_name()
            )
            spans.bind_task()
            _wick.start(**options)
            _current = self
            spans.watch(bool(options["types"] & TYPES["wall"]))
        atexit.register(self._at_exit)
        return self

    def _at_exit(self):
        if _current is self:
            self.stop()

    def stop(self):
        """Stops sampling and sends what is left. Returns None, or why the last export failed."""
        global _current
        with _lock:
            if _current is not self:
                return None
            _current = None
            spans.watch(False)
            message = _wick.stop()
        atexit.unregister(self._at_exit)
        return message

    shutdown = stop

    def force_flush(self, timeout_millis=0):
        """Exports now; raises RuntimeError if that fails."""
        _wick.flush(int(timeout_millis))

    def pause(self):
        _wick.pause()

    def resume(self):
        _wick.resume()

    @property
    def running(self):
        return _current is self

    def stats(self):
        return _wick.stats()

    def snapshot(self, profile_type="cpu"):
        """The profile as gzip'd pprof: since the last snapshot (cpu, wall), or since the start (alloc, heap, lock)."""
        return _wick.snapshot(TYPES[profile_type])

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()


def start(endpoint=None, insecure=None, headers=None, exporter=None, **options):
    """Starts the profiler of this process and returns it."""
    if exporter is None:
        exporter = OTLPProfileExporter(endpoint=endpoint, insecure=insecure, headers=headers)
    return ContinuousProfiler(exporter=exporter, **options).start()


def stop():
    """Stops it. Returns None, or why the last export failed."""
    return _current.stop() if _current else None


def flush(timeout=0):
    """Exports now; raises RuntimeError if that fails."""
    _wick.flush(int(timeout * 1000))


def stats():
    return _wick.stats()


def label(key, value):
    """Attaches key=value to the samples of this thread until it is set again; None removes it."""
    _wick.set_label(key, None if value is None else str(value))


def serve_pprof(address=6060, **options):
    """Serves /debug/pprof/ on a port of the loopback address, or on "host:port". Returns the port.

    `go tool pprof http://localhost:6060/debug/pprof/profile?seconds=30` then works. A profiler that is not running is
    started, without exporting."""
    if _current is None:
        options.setdefault("profile_types", ("cpu", "heap"))
        start(endpoint="none", **options)
    return _wick.serve_pprof(f"127.0.0.1:{address}" if isinstance(address, int) else address)
