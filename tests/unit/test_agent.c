/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent from inside: its arithmetic and its tables by numbers; then, where BPF programs may be loaded, a child of
 * this process that burns CPU below a known chain of calls, whose sampled stacks must be that chain.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/filter.h"
#include "agent/governor.h"
#include "agent/process_maps.h"
#include "agent/stack_walk.h"
#include "base/clock.h"
#include "base/mem.h"
#include "model/batch.h"
#include "batch_validate.h"
#include "tap.h"

/* --- governor --- */
static void test_governor(void)
{
    struct governor g;
    struct governor_limits l = {.cpu = 0.01, .memory = 64 << 20, .cpus = 4, .rate = 99, .table_bytes = 16 << 20};

    governor_init(&g, &l);
    for (int i = 0; i < 50; i++) /* 0.5 % of 4 CPUs: nothing to do */
        governor_tell(&g, 5 * NS_PER_S, 100 * NS_PER_MS, 1 << 20);
    eq_int(g.rate, 99);
    eq_str(str_from(g.text), STR(""));
    for (int i = 0; i < 50; i++) /* 5 % at any rate */
        governor_tell(&g, 5 * NS_PER_S, 1000 * NS_PER_MS, 1 << 20);
    eq_int(g.rate, GOVERNOR_RATE_MIN);
    eq_int(g.reads, 1);
    ok(strstr(g.text, "rate 10 of 99, few new processes are read"));
    for (int i = 0; i < 300; i++)
        governor_tell(&g, 5 * NS_PER_S, 1 * NS_PER_MS, 1 << 20);
    eq_int(g.rate, 99);
    eq_int(g.reads, GOVERNOR_READS);
}

/* 200 short processes a second, each of which costs half a millisecond to read and little otherwise: the budget is kept over
 * every minute after the first, at 10 Hz or more. */
static void test_governor_short_processes(void)
{
    struct governor g;
    struct governor_limits l = {.cpu = 0.01, .cpus = 2, .rate = 99, .table_bytes = 16 << 20};
    double spent[200] = {0};

    governor_init(&g, &l);
    for (int i = 0; i < 200; i++) { /* seconds of CPU in five seconds */
        spent[i] = 5 * (MIN(g.reads, 200u) * 0.5e-3 + 200 * 0.02e-3 + g.rate * 2 * 10e-6);
        governor_tell(&g, 5 * NS_PER_S, (uint64_t) (spent[i] * (double) NS_PER_S), 1 << 20);
        ok(g.rate >= GOVERNOR_RATE_MIN);
    }
    for (int i = 12; i + 12 <= 200; i++) {
        double minute = 0;

        for (int k = 0; k < 12; k++)
            minute += spent[i + k];
        ok(minute / 60 / 2 <= l.cpu * 1.05);
    }
}

/* A cost that follows the rate settles below the budget. */
static void test_governor_waits(void)
{
    unsigned n = 1;

    eq_int(governor_waits(1, 0.001, 0.005), 1);
    for (int i = 0; i < 10; i++) /* all of them take a tenth of the machine */
        n = governor_waits(n, 0.1 / n, 0.005);
    ok(n >= 20 && n <= 80);
    for (int i = 0; i < 40; i++)
        n = governor_waits(n, 0, 0.005);
    eq_int(n, 1);
    ok(governor_waits(60000, 1, 0.005) <= 65536);
}

static void test_governor_settles(void)
{
    struct governor g;
    struct governor_limits l = {.cpu = 0.01, .cpus = 2, .rate = 999, .table_bytes = 16 << 20};
    double spent = 0;

    governor_init(&g, &l);
    for (int i = 0; i < 240; i++) {
        uint64_t ns = (uint64_t) (5e9 * 2 * 0.0001 * g.rate); /* 0.01 % per Hz */

        governor_tell(&g, 5 * NS_PER_S, ns, 0);
        if (i >= 120)
            spent += (double) ns / 5e9 / 2;
    }
    ok(spent / 120 <= 0.0115);
    ok(g.rate >= 50 && g.rate <= 120);
}

static void test_governor_memory(void)
{
    struct governor g;
    struct governor_limits l = {.memory = 32 << 20, .cpus = 1, .rate = 19, .table_bytes = 16 << 20};

    governor_init(&g, &l);
    ok(governor_tell(&g, NS_PER_S, 0, 40 << 20));
    eq_int(g.table_bytes, 8 << 20);
    ok(governor_tell(&g, NS_PER_S, 0, 4 << 20));
    eq_int(g.table_bytes, 16 << 20);
}

