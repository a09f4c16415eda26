/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose own tracing SDK publishes otel_thread_ctx_v1 (OTEP 4947): half of its CPU is inside of a span of that. */
#include <stdint.h>
#include <string.h>
#include <time.h>

struct record {
    uint8_t trace_id[16], span_id[8], valid, flags;
    uint16_t attrs_size;
    uint8_t attrs[8];
} __attribute__((packed));

__attribute__((visibility("default"))) __thread struct record *otel_thread_ctx_v1;
static volatile uint64_t sink;

__attribute__((noinline)) static void burn(double s)
{
    struct timespec t;
    double end = 0;

    do {
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        end = end ? end : t.tv_sec + t.tv_nsec / 1e9 + s;
    } while (t.tv_sec + t.tv_nsec / 1e9 < end);
}

__attribute__((noinline)) static void inside(void)
{
    burn(0.5);
    sink++;
}

__attribute__((noinline)) static void outside(void)
{
    burn(0.5);
    sink += 2; /* else the compiler makes one function of both */
}

int main(void)
{
    struct record r = {.valid = 1};

    memset(r.trace_id, 0xab, sizeof r.trace_id);
    memset(r.span_id, 0xcd, sizeof r.span_id);
    otel_thread_ctx_v1 = &r;
    inside();
    otel_thread_ctx_v1 = 0;
    outside();
    return 0;
}
