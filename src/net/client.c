/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client: its requests, and how they are assigned to connections. See client.h. */
#include "net/client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/client_conn.h"

enum { ANSWER_MAX = 64 << 20, HEAD_ARENA_MAX = 4 << 20 };

/* A peer that refuses has answered: the requests fail with that, and the next connection waits, however many requests
 * there are. */
static const struct backoff reopen_policy = {.first = 50 * NS_PER_MS, .max = NS_PER_S, .factor = 2, .spread = 0.5};

/* --- lists --- */
static void waiting_add(struct client *c, struct client_request *r, bool front)
{
    r->prev = r->next = NULL;
    if (front) {
        r->next = c->waiting;
        if (c->waiting)
            c->waiting->prev = r;
        else
            c->waiting_last = r;
        c->waiting = r;
    } else {
        r->prev = c->waiting_last;
        if (c->waiting_last)
            c->waiting_last->next = r;
        else
            c->waiting = r;
        c->waiting_last = r;
    }
    c->n_waiting++;
}

/* Removes the request from the list it is in: a connection's or the waiting list. */
static void leave_list(struct client_request *r)
{
    struct client *c = r->client;
    struct client_request **head = r->conn ? &r->conn->requests : &c->waiting;

    if (r->prev)
        r->prev->next = r->next;
    else
        *head = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else if (!r->conn)
        c->waiting_last = r->prev;
    if (r->conn)
        r->conn->n_requests--;
    else
        c->n_waiting--;
    r->prev = r->next = NULL;
    r->conn = NULL;
}

static void join_conn(struct client_conn *conn, struct client_request *r)
{
    leave_list(r);
    r->conn = conn;
    r->next = conn->requests;
    if (r->next)
        r->next->prev = r;
    conn->requests = r;
    conn->n_requests++;
    conn->last_used = loop_now(conn->client->loop);
    snprintf(r->peer_text, sizeof r->peer_text, "%s", conn->peer);
    r->peer = r->peer_text;
}

/* --- the end of a request --- */
static void finish_call(struct loop_call *call)
{
    struct client_request *r = container_of(call, struct client_request, finish);

    r->done(r); /* it belongs to the caller again */
}

static void client_served(struct client_conn *conn)
{
    conn->served++;
    conn->client->failures = 0;
    conn->client->pause = conn->client->open_at = 0;
}

void client_end(struct client_request *r, int error, const struct err *e)
{
    struct client_conn *conn = r->conn;

    if (r->ended)
        return;
    r->ended = true;
    r->error = error;
    if (error && e && e->code)
        r->err = *e;
    else if (error)
        err_set(&r->err, error, "%m");
    r->answer = buf_str(&r->body_in);
    leave_list(r);
    loop_timer_cancel(&r->timer);
    if (conn) {
        conn->last_used = loop_now(r->client->loop);
        if (error)
            conn->wire->abort(conn, r);
        else
            client_served(conn);
    }
    loop_defer(r->client->loop, &r->finish);
}

static void fail_waiting(struct client *c, int error, const struct err *e)
{
    while (c->waiting)
        client_end(c->waiting, error, e);
}

void client_requeue(struct client_request *r)
{
    struct client *c = r->client;

    leave_list(r);
    r->retried = true;
    r->sent = 0;
    r->was_sent = false;
    r->stream_id = 0;
    waiting_add(c, r, true);
}

static void request_timeout(struct loop_timer *t)
{
    struct client_request *r = container_of(t, struct client_request, timer);
    struct client *c = r->client;
    bool refused = !r->conn && c->failures;
    struct err e = {0};

    err_set(&e, -ETIMEDOUT, "no %s %s within %.3g s%s%s", r->conn ? "response from" : "connection to", c->url.authority,
            (double) r->timeout_ns / (double) NS_PER_S, refused ? ": " : "", refused ? c->failure.message : "");
    client_end(r, -ETIMEDOUT, &e);
}

/* --- answers --- */
int client_take_head(struct client_request *r)
{
    r->head_seen = true;
    if (r->on_head) {
        int code = r->on_head(r);

        if (code < 0) {
            client_end(r, code, NULL);
            return code;
        }
    }
    return 0;
}

