#!/usr/bin/env bash
# The web UI: a tree of a million nodes in a browser, 5 users on a day of data, and samples with times
#
# Chromium with software rendering. Prepares first, then measures: bench/bench_ui.sh [picture|views|times]... for some of it.
set -eu
cd "$(dirname "$0")/.."
ninja -C build src/cli/wick >/dev/null
tools/deps test >/dev/null
export WICK_UI_MODULES=$PWD/.cache/ui-test
tmp=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$tmp"' EXIT

# serve NAME COMMAND...: starts a server; its address (the first http:// it prints) in the variable url_NAME
serve() {
    local name=$1 i
    shift
    HOME=$tmp XDG_DATA_HOME=$tmp PPROF_TMPDIR=$tmp "$@" >"$tmp/$name.log" 2>&1 &
    pids="$pids $!"
    for ((i = 0; i < 600; i++)); do
        if grep -q 'http://' "$tmp/$name.log"; then break; fi
        sleep 0.1
    done
    printf -v "url_$name" %s "$(grep -o 'http://[^ ]*' "$tmp/$name.log" | head -1)"
}

picture() {
    python3 bench/ui_tree.py "${NODES:-1000000}" >"$tmp/big.folded"
    build/src/cli/wick convert "$tmp/big.folded" "$tmp/big.pb.gz" >/dev/null
    go build -o "$tmp/gopprof" cmd/pprof 2>/dev/null || true
    serve wick build/src/cli/wick pprof -no_browser -symbolize=none -http=localhost: "$tmp/big.pb.gz"
    url_go=
    if [ -x "$tmp/gopprof" ]; then serve go "$tmp/gopprof" -no_browser -symbolize=none -http=localhost: "$tmp/big.pb.gz"; fi
    echo "| a million nodes | wick | | bar |"
    echo "|---|---|---|---|"
    node bench/ui_bench.mjs picture "$url_wick" "$url_go"
    echo
}

views() {
    serve day build/src/cli/wick serve --store "$tmp/store" --http 127.0.0.1:0 --otlp-grpc off --otlp-http 127.0.0.1:0
    build/venv/bin/python bench/ui_day.py "http://$(grep -o 'OTLP/HTTP: listening on 127[^ "]*' "$tmp/day.log" | awk '{print $4}')"
    url_day=$(grep -o 'ready: http://[^ ]*' "$tmp/day.log" | cut -d' ' -f2)
    node bench/ui_bench.mjs questions "$url_day" >"$tmp/questions"
    users own "a day of data, 5 users at once, each asks about another range every time"
    users views "the same, users look at the same range and share answers"
}

# What is measured is read from segments, by a server that has read nothing yet.
users() {
    kill "${pids##* }" && wait "${pids##* }" || true
    serve "$1" build/src/cli/wick serve --no-agent --store "$tmp/store" --http 127.0.0.1:0 --otlp-grpc off --otlp-http 127.0.0.1:0
    echo "| $2 | warm | after a start, each for the first time | |"
    echo "|---|---|---|---|"
    node bench/ui_bench.mjs "$1" "$(grep -o 'ready: http://[^ ]*' "$tmp/$1.log" | cut -d' ' -f2)" "$tmp/questions"
    echo
}

times() {
    serve times build/src/cli/wick serve --no-agent --store "$tmp/times" --http 127.0.0.1:0 --otlp-grpc off --otlp-http 127.0.0.1:0
    echo "| samples with times | | | bar |"
    echo "|---|---|---|---|"
    url_times=$(grep -o 'ready: http://[^ ]*' "$tmp/times.log" | cut -d' ' -f2)
    build/venv/bin/python bench/ui_times.py "http://$(grep -o 'OTLP/HTTP: listening on 127[^ "]*' "$tmp/times.log" | awk '{print $4}')" "$url_times" "$tmp/chart"
    node bench/ui_bench.mjs chart "$url_times" "$(cat "$tmp/chart")"
    echo
}

for part in ${*:-picture views times}; do $part; done
