/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of libwick share: one `struct core` a process, one `struct thr` a thread.
 *
 * Who runs where
 *   handlers and hooks   on the host's threads: handler.c alone, and the short heads of heap.c, lock.c, wall.c
 *   background           one thread: drains rings, keeps the list of modules and threads, exports, serves /debug/pprof
 *   API                  on the host's threads, under core.lock where they change something
 *
 * Memory that handlers read (modules, rings) is published by an atomic pointer and freed only after every thread was seen
 * outside of a handler (core_grace()).
 */
#ifndef SDK_CORE_H
#define SDK_CORE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/macros.h"
#include "unwind/table.h"
#include "wick.h"

enum {
    THR_RING = 16384, /* a power of two */
    THR_RULES = 128,  /* a power of two */
    THR_CREATED = 24, /* frames kept of who started a thread */
    THR_CHUNK = 64,   /* threads a chunk */
    THR_CHUNKS = 256,
    CORE_MODULES_MAX = 4096,
    CORE_DEPTH_MAX = 1024,
    CORE_ATTRS_MAX = 256, /* bytes of thread attributes copied with a sample */
};

enum { TYPE_CPU, TYPE_WALL, TYPE_ALLOC, TYPE_HEAP, TYPE_LOCK, N_TYPES }; /* bit numbers of enum wick_type */
enum { TYPE_GOROUTINE = N_TYPES, TYPE_THREADCREATE, N_KINDS };           /* only on request */

/* --- modules --- */
struct module {
    uint64_t lo, hi; /* addresses of its code */
    uint64_t bias;   /* address - ELF address */
    const struct unwind_table *table;
    uint32_t file; /* index into modules.c's list of files */
};

struct module_set {
    uint32_t n, generation;
    struct module v[]; /* sorted by lo */
};

/* --- records in rings --- */
enum record_kind {
    RECORD_NONE,
    RECORD_PAD,
    RECORD_CPU,
    RECORD_LOCK,
    RECORD_WALL,
    RECORD_EXT_CPU, /* of ext.h: value in nanoseconds, count as it is */
    RECORD_EXT_WALL,
    RECORD_EXT_LOCK,
};
enum {
    RECORD_CUT_DEPTH = 1 << 0, /* deeper than max_depth */
    RECORD_CUT_RULE = 1 << 1,  /* no rule where it ended */
    RECORD_GUESSED = 1 << 2,   /* a part was walked by frame pointers */
    RECORD_LINK = 1 << 3,      /* trace_id and span_id are set */
};

struct record {
    _Atomic uint32_t kind; /* written last; 0 = not there yet */
    uint32_t size;         /* in all, a multiple of 8 */
    uint64_t value;        /* cpu: periods; lock, wall: nanoseconds */
    uint64_t count;        /* cpu: period in ns; lock: contentions, in 1/65536 */
    uint32_t generation;   /* of the modules it was walked with */
    uint16_t n;            /* frames */
    uint16_t attrs;        /* bytes behind the frames */
    uint8_t flags, trace_id[16], span_id[8], pad[7];
    uint64_t pc[]; /* leaf first; return addresses are those behind the call, but for the first if exact */
};

/* --- threads --- */
/* What the walker found last time at an address: one cache line instead of five. */
struct thr_rule {
    uint64_t pc; /* 0 = empty */
    struct unwind_rule rule;
} __attribute__((aligned(32)));

enum { THR_NO_TIMER = -1, THR_ARMING = -2 };
enum { THR_FREE, THR_CLAIMED, THR_ACTIVE, THR_EXITED };

struct thr {
    _Atomic uint32_t state;
    _Atomic uint32_t
        inside; /* its low two bits: how many handlers and hooks of this thread are sampling; changes with each */
    uint32_t index;
    int32_t tid;
    _Atomic int32_t timer;    /* kernel's id, THR_NO_TIMER, THR_ARMING */
    bool found;               /* by scanning, not by pthread_create(): its end is not seen */
    uint64_t own_lo, own_hi;  /* its stack, 0 when not known */
    _Atomic int64_t armed_ns; /* its CPU time when the timer was set */
    _Atomic uint64_t period_ns;
    _Atomic uint64_t periods; /* accounted since the timer was set */
    uint64_t owed;            /* periods whose record found no room in the ring: the next one stands for them too */
    _Atomic uint64_t samples; /* CPU samples of this state, over all threads that had it */
    uint64_t rng;
    /* wall: what it waits in, published by hooks; block_seq is odd while it waits */
    _Atomic uint32_t block_seq;
    _Atomic int64_t block_since; /* CLOCK_MONOTONIC; moved on by the background when it accounts */
    uint64_t block_leaf, block_pc, block_sp, block_fp, block_bx;
    int64_t wall_countdown;
    int64_t wall_seen, cpu_seen, off_seen; /* the background's: clocks at its last look */
    _Atomic uint64_t hooked_ns;            /* waiting that hooks accounted */
    struct record *last;                   /* the background's copy of its last CPU stack */
    struct record *asleep;                 /* the background's: where it sleeps ... */
    int64_t asleep_cpu;                    /* ... as long as its CPU time is this */
    uint32_t created_n;                    /* who started it: frames of pthread_create()'s caller */
    uint64_t created[THR_CREATED];
    uint32_t rules_generation;        /* of the modules that `rules` came from */
    struct thr_rule rules[THR_RULES]; /* by address; the thread's own */
    _Atomic uint32_t head, tail;      /* bytes, counting on; head is the thread's, tail the background's */
    uint8_t ring[THR_RING] __attribute__((aligned(16)));
};

