/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that answer queries: N of them share one bounded queue, oldest job first. An event loop submits a job and
 * does not wait for it; the job answers through the request it holds. If the queue is full, submitting fails at once.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/err.h"
#include "base/queue.h"

struct workers;

/* Embedded in the object that the job works on; container_of() returns that object. */
struct worker_job {
    struct queue_item item;
    void (*run)(struct worker_job *j); /* owns the job; may block */
};

int workers_new(unsigned n, size_t limit, struct workers **ret, struct err *e);
/* Runs the queued jobs, then stops and joins the threads. */
void workers_free(struct workers *w);
DEFINE_CLEANUP(struct workers *, workers_free)
/* Returns 0, -EAGAIN if the queue is full, or -ESHUTDOWN when stopping. On failure the caller keeps the job. */
int workers_submit(struct workers *w, struct worker_job *j);
size_t workers_waiting(struct workers *w);

#endif
