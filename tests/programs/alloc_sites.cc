// SPDX-License-Identifier: Apache-2.0
/*
 * alloc_sites INTERVAL N KIND: N allocations of mixed sizes from 48 call sites, a part of them kept to the end. KIND is malloc
 * or new. Prints a line per site: "name objects bytes live_objects live_bytes" and the variances that sampling with that
 * interval has for the four: an allocation of s bytes is seen with probability p = 1 - exp(-s / interval) and then counts
 * 1 / p times, so each adds (1 - p) / p, and s * s times that for bytes.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

static double interval;
static bool by_new;
static uint64_t state = 88172645463325252ull;
static volatile int no_tail_call;

static uint64_t next()
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

struct sums {
    double objects, bytes, live_objects, live_bytes, v[4];
    void add(size_t n, int sign, bool live)
    {
        double p = -std::expm1(-(double) n / interval), v1 = (1 - p) / p, b = (double) n * n * v1;
        if (!live) {
            objects++, bytes += n, v[0] += v1, v[1] += b;
        }
        live_objects += sign, live_bytes += sign * (double) n, v[2] += sign * v1, v[3] += sign * b;
    }
};

#define SITE(i)                                            \
    __attribute__((noinline)) void *site_##i(size_t n)     \
    {                                                      \
        void *p = by_new ? ::operator new(n) : malloc(n);  \
        no_tail_call = i;                                  \
        return p;                                          \
    }
#define ALL(X)                                                                                                     \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)  \
    X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32) X(33) X(34) X(35) X(36) X(37)    \
    X(38) X(39) X(40) X(41) X(42) X(43) X(44) X(45) X(46) X(47)
ALL(SITE)
#define NAME(i) site_##i,
static void *(*const makers[])(size_t) = {ALL(NAME)};
constexpr int SITES = sizeof makers / sizeof makers[0];

static void give_back(void *p)
{
    if (by_new)
        ::operator delete(p);
    else
        free(p);
}

int main(int argc, char **argv)
{
    constexpr int KEPT = 16384;
    static struct {
        void *p;
        size_t n;
        int site;
    } kept[KEPT];
    static sums s[SITES];
    long n = atol(argv[2]);

    interval = atof(argv[1]);
    by_new = !strcmp(argv[3], "new");
    for (long i = 0; i < n; i++) {
        uint64_t r = next();
        int where = (int) (r % SITES);
        size_t base = (size_t) (64 << where % 12), size = base + (r >> 16) % base; /* from 64 bytes to 256 KiB */
        auto &k = kept[(r >> 40) % KEPT];

        if (k.p) {
            s[k.site].add(k.n, -1, true);
            give_back(k.p);
        }
        k.p = makers[where](size);
        k.n = size;
        k.site = where;
        s[where].add(size, 1, false);
    }
    for (int i = 0; i < SITES; i++)
        printf("site_%d %.0f %.0f %.0f %.0f %.9g %.9g %.9g %.9g\n", i, s[i].objects, s[i].bytes, s[i].live_objects,
               s[i].live_bytes, s[i].v[0], s[i].v[1], s[i].v[2], s[i].v[3]);
    return 0;
}
