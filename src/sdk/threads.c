/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of the process and their timers.
 *
 * A thread gets its state when it starts (pthread_create in the preload library), or when the background thread finds
 * it in /proc/self/task. Its timer runs on its own CPU clock and sends the signal to it alone, with the number of its
 * state as the value, so that the handler needs no thread-local variable.
 *
 * The kernel looks at CPU timers once a tick, so a short thread may end before it is seen. The first expiry is random
 * within a period. CPU time of a thread that no sample covers is carried over at its end, from thread to thread, and
 * each full period of it becomes a sample: the total is right for threads of any length.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sdk/core.h"
#include "sdk/sys.h"

static _Atomic uint32_t claim_hint;
static _Atomic uint32_t n_found; /* slots whose thread was found by scanning */

struct thr *thr_at(uint32_t index)
{
    struct thr *chunk;

    if (index >= THR_CHUNK * THR_CHUNKS)
        return NULL;
    chunk = atomic_load_explicit(&core.chunks[index / THR_CHUNK], memory_order_acquire);
    return chunk ? &chunk[index % THR_CHUNK] : NULL;
}

static struct thr *add_chunk(uint32_t c)
{
    size_t size = sizeof(struct thr) * THR_CHUNK;
    struct thr *chunk = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct thr *none = NULL;

    if (chunk == MAP_FAILED)
        return NULL;
    if (!atomic_compare_exchange_strong(&core.chunks[c], &none, chunk)) {
        munmap(chunk, size);
        return none;
    }
    return chunk;
}

static struct thr *try_claim(uint32_t i)
{
    struct thr *t = thr_at(i);
    uint32_t none = THR_FREE, n;

    if (!t && !add_chunk(i / THR_CHUNK))
        return NULL;
    t = thr_at(i);
    if (!t || !atomic_compare_exchange_strong(&t->state, &none, THR_CLAIMED))
        return NULL;
    n = atomic_load(&core.n_thrs);
    while (n <= i && !atomic_compare_exchange_weak(&core.n_thrs, &n, i + 1))
        ;
    t->index = i;
    return t;
}

struct thr *thr_claim(void)
{
    uint32_t n = atomic_load(&core.n_thrs), from = atomic_load_explicit(&claim_hint, memory_order_relaxed);
    struct thr *t;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (from + k) % n;

        if (atomic_load_explicit(&thr_at(i)->state, memory_order_relaxed) == THR_FREE && (t = try_claim(i))) {
            atomic_store_explicit(&claim_hint, i + 1, memory_order_relaxed);
            return t;
        }
    }
    for (uint32_t i = n; i < MIN(n + 64, (uint32_t) (THR_CHUNK * THR_CHUNKS)); i++)
        if ((t = try_claim(i)))
            return t;
    atomic_fetch_add_explicit(&core.lost, 1, memory_order_relaxed);
    return NULL;
}

int64_t thr_cpu_ns(int tid)
{
    return sys_clock_ns(sys_thread_clock(tid));
}

/* t->rng belongs to the thread's hooks; timers are also set by other threads, so they use the clock as a seed. */
static uint64_t random_of(const struct thr *t, int64_t cpu)
{
    uint64_t x = ((uint64_t) sys_clock_ns(CLOCK_MONOTONIC) ^ (uint64_t) cpu << 20 ^ (uint64_t) (uintptr_t) t) *
                 0x9e3779b97f4a7c15ull;

    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

int thr_arm(struct thr *t)
{
    struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = core.signal};
    uint64_t period = 1000000000ull / (uint64_t) core_rate();
    struct itimerspec it = {.it_interval = {(time_t) (period / 1000000000), (long) (period % 1000000000)}};
    int64_t now = thr_cpu_ns(t->tid);
    uint64_t first = 1 + random_of(t, now) % period;
    int32_t id = THR_NO_TIMER, arming = THR_ARMING;
    long r;

    if (!(core.types & (WICK_CPU | WICK_WALL)) || now < 0 ||
        !atomic_compare_exchange_strong(&t->timer, &id, THR_ARMING))
        return 0;
    ev.sigev_value.sival_ptr = (void *) (uintptr_t) (0x7769636bull << 32 | t->index);
    ev._sigev_un._tid = t->tid;
    r = sys_call(SYS_timer_create, sys_thread_clock(t->tid), (long) &ev, (long) &id, 0);
    if (r < 0) {
        atomic_store(&t->timer, THR_NO_TIMER);
        return (int) r;
    }
    t->period_ns = period;
    t->armed_ns = now;
    first += (uint64_t) now;
    atomic_store(&t->periods, 0);
    it.it_value = (struct timespec){(time_t) (first / 1000000000), (long) (first % 1000000000)};
    if (!atomic_compare_exchange_strong(&t->timer, &arming, id)) { /* disarmed in the meantime */
        sys_call(SYS_timer_delete, id, 0, 0, 0);
        return 0;
    }
    r = sys_call(SYS_timer_settime, id, TIMER_ABSTIME, (long) &it, 0);
    return (int) r;
}

