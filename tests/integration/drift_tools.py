# SPDX-License-Identifier: Apache-2.0
"""Profiles of a service whose truth is known: instances that sample functions with given shares at a rate, with a fixed seed."""
import json
import random
import subprocess
import time

from ui_data import Request
from wick_tools import WICK

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
# Shares of one core; the rest is "main;loop".
SHARES = {"main;handle;parse": 0.20, "main;handle;encode": 0.10, "main;handle;query;lock": 0.15, "main;gc": 0.08, "main;log": 0.05}


def shares(**change):
    """The usual shares with one changed: encode=0.12 (the last function of a stack). The others cost what they did, so their shares
    shrink in proportion."""
    r = {**SHARES, "main;loop": 1 - sum(SHARES.values())}
    for name, share in change.items():
        changed = next(stack for stack in r if stack.endswith(";" + name))
        rest = 1 - r[changed]
        r = {stack: share if stack == changed else v * (1 - share) / rest for stack, v in r.items()}
    return r


def draw(rnd, of, n):
    """Counts of n samples."""
    names = list(of)
    counts = dict.fromkeys(names, 0)
    for name in rnd.choices(names, [of[k] for k in names], k=n):
        counts[name] += 1
    return counts


def instance(service, start, minutes, of, number=0, version="1.0", rate=19, cores=1.0, seed=1, frames=None):
    """A request with a profile for each minute of one instance."""
    rnd = random.Random(f"{seed} {service} {number} {version} {minutes} {sorted(of.items())}")  # the same at any time
    r = Request(service, version, f"host-{number}")
    r.r.resource_profiles[0].resource.attributes.add(key="service.instance.id").value.string_value = f"{service}-{number}"
    period = SECOND // rate
    for k in range(minutes):
        n = int(rate * 60 * cores * rnd.uniform(0.8, 1.2))
        samples = [([(frames or {}).get(f, f) for f in stack.split(";")], count * period)
                   for stack, count in draw(rnd, of, n).items() if count]
        r.profile("cpu", "nanoseconds", start + k * MINUTE, samples, MINUTE)
        p = r.scope.profiles[-1]
        p.period_type.type_strindex, p.period_type.unit_strindex = r.string("cpu"), r.string("nanoseconds")
        p.period = period
    return r.done()


def send(server, service, start, minutes, of, instances=5, **kw):
    for i in range(instances):
        status, body = server.send(instance(service, start, minutes, of(i) if callable(of) else of, i, **kw))
        assert status == 200, body


def minute_ago(n):
    """The start of a minute, n minutes ago, as Unix nanoseconds."""
    return (time.time_ns() // MINUTE - n) * MINUTE


def query(server, *words, status=0):
    """The JSON of `wick query`."""
    p = subprocess.run([WICK, "query", *words, "--json", "--server", server.url], capture_output=True, text=True, timeout=60)
    assert p.returncode == status, (p.returncode, p.stderr)
    return json.loads(p.stdout) if p.stdout else None
