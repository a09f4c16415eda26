/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to ClickHouse over HTTP. Each runs to its end on the caller's thread. A host that does not answer is skipped,
 * and the next one of the location is used from then on. Answers are only delivered whole: the server is asked to wait for the end
 * of the query, so that an error in the middle of a result is an HTTP error, not a truncated result. When a server refuses the password and
 * the password file has another one by then, the request is sent again with that.
 */
#ifndef CLICKHOUSE_CLICK_HTTP_H
#define CLICKHOUSE_CLICK_HTTP_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/clock.h"
#include "store/engines/clickhouse/click_url.h"

#define CLICK_CLOSE_NS (4 * NS_PER_S)
#define CLICK_CLOSE_MAX_NS (7 * NS_PER_S) /* a server ends within ten seconds */

struct click_http {
    struct click_url url;
    pthread_mutex_t lock; /* of authorization */
    struct buf authorization;
    _Atomic uint32_t current;             /* the host to be asked first */
    _Atomic uint64_t requests, waited_ns; /* since start, without `uncounted` ones */
    bool (*ending)(void);                 /* while the store is opened: whether that is given up; NULL: it is not */
    _Atomic int64_t stop_at; /* 0, or the time (clock_mono) at which requests that have no answer yet are given up */
    _Atomic int64_t stop_since;
};

/* What a request needs besides its SQL. */
struct click_call {
    const char *settings;      /* "name=value&...", or NULL */
    struct str data;           /* of an INSERT: sent as the body, the SQL in the URL */
    size_t max_answer;         /* bytes, 0 = 1 GiB; -E2BIG if the answer is longer */
    const atomic_bool *cancel; /* may be NULL */
    bool no_database;          /* before the database exists */
    bool uncounted;            /* not in the counters: the request only reports the state of the store */
    const char *host;          /* only this one; NULL: any */
    int code;                  /* set on failure: ClickHouse's error code, 0 = none */
};

int click_http_init(struct click_http *h, const char *place, struct err *e);
void click_http_done(struct click_http *h);
/* The store will be closed: requests are given up (-ECANCELED) CLICK_CLOSE_NS after the last one that click_http_moved() was called for,
 * and at most CLICK_CLOSE_MAX_NS after the first call of this function. */
void click_http_stop(struct click_http *h);
/* A request was answered: the server is alive, and what else is waiting can be sent. */
void click_http_moved(struct click_http *h);
bool click_http_stopped(const struct click_http *h); /* that time has come */
/* Sends SQL. The answer is appended to ret, which may be NULL. The error message contains no credentials. */
int click_send(struct click_http *h, struct str sql, struct click_call *call, struct buf *ret, struct err *e);
/* For statements without data and without an answer. */
int click_exec(struct click_http *h, struct str sql, struct err *e);

/* Appends a string literal. */
void click_put_text(struct buf *sql, struct str s);

#endif
