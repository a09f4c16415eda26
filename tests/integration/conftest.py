# SPDX-License-Identifier: Apache-2.0
"""What all tests share: which of them may run side by side, and the age of the Go that is their oracle.

wick pprof follows the pprof of today's Go. The one in a distribution may be years older (Debian 12 has Go 1.19) and says
some things differently, so that it can be no oracle: those tests are then skipped, with that reason.
"""
import os
import re
import shutil
import subprocess

import pytest

from agent_tools import shop  # noqa: F401  (fixtures of all tests)
from go_tools import pprof_command
from sdk_tools import program  # noqa: F401
from wick_tools import server  # noqa: F401

# Tests that give a program a HOME of its own leave it the caches of fonts and of Go, which take a minute to make anew.
os.environ.setdefault("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
os.environ.setdefault("WICK_NO_AGENT", "1")  # servers under test hold what the test sends; test_agent.py turns it on


scopes, made = [], []  # of the fixtures that are being set up, innermost last; (directory, scope) that fixtures made


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    scopes.append(fixturedef.scope)
    try:
        return (yield)
    finally:
        scopes.pop()


@pytest.fixture(autouse=True, scope="session")
def enterable_tmp_paths(tmp_path_factory):
    """A server that is started as root becomes another user, which must reach files that a test names for it."""
    make = tmp_path_factory.mktemp

    def mktemp(*args, **kw):
        path = make(*args, **kw)
        path.chmod(0o755)
        made.append((path, scopes[-1] if scopes else "session"))  # the hook above does not see fixtures of the session
        return path

    tmp_path_factory.mktemp = mktemp


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """What a module made is removed after its last test, unless one of its tests failed: stores of a whole run fill a disk."""
    result = yield
    failed = item.session.testsfailed
    if nextitem is None or nextitem.path != item.path:
        kept = {"session"} if nextitem is not None else set()  # by scope
        if failed == getattr(item.session, "failed_before", 0):
            for path, _ in [m for m in made if m[1] not in kept]:
                shutil.rmtree(path, ignore_errors=True)
        made[:] = [m for m in made if m[1] in kept]
        item.session.failed_before = failed
    return result


@pytest.fixture(scope="session")
def go_pprof():
    return pprof_command()


GO_WANTED = 25  # 1.25
ORACLES = [  # (file, names; all when empty)
    ("test_pprof_live.py", ()),
    ("test_pprof_http.py", ("test_status_and_words", "test_top_table", "test_peek_text", "test_source_listing", "test_graph")),
    ("test_pprof_source.py", ()),
    ("test_pprof_sources.py", ("test_svg_as_go",)),
    ("test_pprof_symbolz.py", ()),
    ("test_convert.py", ("test_go_profiles",)),
    ("test_symbols.py", ("test_frames_equal_llvm[go]", "test_stripped_go")),  # inlined calls: as of Go 1.20
]


# Modules that measure neither time nor memory and do not look at other processes of the machine: tests/run runs them on
# all cores at once. Every other module has the machine to itself.
TOGETHER = set("""
agent_arm64 alerts openapi cli collector_components collector_peer convert damage_reported demangle diff_gate drift export_url extremes files flows go hardening
hostile_names names_are_text howto html k8s_attributes labels manual otlp pprof_golden pprof_http pprof_live pprof_source pprof_sources
pprof_symbolz pyroscope pyroscope_rules cold pyroscope_calls pyroscope_clients pyroscope_kept query_text rights scrape_links sdk_arm64
sdk_cpython sdk_replaced secrets senders serve_symbols snapshot endless_answers end_in_time state_files store symbols token_env traces ui ui_api ui_assets unwind
""".split())


def go_minor():
    if not shutil.which("go"):
        return None
    m = re.search(r"go1\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True).stdout)
    return int(m.group(1)) if m else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in ("test_sdk_cpython", "test_ui"))  # the longest that run side by side begin first
    for item in items:
        if item.path.stem.removeprefix("test_") in TOGETHER:
            item.add_marker(pytest.mark.together)
    minor = go_minor()
    if minor is None or minor >= GO_WANTED:  # without Go the tests say so themselves
        return
    old = pytest.mark.skip(reason=f"Go 1.{minor} is too old to be the oracle; 1.{GO_WANTED} or later is")
    for item in items:
        for file, names in ORACLES:
            if item.path.name == file and (not names or item.name in names or item.originalname in names):
                item.add_marker(old)
