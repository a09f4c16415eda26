# SPDX-License-Identifier: Apache-2.0
"""Labels span_id and trace_id of a scraped profile become links, as those of a pushed one do."""
import gzip
import urllib.parse

from go_tools import Answering, serving
from pyroscope_tools import pprof
from wick_tools import Server, wait_for

SPAN, TRACE = "00000bac2a5ab0c7", "000102030405060708090a0b0c0d0e0f"


class Program(Answering):
    def do_GET(self):
        if self.path.startswith("/debug/pprof/profile"):
            self.answer(200, gzip.compress(pprof([("samples", "count"), ("cpu", "nanoseconds")],
                                                 [("main;linked", [3, 30_000_000], {"span_id": SPAN, "trace_id": TRACE}), ("main;other", [1, 10_000_000], {})],
                                                 ("cpu", "nanoseconds", 10_000_000))))
        elif self.path.startswith("/debug/pprof/cmdline"):
            self.answer(200, b"/usr/bin/linked-program", {"Content-Type": "text/plain"})
        else:
            self.answer(404)


def test_labels_become_links(tmp_path):
    with serving(Program) as program:
        server = Server(tmp_path, "--no-agent", "--scrape", program.url, "--set", "receivers.pprof/scrape.interval=1s")
        try:
            query = urllib.parse.quote('cpu{service.name="linked-program"}')
            wait_for(lambda: server.json(f"/api/v1/top?query={query}")["total"], 60, why=lambda: (tmp_path / "log").read_text())
            total = server.json(f"/api/v1/top?query={query}&trace_id={TRACE}&span_id={SPAN}")
            assert total["total"] and total["total"] % 30_000_000 == 0 and {r["name"] for r in total["rows"]} == {"main", "linked"}
        finally:
            server.stop()
