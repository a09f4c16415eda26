# SPDX-License-Identifier: Apache-2.0
"""A password in a URL is never printed, and a token goes only to the server that it was given for."""
import http.server
import os
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WICK = os.environ.get("WICK", str(ROOT / "build/src/cli/wick"))
URL = "http://ann:hunter2@127.0.0.1:9"

MCP = """{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, \
"clientInfo": {"name": "x", "version": "1"}}}
{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "top", "arguments": {}}}
"""
COLLECTOR = """
receivers: {{pprof: {{endpoint: "{url}/heap", collection_interval: 1s}}, otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}}}}}}}
exporters: {{otlphttp: {{endpoint: "{url}"}}, otlp: {{endpoint: "{url}"}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{profiles: {{receivers: [otlp], exporters: [otlphttp, otlp]}}}}}}
"""


def run(*args, said="", **env):
    p = subprocess.run([WICK, *map(str, args)], capture_output=True, text=True, timeout=120, input=said, env={**os.environ, **env})
    return p.stdout + p.stderr


CASES = {
    "query": lambda t: run("query", "--server", URL, "top"),
    "symbols": lambda t: run("symbols", "upload", "--server", URL, "/bin/true"),
    "mcp": lambda t: run("mcp", "--server", URL, said=MCP),
    "agent": lambda t: run("agent", "--export", URL.replace("http", "ftp")),
    "agent_http": lambda t: run("agent", "--export", URL),
    "run": lambda t: run("run", "--export", URL, "--", "/bin/true"),
    "sdk": lambda t: run("run", "--", "/bin/true", OTEL_EXPORTER_OTLP_ENDPOINT=URL),
    "pprof": lambda t: run("pprof", "-top", URL + "/debug/pprof/heap"),
    "pprof_scheme": lambda t: run("pprof", "-top", URL.replace("http", "ftp")),
    "print-config": lambda t: run("collector", "print-config", "--config", t),
    "check-config": lambda t: run("collector", "check-config", "--config", t),
    "collector": lambda t: run("collector", "--config", t),
}


@pytest.mark.parametrize("what", CASES)
def test_passwords_are_not_printed(tmp_path, what):
    config = tmp_path / "c.yaml"
    config.write_text(COLLECTOR.format(url=URL))
    said = CASES[what](config)
    assert said and "hunter2" not in said, said


class Listener:
    """Notes what is asked of it; redirects, when it is told where."""

    def __init__(self, to=None):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers.get("authorization")))
                self.send_response(302 if to and self.path != "/there" else 404)
                if to:
                    self.send_header("location", to)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def test_tokens_stay_with_their_server():
    """`wick pprof` follows redirects: to the same server with the token, to another one without. Other clients do not follow."""
    with Listener() as other, Listener(other.url + "/caught") as first, Listener("/there") as same:
        run("pprof", "-top", first.url.replace("http", "wick") + "/shop", WICK_TOKEN="s3cret")
        run("pprof", "-top", same.url.replace("http", "wick") + "/shop", WICK_TOKEN="s3cret")
        run("query", "--server", first.url, "top", WICK_TOKEN="s3cret")
        run("symbols", "upload", "--server", first.url, "/bin/true", WICK_TOKEN="s3cret")
    assert first.asked and all(a == "Bearer s3cret" for _, a in first.asked)
    assert ("/there", "Bearer s3cret") in same.asked
    assert other.asked and all(a is None for _, a in other.asked), other.asked
