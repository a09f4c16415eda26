#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cold storage (docs/scale.md): the flame graph of one service over a day whose segments are in an object store (MinIO on loopback), read for
the first time after a start: time, round trips and bytes.

    build/venv/bin/python bench/bench_cold.py [SERVICES [STACKS]]

A day has a profile of every service each five minutes, of 300 of its stacks. The requests are made once for each service and sent with
other times: making them costs far more than storing them. The answer must have the total of what was sent; the requests that the object store
gets are counted, too, by a proxy in front of it."""
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("WICK", str(ROOT / "build/src/cli/wick"))
sys.path.insert(0, str(ROOT / "tests/integration"))
import minio_peer  # noqa: E402
from wick_tools import Server, free_port, request, token_of, wait_for  # noqa: E402

DAY = 86400 * 10**9
VARIANTS = 24  # different requests of one service
MARK = 0x1234567890ABCDEF  # a time that is replaced


def metric(s, name):
    for line in s.get("/metrics", s.root)[1].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return 0


def main():
    services, n_stacks = (int(x) for x in (sys.argv[1:] + ["4", "2000"][len(sys.argv) - 1:]))
    rnd = random.Random(1)
    stacks = [";".join(["main"] + [f"f{rnd.randrange(400)}" for _ in range(rnd.randrange(8, 25))]) for _ in range(n_stacks)]
    midnight = time.time_ns() // DAY * DAY - 3 * DAY
    with tempfile.TemporaryDirectory() as dir:
        for name in ("objects", "wick"):
            (Path(dir) / name).mkdir(mode=0o755)
        with minio_peer.Minio(Path(dir) / "objects", free_port()) as minio, minio_peer.Counted(minio.url) as proxy:
            s = Server(Path(dir) / "wick", "--no-agent", f"--set=store.cold={minio.place(url=proxy.url)}", **minio.env())
            s.root = token_of(s, "admin")
            try:
                sent = {}
                for k in range(services):
                    chosen = [[(x, rnd.randrange(1, 50), False) for x in rnd.sample(stacks, 300)] for _ in range(VARIANTS)]
                    made = [request(x, service=f"svc-{k}", start=MARK).SerializeToString() for x in chosen]
                    sent[f"svc-{k}"] = sum(value for i in range(288) for _, value, _ in chosen[i % VARIANTS])

                    def send(i):
                        start = midnight + i * 300 * 10**9
                        body = made[i % VARIANTS].replace(MARK.to_bytes(8, "little"), start.to_bytes(8, "little"))  # noqa: B023
                        return s.get("/v1development/profiles", s.root, body, {"Content-Type": "application/x-protobuf"}, base=s.http)[0]

                    with ThreadPoolExecutor(16) as pool:  # they share the syncs of the log
                        assert set(pool.map(send, range(288))) == {200}
                s.stop()
                s.start()
                wait_for(lambda: metric(s, "wick_store_cold_segments") >= 1 and not list((Path(dir) / "wick/store").glob("*/seg/*.seg")), 300,
                         "the whole day is moved")
                print("| flame graph of one service, a cold day | ms | round trips | requests | bytes read |\n|---|---|---|---|---|")
                for what in ("first", "first", "first", "again, from the cache", "first, each answer 100 ms late"):
                    proxy.delay = 0.1 if "late" in what else 0
                    if "first" in what:
                        s.stop()
                        s.start()
                    rounds, read, before = (metric(s, "wick_store_cold_rounds_total"), metric(s, "wick_store_cold_read_bytes_total"),
                                            len(proxy.requests))
                    begin = time.monotonic()
                    answer = s.json(f"/api/v1/flame?query=cpu{{service.name=%22svc-1%22}}&from={midnight}&to={midnight + DAY}", token=s.root)
                    took = time.monotonic() - begin
                    assert answer["nodes"][0][3] == sent["svc-1"], (answer["nodes"][0], sent)
                    rounds = metric(s, "wick_store_cold_rounds_total") - rounds
                    assert (rounds > 0) == ("first" in what) == (len(proxy.requests) > before), (rounds, proxy.requests[before:])
                    assert not proxy.delay or proxy.rounds(before) == rounds, (rounds, proxy.requests[before:])
                    print(f"| {what} | {took * 1000:.0f} | {rounds:.0f} | {len(proxy.requests) - before} | "
                          f"{metric(s, 'wick_store_cold_read_bytes_total') - read:.0f} |", flush=True)
            finally:
                s.stop()


if __name__ == "__main__":
    main()
