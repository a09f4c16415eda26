#!/usr/bin/env bash
# How many hosts one ingester and one ClickHouse node take: the agents of more and more hosts, up to 10,000, on one machine
#
# ClickHouse (Debian's 18.16), wick serve --role ingest and the load share the machine. WICK_BENCH_HOSTS: numbers of hosts;
# WICK_BENCH_SECONDS: of each. WICK_BENCH_STORE=segment measures the store on disk instead.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
hosts=${WICK_BENCH_HOSTS:-100 500 1000 2000 3000 5000 10000}
seconds=${WICK_BENCH_SECONDS:-20}
kind=${WICK_BENCH_STORE:-clickhouse}
[ -n "${WICK_BENCH_BUILT:-}" ] || ninja -C "$BUILD" src/cli/wick bench/hosts_load >/dev/null
tmp=$(mktemp -d)
peer='' pid=''
trap '[ -z "$pid" ] || kill $pid; [ -z "$peer" ] || kill $peer; wait 2>/dev/null || true; rm -rf "$tmp"' EXIT
export XDG_DATA_HOME=$tmp HOME=${HOME:-$tmp}
if [ "$kind" = clickhouse ]; then
    command -v clickhouse-server >/dev/null || { echo "bench_hosts: no clickhouse-server (tools/deps all installs it)" >&2; exit 0; }
    python3 tests/integration/clickhouse_peer.py "$tmp/peer" >"$tmp/url" &
    peer=$!
    for _ in $(seq 600); do [ -s "$tmp/url" ] && break; sleep 0.1; done
    store=$(cat "$tmp/url") role=ingest
else
    store=$tmp/store role=all
fi
"$BUILD/src/cli/wick" serve --no-agent --role $role --store "$store" --http 127.0.0.1:0 --otlp-grpc 127.0.0.1:0 --otlp-http off \
    >"$tmp/out" 2>"$tmp/err" &
pid=$!
for _ in $(seq 600); do grep -q 'is ready' "$tmp/out" && break; sleep 0.1; done
grpc=$(sed -n 's/.*OTLP\/gRPC: listening on \([0-9.:]*\).*/\1/p' "$tmp/err" | tail -1)
ticks=$(getconf CLK_TCK)
cpu() { awk -v t="$ticks" '{print ($14 + $15) / t}' "/proc/$1/stat"; }
server=$(pgrep -P "${peer:-0}" -f clickhouse-server | head -1 || true)
echo "### Hosts at one ingester, store: $kind, $seconds s each"
echo
echo "| hosts | samples/s sent | samples/s acknowledged | refused requests | p50 / p99 / max ms | cores of wick | cores of ClickHouse | RSS of wick, MB |"
echo "|---|---|---|---|---|---|---|---|"
for n in $hosts; do
    a=$(cpu $pid) b=$([ -z "$server" ] || cpu "$server")
    "$BUILD/bench/hosts_load" "$grpc" "$n" "$seconds" >"$tmp/load"
    c=$(cpu $pid) d=$([ -z "$server" ] || cpu "$server")
    rss=$(awk '$1 == "VmHWM:" {printf "%.0f", $2 / 1024}' /proc/$pid/status)
    awk -v n="$n" -v w="$a $c" -v s="${b:-0} ${d:-0}" -v rss="$rss" '{split(w, x, " "); split(s, y, " ");
        printf "| %d | %.0f | %.0f | %d of %d | %.0f / %.0f / %.0f | %.2f | %.2f | %s |\n", n, n * 152, $3 / $4, $2, $1, $5, $6, $7,
               (x[2] - x[1]) / $4, (y[2] - y[1]) / $4, rss}' "$tmp/load"
done
