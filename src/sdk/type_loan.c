/* SPDX-License-Identifier: Apache-2.0 */
/* Turns profile types on for requests and off again (type_loan.h), counting the requests that use each type. */
#include "sdk/type_loan.h"

#include "sdk/heap.h"
#include "sdk/start.h"

static int switch_on(struct wick_provider *p, int type, struct err *e)
{
    int r = 0;

    if (type == TYPE_HEAP) {
        r = heap_start(p->s.alloc_interval, true);
        if (r < 0)
            return err_set(e, r, "out of memory for heap tables");
        core.types |= WICK_ALLOC | WICK_HEAP;
        start_hooks();
        return 0;
    }
    if (type == TYPE_LOCK) {
        lock_start(p->s.lock_interval_ns, true);
        core.types |= WICK_LOCK;
        start_hooks();
        return 0;
    }
    r = handler_install(p->s.signal);
    if (r < 0)
        return err_set(e, r, "cannot install a signal handler: %m");
    if (type == TYPE_WALL)
        wall_start(p->s.rate);
    core.types |= 1u << type;
    if (atomic_load(&core.sampling)) {
        thr_arm_all();
        thr_scan();
    }
    return 0;
}

static void switch_off(struct wick_provider *p, int type)
{
    if (type == TYPE_HEAP) {
        heap_stop();
        core.types &= ~(unsigned) (WICK_ALLOC | WICK_HEAP);
        if (p->s.types & WICK_ALLOC && heap_start(p->s.alloc_interval, false) == 0)
            core.types |= WICK_ALLOC;
        return;
    }
    core.types &= ~(1u << type);
    if (type == TYPE_LOCK)
        lock_start(p->s.lock_interval_ns, false);
    if (type == TYPE_WALL)
        wall_start(0);
    if (!(core.types & (WICK_CPU | WICK_WALL)))
        thr_disarm_all();
}

int type_loan_take(struct wick_provider *p, struct type_loan loans[N_TYPES], int type, struct err *e)
{
    if (!(core.types & (1u << type))) {
        int r = switch_on(p, type, e);

        if (r < 0)
            return r;
        loans[type].on = true;
    }
    loans[type].users++;
    return 0;
}

void type_loan_return(struct type_loan *l, int64_t until)
{
    l->users--;
    l->until = MAX(l->until, until);
}

void type_loan_expire(struct wick_provider *p, struct type_loan loans[N_TYPES], int64_t now)
{
    for (int type = 0; type < N_TYPES; type++) {
        struct type_loan *l = &loans[type];

        if (!l->on || l->users || now < l->until)
            continue;
        switch_off(p, type);
        l->on = false;
    }
}
