#!/usr/bin/env bash
# wick serve through its front door: OTLP/gRPC in, HTTP out. The server runs on CPU 0 alone, the load on CPU 1.
#
# The load is the realistic corpus (its generator lies beside the repository, needs Go): 20 services x 360 windows of ten
# seconds, 7200 requests, 3.5 M samples. Half of it goes in as fast as 16 connections can (peak), the other half at half of that
# rate (latency). WICK_BENCH_DAY=1 adds a whole day. CPU seconds are the server's own with the kernel's, until the last acknowledgement, which comes after the
# sync. WICK_BENCH_SCALE=0.2 makes it a fifth as large. The columns of others are what was measured of them on a machine of
# two cores (Pyroscope 2.2, Parca with persistence and its log), one run each.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
scale=${WICK_BENCH_SCALE:-1}
corpus=${WICK_SHARED:-../shared}/tools/corpus
ninja -C "$BUILD" src/cli/wick bench/serve_load >/dev/null
[ -n "${WICK_BENCH_CORPUS:-}" ] || { [ -d "$corpus" ] && command -v go >/dev/null; } || { echo "The corpus' generator or Go is not here: left out."; exit 0; }
tmp=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null || true; rm -rf "$tmp"' EXIT
windows=$(python3 -c "print(max(20, int(360 * $scale)))")
half=$((windows * 10))
if [ -n "${WICK_BENCH_CORPUS:-}" ]; then # made before, so that a quiet machine is not kept waiting
    otlp=$WICK_BENCH_CORPUS
else
    cp -r "$corpus" "$tmp/generator"
    (cd "$tmp/generator" && go run . base "$tmp/corpus" 20 "$windows" "$(($(date +%s) - 3700))000000000" >/dev/null 2>"$tmp/log")
    rm -rf "$tmp/corpus/pprof"
    otlp=$tmp/corpus/otlp
fi
services=("$otlp"/*)
ticks=$(getconf CLK_TCK)
export XDG_DATA_HOME=$tmp HOME=$tmp

cpu() { awk -v t="$ticks" '{print ($14 + $15) / t}' "/proc/$pid/stat"; }
memory() { awk -v k="$1:" '$1 == k {printf "%.0f", $2 / 1024}' "/proc/$pid/status"; }
now() { date +%s%N; }
calc() { python3 -c "print($1)"; }

start() { # store: sets pid, url, grpc, ready_ms
    local began line
    : >"$tmp/out"
    began=$(now)
    taskset -c 0 "$BUILD/src/cli/wick" serve --no-agent --store "$1" --http 127.0.0.1:0 --otlp-grpc 127.0.0.1:0 --otlp-http off >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    until grep -q 'is ready' "$tmp/out"; do
        kill -0 $pid 2>/dev/null || { cat "$tmp/err" >&2; exit 1; }
        sleep 0.002
    done
    ready_ms=$((($(now) - began) / 1000000))
    url=$(sed 's/.*ready: //' "$tmp/out")
    grpc=$(sed -n 's/.*OTLP\/gRPC: listening on \([0-9.:]*\).*/\1/p' "$tmp/err" | tail -1)
}

stop() { # sets stop_ms
    local began
    began=$(now)
    kill $pid
    wait $pid 2>/dev/null || true
    stop_ms=$((($(now) - began) / 1000000))
    pid=
}

load() { taskset -c 1 "$BUILD/bench/serve_load" "$grpc" "$@" "${services[@]}" 2> >(grep -v '^sending' >&2); }
ask() { taskset -c 1 python3 bench/serve_ask.py "$url$1" 15; }

start "$tmp/store"
first_ready=$ready_ms
before=$(cpu)
read -r requests failed samples seconds _ _ _ _ <<<"$(load 16 0 0 "$half")"
used=$(calc "$(cpu) - $before")
rate=$(calc "$requests / $seconds / 2")
read -r _ failed2 _ _ p50 p99 max _ <<<"$(load 16 "$rate" "$half" "$half")"
peak=$(memory VmHWM)
stop
busy_stop=$stop_ms
start "$tmp/store"
sleep 3
idle=$(memory VmRSS)
one='cpu%7Bservice.name%3D%22gateway-04%22%7D'
ten='cpu%7Bservice.name%3D~%22.*-0.%22%7D' # -00 to -09: ten of the twenty
range='from=now-3h&to=now&max_nodes=8192'
read -r flame1 bytes1 <<<"$(ask "/api/v1/flame?query=$one&$range")"
read -r flame10 bytes10 <<<"$(ask "/api/v1/flame?query=$ten&$range")"
stop

