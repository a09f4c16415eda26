/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only way to pass data between threads: a queue of messages from any thread to one. A message hands over
 * ownership. The reader waits on an eventfd, alone or in its event loop. Bounded by count; a push to a full queue fails
 * at once and the sender keeps its message.
 *
 * Messages are embedded: struct job { struct queue_item item; ... }; container_of() gives the job back.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/macros.h"

struct queue_item {
    struct queue_item *next;
};

struct queue {
    pthread_mutex_t lock; /* held for a few instructions, never across a system call */
    struct queue_item *head, **tail;
    size_t n, limit;
    int event_fd; /* readable when not empty */
    bool closed;
};

int queue_init(struct queue *q, size_t limit); /* limit 0: none */
void queue_done(struct queue *q);              /* must be empty */
/* 0, -EAGAIN when full, -ESHUTDOWN when closed. */
int queue_push(struct queue *q, struct queue_item *item);
/* Takes all messages, oldest first, linked by next; NULL if empty. */
struct queue_item *queue_take_all(struct queue *q);
/* Waits for a message; NULL only if the queue is closed and empty, or after timeout_ms (-1: none). */
struct queue_item *queue_wait(struct queue *q, int timeout_ms);
void queue_close(struct queue *q); /* further pushes fail, waiters wake */

#endif