int client_take_data(struct client_request *r, struct str piece)
{
    size_t limit = r->max_answer ? r->max_answer : ANSWER_MAX;
    struct err e = {0};
    int code = 0;

    r->seen += piece.n;
    if (r->seen > limit) {
        code = err_set(&e, -EFBIG, "the response of %s is larger than %zu bytes", r->client->url.authority, limit);
    } else if (r->on_data) {
        code = r->on_data(r, piece);
    } else {
        r->body_in.limit = limit;
        buf_put_str(&r->body_in, piece);
        code = buf_error(&r->body_in);
    }
    if (code < 0)
        client_end(r, code, &e);
    return code;
}

/* --- dispatch --- */
static struct client_conn *find_room(struct client *c)
{
    for (struct client_conn *conn = c->conns; conn; conn = conn->next)
        if (client_conn_usable(conn) && conn->wire->room(conn))
            return conn;
    return NULL;
}

static unsigned count_alive(const struct client *c)
{
    unsigned n = 0;

    for (const struct client_conn *conn = c->conns; conn; conn = conn->next)
        n += !conn->failed && !conn->no_more;
    return n;
}

void client_failed(struct client *c, bool was_open, const struct err *e)
{
    c->failures++;
    c->failure = *e;
    c->open_at = loop_now(c->loop) + backoff_next(&reopen_policy, &c->pause);
    /* A peer that accepts connections gets a second chance: the request that it failed on may be to blame. */
    if ((!was_open || c->failures > 1) && !count_alive(c))
        fail_waiting(c, e->code, e);
}

static void reopen(struct loop_timer *t)
{
    client_dispatch(container_of(t, struct client, reopen));
}

static bool may_open(struct client *c)
{
    unsigned opening = 0, usable = 0;

    if (c->open_at > loop_now(c->loop)) {
        loop_timer_set(c->loop, &c->reopen, c->open_at);
        return false;
    }
    for (const struct client_conn *conn = c->conns; conn; conn = conn->next) {
        opening += conn->state != CONN_OPEN; /* failed ones too: they must be closed first, to report their error */
        usable += client_conn_usable(conn);
    }
    if (opening && (!usable || c->failures)) /* the answer to this attempt is the answer to all */
        return false;
    if (c->o.protocol == CLIENT_HTTP2)
        return !opening && !usable;
    return opening < c->n_waiting && opening + usable < c->o.max_connections;
}

void client_dispatch(struct client *c)
{
    while (c->waiting && !c->freeing) {
        struct client_conn *conn = find_room(c);
        struct client_request *r = c->waiting;
        int code;

        if (!conn) {
            if (!may_open(c))
                return;
            code = client_conn_new(c);
            if (code < 0) {
                if (!c->conns)
                    fail_waiting(c, code, NULL);
                return;
            }
            continue;
        }
        join_conn(conn, r);
        r->was_sent = true;
        code = conn->wire->start(conn, r);
        if (code < 0)
            client_end(r, code, NULL);
        client_conn_schedule(conn);
    }
}

/* --- public interface --- */
static int check_request(const struct client_request *r, struct err *e)
{
    if (!r->method || !http_name_ok(str_from(r->method)))
        return err_set(e, -EINVAL, "invalid method");
    for (uint32_t i = 0; i < r->target.n; i++)
        if ((unsigned char) r->target.p[i] <= 32 || r->target.p[i] == 127)
            return err_set(e, -EINVAL, "invalid character in the path of the request");
    for (size_t i = 0; i < r->n_headers; i++)
        if (!http_name_ok(r->headers[i].name) || !http_value_ok(r->headers[i].value))
            return err_set(e, -EINVAL, "invalid header '%.*s'", STR_FMT(r->headers[i].name));
    return 0;
}

