# SPDX-License-Identifier: Apache-2.0
"""Which functions, files and lines of Python exist: asked of the interpreter that ran them, which compiles the sources. Runs in
CPython 3.9 to 3.14, alone: reads [[function, file, line], ...] as JSON, and writes those that are in no source.

    python3.11 python_truth.py SCRIPT < frames.json
"""
import dis
import json
import os
import sys

LIBRARY = os.path.dirname(os.__file__)
GENERATED = {"<module>", "<lambda>", "__create_fn__", "__init__", "__repr__", "__eq__", "__hash__", "__new__", "_make_nmtuple"}


def source_of(file):
    if not file.startswith("<frozen "):
        return file
    base = os.path.join(LIBRARY, *file[len("<frozen "):-1].split("."))
    return next((p for p in (base + ".py", os.path.join(base, "__init__.py")) if os.path.exists(p)), file)


def codes(code, known):
    lines = {line for _, line in dis.findlinestarts(code)} | {code.co_firstlineno}
    if hasattr(code, "co_lines"):
        lines |= {line for _, _, line in code.co_lines()}
    known.setdefault(getattr(code, "co_qualname", code.co_name), set()).update(lines)
    for c in code.co_consts:
        if hasattr(c, "co_code"):
            codes(c, known)


def known_in(file, script):
    """{function: lines} of a file; None: there is no such file."""
    known = {}
    try:
        with open(script if file == "<string>" else source_of(file), "rb") as f:
            codes(compile(f.read(), file, "exec", dont_inherit=True), known)
    except (OSError, ValueError, SyntaxError):
        return None
    return known


def main():
    files, wrong = {}, []
    for function, file, line in json.load(sys.stdin):
        if file not in files:
            files[file] = known_in(file, sys.argv[1])
        known = files[file]
        if file == "<string>" and function.rpartition(".")[2] in GENERATED:  # of dataclasses and namedtuple
            continue
        if file == "<frozen getpath>":  # its source is not installed
            continue
        if known is None or function not in known or (line and line not in known[function]):
            wrong.append([function, file, line])
    json.dump(wrong, sys.stdout)


if __name__ == "__main__":
    main()
