<?php
// SPDX-License-Identifier: Apache-2.0
// A service that prices orders. By itself it sends what Excimer (pecl install excimer; Debian: php-excimer) sees, as folded stacks:
//
//     WICK_URL=http://localhost:4040 php checkout.php

const HZ = 100;

function price_item(int $n): int
{
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total = ($total * 31 + $i) % 1000003;
    }
    return $total;
}

function encode_order(array $items): string
{
    return json_encode($items);
}

function handle_order(int $n): string
{
    return encode_order(array_map(fn () => price_item(40 * (2000 + $n % 7)), range(1, 20)));
}

function send_profile(string $wick, ExcimerLog $log, int $from): void
{
    $url = "$wick/ingest?name=checkout-php&format=folded&units=samples&sampleRate=" . HZ . "&from=$from&until=" . time();
    $request = ['method' => 'POST', 'header' => 'Content-Type: text/plain', 'content' => $log->formatCollapsed(), 'timeout' => 5];
    if (@file_get_contents($url, false, stream_context_create(['http' => $request])) === false) {
        fwrite(STDERR, "not sent: " . (error_get_last()['message'] ?? '') . "\n");
    }
}

function serve_orders(?string $wick, float $every): void
{
    $profiler = null;
    if ($wick) {
        $profiler = new ExcimerProfiler();
        $profiler->setEventType(EXCIMER_CPU);
        $profiler->setPeriod(1 / HZ);
        $profiler->start();
    }
    for ($n = 0, $from = time(), $next = microtime(true) + $every; ; $n++) {
        handle_order($n);
        usleep(5000);
        if ($profiler && microtime(true) >= $next) {
            send_profile($wick, $profiler->flush(), $from);
            $from = time();
            $next = microtime(true) + $every;
        }
    }
}

serve_orders(getenv('WICK_URL') ?: null, (float) (getenv('WICK_EVERY') ?: 10));