/* --- filter --- */
static void test_filter(void)
{
    struct process p = {.pid = 42, .ppid = 7, .comm = "nginx", .exe_path = (char *) "/usr/sbin/nginx"};
    struct filter *f = NULL;
    struct err e = {0};

    ok(filter_new(&f) == 0);
    eq_int(filter_weight(f, &p), 1);
    ok(filter_add(f, false, STR("pid=41"), &e) == 0);
    ok(filter_add(f, true, STR("exe=nginx/10"), &e) == 0);
    eq_int(filter_weight(f, &p), 10);
    p.pid = 41;
    eq_int(filter_weight(f, &p), 0);
    p.pid = 43;
    p.exe_path = (char *) "/usr/bin/node";
    eq_int(filter_weight(f, &p), 0); /* there is an include, and it does not match */
    ok(filter_add(f, true, STR("name~ngi.*"), &e) == 0);
    eq_int(filter_weight(f, &p), 1);
    ok(filter_add(f, true, STR("color=red"), &e) == -EINVAL);
    ok(filter_add(f, true, STR("name~("), &e) < 0);
    filter_free(f);
}

/* --- mappings --- */
static void add(struct process *p, uint64_t start, uint64_t end, uint64_t offset, const char *path)
{
    struct process_mapping m = {
        .start = start, .end = end, .offset = offset, .path = (char *) path, .anonymous = !path, .tried = true};

    ok(process_maps_add(p, &m) == 0);
}

static void test_mappings(void)
{
    struct process p = {0}, q = {0};

    add(&p, 0x3000, 0x5000, 0, "/b");
    add(&p, 0x1000, 0x2000, 0, "/a");
    eq_int(p.n_mappings, 2);
    eq_str(str_from(process_mapping_at(&p, 0x1fff)->path), STR("/a"));
    ok(!process_mapping_at(&p, 0x2000) && !process_mapping_at(&p, 0xfff) && !process_mapping_at(&p, 0x5000));
    add(&p, 0x3800, 0x4000, 0x100, NULL); /* into the middle of /b */
    eq_int(p.n_mappings, 4);
    ok(process_mapping_at(&p, 0x3900)->anonymous);
    eq_int(process_mapping_at(&p, 0x4000)->offset, 0x1000);
    eq_int(process_mapping_at(&p, 0x37ff)->offset, 0);
    add(&p, 0x1800, 0x4800, 0, "/c"); /* over the end of /a and the beginning of the rest of /b */
    eq_int(p.n_mappings, 3);
    eq_int(process_mapping_at(&p, 0x17ff)->end, 0x1800);
    eq_int(process_mapping_at(&p, 0x4900)->offset, 0x1800);
    ok(process_maps_copy(&q, &p) == 0);
    eq_int(q.n_mappings, 3);
    process_maps_clear(&p);
    eq_str(str_from(process_mapping_at(&q, 0x2000)->path), STR("/c"));
    process_maps_clear(&q);
    mem_free(p.mappings);
    mem_free(q.mappings);
}

/* --- images --- */
static void count_exec(void *arg, const struct process *before)
{
    *(uint32_t *) arg += before->pid;
}

static void test_images(void)
{
    struct objects *objects = NULL;
    struct processes *s = NULL;
    uint32_t pids = 0;
    struct process *p;

    ok(objects_new(1 << 20, NULL, &objects) == 0 && processes_new(objects, &s) == 0);
    processes_watch_exec(s, count_exec, &pids);
    processes_fork(s, 40, 7, 1000);
    processes_exec(s, 40, "made", 2000);
    eq_int(pids, 40);
    p = processes_find(s, 40, 1500);
    ok(p && p->start_ns == 1000 && p->ppid == 7 && p->until_ns == 2000);
    p = processes_find(s, 40, 2500);
    ok(p && p->start_ns == 1000 && p->ppid == 7 && strcmp(p->comm, "made") == 0);
    processes_exec(s, 41, "late", 2000); /* read before the record of its fork, which is in another CPU's buffer */
    processes_fork(s, 41, 8, 1000);
    p = processes_find(s, 41, 2500);
    ok(p && p->start_ns == 1000 && p->ppid == 8 && strcmp(p->comm, "late") == 0);
    eq_int(pids, 40);
    processes_free(s);
    objects_free(objects);
}

/* --- walking a copy --- */
static const struct unwind_rule *by_address(void *arg, uint64_t address, uint32_t *ret_end)
{
    static const struct unwind_rule sp16 = {.cfa = UNWIND_CFA_SP, .cfa_off = 16},
                                    fp16 = {.cfa = UNWIND_CFA_FP, .cfa_off = 16, .flags = UNWIND_FP_SAVED, .fp = -2},
                                    end = {.cfa = UNWIND_CFA_END};

    switch (address >> 12) {
    case 1:
        return &sp16;
    case 2:
        return &fp16;
    case 3:
        return &end;
    case 4: /* a JIT's */
        *ret_end = AGENT_END_NONE;
        return NULL;
    default:
        *ret_end = AGENT_END_NO_MAPPING;
        return NULL;
    }
}

