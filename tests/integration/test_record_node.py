# SPDX-License-Identifier: Apache-2.0
"""wick record and JavaScript: whole chains of Node's functions in every tier of V8, from outside, with nothing set in the program."""
import collections
import json
import math
import re
import subprocess

import pytest

import nodes
from agent_tools import agent_to_file, complete_lines, is_sampling, may_sample
from wick_tools import WICK, some, wait_for

pytestmark = [pytest.mark.skipif(not may_sample(), reason="BPF programs may not be loaded here"),
              pytest.mark.skipif(not nodes.found(), reason="no node")]
NODES = nodes.found()

SPLIT = """
class Shop {
  sixty(n) {
    let x = 0;
    for (let i = 0; i < n; i++) { x = (x * 31 + i) ^ (x >>> 3); }
    return x;
  }
  thirty(n) { let x = 1; for (let i = 0; i < n; i++) { x = (x * 31 + i) ^ (x >>> 3); } return x; }
}
const ten = (n) => { let x = 2; for (let i = 0; i < n; i++) { x = (x * 31 + i) ^ (x >>> 3); } return x; };
const shop = new Shop();
let sum = 0;
function turn(k) { sum += shop.sixty(6 * k); sum += shop.thirty(3 * k); sum += ten(k); }
function main() { while (process.cpuUsage().user < 2.5e6) for (let i = 0; i < 20; i++) turn(300); }
main();
"""

TIERS = {"interpreter": ["--jitless"], "sparkplug": ["--always-sparkplug", "--no-opt", "--no-maglev"],
         "maglev": ["--maglev", "--no-turbofan"], "default": []}


def tiers():
    for version in NODES:
        for tier, flags in TIERS.items():
            old = version.split(".")[0] in ("18", "20")
            if tier == "maglev" and version.startswith("18."):
                continue
            flags = [f for f in flags if f != "--no-maglev" or not old]
            yield pytest.param(version, flags, id=f"{version}-{tier}")


def record(tmp_path, *command, form="folded", rate=999, options=()):
    out = tmp_path / f"out.{form}"
    r = subprocess.run([WICK, "record", "-F", str(rate), *options, "-o", out, "--", *map(str, command)], capture_output=True, text=True, timeout=120,
                       cwd=tmp_path)
    assert r.returncode == 0, r.stderr
    return out


def stacks(path):
    for line in path.read_text().splitlines():
        stack, _, value = line.rpartition(" ")
        yield stack.split(";"), int(value)


@pytest.mark.parametrize("version, flags", list(tiers()))
def test_shares(tmp_path, version, flags):
    """Functions have the share of the time that they have, in whole stacks, in the order of the calls."""
    program = tmp_path / "split.js"
    program.write_text(SPLIT)
    got = list(stacks(record(tmp_path, NODES[version], *flags, program)))
    names, share, whole, unknown = ("main", "turn", "sixty", "thirty", "ten"), collections.Counter(), 0, 0
    total = sum(v for _, v in got)
    for stack, value in some(got):
        chain = [f for f in stack if f in names]
        whole += value * ("[truncated]" not in stack)
        unknown += value * any("[unknown]" in f or "perf-basic-prof" in f for f in stack)
        assert chain == [*names[:2], *chain[-1:]][-len(chain):] or chain in (["main"], ["main", "turn"]) or not chain, stack
        if chain and chain[-1] in names[2:]:
            share[chain[-1]] += value
    busy, inside = sum(share.values()), sum(v for s, v in got if "main" in s)
    assert busy > 0.9 * inside and busy > 1e9, (busy, inside, total)
    assert whole >= 0.99 * total and unknown <= 0.02 * total, (whole / total, unknown / total)
    n = busy / 1e9 * 999
    for name, want in zip(names[2:], (0.6, 0.3, 0.1)):
        assert abs(share[name] / busy - want) < 0.03 + 3 * math.sqrt(want * (1 - want) / n), (name, share)


RECURSIVE = "function down(n) { if (n) return down(n - 1) + 1; let x = 0; for (let i = 0; i < 1e5; i++) x += i & 7; return x; }\n" \
    "while (process.cpuUsage().user < 0.8e6) [%d].map(n => down(n));\n"


@pytest.mark.parametrize("depth", [3, 40, 200])
@pytest.mark.parametrize("version", list(NODES)[-1:])
def test_old_programs(tmp_path, version, depth):
    """The programs for kernels without bpf_loop: parts of a stack that are native, and parts that are not, take turns; what is too
    deep for them says so."""
    program = tmp_path / "deep.js"
    program.write_text(RECURSIVE % depth)
    got = list(stacks(record(tmp_path, NODES[version], "--no-opt", program, options=("--via", "old-bpf"))))
    hot = [(s, v) for s, v in got if "down" in s]
    total = sum(v for _, v in hot)
    whole = sum(v for s, v in hot if s.count("down") == depth + 1 and "[truncated]" not in s)
    cut = sum(v for s, v in hot if "[truncated]" in s)
    assert total > 0.3e9 and (whole > 0.95 * total or (depth > 64 and whole + cut > 0.95 * total)), (whole, cut, total)


@pytest.mark.parametrize("version", NODES)
def test_lines(tmp_path, version):
    """Of the instruction; of inlined functions as well."""
    program = tmp_path / "split.js"
    program.write_text(SPLIT)
    out = record(tmp_path, NODES[version], program, form="pb.gz")
    text = subprocess.run([WICK, "pprof", "-top", "-lines", "-nodecount=100", out], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"([\d.]+)% +[\d.]+% +\S+ +([\d.]+)%  (\S+) \S*split.js:(\d+)", text)
    flat, cum = collections.Counter(), {}
    for own, whole, function, line in rows:
        flat[int(line)] += float(own)
        cum[function, int(line)] = float(whole)
    assert flat[5] > 45 and flat[8] > 15, text
    assert cum["turn", 13] > 80 and cum["main", 14] > 80 and cum["(anonymous)", 15] > 80, text


