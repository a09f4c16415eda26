/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State shared by the parts of libwick: one `struct core` per process, one `struct thr` per thread.
 *
 * Threads
 *   handlers and hooks   on the host's threads: handler.c alone, and the short heads of heap.c, lock.c, wall.c
 *   background           one thread: drains rings, keeps the list of modules and threads, exports, serves /debug/pprof
 *   API                  on the host's threads, under core.lock where they change something
 *
 * Memory that handlers read (modules, rings) is published by an atomic pointer and freed only after every thread has
 * been seen outside a handler (core_grace()).
 */
#ifndef SDK_CORE_H
#define SDK_CORE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/macros.h"
#include "sdk/ext.h"
#include "unwind/table.h"
#include "wick.h"

enum {
    THR_RING = 16384, /* a power of two */
    THR_RULES = 128,  /* a power of two */
    THR_CREATED = 24, /* frames kept of the stack that started a thread */
    THR_CHUNK = 64,   /* threads per chunk */
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
    RECORD_EXT_CPU, /* from ext.h: value in nanoseconds, count as given */
    RECORD_EXT_WALL,
    RECORD_EXT_LOCK,
};
enum {
    RECORD_CUT_DEPTH = 1 << 0, /* deeper than max_depth */
    RECORD_CUT_RULE = 1 << 1,  /* no unwind rule at its last frame */
    RECORD_GUESSED = 1 << 2,   /* part of it was walked by frame pointers */
    RECORD_LINK = 1 << 3,      /* trace_id and span_id are set */
};

struct ring_record {
    _Atomic uint32_t kind; /* written last; 0 = not committed yet */
    uint32_t size;         /* total size, a multiple of 8 */
    uint64_t value;        /* cpu: periods; lock, wall: nanoseconds */
    uint64_t count;        /* cpu: period in ns; lock: contentions, in 1/65536 */
    uint32_t generation;   /* generation of the modules that it was walked with */
    uint16_t n;            /* frames */
    uint16_t attrs;        /* bytes after the frames */
    uint8_t flags, trace_id[16], span_id[8], pad;
    uint16_t time_high; /* when it was taken: milliseconds of the wall clock, 48 bits; 0 = not known */
    uint32_t time_low;
    uint64_t pc[]; /* leaf first; each less 1 is inside its instruction: return addresses, and interrupted ones + 1 */
};

static inline uint64_t record_time_ms(const struct ring_record *r)
{
    return (uint64_t) r->time_high << 32 | r->time_low;
}

/* --- threads --- */
/* A copy of a thread's span and labels for the background thread, which cannot read thread-local variables. */
struct thr_context {
    uint8_t trace_id[16], span_id[8];
    uint64_t attrs_n;
    uint8_t attrs[CORE_ATTRS_MAX];
};

/* The walker's last result for an address: one cache line instead of five. */
struct thr_rule {
    uint64_t pc; /* 0 = empty */
    struct unwind_rule rule;
} __attribute__((aligned(32)));

enum { THR_NO_TIMER = -1, THR_ARMING = -2 };
enum { THR_FREE, THR_CLAIMED, THR_ACTIVE, THR_EXITED, THR_HELPER }; /* helper: an extension's, in no profile */

