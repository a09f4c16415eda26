# SPDX-License-Identifier: Apache-2.0
"""libwick for arm64: compiles without a warning and links into two shared objects with the right access to thread-local data."""
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from sdk_tools import ROOT

CC = "aarch64-linux-gnu-gcc"
SDK = ROOT / "src/sdk"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which(CC), reason=f"{CC} is not installed")]


def sources(name):
    """A list of files in src/sdk/meson.build."""
    text = (SDK / "meson.build").read_text()
    return [(SDK / f).resolve() for f in re.findall(r"'([^']+\.c)'", re.search(rf"^{name} = files\((.*?)^\)", text, re.M | re.S).group(1))]


def preload_sources():
    text = re.search(r"shared_library\('wick-preload', (.*?)include_directories", (SDK / "meson.build").read_text(), re.S).group(1)
    return re.findall(r"'(\w+\.c)'", text)


@pytest.mark.parametrize("lib, own, tls", [("libwick.so", ["linked.c"], []),
                                           ("libwick-preload.so", preload_sources(), ["-ftls-model=initial-exec"])])
def test_compiles_and_links(tmp_path, lib, own, tls):
    files = sources("sdk_shared_sources") + sources("sdk_sources") + [SDK / f for f in own]
    flags = ["-std=gnu17", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers",
             "-Wno-sign-compare", "-D_GNU_SOURCE", '-DWICK_VERSION="0"', "-fvisibility=hidden", "-fomit-frame-pointer",
             f"-I{ROOT}/src", f"-I{ROOT}/include", "-idirafter", "/usr/include", *tls]  # zlib's and others' headers are the machine's own

    def compile_one(f):
        out = tmp_path / f"{f.parent.name}-{f.stem}.o"
        p = subprocess.run([CC, *flags, "-c", "-o", out, f], capture_output=True, text=True)
        assert p.returncode == 0, p.stderr
        return out

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, files))
    version = SDK / ("wick.map" if lib == "libwick.so" else "preload.map")
    subprocess.run([CC, "-shared", "-o", tmp_path / lib, *objects, f"-Wl,--version-script,{version}", "-lm"], check=True)
    undefined = subprocess.run(["nm", "-D", "--undefined-only", tmp_path / lib], capture_output=True, text=True).stdout
    assert not re.search(r" U (wick|signal_hooks|part_send|ending)_", undefined), undefined
    head = subprocess.run(["readelf", "-hrW", "--dyn-syms", tmp_path / lib], capture_output=True, text=True).stdout
    assert "AArch64" in head and re.search(r"TLS\s+GLOBAL\s+DEFAULT\s+\d+ otel_thread_ctx_v1", head)
    assert ("R_AARCH64_TLSDESC" in head) == (lib == "libwick.so") and ("R_AARCH64_TLS_TPREL" in head) == (lib != "libwick.so")
