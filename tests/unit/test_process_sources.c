/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two sources of one process is counted (store/process_sources.h). */
#include "base/clock.h"
#include "store/process_sources.h"
#include "tap.h"

enum { SDK = 5, OTHER = 3, AGENT = 7 };

static bool count(struct sources *s, uint64_t process, uint64_t source, int64_t start, int64_t end, bool spans)
{
    return sources_count(s, &(struct sources_profile){.process = {0, process},
                                                      .source = {0, source},
                                                      .start = start * NS_PER_S,
                                                      .end = end * NS_PER_S,
                                                      .rank = spans           ? SOURCES_SPANS
                                                              : source == SDK ? SOURCES_SDK
                                                                              : SOURCES_AGENT});
}

/* Two sources of one rank: the same one is counted, whichever came first. */
static void test_one_is_counted(void)
{
    struct sources s = {0};

    ok(count(&s, 7, OTHER, 0, 10, false));
    ok(!count(&s, 7, AGENT, 2, 12, false));
    ok(count(&s, 7, OTHER, 10, 20, false));
    ok(!count(&s, 7, AGENT, 12, 22, false));
    ok(count(&s, 8, AGENT, 12, 22, false)); /* another process */
    ok(!count(&s, 8, OTHER, 20, 30, false));
    ok(!count(&s, 8, AGENT, 22, 32, false));
    ok(count(&s, 8, OTHER, 30, 40, false));
    ok(count(&s, 8, OTHER, 30, 40, false)); /* another profile of the same time and source */
    sources_done(&s);
}

/* An agent counts all CPU time; an SDK may count wall-clock time, or have gaps. */
static void test_agent_wins(void)
{
    struct sources s = {0};

    ok(count(&s, 7, SDK, 0, 10, false));
    ok(!count(&s, 7, AGENT, 2, 12, false));
    ok(!count(&s, 7, SDK, 10, 20, false));
    ok(count(&s, 7, AGENT, 12, 22, false));
    ok(!count(&s, 7, SDK, 20, 30, false));
    ok(count(&s, 8, AGENT, 0, 10, false)); /* in the other order */
    ok(!count(&s, 8, SDK, 5, 15, false));
    ok(!count(&s, 8, SDK, 15, 25, false));
    ok(count(&s, 8, SDK, 30, 40, true)); /* it has spans now, and the other's last profile is over */
    ok(!count(&s, 8, AGENT, 40, 50, false));
    sources_done(&s);
}

/* The better of two successors takes over. */
static void test_three(void)
{
    struct sources s = {0};

    ok(count(&s, 7, SDK, 0, 10, false));
    ok(!count(&s, 7, AGENT, 2, 12, false));
    ok(!count(&s, 7, OTHER, 4, 14, true));
    ok(!count(&s, 7, AGENT, 12, 22, false));
    ok(count(&s, 7, OTHER, 14, 24, true));
    sources_done(&s);
}

/* Nothing is counted twice while it takes over, and less than one profile is missing. */
static void test_spans_win(void)
{
    struct sources s = {0};

    ok(count(&s, 7, SDK, 0, 10, false));
    ok(!count(&s, 7, AGENT, 2, 12, true));
    ok(!count(&s, 7, SDK, 10, 20, false));
    ok(count(&s, 7, AGENT, 12, 22, true));
    ok(!count(&s, 7, SDK, 20, 30, false));
    ok(count(&s, 7, AGENT, 22, 32, false)); /* a profile without spans is of the same source */
    sources_done(&s);
}

static void test_silence_ends_it(void)
{
    struct sources s = {0};

    ok(count(&s, 7, AGENT, 0, 10, true));
    ok(!count(&s, 7, SDK, 10, 20, false));
    ok(!count(&s, 7, SDK, 60, 70, false));
    ok(count(&s, 7, SDK, 70, 80, false));
    ok(count(&s, 7, SDK, 80, 90, false));
    ok(!count(&s, 7, AGENT, 75, 85, true)); /* it is back: it takes over after what was counted */
    ok(!count(&s, 7, SDK, 90, 100, false));
    ok(count(&s, 7, AGENT, 95, 105, true));
    sources_done(&s);
}

static void test_successor_that_never_comes(void)
{
    struct sources s = {0};

    ok(count(&s, 7, SDK, 0, 10, false));
    ok(!count(&s, 7, AGENT, 2, 12, true));
    ok(!count(&s, 7, SDK, 10, 20, false));
    ok(count(&s, 7, SDK, 70, 80, false));
    ok(count(&s, 7, SDK, 80, 90, false));
    sources_done(&s);
}

/* The pid is used again, at once. */
static void test_another_process_with_the_pid(void)
{
    struct sources s = {0};
    struct sources_profile old = {
        .process = {0, 7}, .source = {0, SDK}, .end = 10 * NS_PER_S, .started = 1000 * NS_PER_S};
    struct sources_profile new = {.process = {0, 7},
                                  .source = {0, AGENT},
                                  .start = 9 * NS_PER_S,
                                  .end = 19 * NS_PER_S,
                                  .started = 1005 * NS_PER_S};
    struct sources_profile same = new;

    same.source = old.source;
    same.started += NS_PER_S; /* rounded differently */
    ok(sources_count(&s, &old));
    ok(sources_count(&s, &new));
    ok(!sources_count(&s, &same));
    sources_done(&s);
}

int main(void)
{
    tap_run(test_one_is_counted);
    tap_run(test_agent_wins);
    tap_run(test_three);
    tap_run(test_spans_win);
    tap_run(test_silence_ends_it);
    tap_run(test_successor_that_never_comes);
    tap_run(test_another_process_with_the_pid);
    return tap_done();
}
