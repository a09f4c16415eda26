#!/usr/bin/env bash
# The store against its bars, beside memcpy and zstd
#
# WICK_BENCH_SCALE=0.1 makes it a tenth as large. The realistic corpus is used where its generator is there (tools/corpus
# beside the repository, needs Go), else left out.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
scale=${WICK_BENCH_SCALE:-1}
ninja -C "$BUILD" bench/bench_store >/dev/null
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bench="$BUILD/bench/bench_store"
part() { python3 -c "import sys; print(max(int(sys.argv[2]), int(float(sys.argv[1]) * $scale)))" "$1" "$2"; }

echo "### Store (scale $scale)"
echo
echo "| what | measured | bar |"
echo "|---|---|---|"
$bench limits
echo "| **synthetic: 50 services x $(part 360 30) windows x 1000 rows** | | |"
$bench synthetic "$tmp/synthetic" 50 "$(part 360 30)" 1000
rm -rf "$tmp/synthetic"
echo "| **a day: 50 services, $(part 8640 860) profiles of each, 60 rows in a profile** | | |"
$bench day "$tmp/day" 50 "$(part 8640 860)" 60
rm -rf "$tmp/day"
corpus=${WICK_SHARED:-../shared}/tools/corpus
if [ -d "$corpus" ] && command -v go >/dev/null; then
    cp -r "$corpus" "$tmp/generator"
    if (cd "$tmp/generator" && go run . base "$tmp/corpus" "$(part 50 5)" "$(part 360 36)" 1700000000000000000 >/dev/null 2>"$tmp/log"); then
        echo "| **realistic corpus, $(part 50 5) services** | | |"
        $bench files "$tmp/files" "$tmp/corpus/otlp"
    else
        echo "| realistic corpus | not made: $(tail -1 "$tmp/log") | |"
    fi
    rm -rf "$tmp/corpus" "$tmp/files"
fi
echo "| **agent: 300 processes, $(part 240 20) minutes, 8 CPUs** | | |"
$bench agent "$tmp/agent" 300 "$(part 240 20)"
echo "| **a month** | | |"
$bench month "$tmp/month" "$(part 30 3)"
echo "| **$(part 20000 2000) pids** | | |"
$bench pids "$tmp/pids" "$(part 20000 2000)"
