# SPDX-License-Identifier: Apache-2.0
"""src/sdk/ext.h: frames that are not native, in files and in exports."""
import subprocess

import pytest
from collector_peer import Sink
from go_tools import pprof_command
from sdk_tools import LIBWICK, ROOT, needs_go, top, traces

pytestmark = needs_go


@pytest.fixture(scope="module")
def ext_use(program):
    return program("ext_use", f"-I{ROOT}/include", f"-I{ROOT}/src", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")


def run(exe, *args):
    p = subprocess.run([exe, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert p.stdout == "fine\n", p.stdout + p.stderr


def pprof(path, *args):
    return subprocess.run([*pprof_command(), *args, str(path)], capture_output=True, text=True, check=True).stdout


def test_samples_with_named_frames(ext_use, tmp_path):
    run(ext_use, tmp_path / "o.pb.gz")
    wall = tmp_path / "o.wall.pb.gz"
    rows, _ = top(wall, "wall")
    assert rows["price"] == (50 * 1e6 + 50 * 2e6, 50 * 1e6 + 50 * 2e6) and rows["<module>"][1] == rows["price"][1], rows
    assert "shop.py:7" in pprof(wall, "-top", "-lines")
    tags = pprof(wall, "-tags", "-unit=ms")
    assert "worker-1" in tags and "thread.name" in tags and "ab" + "00" * 15 in tags and "cd" + "00" * 7 in tags
    focus = pprof(wall, "-top", "-unit=ms", "-tagfocus=thread.name=worker-1")
    assert "100ms" in focus, focus


def test_a_walker_merges_its_frames_with_native_ones(ext_use, tmp_path):
    run(ext_use, tmp_path / "o.pb.gz")
    cpu = [s for s in traces(tmp_path / "o.pb.gz") if s[0] == "tax"]
    assert any("evaluate" in s and "main" in s for s in cpu), cpu
    rows, total = top(tmp_path / "o.pb.gz")
    assert rows["tax"][0] > 0.4e9 and rows["evaluate"][1] > 0.4e9
    assert "shop.py:42" in pprof(tmp_path / "o.pb.gz", "-top", "-lines")  # named later
    tags = pprof(tmp_path / "o.pb.gz", "-tags")
    assert "11" * 16 in tags and "22" * 8 in tags and "t-7" in tags, tags


def test_what_a_walker_leaves_in_the_ring_is_no_record(ext_use, tmp_path):
    """The walker is at work most of the time, so that the ring is drained meanwhile. A record of garbage would be the last one."""
    p = subprocess.run([ext_use, tmp_path / "o.pb.gz", "scribble"], capture_output=True, text=True, timeout=60)
    assert p.stdout == "lost 0\n", p.stdout + p.stderr
    rows, total = top(tmp_path / "o.pb.gz")
    assert total > 2.7e9 and rows["tax"][0] > 0.95 * total, (rows, total)


def test_a_helper_is_in_no_profile(ext_use, tmp_path):
    """Its CPU time is the profiler's, its samples have their labels, and a process of which only it is left ends."""
    p = subprocess.run([ext_use, tmp_path / "o.pb.gz", "helper"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and int(p.stdout.split()[1]) > 0.9e9, p.stdout + p.stderr
    rows, _ = top(tmp_path / "o.wall.pb.gz", "wall")
    assert not {"evaluate", "help"} & rows.keys() and rows["<module>"][1] == 1e9 and rows["main"][1] > 0.5e9, rows
    assert "t1" in pprof(tmp_path / "o.wall.pb.gz", "-tags")
    assert not (tmp_path / "o.pb.gz").exists() or "evaluate" not in top(tmp_path / "o.pb.gz")[0]


def test_allocations_of_another_allocator(ext_use, tmp_path):
    run(ext_use, tmp_path / "o.pb.gz")
    rows, _ = top(tmp_path / "o.heap.pb.gz", "alloc_space")
    assert abs(rows["allocate"][1] / 20e6 - 1) < 0.15, rows
    rows, _ = top(tmp_path / "o.heap.pb.gz", "inuse_space")
    assert abs(rows["allocate"][1] / 1.024e6 - 1) < 0.5, rows


def test_exports_say_what_kind_of_frame_it_is(ext_use, tmp_path):
    with Sink() as sink:
        run(ext_use, tmp_path / "o.pb.gz", f"http://127.0.0.1:{sink.port}")
    kinds = {}
    for r in sink.requests:
        d = r.dictionary
        for l in d.location_table:
            for a in (d.attribute_table[i] for i in l.attribute_indices):
                if d.string_table[a.key_strindex] == "profile.frame.type" and l.lines:
                    f = d.function_table[l.lines[0].function_index]
                    kinds[d.string_table[f.name_strindex]] = (a.value.string_value, d.string_table[f.filename_strindex], l.lines[0].line)
    assert kinds["price"] == ("cpython", "shop.py", 7) and kinds["<module>"] == ("cpython", "shop.py", 40), kinds
    assert kinds["main"][0] == "native"
