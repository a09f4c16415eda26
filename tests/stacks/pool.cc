// SPDX-License-Identifier: Apache-2.0
// A pool of threads with libwick, spans and /debug/pprof/: pool SECONDS ENDPOINT PPROF. It makes its own load, and prints its own account
// of what it did, in ns.
#include <wick.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<long> account[6]; /* price, tax, render, waited, slept, slept at least */
static volatile double sink;

#define WORK(name, by) \
    __attribute__((noinline)) static void name(long n) \
    { \
        double x = sink; \
        for (long i = 0; i < n; i++) \
            x += (double) i / by; \
        sink = x; \
    }
WORK(price, 3)
WORK(tax, 7)
WORK(render, 11)

static long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void cpu(int k, void (*f)(long), long n)
{
    long begin = now(CLOCK_THREAD_CPUTIME_ID);
    f(n);
    account[k] += now(CLOCK_THREAD_CPUTIME_ID) - begin;
}

__attribute__((noinline)) static void guarded()
{
    static std::mutex lock;
    long begin = now(CLOCK_MONOTONIC);
    std::lock_guard<std::mutex> held(lock);
    account[3] += now(CLOCK_MONOTONIC) - begin;
    usleep(2000);
}

__attribute__((noinline)) static void nap()
{
    long begin = now(CLOCK_MONOTONIC);
    usleep(5000);
    account[4] += now(CLOCK_MONOTONIC) - begin;
    account[5] += 5000000;
}

static void order(std::mt19937_64 &random)
{
    uint64_t id[3] = {random(), random(), random()};
    wick_span_enter((const uint8_t *) id, (const uint8_t *) &id[2]);
    double size = 0.5 + (double) (random() % 1000) / 1000; /* no clock is in step with it */

    cpu(0, price, (long) (3600000 * size));
    cpu(1, tax, (long) (1800000 * size));
    cpu(2, render, (long) (600000 * size));
    guarded();
    nap();
    wick_span_leave();
}

int main(int, char **argv)
{
    std::mutex lock;
    std::condition_variable wake;
    std::deque<int> jobs;
    std::vector<std::thread> pool;
    bool done = false;
    struct wick_options o = WICK_OPTIONS_INIT;

    o.endpoint = argv[2];
    o.types = WICK_CPU | WICK_WALL | WICK_LOCK;
    struct wick_provider *p = wick_provider_new(&o);
    if (!p || wick_serve_pprof(p, argv[3]) < 0)
        return fprintf(stderr, "wick does not start\n"), 1;
    for (int i = 0; i < 4; i++)
        pool.emplace_back([&, i] {
            std::mt19937_64 random(i + 1);
            for (;;) {
                std::unique_lock<std::mutex> held(lock);
                wake.wait(held, [&] { return done || !jobs.empty(); });
                if (jobs.empty())
                    return;
                jobs.pop_front();
                held.unlock();
                order(random);
            }
        });
    for (long end = now(CLOCK_MONOTONIC) + atol(argv[1]) * 1000000000; now(CLOCK_MONOTONIC) < end; usleep(10000)) {
        std::lock_guard<std::mutex> held(lock);
        if (jobs.size() < 16)
            jobs.push_back(1);
        wake.notify_one();
    }
    {
        std::lock_guard<std::mutex> held(lock);
        done = true;
    }
    wake.notify_all();
    for (std::thread &t : pool)
        t.join();
    wick_provider_free(p);
    printf("{\"price\":%ld,\"tax\":%ld,\"render\":%ld,\"waited\":%ld,\"slept\":%ld,\"slept_least\":%ld,\"pid\":%d}\n",
           account[0].load(), account[1].load(), account[2].load(), account[3].load(), account[4].load(), account[5].load(), getpid());
}
