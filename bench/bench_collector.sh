#!/usr/bin/env bash
# wick collector against the OpenTelemetry Collector 0.159, one core each
#
# Both sides get the same requests over gRPC in the same run: the server on CPU 0, load and sink on CPU 1. CPU seconds are
# the server's own, kernel included, from the first request to an empty queue.
set -eu
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-5}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null; rm -rf "$work"' EXIT
peer=$PWD/build/bench-peer/collector
mkdir -p "$(dirname "$peer")"
(cd tests/go/collector && go build -o "$peer" .) >&2
tools/deps test >&2
for seed in 1 2 3 4; do build/venv/bin/python bench/otlp_request.py "$work/$seed.pb" $seed >/dev/null; done
samples=1000

config() { # processors exporter-yaml
    cat <<EOF
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:24317"}}}}
$([ -n "$1" ] && echo "processors: {$1}")
exporters: {$2}
service:
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  pipelines:
    profiles:
      receivers: [otlp]
      processors: [$(echo "$1" | sed 's/:.*//')]
      exporters: [$(echo "$2" | sed 's/:.*//')]
EOF
}

cpu() { awk '{print ($14 + $15) / '"$(getconf CLK_TCK)"'}' "/proc/$1/stat"; }

# Prints: cpu-seconds per million samples, peak RSS in MB, requests per second, bytes that the sink got per request
measure() { # config command...
    local conf=$1 sink pid before after out requests
    shift
    taskset -c 1 "$peer" sink 127.0.0.1:24318 >"$work/sink" &
    sink=$!
    taskset -c 0 "$@" --config "$conf" >"$work/log" 2>&1 &
    pid=$!
    for _ in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/24317) 2>/dev/null && break || sleep 0.1; done
    sleep 0.5
    before=$(cpu $pid)
    out=$(taskset -c 1 "$peer" load -duration "${seconds}s" 127.0.0.1:24317 "$work"/[1-4].pb 2>>"$work/log")
    after=$(cpu $pid)
    for _ in $(seq 60); do # until the queue is empty: it has nothing left to do
        sleep 0.5
        last=$after
        after=$(cpu $pid)
        awk -v a="$last" -v b="$after" 'BEGIN{exit !(b - a < 0.02)}' && break
    done
    rss=$(awk '/VmHWM/{print $2 / 1024}' "/proc/$pid/status")
    kill $pid
    wait $pid 2>/dev/null || true
    kill $sink
    wait $sink 2>/dev/null || true
    requests=$(echo "$out" | sed 's/requests=\([0-9]*\).*/\1/')
    echo "$out" | grep -q 'failed=0 ' || echo "some requests failed: $out" >&2
    awk -v c="$(echo "$before $after" | awk '{print $2 - $1}')" -v n="$requests" -v s="$samples" -v rss="$rss" -v t="$seconds" \
        -v wire="$(sed -n 's/.*wire_bytes=//p' "$work/sink")" 'BEGIN {
        printf "%.3f %.0f %.0f %.0f\n", c / (n * s / 1e6), rss, n / t, wire / n }'
}

row() { # name bar otelcol-config wick-config
    read -r oc orss orate owire <<<"$(GOMAXPROCS=1 measure "$3" "$peer" run --feature-gates=service.profilesSupport)"
    read -r wc wrss wrate wwire <<<"$(measure "$4" build/src/cli/wick collector --loops 1)"
    echo "| $1 | $oc | $wc | $(awk -v a="$oc" -v b="$wc" 'BEGIN{printf "%.2f", b / a}') | $2 | $orss | $wrss | $orate | $wrate | $(awk -v a="$owire" -v b="$wwire" 'BEGIN{if (a) printf "%.2f", b / a; else print "–"}') |"
}

queue='sending_queue: {queue_size: 64, num_consumers: 4, block_on_overflow: true}'
forward() { echo "otlp_grpc: {endpoint: \"127.0.0.1:24318\", tls: {insecure: true}, compression: $1, timeout: 30s, $2}"; }
resource='resource: {attributes: [{key: deployment.environment, value: production, action: upsert}]}'
config "" "nop: {}" >"$work/nop.yaml"
config "$resource" "$(forward none "$queue")" >"$work/resource.yaml"
config "" "$(forward gzip "$queue")" >"$work/gzip.yaml"
config "" "$(forward none 'sending_queue: {queue_size: 60000, sizer: items, num_consumers: 4, block_on_overflow: true, batch: {min_size: 8192, max_size: 20000, flush_timeout: 200ms}}')" >"$work/queue-batch.yaml"
config "batch: {send_batch_size: 8192}" "$(forward none "$queue")" >"$work/batch.yaml"

echo "| work | Collector CPU-s/M samples | wick CPU-s/M | wick / Collector | bar | Collector RSS MB | wick RSS MB | Collector req/s | wick req/s | bytes out, wick / Collector |"
echo "|---|---|---|---|---|---|---|---|---|---|"
row "receive, decode, validate, drop" "≤ 0.33" "$work/nop.yaml" "$work/nop.yaml"
row "receive, resource, forward uncompressed" "≤ 0.33" "$work/resource.yaml" "$work/resource.yaml"
row "forward with gzip" "≤ 0.25, bytes ≤ 1.10" "$work/gzip.yaml" "$work/gzip.yaml"
row "batch 8192 and forward (Collector: sending_queue.batch)" "≤ 0.125" "$work/queue-batch.yaml" "$work/batch.yaml"
row "sending_queue.batch on both sides" "–" "$work/queue-batch.yaml" "$work/queue-batch.yaml"

build/src/cli/wick collector --config "$work/nop.yaml" >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/24317) 2>/dev/null && break || sleep 0.1; done
read -r connections errors rss <<<"$(build/venv/bin/python bench/idle_connections.py 24317 $pid)"
echo
echo "$connections idle plaintext HTTP/2 connections: $rss MB in all, $errors errors (bar: 10000, ≤ 200 MB, none)"
