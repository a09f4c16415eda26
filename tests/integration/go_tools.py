# SPDX-License-Identifier: Apache-2.0
"""The Go toolchain's pprof, which most tests of pprof files have for an oracle, and servers that answer it."""
import atexit
import functools
import http.server
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

GO = shutil.which("go")
needs_go = pytest.mark.skipif(not GO, reason="no go: its pprof is the oracle")


@functools.cache
def pprof_command():
    """Its command, built once: `go tool pprof` first looks whether it must be built, which takes longer than most reports."""
    if not GO:
        pytest.skip("no go")
    place = tempfile.mkdtemp(prefix="wick-go-pprof-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    path = Path(place) / "pprof"
    built = subprocess.run([GO, "build", "-o", str(path), "cmd/pprof"], capture_output=True, cwd=place)
    return [str(path)] if built.returncode == 0 else [GO, "tool", "pprof"]


class Answering(http.server.BaseHTTPRequestHandler):
    """A handler with answer(), and without a word on stderr."""

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


@contextmanager
def serving(handler):
    """An HTTP server on a free port of loopback, for as long as the block lasts."""
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    s.address = f"127.0.0.1:{s.server_address[1]}"
    s.url = f"http://{s.address}"
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        yield s
    finally:
        s.shutdown()
        s.server_close()
