/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All code that runs in a signal handler, and the code that hooks share with it.
 *
 * It may call the functions in this file, the inline readers of unwind/walk.h and unwind/table.h, direct_rule(),
 * sys.h's raw system calls, clock_gettime, memcpy and memset. Nothing else: no lock, no allocation, no stdio, no
 * loader. It may read the calling thread's otel_thread_ctx_v1 (only where that is static TLS) and write its own ring.
 * An extension's walker (ext.h) must keep to the same rules.
 *
 * Rings: one producer thread whose hooks can be interrupted by its handler, one consumer. Space is reserved by a
 * compare-and-swap of head, filled, and committed by storing `kind` last; the consumer stops at the first record that
 * is not committed, and clears the records it consumed, so that free space is always zero.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include "sdk/core.h"
#include "sdk/span.h"
#include "sdk/sys.h"
#include "unwind/direct.h"
#include "unwind/walk.h"

enum { TIMED_SAMPLES = 64 }; /* one in this many samples is timed: reading the clock costs as much as the walk */

struct core core;
__thread struct thr *thr_self;

/* --- rings --- */
static struct ring_record *ring_reserve(struct thr *t, uint32_t size)
{
    uint32_t head = atomic_load_explicit(&t->head, memory_order_relaxed), pos, pad;

