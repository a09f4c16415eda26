/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service with libwick inside: sends its CPU profile to a collector and serves /debug/pprof/.
 *
 *     cc -O2 -g checkout.c -lwick -o checkout && ./checkout http://localhost:4317
 *     go tool pprof http://localhost:6060/debug/pprof/profile?seconds=5
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wick.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void price(int items)
{
    for (long i = 0; i < items * 2000000l; i++)
        sink = sink * 31 + (unsigned long) i;
}

__attribute__((noinline)) static void handle_request(unsigned n)
{
    uint8_t trace_id[16] = {1}, span_id[8] = {2}; /* your tracer's */

    memcpy(trace_id + 8, &n, sizeof n);
    memcpy(span_id + 4, &n, sizeof n);
    wick_span_enter(trace_id, span_id);
    wick_label_set("route", n % 3 ? "/cart" : "/checkout");
    price(n % 3 ? 1 : 5);
    wick_span_leave();
}

int main(int argc, char **argv)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;
    int port;

    o.service_name = "checkout";
    o.endpoint = argc > 1 ? argv[1] : "none";
    p = wick_provider_new(&o);
    if (!p) {
        fprintf(stderr, "profiling is off: %s\n", wick_last_error());
        return 1;
    }
    port = wick_serve_pprof(p, "localhost:6060");
    if (port < 0)
        fprintf(stderr, "no /debug/pprof: %s\n", wick_last_error());
    for (unsigned n = 0;; n++) {
        handle_request(n);
        usleep(1000);
    }
}
