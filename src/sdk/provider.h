/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider: settings, the background thread and what it owns. There is at most one (provider_current()).
 *
 * Fields belong to the background thread unless stated otherwise; `lock` guards those that API calls share with it.
 */
#ifndef SDK_PROVIDER_H
#define SDK_PROVIDER_H

#include <pthread.h>

#include "sdk/agg.h"
#include "sdk/core.h"
#include "sdk/sdk_settings.h"

struct heap_view;
struct server;

/* Sums collected for one request for /debug/pprof/profile or one wick_snapshot(). */
struct provider_session {
    struct provider_session *next;
    int type;
    struct agg agg;
    int64_t start_wall, start_mono;
    bool window;            /* heap, lock: only what happens after its beginning, not since the start */
    struct heap_view *base; /* for a window: the heap at its beginning */
    uint32_t n_base;
};

struct wick_provider {
    struct settings s;
    pthread_t thread;
    atomic_int thread_id; /* of the kernel */
    _Atomic bool thread_running, stop;
    sigset_t host_mask; /* signals that were blocked in the thread that started ours */
    int64_t alone_ms;   /* interval after which to check again whether the host's threads have all ended */
    pthread_mutex_t lock;
    pthread_cond_t changed;                     /* signalled when something below was done */
    bool ended;                                 /* under lock: the thread has nothing left to do */
    uint64_t flush_wanted, flush_done;          /* under lock: flushes requested and done */
    int flush_result;                           /* under lock */
    char flush_error[ERR_MESSAGE_MAX];          /* under lock */
    int (*job)(struct wick_provider *, void *); /* under lock: to be run on the background thread */
    void *job_arg;
    int job_result;
    bool job_done;
    struct agg export[N_TYPES];
    struct provider_session *sessions;
    struct provider_session *snapshots[N_TYPES]; /* what wick_snapshot() returns next; also in sessions */
    struct server *server;
    int64_t interval_start_wall, interval_start_mono, next_export, next_scan;
    int64_t first_wall, first_mono; /* since start */
    int64_t lines_ns;               /* time spent on making exports, most of it waiting for lines */
    /* statistics; read without the lock, so atomics */
    _Atomic uint64_t exports, failed, exported_bytes, background_ns, overflow;
    _Atomic unsigned governor;
    char last_error[256]; /* under lock */
    /* values at the governor's last check */
    int64_t gov_mono, gov_cpu, gov_own, gov_wall, gov_samples;
    /* the two levers' costs so far: looking at waiting threads, and taking CPU samples */
    int64_t wall_cost, samples_cost;
    int64_t wall_next;         /* wall: when the next look at the threads is due */
    int64_t wall_soon;         /* wall: when the next look at those that ran lately is due */
    int64_t wall_often;        /* wall: looks at those for one at all; a lever of the governor */
    int64_t wall_uncounted;    /* wall: what was added, less its count in periods */
    _Atomic int64_t wall_last; /* the last look at all; 0: none since sampling began */
    int64_t scan_next;
    struct agg file_totals[N_TYPES]; /* for the option `file`: sums since the start */
    pid_t pid;
    char host[65];           /* host.name */
    uint64_t samples_before; /* samples of the parent, in a forked child */
};

struct wick_provider *provider_current(void);
/* True if there are samples of this process, of any type. No system call. */
bool provider_has_samples(const struct wick_provider *p);
/* Start and end the background thread. */
int provider_start_thread(struct wick_provider *p, struct err *e);
void provider_stop_thread(struct wick_provider *p);
/* Runs f on the background thread, waits, and returns its result. -ESHUTDOWN if that thread does not run. */
int provider_run(struct wick_provider *p, int (*f)(struct wick_provider *, void *), void *arg);

/* --- background.c --- */
void *background_main(void *provider);
bool background_drain(struct wick_provider *p); /* false if there were no records */

/* --- export.c --- */
/* Sends and writes all samples; the sums are reset whether or not this succeeds. */
int export_now(struct wick_provider *p, struct err *e);
int export_write_files(struct wick_provider *p, struct err *e);

/* --- sessions: background --- */
struct provider_session *session_begin(struct wick_provider *p, int type);
/* The same for heap and lock: the difference over the session's time. NULL if out of memory. */
struct provider_session *session_begin_window(struct wick_provider *p, int type);
void session_end(struct wick_provider *p, struct provider_session *s);
/* The profile of a session, or of a type that is kept since the start (heap, lock), as gzip'd pprof. */
int session_pprof(struct wick_provider *p, struct provider_session *s, struct buf *out, struct err *e);
/* For /debug/pprof/: with lines and inlined calls where available, or as text. */
int session_answer(struct wick_provider *p, struct provider_session *s, bool text, struct buf *out, struct err *e);

/* --- serve.c --- */
int server_listen(struct wick_provider *p, const char *address, struct err *e); /* the port */
void server_poll(struct wick_provider *p, int timeout_ms);                      /* waits for requests or a wake-up */
void server_free(struct wick_provider *p);
void server_forget(struct wick_provider *p); /* in a forked child, because the parent serves */

/* --- wall.c, lock.c --- */
/* Looks at the threads, or (not all) at those that ran between the last two looks. Returns whether there are such threads. */
bool wall_look(struct wick_provider *p, int64_t now, bool all);
/* A thread has ended: what is owed to it is added to where it slept last. */
void wall_end(struct wick_provider *p, struct thr *t);
void wall_start(unsigned rate);
void lock_start(uint64_t interval_ns, bool on);

#endif
