/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling of allocations (heap.h). Runs on the host's threads inside malloc and free: it allocates only with mmap, and
 * takes no lock but its own. */
#include "sdk/heap.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "sdk/core.h"
#include "sdk/heap_unseen.h"
#include "sdk/sys.h"
#include "sdk/usdt.h"

enum {
    STACKS_MAX = 1 << 16,
    STACK_SLOTS = STACKS_MAX * 2,
    POOL_MAX = STACKS_MAX * 48, /* program counters */
    FILTER_FIRST = 1 << 13,
    FILTER_PER_LIVE = 8,
    LIVE_FIRST = 1 << 10,
    LIVE_MAX = 1 << 22,
    OFF_COUNTDOWN = 1 << 18, /* bytes until a thread checks again whether sampling is on */
    MISSED_MAX = 256,
    SPINS = 200,
    NAP_NS = 50000,
    HOOK_NAPS = 10,
};

_Atomic(struct heap_filter *) heap_filter;
__thread int64_t heap_countdown;
static __thread bool in_hook;
static __thread bool excluded;

static struct {
    _Atomic bool on;
    _Atomic bool in_use;
    _Atomic uint64_t interval;
    struct heap_stack *stacks; /* [0] is the stack without frames, for samples that found no room */
    uint32_t *slots;
    uint64_t *pool;
    _Atomic uint32_t n_stacks;
    uint32_t n_pool;
    struct heap_live *live;
    uint32_t live_cap, n_live;
    uint64_t live_bytes, peak_bytes, peak; /* of all stacks; peak counts the times that live_bytes was the most so far */
    bool ended;                            /* main() has: what is live stays so */
    uint64_t lost;
    _Atomic uint64_t samples;
} heap;

/*
 * One lock. Its holder may be preempted, even while it moves the whole table, by a thread of higher priority
 * (SCHED_FIFO); if that one yielded in a loop for the lock, the holder would never run again. So no thread spins for
 * long. Hooks on the host's threads give up after about a millisecond: the sample of an allocation is dropped, a free()
 * is recorded in `missed` for the next holder. All others sleep, which lets any thread run.
 */
static atomic_flag lock = ATOMIC_FLAG_INIT;
static _Atomic uintptr_t missed[MISSED_MAX];
static _Atomic uint32_t n_missed;
static _Atomic uint64_t dropped;

static void settle_missed(void);

static bool try_acquire(int naps)
{
    struct timespec nap = {0, NAP_NS};

    for (int i = 0; atomic_flag_test_and_set_explicit(&lock, memory_order_acquire); i++)
        if (i > SPINS) {
            if (naps-- == 0)
                return false;
            sys_call(SYS_nanosleep, (long) &nap, 0, 0, 0);
        }
    if (unlikely(atomic_load_explicit(&n_missed, memory_order_relaxed)))
        settle_missed();
    return true;
}

static bool acquire_briefly(void)
{
    return try_acquire(HOOK_NAPS);
}

static void acquire(void)
{
    while (!try_acquire(INT32_MAX))
        ;
}

