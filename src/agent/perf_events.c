/* SPDX-License-Identifier: Apache-2.0 */
/* The names of events, and why one of them cannot be opened (perf_events.h). */
#include "agent/perf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/perf_open.h"
#include "base/fd.h"
#include "base/str.h"

#define CACHE(cache, result) \
    PERF_TYPE_HW_CACHE,      \
        (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_##result << 16)

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} known[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
    {"L1-dcache-loads", CACHE(L1D, ACCESS)},
    {"L1-dcache-load-misses", CACHE(L1D, MISS)},
    {"LLC-loads", CACHE(LL, ACCESS)},
    {"LLC-load-misses", CACHE(LL, MISS)},
    {"dTLB-load-misses", CACHE(DTLB, MISS)},
    {"iTLB-load-misses", CACHE(ITLB, MISS)},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

static const struct {
    const char *alias, *name;
} aliases[] = {{"cpu-cycles", "cycles"},
               {"branch-instructions", "branches"},
               {"faults", "page-faults"},
               {"cs", "context-switches"},
               {"migrations", "cpu-migrations"}};

static int parse_one(struct str word, struct perf_event_choice *ret, struct err *e)
{
    struct str name = str_trim(str_cut(&word, '/'));
    char list[512];
    size_t n = 0;

    *ret = (struct perf_event_choice){0};
    if (word.n && (str_to_u64(str_trim(word), 10, &ret->period) < 0 || !ret->period))
        return err_set(e, -EINVAL, "--event: '%.*s' is not a number of events", STR_FMT(word));
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (str_is(name, aliases[i].alias))
            name = str_from(aliases[i].name);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_is(name, known[i].name)) {
            ret->name = known[i].name;
            ret->type = known[i].type;
            ret->config = known[i].config;
            return 0;
        }
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        n += (size_t) snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", known[i].name);
    return err_set(e, -EINVAL, "--event: '%.*s' is not an event; supported: %s", STR_FMT(name), list);
}

int perf_events_parse(const char *text, struct perf_events *ret, struct err *e)
{
    struct str rest = str_from(text);
    int r = 0;

    ret->n = 0;
    while (rest.n && r == 0) {
        struct str word = str_trim(str_cut(&rest, ','));

        if (ret->n == PERF_EVENTS_MAX)
            return err_set(e, -EINVAL, "--event: at most %d events at a time", PERF_EVENTS_MAX);
        r = parse_one(word, &ret->v[ret->n], e);
        for (uint32_t i = 0; i < ret->n && r == 0; i++)
            if (ret->v[i].name == ret->v[ret->n].name)
                return err_set(e, -EINVAL, "--event: '%s' is there twice", ret->v[i].name);
        ret->n++;
    }
    return r < 0 || ret->n ? r : err_set(e, -EINVAL, "--event: no event is named");
}

static bool is_virtual(const char *cpuinfo)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    return fd_read_file(cpuinfo, 16 << 20, &b, NULL) >= 0 && buf_cstr(&b) && strstr(b.p, " hypervisor");
}

int perf_events_explain(const struct perf_event_choice *c, int code, const char *devices, const char *cpuinfo,
                        struct err *e)
{
    static const char *const counters[] = {"cpu", "cpu_core", "armv8_pmuv3", "armv8_pmuv3_0"};
    bool has_counters = false;
    char path[256];

    if (code == -EACCES || code == -EPERM)
        return err_set(e, code, "counting '%s' in other processes requires CAP_PERFMON: run it as root", c->name);
    if (code != -ENOENT && code != -ENODEV && code != -EOPNOTSUPP && code != -EINVAL)
        return err_set(e, code, "cannot count '%s': %m", c->name);
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
        snprintf(path, sizeof path, "%s/%s", devices, counters[i]);
        has_counters |= access(path, F_OK) == 0;
    }
    if (has_counters)
        return err_set(e, code, "this processor does not count '%s'; 'perf list' shows what it counts", c->name);
    return err_set(
        e, code,
        "this machine cannot count '%s': %s; without --event samples are taken by the clock, and page-faults "
        "and context-switches can be counted anywhere",
        c->name,
        is_virtual(cpuinfo) ? "it is a virtual machine without hardware counters (no virtual PMU)"
                            : "the kernel has no driver for its hardware counters");
}

int perf_events_open(const struct perf_event_choice *c, int cpu, unsigned hz, struct err *e)
{
    struct perf_event_attr attr = {.size = sizeof attr, .type = c->type, .config = c->config, .exclude_idle = 1};
    int fd;

    attr.freq = !c->period;
    if (c->period)
        attr.sample_period = c->period;
    else
        attr.sample_freq = hz;
    fd = perf_open(&attr, -1, cpu);
    return fd < 0 ? perf_events_explain(c, fd, "/sys/bus/event_source/devices", "/proc/cpuinfo", e) : fd;
}
