# SPDX-License-Identifier: Apache-2.0
"""The archive of a release: what is in it, that two builds are equal, that install.sh installs it, and that it works on bare systems
of other releases than the one it was built on."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from release_tools import LIBC, ROOT, Bare, archive, need_root, unpack

pytestmark = pytest.mark.slow
SPIN = """
#include <stdlib.h>
#include <time.h>
#include <wick.h>
__attribute__((noinline)) double inner(double x, long n) { for (long i = 0; i < n; i++) x = x * 0.999 + i; return x; }
__attribute__((noinline)) double outer(double x) { return inner(x, 1000000) + 1; }
int main(int argc, char **argv)
{
    double x = wick_version()[0];
    for (time_t end = time(NULL) + atoi(argv[argc - 1]); time(NULL) < end;)
        x = outer(x);
    return x == 0;
}
"""
# A function of each library, which only its code can define.
MARKS = {"bzip2": "BZ2_bzDecompress", "elfutils": "dwfl_begin", "gcc": "__cxa_throw", "libbpf": "bpf_object__load", "libdeflate":
         "libdeflate_crc32", "libedit": "el_init", "libyaml": "yaml_parser_parse", "libzstd": "ZSTD_compress2", "ncurses": "tgetent",
         "nghttp2": "nghttp2_session_mem_recv", "openssl": "SSL_new", "re2": "_ZN3re23RE2C1EPKc",
         "sqlite3": "sqlite3_open_v2", "xz-utils": "lzma_code", "zlib": "inflate", "libbsd": "strnvis_openbsd"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("release"))


def spin(tree, to, *flags):
    """A program that uses libwick and runs wherever the release does."""
    source = to.with_suffix(".c")
    source.write_text(SPIN)
    subprocess.run(["gcc", "-g", "-O1", f"-I{tree}/include", source, "-o", to, f"-B{LIBC}/", f"-L{tree}/lib", f"-Wl,-rpath-link,{LIBC}", "-lwick", *flags], check=True)


def test_size(tree):
    assert archive().stat().st_size <= 14 << 20
    assert (tree / "bin/wick").stat().st_size <= 14 << 20


@pytest.mark.parametrize("path", ["bin/wick", "lib/libwick.so.1", "lib/wick/libwick-preload.so"])
def test_needs_libc_alone(tree, path):
    """As the loader of this system sees it: every object that it finds belongs to libc."""
    out = subprocess.run(["ldd", tree / path], capture_output=True, text=True, check=True).stdout
    objects = re.findall(r"=> (/\S+)", out)
    assert objects and "not found" not in out
    libc = {Path(f).name for f in subprocess.run(["dpkg", "-L", "libc6"], capture_output=True, text=True, check=True).stdout.split()}
    assert {Path(o).name for o in objects} <= libc


def test_content(tree):
    for path in ("lib/libwick.so", "include/wick.h", "lib/pkgconfig/wick.pc", "lib/cmake/wick/wick-config.cmake", "share/man/man1/wick-serve.1",
                 "share/bash-completion/completions/wick", "share/zsh/site-functions/_wick", "lib/systemd/system/wick.service",
                 "lib/systemd/system/wick-agent.service", "share/systemd/user/wick.service", "install.sh", "share/doc/wick/LICENSE"):
        assert (tree / path).exists(), path
    assert not [p for p in tree.rglob("*") if p.stat().st_mode & 0o022 and not p.is_symlink()]


def test_bill_of_materials(tree):
    """Each library whose code is in the program is listed with a version and a licence, and its licence text is there."""
    bill = json.loads((tree / "share/doc/wick/sbom.spdx.json").read_text())
    assert bill["spdxVersion"] == "SPDX-2.3"
    listed = {p["name"]: p for p in bill["packages"]}
    symbols = set(subprocess.run(["nm", tree / "bin/wick"], capture_output=True, text=True, check=True).stdout.split())
    for library, mark in MARKS.items():
        assert listed[library]["versionInfo"] and listed[library]["licenseConcluded"] != "NOASSERTION", library
    assert not set(MARKS.values()) - symbols
    lock = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    wanted = {k.removeprefix("node_modules/"): v["version"] for k, v in lock.items() if k and not v.get("dev")}
    assert wanted and {n: listed[n]["versionInfo"] for n in wanted} == wanted
    related = {r["relatedSpdxElement"] for r in bill["relationships"]}
    assert related == {p["SPDXID"] for p in bill["packages"]}
    texts = {p.name for p in (tree / "share/doc/wick/licenses").iterdir() if p.stat().st_size > 200}
    assert {n.strip("@").replace("/", "-") for n in listed if n != "wick"} == texts
    refs = {x for p in listed.values() for x in re.findall(r"LicenseRef-[\w-]+", p["licenseConcluded"])}
    assert refs == {x["licenseId"] for x in bill["hasExtractedLicensingInfos"]}


def test_reproducible(tmp_path):
    """The same tree in a folder of another name and depth, compiled without a cache, gives the same bytes."""
    other = tmp_path / "another/place with a longer name".replace(" ", "-")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    for name in names:
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, other / name, follow_symlinks=False)
    (other / ".cache").mkdir()
    for kept in ("ui", LIBC.parent.name):
        if (ROOT / ".cache" / kept).exists():
            shutil.copytree(ROOT / ".cache" / kept, other / ".cache" / kept, symlinks=True)
    here = hashlib.sha256(archive().read_bytes()).hexdigest()
    stamp = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    p = subprocess.run([other / "packaging/release"], cwd=other, capture_output=True, text=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": stamp, "CCACHE_DISABLE": "1", "UMASK": "077"}, preexec_fn=lambda: os.umask(0o077))
    assert p.returncode == 0, p.stderr[-3000:]
    made = other / "dist" / archive().name
    assert hashlib.sha256(made.read_bytes()).hexdigest() == here


# --- install.sh ---
def install(tree, *options, code=0, **env):
    p = subprocess.run([tree / "install.sh", *options], capture_output=True, text=True, env={**os.environ, **env})
    assert p.returncode == code, p.stdout + p.stderr
    return p.stdout + p.stderr


def files_below(path):
    return {str(p.relative_to(path)) for p in path.rglob("*") if not p.is_dir()}


def test_install_and_uninstall(tree, tmp_path):
    prefix = tmp_path / "opt/wick"
    assert f"below {prefix}" in install(tree, "--prefix", str(prefix))
    unit = (prefix / "lib/systemd/system/wick.service").read_text()
    assert f"ExecStart={prefix}/bin/wick serve" in unit and "/usr/local" not in unit
    listed = set((prefix / "lib/wick/manifest").read_text().split("\n")[:-1])
    assert listed == files_below(prefix)
    config = prefix / "etc/wick/wick.yaml"
    config.write_text("# mine\n")
    assert f"kept your {config}" in install(tree, "--prefix", str(prefix))  # an upgrade
    assert config.read_text() == "# mine\n"
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    subprocess.run([prefix / "bin/wick", "uninstall", "--purge"], check=True, capture_output=True, env=env)
    assert not files_below(prefix)


def test_install_for_a_user(tree, tmp_path):
    install(tree, "--user", HOME=str(tmp_path))
    prefix = tmp_path / ".local"
    assert f"ExecStart={prefix}/bin/wick serve" in (prefix / "share/systemd/user/wick.service").read_text()
    assert not (prefix / "lib/systemd").exists() and not (prefix / "etc").exists()
    assert subprocess.run([prefix / "bin/wick", "--version"], capture_output=True, text=True, check=True).stdout.startswith("wick ")


def test_install_refuses_what_was_changed(tree, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(tree, changed, symlinks=True)
    with open(changed / "bin/wick", "r+b") as f:
        f.seek(5000)
        f.write(b"\xcc")
    prefix = tmp_path / "prefix"
    out = install(changed, "--prefix", str(prefix), code=1)
    assert "bin/wick: FAILED" in out and "nothing was installed" in out and not prefix.exists()
    assert "unexpected argument" in install(tree, "--what", code=2)


@pytest.mark.parametrize("way", ["pkg-config", "cmake"])
def test_build_against(tree, tmp_path, way):
    """A program that finds the moved folder by pkg-config, or by CMake."""
    (tmp_path / "p.c").write_text(SPIN)
    if way == "pkg-config":
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "wick"], capture_output=True, text=True, check=True,
                               env={**os.environ, "PKG_CONFIG_PATH": str(tree / "lib/pkgconfig")}).stdout.split()
        subprocess.run(["gcc", tmp_path / "p.c", "-o", tmp_path / "p", *flags, f"-Wl,-rpath,{tree}/lib"], check=True)
    else:
        if not shutil.which("cmake"):
            pytest.skip("no cmake")
        (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(p C)\nfind_package(wick 0.1 REQUIRED)\n"
                                                 "add_executable(p p.c)\ntarget_link_libraries(p wick::wick)\n")
        subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={tree}"], check=True, capture_output=True)
        subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    assert str(tree) in subprocess.run(["ldd", tmp_path / "p"], capture_output=True, text=True).stdout
    subprocess.run([tmp_path / "p", "1"], check=True)


# --- other systems ---
SYSTEMS = ["debian:bullseye", "debian:bookworm", "debian:trixie", "ubuntu:jammy", "ubuntu:noble"]


@pytest.fixture(scope="module", params=SYSTEMS)
def bare(request, tree):
    need_root("debootstrap", "unshare")
    b = Bare(request.param)
    shutil.copytree(tree, b.work / "wick", symlinks=True)
    b.run("/work/wick/install.sh", "--prefix", "/work/opt")
    spin(tree, b.work / "spin", "-Wl,-rpath,/work/opt/lib")
    return b


def top_of(bare, file):
    return bare.run("/work/opt/bin/wick", "pprof", "-top", file)


def test_bare_run(bare):
    """A program is profiled from inside it, and its functions have names."""
    bare.run("/work/opt/bin/wick", "run", "-o", "/work/run.pb.gz", "--", "/work/spin", "2")
    assert re.search(r"^.* (9\d|100)(\.\d+)?% .* inner", top_of(bare, "/work/run.pb.gz"), re.M)


def test_bare_record(bare):
    """And from outside, by BPF."""
    bare.run("/work/opt/bin/wick", "record", "-o", "/work/record.pb.gz", "--", "/work/spin", "3")
    top = top_of(bare, "/work/record.pb.gz")
    assert re.search(r"^.* (9\d|100)(\.\d+)?% .* inner", top, re.M), top


def page_text(url):
    """What a person sees in Chromium."""
    out = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom", url],
                         capture_output=True, text=True, timeout=180).stdout
    return re.sub(r"<[^>]+>", " ", out)


def test_bare_serve(bare):
    """The server on its defaults samples the machine and answers: on the command line and in a browser."""
    log = open(bare.work / "log", "w")
    server = bare.start("/work/opt/bin/wick", "serve", "--store", "/work/store", "--http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0",
                        "--otlp-http", "127.0.0.1:0", stdout=subprocess.PIPE, stderr=log)
    program = None
    try:
        url = next(line for line in server.stdout if "http://" in line)
        url = re.search(r"http://127[\d.:]+", url)[0]
        program = bare.start("/work/spin", "600")
        named = url.replace("127.0.0.1", "localhost")  # there is no /etc/hosts
        for _ in range(90):
            top = bare.run("/work/opt/bin/wick", "query", "top", 'cpu{service.name="spin"}', "--server", named, code=None)
            if "inner" in top:
                break
            time.sleep(1)
        assert "inner" in top, (bare.work / "log").read_text()
        if shutil.which("chromium"):
            assert "spin" in page_text(url)
    finally:
        for p in (server, program):
            if p:
                p.terminate()
                p.wait(60)
        server.stdout.close()
        log.close()


def test_musl_programs(tree, tmp_path):
    """Programs of another libc are profiled by the agent."""
    need_root("musl-gcc")
    (tmp_path / "p.c").write_text(SPIN.replace("#include <wick.h>", "").replace("wick_version()[0]", "1"))
    subprocess.run(["musl-gcc", "-g", "-O1", "-fasynchronous-unwind-tables", tmp_path / "p.c", "-o", tmp_path / "p"], check=True)
    assert "musl" in subprocess.run(["readelf", "-l", tmp_path / "p"], capture_output=True, text=True).stdout
    subprocess.run([tree / "bin/wick", "record", "-o", tmp_path / "out.pb.gz", "--", tmp_path / "p", "3"], check=True, capture_output=True)
    out = subprocess.run([tree / "bin/wick", "pprof", "-traces", tmp_path / "out.pb.gz"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"inner\n\s+outer\n\s+main\n", out), out