static void release(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

void heap_fork_prepare(void)
{
    acquire();
}

void heap_fork_done(void)
{
    release();
}

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* --- filter and live set; under the lock --- */
static uint32_t live_slot(uintptr_t p)
{
    return (uint32_t) (((p >> 4) * 0x9e3779b97f4a7c15ull) >> 32) & (heap.live_cap - 1);
}

static void filter_add(struct heap_filter *f, uintptr_t p, int d)
{
    uint32_t h = heap_hash(f, (void *) p);
    uint8_t *c = f->bits + f->size / 8 + h, *bits = &f->bits[h >> 3], bit = (uint8_t) (1u << (h & 7));

    if (*c == 255) /* a saturated counter stays set for good: correct, only slower */
        return;
    *c = (uint8_t) (*c + d);
    __atomic_store_n(bits, (uint8_t) (*c ? *bits | bit : *bits & ~bit), __ATOMIC_RELAXED);
}

static struct heap_filter *new_filter(uint32_t size)
{
    struct heap_filter *f = map(sizeof *f + size / 8 + size);

    if (f) {
        f->size = size;
        f->shift = 64 - (uint32_t) __builtin_ctz(size);
    }
    return f;
}

/* Old filters stay mapped: a concurrent free() may still be reading one. Each is four times as
 * large as the one before, so all old ones together are smaller than the newest. */
static void grow_filter(void)
{
    struct heap_filter *old = atomic_load(&heap_filter), *f = new_filter(old->size * 4);

    if (!f)
        return;
    for (uint32_t i = 0; i < heap.live_cap; i++)
        if (heap.live[i].p)
            filter_add(f, heap.live[i].p, 1);
    atomic_store_explicit(&heap_filter, f, memory_order_release);
}

static void place(struct heap_live l)
{
    uint32_t i = live_slot(l.p);

    while (heap.live[i].p)
        i = (i + 1) & (heap.live_cap - 1);
    heap.live[i] = l;
}

static bool grow_live(void)
{
    struct heap_live *old = heap.live;
    uint32_t cap = heap.live_cap;

    if (cap >= LIVE_MAX)
        return false;
    heap.live = map(sizeof *old * cap * 2);
    if (!heap.live) {
        heap.live = old;
        return false;
    }
    heap.live_cap = cap * 2;
    for (uint32_t i = 0; i < cap; i++)
        if (old[i].p)
            place(old[i]);
    munmap(old, sizeof *old * cap);
    return true;
}

/* Open addressing without tombstones: the entries that follow are moved up. */
static void unplace(uint32_t i)
{
    uint32_t mask = heap.live_cap - 1, hole = i;

    for (uint32_t k = (i + 1) & mask; heap.live[k].p; k = (k + 1) & mask) {
        uint32_t home = live_slot(heap.live[k].p);

        if (((k - home) & mask) >= ((k - hole) & mask)) {
            heap.live[hole] = heap.live[k];
            hole = k;
        }
    }
    heap.live[hole].p = 0;
}

/*
 * The peak by stack, without a copy of all stacks at each new one: a stack keeps what it had at the last peak only when it
 * changes after it. One that has not changed since (whose number is older) still has it.
 */
static void change_live(uint32_t stack, int64_t count, int64_t bytes)
{
    struct heap_stack *s = &heap.stacks[stack];

    if (s->peak != heap.peak) {
        s->peak = heap.peak;
        s->peak_bytes = s->live_bytes;
    }
    s->live_count += (uint64_t) count;
    s->live_bytes += (uint64_t) bytes;
    heap.live_bytes += (uint64_t) bytes;
    if (heap.live_bytes > heap.peak_bytes) {
        heap.peak_bytes = heap.live_bytes;
        heap.peak++;
    }
}

static bool remove_live(uintptr_t p, struct heap_live *ret)
{
    for (uint32_t i = live_slot(p); heap.live && heap.live[i].p; i = (i + 1) & (heap.live_cap - 1)) {
        if (heap.live[i].p != p)
            continue;
        *ret = heap.live[i];
        change_live(ret->stack, -(int64_t) ret->count, -(int64_t) ret->bytes);
        unplace(i);
        heap.n_live--;
        filter_add(atomic_load(&heap_filter), p, -1);
        return true;
    }
    return false;
}

/* A block is recorded before it is freed, so that this precedes a sample of the next block at the same address. */
static void miss(uintptr_t p)
{
    uint32_t from = (uint32_t) (p >> 4);

    for (uint32_t i = 0; i < MISSED_MAX; i++) {
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong(&missed[(from + i) % MISSED_MAX], &none, p)) {
            atomic_fetch_add(&n_missed, 1);
            return;
        }
    }
    atomic_fetch_add(&dropped, 1);
}

static void settle_missed(void)
{
    struct heap_live l;

    for (uint32_t i = 0; i < MISSED_MAX; i++) {
        uintptr_t p = atomic_exchange(&missed[i], 0);

        if (!p)
            continue;
        atomic_fetch_sub(&n_missed, 1);
        if (!heap.ended)
            remove_live(p, &l);
    }
}