void thr_disarm(struct thr *t)
{
    int32_t id = atomic_exchange(&t->timer, THR_NO_TIMER); /* its id may be reused once it is deleted */

    if (id >= 0)
        sys_call(SYS_timer_delete, id, 0, 0, 0);
}

static void init_state(struct thr *t, int tid, uint64_t own_lo, uint64_t own_hi, bool found)
{
    t->tid = tid;
    t->timer = THR_NO_TIMER;
    t->found = found;
    t->own_lo = own_lo;
    t->own_hi = own_hi;
    t->rng = random_of(t, tid) | 1;
    atomic_store(&t->periods, 0);
    atomic_store_explicit(&t->owed, 0, memory_order_relaxed);
    atomic_store(&t->block_seq, 0);
    atomic_store(&t->hooked_ns, 0);
    atomic_store(&t->context_seq, 0);
    for (size_t i = 0; i < ARRAY_SIZE(t->context); i++)
        atomic_store_explicit(&t->context[i], 0, memory_order_relaxed);
    atomic_store(&t->context_kept, false);
    t->wall_countdown = 0;
    t->looked = t->wall_seen = t->cpu_seen = t->off_seen = t->ready_seen = t->rest_owed = t->parked_owed = 0;
    t->awake = 0;
    t->active = false;
    atomic_fetch_add(&core.live, 1);
    atomic_store_explicit(&t->state, THR_ACTIVE, memory_order_release);
}

/* After the last known thread the process may be about to end, so the background thread is woken to check. */
static void set_exited(struct thr *t)
{
    atomic_store_explicit(&t->state, THR_EXITED, memory_order_release);
    if (atomic_fetch_sub(&core.live, 1) == 1 && atomic_load(&core.running))
        handler_wake();
}

static void unblock_signal(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, core.signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static struct thr *thr_by_tid(int tid)
{
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (t && atomic_load(&t->state) == THR_ACTIVE && t->tid == tid)
            return t;
    }
    return NULL;
}

struct thr *thr_enter(uint64_t own_lo, uint64_t own_hi)
{
    int tid = sys_gettid();
    struct thr *t = atomic_load(&n_found) ? thr_by_tid(tid) : NULL;

    if (t) { /* the background thread was faster */
        t->own_lo = own_lo;
        t->own_hi = own_hi;
        t->found = false;
        atomic_fetch_sub(&n_found, 1);
        thr_self = t;
        return t;
    }
    t = thr_claim();
    if (!t)
        return NULL;
    init_state(t, tid, own_lo, own_hi, false);
    thr_self = t;
    if (atomic_load(&core.running) && atomic_load(&core.sampling)) {
        unblock_signal();
        thr_arm(t);
    }
    return t;
}

/* For a hook on a thread that was not registered at its start; its end will not be reported either. */
struct thr *thr_adopt(void)
{
    struct thr *t = thr_enter(0, 0);

    if (t && !t->found) {
        t->found = true;
        atomic_fetch_add(&n_found, 1);
    }
    return t;
}

struct thr *thr_help(void)
{
    struct thr *t = thr_self ? thr_self : thr_adopt();

