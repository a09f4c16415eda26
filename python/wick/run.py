# SPDX-License-Identifier: Apache-2.0
"""python -m wick run: profiles a program that does not know of it. Settings come from the environment, with the names of
`wick run`."""

import atexit
import os
import runpy
import shutil
import sys

from .exporter import OTLPProfileExporter
from .profiler import ContinuousProfiler, serve_pprof

USAGE = """usage: python -m wick run [OPTIONS] SCRIPT [ARGS...]
       python -m wick run [OPTIONS] -m MODULE [ARGS...]

Profiles a Python program: a file, a module, or a command that is a Python script (gunicorn, celery).

  -t, --type TYPES     cpu,wall,alloc,heap,lock (WICK_TYPES; cpu)
  -F, --rate HZ        samples a second (WICK_RATE; 100)
      --export URL     OTLP endpoint, or none (WICK_EXPORT, OTEL_EXPORTER_OTLP_ENDPOINT; http://localhost:4317)
  -o, --output FILE    a file in pprof's format, written at the end (WICK_FILE)
      --pprof ADDRESS  serves /debug/pprof/ there (WICK_PPROF)
      --service NAME   (OTEL_SERVICE_NAME; the name of the program)"""

OPTIONS = {
    "-t": "WICK_TYPES",
    "--type": "WICK_TYPES",
    "-F": "WICK_RATE",
    "--rate": "WICK_RATE",
    "--export": "WICK_EXPORT",
    "-o": "WICK_FILE",
    "--output": "WICK_FILE",
    "--pprof": "WICK_PPROF",
    "--service": "OTEL_SERVICE_NAME",
}


class Wrong(Exception):
    """Wrong usage."""


def number(settings, name, convert=int):
    text = settings.get(name)
    if not text:
        return None
    try:
        return convert(text)
    except ValueError:
        raise Wrong(f"{name} is {text!r}, which is not a number") from None


def parse(args, settings):
    """Takes the options from args into settings; the rest is the program."""
    args = list(args)
    while args and args[0].startswith("-") and args[0] not in ("-m", "--"):
        name, equals, value = args.pop(0).partition("=")
        if name not in OPTIONS:
            raise Wrong(f"unknown option {name}")
        if not equals:
            if not args:
                raise Wrong(f"option {name} needs a value")
            value = args.pop(0)
        settings[OPTIONS[name]] = value
    if args and args[0] == "--":
        args.pop(0)
    if not args or args == ["-m"]:
        raise Wrong("no program is given")
    return args


def is_python(path):
    with open(path, "rb") as f:
        first = f.readline(256)
    return path.endswith((".py", ".pyc")) or first.startswith(b"#!") and b"python" in first


def program(args):
    """(how to run it, its sys.argv, its name)"""
    if args[0] == "-m":
        return lambda: runpy.run_module(args[1], run_name="__main__", alter_sys=True), args[1:], args[1]
    path = args[0]
    if not os.path.exists(path) and os.sep not in path:
        path = shutil.which(path) or path
    if not os.path.exists(path):
        raise Wrong(f"cannot open '{args[0]}': no such file, and no such command")
    if not os.path.isdir(path) and not is_python(path):
        raise Wrong(f"'{path}' is not a Python program; use `wick run` for others")
    sys.path[0] = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    return (
        lambda: runpy.run_path(path, run_name="__main__"),
        [path, *args[1:]],
        os.path.splitext(os.path.basename(path))[0],
    )


def profiler_of(settings, name):
    out = settings.get("WICK_FILE") or None
    export = settings.get("WICK_EXPORT") or None
    return ContinuousProfiler(
        exporter=OTLPProfileExporter(endpoint=export or ("none" if out else None)),
        profile_types=settings.get("WICK_TYPES") or "cpu",
        sample_rate=number(settings, "WICK_RATE"),
        max_stack_depth=number(settings, "WICK_DEPTH"),
        alloc_interval=number(settings, "WICK_ALLOC_INTERVAL"),
        export_interval=(number(settings, "WICK_EXPORT_INTERVAL_MS") or 0) / 1000 or None,
        service_name=settings.get("OTEL_SERVICE_NAME") or name,
        native=settings.get("WICK_PYTHON_NATIVE") or "extensions",
        file=out,
    )


def hand_on(settings, name):
    """Makes processes that multiprocessing spawns (uvicorn --workers) profile themselves, as forked ones do: they are new
    interpreters, whose command calls start_spawned() first. Not where the profile goes to a file, which has one writer."""
    if settings.get("WICK_FILE") and not settings.get("WICK_EXPORT"):
        return
    os.environ.update(
        {v: settings[v] for v in ("WICK_TYPES", "WICK_RATE", "WICK_EXPORT", "OTEL_SERVICE_NAME") if settings.get(v)}
    )
    os.environ["WICK_RUN_NAME"] = name
    follow_spawned()


START_SPAWNED = """
try:
    from wick.run import start_spawned
except ImportError:
    pass
else:
    start_spawned()
"""


def follow_spawned():
    from multiprocessing import spawn

    def get_command_line(**kwargs):
        command = original(**kwargs)
        if "-c" in command:  # a frozen program has no code there
            i = command.index("-c") + 1
            command[i] = START_SPAWNED + command[i]
        return command

    original, spawn.get_command_line = spawn.get_command_line, get_command_line


def start_spawned():
    name = os.environ.get("WICK_RUN_NAME")
    if not name:  # the program has taken it out of the environment
        return
    follow_spawned()
    try:
        profiler = profiler_of({k: v for k, v in os.environ.items() if k != "WICK_FILE"}, name)
        profiler.start()
        atexit.register(profiler.stop)
    except (RuntimeError, ValueError, Wrong) as e:  # the program is more important than its profile
        print(f"python -m wick: profiling is off: {e}", file=sys.stderr)


def main(argv):
    if argv[:1] in (["-h"], ["--help"], []):
        print(USAGE)
        return 0 if argv else 2
    settings = dict(os.environ)
    try:
        if argv[0] != "run":
            raise Wrong(f"unknown command {argv[0]!r}")
        if argv[1:2] in (["-h"], ["--help"]):
            print(USAGE)
            return 0
        run, sys.argv, name = program(parse(argv[1:], settings))
        profiler = profiler_of(settings, name)
        hand_on(settings, name)
    except (Wrong, ValueError) as e:
        print(f"python -m wick: {e}\n{USAGE}", file=sys.stderr)
        return 2
    try:
        profiler.start()
        if settings.get("WICK_PPROF"):
            text = settings["WICK_PPROF"]
            serve_pprof(int(text) if text.isdigit() else text)
    except (RuntimeError, ValueError) as e:  # the program is more important than its profile
        print(f"python -m wick: profiling is off: {e}", file=sys.stderr)
    try:
        run()
    finally:
        message = profiler.stop()
        if message:
            print(f"python -m wick: {message}", file=sys.stderr)
    return 0
