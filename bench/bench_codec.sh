#!/usr/bin/env bash
# OTLP decoding: protobuf-c with an arena, the Collector's Go library, json-c, yajl
#
# Shapes of requests are generated; the ebpf-profiler's real one joins when ../shared is there. CPU time, best of several
# rounds in turns; Go runs on one processor, its garbage collection counted.
set -eu
cd "$(dirname "$0")/.."
make -s all >/dev/null
dir=build/bench
mkdir -p $dir/in
protoc-c -Ibench --c_out=$dir bench/otlp_bench.proto
cc -O2 -g -fno-omit-frame-pointer -D_GNU_SOURCE -Isrc -Ibench -I$dir -o $dir/bench_codec bench/bench_codec.c bench/codec_peers.c \
    $dir/otlp_bench.pb-c.c \
    build/libwick-codec.a build/libwick-model.a build/libwick-base.a $(pkg-config --cflags --libs libprotobuf-c json-c yajl libdeflate libzstd zlib re2) -lstdc++ -lm -lpthread
(cd bench/go-otlp && go build -o ../../$dir/go-otlp .)
$dir/bench_codec generate $dir/in
for f in "${WICK_SHARED:-../shared}"/fixtures/otlp/ebpf-profiler-{2,3}.{pb,json}; do
    [ -e "$f" ] && cp -f "$f" $dir/in/
done
$dir/bench_codec $dir/in/*.pb >$dir/pb.txt
$dir/bench_codec $dir/in/*.json >$dir/json.txt
GOMAXPROCS=1 $dir/go-otlp $dir/in/*.pb $dir/in/*.json >$dir/go.txt

echo "Protobuf, MB/s of input; wick checks every index and frees the batch, protobuf-c resets its arena. Memory: bytes per"
echo "byte of request, without the request."
echo
echo "| request | bytes | wick | protobuf-c + arena | Go pdata | wick / protobuf-c | wick / Go | memory wick | memory protobuf-c |"
echo "|---|---|---|---|---|---|---|---|---|"
awk 'NR == FNR { go[$1] = $2; next }
    { printf "| %s | %d | %.0f | %.0f | %.0f | **%.2f** | **%.2f** | %.2f | %.2f |\n", $1, $2, $3, $4, go[$1], $3 / $4, $3 / go[$1], $7, $8 }' \
    $dir/go.txt $dir/pb.txt
echo
echo "Bars: ≥ 1.5 x protobuf-c, ≥ 4 x Go, memory ≤ 3."
echo
echo "JSON, MB/s. wick decodes into a batch; its reader alone passes over the text with all checks; json-c builds a tree;"
echo "yajl calls empty callbacks."
echo
echo "| request | bytes | wick | reader alone | json-c | yajl | Go pdata | wick / json-c | reader / yajl | wick / Go |"
echo "|---|---|---|---|---|---|---|---|---|---|"
awk 'NR == FNR { go[$1] = $2; next }
    { printf "| %s | %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f | **%.2f** | %.2f |\n", $1, $2, $3, $4, $5, $6, go[$1], $3 / $5, $4 / $6, $3 / go[$1] }' \
    $dir/go.txt $dir/json.txt
