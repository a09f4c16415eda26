# SPDX-License-Identifier: Apache-2.0
"""Spans seen from outside: a program publishes otel_thread_ctx_v1 in each of the ways that compilers and loaders know, and
`wick record` links samples to the span that was on when they were taken."""
import os
import shutil
import subprocess

import pytest
from wick_tools import ROOT, WICK
from agent_tools import may_sample, resources
from span_tools import MAIN, PUBLISHER, judge_spans


LIBWICK = ROOT / "build/src/sdk/libwick.so"

pytestmark = [pytest.mark.skipif(not may_sample(), reason="BPF programs may not be loaded here"),
              pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")]


def cc(*words, cwd):
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", *map(str, words)], cwd=cwd, check=True)


def build(kind, d):
    (d / "p.c").write_text(PUBLISHER)
    (d / "m.c").write_text(MAIN)
    if kind == "local exec":  # relaxed by the linker: the program itself has it
        cc("-o", "m", "m.c", "p.c", "-pthread", "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1", cwd=d)
    elif kind == "static":
        cc("-static", "-o", "m", "m.c", "p.c", "-pthread", "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1", cwd=d)
    elif kind == "libwick":
        if not LIBWICK.exists():
            pytest.skip("libwick is not built")
        cc("-DLIBWICK", "-I", ROOT / "include", "-o", "m", "m.c", LIBWICK, f"-Wl,-rpath,{LIBWICK.parent}", "-pthread", cwd=d)
    else:
        flags = {"descriptor": ["-mtls-dialect=gnu2"], "late descriptor": ["-mtls-dialect=gnu2"], "general": ["-mtls-dialect=gnu"],
                 "late general": ["-mtls-dialect=gnu"], "initial exec": ["-ftls-model=initial-exec"]}[kind]
        cc("-shared", "-fPIC", *flags, "-o", "libp.so", "p.c", cwd=d)
        if kind.startswith("late"):
            cc("-DLATE", "-o", "m", "m.c", "-pthread", "-ldl", cwd=d)
            return [d / "m", d / "libp.so"]
        cc("-o", "m", "m.c", d / "libp.so", "-Wl,-rpath," + str(d), "-pthread", cwd=d)
    return [d / "m"]


@pytest.mark.parametrize("kind", ["local exec", "static", "initial exec", "general", "late general", "descriptor",
                                  "late descriptor", "libwick"])
def test_links(tmp_path, kind):
    command = build(kind, tmp_path)
    out = tmp_path / "out.json"
    r = subprocess.run([WICK, "record", "-q", "-F", "499", "-o", str(out), "--", *map(str, command)], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    judge_spans(out)


def test_process_context(tmp_path):
    """What a program says of itself by libwick (OTEL_CTX) is its identity from outside."""
    if not LIBWICK.exists():
        pytest.skip("libwick is not built")
    (tmp_path / "m.c").write_text(r'''
#include <time.h>
#include "wick.h"
volatile unsigned long sink;
int main(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct timespec t;
    o.service_name = "told-by-itself";
    o.service_version = "7.1";
    wick_start(wick_provider_new(&o));
    do {
        for (int i = 0; i < 100000; i++) sink += i;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < 400);
    return 0;
}
''')
    cc("-I", ROOT / "include", "-o", "m", "m.c", LIBWICK, f"-Wl,-rpath,{LIBWICK.parent}", cwd=tmp_path)
    out = tmp_path / "out.json"
    r = subprocess.run([WICK, "record", "-q", "-F", "199", "-o", str(out), "--", str(tmp_path / "m")], capture_output=True,
                       text=True, timeout=60, env={**os.environ, "OTEL_SERVICE_NAME": "by-environment"})
    assert r.returncode == 0, r.stderr
    got = [a for a in resources(out) if a.get("process.executable.name") == "m"]
    subprocess.run([WICK, "record", "-q", "-o", str(out), "--rename", r"told-(\w+)-(\w+)=\2.\1", "--", str(tmp_path / "m")],
                   check=True, timeout=60)
    assert "itself.by" in [a.get("service.name") for a in resources(out)]
    r = subprocess.run([WICK, "record", "--rename", "nothing", "--", "true"], capture_output=True, text=True)
    assert r.returncode != 0 and "--rename" in r.stderr
    # the first samples may come before it has said anything
    assert [a for a in got if a["service.name"] == "told-by-itself" and a.get("service.version") == "7.1"], got
