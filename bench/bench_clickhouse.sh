#!/usr/bin/env bash
# The store in ClickHouse: ingest, size and queries, beside what the server needs for the same SQL
#
# Starts Debian's clickhouse-server (18.16, zstd for all columns) on loopback, on the same machine as wick. Its sizes are not those of
# a current server, which has codecs for single columns. WICK_BENCH_SCALE=0.1 makes it a tenth as large.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
scale=${WICK_BENCH_SCALE:-1}
if ! command -v clickhouse-server >/dev/null; then
    echo "bench_clickhouse: no clickhouse-server (tools/deps all installs it)" >&2
    exit 0
fi
ninja -C "$BUILD" bench/bench_store >/dev/null
tmp=$(mktemp -d)
python3 tests/integration/clickhouse_peer.py "$tmp/peer" >"$tmp/url" &
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
echo "| **$services services x $windows windows x 1000 rows** | | |"
"$BUILD/bench/bench_store" synthetic "$url" "$services" "$windows" 1000
for t in samples links profiles stacks locations series metas attrs; do ask "OPTIMIZE TABLE wick.$t FINAL" >/dev/null || true; done
rows=$(ask "SELECT count() FROM wick.samples")
ask "SELECT concat('| ', table, ', after merging | ', toString(round(sum(bytes) / $rows, 2)), ' B per sample | |') FROM system.parts
     WHERE active AND database = 'wick' AND table != 'schema' GROUP BY table ORDER BY sum(bytes) DESC FORMAT TSVRaw"
ask "SELECT concat('| all tables, after merging | ', toString(round(sum(bytes) / $rows, 2)), ' B per sample | |') FROM system.parts
     WHERE active AND database = 'wick' FORMAT TSVRaw"
for _ in 1 2 3 4 5; do
    curl -sS -o /dev/null -w '%{time_total}\n' "http://$address/?database=wick&wait_end_of_query=1" --data-binary \
        "SELECT stack, sum(value), count() FROM samples WHERE tenant = '' AND type = 'cpu' AND service IN ('service-07') GROUP BY stack FORMAT RowBinary"
done | sort -n | sed -n 3p | awk '{ printf "| the SQL of the flame graph of one service, sent by curl | %.1f ms | |\n", $1 * 1000 }'
