/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two sources of one process is counted, and how much of its profiles (store/process_sources.h). */
#include "base/clock.h"
#include "store/process_sources.h"
#include "tap.h"

enum { SDK = 5, OTHER = 3, AGENT = 7 };
enum { NOT_COUNTED = -1 };

/* How much of a profile is counted that has 10 for each second. */
static int64_t count(struct sources *s, uint64_t process, uint64_t source, int64_t start, int64_t end, bool spans)
{
    int64_t value;

    return sources_count(s,
                         &(struct sources_profile){.process = {0, process},
                                                   .source = {0, source},
                                                   .start = start * NS_PER_S,
                                                   .end = end * NS_PER_S,
                                                   .value = 10 * (end - start),
                                                   .rank = spans           ? SOURCES_SPANS
                                                           : source == SDK ? SOURCES_SDK
                                                                           : SOURCES_AGENT},
                         &value)
               ? value
               : NOT_COUNTED;
}

/* Two sources of one rank: the same one is counted, whichever came first. */
static void test_one_is_counted(void)
{
    struct sources s = {0};

    eq_int(count(&s, 7, OTHER, 0, 10, false), 100);
    eq_int(count(&s, 7, AGENT, 2, 12, false), NOT_COUNTED);
    eq_int(count(&s, 7, OTHER, 10, 20, false), 100);
    eq_int(count(&s, 7, AGENT, 12, 22, false), NOT_COUNTED);
    eq_int(count(&s, 8, AGENT, 12, 22, false), 100); /* another process */
    eq_int(count(&s, 8, OTHER, 20, 30, false), 80);  /* two seconds of it were counted */
    eq_int(count(&s, 8, AGENT, 22, 32, false), NOT_COUNTED);
    eq_int(count(&s, 8, OTHER, 30, 40, false), 100);
    eq_int(count(&s, 8, OTHER, 30, 40, false), 100); /* another profile of the same time and source */
    sources_done(&s);
}

enum { LIBWICK = 2 };

/* wick's agent sends the time before libwick started, or after it ended, apart (WITHOUT), and the time in which libwick sends, too (ALSO). */
enum part { WITHOUT, ALSO, OF_LIBWICK };

static int64_t part(struct sources *s, enum part part, uint64_t process, uint64_t number, int64_t start, int64_t end)
{
    struct sources_profile p = {.process = {0, process},
                                .number = {0, number},
                                .source = {0, part == OF_LIBWICK ? LIBWICK : AGENT},
                                .complement = {0, part == WITHOUT ? LIBWICK : 0},
                                .start = start * NS_PER_S,
                                .end = end * NS_PER_S,
                                .value = 10 * (end - start),
                                .rank = part == OF_LIBWICK ? SOURCES_LIBWICK : SOURCES_AGENT};
    int64_t value;

    return sources_count(s, &p, &value) ? value : NOT_COUNTED;
}

/* A program that sends its profiles to another server is not missing from the one of its host. */
static void test_sent_elsewhere(void)
{
    struct sources s = {0};

    eq_int(part(&s, WITHOUT, 7, 70, 0, 3), 30);
    for (int64_t t = 3; t < 300; t += 5)
        eq_int(part(&s, ALSO, 7, 70, t, t + 5), 50);
    eq_int(part(&s, WITHOUT, 7, 70, 303, 310), 70);
    sources_done(&s);
}

/* One that sends them to the same server is counted once, whatever is first, and whatever it is called there. */
static void test_sent_here(void)
{
    for (uint64_t name = 7; name < 9; name++) { /* 8: in a container */
        struct sources s = {0};

        eq_int(part(&s, WITHOUT, 7, 70, 0, 5), 50); /* libwick started after 3 s, the profile ends after 5 */
        eq_int(part(&s, ALSO, 7, 70, 3, 5), 20);
        eq_int(part(&s, ALSO, 7, 70, 5, 10), 50);
        eq_int(part(&s, OF_LIBWICK, name, 70, 3, 13), 30); /* 70 of it were counted */
        eq_int(part(&s, ALSO, 7, 70, 10, 15), NOT_COUNTED);
        eq_int(part(&s, OF_LIBWICK, name, 70, 13, 23), 100);
        eq_int(part(&s, WITHOUT, 7, 70, 23, 28), 50); /* it ended */
        eq_int(part(&s, WITHOUT, 7, 70, 28, 200), 1720);
        eq_int(part(&s, ALSO, 7, 70, 200, 205), 50); /* it started again, and sends elsewhere */
        eq_int(part(&s, ALSO, 7, 70, 205, 210), 50);
        sources_done(&s);
    }
}

/* After an exec, the pid is that of another program with libwick; a number is no way to take over the count of another one. */
static void test_numbers(void)
{
    struct sources s = {0};
    int wrong = 0;

    eq_int(part(&s, OF_LIBWICK, 7, 70, 0, 10), 100);
    eq_int(part(&s, ALSO, 7, 70, 0, 10), NOT_COUNTED);
    eq_int(part(&s, ALSO, 7, 71, 10, 20), 100);
    eq_int(part(&s, OF_LIBWICK, 9, 71, 10, 20), 0);
    for (uint64_t i = 1000; i < 300000; i++)
        wrong += part(&s, ALSO, 7, i, 20, 30) != 100;
    eq_int(wrong, 0);
    ok(s.n_numbers <= 65536 && s.n <= 65536);
    sources_done(&s);
}

