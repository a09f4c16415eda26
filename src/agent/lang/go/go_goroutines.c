/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the goroutines of a process: see go_goroutines.h. Everything is checked, because the process is not trusted and
 * may run while it is read. */
#include "agent/lang/go/go_goroutines.h"

#include <errno.h>

enum {
    G_BYTES = 256,
    SCHED = 56,   /* in g */
    BP_OLD = 104, /* in g: gobuf has a field `ret` up to Go 1.24 */
    BP_NEW = 96,
    MINOR_WITHOUT_RET = 25,
    GOID = 8, /* from atomicstatus */
    WAIT_SINCE = 24,
    WAIT_REASON = 32,
    SCAN = 0x1000, /* in a status: the collector reads the stack */
    RUNNING = 2,
    SYSCALL = 3,
    WAITING = 4,
    DEAD = 6,
    EXTRA = 10, /* kept for callbacks from C */
    REASON_BYTES = 64,
    MINOR_MIN = 19,
    CHUNK = 512, /* goroutines whose addresses are read at a time */
};

static const char *const statuses[] = {"idle", "runnable", "running",   "syscall",   "waiting", "moribund",
                                       "dead", "leaked",   "copystack", "preempted", "extra"};

static bool read_reason(const struct proc_memory *m, uint64_t table, uint32_t i, char ret[REASON_BYTES + 1],
                        uint32_t *ret_n)
{
    uint64_t v[2];

    if (proc_memory_read(m, table + i * sizeof v, v, sizeof v) < 0 || v[1] > REASON_BYTES ||
        (v[1] && proc_memory_read(m, v[0], ret, v[1]) < 0))
        return false;
    *ret_n = (uint32_t) v[1];
    ret[v[1]] = 0;
    return str_is_utf8((struct str){ret, *ret_n});
}

void go_states_find(struct go_process *p, struct arena *a)
{
    const struct proc_memory *m = &p->memory;
    struct go_states *ret = &p->states;
    char text[REASON_BYTES + 1];
    uint32_t n;

    *ret = (struct go_states){0};
    for (uint32_t i = 0; i < p->runtime.n_tables && !ret->reasons; i++) {
        uint64_t at = p->runtime.tables[i] + p->bias;

        if (read_reason(m, at, 0, text, &n) && !n && read_reason(m, at, 1, text, &n) &&
            strcmp(text, "GC assist marking") == 0)
            ret->reasons = at;
    }
    for (uint32_t i = 1; ret->reasons && i < GO_REASONS_MAX && read_reason(m, ret->reasons, i, text, &n) && n; i++)
        ret->names[i] = arena_str(a, (struct str){text, n});
}

static uint64_t word(const uint8_t *g, uint32_t at)
{
    uint64_t v = 0;

    if (at + sizeof v <= G_BYTES)
        memcpy(&v, g + at, sizeof v);
    return v;
}

static void set_regs(const struct go_runtime *r, const uint8_t *g, bool in_syscall, struct goroutine *ret)
{
    uint32_t bp = r->minor < MINOR_WITHOUT_RET ? BP_OLD : BP_NEW, syscall = bp + 8;

    if (in_syscall)
        ret->regs = (struct remote_regs){.sp = word(g, syscall), .pc = word(g, syscall + 8)};
    else
        ret->regs = (struct remote_regs){.sp = word(g, SCHED), .pc = word(g, SCHED + 8), .fp = word(g, bp)};
}

/* False if this is not a goroutine, or a dead one. */
static bool decode(const struct go_runtime *r, const struct go_states *states, const uint8_t *g, struct goroutine *ret)
{
    uint32_t status = (uint32_t) word(g, r->status) & ~(uint32_t) SCAN, reason;

    ret->id = word(g, r->status + GOID);
    ret->stack_lo = word(g, 0);
    ret->stack_hi = word(g, 8);
    if (!status || status == DEAD || status >= EXTRA || !ret->id || ret->stack_lo >= ret->stack_hi)
        return false;
    ret->state = str_from(statuses[status]);
    ret->is_running = status == RUNNING;
    reason = (uint32_t) word(g, r->status + WAIT_REASON) & 0xff;
    if (status == WAITING && reason < GO_REASONS_MAX && states->names[reason].n)
        ret->state = states->names[reason];
    ret->wait_since_ns = status == WAITING || status == SYSCALL ? (int64_t) word(g, r->status + WAIT_SINCE) : 0;
    if (!ret->is_running)
        set_regs(r, g, status == SYSCALL, ret);
    return ret->is_running || (ret->regs.sp >= ret->stack_lo && ret->regs.sp <= ret->stack_hi);
}

int go_each_goroutine(const struct go_process *p, int (*f)(void *arg, const struct goroutine *g), void *arg,
                      struct err *e)
{
    const struct go_runtime *r = &p->runtime;
    const struct proc_memory *m = &p->memory;
    uint64_t list[3], at[CHUNK];
    int code = 0;

    if (!r->allgs || !r->status || r->minor < MINOR_MIN || r->status + WAIT_REASON + 8 > G_BYTES)
        return err_set(e, -ENOTSUP, "the goroutines of this version of Go (1.%u) cannot be listed", r->minor);
    if (proc_memory_read(m, r->allgs + p->bias, list, sizeof list) < 0 || list[1] > list[2])
        return err_set(e, -ENOTSUP, "the list of goroutines cannot be read");
    list[1] = MIN(list[1], (uint64_t) GOROUTINES_MAX);
    for (uint64_t i = 0; i < list[1] && code == 0; i++) {
        uint64_t k = i % CHUNK, n = MIN(list[1] - i, (uint64_t) CHUNK);
        uint8_t bytes[G_BYTES];
        struct goroutine g = {0};

        if (!k && proc_memory_read(m, list[0] + i * sizeof *at, at, n * sizeof *at) < 0)
            return err_set(e, -EFAULT, "the list of goroutines cannot be read");
        g.address = at[k];
        if (proc_memory_read(m, at[k], bytes, sizeof bytes) == 0 && decode(r, &p->states, bytes, &g))
            code = f(arg, &g);
    }
    return code;
}
