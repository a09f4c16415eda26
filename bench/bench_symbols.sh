#!/usr/bin/env bash
# Names, lines and inlined calls of addresses, beside llvm-symbolizer and addr2line
#
# One process each, from start to end, over addresses that are spread through a binary with debug information (wick's own;
# BINARY names another). Best of RUNS; the last column compares all frames with llvm-symbolizer's.
set -eu
cd "$(dirname "$0")/.."
ninja -C build src/cli/wick tests/unit/symbolize_addresses >/dev/null
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
binary=$(readlink -f "${BINARY:-build/src/cli/wick}")
objdump -d --no-show-raw-insn "$binary" | sed -n 's/^ *\([0-9a-f]\{4,\}\):.*/\1/p' >"$tmp/all"

run() { # seconds and MB of COMMAND <input: best of RUNS, into the file out
    local in=$1 out=$2 best= t m mem=
    shift 2
    for _ in $(seq "${RUNS:-3}"); do
        /usr/bin/time -f '%e %M' -o "$tmp/time" "$@" <"$in" >"$out" 2>/dev/null
        read -r t m < <(tail -1 "$tmp/time")
        if [ -z "$best" ] || awk "BEGIN{exit !($t < $best)}"; then best=$t; fi
        if [ -z "$mem" ] || [ "$m" -lt "$mem" ]; then mem=$m; fi
    done
    echo "$best $((mem / 1024))"
}

frames() { # llvm-symbolizer's JSON lines as "address|name|file|line|column|start"
    python3 -c '
import json, sys
for line in sys.stdin:
    a = json.loads(line)
    for s in a["Symbol"]:
        if s["FunctionName"] or s["FileName"]:
            print(a["Address"][2:], s["FunctionName"], s["FileName"], s["Line"], s["Column"], s["StartLine"], sep="|")'
}

echo "| addresses | wick | llvm-symbolizer | addr2line | wick / llvm-symbolizer | wick / addr2line | MB: wick | llvm-symbolizer | addr2line | equal frames |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for n in ${ADDRESSES:-100 2000 50000}; do
    awk -v n="$n" '{a[NR] = $1} END {for (i = 0; i < n && i < NR; i++) print a[1 + int(i * NR / n)]}' "$tmp/all" >"$tmp/hex"
    sed 's/^/CODE "'"${binary//\//\\/}"'" 0x/' "$tmp/hex" >"$tmp/llvm"
    read -r w wm <<<"$(run "$tmp/hex" "$tmp/wick.out" build/tests/unit/symbolize_addresses "$binary")"
    read -r l lm <<<"$(run "$tmp/llvm" "$tmp/llvm.out" llvm-symbolizer --inlining -demangle=false --output-style=JSON)"
    read -r a am <<<"$(run "$tmp/hex" /dev/null addr2line -f -i -e "$binary")"
    frames <"$tmp/llvm.out" | sort >"$tmp/want"
    sort "$tmp/wick.out" >"$tmp/got"
    awk -v n="$n" -v w="$w" -v l="$l" -v a="$a" -v wm="$wm" -v lm="$lm" -v am="$am" -v all="$(wc -l <"$tmp/want")" \
        -v same="$(comm -12 "$tmp/want" "$tmp/got" | wc -l)" 'BEGIN {
        printf "| %d | %.2f s | %.2f s | %.2f s | %.2f | %.2f | %d | %d | %d | %d of %d |\n",
            n, w, l, a, w / l, w / a, wm, lm, am, same, all }'
done
