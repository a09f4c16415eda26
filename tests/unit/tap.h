/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests speak TAP. A test file is:
 *
 *     static void test_thing(void) { ok(1 + 1 == 2); eq_int(f(), 3); eq_str(g(), STR("x")); }
 *     int main(void) { tap_run(test_thing); return tap_done(); }
 *
 * tap_torture(f) calls int f(void) again and again, each time with one more allocation let through before one fails,
 * until it succeeds: it must return a negative errno whenever one failed, and leak nothing (ASan looks). tap_torture_lax()
 * is for code that is designed to succeed without some of its allocations.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static int tap_n, tap_failed, tap_bad;

#define tap_fail(...)                            \
    do {                                         \
        tap_bad++;                               \
        printf("# %s:%d: ", __FILE__, __LINE__); \
        printf(__VA_ARGS__);                     \
        printf("\n");                            \
    } while (0)

#define ok(cond)                             \
    do {                                     \
        if (!(cond))                         \
            tap_fail("not true: %s", #cond); \
    } while (0)

#define eq_int(got, want)                                                   \
    do {                                                                    \
        int64_t got_ = (int64_t) (got), want_ = (int64_t) (want);           \
        if (got_ != want_)                                                  \
            tap_fail("%s is %" PRId64 ", not %" PRId64, #got, got_, want_); \
    } while (0)

#define eq_str(got, want)                                                              \
    do {                                                                               \
        struct str got_ = (got), want_ = (want);                                       \
        if (!str_eq(got_, want_))                                                      \
            tap_fail("%s is '%.*s', not '%.*s'", #got, STR_FMT(got_), STR_FMT(want_)); \
    } while (0)

static inline void tap_end(const char *name)
{
    tap_n++;
    if (tap_bad)
        tap_failed++;
    printf("%sok %d - %s\n", tap_bad ? "not " : "", tap_n, name);
    fflush(stdout);
    tap_bad = 0;
}

#define tap_run(f)   \
    do {             \
        f();         \
        tap_end(#f); \
    } while (0)

#define tap_skip(name, why) printf("ok %d - %s # SKIP %s\n", ++tap_n, name, why)

static inline void tap_torture_(int (*f)(void), const char *name, bool may_go_on)
{
    int told = 0;

    for (unsigned long n = 1; n < 100000; n++) {
        unsigned long before = mem_count();
        int r;

        mem_fail_at(n, false);
        r = f();
        mem_fail_at(0, false);
        if (r < 0 && mem_count() - before < n) {
            tap_fail("%s failed with %d though no allocation did (n = %lu)", name, r, n);
            break;
        }
        if (mem_count() - before < n) /* ran through without reaching the one that fails */
            break;
        if (r >= 0 && !may_go_on && told++ < 5)
            tap_fail("%s returned %d although allocation %lu failed", name, r, n);
    }
    tap_end(name);
}
#define tap_torture(f) tap_torture_(f, "torture " #f, false)
/* For what is right to succeed without some allocation; why says which one it is. */
#define tap_torture_lax(f, why) tap_torture_(f, "torture " #f " (" why ")", true)

static inline int tap_done(void)
{
    printf("1..%d\n", tap_n);
    return tap_failed ? 1 : 0;
}

#endif