    if (!t || atomic_load(&t->state) != THR_ACTIVE)
        return NULL;
    if (t->found)
        atomic_fetch_sub(&n_found, 1);
    t->found = false;
    t->cpu_seen = 0;
    thr_disarm(t);
    atomic_fetch_sub(&core.live, 1);
    atomic_store_explicit(&t->state, THR_HELPER, memory_order_release);
    return t;
}

void thr_help_end(void)
{
    if (thr_self && atomic_load(&thr_self->state) == THR_HELPER)
        atomic_store_explicit(&thr_self->state, THR_EXITED, memory_order_release);
    thr_self = NULL;
}

bool thr_is_helper(int tid)
{
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (t && atomic_load(&t->state) == THR_HELPER && t->tid == tid)
            return true;
    }
    return false;
}

/* The CPU time of a thread that exceeds its samples (or falls short of them) goes into a sum over all threads; each
 * full period in it is a sample of the thread that filled it. */
static _Atomic int64_t carry;

static uint64_t settle(struct thr *t)
{
    int64_t period = (int64_t) t->period_ns, now, rest, sum;

    if (t->timer < 0) /* also after a stop, when a seccomp filter may forbid reading the clock */
        return 0;
    now = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    rest = now - t->armed_ns - (int64_t) atomic_load(&t->periods) * period;
    if (now < 0)
        return 0;
    sum = atomic_fetch_add(&carry, rest) + rest;
    while (sum >= period)
        if (atomic_compare_exchange_weak(&carry, &sum, sum % period))
            return (uint64_t) (sum / period);
    return 0;
}

void thr_begin_process(void)
{
    struct thr *t = thr_self;

    if (t)
        atomic_store(&carry, (int64_t) (random_of(t, getpid()) % (1000000000ull / (uint64_t) core_rate())));
}

/* What remains at the end was used anywhere below main(), hardly in the functions that end the process. */
void thr_end_process(uint64_t main)
{
    struct thr *t = thr_self;
    uint64_t missing, pc = main + 1;
    struct handler_given given = {.kind = RECORD_CPU, .pc = &pc, .n = 1};

    if (!t || atomic_load(&t->state) != THR_ACTIVE)
        return;
    missing = settle(t);
    thr_disarm(t);
    given.value = missing;
    given.count = t->period_ns;
    if (missing && atomic_load(&core.sampling) && handler_put(t, &given))
        atomic_fetch_add_explicit(&core.samples[TYPE_CPU], 1, memory_order_relaxed);
}

void thr_leave(struct thr *t, uint64_t start)
{
    uint64_t missing;

    if (atomic_load(&t->state) != THR_ACTIVE)
        return;
    missing = settle(t);
    thr_disarm(t);
    if (missing && atomic_load(&core.sampling)) {
        handler_sample_here(t, RECORD_CPU, missing, t->period_ns, start ? start + 1 : 0);
        atomic_fetch_add_explicit(&core.samples[TYPE_CPU], 1, memory_order_relaxed);
    }
    thr_self = NULL;
    set_exited(t);
}

/* --- on the background thread --- */
static void retire_dead(void)
{
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (!t || atomic_load(&t->state) != THR_ACTIVE || !t->found)
            continue;
        if (thr_cpu_ns(t->tid) < 0) {
            thr_disarm(t);
            atomic_fetch_sub(&n_found, 1);
            set_exited(t);
        }
    }
}

enum { PENDING_MAX = 512 };
static int pending[PENDING_MAX], next_pending[PENDING_MAX];
static uint32_t n_pending, n_next;
static bool first_scan = true;

