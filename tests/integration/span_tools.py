# SPDX-License-Identifier: Apache-2.0
"""Spans of samples in OTLP JSON files."""
import json


def spans_of(path, functions):
    """(function on the stack, span id or "", its value) of each sample of an OTLP JSON file."""
    for line in path.read_text().splitlines():
        request = json.loads(line)
        d = request["dictionary"]

        def names(stack):
            for i in d["stackTable"][stack].get("locationIndices", []):
                for x in d["locationTable"][i].get("lines", []):
                    yield d["stringTable"][d["functionTable"][x.get("functionIndex", 0)].get("nameStrindex", 0)]

        for r in request["resourceProfiles"]:
            for p in [p for s in r["scopeProfiles"] for p in s["profiles"]]:
                for x in p.get("samples", []):
                    where = set(names(x.get("stackIndex", 0))) & set(functions)
                    span = d["linkTable"][x.get("linkIndex", 0)].get("spanId", "") if x.get("linkIndex") else ""
                    for w in where:
                        yield w, span, sum(map(int, x.get("values", []))) or len(x.get("timestampsUnixNano", []))
