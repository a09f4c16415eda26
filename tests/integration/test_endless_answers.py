# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a server which never ends its answer: they stop at a limit, say which, and hold no more memory than that."""
import http.server
import os
import re
import resource
import subprocess
import threading

import pytest
from wick_tools import WICK


class Endless(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        piece = b"[" * (4 << 20)
        try:
            while True:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        except OSError:
            pass


@pytest.fixture(scope="module")
def endless():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("words, most", [(["query", "top", "--server", "URL"], 64), (["query", "services", "--server", "URL"], 64),
                                         (["pprof", "-top", "URL/debug/pprof/heap"], 512)])
def test_endless_answers(endless, tmp_path, words, most):
    """The limit is in the message; a process that may have twice as much memory never needs it."""
    limit = (2 * most + 512) << 20
    p = subprocess.run([WICK, *(w.replace("URL", endless) for w in words)], capture_output=True, text=True, timeout=120,
                       env={**os.environ, "PPROF_TMPDIR": str(tmp_path)},
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert p.returncode in (1, 2) and re.search(rf"larger than {most << 20} bytes", p.stderr), p