/* --- the one --- */
struct core {
    _Atomic bool sampling; /* started and not paused */
    _Atomic bool running;  /* between start and stop */
    int signal;
    _Atomic unsigned types; /* WICK_CPU | ... */
    _Atomic unsigned rate;
    _Atomic unsigned max_depth;
    _Atomic(const struct module_set *) modules;
    _Atomic bool modules_stale; /* a handler met an address outside of all modules */
    _Atomic(struct thr *) chunks[THR_CHUNKS];
    _Atomic uint32_t n_thrs; /* highest index in use + 1 */
    _Atomic int32_t live;    /* threads of the host that are known and have not ended */
    _Atomic uint32_t wake;   /* 1: the background is wanted. A futex: a host that closes all files would close ours */
    _Atomic(uint32_t (*)(uint64_t *, uint32_t, uint32_t)) walker; /* of ext.h, or NULL */
    bool context_static;                                          /* otel_thread_ctx_v1 may be read in a handler */
    uint64_t self_lo, self_hi; /* our own code: frames of it are left out at the leaf */
    struct sigaction previous; /* of the signal, for chaining */
    /* statistics; CPU samples are counted by thr.samples */
    _Atomic uint64_t samples[N_TYPES], lost, truncated, handler_ns, hook_ticks;
};

extern struct core core;

/* --- handler.c --- */
int handler_install(int signal); /* 0 or negative errno; picks a free one for 0 and sets core.signal */
void handler_remove(void);
bool handler_is_ours(void); /* false when the host has taken the signal since */
/* A sample of the calling thread, from a hook: walks from the caller of the hook. */
void handler_sample_here(struct thr *t, enum record_kind kind, uint64_t value, uint64_t count, uint64_t leaf);
/* Frames of the calling thread into pc, without our own; returns their number and RECORD_ flags. */
uint32_t handler_walk_here(struct thr *t, uint64_t *pc, uint32_t max, uint8_t *ret_flags, uint32_t *ret_generation);
/* Frames of another thread, which sleeps, from these registers (0 = not known) on. Background only: it frees modules. */
uint32_t handler_walk_at(uint64_t at, uint64_t sp, uint64_t fp, uint64_t bx, uint64_t *pc, uint32_t max,
                         uint8_t *ret_flags, uint32_t *ret_generation);
/* A sample whose frames are given (ext.h). */
struct handler_given {
    enum record_kind kind;
    uint64_t value, count;
    const uint64_t *pc;
    uint32_t n;
    const uint8_t *trace_id, *span_id; /* both, or neither: then those of the calling thread, with its labels */
    const uint8_t *label;              /* one more label, as span.h lays them out */
    uint32_t label_n;
};
bool handler_put(struct thr *t, const struct handler_given *g); /* false when there was no room */
void handler_wake(void);

/* --- threads.c --- */
struct thr *thr_at(uint32_t index); /* NULL when there is none */
struct thr *thr_claim(void);        /* a free one, or NULL */
/* Sets up the state of the calling thread, whose stack is [own_lo, own_hi) if known. NULL when there are too many. */
struct thr *thr_enter(uint64_t own_lo, uint64_t own_hi);
struct thr *thr_adopt(void); /* the same for a thread whose end is not announced */
/* The calling thread ends; start is its start routine or 0. */
void thr_leave(struct thr *t, uint64_t start);
/* Calls f for each thread in /proc/self/task (open as directory) until it returns false. 0 or a negative errno. */
int thr_each_task(bool (*f)(int directory, int tid, void *arg), void *arg);
/* Adds threads that nobody announced, removes those that are gone. Background only. */
void thr_scan(void);
int thr_arm(struct thr *t);
void thr_disarm(struct thr *t);
void thr_arm_all(void);
void thr_disarm_all(void);
/* After fork(), in the child: only the caller is left. */
void thr_reset_child(void);
/* Waits until every thread was seen outside of sampling code; true when that took less than about 50 ms. */
bool core_grace(void);
int64_t thr_cpu_ns(int tid); /* CPU time of a thread, -1 when it is gone */

/* The calling thread's state, NULL before it has one. */
extern __thread struct thr *thr_self;

#endif
