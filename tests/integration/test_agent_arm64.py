# SPDX-License-Identifier: Apache-2.0
"""The host agent for arm64: its BPF programs and all of its files compile without a warning. Rows: test_unwind.py."""
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_tools import ROOT
from wick_tools import BUILD

CC = "aarch64-linux-gnu-gcc"
AGENT = ROOT / "src/agent"
INCLUDE = "/usr/aarch64-linux-gnu/include"

pytestmark = pytest.mark.skipif(not shutil.which(CC), reason=f"{CC} is not installed")


@pytest.fixture(scope="module")
def bpf_object(tmp_path_factory):
    out = tmp_path_factory.mktemp("arm64") / "agent.bpf.o"
    p = subprocess.run(["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-D__TARGET_ARCH_arm64", "-D__aarch64__", f"-I{INCLUDE}",
                        f"-I{ROOT}/src", f"-I{BUILD}/src", "-c", AGENT / "bpf/agent.bpf.c", "-o", out], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return out


def test_bpf_programs(bpf_object):
    """What is read of the kernel is what an arm64 one has."""
    text = subprocess.run([ROOT / "tools/bpftool", "btf", "dump", "file", bpf_object], capture_output=True, text=True, check=True).stdout
    sections = subprocess.run(["readelf", "-SW", bpf_object], capture_output=True, text=True, check=True).stdout
    assert "tp_value" in text and "fsbase" not in text and "'user_pt_regs'" in text
    assert all(x in sections for x in ("perf_event", "tp_btf/sched_switch", "tp_btf/sched_process_fork"))


@pytest.mark.slow
def test_files(tmp_path, bpf_object):
    skeleton = subprocess.run([ROOT / "tools/bpftool", "gen", "skeleton", bpf_object, "name", "agent_bpf"], capture_output=True, text=True, check=True)
    (tmp_path / "agent_bpf.skel.h").write_text(skeleton.stdout)
    names = re.findall(r"'([^']+\.c)'", (AGENT / "meson.build").read_text())
    files = [AGENT / n for n in names] + [ROOT / "src/unwind" / n for n in ("remote.c", "table.c", "cfi.c", "elf_table.c")]
    flags = ["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-sign-compare",
             "-D_GNU_SOURCE", '-DWICK_VERSION="0"', f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{tmp_path}", "-idirafter", "/usr/include"]

    def compile_one(f):
        p = subprocess.run([CC, *flags, "-c", "-o", tmp_path / f"{f.parent.name}-{f.stem}.o", f], capture_output=True, text=True)
        return p.stderr if p.returncode else ""

    with ThreadPoolExecutor(2) as pool:
        wrong = [e for e in pool.map(compile_one, files) if e]
    assert len(files) > 30 and not wrong, "\n".join(wrong)