    do {
        pos = head & (THR_RING - 1);
        pad = pos + size > THR_RING ? THR_RING - pos : 0;
        if (head + pad + size - atomic_load_explicit(&t->tail, memory_order_acquire) > THR_RING) {
            atomic_fetch_add_explicit(&core.lost, 1, memory_order_relaxed);
            return NULL;
        }
    } while (!atomic_compare_exchange_weak_explicit(&t->head, &head, head + pad + size, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (pad) {
        struct ring_record *r = (struct ring_record *) (t->ring + pos);

        r->size = pad;
        atomic_store_explicit(&r->kind, RECORD_PAD, memory_order_release);
        pos = 0;
    }
    return (struct ring_record *) (t->ring + pos);
}

/* Commits fewer bytes than were reserved: the rest is released if nothing was reserved after it. A walker may have
 * written to it, and the consumer may still know the head from before the release: it must find zeros there. */
static void ring_commit(struct thr *t, struct ring_record *r, uint32_t reserved, uint32_t used, enum record_kind kind)
{
    uint32_t end = atomic_load_explicit(&t->head, memory_order_relaxed), mine = end - (reserved - used);
    bool last = (uint8_t *) r + reserved == t->ring + (((end - 1) & (THR_RING - 1)) + 1);

    memset((uint8_t *) r + used, 0, reserved - used);
    r->size = last && atomic_compare_exchange_strong(&t->head, &end, mine) ? used : reserved;
    atomic_store_explicit(&r->kind, kind, memory_order_release);
    if (end - atomic_load_explicit(&t->tail, memory_order_relaxed) > THR_RING / 4 * 3)
        handler_wake();
}

void handler_wake(void)
{
    if (!atomic_exchange_explicit(&core.wake, 1, memory_order_acq_rel))
        sys_call(SYS_futex, (long) &core.wake, FUTEX_WAKE_PRIVATE, 1, 0);
}

/* --- walking --- */
static const struct module *find_module(const struct module_set *set, uint64_t pc)
{
    uint32_t a = 0, z = set->n;

    while (a < z) {
        uint32_t mid = (a + z) / 2;

        if (set->v[mid].hi <= pc)
            a = mid + 1;
        else
            z = mid;
    }
    return a < set->n && pc >= set->v[a].lo ? &set->v[a] : NULL;
}

/* Called for code outside all objects: the set of objects may have changed. One wake-up is enough until the background
 * thread has looked. */
static void objects_changed(void)
{
    if (!atomic_exchange_explicit(&core.modules_stale, true, memory_order_relaxed))
        handler_wake();
}

/* The rule for a pc, through the thread's cache where it may be used; NULL with *ret_outside set if pc is in no object.
 * An object that has just been loaded has no table yet: then the rule is read from the object itself, into *room. */
static const struct unwind_rule *find_rule(const struct module_set *set, struct thr *t, uint64_t pc, bool *ret_outside,
                                           struct unwind_rule *room)
{
    struct thr_rule *slot = t ? &t->rules[(pc ^ pc >> 9) & (THR_RULES - 1)] : NULL;
    const struct unwind_rule *rule;
    const struct module *m;

    *ret_outside = false;
    if (slot && slot->pc == pc)
        return &slot->rule;
    m = find_module(set, pc);
    if (unlikely(!m || !m->table)) {
        if (!m)
            objects_changed();
        if (direct_rule(pc, WALK_ARCH, room))
            return room;
        *ret_outside = true;
        return NULL;
    }
    rule = unwind_find(m->table, pc - m->bias);
    if (rule && slot) {
        slot->pc = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        slot->rule = *rule;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        slot->pc = pc;
    }
    return rule;
}

/* The cache belongs to the first sampler on this thread; a handler that interrupts a hook does not use it. */
static struct thr *cache_of(struct thr *t, const struct module_set *set)
{
    if ((atomic_load_explicit(&t->inside, memory_order_relaxed) & 3) != 1)
        return NULL;
    if (t->rules_generation != set->generation) {
        memset(t->rules, 0, sizeof t->rules);
        t->rules_generation = set->generation;
    }
    return t;
}

/* Fills pc[] from w, at most max entries; RECORD_ flags say how the walk ended. Frames of our own code are left out.
 * The cache of t is used, unless t is NULL. */
static uint32_t walk_frames(const struct module_set *set, struct thr *t, struct walk *w, uint64_t *pc, uint32_t max,
                            uint8_t *ret_flags)
{
    struct unwind_rule room;
    uint32_t n = 0;

    for (uint32_t steps = 0; steps < CORE_DEPTH_MAX + 16; steps++) {
        uint64_t at = walk_lookup_pc(w);
        bool outside, own = at >= core.self_lo && at < core.self_hi;
        const struct unwind_rule *rule;
        enum walk_result r;

        if (!own && n == max) {
            *ret_flags |= RECORD_CUT_DEPTH;
            break;
        }
        rule = find_rule(set, t, at, &outside, &room);
        if (!own) /* a signal handler returns to the start of the trampoline: there was no call */
            pc[n++] = (rule && rule->cfa == UNWIND_CFA_SIGNAL ? w->pc : at) + 1;
        if (rule) {
            r = walk_step(w, rule);
        } else if (outside) {
            *ret_flags |= RECORD_GUESSED;
            r = walk_step_fp(w);
        } else {
            r = WALK_NO_RULE;
        }
        if (r == WALK_STEPPED)
            continue;
        if (r != WALK_ROOT)
            *ret_flags |= RECORD_CUT_RULE;
        break;
    }
    return n;
}

/* --- context of the thread --- */
static void copy_context(struct ring_record *r)
{
    const struct span_record *s;

    if (!core.context_static)
        return;
    s = otel_thread_ctx_v1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!s || s->valid != 1)
        return;
    memcpy(r->trace_id, s->trace_id, sizeof r->trace_id);
    memcpy(r->span_id, s->span_id, sizeof r->span_id);
    for (unsigned i = 0; i < sizeof r->span_id; i++)
        if (r->span_id[i])
            r->flags |= RECORD_LINK;
    r->attrs = MIN(s->attrs_data_size, (uint16_t) CORE_ATTRS_MAX);
    memcpy(&r->pc[r->n], s->attrs_data, r->attrs);
}

void handler_keep_context(struct thr *t)
{
    const struct span_record *s = core.context_static ? otel_thread_ctx_v1 : NULL;
    struct thr_context c = {0};
    uint64_t words[sizeof c / 8];

    if (s && s->valid == 1) {
        memcpy(c.trace_id, s->trace_id, sizeof c.trace_id);
        memcpy(c.span_id, s->span_id, sizeof c.span_id);
        c.attrs_n = MIN(s->attrs_data_size, (uint16_t) CORE_ATTRS_MAX);
        memcpy(c.attrs, s->attrs_data, c.attrs_n);
    }
    memcpy(words, &c, sizeof words);
    atomic_fetch_add_explicit(&t->context_seq, 1, memory_order_acq_rel);
    for (size_t i = 0, n = (offsetof(struct thr_context, attrs) + c.attrs_n + 7) / 8; i < n; i++)
        atomic_store_explicit(&t->context[i], words[i], memory_order_relaxed);
    atomic_fetch_add_explicit(&t->context_seq, 1, memory_order_release);
}

void handler_add_context(const struct thr *t, struct ring_record *r)
{
    uint32_t seq = atomic_load_explicit(&t->context_seq, memory_order_acquire);
    uint64_t words[sizeof(struct thr_context) / 8];
    struct thr_context c;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        words[i] = atomic_load_explicit(&t->context[i], memory_order_acquire);
    memcpy(&c, words, sizeof c);
    if (seq & 1 || atomic_load(&t->context_seq) != seq)
        return;
    for (unsigned i = 0; i < sizeof c.span_id && !(r->flags & RECORD_LINK); i++)
        if (c.span_id[i]) {
            memcpy(r->trace_id, c.trace_id, sizeof r->trace_id);
            memcpy(r->span_id, c.span_id, sizeof r->span_id);
            r->flags |= RECORD_LINK;
        }
    if (r->attrs + c.attrs_n <= CORE_ATTRS_MAX) {
        memcpy((uint8_t *) &r->pc[r->n] + r->attrs, c.attrs, c.attrs_n);
        r->attrs = (uint16_t) (r->attrs + c.attrs_n);
    }
}

/* The walker's flag `cut` stands for both reasons why a native stack may end early. */
static void use_answer(struct ring_record *r, const struct wick_ext_stack *s)
{
    r->n = (uint16_t) MIN(s->n, s->max);
    if (!s->cut)
        r->flags &= (uint8_t) ~(RECORD_CUT_DEPTH | RECORD_CUT_RULE);
    else if (!(r->flags & RECORD_CUT_RULE))
        r->flags |= RECORD_CUT_DEPTH;
}

void handler_ask_walker(struct ring_record *r, uint32_t max, int tid)
{
    wick_ext_walker *walker = atomic_load_explicit(&core.walker, memory_order_relaxed);
    struct wick_ext_stack s;

    if (likely(!walker)) {
        if (!tid)
            copy_context(r);
        return;
    }
    s.frames = r->pc;
    s.n = r->n;
    s.max = max;
    s.tid = tid;
    s.cut = (r->flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE)) != 0;
    s.span = 0;
    s.labels_n = 0;
    walker(&s);
    use_answer(r, &s);
    if (!tid)
        copy_context(r);
    if (s.span) {
        memcpy(r->trace_id, s.trace_id, sizeof r->trace_id);
        memcpy(r->span_id, s.span_id, sizeof r->span_id);
        r->flags |= RECORD_LINK;
    }
    if (r->attrs + s.labels_n <= CORE_ATTRS_MAX) {
        memcpy((uint8_t *) &r->pc[r->n] + r->attrs, s.labels, s.labels_n);
        r->attrs = (uint16_t) (r->attrs + s.labels_n);
    }
}

