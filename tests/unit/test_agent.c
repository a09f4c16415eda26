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
#include "batch_validate.h"
#include "model/batch.h"
#include "tap.h"

/* --- governor --- */
/* Reports as the agent does, ten times a second. cost(): seconds of CPU in a tenth of a second. */
struct governed {
    struct governor g;
    uint64_t now_ns, total_ns;
    double seconds[1200]; /* spent in each second */
    size_t n;
};

static void govern(struct governed *x, size_t seconds, double (*cost)(const struct governor *g, size_t tenth))
{
    for (size_t i = 0; i < seconds; i++, x->n++) {
        x->seconds[x->n] = 0;
        for (size_t k = 0; k < 10; k++) {
            double spent = cost(&x->g, x->n * 10 + k);

            x->seconds[x->n] += spent;
            x->total_ns += (uint64_t) (spent * (double) NS_PER_S);
            x->now_ns += NS_PER_S / 10;
            governor_spent(&x->g, x->now_ns, x->total_ns);
        }
    }
}

/* The most that any 60 seconds cost, as a part of the machine. */
static double worst_minute(const struct governed *x)
{
    double worst = 0;

    for (size_t i = 0; i < x->n; i++) {
        double sum = 0;

        for (size_t k = i; k < MIN(i + 60, x->n); k++)
            sum += x->seconds[k];
        worst = MAX(worst, sum / 60 / x->g.limits.cpus);
    }
    return worst;
}

static double cheap(const struct governor *g, size_t tenth)
{
    (void) g, (void) tenth;
    return 0.002; /* 0.5 % of 4 CPUs */
}

static double dear(const struct governor *g, size_t tenth)
{
    (void) g, (void) tenth;
    return 0.02; /* 5 % at any rate */
}

static double nothing(const struct governor *g, size_t tenth)
{
    (void) g, (void) tenth;
    return 0;
}

static void test_governor(void)
{
    static struct governed x;
    struct governor_limits l = {.cpu = 0.01, .memory = 64 << 20, .cpus = 4, .rate = 99, .table_bytes = 16 << 20};

    governor_init(&x.g, &l, 0);
    govern(&x, 250, cheap); /* nothing to do */
    eq_int(x.g.rate, 99);
    ok(x.g.open);
    eq_str(str_from(x.g.text), STR(""));
    govern(&x, 250, dear);
    eq_int(x.g.rate, GOVERNOR_RATE_MIN);
    ok(!x.g.open);
    ok(strstr(x.g.text, "rate 10 of 99, few new processes are read"));
    govern(&x, 300, nothing);
    eq_int(x.g.rate, 99);
    ok(x.g.open);
}

/* 200 short processes a second, each of which costs 0.15 ms to read and 0.02 ms if it is not; a batch every ten seconds; a
 * start that costs a third of a second. */
static double many_short(const struct governor *g, size_t tenth)
{
    double sampled = MIN(1.0, g->rate / 100.0);

    return 20 * (g->open ? 0.15e-3 : 0.02e-3) * sampled + g->rate * 0.2 * 10e-6 + (tenth % 100 == 99 ? 30e-3 : 0) +
           (tenth == 0 ? 0.3 : 0);
}

static void test_governor_short_processes(void)
{
    static struct governed x;
    struct governor_limits l = {.cpu = 0.01, .cpus = 2, .rate = 99, .table_bytes = 16 << 20};
    double last = 0;

    governor_init(&x.g, &l, 0);
    for (int i = 0; i < 600; i++) {
        govern(&x, 1, many_short);
        ok(x.g.rate >= GOVERNOR_RATE_MIN);
    }
    ok(worst_minute(&x) <= l.cpu); /* the first one included */
    for (size_t i = 540; i < 600; i++)
        last += x.seconds[i];
    ok(last / 60 / 2 > 0.7 * l.cpu); /* the budget is used */
    ok(x.g.rate >= 40);              /* reading less is most of it */
}

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

static double by_rate(const struct governor *g, size_t tenth)
{
    (void) tenth;
    return 0.1 * 2 * 0.0001 * g->rate; /* 0.01 % per Hz */
}

static void test_governor_settles(void)
{
    static struct governed x;
    struct governor_limits l = {.cpu = 0.01, .cpus = 2, .rate = 999, .table_bytes = 16 << 20};
    double spent = 0;

    governor_init(&x.g, &l, 0);
    govern(&x, 1200, by_rate);
    for (size_t i = 600; i < 1200; i++)
        spent += x.seconds[i];
    ok(spent / 600 / 2 <= 0.01);
    ok(x.g.rate >= 40 && x.g.rate <= 120);
}

