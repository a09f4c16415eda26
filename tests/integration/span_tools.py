# SPDX-License-Identifier: Apache-2.0
"""Spans of samples in OTLP JSON files, and a program that publishes some."""
import json
from collections import Counter

# The record of OTEP 4947; one thread works in span b0 and then outside of it, another in span b1. With -DTURN_MS=N that goes on until
# the program is killed, N ms in each.
PUBLISHER = r'''
#include <string.h>
#include <stdlib.h>
struct record { unsigned char trace[16], span[8], valid, flags; unsigned short n; } __attribute__((packed));
__attribute__((visibility("default"))) __thread struct record *otel_thread_ctx_v1;
void span_enter(unsigned char id)
{
    struct record *r = otel_thread_ctx_v1 ? otel_thread_ctx_v1 : calloc(1, sizeof *r);
    memset(r->trace, id, 16);
    memset(r->span, id, 8);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    r->valid = 1;
    otel_thread_ctx_v1 = r;
}
void span_leave(void) { otel_thread_ctx_v1->valid = 0; }
'''
MAIN = r'''
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#ifdef LATE
#include <dlfcn.h>
static void (*span_enter)(unsigned char), (*span_leave)(void);
#elif defined(LIBWICK)
#include <string.h>
#include "wick.h"
static void span_enter(unsigned char id) { unsigned char v[16]; memset(v, id, 16); wick_span_enter(v, v); }
static void span_leave(void) { wick_span_leave(); }
#else
void span_enter(unsigned char id);
void span_leave(void);
#endif
volatile unsigned long sink;
static long cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
#ifndef TURN_MS
#define TURN_MS 0
#endif
__attribute__((noinline)) void work(void)
{
    for (long end = cpu_ms() + (TURN_MS ? TURN_MS : 250); cpu_ms() < end;)
        for (int i = 0; i < 100000; i++) sink += i;
}
__attribute__((noinline)) void in_b0(void) { work(); }
__attribute__((noinline)) void in_b1(void) { work(); }
__attribute__((noinline)) void outside(void) { work(); }
static void *second(void *p) { span_enter(0xb1); in_b1(); span_leave(); return p; }
static void *third(void *p) { outside(); return p; }
int main(int argc, char **argv)
{
    pthread_t t;
#ifdef LATE
    void *h = dlopen(argv[1], RTLD_NOW);
    span_enter = (void (*)(unsigned char)) dlsym(h, "span_enter");
    span_leave = (void (*)(void)) dlsym(h, "span_leave");
#endif
    if (!TURN_MS) {
        work(); /* in no span: the first samples come before the process has been read, for which there is time */
        sleep(1);
    }
    do {
        span_enter(0xb0);
        in_b0();
        span_leave();
        pthread_create(&t, NULL, second, NULL); pthread_join(t, NULL);
        pthread_create(&t, NULL, third, NULL); pthread_join(t, NULL);
    } while (TURN_MS);
    return 0;
}
'''


def spans_of(path, functions):
    """(function on the stack, span id or "", its value) of each sample of an OTLP JSON file."""
    for line in path.read_text().splitlines():
        request = json.loads(line)
        d = request["dictionary"]

        def names(stack):
            for i in d["stackTable"][stack].get("locationIndices", []):
                for x in d["locationTable"][i].get("lines", []):
                    yield d["stringTable"][d["functionTable"][x.get("functionIndex", 0)].get("nameStrindex", 0)]

        for r in request["resourceProfiles"]:
            for p in [p for s in r["scopeProfiles"] for p in s["profiles"]]:
                for x in p.get("samples", []):
                    where = set(names(x.get("stackIndex", 0))) & set(functions)
                    span = d["linkTable"][x.get("linkIndex", 0)].get("spanId", "") if x.get("linkIndex") else ""
                    for w in where:
                        yield w, span, sum(map(int, x.get("values", []))) or len(x.get("timestampsUnixNano", []))


def judge_spans(path):
    """Of a recording of MAIN: each function has its span, and what is outside of all has none."""
    seen = Counter()
    for where, span, weight in spans_of(path, ("in_b0", "in_b1", "outside")):
        seen[where, span] += weight
    for where in ("in_b0", "in_b1", "outside"):
        total = sum(v for (w, _), v in seen.items() if w == where)
        want = where[3:] * 8 if where != "outside" else ""
        assert total > 0, seen
        assert seen[where, want] >= 0.9 * total, seen
    assert not [k for k in seen if k[0] == "outside" and k[1]], seen