/* Values that only a hostile sender has: sums of what was counted do not overflow (UBSan). */
static void test_huge_values(void)
{
    struct sources s = {0};
    int64_t value;

    for (int64_t i = 0; i < 1000; i++) {
        struct sources_profile p = {
            .process = {0, 7}, .source = {0, OTHER}, .start = i, .end = i + 1, .value = INT64_MAX, .rank = SOURCES_SDK};

        ok(sources_count(&s, &p, &value) && value == INT64_MAX);
    }
    eq_int(count(&s, 7, AGENT, 0, 10, false), 0);
    sources_done(&s);
}

/* An agent counts all CPU time; an SDK may count wall-clock time, or have gaps. */
static void test_agent_wins(void)
{
    struct sources s = {0};

    eq_int(count(&s, 7, SDK, 0, 10, false), 100);
    eq_int(count(&s, 7, AGENT, 2, 12, false), 20);
    eq_int(count(&s, 7, SDK, 10, 20, false), NOT_COUNTED);
    eq_int(count(&s, 7, AGENT, 12, 22, false), 100);
    eq_int(count(&s, 7, SDK, 20, 30, false), NOT_COUNTED);
    eq_int(count(&s, 8, AGENT, 0, 10, false), 100); /* in the other order */
    eq_int(count(&s, 8, SDK, 5, 15, false), NOT_COUNTED);
    eq_int(count(&s, 8, SDK, 15, 25, false), NOT_COUNTED);
    eq_int(count(&s, 8, SDK, 30, 40, true), 100); /* it has spans now */
    eq_int(count(&s, 8, AGENT, 40, 50, false), NOT_COUNTED);
    sources_done(&s);
}

/* A scrape that covers four of every five seconds, before the agent's profiles of five: the sum is the agent's. */
static void test_first_is_subtracted(void)
{
    for (int64_t shift = 0; shift < 5; shift++) {
        struct sources s = {0};
        int64_t sum = count(&s, 7, SDK, shift, shift + 4, false);

        for (int64_t at = 0; at < 25; at += 5) {
            sum += count(&s, 7, AGENT, at, at + 5, false);
            eq_int(count(&s, 7, SDK, at + shift + 5, at + shift + 9, false), NOT_COUNTED);
        }
        eq_int(sum, 250);
        sources_done(&s);
    }
}

/* Several profiles of one time, as with labels of Pyroscope's SDKs, and several of the agent. */
static void test_what_is_subtracted_once(void)
{
    struct sources s = {0};

    eq_int(count(&s, 7, SDK, 0, 4, false), 40);
    eq_int(count(&s, 7, SDK, 0, 4, false), 40);
    eq_int(count(&s, 7, AGENT, 0, 5, false), 0);
    eq_int(count(&s, 7, AGENT, 0, 5, false), 20);
    eq_int(count(&s, 7, AGENT, 0, 5, false), 50);
    sources_done(&s);
}

/* A long profile with spans, after many short ones: all of them are subtracted. */
static void test_many_are_subtracted(void)
{
    struct sources s = {0};

    for (int64_t at = 0; at < 100; at += 5)
        eq_int(count(&s, 7, AGENT, at, at + 5, false), 50);
    ok(count(&s, 7, SDK, 30, 90, true) <= 1); /* at most rounding */
    eq_int(count(&s, 7, AGENT, 100, 105, false), NOT_COUNTED);
    eq_int(count(&s, 7, SDK, 90, 150, true), 500);
    sources_done(&s);
}

/* Profiles without a duration. */
static void test_points_in_time(void)
{
    struct sources s = {0};
    struct sources_profile point = {.process = {0, 7}, .source = {0, SDK}, .value = 30, .start = 2 * NS_PER_S};
    int64_t value;

    point.end = point.start;
    ok(sources_count(&s, &point, &value));
    eq_int(value, 30);
    eq_int(count(&s, 7, AGENT, 0, 10, false), 70);
    point.rank = SOURCES_SPANS;
    ok(sources_count(&s, &point, &value));
    eq_int(value, 0);
    sources_done(&s);
}

/* The best of three leads. */
static void test_three(void)
{
    struct sources s = {0};

    eq_int(count(&s, 7, SDK, 0, 10, false), 100);
    eq_int(count(&s, 7, AGENT, 2, 12, false), 20);
    eq_int(count(&s, 7, OTHER, 4, 14, true), 100 - 60 - 16); /* of both, what lies in this time */
    eq_int(count(&s, 7, AGENT, 12, 22, false), NOT_COUNTED);
    eq_int(count(&s, 7, OTHER, 14, 24, true), 100);
    sources_done(&s);
}

