#!/usr/bin/env bash
# wick pprof against go tool pprof on a profile of a million nodes
#
# bench/bench_report.sh [top|tree|dot]...: those rows alone. Best of RUNS, which is 3.
set -eu
cd "$(dirname "$0")/.."
ninja -C build all tests >/dev/null
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export PPROF_TMPDIR=$tmp
build/bench/gen_report_profile "${NODES:-1000000}" "${SAMPLES:-300000}" >"$tmp/big.pb"
go build -o "$tmp/gopprof" cmd/pprof 2>/dev/null || cp "$(go env GOROOT)/pkg/tool/$(go env GOOS)_$(go env GOARCH)/pprof" "$tmp/gopprof"

# measure NAME COMMAND...: best seconds of three runs (RUNS) and peak memory in MB, into the variables s_NAME and m_NAME
measure() {
    local name=$1 best= mem= t m i
    shift
    for ((i = 0; i < ${RUNS:-3}; i++)); do
        /usr/bin/time -f '%e %M' -o "$tmp/time" "$@" >"$tmp/out.$name" 2>/dev/null
        read -r t m < <(tail -1 "$tmp/time")
        if [ -z "$best" ] || awk "BEGIN{exit !($t < $best)}"; then best=$t; fi
        if [ -z "$mem" ] || [ "$m" -lt "$mem" ]; then mem=$m; fi
    done
    printf -v "s_$name" %s "$best"
    printf -v "m_$name" %s "$((mem / 1024))"
}

echo "| report | wick | go tool pprof | times faster (bar 5) | wick MB | go MB | share of memory (bar 0.33) | same output |"
echo "|---|---|---|---|---|---|---|---|"
for format in ${*:-top tree dot}; do
    measure wick build/src/cli/wick pprof -$format -symbolize=none "$tmp/big.pb"
    measure go "$tmp/gopprof" -$format -symbolize=none "$tmp/big.pb"
    same=no
    if cmp -s "$tmp/out.wick" "$tmp/out.go"; then same=yes; fi
    awk -v f="$format" -v a="$s_wick" -v b="$s_go" -v x="$m_wick" -v y="$m_go" -v same="$same" 'BEGIN {
        printf "| %s | %.2f s | %.2f s | %.1f | %d | %d | %.2f | %s |\n", f, a, b, b / a, x, y, x / y, same }'
done
