# SPDX-License-Identifier: Apache-2.0
"""Every call of Grafana's data source and of Profiles Drilldown, answered field by field as Pyroscope answered it: its answers are recorded in
tests/data/pyroscope-calls.json, by test_record with the peer that tools/peers builds, where $WICK_RECORD is set."""
import json
import os
import time

import pytest

from pyroscope_calls import CALLS, call, fill
from pyroscope_peer import PYROSCOPE, Pyroscope
from wick_tools import ROOT, wait_for

RECORDED = ROOT / "tests/data/pyroscope-calls.json"
START = (time.time_ns() // 10**10 - 12) * 10**10 // 30 // 10**9 * 30 * 10**9  # a multiple of every step


@pytest.mark.slow
def test_record(tmp_path):
    if not (PYROSCOPE and os.environ.get("WICK_RECORD")):
        pytest.skip("WICK_RECORD is not set")
    peer = Pyroscope(tmp_path)
    try:
        fill(peer, START)
        wait_for(lambda: "bank" in json.dumps(call(peer, *CALLS[2][1:], START)), 60)
        wait_for(lambda: call(peer, "querier.v1.QuerierService/GetProfileStats", {}, START)[1], 120)
        answers = [[who, method, fields, *call(peer, method, fields, START)] for who, method, fields in CALLS]
    finally:
        peer.stop()
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(a, sort_keys=True) for a in answers) + "\n]\n")


def test_calls(server):
    recorded = json.loads(RECORDED.read_text())
    assert [tuple(r[:3]) for r in recorded] == [(w, m, json.loads(json.dumps(f))) for w, m, f in CALLS], "WICK_RECORD=1: record them again"
    fill(server, START)
    wrong = []
    for who, method, fields, status, want in recorded:
        got_status, got = call(server, method, fields, START)
        got = json.loads(json.dumps(got))
        if method.endswith("LabelNames"):  # wick lists attributes of samples, too
            got["names"] = [n for n in got["names"] if n in want["names"]]
        if (got_status, got) != (status, want):
            wrong.append(f"{who}: {method} {json.dumps(fields)}\n  want {status} {json.dumps(want, sort_keys=True)}\n  got  {got_status} {json.dumps(got, sort_keys=True)}")
    assert not wrong, "\n".join(wrong)