# Acknowledged, then kill -9: what comes back after it must hold at least what was acknowledged.
start "$tmp/killed"
taskset -c 1 "$BUILD/bench/serve_load" "$grpc" 16 0 0 "$half" "${services[@]}" >"$tmp/load" 2>"$tmp/sending" &
loader=$!
until grep -q sending "$tmp/sending"; do sleep 0.01; done
sleep "$(calc "0.4 * $seconds")"
kill -9 $pid
wait $pid 2>/dev/null || true
wait $loader || true
read -r _ lost_requests _ _ _ _ _ acknowledged <"$tmp/load"
start "$tmp/killed"
stored=$(curl -s "$url/api/v1/top?query=cpu&from=now-3h&to=now&limit=1" | python3 -c 'import json, sys; print(int(json.load(sys.stdin)["total"]))')
stop
kept=$(calc "'all' if $stored >= $acknowledged else 'LOST %d of %d' % ($acknowledged - $stored, $acknowledged)")
if [ -n "${WICK_BENCH_DAY:-}" ]; then # a whole day of ten services: 86,400 requests, half a minute on a quiet machine
    services=("$otlp"/*-0?)
    start "$tmp/day"
    for hour in $(seq 0 23); do SERVE_LOAD_SHIFT=-$((hour * windows * 10)) load 16 0 0 1000000 >>"$tmp/day.log" 2>/dev/null; done
    day_peak=$(memory VmHWM)
    stop
    start "$tmp/day"
    sleep 3
    day="| idle RSS with a day of ten services ($(awk '{n += $3} END {printf "%.1f", n / 1e6}' "$tmp/day.log") M samples), MB (while it was sent: $day_peak) | $(memory VmRSS) | ≤ 40 | 90–127 | 105 |"
    stop
fi
strip -o "$tmp/wick" "$BUILD/src/cli/wick"
size=$(calc "round($(stat -c %s "$tmp/wick") / 1048576, 1)")

echo "| through the front door | wick | bar | Pyroscope v2 / v1 | Parca |"
echo "|---|---|---|---|---|"
echo "| ingest to synced disk, CPU-s per million samples | $(calc "round($used / $samples * 1e6, 2)") | ≤ 0.9 | 22 / – | 55 |"
echo "| samples/s on one core ($samples samples, $((failed + failed2)) failed) | $(calc "int($samples / $seconds)") | ≥ 1,000,000 | 55 k | 33 k |"
echo "| push latency at half of peak ($(calc "int($rate)") requests/s), 16 connections, p50 / p99 / max ms | $p50 / $p99 / $max | ≤ 10 / ≤ 50 | 489 / 815 | 56 / 163 |"
echo "| flame graph JSON, one service, 1 h, ms ($bytes1 bytes) | $flame1 | ≤ 10 | 68–1,328 | 1,692 |"
echo "| flame graph JSON, ten services, 1 h, ms ($bytes10 bytes) | $flame10 | ≤ 40 | 152–2,482 | – |"
echo "| peak RSS at full ingest, MB | $peak | ≤ 150 | 263–853 | 1,760–2,540 |"
echo "| idle RSS after a restart with what was loaded, MB | $idle | ≤ 40 | 90–127 | 105 |"
[ -z "${day:-}" ] || echo "$day"
echo "| start to ready, new / with data, ms | $first_ready / $ready_ms | ≤ 500 | 16–70 s | 300 |"
echo "| clean stop after ingest, ms | $busy_stop | ≤ 2000 | – | 24,500 |"
echo "| acknowledged, then kill -9 ($((half - lost_requests)) requests acknowledged) | $kept | all | v2 20/20, v1 0/3,620 | 45–48 of 50 |"
echo "| binary, stripped, UI included, MiB | $size | ≤ 12 | 138 | 231 |"