/* For stacks without span and labels. */
static uint32_t ask_for_frames(uint64_t *pc, uint32_t n, uint32_t max, uint8_t *flags)
{
    wick_ext_walker *walker = atomic_load_explicit(&core.walker, memory_order_relaxed);
    struct wick_ext_stack s = {.frames = pc, .n = n, .max = max};

    if (likely(!walker))
        return n;
    s.cut = (*flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE)) != 0;
    walker(&s);
    if (!s.cut)
        *flags &= (uint8_t) ~(RECORD_CUT_DEPTH | RECORD_CUT_RULE);
    return MIN(s.n, max);
}

/* Milliseconds, as the agent's samples have them: finer times would cost bytes on every further way. */
static void set_time(struct ring_record *r)
{
    uint64_t ms = (uint64_t) sys_clock_ns(CLOCK_REALTIME) / 1000000;

    r->time_high = (uint16_t) (ms >> 32);
    r->time_low = (uint32_t) ms;
}

/* Returns false if there was no room for the record. */
static bool take(struct thr *t, struct walk *w, enum record_kind kind, uint64_t value, uint64_t count, uint64_t leaf)
{
    const struct module_set *set = atomic_load_explicit(&core.modules, memory_order_acquire);
    uint32_t max = core.max_depth, room = (uint32_t) sizeof(struct ring_record) + max * 8 + CORE_ATTRS_MAX, used;
    struct ring_record *r = set ? ring_reserve(t, room) : NULL;

    if (!r)
        return false;
    r->value = value;
    r->count = count;
    r->generation = set->generation;
    r->flags = 0;
    r->attrs = 0;
    r->n = 0;
    set_time(r);
    if (leaf)
        r->pc[r->n++] = leaf;
    r->n = (uint16_t) (r->n + walk_frames(set, cache_of(t, set), w, r->pc + r->n, max - r->n, &r->flags));
    handler_ask_walker(r, max, 0);
    if (r->flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE))
        atomic_fetch_add_explicit(&core.truncated, 1, memory_order_relaxed);
    used = ALIGN_UP((uint32_t) sizeof *r + r->n * 8u + r->attrs, 8u);
    ring_commit(t, r, room, used, kind);
    return true;
}

