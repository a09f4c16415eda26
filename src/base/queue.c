/* SPDX-License-Identifier: Apache-2.0 */
/* The message queue of queue.h: a linked list under a mutex, and an eventfd that is readable while the list is not
 * empty. */
#include "base/queue.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int queue_init(struct queue *q, size_t limit)
{
    *q = (struct queue){.limit = limit, .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    q->tail = &q->head;
    if (q->event_fd < 0)
        return -errno;
    pthread_mutex_init(&q->lock, NULL);
    return 0;
}

void queue_done(struct queue *q)
{
    if (q->event_fd <= 0 || !q->tail)
        return;
    close(q->event_fd);
    pthread_mutex_destroy(&q->lock);
    *q = (struct queue){.event_fd = -1};
}

static void wake(struct queue *q)
{
    uint64_t one = 1;

    while (write(q->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

int queue_push(struct queue *q, struct queue_item *item)
{
    bool was_empty = false;
    int r = 0;

    item->next = NULL;
    pthread_mutex_lock(&q->lock);
    if (q->closed) {
        r = -ESHUTDOWN;
    } else if (q->limit && q->n >= q->limit) {
        r = -EAGAIN;
    } else {
        was_empty = q->n++ == 0;
        *q->tail = item;
        q->tail = &item->next;
    }
    pthread_mutex_unlock(&q->lock);
    if (was_empty)
        wake(q);
    return r;
}

struct queue_item *queue_take_all(struct queue *q)
{
    struct queue_item *list;
    uint64_t count;

    while (read(q->event_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&q->lock);
    list = q->head;
    q->head = NULL;
    q->tail = &q->head;
    q->n = 0;
    pthread_mutex_unlock(&q->lock);
    return list;
}

static bool is_closed(struct queue *q)
{
    bool closed;

    pthread_mutex_lock(&q->lock);
    closed = q->closed;
    pthread_mutex_unlock(&q->lock);
    return closed;
}

struct queue_item *queue_wait(struct queue *q, int timeout_ms)
{
    for (;;) {
        struct pollfd pfd = {.fd = q->event_fd, .events = POLLIN};
        struct queue_item *list;
        int r;

        list = queue_take_all(q);
        if (list || is_closed(q))
            return list ? list : queue_take_all(q);
        r = poll(&pfd, 1, timeout_ms);
        if (r == 0)
            return NULL;
    }
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_mutex_unlock(&q->lock);
    wake(q);
}