/* Of two with spans, the one with more samples leads, whichever came first; rates that are nearly equal decide nothing. */
static void test_the_denser_leads(void)
{
    enum { HZ_100 = 10000000, HZ_99 = 10101010, HZ_19 = 52631579 };
    static const struct {
        int64_t agent, sdk;
        bool sdk_leads;
    } cases[] = {{HZ_19, HZ_100, true},  {HZ_100, HZ_19, false}, {HZ_99, HZ_100, true},
                 {HZ_100, HZ_99, true},  {0, HZ_100, true},      {HZ_19, 0, true}};

    for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
        struct sources s = {0};
        struct sources_profile p = {.process = {0, 7}, .rank = SOURCES_SPANS, .value = 10};
        int64_t value, of_sdk = 0, of_agent = 0;

        for (int64_t at = 0; at < 20; at++) { /* the first one is the agent's in one half of the cases */
            bool sdk = (at + (int64_t) i) % 2;

            p.source.lo = sdk ? SDK : AGENT; /* with the same rate, the lower number leads */
            p.period = sdk ? cases[i / 2].sdk : cases[i / 2].agent;
            p.start = at / 2 * NS_PER_S;
            p.end = p.start + NS_PER_S;
            if (!sources_count(&s, &p, &value))
                continue;
            *(sdk ? &of_sdk : &of_agent) += value;
        }
        eq_int(of_sdk + of_agent, 100); /* once */
        ok(cases[i / 2].sdk_leads ? of_sdk >= 90 : of_agent >= 90);
        sources_done(&s);
    }
}

/* The same profiler, sent and scraped, with spans in both: what is sent leads, whatever its number and whichever came first. */
static void test_sent_rather_than_scraped(void)
{
    for (int i = 0; i < 4; i++) {
        struct sources s = {0};
        struct sources_profile p = {.process = {0, 7}, .rank = SOURCES_SPANS, .value = 10, .period = 10000000};
        int64_t value, of_sent = 0, of_scraped = 0;

        for (int64_t at = 0; at < 20; at++) {
            bool sent = (at + i) % 2;

            p.source.lo = sent == (i / 2) ? 1 : 2;
            p.kind = sent ? SOURCES_LIBWICK : SOURCES_SCRAPED;
            p.start = at / 2 * NS_PER_S;
            p.end = p.start + NS_PER_S;
            if (sources_count(&s, &p, &value))
                *(sent ? &of_sent : &of_scraped) += value;
        }
        eq_int(of_sent + of_scraped, 100);
        ok(of_sent >= 90);
        sources_done(&s);
    }
}

static void test_silence_ends_it(void)
{
    struct sources s = {0};

    eq_int(count(&s, 7, AGENT, 0, 10, true), 100);
    eq_int(count(&s, 7, SDK, 10, 20, false), NOT_COUNTED);
    eq_int(count(&s, 7, SDK, 60, 69, false), NOT_COUNTED);
    eq_int(count(&s, 7, SDK, 70, 80, false), 100);
    eq_int(count(&s, 7, SDK, 80, 90, false), 100);
    eq_int(count(&s, 7, AGENT, 75, 85, true), 0); /* it is back, and all of this was counted */
    eq_int(count(&s, 7, SDK, 90, 100, false), NOT_COUNTED);
    eq_int(count(&s, 7, AGENT, 85, 95, true), 50);
    eq_int(count(&s, 7, AGENT, 95, 105, true), 100);
    sources_done(&s);
}

/* The pid is used again, at once. */
static void test_another_process_with_the_pid(void)
{
    struct sources s = {0};
    struct sources_profile old = {
        .process = {0, 7}, .source = {0, SDK}, .end = 10 * NS_PER_S, .started = 1000 * NS_PER_S, .value = 5};
    struct sources_profile new = {.process = {0, 7},
                                  .source = {0, AGENT},
                                  .start = 9 * NS_PER_S,
                                  .end = 19 * NS_PER_S,
                                  .rank = SOURCES_AGENT,
                                  .value = 6,
                                  .started = 1005 * NS_PER_S};
    struct sources_profile same = new;
    int64_t value;

    same.source = old.source;
    same.rank = SOURCES_SDK;
    same.started += NS_PER_S; /* rounded differently */
    ok(sources_count(&s, &old, &value));
    ok(sources_count(&s, &new, &value));
    eq_int(value, 6);
    ok(!sources_count(&s, &same, &value));
    sources_done(&s);
}

int main(void)
{
    tap_run(test_one_is_counted);
    tap_run(test_sent_elsewhere);
    tap_run(test_sent_here);
    tap_run(test_numbers);
    tap_run(test_huge_values);
    tap_run(test_agent_wins);
    tap_run(test_first_is_subtracted);
    tap_run(test_what_is_subtracted_once);
    tap_run(test_many_are_subtracted);
    tap_run(test_points_in_time);
    tap_run(test_three);
    tap_run(test_the_denser_leads);
    tap_run(test_sent_rather_than_scraped);
    tap_run(test_silence_ends_it);
    tap_run(test_another_process_with_the_pid);
    return tap_done();
}