/* --- samples taken by others --- */
bool handler_put(struct thr *t, const struct handler_given *g)
{
    const struct module_set *set = atomic_load_explicit(&core.modules, memory_order_acquire);
    uint32_t n = MIN(g->n, core.max_depth), room = (uint32_t) sizeof(struct ring_record) + n * 8 + CORE_ATTRS_MAX;
    struct ring_record *r;

    room = ALIGN_UP(room, 8u);
    atomic_fetch_add_explicit(&t->inside, 1, memory_order_acq_rel);
    r = set ? ring_reserve(t, room) : NULL;
    if (r) {
        r->value = g->value;
        r->count = g->count;
        r->generation = set->generation;
        r->flags = g->n > n ? RECORD_CUT_DEPTH : 0;
        r->attrs = 0;
        r->n = (uint16_t) n;
        set_time(r);
        memcpy(r->pc, g->pc, n * sizeof r->pc[0]);
        if (g->span_id) {
            memcpy(r->trace_id, g->trace_id, sizeof r->trace_id);
            memcpy(r->span_id, g->span_id, sizeof r->span_id);
            r->flags |= RECORD_LINK;
        } else {
            copy_context(r);
        }
        if (g->label_n && r->attrs + g->label_n <= CORE_ATTRS_MAX) {
            memcpy((uint8_t *) &r->pc[r->n] + r->attrs, g->label, g->label_n);
            r->attrs = (uint16_t) (r->attrs + g->label_n);
        }
        ring_commit(t, r, room, ALIGN_UP((uint32_t) sizeof *r + r->n * 8u + r->attrs, 8u), g->kind);
    }
    atomic_fetch_add_explicit(&t->inside, 3, memory_order_release);
    return r != NULL;
}

/* --- the handler --- */
static void on_timer(struct thr *t, const siginfo_t *si, const ucontext_t *uc)
{
    uint64_t weight = 1 + (uint64_t) MAX(si->si_overrun, 0),
             n = atomic_load_explicit(&t->samples, memory_order_relaxed);
    struct walk w = {.own_lo = t->own_lo, .own_hi = t->own_hi};
    bool timed = n % TIMED_SAMPLES == TIMED_SAMPLES / 2;
    int64_t from = 0;

    atomic_fetch_add_explicit(&t->inside, 1, memory_order_acq_rel);
    if (unlikely(timed))
        from = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    /* Written only by this thread, and handlers do not nest: no locked additions. */
    atomic_store_explicit(&t->samples, n + 1, memory_order_relaxed);
    atomic_store_explicit(&t->periods, atomic_load_explicit(&t->periods, memory_order_relaxed) + weight,
                          memory_order_relaxed);
    walk_init_ucontext(&w, uc);
    weight += atomic_load_explicit(&t->owed, memory_order_relaxed);
    atomic_store_explicit(&t->owed, weight, memory_order_relaxed);
    if (take(t, &w, RECORD_CPU, weight, atomic_load_explicit(&t->period_ns, memory_order_relaxed), 0))
        atomic_store_explicit(&t->owed, 0, memory_order_relaxed);
    if (unlikely(timed))
        atomic_fetch_add_explicit(&core.handler_ns,
                                  TIMED_SAMPLES * (uint64_t) (sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from),
                                  memory_order_relaxed);
    atomic_fetch_add_explicit(&t->inside, 3, memory_order_release);
}

static void chain(int sig, siginfo_t *si, void *uc)
{
    if (core.previous.sa_flags & SA_SIGINFO) {
        if (core.previous.sa_sigaction)
            core.previous.sa_sigaction(sig, si, uc);
    } else if (core.previous.sa_handler != SIG_DFL && core.previous.sa_handler != SIG_IGN) {
        core.previous.sa_handler(sig);
    }
}

static void on_signal(int sig, siginfo_t *si, void *uc)
{
    int saved = errno;
    uint64_t value = (uint64_t) (uintptr_t) si->si_value.sival_ptr;
    struct thr *t = si->si_code == SI_TIMER && value >> 32 == 0x7769636b ? thr_at((uint32_t) value) : NULL;

    if (t && atomic_load_explicit(&t->state, memory_order_acquire) == THR_ACTIVE) {
        if (atomic_load_explicit(&core.sampling, memory_order_relaxed))
            on_timer(t, si, uc);
    } else if (!t) {
        chain(sig, si, uc);
    }
    errno = saved;
}

