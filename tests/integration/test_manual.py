# SPDX-License-Identifier: Apache-2.0
"""What is installed for people: man pages and completions of every command and option, and a pkg-config file that builds C and C++
programs without warnings."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from wick_tools import BUILD, ROOT, WICK, some

MADE = BUILD / "packaging"


def commands():
    out = subprocess.run([WICK, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+)  +\S", out, re.M)


def options(command):
    p = subprocess.run([WICK, command, "--help"], capture_output=True, text=True)
    if command == "pprof":  # as Go's: on stderr, and with one dash
        return re.findall(r"^    (-[a-z_]+)", p.stderr, re.M)
    return re.findall(r"^  (?:-\w, |    )(--[\w-]+)", p.stdout, re.M)


@pytest.mark.parametrize("command", commands())
def test_page(command):
    path = MADE / f"wick-{command}.1"
    text = path.read_text()
    for option in some(options(command)):
        assert option.replace("-", "\\-") in text, option
    if not shutil.which("groff"):
        pytest.skip("no groff")
    p = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", path], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stderr, p.stderr
    assert f"wick-{command}" in re.sub("\x1b\\[[0-9;]*m|.\b", "", p.stdout)


def complete(*words):
    """What bash offers for the last word."""
    script = f"""source {MADE / 'wick'}
COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _wick; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_bash():
    assert complete("wick", "re") == ["record"]
    assert set(commands()) <= set(complete("wick", ""))
    assert complete("wick", "query", "co") == ["coverage"]
    assert complete("wick", "token", "") == ["create", "list", "revoke", *options("token")]
    assert complete("wick", "record", "--no-ker") == ["--no-kernel"]
    assert "-top" in complete("wick", "pprof", "-to")
    for command in commands():
        assert set(options(command)) <= set(complete("wick", command, "-" if command == "pprof" else "--")), command


def test_bash_values():
    """After an option that takes one of a few words: these words and nothing else, also after = and after a comma."""
    formats = re.findall(r"^  ([\w-]+)  +\S", subprocess.run([WICK, "convert", "--help"], capture_output=True, text=True).stdout, re.M)
    assert len(formats) > 8 and complete("wick", "convert", "a", "--to", "") == formats
    assert complete("wick", "convert", "--from", "perf-") == ["perf-script", "perf-data"]
    assert complete("wick", "record", "--unwind", "") == ["rows", "copy"]
    assert complete("wick", "record", "--unwind", "=") == ["rows", "copy"]
    assert complete("wick", "record", "--unwind", "=", "c") == ["copy"]
    assert complete("wick", "record", "-t", "") == complete("wick", "record", "--type", "") == ["cpu", "offcpu"]
    assert complete("wick", "run", "-t", "cpu,al") == ["cpu,alloc"]
    assert complete("wick", "query", "top", "--to", "") != formats  # another option of that name
    for command in ("run", "record", "convert"):
        for shell in ("_wick", "wick.fish"):
            assert re.search(rf"{command}.*\b(cpu.*offcpu|wall.*alloc|html.*svg)\b", (MADE / shell).read_text()), (command, shell)


@pytest.mark.parametrize("shell, name", [("zsh", "_wick"), ("fish", "wick.fish")])
def test_other_shells(shell, name):
    text = (MADE / name).read_text()
    assert all(re.search(rf"\b{c}\b", text) for c in some(commands()))
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    p = subprocess.run([shell, "-n", MADE / name], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stderr, p.stderr


def test_install_prefix(tmp_path):
    """`make install PREFIX=…` of a tree that was built with another prefix changes it; without PREFIX it is kept."""
    calls = tmp_path / "calls"
    for tool in ("meson", "ninja"):
        (tmp_path / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> {calls}\n')
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "build.ninja").touch()
    for words, prefix in (([], []), (["PREFIX=/opt/wick"], [f"meson configure {tmp_path} --prefix=/opt/wick"])):
        env = {k: v for k, v in os.environ.items() if k not in ("PREFIX", "MAKEFLAGS", "MAKELEVEL")}
        subprocess.run(["make", "install", f"BUILD={tmp_path}", *words], cwd=ROOT, check=True,
                       env={**env, "PATH": f"{tmp_path}:{env['PATH']}"})
        assert calls.read_text().splitlines() == [*prefix, f"ninja -C {tmp_path}", f"meson install -C {tmp_path} --no-rebuild"]
        calls.unlink()


def test_every_page_is_installed(tmp_path):
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path, "--quiet"], check=True, capture_output=True)
    assert {p.name for p in tmp_path.rglob("wick-*.1")} == {f"wick-{c}.1" for c in commands()}


@pytest.mark.parametrize("language", ["c", "cc"])
def test_pkg_config(tmp_path, language):
    """A program against the installed library, found by pkg-config alone."""
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path, "--quiet"], check=True, capture_output=True)
    folder = next(Path(tmp_path).rglob("wick.pc")).parent
    env = {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(folder), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "wick"], env=env, capture_output=True, text=True, check=True).stdout.split()
    source = tmp_path / f"program.{language}"
    source.write_text("#include <wick.h>\n#include <stdio.h>\n"
                      "int main(void) { struct wick_options o = WICK_OPTIONS_INIT; struct wick_stats s = WICK_STATS_INIT; (void) o; (void) s; puts(wick_version()); return 0; }\n")
    compiler = ["gcc", "-std=c11"] if language == "c" else ["g++", "-std=c++17"]
    p = subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", tmp_path / "program", *flags],
                       capture_output=True, text=True)
    assert p.returncode == 0 and not p.stderr, p.stderr
    library = next(Path(tmp_path).rglob("libwick.so.1"))
    out = subprocess.run([tmp_path / "program"], env={"LD_LIBRARY_PATH": str(library.parent)}, capture_output=True, text=True, check=True)
    assert out.stdout.strip()


def test_one_version():
    """What is built from this tree has one version, which meson.build names."""
    places = {"meson.build": r"^  version: '(.+?)'", "python/meson.build": r"version: '(.+?)'", "python/pyproject.toml": r'^version = "(.+?)"',
              "packaging/compose.yaml": r"image: wick:(\S+)"}
    found = {name: set(re.findall(pattern, (ROOT / name).read_text(), re.M)) for name, pattern in places.items()}
    found["python/meson.build"] = {re.search(places["python/meson.build"], (ROOT / "python/meson.build").read_text())[1]}
    found["wick"] = {subprocess.run([WICK, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]}
    assert len(set.union(*found.values())) == 1 and all(found.values()), found
