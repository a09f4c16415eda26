/* SPDX-License-Identifier: Apache-2.0 */
/* Samples weighed by the CPU time of their process (agent/process_cpu.h). */
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process.h"
#include "base/child.h"
#include "base/clock.h"
#include "tap.h"

enum { PERIOD = 10000000 };

static void burn(int64_t ns)
{
    int64_t end = clock_cpu() + ns;

    while (clock_cpu() < end)
        ;
}

/* A difference of a sample or two is chance and is carried on; a larger one changes the values, within limits. */
static void test_weigh(void)
{
    int64_t balance = 0;

    eq_int(process_cpu_weigh(&balance, 3 * PERIOD, PERIOD, 4 * PERIOD), 3 * PERIOD);
    eq_int(balance, PERIOD);
    eq_int(process_cpu_weigh(&balance, 3 * PERIOD, PERIOD, 2 * PERIOD), 3 * PERIOD);
    eq_int(balance, 0);
    eq_int(process_cpu_weigh(&balance, 100 * PERIOD, PERIOD, 130 * PERIOD), 130 * PERIOD);
    eq_int(balance, 0);
    eq_int(process_cpu_weigh(&balance, 100 * PERIOD, PERIOD, 70 * PERIOD), 70 * PERIOD);
    eq_int(balance, 0);
    eq_int(process_cpu_weigh(&balance, PERIOD, PERIOD, 9 * PERIOD), 4 * PERIOD);
    eq_int(balance, 5 * PERIOD);
    eq_int(process_cpu_weigh(&balance, 2 * PERIOD, PERIOD, 2 * PERIOD), 7 * PERIOD);
    eq_int(balance, 0);
    eq_int(process_cpu_weigh(&balance, 4 * PERIOD, PERIOD, 0), PERIOD); /* never nothing */
    eq_int(balance, -PERIOD);
}

/* One sample in a few intervals, of a process that uses a little all the time: the sum is what it used. */
static void test_rare_samples(void)
{
    int64_t balance = 0, sum = 0, used = 0, all = 0;
    uint32_t random = 12345;

    for (int i = 0; i < 100000; i++) {
        random = random * 1664525 + 1013904223;
        used += PERIOD / 8;
        all += PERIOD / 8;
        if (random >> 16 >= 65536 / 10) /* less often than the time that it uses would have it */
            continue;
        sum += process_cpu_weigh(&balance, PERIOD, PERIOD, used);
        used = 0;
    }
    ok(sum + balance + used == all);
    ok(balance <= 50 * PERIOD && balance >= -50 * PERIOD);
}

/* Of a process that ran before: the first sample is a period, the following share what it uses. */
static void test_running(void)
{
    struct process p = {.pid = (uint32_t) getpid(), .until_ns = UINT64_MAX};
    int64_t used, clock;

    burn(2 * PERIOD);
    eq_int(process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD, 0), PERIOD);
    clock = p.cpu.clock_ns;
    eq_int(process_cpu_add(&p, p.cpu.base_ns, PERIOD, 0), PERIOD); /* taken before the clock was read */
    burn(3 * PERIOD);
    used = process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD, 0);
    used += process_cpu_settle(&p, 0);
    ok(used >= 3 * PERIOD && used == p.cpu.clock_ns - clock);
    eq_int(process_cpu_settle(&p, 0), 0); /* no sample since */

    burn(3 * PERIOD); /* samples that are not counted: they, and what was used meanwhile */
    process_cpu_skip(&p);
    eq_int(process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD, 0), PERIOD);

    p.until_ns = (uint64_t) clock_mono(); /* it called exec: the clock goes on for another image */
    burn(3 * PERIOD);
    used = process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD, 0);
    eq_int(used + process_cpu_settle(&p, 0), PERIOD);
}

/* Of one that started later: all that it has used counts, if that is some periods. */
static void test_new(void)
{
    struct process p = {.pid = (uint32_t) getpid(), .until_ns = UINT64_MAX, .cpu = {.from_start = true}};
    int64_t used, all = child_cpu_ns(getpid());

    used = process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD / 10, 0);
    ok(used >= all);
    eq_int(process_cpu_add(&p, p.cpu.base_ns, PERIOD / 10, 0), 0); /* taken before: is in it */

    p.cpu = (struct process_cpu){.from_start = true};
    eq_int(process_cpu_add(&p, (uint64_t) clock_mono(), NS_PER_S * 1000, 0),
           NS_PER_S * 1000); /* one sample of a short one */
}

static void test_gone(void)
{
    pid_t pid = fork();
    struct process p = {.until_ns = UINT64_MAX};

    if (pid == 0)
        _exit(0);
    p.pid = (uint32_t) pid;
    waitpid(pid, NULL, 0);
    eq_int(process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD, 0), PERIOD);
    p.cpu = (struct process_cpu){.base_ns = 1, .read_ns = 1, .clock_ns = 5 * PERIOD, .pending_ns = 2 * PERIOD};
    eq_int(process_cpu_settle(&p, 0), 2 * PERIOD);
    p.pid = (uint32_t) getpid(); /* its number was used again */
    p.cpu = (struct process_cpu){.base_ns = 1, .read_ns = 1, .clock_ns = INT64_MAX / 2, .pending_ns = 2 * PERIOD};
    eq_int(process_cpu_settle(&p, 0), 2 * PERIOD);
}

/* Time after the end of a recording does not count. */
static void test_until(void)
{
    struct process p = {.pid = (uint32_t) getpid(), .until_ns = UINT64_MAX};
    uint64_t end;

    process_cpu_add(&p, (uint64_t) clock_mono(), PERIOD, 0);
    end = p.cpu.read_ns;
    burn(3 * PERIOD);
    p.cpu.pending_ns = PERIOD;
    eq_int(process_cpu_settle(&p, end), 0);
}

int main(void)
{
    tap_run(test_weigh);
    tap_run(test_rare_samples);
    tap_run(test_running);
    tap_run(test_new);
    tap_run(test_gone);
    tap_run(test_until);
    return tap_done();
}