static bool live_add(struct heap_live l)
{
    struct heap_filter *f = atomic_load(&heap_filter);
    struct heap_live stale;

    remove_live(l.p, &stale); /* a sample whose free() was not seen */
    if (heap.n_live >= heap.live_cap / 2 && !grow_live() && heap.n_live >= heap.live_cap / 8 * 7)
        return false;
    place(l);
    heap.n_live++;
    filter_add(f, l.p, 1);
    if (heap.n_live > f->size / FILTER_PER_LIVE)
        grow_filter();
    return true;
}

void heap_take(void *p, struct heap_live *ret)
{
    *ret = (struct heap_live){0};
    if (!p)
        return;
    if (!acquire_briefly()) {
        miss((uintptr_t) p);
        return;
    }
    if (!heap.ended)
        remove_live((uintptr_t) p, ret);
    release();
    if (ret->p)
        USDT_FREE(p);
}

void heap_put_back(const struct heap_live *l)
{
    if (!acquire_briefly()) {
        atomic_fetch_add(&dropped, 1);
        return;
    }
    if (live_add(*l)) {
        change_live(l->stack, l->count, (int64_t) l->bytes);
    } else {
        heap.lost++;
    }
    release();
    USDT_ALLOC(l->p, l->bytes * 65536 / MAX(l->count, 1u), l->bytes);
}

void heap_forget(void *p)
{
    struct heap_live l;

    heap_take(p, &l);
}

void heap_begin_thread(void)
{
    heap_countdown = 0;
}

void heap_exclude_thread(void)
{
    excluded = true;
    heap_countdown = INT64_MAX;
}

/* --- stacks; under the lock --- */
static uint32_t intern(const uint64_t *pc, uint32_t n, uint8_t flags, uint32_t generation)
{
    uint64_t h = n;
    uint32_t slot, id;

    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ pc[i]) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 29;
    }
    for (slot = (uint32_t) h % STACK_SLOTS; heap.slots[slot]; slot = (slot + 1) % STACK_SLOTS) {
        struct heap_stack *s = &heap.stacks[heap.slots[slot]];

        if (s->hash == h && s->n == n && !memcmp(heap.pool + s->off, pc, n * sizeof *pc))
            return heap.slots[slot];
    }
    id = atomic_load(&heap.n_stacks);
    if (id >= STACKS_MAX || heap.n_pool + n > POOL_MAX) {
        heap.lost++;
        return 0;
    }
    heap.stacks[id] =
        (struct heap_stack){.off = heap.n_pool, .n = n, .generation = generation, .flags = flags, .hash = h};
    memcpy(heap.pool + heap.n_pool, pc, n * sizeof *pc);
    heap.n_pool += n;
    heap.slots[slot] = id;
    atomic_store_explicit(&heap.n_stacks, id + 1, memory_order_release);
    return id;
}

/* --- sampling --- */
static double uniform(struct thr *t) /* (0, 1] */
{
    uint64_t x = t->rng;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    t->rng = x;
    return (double) ((x * 0x2545f4914f6cdd1dull >> 11) + 1) * 0x1p-53;
}

static int64_t draw(struct thr *t)
{
    return 1 + (int64_t) (-log(uniform(t)) * (double) heap.interval);
}

bool heap_decide(size_t size)
{
    struct thr *t = thr_self;

    if (excluded) {
        heap_countdown = INT64_MAX;
        return false;
    }
    if (in_hook || !atomic_load_explicit(&heap.on, memory_order_acquire) ||
        !atomic_load_explicit(&core.sampling, memory_order_relaxed)) {
        heap_countdown = in_hook ? 0 : OFF_COUNTDOWN;
        return false;
    }
    if (!t) {
        in_hook = true;
        t = thr_adopt();
        in_hook = false;
        if (!t) {
            heap_countdown = OFF_COUNTDOWN;
            return false;
        }
        heap_countdown = draw(t) - (int64_t) MIN(size, (size_t) INT64_MAX / 2);
        if (heap_countdown >= 0)
            return false;
    }
    heap_countdown = draw(t);
    return true;
}

