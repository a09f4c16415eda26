/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop's timers and calls, and addresses. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/address.h"
#include "net/loop.h"
#include "tap.h"

/* --- the loop --- */
static int fired[8], n_fired;

struct numbered {
    struct loop_timer t;
    struct loop_call call;
    int number;
};

static void note_timer(struct loop_timer *t)
{
    fired[n_fired++] = container_of(t, struct numbered, t)->number;
}

static void note_call(struct loop_call *c)
{
    fired[n_fired++] = container_of(c, struct numbered, call)->number;
}

static void test_timers(void)
{
    struct numbered t[6] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}, {.number = 5}};
    struct loop *l;
    int64_t now = clock_mono();

    eq_int(loop_new(&l, NULL), 0);
    n_fired = 0;
    for (int i = 0; i < 6; i++)
        t[i].t.fire = note_timer;
    loop_timer_set(l, &t[3].t, now + 3 * NS_PER_MS);
    loop_timer_set(l, &t[1].t, now + 1 * NS_PER_MS);
    loop_timer_set(l, &t[2].t, now + 2 * NS_PER_MS);
    loop_timer_set(l, &t[5].t, now + 5 * NS_PER_MS);
    loop_timer_set(l, &t[4].t, now + 1 * NS_PER_MS);
    loop_timer_set(l, &t[4].t, now + 4 * NS_PER_MS); /* moved */
    loop_timer_cancel(&t[2].t);
    while (n_fired < 4 && clock_mono() < now + NS_PER_S)
        loop_run_once(l, -1);
    eq_int(n_fired, 4);
    eq_int(fired[0] * 1000 + fired[1] * 100 + fired[2] * 10 + fired[3], 1345);
    loop_free(l);
}

/* The heap against a plain scan. */
static void test_many_timers(void)
{
    enum { N = 500 };
    static struct numbered t[N];
    struct loop *l;
    uint64_t seed = 1;
    int64_t now = clock_mono(), last = 0;

    eq_int(loop_new(&l, NULL), 0);
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        t[i] = (struct numbered){.t.fire = note_timer};
        loop_timer_set(l, &t[i].t, now + NS_PER_S * 100 + (int64_t) (seed >> 40));
    }
    for (int i = 0; i < N; i += 3)
        loop_timer_cancel(&t[i].t);
    for (int left = N - (N + 2) / 3; left; left--) {
        int best = -1;

        for (int i = 0; i < N; i++)
            if (t[i].t.loop && (best < 0 || t[i].t.at < t[best].t.at))
                best = i;
        ok(t[best].t.at >= last);
        last = t[best].t.at;
        loop_timer_cancel(&t[best].t);
    }
    loop_free(l);
}

static void test_calls(void)
{
    struct numbered a = {.number = 1, .call.run = note_call}, b = {.number = 2, .call.run = note_call},
                    c = {.number = 3, .call.run = note_call};
    struct loop *l;

    eq_int(loop_new(&l, NULL), 0);
    n_fired = 0;
    loop_defer(l, &b.call);
    loop_defer(l, &b.call);
    loop_defer(l, &c.call);
    loop_defer_cancel(l, &c.call);
    eq_int(loop_post(l, &a.call), 0);
    loop_run_once(l, 0);
    eq_int(n_fired, 2);
    eq_int(fired[0] * 10 + fired[1], 12);
    loop_free(l);
}

/* --- addresses --- */
static void test_addresses(void)
{
    struct address_parts p;
    struct address a;
    struct err e;
    char text[ADDRESS_TEXT_MAX];
    int fd, second;

    eq_int(address_split("[::1]:4317", NULL, &p, NULL), 0);
    ok(strcmp(p.host, "::1") == 0 && strcmp(p.port, "4317") == 0);
    eq_int(address_split(":80", NULL, &p, NULL), 0);
    ok(!p.host[0]);
    eq_int(address_split("4040", NULL, &p, NULL), 0);
    ok(!p.host[0] && strcmp(p.port, "4040") == 0);
    eq_int(address_split("host", "99", &p, NULL), 0);
    ok(strcmp(p.host, "host") == 0 && strcmp(p.port, "99") == 0);
    eq_int(address_split("host", NULL, &p, NULL), -EINVAL);
    eq_int(address_split("host:70000", NULL, &p, NULL), -EINVAL);
    eq_int(address_split("127.0.0.1:0", NULL, &p, NULL), 0);
    eq_int(address_numeric(&p, &a), 0);
    ok(address_is_loopback(&a));
    eq_int(address_listen(&a, &fd, &a, &e), 0);
    address_format(&a, text, sizeof text);
    ok(strncmp(text, "127.0.0.1:", 10) == 0);
    eq_int(address_listen(&a, &second, NULL, &e), -EADDRINUSE);
    ok(strstr(e.message, "test_loop") && strstr(e.message, "process")); /* the holder is this very program */
    close(fd);
}

static void spin(struct loop_call *c)
{
    struct timespec from, t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((t.tv_sec - from.tv_sec) * NS_PER_S + t.tv_nsec - from.tv_nsec < 30 * NS_PER_MS);
    note_call(c);
}

/* The diagnostic mode tells of a callback that takes longer than its limit of CPU time, and of no other. */
static void test_watchdog(void)
{
    struct numbered c[2] = {{.call.run = spin, .number = 0}, {.call.run = note_call, .number = 1}};
    int fds[2], old = dup(STDERR_FILENO);
    char text[512] = "";
    struct loop *l;
    ssize_t n;

    ok(pipe(fds) == 0);
    setenv("WICK_LOOP_LIMIT_MS", "10", 1);
    eq_int(loop_new(&l, NULL), 0);
    dup2(fds[1], STDERR_FILENO);
    loop_defer(l, &c[0].call);
    loop_defer(l, &c[1].call);
    loop_run_once(l, 0);
    dup2(old, STDERR_FILENO);
    close(fds[1]);
    n = read(fds[0], text, sizeof text - 1);
    ok(n > 0 && strstr(text, "event loop: a callback (deferred) ran for"));
    ok(strchr(text, '\n') == strrchr(text, '\n'));
    unsetenv("WICK_LOOP_LIMIT_MS");
    loop_free(l);
    eq_int(loop_new(&l, NULL), 0); /* off again */
    loop_free(l);
    close(fds[0]);
    close(old);
}

int main(void)
{
    tap_run(test_timers);
    tap_run(test_many_timers);
    tap_run(test_calls);
    tap_run(test_addresses);
    tap_run(test_watchdog);
    return tap_done();
}
