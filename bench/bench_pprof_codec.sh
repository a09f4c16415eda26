#!/usr/bin/env bash
# pprof decoding and encoding: google/pprof in Go, protobuf-c with an arena
#
# Generated profiles; real ones join when ../shared is there. CPU time, best of several rounds in turns; Go runs on one
# processor, its garbage collection counted. NODES is the size of the largest (default a million).
set -eu
cd "$(dirname "$0")/.."
make -s all >/dev/null
dir=build/bench
mkdir -p $dir/pprof
libs="build/libwick-codec.a build/libwick-model.a build/libwick-base.a $(pkg-config --libs libdeflate libzstd zlib re2) -lstdc++ -lm -lpthread"
protoc-c -Ibench --c_out=$dir bench/pprof_bench.proto
cc -O2 -g -D_GNU_SOURCE -Isrc -o $dir/gen_profile bench/gen_profile.c $libs
cc -O2 -g -D_GNU_SOURCE -Isrc -I$dir -o $dir/bench_pprof_codec bench/bench_pprof_codec.c $dir/pprof_bench.pb-c.c \
    $(pkg-config --cflags --libs libprotobuf-c) $libs
(cd bench/go-pprof && go build -o ../../$dir/go-pprof .)
$dir/gen_profile -n 20000 -f 4000 $dir/pprof/small.pb
$dir/gen_profile -n "${NODES:-1000000}" $dir/pprof/large.pb
for f in "${WICK_SHARED:-../shared}"/tools/corpus/base/{gotypes,httpsrv}.pb.gz; do
    [ -e "$f" ] && cp -f "$f" $dir/pprof/
done
files=$(ls $dir/pprof/*)
$dir/bench_pprof_codec $files >$dir/pprof-c.txt
GOMAXPROCS=1 $dir/go-pprof $files >$dir/pprof-go.txt

echo "MB/s of the inflated file. Memory: bytes of tables per byte of file, without the file."
echo
echo "| profile | bytes | wick | protobuf-c + arena | Go | wick / protobuf-c | wick / Go | wick, gzip | Go, gzip | ratio | memory wick | memory protobuf-c | writing: wick | Go | ratio |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
awk 'NR == FNR { go[$1] = $2; gz[$1] = $3; wr[$1] = $4; next }
    { printf "| %s | %d | %.0f | %.0f | %.0f | **%.2f** | **%.2f** | %.0f | %.0f | **%.2f** | %.2f | %.2f | %.0f | %.0f | %.2f |\n",
        $1, $2, $3, $4, go[$1], $3 / $4, $3 / go[$1], $5, gz[$1], $5 / gz[$1], $6, $7, $8, wr[$1], $8 / wr[$1] }' \
    $dir/pprof-go.txt $dir/pprof-c.txt
echo
echo "Bars: ≥ 1.5 x protobuf-c, ≥ 4 x Go (gzip counted), memory ≤ 3."