void heap_record(void *p, size_t size)
{
    uint64_t pc[256];
    uint32_t generation = 0, n, stack;
    uint8_t flags;
    struct thr *t = thr_self;
    double s = size ? (double) size : 1, weight = -1 / expm1(-s / (double) heap.interval);
    uint64_t count = (uint64_t) (weight * 65536 + 0.5), bytes = (uint64_t) (weight * s + 0.5);

    if (!p || !t)
        return;
    in_hook = true;
    n = handler_walk_here(t, pc, MIN(core.max_depth, (unsigned) ARRAY_SIZE(pc)), &flags, &generation);
    if (!acquire_briefly()) {
        atomic_fetch_add(&dropped, 1);
        in_hook = false;
        return;
    }
    stack = intern(pc, n, flags, generation);
    heap.stacks[stack].alloc_count += count;
    heap.stacks[stack].alloc_bytes += bytes;
    if (heap.in_use && !heap.ended) {
        struct heap_live l = {(uintptr_t) p, stack, (uint32_t) MIN(count, (uint64_t) UINT32_MAX), bytes};

        if (live_add(l)) {
            change_live(stack, l.count, (int64_t) bytes);
        } else {
            heap.lost++;
        }
    }
    release();
    in_hook = false;
    atomic_fetch_add_explicit(&heap.samples, 1, memory_order_relaxed);
    USDT_ALLOC(p, size, bytes);
}

/* --- start and stop --- */
static int make_tables(void)
{
    heap.stacks = map(sizeof *heap.stacks * STACKS_MAX);
    heap.slots = map(sizeof *heap.slots * STACK_SLOTS);
    heap.pool = map(sizeof *heap.pool * POOL_MAX);
    heap.live = map(sizeof *heap.live * LIVE_FIRST);
    heap.live_cap = LIVE_FIRST;
    atomic_store(&heap.n_stacks, 1);
    if (!heap.stacks || !heap.slots || !heap.pool || !heap.live)
        return -ENOMEM;
    if (!atomic_load(&heap_filter))
        atomic_store(&heap_filter, new_filter(FILTER_FIRST));
    return atomic_load(&heap_filter) ? 0 : -ENOMEM;
}

int heap_start(uint64_t interval, bool in_use)
{
    int r = 0;

    heap_unseen_begin();
    acquire();
    heap.interval = interval ? interval : 512 << 10;
    heap.in_use = in_use;
    heap.ended = false;
    if (!heap.stacks)
        r = make_tables();
    release();
    if (r == 0)
        atomic_store_explicit(&heap.on, true, memory_order_release);
    return r;
}

void heap_stop(void)
{
    struct heap_filter *f = atomic_load(&heap_filter);

    atomic_store(&heap.on, false);
    acquire();
    if (heap.live) {
        memset(heap.live, 0, sizeof *heap.live * heap.live_cap);
        for (uint32_t i = 0; i < f->size / 8; i++)
            __atomic_store_n(&f->bits[i], 0, __ATOMIC_RELAXED);
        memset(f->bits + f->size / 8, 0, f->size);
        heap.n_live = 0;
        for (uint32_t i = 0, n = atomic_load(&heap.n_stacks); i < n; i++)
            heap.stacks[i].live_count = heap.stacks[i].live_bytes = heap.stacks[i].peak_bytes = heap.stacks[i].peak = 0;
        heap.live_bytes = heap.peak_bytes = heap.peak = 0;
    }
    release();
}

void heap_main_ended(void)
{
    heap_unseen_main_ended();
    if (!acquire_briefly()) /* exit() was called in a signal handler, which interrupted the holder */
        return;
    heap.ended = heap.live != NULL;
    release();
}

/* --- reading --- */
uint32_t heap_stacks(void)
{
    return atomic_load_explicit(&heap.n_stacks, memory_order_acquire);
}

void heap_stack_at(uint32_t i, struct heap_stack *ret, uint64_t *pc)
{
    acquire();
    *ret = heap.stacks[i];
    if (ret->peak != heap.peak)
        ret->peak_bytes = ret->live_bytes;
    release();
    if (pc)
        memcpy(pc, heap.pool + ret->off, ret->n * sizeof *pc); /* never changes */
}

uint64_t heap_live_samples(void)
{
    uint64_t n;

    acquire();
    n = heap.n_live;
    release();
    return n;
}

uint64_t heap_lost(void)
{
    uint64_t n;

    acquire();
    n = heap.lost + atomic_load(&dropped);
    release();
    return n;
}

uint64_t heap_samples(void)
{
    return atomic_load(&heap.samples);
}