int client_start(struct client *c, struct client_request *r)
{
    int code = check_request(r, &r->err);

    if (code < 0)
        return code;
    if (c->freeing)
        return -ESHUTDOWN;
    if (c->n_waiting >= c->o.max_waiting)
        return err_set(&r->err, -EAGAIN, "%u requests to %s are already waiting", c->n_waiting, c->url.authority);
    r->client = c;
    r->conn = NULL;
    r->error = r->status = 0;
    r->err.code = 0;
    r->sent = 0;
    r->seen = 0;
    r->stream_id = 0;
    r->retried = r->head_seen = r->ended = r->was_sent = false;
    r->peer = r->peer_text;
    r->peer_text[0] = 0;
    r->headers_in = r->trailers = (struct http_headers){0};
    r->answer = (struct str){0};
    r->finish = (struct loop_call){.run = finish_call};
    r->timer = (struct loop_timer){.fire = request_timeout};
    arena_init(&r->arena, HEAD_ARENA_MAX);
    buf_init(&r->body_in, 0);
    if (r->timeout_ns > 0)
        loop_timer_set(c->loop, &r->timer, clock_mono() + r->timeout_ns);
    waiting_add(c, r, false);
    client_dispatch(c);
    return 0;
}

void client_cancel(struct client_request *r)
{
    if (r->client && !r->ended)
        client_end(r, -ECANCELED, NULL);
}

void client_request_done(struct client_request *r)
{
    if (!r->client)
        return;
    arena_done(&r->arena);
    buf_done(&r->body_in);
    r->headers_in = r->trailers = (struct http_headers){0};
    r->answer = (struct str){0};
    r->client = NULL;
}

static int set_url(struct client *c, struct err *e)
{
    int r = http_url_parse(c->url_text, &c->url, e);

    if (r < 0)
        return r;
    if (c->url.https && !c->o.tls)
        return err_set(e, -EINVAL, "'%s' requires TLS", c->url_text);
    if (c->url.unix_path[0]) {
        c->parts.is_unix = true;
        snprintf(c->parts.host, sizeof c->parts.host, "%s", c->url.unix_path);
    } else {
        snprintf(c->parts.host, sizeof c->parts.host, "%s", c->url.host);
        snprintf(c->parts.port, sizeof c->parts.port, "%s", c->url.port);
    }
    return 0;
}

int client_new(const struct client_options *o, struct client **ret, struct err *e)
{
    _cleanup_(client_freep) struct client *c = mem_zalloc(sizeof *c);
    int r;

    if (!c)
        return -ENOMEM;
    c->o = *o;
    c->loop = o->loop;
    c->reopen.fire = reopen;
    c->url_text = mem_strdup(o->url);
    c->user_agent = mem_strdup(o->user_agent ? o->user_agent : "wick/" WICK_VERSION);
    if (!c->url_text || !c->user_agent)
        return -ENOMEM;
    r = set_url(c, e);
    if (r < 0)
        return r;
    c->o.max_connections = o->max_connections ? o->max_connections : 8;
    c->o.max_waiting = o->max_waiting ? o->max_waiting : 10000;
    c->o.connect_timeout_ns = o->connect_timeout_ns ? o->connect_timeout_ns : 10 * NS_PER_S;
    c->o.idle_timeout_ns = o->idle_timeout_ns ? o->idle_timeout_ns : 90 * NS_PER_S;
    c->o.keepalive_timeout_ns = o->keepalive_timeout_ns ? o->keepalive_timeout_ns : 10 * NS_PER_S;
    *ret = TAKE(c);
    return 0;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    c->freeing = true;
    for (struct client_conn *conn = c->conns; conn; conn = conn->next)
        while (conn->requests) {
            struct client_request *r = conn->requests;

            client_end(r, -ECANCELED, NULL);
            loop_defer_cancel(c->loop, &r->finish);
            r->done(r);
        }
    while (c->waiting) {
        struct client_request *r = c->waiting;

        client_end(r, -ECANCELED, NULL);
        loop_defer_cancel(c->loop, &r->finish);
        r->done(r);
    }
    while (c->conns)
        client_conn_close(c->conns);
    loop_timer_cancel(&c->reopen);
    mem_free(c->url_text);
    mem_free(c->user_agent);
    mem_free(c);
}