static bool signal_is_free(int sig)
{
    struct sigaction sa;

    return sigaction(sig, NULL, &sa) == 0 && !(sa.sa_flags & SA_SIGINFO) && sa.sa_handler == SIG_DFL;
}

static int pick_signal(void)
{
    for (int sig = SIGRTMAX - 2; sig > SIGRTMIN + 2; sig--)
        if (signal_is_free(sig))
            return sig;
    return SIGPROF;
}

int handler_install(int signal)
{
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK}, now;

    if (!signal)
        signal = pick_signal();
    if (sigaction(signal, NULL, &now) < 0)
        return -errno;
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) {
        core.signal = signal;
        return 0;
    }
    sigfillset(&sa.sa_mask);
    core.previous = now;
    core.signal = signal;
    return sigaction(signal, &sa, NULL) < 0 ? -errno : 0;
}

/* The handler is left in place if another one was installed over it, which may chain to it. A pending signal must find
 * a handler, so a default action becomes ignore. */
void handler_remove(void)
{
    struct sigaction now, back = core.previous;

    if (!core.signal || sigaction(core.signal, NULL, &now) < 0 || now.sa_sigaction != on_signal)
        return;
    if (!(back.sa_flags & SA_SIGINFO) && back.sa_handler == SIG_DFL)
        back.sa_handler = SIG_IGN;
    sigaction(core.signal, &back, NULL);
    if (back.sa_handler == SIG_IGN && core.previous.sa_handler == SIG_DFL)
        sigaction(core.signal, &core.previous, NULL); /* ignoring the signal discarded pending ones */
}

/* True if the signal still has our handler. */
bool handler_is_ours(void)
{
    struct sigaction now;

    return sigaction(core.signal, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal;
}

/* --- hooks --- */
/* The registers of the calling function: its own frame is the first one walked. */
#if defined(__x86_64__)
#define REGS_HERE(w)                                                                       \
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n\tmov %%rbx, %3" \
                     : "=r"((w)->pc), "=r"((w)->sp), "=r"((w)->fp), "=r"((w)->bx))
#elif defined(__aarch64__)
#define REGS_HERE(w) \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29" : "=r"((w)->pc), "=r"((w)->sp), "=r"((w)->fp))
#endif

__attribute__((noinline)) void handler_sample_here(struct thr *t, enum record_kind kind, uint64_t value, uint64_t count,
                                                   uint64_t leaf)
{
    struct walk w = {.own_lo = t->own_lo, .own_hi = t->own_hi, .exact = true};

    atomic_fetch_add_explicit(&t->inside, 1, memory_order_acq_rel);
    REGS_HERE(&w);
    walk_set_stack(&w);
    take(t, &w, kind, value, count, leaf);
    atomic_fetch_add_explicit(&t->inside, 3, memory_order_release);
}

__attribute__((noinline)) uint32_t handler_walk_here(struct thr *t, uint64_t *pc, uint32_t max, uint8_t *ret_flags,
                                                     uint32_t *ret_generation)
{
    struct walk w = {.own_lo = t->own_lo, .own_hi = t->own_hi, .exact = true};
    const struct module_set *set;
    uint32_t n = 0;

    atomic_fetch_add_explicit(&t->inside, 1, memory_order_acq_rel);
    set = atomic_load_explicit(&core.modules, memory_order_acquire);
    *ret_flags = 0;
    if (set) {
        REGS_HERE(&w);
        walk_set_stack(&w);
        *ret_generation = set->generation;
        n = ask_for_frames(pc, walk_frames(set, cache_of(t, set), &w, pc, max, ret_flags), max, ret_flags);
    }
    atomic_fetch_add_explicit(&t->inside, 3, memory_order_release);
    return n;
}

/* The thread may run and change its stack during the walk: reads are checked, and the caller checks afterwards whether
 * it ran. */
uint32_t handler_walk_at(const struct walk_start *from, uint64_t *pc, uint32_t max, uint8_t *ret_flags,
                         uint32_t *ret_generation)
{
    const struct module_set *set = atomic_load_explicit(&core.modules, memory_order_acquire);
    struct walk w = {.pc = from->pc, .sp = from->sp, .fp = from->fp, .bx = from->bx, .exact = !from->after};

    *ret_flags = 0;
    *ret_generation = set ? set->generation : 0;
    walk_set_stack(&w); /* no bounds: each page is checked by the kernel first */
    return set ? walk_frames(set, NULL, &w, pc, max, ret_flags) : 0;
}