struct thr {
    _Atomic uint32_t state;
    _Atomic uint32_t
        inside; /* low two bits: number of this thread's handlers and hooks that are sampling; changes each time one
                   enters or leaves */
    _Atomic uint32_t head, tail; /* of the ring: byte counters that never reset; the thread owns head, the background
                                    thread owns tail */
    _Atomic uint64_t owed;       /* periods whose record did not fit into the ring: the next record includes them */
    uint32_t index;
    int32_t tid;
    _Atomic int32_t timer;    /* the kernel's timer id, THR_NO_TIMER or THR_ARMING */
    bool found;               /* found by scanning, not by pthread_create(): its end is not reported */
    uint64_t own_lo, own_hi;  /* its stack, 0 if not known */
    _Atomic int64_t armed_ns; /* its CPU time when the timer was set */
    _Atomic uint64_t period_ns;
    _Atomic uint64_t periods; /* accounted since the timer was set */
    _Atomic uint64_t samples; /* CPU samples of this slot, over all threads that used it */
    uint64_t rng;
    /* wall: the call that it is blocked in, published by hooks; block_seq is odd while it waits */
    _Atomic uint32_t block_seq;
    _Atomic int64_t block_since; /* CLOCK_MONOTONIC; advanced by the background thread when it accounts for the time */
    uint64_t block_leaf;         /* the function that waits, as in ring_record.pc */
    uint64_t block_pc, block_sp, block_fp, block_bx;
    _Atomic uint32_t context_seq; /* odd while the thread writes its context */
    _Atomic uint64_t context[sizeof(struct thr_context) / 8];
    _Atomic bool context_kept; /* by span.c, whenever it changes; otherwise it is right only in a blocking call */
    int64_t wall_countdown;
    int64_t looked; /* background thread: when it looked last */
    int64_t wall_seen, cpu_seen, off_seen,
        ready_seen; /* background thread: clocks at its last look outside of a hook */
    int64_t
        rest_owed; /* background thread: waiting that no hook saw, less what was added to a place; may be negative */
    int64_t parked_owed;        /* background thread: time without a CPU that is not added yet */
    uint32_t awake;             /* background thread: successive looks that found it awake though it is owed waiting */
    bool active;                /* background thread: it ran between the last two looks */
    _Atomic uint64_t hooked_ns; /* waiting time that hooks accounted for */
    struct ring_record *last;   /* background thread: copy of its last CPU stack */
    struct ring_record *asleep; /* background thread: where it sleeps ... */
    int64_t asleep_cpu;         /* ... valid as long as its CPU time is this */
    uint32_t created_n;         /* frames of pthread_create()'s caller */
    uint64_t created[THR_CREATED];
    uint32_t rules_generation;        /* generation of the modules that `rules` came from */
    struct thr_rule rules[THR_RULES]; /* by address; used by the thread itself only */
    uint8_t ring[THR_RING] __attribute__((aligned(16)));
};

/* --- the process --- */
struct core {
    _Atomic bool sampling; /* started and not paused */
    _Atomic bool running;  /* between start and stop */
    int signal;
    _Atomic unsigned types; /* WICK_CPU | ... */
    _Atomic unsigned rate;
    _Atomic unsigned max_depth;
    _Atomic(const struct module_set *) modules;
    _Atomic bool modules_stale; /* a handler met an address outside all modules */
    _Atomic(struct thr *) chunks[THR_CHUNKS];
    _Atomic uint32_t n_thrs; /* highest index in use + 1 */
    _Atomic int32_t live;    /* threads of the host that are known and have not ended */
    _Atomic uint32_t wake;   /* 1: the background thread is to wake up. A futex, because a host that closes all file
                                descriptors would close ours */
    _Atomic(wick_ext_walker *) walker; /* NULL if there is none */
    _Atomic int64_t wall_interval;     /* wall: time between two looks at what waits */
    _Atomic uint64_t helper_ns;        /* CPU time of helpers (ext.h) */
    bool context_static;               /* otel_thread_ctx_v1 may be read in a handler */
    uint64_t self_lo, self_hi;         /* our own code: its frames are left out at the leaf */
    struct sigaction previous;         /* previous action of the signal, for chaining */
    /* statistics; CPU samples are counted by thr.samples */
    _Atomic uint64_t samples[N_TYPES], lost, truncated, handler_ns, hook_ticks;
};

extern struct core core;

/* --- handler.c --- */
int handler_install(int signal); /* 0 or a negative errno; 0 picks a free signal. Sets core.signal */
void handler_remove(void);
bool handler_is_ours(void); /* false if the host has replaced our handler */
/* Takes a sample of the calling thread from a hook: the walk starts at the caller of the hook. */
void handler_sample_here(struct thr *t, enum record_kind kind, uint64_t value, uint64_t count, uint64_t leaf);
/* Stores the frames of the calling thread in pc, without our own; returns their number and, in *ret_flags, RECORD_
 * flags. */
