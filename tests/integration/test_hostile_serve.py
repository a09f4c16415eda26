# SPDX-License-Identifier: Apache-2.0
"""wick serve against senders and readers that mean harm. Runs the build with the sanitizers where there is one."""
import json
import os
import time

import pytest

from test_serve import WICK, Server, request

ASAN = os.environ.get("WICK_ASAN", WICK)


@pytest.fixture
def server(tmp_path):
    s = Server(tmp_path, wick=ASAN)
    yield s
    if s.p.poll() is None:
        s.stop()
    log = (tmp_path / "log").read_text()
    assert "AddressSanitizer" not in log and "runtime error" not in log, log


def test_values_of_any_size(server):
    """Sums and differences of these do not fit into 64 bits. What is stored is asked for again after a restart."""
    for i, value in enumerate((-2**63, 2**63 - 1, 2**63 - 1, -2**63, 5)):
        r = request([("main;a", value, True), ("main;b;a", value, False)], f"s{i % 2}")
        r.dictionary.string_table[r.resource_profiles[0].scope_profiles[0].profiles[0].sample_type.type_strindex] = "things"
        assert server.send(r)[0] == 200
    now = int(time.time() * 1000)
    body = json.dumps({"profileTypeID": "things:things:nanoseconds:things:nanoseconds", "labelSelector": "{}", "step": 15,
                       "start": now - 3600_000, "end": now + 1000}).encode()
    for _ in range(2):
        for method in ("SelectHeatmap", "SelectSeries", "SelectMergeStacktraces", "SelectMergeProfile"):
            status, answer = server.get("/querier.v1.QuerierService/" + method, data=body, headers={"Content-Type": "application/json"})
            assert status == 200, (method, answer)
        for path in ("flame", "top", "lines?function=a", "callers?function=a", "series", "leaks", "profiles", "spans", "symbols", "services"):
            status, answer = server.get(f"/api/v1/{path}{'&' if '?' in path else '?'}query=things")
            assert status in (200, 404), (path, answer)
        server.stop()
        server.start()
