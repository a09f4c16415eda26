# SPDX-License-Identifier: Apache-2.0
"""What is installed for people: man pages and completions of every command and option, and a pkg-config file that builds C and C++
programs without warnings."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from wick_tools import BUILD, WICK

MADE = BUILD / "packaging"


def commands():
    out = subprocess.run([WICK, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+)  +\S", out, re.M)


def options(command):
    out = subprocess.run([WICK, command, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  (?:-\w, |    )--([\w-]+)", out, re.M)


@pytest.mark.parametrize("command", commands())
def test_page(command):
    path = MADE / f"wick-{command}.1"
    text = path.read_text()
    for option in options(command):
        assert f"\\-\\-{option}".replace("-", "\\-").replace("\\\\-", "\\-") in text, option
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
    assert complete("wick", "token", "") == ["create", "list", "revoke", *(f"--{o}" for o in options("token"))]
    assert complete("wick", "record", "--no-ker") == ["--no-kernel"]
    assert "-top" in complete("wick", "pprof", "-to")
    for command in commands():
        assert {f"--{o}" for o in options(command)} <= set(complete("wick", command, "--")), command


@pytest.mark.parametrize("shell, name", [("zsh", "_wick"), ("fish", "wick.fish")])
def test_other_shells(shell, name):
    text = (MADE / name).read_text()
    assert all(re.search(rf"\b{c}\b", text) for c in commands())
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    p = subprocess.run([shell, "-n", MADE / name], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stderr, p.stderr


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