uint32_t handler_walk_here(struct thr *t, uint64_t *pc, uint32_t max, uint8_t *ret_flags, uint32_t *ret_generation);
/* Lets an extension's walker change the frames, span and labels of a record that has room for max frames and
 * CORE_ATTRS_MAX bytes. tid: see ext.h. */
void handler_ask_walker(struct ring_record *r, uint32_t max, int tid);
/* Copies the calling thread's span and labels to where the background thread can read them. */
void handler_keep_context(struct thr *t);
/* Adds what handler_keep_context() copied to a record with room for CORE_ATTRS_MAX bytes of labels after its frames.
 * Background thread only. */
void handler_add_context(const struct thr *t, struct ring_record *r);
/* Registers to start a walk from; 0 = not known. */
struct walk_start {
    uint64_t pc, sp, fp, bx;
    bool after; /* pc is after its instruction, a call or a system call */
};
/* Frames of another thread, which sleeps, starting from these registers. Background thread only,
 * because it is the one that frees modules. */
uint32_t handler_walk_at(const struct walk_start *from, uint64_t *pc, uint32_t max, uint8_t *ret_flags,
                         uint32_t *ret_generation);
/* A sample whose frames are given (ext.h). */
struct handler_given {
    enum record_kind kind;
    uint64_t value, count;
    const uint64_t *pc;
    uint32_t n;
    const uint8_t *trace_id, *span_id; /* both, or neither: then the span and labels of the calling thread are used */
    const uint8_t *label;              /* one more label, in the layout of span.h */
    uint32_t label_n;
};
bool handler_put(struct thr *t, const struct handler_given *g); /* false if there was no room */
void handler_wake(void);

/* --- threads.c --- */
struct thr *thr_at(uint32_t index); /* NULL when there is none */
struct thr *thr_claim(void);        /* a free slot, or NULL */
/* Sets up the state of the calling thread, whose stack is [own_lo, own_hi) if known. Returns NULL if there are too
 * many. */
struct thr *thr_enter(uint64_t own_lo, uint64_t own_hi);
struct thr *thr_adopt(void); /* the same for a thread whose end will not be reported */
/* The calling thread becomes a helper, and ends. */
struct thr *thr_help(void);
void thr_help_end(void);
bool thr_is_helper(int tid);
/* The calling thread ends; start is its start routine or 0. */
void thr_leave(struct thr *t, uint64_t start);
/*
 * Around the life of a process that may be shorter than a period: what remains at its end is rounded up or down by a number
 * that is drawn at its beginning, so that the sum over many processes is right. Both on the first thread.
 */
void thr_begin_process(void);
void thr_end_process(uint64_t main);
/* Calls f for each thread in /proc/self/task (open as directory) until it returns false. Returns 0 or a negative
 * errno. */
int thr_each_task(bool (*f)(int directory, int tid, void *arg), void *arg);
/* Adds threads that were not registered when they started and removes those that have ended. Background thread only. */
void thr_scan(void);
int thr_arm(struct thr *t);
void thr_disarm(struct thr *t);
void thr_arm_all(void);
void thr_disarm_all(void);
/* After fork(), in the child: only the caller is left. */
void thr_reset_child(void);
/* Waits until every thread has been seen outside sampling code; true if that took less than about 50 ms. */
bool core_grace(void);
int64_t thr_cpu_ns(int tid); /* CPU time of a thread, -1 if it has ended */

/* The calling thread's state, NULL before it has one. */
extern __thread struct thr *thr_self;

/* The rate in force, at least 1: safe to divide by. Read once: it may change at any time. */
static inline int64_t core_rate(void)
{
    int64_t rate = (int64_t) atomic_load(&core.rate);

    return rate > 0 ? rate : 1;
}

#endif
