/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that answer queries. Jobs wait in flows, one per tenant: a thread that becomes free takes the oldest job of
 * the flow whose turn it is, so that a tenant with a thousand jobs does not delay the only job of another. An event loop
 * submits a job and does not wait for it; the job answers through the request it holds. If the queue is full,
 * submitting fails at once.
 *
 * Shares. While the queue is full, only a flow that has less than an equal part of it gets more. With flow_running, one
 * flow never occupies every thread, and of the threads that flows share in the same second it gets at most half: the machine
 * has as many CPUs, and a job that is not yet submitted must not find them all taken.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/err.h"
#include "base/queue.h"

struct workers;

/* Embedded in what stands for a tenant; all zero at first. It must outlive its jobs. Only workers.c touches it. */
struct workers_flow {
    struct queue_item *head, **tail;
    struct workers_flow *next; /* in the list of flows whose jobs wait */
    size_t waiting;
    unsigned running;
};

/* Embedded in the object that the job works on; container_of() returns that object. */
struct worker_job {
    struct queue_item item;
    void (*run)(struct worker_job *j); /* owns the job; may block */
};

struct workers_options {
    unsigned n;            /* threads */
    size_t waiting;        /* jobs that wait, of all flows */
    unsigned flow_running; /* jobs of one flow that run at the same time while there is no other flow; 0: no limit */
};

int workers_new(const struct workers_options *o, struct workers **ret, struct err *e);
/* Runs the queued jobs, then stops and joins the threads. */
void workers_free(struct workers *w);
DEFINE_CLEANUP(struct workers *, workers_free)
/* flow: NULL for the one of jobs that belong to no tenant. Returns 0, -EAGAIN if the queue is full, or -ESHUTDOWN when
 * stopping. On failure the caller keeps the job. */
int workers_submit(struct workers *w, struct workers_flow *flow, struct worker_job *j);
size_t workers_waiting(struct workers *w);

#endif
