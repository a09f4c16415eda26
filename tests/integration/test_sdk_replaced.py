# SPDX-License-Identifier: Apache-2.0
"""libwick in a program whose files are replaced while it runs, as a deploy or an upgrade of a library does: lines are those of the code
that runs, never those of the file that is at its path now."""
import os
import subprocess
import time

import pytest
from collector_peer import Sink
from google.protobuf import json_format
from opentelemetry.proto.profiles.v1development import profiles_pb2
from sdk_tools import WICK

MOVED = 300  # lines that the other build has before the code

LATE = """#include <time.h>
__attribute__((noinline)) unsigned late(unsigned n)
{
    unsigned x = 1;
    for (unsigned i = 0; i < n; i++)
        x = x * 3 + i;
    return x;
}
__attribute__((noinline)) unsigned late_for(double seconds)
{
    unsigned sum = 0;
    for (clock_t end = clock() + (clock_t) (seconds * CLOCKS_PER_SEC); clock() < end;)
        sum += late(1000000);
    return sum;
}
"""
MAIN = """#include <stdio.h>
#include <unistd.h>
unsigned late_for(double seconds);
int main(void)
{
    puts("ready");
    fflush(stdout);
    while (access("go", F_OK))
        usleep(1000);
    return late_for(3) == 1;
}
"""


AGAIN = """#include <stdio.h>
#include <unistd.h>
unsigned late_for(double seconds);
int main(int argc, char **argv)
{
    if (argc > 1)
        return late_for(2) == 1;
    unlink("app");
    execl("/proc/self/exe", "/proc/self/exe", "again", (char *) 0);
    return 1;
}
"""


def build(folder, where, *flags, moved=0, main=True):
    folder.mkdir()
    (folder / "late.c").write_text("\n" * moved + LATE)
    (folder / "main.c").write_text(MAIN)
    # the names of the files in the debug information are the same in both builds
    subprocess.run(["cc", "-g", "-O1", "-o", where, "late.c", *(["main.c"] if main else []), *flags], cwd=folder, check=True)


def lines_of(requests):
    """{line: value} of the innermost frames in late(); 0: without a line."""
    got = {}
    for request in requests:
        d = request.dictionary
        for p in (p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles):
            for s in p.samples:
                lines = d.location_table[d.stack_table[s.stack_index].location_indices[0]].lines
                if lines and d.string_table[d.function_table[lines[0].function_index].name_strindex] == "late":
                    got[lines[0].line] = got.get(lines[0].line, 0) + sum(s.values)
    return got


def run_and_replace(tmp_path, exe, replaced, by, env):
    with Sink() as sink:
        p = subprocess.Popen([WICK, "run", "-t", "cpu", "--export", f"http://127.0.0.1:{sink.port}", "--", str(exe)], cwd=tmp_path,
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "WICK_EXPORT_INTERVAL_MS": "500", **env})
        assert p.stdout.readline() == "ready\n"
        time.sleep(0.3)  # libwick has looked at the files
        if by:
            by.rename(replaced)
        (tmp_path / "go").touch()
        assert p.wait(60) == 0
        return lines_of(sink.requests)


@pytest.mark.parametrize("id_flag", ["-Wl,--build-id=sha1", "-Wl,--build-id=none"], ids=["build-id", "no-build-id"])
@pytest.mark.parametrize("change", ["none", "replaced", "deleted"])
def test_program(tmp_path, change, id_flag):
    build(tmp_path / "one", tmp_path / "app", id_flag)
    build(tmp_path / "two", tmp_path / "app.new", id_flag, moved=MOVED)
    if change == "deleted":
        (tmp_path / "app.new").unlink()
        (tmp_path / "app").rename(tmp_path / "app.old")
        (tmp_path / "away").mkdir()
        got = run_and_replace(tmp_path, tmp_path / "app.old", tmp_path / "away/app", tmp_path / "app.old", {})
    else:
        got = run_and_replace(tmp_path, tmp_path / "app", tmp_path / "app", tmp_path / "app.new" if change == "replaced" else None, {})
    assert got and all(4 <= line <= 8 for line in got), got


@pytest.mark.parametrize("change", ["none", "replaced"])
def test_library(tmp_path, change):
    """The file that was loaded is not within reach: no lines, rather than those of the other build."""
    build(tmp_path / "one", tmp_path / "liblate.so", "-shared", "-fPIC", main=False)
    build(tmp_path / "two", tmp_path / "liblate.new", "-shared", "-fPIC", moved=MOVED, main=False)
    subprocess.run(["cc", "-g", "-O1", "-o", tmp_path / "app", tmp_path / "one/main.c", "-L" + str(tmp_path), "-llate"], check=True)
    got = run_and_replace(tmp_path, tmp_path / "app", tmp_path / "liblate.so", tmp_path / "liblate.new" if change == "replaced" else None,
                          {"LD_LIBRARY_PATH": str(tmp_path)})
    assert all(4 <= line <= 8 for line in got) if change == "none" else not any(line > MOVED for line in got), got
    assert got or change == "replaced"


@pytest.mark.parametrize("by", ["libwick", "agent"])
@pytest.mark.parametrize("id_flag", ["-Wl,--build-id=sha1", "-Wl,--build-id=none"], ids=["build-id", "no-build-id"])
def test_program_that_was_gone_when_it_started(tmp_path, by, id_flag):
    """The kernel calls such a program "app (deleted)". The service, the program and its mapping are "app"."""
    if by == "agent" and os.geteuid():
        pytest.skip("needs root")
    (tmp_path / "late.c").write_text(LATE)
    (tmp_path / "main.c").write_text(AGAIN)
    subprocess.run(["cc", "-g", "-O1", "-o", "app", "late.c", "main.c", id_flag], cwd=tmp_path, check=True)
    if by == "agent":
        subprocess.run([WICK, "record", "-F", "200", "-o", "out.json", "--", "./app"], cwd=tmp_path, check=True, capture_output=True, timeout=120)
        requests = [json_format.Parse((tmp_path / "out.json").read_text(), profiles_pb2.ProfilesData())]
    else:
        with Sink() as sink:
            subprocess.run([WICK, "run", "--export", f"http://127.0.0.1:{sink.port}", "--", "./app"], cwd=tmp_path, check=True, timeout=120)
        requests = sink.requests
    names = {a.value.string_value for r in requests for p in r.resource_profiles for a in p.resource.attributes if a.key == "service.name"}
    strings = {x for r in requests for x in r.dictionary.string_table}
    assert names - {"kernel"} == {"app"} and not any("(deleted)" in str(r) for r in requests)
    assert "late" in strings and str(tmp_path / "app") in strings, strings
