/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the fields of a sample of perf.data in their order (perf_event_open(2), PERF_RECORD_SAMPLE). */
#include "codec/perf_sample.h"

#include <stdio.h>

enum { ABI_64 = 2, BRANCH_HW_INDEX = 1 << 17, BRANCH_SIZE = 24 };

#if defined(__x86_64__)
enum { PERF_SP = 7, PERF_PC = 8, PERF_REGS_N = 24 };
/* perf's number of a register -> DWARF's; 0xff: none of those that unwinding needs */
static const uint8_t dwarf_of[PERF_REGS_N] = {0,    3,    2,    1,    4,    5, 6, 7,  0xff, 0xff, 0xff, 0xff,
                                              0xff, 0xff, 0xff, 0xff, 8,    9, 10, 11, 12,   13,   14,   15};
#else
enum { PERF_SP = 31, PERF_PC = 32, PERF_REGS_N = 33 };
#endif

void perf_attr_default_name(struct perf_attr *a, uint32_t type, uint64_t config)
{
    static const char *const hardware[] = {"cycles",   "instructions",  "cache-references", "cache-misses",
                                           "branches", "branch-misses", "bus-cycles"};
    static const char *const software[] = {"cpu-clock", "task-clock", "page-faults", "context-switches",
                                           "cpu-migrations"};
    const char *name = "event";

    if (type == 0 && config < ARRAY_SIZE(hardware))
        name = hardware[config];
    else if (type == 1 && config < ARRAY_SIZE(software))
        name = software[config];
    snprintf(a->name, sizeof a->name, "%s", name);
}

static uint8_t dwarf_number(unsigned perf)
{
#if defined(__x86_64__)
    return dwarf_of[perf];
#else
    return perf < PERF_SP ? (uint8_t) perf : 0xff;
#endif
}

static void skip_read(struct cursor *c, uint64_t format)
{
    uint64_t n = 1, each = 8 + (format & 4 ? 8 : 0) + (format & 16 ? 8 : 0),
             times = (format & 1) * 8 + (format & 2) * 4;

    if (format & 8)
        n = get_u64(c);
    get_raw(c, times);
    if (n > (uint64_t) (c->end - c->p))
        cursor_fail(c);
    else
        get_raw(c, n * each);
}

static void skip_branches(struct cursor *c, uint64_t type)
{
    uint64_t n = get_u64(c);

    if (type & BRANCH_HW_INDEX)
        get_u64(c);
    if (n > (uint64_t) (c->end - c->p))
        cursor_fail(c);
    else
        get_raw(c, n * BRANCH_SIZE);
}

/* Returns whether they are all that unwinding needs. */
static bool read_regs(struct cursor *c, uint64_t mask, struct perf_stack *s)
{
    uint64_t abi = get_u64(c);

    for (unsigned i = 0; abi && i < 64; i++) {
        uint64_t v = mask >> i & 1 ? get_u64(c) : 0;

        if (i == PERF_PC)
            s->pc = v;
        else if (i == PERF_SP)
            s->sp = v;
        if (i < PERF_REGS_N && dwarf_number(i) < PERF_STACK_REGS)
            s->regs[dwarf_number(i)] = v;
    }
    return abi == ABI_64 && mask >> PERF_PC & 1 && mask >> PERF_SP & 1;
}

static bool read_stack(struct cursor *c, struct perf_stack *s)
{
    uint64_t size = get_u64(c), used;
    const unsigned char *p;

    if (!size)
        return false;
    if (size > (uint64_t) (c->end - c->p))
        cursor_fail(c);
    p = get_raw(c, size);
    used = get_u64(c);
    if (c->bad)
        return false;
    s->bytes = (struct str){(const char *) p, (uint32_t) MIN(used, size)};
    return true;
}

bool perf_sample_parse(const struct perf_attr *a, struct cursor c, struct perf_sample *ret)
{
    uint64_t t = a->sample_type;

    *ret = (struct perf_sample){.period = a->freq ? 1 : MAX(a->period, (uint64_t) 1)};
    if (t & SAMPLE_IDENTIFIER)
        ret->id = get_u64(&c);
    if (t & SAMPLE_IP)
        ret->ip = get_u64(&c);
    if (t & SAMPLE_TID) {
        ret->pid = get_u32(&c);
        ret->tid = get_u32(&c);
    }
    if (t & SAMPLE_TIME)
        ret->time = get_u64(&c);
    if (t & SAMPLE_ADDR)
        get_u64(&c);
    if (t & SAMPLE_ID)
        ret->id = get_u64(&c);
    if (t & SAMPLE_STREAM)
        get_u64(&c);
    if (t & SAMPLE_CPU) {
        ret->cpu = get_u32(&c);
        get_u32(&c);
        ret->has_cpu = true;
    }
    if (t & SAMPLE_PERIOD)
        ret->period = get_u64(&c);
    if (t & SAMPLE_READ)
        skip_read(&c, a->read_format);
    if (t & SAMPLE_CALLCHAIN) {
        ret->n_chain = get_u64(&c);
        if (ret->n_chain > (uint64_t) (c.end - c.p) / 8)
            cursor_fail(&c);
        ret->chain = get_raw(&c, ret->n_chain * 8);
    }
    if (t & SAMPLE_RAW)
        get_raw(&c, get_u32(&c));
    if (t & SAMPLE_BRANCHES)
        skip_branches(&c, a->branch_type);
    if (t & SAMPLE_REGS_USER)
        ret->has_stack = read_regs(&c, a->regs, &ret->user);
    if (t & SAMPLE_STACK_USER)
        ret->has_stack = read_stack(&c, &ret->user) && ret->has_stack;
    return !c.bad;
}
