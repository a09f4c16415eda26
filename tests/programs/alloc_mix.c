/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_mix N LIVE: N allocations of mixed sizes and kinds from two stacks, LIVE kept at a time. Prints what it did:
 * "objects bytes live_objects live_bytes small_bytes large_bytes ns_per_pair".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static struct {
    void *p;
    size_t n;
} * ring;

static volatile int dont_tail_call;

__attribute__((noinline)) void *small_alloc(size_t n)
{
    void *p = malloc(n);

    dont_tail_call++;
    return p;
}

__attribute__((noinline)) void *large_alloc(size_t n, void *old)
{
    void *p = n % 3 == 0 ? calloc(1, n) : n % 3 == 1 ? realloc(old, n) : aligned_alloc(64, (n + 63) / 64 * 64);

    if (n % 3 != 1)
        free(old);
    dont_tail_call++;
    return p;
}

int main(int argc, char **argv)
{
    long n = atol(argv[1]), live = atol(argv[2]);
    uint64_t objects = 0, bytes = 0, live_bytes = 0, small = 0, large = 0;
    struct timespec a, b;

    ring = calloc((size_t) live, sizeof *ring);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (long i = 0; i < n; i++) {
        uint64_t r = next();
        long k = (long) (r % (uint64_t) live);
        size_t size = (r >> 20) % 16 == 0 ? 4097 + (r >> 30) % 65536 : 8 + (r >> 30) % 4088;

        live_bytes -= ring[k].n;
        if (size <= 4096) {
            free(ring[k].p);
            ring[k].p = small_alloc(size);
            small += size;
        } else {
            if (size % 3 == 2)
                size = (size + 63) / 64 * 64, size += size % 3 == 2 ? 0 : 64 * (size % 3 == 0 ? 2 : 1);
            ring[k].p = large_alloc(size, ring[k].p);
            large += size;
        }
        ring[k].n = size;
        live_bytes += size;
        objects++;
        bytes += size;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    uint64_t live_objects = 0;
    for (long k = 0; k < live; k++)
        live_objects += ring[k].p != NULL;
    printf("%lu %lu %lu %lu %lu %lu %.2f\n", objects, bytes, live_objects, live_bytes, small, large,
           ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / (double) n);
    return 0;
}
