# SPDX-License-Identifier: Apache-2.0
"""/api/v1/openapi.json is valid by a validator that knows nothing of wick, has every route of the sources, and answers are what
it says."""
import json
import re
import subprocess

import jsonschema
import openapi_spec_validator

from wick_tools import ROOT, SHOP, WICK, profiles_service, request, some

PARAMS = {"query": "cpu", "from": "now-5m", "function": "checkout", "label": "service.name", "name": "service.name", "base_query": "cpu",
          "baseline_from": "now-1h", "baseline_to": "now-5m", "service": "shop", "by": "service.name"}


def once(pairs):
    assert len({k for k, _ in pairs}) == len(pairs), f"a key twice: {[k for k, _ in pairs]}"
    return dict(pairs)


def spec_of(server):
    return json.loads(server.get("/api/v1/openapi.json")[1], object_pairs_hook=once)


def operations(spec):
    return [(path, method, what) for path, methods in spec["paths"].items() for method, what in methods.items()]


def test_valid_and_complete(server):
    spec = spec_of(server)
    openapi_spec_validator.validate(spec)
    ids = [what["operationId"] for _, _, what in operations(spec)]
    assert len(ids) == len(set(ids)) > 60
    listed = {(method.upper(), path) for path, method, _ in operations(spec)}
    mounted = {(method, path) for folder in ("server", "serve") for p in (ROOT / "src" / folder).glob("*.c")
               for method, path in re.findall(r'\{"(GET|POST|PUT|DELETE)", "(/[^"*]*)", AUTH_', p.read_text())}
    assert len(mounted) > 40 and mounted <= listed, mounted - listed
    own = [(path, what) for path, _, what in operations(spec) if path.startswith("/api/v1/")]
    assert not [path for path, what in some(own) if "another product" in what["summary"]]


def undescribed(spec, schema, value, at=""):
    """The places of members that the schema does not name."""
    if "anyOf" in schema:
        return set.intersection(*(undescribed(spec, p, value, at) for p in schema["anyOf"]))
    if "allOf" in schema:
        parts = [spec["components"]["schemas"][p["$ref"].rsplit("/", 1)[1]] if "$ref" in p else p for p in schema["allOf"]]
        schema = {"properties": {k: v for p in parts for k, v in p["properties"].items()}}
    if isinstance(value, list):
        return {x for v in value for x in undescribed(spec, schema["items"], v, at + "[]")}
    if not isinstance(value, dict) or "additionalProperties" in schema:
        return set()
    known = schema.get("properties", {})
    return {f"{at}.{k}" for k in value if k not in known} | {x for k in value if k in known for x in undescribed(spec, known[k], value[k], f"{at}.{k}")}


def test_questions_are_described_to_the_last_member(server):
    """Every member of every answer is in the schema, with one that is not there as a check of the check."""
    profiles_service()
    assert server.send(request(SHOP))[0] == 200
    spec, seen = spec_of(server), []
    schema = spec["paths"]["/api/v1/top"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert undescribed(spec, schema, {"rows": [{"name": "x", "nmae": 1}]}) == {".rows[].nmae"}
    units = schema["allOf"][0]["properties"]["rows"]["items"]["properties"]
    assert units["self"]["x-unit"] == "the answer's unit" and "x-unit" not in units["name"]
    for path in some(re.findall(r"^  ([a-z_]+) ", subprocess.run([WICK, "query", "--help"], capture_output=True, text=True).stdout.split("example")[0], re.M)):
        what = spec["paths"]["/api/v1/" + path]["get"]
        asked = {p["name"]: PARAMS[p["name"]] for p in what["parameters"] if p["name"] in PARAMS and p["name"] not in ("by", "name", "base_query", "label")}
        more = "&trace_id=" + 32 * "a" if path == "trace" else "&span_name=x" if path == "span" else ""
        asked |= {"query": "heap"} if path == "leaks" else {}
        status, text = server.get(f"/api/v1/{path}?" + "&".join(f"{k}={v}" for k, v in asked.items()) + more)
        assert status == 200, (path, text)
        assert not undescribed(spec, what["responses"]["200"]["content"]["application/json"]["schema"], json.loads(text)), path
        seen.append(path)
    assert len(seen) > 20


def test_answers_are_as_described(server):
    profiles_service()
    assert server.send(request(SHOP))[0] == 200
    note = json.dumps({"text": "cache warmed", "service": "shop"}).encode()
    assert server.get("/api/v1/notes", data=note)[0] == 200
    status, text = server.get("/api/v1/notes", data=b'{"text":"x","servcie":"shop"}')
    assert status == 400 and "unknown key 'servcie'; did you mean 'service'?" in text.decode(), text
    seen, spec = [], spec_of(server)
    for path, method, what in some(operations(spec)):
        if method != "get" or not path.startswith("/api/v1/"):
            continue
        asked = {p["name"]: PARAMS[p["name"]] for p in what["parameters"] if p["in"] == "query" and p["name"] in PARAMS and p["name"] not in ("by", "name")}
        for p in what["parameters"]:
            path = path.replace("{%s}" % p["name"], PARAMS.get(p["name"], "1"))
        status, text = server.get(path + "?" + "&".join(f"{k}={v}" for k, v in asked.items()))
        assert str(status) in what["responses"], (path, status, text[:200])
        content = what["responses"]["200"]["content"]
        if status == 200 and "application/json" in content:
            jsonschema.validate(json.loads(text), {**content["application/json"]["schema"], "components": spec["components"]})
            seen.append(path)
    assert len(seen) > 20 and {"/api/v1/notes", "/api/v1/alerts", "/api/v1/top"} <= set(seen), seen