static void test_governor_memory(void)
{
    struct governor g;
    struct governor_limits l = {.memory = 32 << 20, .cpus = 1, .rate = 19, .table_bytes = 16 << 20};

    governor_init(&g, &l, 0);
    ok(governor_used(&g, 40 << 20));
    eq_int(g.table_bytes, 8 << 20);
    ok(governor_used(&g, 4 << 20));
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

/* --- what comes with a copied stack --- */
#define ARGS "python3\0-m\0shop"
#define ENVIRONMENT "HOME=/\0OTEL_SERVICE_NAME=till\0PATH=/bin"

static void test_seen(void)
{
    static struct agent_stack copy = {.n = 24, .task = {.groups = 5, .uid = 7, .arg_start = 0x1000}};
    struct str command = {ARGS, sizeof ARGS}, environment = {"OTEL_SERVICE_NAME=till", 23};
    struct objects *objects = NULL;
    struct processes *s = NULL;
    struct process *p;

    memcpy(copy.bytes + 24, ARGS, sizeof ARGS);
    memcpy(copy.bytes + 24 + sizeof ARGS, ENVIRONMENT, sizeof ENVIRONMENT);
    copy.task.arg_end = copy.task.env_start = 0x1000 + sizeof ARGS;
    copy.task.env_end = copy.task.env_start + sizeof ENVIRONMENT;
    copy.task.n = sizeof ARGS + sizeof ENVIRONMENT;
    ok(objects_new(1 << 20, NULL, &objects) == 0 && processes_new(objects, &s) == 0);
    processes_fork(s, 40, 7, 1000);
    processes_exec(s, 40, "python3", 2000);
    p = processes_find(s, 40, 3000);
    process_seen_take(p, &copy);
    ok(p->groups == 5 && p->seen);
    eq_str(p->seen->command, command);
    eq_str(p->seen->environment, environment);
    processes_fork(s, 41, 40, 4000); /* has the same, until it calls exec */
    ok(processes_find(s, 41, 5000)->seen == p->seen && p->seen->refs == 2);
    processes_exec(s, 41, "ls", 6000);
    p = processes_find(s, 41, 7000);
    ok(!p->seen);
    copy.task.n -= 5; /* the environment is longer than what was copied */
    process_seen_take(p, &copy);
    ok(p->seen && p->seen->command.n == sizeof ARGS && !p->seen->environment.p);
    copy.task.arg_end = 0; /* in the middle of exec */
    processes_exec(s, 41, "cp", 8000);
    process_seen_take(processes_find(s, 41, 9000), &copy);
    ok(!processes_find(s, 41, 9000)->seen);
    processes_free(s);
    objects_free(objects);
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

static bool no_rule(void *arg, uint64_t pc, struct unwind_rule *ret)
{
    (void) arg;
    (void) pc;
    (void) ret;
    return false;
}

static bool no_call(void *arg, uint64_t pc)
{
    (void) arg;
    (void) pc;
    return false;
}

static void test_walk(void)
{
    uint64_t stack[16] = {0}, base = 0x7000, words[32];
    struct stack_copy copy = {base, sizeof stack, (const uint8_t *) stack};
    struct agent_regs regs = {.pc = 0x1100, .sp = base, .fp = base + 4 * 8, .exact = 1, .is_leaf = 1};
    struct stack_words out = {words, 0, 32, false};
    struct stack_source source = {by_address, no_rule, no_call, NULL, NULL};

    stack[1] = 0x2200;                          /* leaf's return address: a function with a frame pointer */
    stack[4] = base + 8 * 8, stack[5] = 0x4400; /* its caller is a JIT's */
    stack[8] = 0, stack[9] = 0x3300;            /* which was called by the root */
    eq_int(stack_walk(&regs, &copy, &source, &out), AGENT_END_ROOT);
    eq_int(out.n, 4);
    eq_int(AGENT_WORD_KIND(words[0]), AGENT_WORD_EXACT);
    eq_int(words[1], 0x2200);
    eq_int(words[2], 0x4400);
    eq_int(words[3], 0x3300);
    out.n = 0;
    copy.n = 6; /* cut short: nothing is read beyond it */
    regs = (struct agent_regs){.pc = 0x1100, .sp = base, .exact = 1, .is_leaf = 1};
    eq_int(stack_walk(&regs, &copy, &source, &out), AGENT_END_BAD);
    eq_int(out.n, 1);
}

/* --- the kernel's part --- */
enum { DEPTH = 20 };
static volatile uint64_t sink;

#ifdef __clang__
#define STEP __attribute__((noinline))
#define NO_FRAME_POINTER
#else
#define STEP __attribute__((noinline, noclone))
#define NO_FRAME_POINTER __attribute__((optimize("omit-frame-pointer")))
#endif
STEP uint64_t agent_test_hot(uint64_t n);
STEP uint64_t agent_test_deep(int d);

uint64_t agent_test_hot(uint64_t n)
{
    uint64_t x = n;

    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005ull + i;
    sink = x;
    return x;
}

NO_FRAME_POINTER uint64_t agent_test_deep(int d)
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
    tap_run(test_seen);
    tap_run(test_images);
    tap_run(test_walk);
    tap_run(test_stacks);
    return tap_done();
}
