/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that answer questions: N of them over one bounded queue, oldest job first. An event loop hands a job over
 * and forgets it; the job answers through the request it holds. A full queue is told at once.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/err.h"
#include "base/queue.h"

struct workers;

/* Embedded in what the job is about; container_of() gives that back. */
struct worker_job {
    struct queue_item item;
    void (*run)(struct worker_job *j); /* owns the job; may block */
};

int workers_new(unsigned n, size_t limit, struct workers **ret, struct err *e);
/* Runs what is queued, then stops and joins. */
void workers_free(struct workers *w);
DEFINE_CLEANUP(struct workers *, workers_free)
/* 0; -EAGAIN when the queue is full, -ESHUTDOWN when stopping: the caller keeps the job. */
int workers_submit(struct workers *w, struct worker_job *j);
size_t workers_waiting(struct workers *w);

#endif
