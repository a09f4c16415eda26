# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's RecordingRulesService: rules of clients are kept per tenant, evaluated as wick's own recording rules and on /metrics; what
wick cannot record is refused with a sentence."""
import json
import time

import pytest

from wick_tools import Server, profiles_service, request, token_of, tokens_of, wait_for

RULES = "settings.v1.RecordingRulesService/"
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SHOP = [f'{{__profile_type__="{CPU}"}}', '{service_name="shop"}']


def call(server, method, token=None, **fields):
    status, body = server.get("/" + RULES + method, token=token, data=json.dumps(fields).encode(), headers={"Content-Type": "application/json"})
    return status, json.loads(body or b"{}")


def metric(server, token, rule):
    text = server.get("/metrics", token=token)[1].decode()
    return {line.split("{")[1].split("}")[0]: float(line.split()[-1]) for line in text.splitlines()
            if line.startswith("wick_function_cores{") and f'rule="{rule}"' in line}


def feed(server, token):
    """A second of CPU time in two functions of two services, ten seconds ago."""
    now = time.time_ns() - 10 * 10**9
    for service in ("shop", "bank"):
        assert server.send(request([("main;serve;price", 600_000_000, False), ("main;serve;tax", 400_000_000, False)], service, now), token)[0] == 200


def test_rules_are_kept_and_recorded(tmp_path):
    profiles_service()
    one, two = tokens_of(tmp_path)
    (tmp_path / "wick.yaml").write_text('alerts: {interval: 1s}\nrecording:\n  - {name: own, tenant: one, selector: cpu, function: main}\n')
    server = Server(tmp_path, "--config", str(tmp_path / "wick.yaml"))
    admin = token_of(server, "admin")
    try:
        for token in (one, two):
            feed(server, token)
        status, answer = call(server, "ListRecordingRules", one)
        own = answer["rules"][0]
        assert status == 200 and len(answer["rules"]) == 1 and own["provisioned"] is True and own["metricName"] == "own" and own["profileType"] == CPU
        assert call(server, "GetRecordingRule", one, id=own["id"]) == (200, {"rule": own})
        assert call(server, "ListRecordingRules", two)[1]["rules"] == []

        status, answer = call(server, "UpsertRecordingRule", one, metricName="price_cpu", matchers=SHOP, groupBy=["service_name"],
                              stacktraceFilter={"functionName": {"functionName": "price"}})
        rule = answer["rule"]
        assert status == 200 and rule["id"].isalpha() and rule["generation"] == "1" and rule["matchers"] == SHOP and rule["profileType"] == CPU
        assert rule["stacktraceFilter"] == {"functionName": {"functionName": "price"}} and rule["groupBy"] == ["service_name"]
        assert call(server, "UpsertRecordingRule", two, metricName="all_cpu", matchers=SHOP[:1])[0] == 200
        assert call(server, "UpsertRecordingRule", two, metricName="each_cpu", matchers=SHOP[:1], groupBy=["service_name"])[0] == 200
        assert [r["metricName"] for r in call(server, "ListRecordingRules", one)[1]["rules"]] == ["own", "price_cpu"]
        assert [r["metricName"] for r in call(server, "ListRecordingRules", two)[1]["rules"]] == ["all_cpu", "each_cpu"]

        found = wait_for(lambda: metric(server, admin, "price_cpu"), 60)
        assert list(found) == ['rule="price_cpu",tenant="one",service="shop",function="price",type="cpu"']
        assert list(found.values()) == [pytest.approx(0.6)]  # of the second that the profile covers
        assert wait_for(lambda: len(metric(server, admin, "all_cpu")) == 1, 60) and wait_for(lambda: len(metric(server, admin, "each_cpu")) == 2, 60)
        assert wait_for(lambda: metric(server, admin, "own"), 60)

        reader = token_of(server, "read", "one")
        wait_for(lambda: call(server, "UpsertRecordingRule", reader, metricName="m", matchers=SHOP)[0] == 403, 60)
        # an update names the generation it was made from
        change = dict(id=rule["id"], metricName="tax_cpu", matchers=SHOP, stacktraceFilter={"functionName": {"functionName": "tax"}})
        status, answer = call(server, "UpsertRecordingRule", one, generation="7", **change)
        assert (status, answer["code"]) == (409, "already_exists")
        status, answer = call(server, "UpsertRecordingRule", one, generation="1", **change)
        assert status == 200 and answer["rule"]["generation"] == "2" and answer["rule"]["id"] == rule["id"]
        assert call(server, "GetRecordingRule", two, id=rule["id"])[0] == 404  # another tenant's
        server.stop()
        server.start()
        assert [r["metricName"] for r in call(server, "ListRecordingRules", one)[1]["rules"]] == ["own", "tax_cpu"]
        feed(server, one)
        assert wait_for(lambda: metric(server, admin, "tax_cpu"), 60)
        assert call(server, "DeleteRecordingRule", two, id=rule["id"])[0] == 404
        assert call(server, "DeleteRecordingRule", one, id=rule["id"]) == (200, {})
        wait_for(lambda: not metric(server, admin, "tax_cpu"), 60)
        assert call(server, "GetRecordingRule", one, id=rule["id"])[1]["message"] == f"no rule with id='{rule['id']}' found"
    finally:
        server.stop()


def test_what_is_refused(tmp_path):
    server = Server(tmp_path)
    good = {"metricName": "m", "matchers": SHOP}
    try:
        for change, status, words in (
                ({"groupBy": ["region"]}, 501, "group_by 'region' of a recording rule is not supported"),
                ({"externalLabels": [{"name": "a", "value": "b"}]}, 501, "external_labels of recording rules are not supported"),
                ({"matchers": ['{__profile_type__="process_cpu:samples:count:cpu:nanoseconds"}']}, 501, "counts of samples"),
                ({"matchers": ['{__profile_id__="x"}', *SHOP]}, 501, "a matcher on __profile_id__ is not supported"),
                ({"matchers": SHOP[1:]}, 400, "__profile_type__"), ({"matchers": [*SHOP, SHOP[0]]}, 400, "one __profile_type__ matcher"),
                ({"matchers": ["{"]}, 400, "label name"), ({"metricName": "a b"}, 400, "metric_name"), ({"metricName": ""}, 400, "metric_name"),
                ({"id": "a1"}, 400, "must match ^[a-zA-Z]+$"), ({"generation": "-1"}, 400, "generation")):
            got, answer = call(server, "UpsertRecordingRule", **{**good, **change})
            assert got == status and words in answer["message"], (change, got, answer)
        assert call(server, "ListRecordingRules")[1]["rules"] == []
        assert call(server, "GetRecordingRule")[0] == 400 and call(server, "DeleteRecordingRule")[0] == 400
        for i in range(100):
            assert call(server, "UpsertRecordingRule", **good, id="x" * (i + 1))[0] == 200
        assert call(server, "UpsertRecordingRule", **good)[0] == 429
    finally:
        server.stop()