struct dirent_header { /* linux_dirent64 */
    uint64_t ino, off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

/* Where pthread_create() is hooked, a thread that has just started is about to register itself: only threads that were
 * already there at the last scan count. At the first scan all do. */
static bool seen_before(int tid)
{
    bool known = first_scan;

    for (uint32_t i = 0; i < MIN(n_pending, (uint32_t) PENDING_MAX) && !known; i++)
        known = pending[i] == tid;
    if (!known && n_next < PENDING_MAX)
        next_pending[n_next++] = tid;
    return known;
}

int thr_each_task(bool (*f)(int directory, int tid, void *arg), void *arg)
{
    char buf[4096] __attribute__((aligned(8)));
    int fd = (int) sys_call(SYS_openat, AT_FDCWD, (long) "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    bool on = true;
    long n = 0;

    if (fd < 0)
        return fd;
    while (on && (n = sys_call(SYS_getdents64, fd, (long) buf, sizeof buf, 0)) > 0)
        for (long i = 0; i < n && on;) {
            struct dirent_header *d = (struct dirent_header *) (buf + i);
            const char *name = d->name;
            int tid = 0;

            for (; *name >= '0' && *name <= '9'; name++)
                tid = tid * 10 + (*name - '0');
            if (!*name && tid > 0)
                on = f(fd, tid, arg);
            i += d->reclen;
        }
    sys_call(SYS_close, fd, 0, 0, 0);
    return n < 0 ? (int) n : 0;
}

/* The threads that are registered at the beginning of a scan: thousands are not to be compared with thousands. */
static int registered[2 * THR_CHUNK * THR_CHUNKS];

static uint32_t registered_slot(int tid)
{
    uint32_t mask = (uint32_t) ARRAY_SIZE(registered) - 1, i = (uint32_t) tid & mask;

    while (registered[i] && registered[i] != tid)
        i = (i + 1) & mask;
    return i;
}

static void list_registered(void)
{
    memset(registered, 0, sizeof registered);
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (t && (atomic_load(&t->state) == THR_ACTIVE || atomic_load(&t->state) == THR_HELPER))
            registered[registered_slot(t->tid)] = t->tid;
    }
}

static bool add_found(int directory, int tid, void *self)
{
    struct thr *t;

    if (tid == *(int *) self || registered[registered_slot(tid)] || !seen_before(tid) || thr_by_tid(tid))
        return true;
    t = thr_claim();
    if (!t)
        return true;
    init_state(t, tid, 0, 0, true);
    atomic_fetch_add(&n_found, 1);
    if (atomic_load(&core.sampling))
        thr_arm(t);
    return true;
}

void thr_scan(void)
{
    int self = sys_gettid();

    retire_dead();
    list_registered();
    if (thr_each_task(add_found, &self) < 0)
        return;
    memcpy(pending, next_pending, sizeof pending);
    n_pending = n_next;
    n_next = 0;
    first_scan = false;
}

void thr_arm_all(void)
{
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (t && atomic_load(&t->state) == THR_ACTIVE)
            thr_arm(t);
    }
}

void thr_disarm_all(void)
{
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (t && atomic_load(&t->state) == THR_ACTIVE)
            thr_disarm(t);
    }
}

void thr_reset_child(void)
{
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);

        if (!t || t == thr_self || atomic_load(&t->state) == THR_FREE)
            continue;
        memset(t->ring, 0, sizeof t->ring);
        atomic_store(&t->head, 0);
        atomic_store(&t->tail, 0);
        atomic_store(&t->inside, 0);
        atomic_store(&t->state, THR_FREE);
    }
    atomic_store(&core.live, thr_self ? 1 : 0);
    if (thr_self) {
        thr_self->tid = sys_gettid();
        thr_self->timer = THR_NO_TIMER; /* timers are not inherited */
        memset(thr_self->ring, 0, sizeof thr_self->ring);
        atomic_store(&thr_self->head, 0);
        atomic_store(&thr_self->tail, 0);
    }
}

bool core_grace(void)
{
    uint32_t n = atomic_load(&core.n_thrs);
    struct timespec pause = {0, 500000};

    for (uint32_t i = 0; i < n; i++) {
        struct thr *t = thr_at(i);
        uint32_t was = t ? atomic_load(&t->inside) : 0;

        for (int tries = 0; was & 3 && atomic_load(&t->state) == THR_ACTIVE && atomic_load(&t->inside) == was;
             tries++) {
            if (tries == 100)
                return false;
            nanosleep(&pause, NULL);
        }
    }
    return true;
}
