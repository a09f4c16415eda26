# SPDX-License-Identifier: Apache-2.0
"""Damage is reported in every answer: of two tenants, one has a segment with a flipped bit. Every question of that tenant is
answered from what is left and says so, in a header and where the format has a place for it; no answer of the other does."""
import gzip
import json
import time
import urllib.request

import pytest
from wick_tools import SHOP, Server, request, some, tokens_of

QUERY = "query=cpu&from=now-1d&to=now"
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
QUESTIONS = ["flame", "top", "callers", "lines", "symbols", "series", "coverage", "deploys", "profiles", "spans", "services", "labels",
             "labels/service.name/values"]
FORMATS = ["pprof", "otlp", "otlp-json", "folded", "speedscope", "html"]
METHODS = ["ProfileTypes", "LabelNames", "LabelValues", "Series", "SelectMergeStacktraces", "SelectMergeProfile", "SelectSeries",
           "Diff"]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A server and the tokens of the tenant with damage and of the one without."""
    d = tmp_path_factory.mktemp("damaged")
    tokens = tokens_of(d)
    s = Server(d)
    try:
        for t in some(tokens):
            for hours in (1, 5):
                assert s.send(request(SHOP, start=time.time_ns() - hours * 3600 * 10**9), t)[0] == 200
        assert s.stop()[0] == 0
        segments = sorted((d / "store/1/seg").glob("*.seg"))
        assert len(segments) == 2, segments
        data = bytearray(segments[0].read_bytes())
        data[-60] ^= 4  # of its footer, before the 40 bytes at the end
        segments[0].write_bytes(data)
        s.start()
        yield s, tokens
    finally:
        s.p.kill()
        s.p.wait()


def ask(s, path, token, body=None):
    q = urllib.request.Request(s.url + path, data=body, headers={"Authorization": "Bearer " + token})
    if body is not None:
        q.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(q, timeout=60) as r:
        return r.headers.get("wick-damage"), r.read()


def check(damaged, path, body=None):
    s, (bad, good) = damaged
    assert ask(s, path, good, body)[0] is None
    told, answer = ask(s, path, bad, body)
    assert told and "segment" in told and "damaged" in told, (path, answer[:200])
    return answer


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(damaged, name):
    answer = json.loads(check(damaged, f"/api/v1/{name}?{QUERY}&function=main"))
    if isinstance(answer, dict):
        assert answer["notes"]["damaged"] >= 1


@pytest.mark.parametrize("form", FORMATS)
def test_downloads(damaged, form):
    answer = check(damaged, f"/api/v1/profile?{QUERY}&format={form}")
    if form == "pprof":
        assert b"damaged pieces are missing" in gzip.decompress(answer)  # a comment


@pytest.mark.parametrize("method", METHODS)
def test_pyroscope(damaged, method):
    now = time.time_ns() // 10**6
    one = {"start": now - 86400000, "end": now, "profileTypeID": TYPE, "labelSelector": "{}"}
    body = {"Diff": {"left": one, "right": one}}.get(method, {**one, "name": "service_name", "step": 60})
    check(damaged, f"/querier.v1.QuerierService/{method}", json.dumps(body).encode())


@pytest.mark.parametrize("path", [f"render?query={TYPE}{{}}&from=now-1d&until=now", "label-values?label=service_name&from=now-1d",
                                  "labels?from=now-1d"])
def test_pyroscope_http(damaged, path):
    check(damaged, "/pyroscope/" + path)
