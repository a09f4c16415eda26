# SPDX-License-Identifier: Apache-2.0
"""Drift and deploy verdicts: profiles of instances whose shares are known are sent, and what wick reports is compared with them. All
samples are drawn with fixed seeds."""
import json
import re
import subprocess
import time
import urllib.parse

import pytest
from drift_tools import MINUTE, SECOND, instance, minute_ago, query, send, shares
from engine_places import place_of
from ui_data import Request
from wick_tools import WICK, Server, some

FIELDS = {"function", "before", "now", "points", "cores", "p", "significant"}


def ranges(start, base, now):
    """--from … of a baseline of so many minutes and the minutes after it."""
    at = start + base * MINUTE
    return ["--from", str(at), "--to", str(at + now * MINUTE), "--baseline-from", str(start), "--baseline-to", str(at)]


def significant(answer):
    return {r["function"]: r["points"] for r in answer["drift"] if r["significant"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("drift"), WICK_NO_AGENT="1")
    yield s
    s.stop()


def test_two_points(server):
    start = minute_ago(60)
    send(server, "two", start, 30, shares())
    send(server, "two", start + 30 * MINUTE, 10, shares(encode=0.12))
    words = ["drift", 'cpu{service.name="two"}', *ranges(start, 30, 10)]
    answer = query(server, *words)
    rows = {r["function"]: r for r in answer["drift"]}
    assert all(FIELDS <= set(r) for r in some(answer["drift"]))
    assert answer["instances"] == 5 and answer["windows"] == 40
    assert 0 < answer["minimum_detectable_points"] < 2
    assert {"encode"} <= significant(answer).keys() <= {"encode", "handle"}, answer["drift"]  # handle calls encode: +1.2 points
    row = rows["encode"]
    assert abs(row["before"] - 0.10) < 0.006 and abs(row["now"] - 0.12) < 0.009
    assert abs(row["points"] - 100 * (row["now"] - row["before"])) < 1e-6 and row["p"] < 0.01
    assert row["low"] < 2 < row["high"] and row["low"] > 0
    assert abs(row["cores"] - 5 * 0.02) < 0.06  # five cores
    assert rows["main"]["before"] == 1 and not rows["main"]["significant"]
    assert [abs(r["points"]) for r in answer["drift"]] == sorted((abs(r["points"]) for r in answer["drift"]), reverse=True)
    # the same over HTTP and MCP, and as text
    parameters = dict(zip((w.lstrip("-").replace("-", "_") for w in words[2::2]), words[3::2]), query=words[1])
    assert server.json("/api/v1/drift?" + urllib.parse.urlencode(parameters)) == answer
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drift", "arguments": parameters}}
    status, body = server.get("/mcp", data=json.dumps(call).encode(), headers={"Content-Type": "application/json"})
    assert status == 200 and json.loads(json.loads(body)["result"]["content"][0]["text"]) == answer
    text = subprocess.run([WICK, "query", *words, "--server", server.url], capture_output=True, text=True, timeout=60)
    assert text.returncode == 0 and text.stdout.splitlines()[0].split()[:3] == ["BEFORE", "NOW", "POINTS"]
    assert f"{len(significant(answer))} of " in text.stdout and "changed significantly" in text.stdout
    default = query(server, *words[:2], "--from", words[3], "--to", words[5])  # the baseline is the ten minutes before
    assert default["windows"] == 20 and "encode" in significant(default)
    # self shares: the caller of a function that grew has not changed
    own = query(server, *words, "--share", "self")
    assert significant(own).keys() == {"encode"} and "handle" not in {r["function"] for r in own["drift"]}


def test_nothing_changed(server):
    start = minute_ago(60)
    send(server, "still", start, 40, shares())
    answer = query(server, "drift", 'cpu{service.name="still"}', *ranges(start, 30, 10))
    assert significant(answer) == {} and len(answer["drift"]) >= 8
    assert all(r["p"] > 0.01 or abs(r["points"]) < 2 for r in answer["drift"])


def test_rate_and_load(server):
    """Another sampling rate and three times the load are no drift."""
    start = minute_ago(60)
    send(server, "rate", start, 30, shares())
    send(server, "rate", start + 30 * MINUTE, 10, shares(), rate=97, cores=3.0)
    answer = query(server, "drift", 'cpu{service.name="rate"}', *ranges(start, 30, 10))
    assert significant(answer) == {}
    assert 2.5 < answer["cores"][1] / answer["cores"][0] < 3.5


@pytest.mark.parametrize("engine", ["segment", "memory", pytest.param("clickhouse", marks=pytest.mark.slow)])
def test_number_of_samples(tmp_path, engine):
    """Sources with different rates: value times mean rate is the number of samples that were sent, not one by the lowest rate."""
    with place_of(engine, tmp_path) as options:
        check_number_of_samples(Server(tmp_path, *options))


def check_number_of_samples(server):
    start = minute_ago(60)
    try:
        sent = 0
        for name, rate, cores in (("busy", 97, 3.0), ("idle", 7, 0.1)):
            request = instance(name, start, 20, shares(), rate=rate, cores=cores)
            sent += sum(sum(s.values) // p.period for p in request.resource_profiles[0].scope_profiles[0].profiles for s in p.samples)
            assert server.send(request)[0] == 200
        times = ("--from", str(start // SECOND), "--to", str(start // SECOND + 1200))
        answer = query(server, "top", "cpu", *times)
        assert answer["rate"] == [7, 97] and abs(answer["total"] / 1e9 * answer["meanRate"] / sent - 1) < 0.002, answer
        assert "meanRate" not in query(server, "top", 'cpu{service.name="busy"}', *times)
        both = query(server, "top", 'cpu{service.name="busy"}', *times, "--base-query", 'cpu{service.name="idle"}', "--base-from", times[1], "--base-to", times[3])
        assert 6.9 < both["meanRate"] < 7.2, both["meanRate"]  # of two selections, the one that is less certain
    finally:
        server.stop()


def test_symbols_arrive(server):
    """Frames of a binary without symbols get names: the functions that appear are no drift."""
    start = minute_ago(60)
    nameless = {"encode": 0x1000, "parse": 0x2000}
    send(server, "symbols", start, 30, shares(), frames=nameless)
    send(server, "symbols", start + 30 * MINUTE, 10, shares())
    answer = query(server, "drift", 'cpu{service.name="symbols"}', *ranges(start, 30, 10))
    assert significant(answer) == {}, answer["drift"]


def test_one_host(server):
    """A drift of one host of five: the label is named."""
    start = minute_ago(60)
    send(server, "host", start, 30, shares())
    send(server, "host", start + 30 * MINUTE, 10, lambda i: shares(encode=0.30) if i == 3 else shares())
    answer = query(server, "drift", 'cpu{service.name="host"}', *ranges(start, 30, 10))
    row = next(r for r in answer["drift"] if r["function"] == "encode")
    assert row["significant"] and abs(row["points"] - 4) < 1.2
    assert row["label"]["value"] == "host-3" and row["label"]["explains"] > 0.8  # the name of the host and of the instance


def test_long_ranges(server):
    """A day against a day: read from the sums of the store."""
    start = minute_ago(48 * 60)
    for i in range(3):
        for day, of in ((0, shares()), (1, shares(parse=0.24))):
            assert server.send(instance("day", start + day * 1440 * MINUTE, 1440, of, i, rate=1))[0] == 200
    answer = query(server, "drift", 'cpu{service.name="day"}', *ranges(start, 1440, 1440))
    assert "parse" in significant(answer) and abs(significant(answer)["parse"] - 4) < 0.5
    assert answer["instances"] == 3 and 48 <= answer["windows"] <= 144


def test_refused(server):
    start = str(minute_ago(10))
    for words, message in ((["drift", "cpu", "--baseline-from", "x"], "baseline"),
                           (["drift", "cpu", "--baseline-from", start, "--min-points", "-1"], "min_points"),
                           (["drift", "cpu", "--baseline-from", start, "--share", "half"], "share")):
        p = subprocess.run([WICK, "query", *words, "--server", server.url], capture_output=True, text=True, timeout=60)
        assert p.returncode == 2 and message in p.stderr, p.stderr
    answer = query(server, "drift", 'cpu{service.name="nobody"}', "--baseline-from", "now-2h", "--baseline-to", "now-1h", status=4)
    assert answer["drift"] == [] and answer["windows"] == 0 and answer["instances"] == 0


@pytest.mark.parametrize("engine", ["memory"])
def test_engine(tmp_path, engine):
    """An engine without an operation of its own gives the same shares."""
    s = Server(tmp_path, "--set", f"store.engine={engine}", WICK_NO_AGENT="1")
    try:
        start = minute_ago(40)
        send(s, "two", start, 10, shares())
        send(s, "two", start + 10 * MINUTE, 10, shares(encode=0.14))
        answer = query(s, "drift", 'cpu{service.name="two"}', *ranges(start, 10, 10))
        assert "encode" in significant(answer) and answer["instances"] == 5 and answer["windows"] == 20
    finally:
        s.stop()


# --- verdicts ---

def test_worse_and_rollback(server, tmp_path):
    start = minute_ago(60)
    send(server, "deploy", start, 20, shares(), version="1.0")
    send(server, "deploy", start + 20 * MINUTE, 15, shares(encode=0.16), version="1.1")
    answer = query(server, "verdict", "deploy")
    assert answer["verdict"] == "worse" and answer["version"] == "1.1" and answer["previous"] == "1.0"
    assert answer["deployed"] == str(start + 20 * MINUTE) and answer["compared"] == "before" and not answer["rollback"]
    assert answer["normalised"] == "cpu-second" and significant(answer)["encode"] > 4
    assert "encode" in answer["sentence"] and "deploy 1.0 → 1.1: worse" in answer["sentence"]
    assert 0.02 < answer["cost_change"] < 0.13  # 6 points more: 6.4 % to 7.1 % more work
    assert all(FIELDS <= set(r) for r in some(answer["drift"])) and answer["instances"] == 10
    assert query(server, "verdict", 'cpu{service.name="deploy"}') == answer
    assert server.json("/api/v1/verdict?service=deploy")["verdict"] == "worse"
    query(server, "verdict", "deploy", "--html", str(tmp_path / "verdict.html"))
    page = (tmp_path / "verdict.html").read_text()
    assert "deploy 1.0 → 1.1: worse" in page and '"encode"' in page and "http://127" not in page
    send(server, "deploy", start + 35 * MINUTE, 15, shares(), version="1.0")
    answer = query(server, "verdict", "deploy")
    assert answer["verdict"] == "better" and answer["version"] == "1.0" and answer["previous"] == "1.1" and answer["rollback"]
    answer = query(server, "verdict", "deploy", "--version", "1.1")
    assert answer["verdict"] == "worse" and answer["version"] == "1.1"


def test_same_and_canary(server):
    """Two versions side by side on different instances, with nothing changed."""
    start = minute_ago(40)
    send(server, "canary", start, 30, shares(), version="a")
    for i in range(5, 10):
        assert server.send(instance("canary", start + 10 * MINUTE, 20, shares(), i, version="b"))[0] == 200
    answer = query(server, "verdict", "canary")
    assert answer["verdict"] == "same" and answer["compared"] == "overlap" and answer["version"] == "b"
    assert answer["from"] == answer["baseline_from"]


def test_deploy_soon_after_the_start(server):
    """Both versions begin in the same five minutes, which is how finely runs are looked for first."""
    start = (time.time_ns() // (5 * MINUTE) - 6) * 5 * MINUTE
    send(server, "hasty", start + 10 * SECOND, 2, shares(), version="1")
    send(server, "hasty", start + 2 * MINUTE + 30 * SECOND, 2, shares(encode=0.5), version="2")
    answer = query(server, "verdict", "hasty")
    assert (answer["version"], answer["previous"]) == ("2", "1"), answer["sentence"]


def test_not_enough(server):
    start = minute_ago(30)
    send(server, "young", start, 10, shares(), version="1")
    answer = query(server, "verdict", "young")
    assert answer["verdict"] == "not enough data" and answer["previous"] == "" and answer["drift"] == []
    send(server, "young", start + 10 * MINUTE, 1, shares(), version="2")
    answer = query(server, "verdict", "young")
    assert answer["verdict"] == "not enough data" and answer["previous"] == "1" and answer["version"] == "2"
    assert query(server, "verdict", "nobody", status=4)["verdict"] == "not enough data"
    p = subprocess.run([WICK, "query", "verdict", "--server", server.url], capture_output=True, text=True, timeout=60)
    assert p.returncode == 2 and "service is required" in p.stderr


def minutes_of(server, service, start, minutes, of, version, instances=1):
    """Exact profiles without any noise; of: {stack: cores}."""
    for i in range(instances):
        r = Request(service, version, f"host-{i}")
        for k in range(minutes):
            r.profile("cpu", "nanoseconds", start + k * MINUTE, [(s.split(";"), int(v * MINUTE)) for s, v in of.items()], MINUTE)
        assert server.send(r.done())[0] == 200


@pytest.mark.parametrize("name, before, now, verdict, words", [
    # parse costs more, work what it did: the total rises by 23 %
    ("few", {"main;parse": 0.2, "main;work": 0.8}, {"main;parse": 0.43, "main;work": 0.8}, "worse", "parse +"),
    ("fewer", {"main;parse": 0.43, "main;work": 0.8}, {"main;parse": 0.2, "main;work": 0.8}, "better", "parse -"),
    # a caller has another name: nothing else changed
    ("renamed", {"main;old;" + c: 0.1 for c in "abcdefgh"}, {"main;new;" + c: 0.1 for c in "abcdefgh"}, "same", ""),
    # the same with a regression
    ("both", {"main;old;" + c: 0.1 for c in "abcdefgh"}, {"main;new;" + c: 0.1 + 0.2 * (c == "d") for c in "abcdefgh"}, "worse", "d +"),
    # one function of a third becomes cheap; the load doubles: better, although the total rises, and it says why
    ("loaded", {"main;big": 0.3, **{"main;" + c: 0.1 for c in "abcdef"}},
     {"main;big": 0.2, **{"main;" + c: 0.2 for c in "abcdef"}}, "better", "big -"),
])
def test_verdict_agrees_with_the_total(server, name, before, now, verdict, words):
    """Profiles without noise, so that only the rule decides. Known mistakes of earlier rules: "better" while parse grew and everything
    else stayed; "better: old -100 points" for a new name."""
    start = minute_ago(40)
    minutes_of(server, name, start, 15, before, "1")
    minutes_of(server, name, start + 15 * MINUTE, 15, now, "2")
    answer = query(server, "verdict", name)
    total = sum(now.values()) / sum(before.values()) - 1
    assert answer["verdict"] == verdict, answer["sentence"]
    assert words in answer["sentence"] and "(normalised per CPU-second)" in answer["sentence"]
    assert abs(answer["total_change"] - total) < 0.02
    against = verdict == "better" and total > 0.02 or verdict == "worse" and total < -0.02
    assert ("the whole uses" in answer["sentence"]) == against, answer["sentence"]


# --- what is a deploy ---

ID = {name: f"{k:040x}" for k, name in enumerate(["c-1", "c-2", "perl", "ruby", "php", "wrapper"], 0xabc0)}


def program(server, service, start, minutes, of, exe, build_id, version="", step=MINUTE, seconds=60):
    """Profiles of a program as the agent sends them: a path, a build ID, and a version where one is set."""
    r = Request(service, version, "host-1")
    for key, value in (("process.executable.path", exe), ("process.executable.build_id.gnu", build_id), ("process.pid", 77)):
        a = r.r.resource_profiles[0].resource.attributes.add(key=key)
        if isinstance(value, int):
            a.value.int_value = value
        else:
            a.value.string_value = value
    for k in range(int(minutes * MINUTE // step)):
        r.profile("cpu", "nanoseconds", start + k * step, [(s.split(";"), int(v * seconds * SECOND)) for s, v in of.items()], int(seconds * SECOND))
    status, body = server.send(r.done())
    assert status == 200, body


WORK, SLOW = {"main;work": 0.3, "main;sort": 0.2, "main;read": 0.1}, {"main;work": 0.6, "main;sort": 0.2, "main;read": 0.1}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """What was seen on real hosts, side by side with one real regression and one cheap one."""
    s = Server(tmp_path_factory.mktemp("deploys"), "--no-agent")
    start = minute_ago(60)
    then = start + 20 * MINUTE
    program(s, "pgbench", start, 18, {"main;run;eval": 0.1}, "/usr/bin/perl", ID["perl"])  # the wrapper, then what it starts
    program(s, "pgbench", then, 18, {"main;doCustom;send": 0.5}, "/usr/lib/postgresql/15/bin/pgbench", ID["c-1"])
    program(s, "b", start, 18, {"main;ruby_run;each": 0.5}, "/usr/bin/ruby3.1", ID["ruby"])  # two scripts of one name
    program(s, "b", then, 18, {"main;php_execute;loop": 0.8}, "/usr/bin/php8.2", ID["php"])
    program(s, "job.py", start, 18, WORK, "/usr/bin/python3.11", ID["c-1"])  # an update of the interpreter
    program(s, "job.py", then, 18, SLOW, "/usr/bin/python3.11", ID["c-2"])
    program(s, "two", start, 18, WORK, "/opt/a/two", ID["c-1"])  # other programs of the same name
    program(s, "two", then, 18, SLOW, "/home/b/two", ID["c-2"])
    program(s, "once", start, 1, WORK, "/opt/once", ID["c-1"], "1.5.0", seconds=5)  # a profile a side
    program(s, "once", then, 1, SLOW, "/opt/once", ID["c-2"], "1.6.0", seconds=5)
    program(s, "five", start, 1 / 12, WORK, "/opt/five", ID["c-1"], "1.5.0", step=SECOND // 2, seconds=0.5)  # five seconds
    program(s, "five", then, 1 / 12, SLOW, "/opt/five", ID["c-2"], "1.6.0", step=SECOND // 2, seconds=0.5)
    program(s, "idle", start, 18, {"main;[truncated]": 0.0002}, "/opt/idle", ID["c-1"], "1.5.0")  # two stacks a side, of much time
    program(s, "idle", then, 0.5, {"main;poll": 0.02, "[truncated]": 0.02}, "/opt/idle", ID["c-2"], "1.6.0", step=10 * SECOND, seconds=10)
    program(s, "server", start, 18, {k: v / 10 for k, v in WORK.items()}, "/srv/releases/1/bin/server", ID["c-1"])  # a deploy: the same program
    program(s, "server", then, 18, {k: v / 10 for k, v in SLOW.items()}, "/srv/releases/2/bin/server", ID["c-2"])
    program(s, "shop", start, 18, WORK, "/opt/shop", ID["c-1"], "1.5.0")
    program(s, "shop", then, 18, SLOW, "/opt/shop", ID["c-2"], "1.6.0")
    program(s, "saved", start, 18, {k: v / 2 for k, v in SLOW.items()}, "/opt/saved", ID["c-1"], "7")
    program(s, "saved", then, 18, {k: v / 2 for k, v in WORK.items()}, "/opt/saved", ID["c-2"], "8")
    yield s
    s.stop()


@pytest.mark.parametrize("service, why", [
    ("pgbench", "those of other programs"), ("b", "build ID of an interpreter"), ("job.py", "build ID of an interpreter"), ("two", "those of other programs"),
    ("once", "5 s of this one were profiled; 60 s of both are required"), ("five", "5 s of this one were profiled"),
    ("idle", "30 s of this one were profiled")])
def test_no_deploy(shop, service, why):
    """Two programs, a wrapper, an interpreter, and a few seconds are not a service that got another version."""
    answer = query(shop, "verdict", service, "--from", "now-2h")
    assert answer["verdict"] == "not enough data" and why in answer["sentence"], answer["sentence"]
    assert "headline" not in answer and "cause" not in answer
    deploys = [d for d in query(shop, "deploys", "cpu", "--from", "now-2h")["deploys"] if d["service"] == service]
    assert len(deploys) == 2 and [d["deployed"] for d in deploys] == [False, service in ("once", "five", "idle")]


def test_verdicts(shop):
    """One question for Home: only what is worse or better, the most expensive first, and all of a card from one computation."""
    answer = query(shop, "verdicts", "cpu", "--from", "now-2h", "--limit", "10")
    got = {v["service"]: v for v in answer["verdicts"]}
    assert list(got) == ["shop", "saved", "server"] and answer["count"] == 3 and answer["undecided"] == 3
    v = got["shop"]
    assert v["verdict"] == "worse" and v["headline"] == "costs 50 % more CPU for the same work" and abs(v["cores_change"] - 0.3) < 1e-6
    assert v["cost_low"] <= v["cost_change"] <= v["cost_high"] and v["cost_low"] > 0 and abs(v["cost_change"] - 0.5) < 1e-6
    assert (v["cause"]["function"], v["version"], v["previous"]) == ("work", "1.6.0", "1.5.0")
    assert got["saved"]["verdict"] == "better" and got["saved"]["headline"] == "costs 33 % less CPU for the same work" and got["saved"]["cost_high"] < 0
    assert abs(got["saved"]["cores_change"] + 0.15) < 1e-6 and got["server"]["previous"] == ID["c-1"]
    assert [x["service"] for x in query(shop, "verdicts", "cpu", "--from", "now-2h", "--limit", "1")["verdicts"]] == ["shop"]
    alone = query(shop, "verdict", "shop", "--from", "now-2h")
    assert {k: alone[k] for k in v} == v, "one test decides everywhere"
    text = subprocess.run([WICK, "query", "verdicts", "cpu", "--from", "now-2h", "--server", shop.url], capture_output=True, text=True)
    assert text.returncode == 0 and text.stdout.startswith("shop 1.5.0 → 1.6.0: worse: work +"), text.stdout


@pytest.mark.parametrize("minutes, verdict", [(2, "worse"), (1, "worse"), (0.9, "not enough data")])
def test_least_that_is_judged(server, minutes, verdict):
    """A minute of profiles of each version, at its limit."""
    start, name = minute_ago(30), f"brief-{minutes}"
    program(server, name, start, 10, WORK, "/opt/x", ID["c-1"], "1")
    program(server, name, start + 10 * MINUTE, minutes, SLOW, "/opt/x", ID["c-2"], "2", step=6 * SECOND, seconds=6)
    assert query(server, "verdict", name)["verdict"] == verdict


def test_same_needs_a_test(server):
    """A request costs 3 % more on average and varies by a tenth: within 5 % is not shown, so it is not "same"."""
    start = minute_ago(60)
    for name, spread, verdict in (("steady", 0.005, "same"), ("shaky", 0.1, "not enough data")):
        for version, at, cost in (("1", 0, 1.0), ("2", 15, 1.01)):
            r = Request(name, version, "host-1")
            for k in range(15):
                v = cost * (1 + spread * (-1) ** k)
                r.profile("cpu", "nanoseconds", start + (at + k) * MINUTE, [(s.split(";"), int(v * w * MINUTE)) for s, w in WORK.items()], MINUTE)
            assert server.send(r.done())[0] == 200
            requests(server, name, start + at * MINUTE, 15, {"GET /": 60}, version)
        answer = query(server, "verdict", name)
        assert answer["normalised"] == "request" and abs(answer["cost_change"] - 0.01) < 0.01
        assert answer["verdict"] == verdict, answer["sentence"]
        assert (-0.05 < answer["cost_low"] and answer["cost_high"] < 0.05) == (verdict == "same")


# --- with traces ---

def requests(server, service, start, minutes, of, version="1.0"):
    """of: {name of a span: requests a minute}. Each takes 10 ms."""
    spans = [{"traceId": "%032x" % (start + k * 1000 + i + 1), "spanId": "%016x" % (start + k * 1000 + i + 1), "name": name, "kind": 2,
              "startTimeUnixNano": str(start + k * MINUTE + i * 50_000_000), "endTimeUnixNano": str(start + k * MINUTE + i * 50_000_000 + 10_000_000)}
             for k in range(minutes) for i, name in enumerate(n for n, count in of.items() for _ in range(count))]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}, {"key": "service.version", "value": {"stringValue": version}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    status, answer = server.get("/v1/traces", data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, base=server.http)
    assert status == 200, answer


def test_per_request(server):
    """The new version does the same work for half of the requests: worse, although only the cost per request tells. 14 minutes are compared."""
    start = minute_ago(60)
    send(server, "asked", start, 15, shares(), instances=2, version="1")
    send(server, "asked", start + 15 * MINUTE, 15, shares(), instances=2, version="2")
    requests(server, "asked", start, 15, {"GET /": 60}, "1")
    requests(server, "asked", start + 15 * MINUTE, 15, {"GET /": 30}, "2")
    answer = query(server, "verdict", "asked")
    assert answer["verdict"] == "worse" and answer["normalised"] == "request", answer["sentence"]
    assert abs(answer["cost_change"] - 1) < 0.15 and answer["requests"][0] == 840 and answer["cost_p"] < 0.01
    assert "a request costs +" in answer["sentence"]


def test_cost_that_may_be_noise(server):
    """A request costs twice as much, but varies as much, too: that is not "same", whatever the shares say."""
    start = minute_ago(60)
    for version, values, at in (("1", (1, 9), 0), ("2", (1, 20), 15)):
        r = Request("noisy", version, "host-1")
        for k in range(15):
            of = {"main;tax": 0.7, "main;sum": 0.3}
            r.profile("cpu", "nanoseconds", start + (at + k) * MINUTE, [(s.split(";"), int(v * values[k % 2] * 1e9)) for s, v in of.items()], MINUTE)
        assert server.send(r.done())[0] == 200
        requests(server, "noisy", start + at * MINUTE, 15, {"GET /": 60}, version)
    answer = query(server, "verdict", "noisy")
    assert answer["normalised"] == "request" and answer["cost_change"] > 0.5 and answer["cost_p"] > 0.01, answer
    assert answer["verdict"] == "not enough data", answer["sentence"]
    assert re.search(r"a request costs \+\d+\.\d % \(-\d+ % to \+\d+ %\), confidence \d+ %", answer["sentence"]), answer["sentence"]


def test_traffic_mix(server):
    """A fifth of the requests moves to an endpoint that encodes more: the functions did not change."""
    start = minute_ago(60)
    send(server, "mix", start, 30, shares())
    send(server, "mix", start + 30 * MINUTE, 10, shares(encode=0.2))
    selector = 'cpu{service.name="mix"}'
    assert "encode" in significant(query(server, "drift", selector, *ranges(start, 30, 10)))
    requests(server, "mix", start, 30, {"GET /page": 45, "GET /export": 5})
    requests(server, "mix", start + 30 * MINUTE, 10, {"GET /page": 35, "GET /export": 15})
    answer = query(server, "drift", selector, *ranges(start, 30, 10))
    assert significant(answer) == {} and abs(answer["traffic_points"] - 20) < 1
    assert answer["minimum_detectable_points"] > 30


# --- findings and trends ---

def stacks(server, service, of, minutes=3, kind="cpu", unit="nanoseconds", at=30, version="1"):
    """A profile a minute; of: {stack: value}, or a function of the minute."""
    r = Request(service, version, "host-1")
    for k in range(minutes):
        values = of(k) if callable(of) else of
        r.profile(kind, unit, minute_ago(at) + k * MINUTE, [(s.split(";"), v * 1_000_000) for s, v in values.items()], MINUTE)
    assert server.send(r.done())[0] == 200


def test_findings(server):
    stacks(server, "waste", {"main;work": 500, "runtime.gcBgMarkWorker;runtime.gcDrain;scan": 300, "main;match;regexp.MustCompile;parse": 60,
                             "main;match;regexp.MustCompile;regexp.Compile": 20, "main;reply;encoding/json.Marshal": 120})
    answer = query(server, "findings", 'cpu{service.name="waste"}')
    found = {f["rule"]: f for f in answer["findings"]}
    assert set(found) == {"gc", "regexp_compile", "serialisation"}
    assert abs(found["gc"]["share"] - 0.3) < 1e-9 and found["gc"]["severity"] == "warning"
    assert abs(found["regexp_compile"]["share"] - 0.08) < 1e-9  # a stack counts once
    assert found["regexp_compile"]["frames"] == [{"function": "match", "share": 0.08}]  # who compiles it
    assert "8.0 %" in found["regexp_compile"]["sentence"] and "match" in found["regexp_compile"]["sentence"]
    assert found["serialisation"]["severity"] == "info" and found["serialisation"]["frames"][0]["function"] == "reply"
    assert [f["rule"] for f in answer["findings"]][0] == "regexp_compile"  # eight times its limit
    # of what the page shows: only some stacks, without some frames
    work, = query(server, "findings", 'cpu{service.name="waste"}', "--focus", "main", "--ignore", "Marshal")["findings"]
    assert work["rule"] == "regexp_compile" and abs(work["share"] - 80 / 580) < 1e-9
    assert query(server, "findings", 'cpu{service.name="waste"}', "--focus", "work")["findings"] == []
    text = subprocess.run([WICK, "query", "findings", 'cpu{service.name="waste"}', "--server", server.url], capture_output=True, text=True)
    assert text.returncode == 0 and "warning: Garbage collection: 30.0 % of cpu" in text.stdout
    # the other three rules, with frames as they are in profiles of C, Go, Java, Rust and the kernel
    for rule, service, of, share, by in [
            ("lock_convoy", "locks", {"main;work": 700, "main;put;pthread_mutex_lock;__lll_lock_wait;futex_wait": 250,
                                      "main;get;sync.(*Mutex).Lock;sync.(*Mutex).lockSlow": 50}, 0.3, "put"),
            ("malloc_churn", "churn", {"main;work": 700, "main;copy;malloc;_int_malloc": 150, "main;copy;free;_int_free": 100,
                                       "main;grow;runtime.growslice;runtime.mallocgc": 50}, 0.3, "copy"),
            ("page_faults", "faults", {"main;work": 880, "main;touch;asm_exc_page_fault;exc_page_fault;do_user_addr_fault;handle_mm_fault": 120},
             0.12, "touch")]:
        stacks(server, service, of)
        one, = query(server, "findings", f'cpu{{service.name="{service}"}}')["findings"]
        assert one["rule"] == rule and abs(one["share"] - share) < 1e-9 and one["severity"] == "warning"
        assert one["frames"][0]["function"] == by and by in one["sentence"]
    stacks(server, "waits", {"main;sleep": 900, "main;put;futex_wait": 100}, kind="offcpu")
    assert [f["rule"] for f in query(server, "findings", 'offcpu{service.name="waits"}')["findings"]] == ["lock_convoy"]
    stacks(server, "fine", {"main;work": 970, "main;json_encode": 30})
    assert query(server, "findings", 'cpu{service.name="fine"}')["findings"] == []
    assert query(server, "findings", 'cpu{service.name="nobody"}', status=4)["findings"] == []


def test_trends(server):
    """An allocation spike is marked, and growth has a slope."""
    stacks(server, "alloc", lambda k: {"main;read": 100 if k != 12 else 400}, 20, "alloc_space", "bytes", 25)
    answer = query(server, "trends", 'alloc{service.name="alloc"}', "--from", str(minute_ago(25)), "--to", str(minute_ago(5)), "--step", "1m",
                   "--group-by", "service.version")
    one, = answer["trends"]
    assert one["labels"] == {"service.version": "1"} and one["points"] == 20
    assert abs(one["usual"] - 100e6 / 60) < 1 and abs(one["rate"] - 115e6 / 60) < 1  # bytes per covered second
    assert [s["time"] for s in one["spikes"]] == [str(int(answer["from"]) + 12 * MINUTE)]
    assert abs(one["spikes"][0]["rate"] - 400e6 / 60) < 1
    stacks(server, "grow", lambda k: {"main;work": 600 + 60 * k}, 20, at=25)
    one, = query(server, "trends", 'cpu{service.name="grow"}', "--from", str(minute_ago(25)), "--to", str(minute_ago(5)), "--step", "1m")["trends"]
    assert one["spikes"] == [] and one["fit"] > 0.999
    assert abs(one["change_per_hour"] - 60 * 60 / (600 + 60 * 9.5)) < 0.01
    rows = [subprocess.run([WICK, "query", "trends", 'cpu{service.name="grow"}', "--from", str(minute_ago(25)), "--to", str(minute_ago(back)), "--step", "1m",
                 "--server", server.url], capture_output=True, text=True).stdout.splitlines() for back in (5, 24)]
    assert [r[0].split()[:2] for r in rows] == [["RATE/S", "CHANGE"]] * 2
    assert abs(float(rows[0][1].split()[1][:-1]) - 100 * 19 * 60 / (600 + 60 * 9.5)) < 0.2  # over 19 minutes, not extrapolated to an hour
    assert rows[1][1].split()[1:3] == ["-", "-"], rows[1]  # one point


def explained(server, selector, status=0, **parameters):
    """{kind: fact} of explain, over the time from 25 to 5 minutes ago."""
    words = [w for k, v in parameters.items() for w in (f"--{k}", v)]
    answer = query(server, "explain", selector, "--from", str(minute_ago(25)), "--to", str(minute_ago(5)), *words, status=status)
    return {f["kind"]: f for f in answer["facts"]}


def test_explain_what_dominates(server):
    # one function itself, one with what it calls, and nothing
    stacks(server, "dominated", {"main;run;price_tax": 830, "main;run;other": 100, "main;log": 70}, 20, at=25)
    one, = explained(server, 'cpu{service.name="dominated"}').values()
    assert one["kind"] == "dominates" and one["function"] == "price_tax" and abs(one["share"] - 0.83) < 1e-9
    assert "price_tax has 83 % of the CPU time itself" in one["sentence"] and one["severity"] == "info"
    stacks(server, "below", {**{f"main;handle;part{i}": 80 for i in range(10)}, **{f"main;rest{i}": 40 for i in range(5)}}, 20, at=25)
    one, = explained(server, 'cpu{service.name="below"}').values()
    assert one["function"] == "handle" and "handle and what it calls have 80 % of the CPU time, 0 % itself" in one["sentence"]
    stacks(server, "spread", {f"main;part{i}": 50 for i in range(20)}, 20, at=25)
    one, = explained(server, 'cpu{service.name="spread"}').values()
    assert one["kind"] == "spread" and "5.0 %" in one["sentence"]
    # of some frames, only what dominates them
    one, = explained(server, 'cpu{service.name="dominated"}', ignore="price_tax").values()
    assert one["function"] == "other" and abs(one["share"] - 100 / 170) < 1e-9
    assert explained(server, 'cpu{service.name="dominated"}', ignore="main", status=4) == {}


def test_explain_a_step(server):
    """Seven times as much from one minute on, in one function; the same when all functions rise; and no step in noise."""
    start = minute_ago(25)
    send(server, "step", start, 10, shares(), cores=0.1)
    send(server, "step", start + 10 * MINUTE, 10, shares(encode=0.87), cores=0.7)
    facts = explained(server, 'cpu{service.name="step"}')
    step = facts["step"]
    assert step["at"] == str(start + 10 * MINUTE) and step["severity"] == "warning" and step["function"] == "encode"
    assert step["at_text"] in step["sentence"] and "CPU time rose from " in step["sentence"]
    assert "encode has 87 % of it since, 10 % before" in step["sentence"] and facts["dominates"]["function"] == "encode"
    before, after = (float(x) for x in re.search(r"from ([\d.]+) cores to ([\d.]+) cores", step["sentence"]).groups())
    assert abs(before - 0.5) < 0.05 and abs(after - 3.5) < 0.2  # five instances
    send(server, "busier", start, 10, shares(), cores=0.5)
    send(server, "busier", start + 10 * MINUTE, 10, shares(), cores=1)
    assert "No function's share changed" in explained(server, 'cpu{service.name="busier"}')["step"]["sentence"]
    send(server, "noise", start, 20, shares(), cores=0.3)
    assert explained(server, 'cpu{service.name="noise"}').keys() == {"dominates"}


def test_explain_growth_and_spikes(server):
    stacks(server, "leaky", lambda k: {"main;serve;leak;std::vector<char>::push_back": 100 + 50 * k, "main;cache": 100 + k}, 20, "inuse_space", "bytes", 25)
    facts = explained(server, 'heap{service.name="leaky"}')
    grows = facts["grows"]
    assert grows["severity"] == "warning" and grows["function"] == "leak" and abs(grows["share"] - 50 / 51) < 0.01
    assert "98 % of the growth is allocated in leak" in grows["sentence"]
    stacks(server, "steady", {"main;cache": 100}, 20, "inuse_space", "bytes", 25)
    assert explained(server, 'heap{service.name="steady"}').keys() == {"dominates"}
    stacks(server, "spiky", lambda k: {f"main;read{i}": 25 if k != 12 else 100 for i in range(5)}, 20, "alloc_space", "bytes", 25)
    facts = explained(server, 'alloc{service.name="spiky"}')
    assert facts["spike"]["at"] == str(minute_ago(25) + 12 * MINUTE) and "2.5 times the usual" in facts["spike"]["sentence"]  # steps of two minutes


def test_explain_a_deploy_and_few_samples(server):
    start = minute_ago(25)
    send(server, "deployed", start, 10, shares(), version="1.0")
    send(server, "deployed", start + 10 * MINUTE, 10, shares(encode=0.4), version="1.1")
    facts = explained(server, 'cpu{service.name="deployed"}')
    verdict = query(server, "verdict", "deployed", "--from", str(start), "--to", str(minute_ago(5)))
    assert verdict["headline"] in facts["deploy"]["sentence"] and verdict["interval"] in facts["deploy"]["sentence"]
    assert facts["deploy"]["function"] == verdict["cause"]["function"] and "step" not in facts
    send(server, "rare", start, 1, shares(), instances=1, cores=0.01)
    few, = explained(server, 'cpu{service.name="rare"}').values()
    assert few["kind"] == "few_samples" and re.search(r"rests on \d+ samples", few["sentence"])
    text = subprocess.run([WICK, "query", "explain", 'cpu{service.name="rare"}', "--server", server.url], capture_output=True, text=True)
    assert few["sentence"] in text.stdout and text.returncode == 0
