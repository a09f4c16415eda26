/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop on epoll: descriptors, timers, and calls from other threads. A loop belongs to one thread, and so does
 * every object that is registered with it. The only functions that other threads may call are loop_post() and
 * loop_stop().
 *
 * Sources are embedded in the caller's objects; the loop allocates nothing per source, so adding a timer cannot fail.
 * A callback may remove and free any source of its loop, its own included.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/queue.h"

struct loop;

/* --- descriptors --- */
struct loop_io {
    void (*ready)(struct loop_io *io, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR */
    struct loop *loop;                                  /* NULL while not registered */
    int fd;
    uint32_t events;
};

int loop_io_add(struct loop *l, struct loop_io *io, int fd, uint32_t events); /* set io->ready before */
int loop_io_set(struct loop_io *io, uint32_t events);                         /* a no-op if nothing changes */
void loop_io_remove(struct loop_io *io);                                      /* does not close; a no-op if absent */

/* --- timers --- */
struct loop_timer {
    void (*fire)(struct loop_timer *t);
    int64_t at; /* monotonic ns; 0 while not set */
    struct loop *loop;
    struct loop_timer *child, *next, *prev; /* links of a pairing heap; prev is the parent for a first child */
};

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at); /* moves it if it is set already */
void loop_timer_cancel(struct loop_timer *t);                          /* a no-op if not set */

/* --- calls --- */
/* A message with a function, run on the loop's thread. The function owns the call from then on. */
struct loop_call {
    struct queue_item item;
    void (*run)(struct loop_call *c);
    struct loop_call *next, **back; /* list of deferred calls; back points to the pointer to this one, NULL while not
                                     * deferred */
};

/* From any thread; 0, or -ESHUTDOWN while the loop is being freed (the caller keeps the call). Calls run in the order
 * in which they were posted. */
int loop_post(struct loop *l, struct loop_call *c);
/* From the loop's own thread: runs the call at the end of this round, before the next wait. Cheaper than a post; runs
 * once even if deferred several times, and can be cancelled. A call is either posted or deferred, not both. */
void loop_defer(struct loop *l, struct loop_call *c);
void loop_defer_cancel(struct loop *l, struct loop_call *c); /* a no-op if not deferred */

/* --- the loop --- */
int loop_new(struct loop **ret, struct err *e);
void loop_free(struct loop *l); /* not from its own callbacks; first runs the posted calls that have not run yet */
DEFINE_CLEANUP(struct loop *, loop_free)
int loop_run(struct loop *l);                          /* until loop_stop(); 0 or a negative errno */
int loop_run_once(struct loop *l, int64_t timeout_ns); /* one round, waiting at most this long (< 0: without limit) */
void loop_stop(struct loop *l);                        /* from any thread, once for each loop_run() */
int64_t loop_now(const struct loop *l);                /* monotonic ns at the start of this round */
bool loop_is_own_thread(const struct loop *l);         /* the thread that last ran it */
char *loop_scratch(struct loop *l, size_t *ret_size);  /* 256 KiB for use within one callback; NULL without memory */

/* --- N loops on N threads --- */
struct loop_group;

/* name: threads are called "name-0", "name-1" … */
int loop_group_new(unsigned n, const char *name, struct loop_group **ret, struct err *e);
void loop_group_free(struct loop_group *g); /* stops, joins, frees the loops */
DEFINE_CLEANUP(struct loop_group *, loop_group_free)
unsigned loop_group_size(const struct loop_group *g);
struct loop *loop_group_at(struct loop_group *g, unsigned i);

#endif