static void test_walk(void)
{
    uint64_t stack[16] = {0}, base = 0x7000, words[32];
    struct stack_copy copy = {base, sizeof stack, (const uint8_t *) stack};
    struct agent_regs regs = {.pc = 0x1100, .sp = base, .fp = base + 4 * 8, .exact = 1, .is_leaf = 1};
    struct stack_words out = {words, 0, 32};

    stack[1] = 0x2200;                          /* leaf's return address: a function with a frame pointer */
    stack[4] = base + 8 * 8, stack[5] = 0x4400; /* its caller is a JIT's */
    stack[8] = 0, stack[9] = 0x3300;            /* which was called by the root */
    eq_int(stack_walk(&regs, &copy, by_address, NULL, &out), AGENT_END_ROOT);
    eq_int(out.n, 4);
    eq_int(AGENT_WORD_KIND(words[0]), AGENT_WORD_EXACT);
    eq_int(words[1], 0x2200);
    eq_int(words[2], 0x4400);
    eq_int(words[3], 0x3300);
    out.n = 0;
    copy.n = 6; /* cut short: nothing is read beyond it */
    regs = (struct agent_regs){.pc = 0x1100, .sp = base, .exact = 1, .is_leaf = 1};
    eq_int(stack_walk(&regs, &copy, by_address, NULL, &out), AGENT_END_BAD);
    eq_int(out.n, 1);
}

/* --- the kernel's part --- */
enum { DEPTH = 20 };
static volatile uint64_t sink;

__attribute__((noinline, noclone)) uint64_t agent_test_hot(uint64_t n);
__attribute__((noinline, noclone)) uint64_t agent_test_deep(int d);

uint64_t agent_test_hot(uint64_t n)
{
    uint64_t x = n;

    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005ull + i;
    sink = x;
    return x;
}

__attribute__((optimize("omit-frame-pointer"))) uint64_t agent_test_deep(int d)
{
    volatile char room[40];
    uint64_t r;

    room[d] = 1;
    r = d ? agent_test_deep(d - 1) : agent_test_hot(10000000);
    sink += r + room[d];
    return r;
}

static struct str frame_name(const struct batch *b, uint32_t location)
{
    const struct location *l = &b->dict.locations[location];

    return l->lines.n ? batch_string(b, b->dict.functions[b->dict.lines[l->lines.off].function].name) : STR("");
}

static void judge(const struct batch *b, unsigned *exact, unsigned *wrong)
{
    for (uint32_t i = 0; i < b->n_samples; i++) {
        struct run s = b->dict.stacks[b->samples[i].stack];
        const uint32_t *l = b->dict.indices + s.off;
        uint32_t k = 0, deep = 0;

        while (k < s.n && !str_is(frame_name(b, l[k]), "agent_test_hot")) /* kernel frames */
            k++;
        if (k == s.n)
            continue;
        for (k++; k < s.n && str_is(frame_name(b, l[k]), "agent_test_deep"); k++)
            deep++;
        if (deep == DEPTH + 1 && !str_is(frame_name(b, l[s.n - 1]), "[truncated]"))
            ++*exact;
        else if (++*wrong < 5)
            tap_fail("%u of %u frames are agent_test_deep", deep, s.n);
    }
}

static void sample_child(struct agent *a)
{
    unsigned exact = 0, wrong = 0;
    struct err e = {0};

    for (int i = 0; i < 100 && exact < 20; i++) {
        struct batch *b = NULL;
        int64_t end = clock_mono() + 200 * NS_PER_MS;

        while (clock_mono() < end)
            if (agent_poll(a, 50, &e) < 0)
                tap_fail("%s", e.message);
        ok(agent_take(a, &b, &e) == 0);
        if (b) {
            ok(batch_validate(b, &e) == 0);
            judge(b, &exact, &wrong);
        }
        batch_unref(b);
    }
    ok(exact >= 20);
    eq_int(wrong, 0);
}

static void test_stacks(void)
{
    struct agent_options o = {.rate_hz = 499, .n_pids = 1};
    struct agent *a = NULL;
    struct err e = {0};
    pid_t pid = fork();

    if (pid == 0) {
        alarm(60);
        for (;;)
            agent_test_deep(DEPTH);
    }
    o.pids = &pid;
    if (agent_new(&o, &a, &e) < 0)
        printf("# skipped: %s\n", e.message);
    else
        sample_child(a);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    agent_free(a);
}

int main(void)
{
    tap_run(test_governor);
    tap_run(test_governor_short_processes);
    tap_run(test_governor_waits);
    tap_run(test_governor_settles);
    tap_run(test_governor_memory);
    tap_run(test_filter);
    tap_run(test_mappings);
    tap_run(test_images);
    tap_run(test_walk);
    tap_run(test_stacks);
    return tap_done();
}
