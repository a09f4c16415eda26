#!/usr/bin/env bash
# The store in ClickHouse: ingest, size and queries, beside what the server needs for the same SQL
#
# Starts Debian's clickhouse-server (18.16, zstd for all columns) on loopback, on the same machine as wick; or, with
# WICK_BENCH_ENGINE=current, libchdb behind an HTTP server (tests/integration/chdb_peer.py), whose sizes are those of a current server, and
# whose rate of ingest is not. WICK_BENCH_SCALE=0.1 makes it a tenth as large; WICK_BENCH_WHAT=agent has the samples of an
# agent over a day, with times; WICK_BENCH_COLUMNS=1 lists the columns, too.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
scale=${WICK_BENCH_SCALE:-1}
program=clickhouse_peer.py
if [ "${WICK_BENCH_ENGINE:-}" = current ]; then
    program=chdb_peer.py
elif ! command -v clickhouse-server >/dev/null; then
    echo "bench_clickhouse: no clickhouse-server (tools/deps all installs it)" >&2
    exit 0
fi
[ -n "${WICK_BENCH_BUILT:-}" ] || ninja -C "$BUILD" bench/bench_store >/dev/null
tmp=$(mktemp -d)
python3 "tests/integration/$program" "$tmp/peer" >"$tmp/url" &
peer=$!
trap 'kill $peer; wait $peer 2>/dev/null || true; rm -rf "$tmp"' EXIT
for _ in $(seq 600); do [ -s "$tmp/url" ] && break; sleep 0.1; done
url=$(cat "$tmp/url")
address=${url#*@}
address=${address%/*}
ask() { curl -sS "http://$address/" --data-binary "$1"; }
windows=$(python3 -c "print(max(30, int(360 * $scale)))")

echo "### Store in ClickHouse $(ask 'SELECT version()'), one node (scale $scale)"
echo
echo "| what | measured | bar |"
echo "|---|---|---|"
services=${WICK_BENCH_SERVICES:-50}
export WICK_BENCH_TOGETHER=${WICK_BENCH_TOGETHER:-1000} # requests on their way at once, as from as many senders
if [ "${WICK_BENCH_WHAT:-}" = agent ]; then
    windows=$(python3 -c "print(int(1440 * $scale))")
    echo "| **agent: 300 processes, $windows minutes, 8 CPUs, exports of 10 s** | | |"
    "$BUILD/bench/bench_store" agent "$url" 300 "$windows" 10
else
    echo "| **$services services x $windows windows x 1000 rows** | | |"
    "$BUILD/bench/bench_store" synthetic "$url" "$services" "$windows" 1000
fi
for t in samples links profiles stacks locations series metas attrs; do ask "OPTIMIZE TABLE wick.$t FINAL" >/dev/null || true; done
rows=$(ask "SELECT count() FROM wick.samples")
ask "SELECT concat('| ', table, ', after merging | ', toString(round(sum(bytes) / $rows, 2)), ' B per sample | |') FROM system.parts
     WHERE active AND database = 'wick' AND table != 'schema' GROUP BY table ORDER BY sum(bytes) DESC FORMAT TSVRaw"
ask "SELECT concat('| all tables, after merging | ', toString(round(sum(bytes) / $rows, 2)), ' B per sample | |') FROM system.parts
     WHERE active AND database = 'wick' FORMAT TSVRaw"
[ -z "${WICK_BENCH_COLUMNS:-}" ] || ask "SELECT concat('| ', table, '.', name, ' | ', toString(round(data_compressed_bytes / $rows, 3)), ' B per sample | |')
     FROM system.columns WHERE database = 'wick' AND data_compressed_bytes > $rows / 200 ORDER BY data_compressed_bytes DESC FORMAT TSVRaw"
for _ in 1 2 3 4 5; do
    curl -sS -o /dev/null -w '%{time_total}\n' "http://$address/?database=wick&wait_end_of_query=1" --data-binary \
        "SELECT stack, sum(value), count() FROM samples WHERE tenant = '' AND type = 'cpu' AND service IN ('service-07') GROUP BY stack FORMAT RowBinary"
done | sort -n | sed -n 3p | awk '{ printf "| the SQL of the flame graph of one service, sent by curl | %.1f ms | |\n", $1 * 1000 }'