EVALUATED = """
const done = [];
let k = 0;
function make(name, lines) {
  return new Function('"use strict";' + '\\n'.repeat(lines) + 'return function ' + name + '(t) { let x = 0; do { ' +
    'for (let i = 0; i < 5000; i++) x += i % 7; } while (performance.now() < t); return x; }')();
}
function next() {
  const name = 'made_' + k, f = make(name, k % 50), from = Date.now();
  f(performance.now() + 12);
  done.push([name, k % 50, from, Date.now()]);
  if (k % 8 == 0) gc();
  if (++k < 250) setImmediate(next); else { console.log(JSON.stringify(done)); process.stdin.destroy(); }
}
process.stdin.once('data', next);
"""




def samples(path):
    """(times in ms, [(function, line where it begins)]) of the samples that the agent sent."""
    for data in map(json.loads, complete_lines(path)):
        d = data["dictionary"]
        text = d["stringTable"]
        for p in (p for r in data["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"]):
            for s in p["samples"]:
                stack = d["stackTable"][s.get("stackIndex", 0)].get("locationIndices", [])
                functions = [d["functionTable"][line.get("functionIndex", 0)] for i in stack for line in d["locationTable"][i].get("lines", [])]
                yield ([int(t) / 1e6 for t in s.get("timestampsUnixNano", [])],
                       [(text[f.get("nameStrindex", 0)], int(f.get("startLine", 0))) for f in functions])


@pytest.mark.parametrize("version", NODES)
def test_functions_that_are_collected(tmp_path, version):
    """Each sample has the name of the function that ran then, though most were collected soon after, and others took their place."""
    program = tmp_path / "made.js"
    program.write_text(EVALUATED)
    p = subprocess.Popen([NODES[version], "--expose-gc", "--stress-compaction", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with agent_to_file(tmp_path, "-p", p.pid, "-F", "499", "--interval", "1s", "--budget", "50") as (path, agent):
        wait_for(lambda: is_sampling(agent.pid), why="the agent does not sample")
        p.stdin.write("\n")
        p.stdin.flush()
        ran = {name: (lines, a, b) for name, lines, a, b in json.loads(p.stdout.readline())}
        p.stdin.close()
        p.wait(60)
        wait_for(lambda: max((t for times, _ in samples(path) for t in times), default=0) > ran["made_240"][1], why="not all arrived")
    seen, wrong, unknown = 0, [], 0
    for times, functions in some(list(samples(path))):
        unknown += len(times) * any(name == "[unknown]" for name, _ in functions)
        for name, start in some(functions):
            if not name.startswith("made_"):
                continue
            lines, a, b = ran[name]
            seen += len(times)
            wrong += [(name, t - a, b - t) for t in times if not a - 2 <= t <= b + 2]
            assert start in (0, lines + 3), (name, start, lines)  # the first two lines are V8's
    assert seen > 300 and not wrong and unknown <= 0.02 * seen, (seen, wrong, unknown)


KINDS = """
const { Worker, isMainThread } = require('worker_threads');
const wasm = new Uint8Array([0,97,115,109,1,0,0,0,1,6,1,96,1,127,1,127,3,2,1,0,7,8,1,4,115,112,105,110,0,0,10,30,1,28,1,1,127,3,64,32,1,65,3,
  108,32,0,106,33,1,32,0,65,1,107,34,0,13,0,11,32,1,11]);
function inWasm(f, end) { while (process.cpuUsage().user < end) f(100000); }
function inRegexp(end) { const text = 'a'.repeat(12); while (process.cpuUsage().user < end) /^(a+)+$/.test(text + 'b'); }
function inSort(end) { const v = Array.from({length: 2000}, (_, i) => (i * 7919) % 2003); while (process.cpuUsage().user < end) v.slice().sort((a, b) => a - b); }
async function later(end) { await null; inSort(end); }
if (isMainThread) {
  const f = new WebAssembly.Instance(new WebAssembly.Module(wasm)).exports.spin;
  inWasm(f, 0.5e6);
  inRegexp(1e6);
  later(1.5e6).then(() => new Worker(__filename));
} else {
  const inWorker = () => { let x = 0; while (process.cpuUsage().user < 2e6) for (let i = 0; i < 1e5; i++) x += i % 7; return x; };
  inWorker();
}
"""


@pytest.mark.parametrize("version", NODES)
def test_kinds(tmp_path, version):
    """WebAssembly, regular expressions, V8's own functions, async functions and worker threads."""
    program = tmp_path / "kinds.js"
    program.write_text(KINDS)
    got = list(stacks(record(tmp_path, NODES[version], program)))

    def below(function, *inner):
        return sum(v for s, v in got if function in s and any(x in f for f in s[s.index(function):] for x in inner))

    assert below("inWasm", "(WebAssembly)") > 0.2e9
    if not version.startswith("18."):  # whose frames of regular expressions have no type
        assert below("inRegexp", "(regular expression)") > 0.2e9
    assert below("later", "Builtins_ArrayPrototypeSort", "Builtins_ArrayTimSort") > 0.2e9
    assert below("inWorker", "inWorker") > 0.2e9
    unknown = sum(v for s, v in got if any("[unknown]" in f for f in s))
    assert unknown <= 0.03 * sum(v for _, v in got) or version.startswith("18."), unknown
