/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 on a server's connection, using libnghttp2 for frames, HPACK, settings and flow control.
 *
 * Floods. Frames that cost us something and the peer next to nothing are charged to a credit per connection: pings,
 * settings, priorities, window updates and empty frames cost one each, resets ten; requests, data and time add credit.
 * A peer that runs out of credit is disconnected with ENHANCE_YOUR_CALM. nghttp2 itself limits unread acknowledgements,
 * entries of a SETTINGS frame, CONTINUATION frames of a head and the rate of resets.
 *
 * No callback of nghttp2 may free the session: a connection that must be closed is marked with conn_fail().
 */
#include "net/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/h2.h"

enum {
    FRAME_OUT_MAX = 16384,
    BODY_LINGER_MAX = 64 << 20, /* for a request that was answered already */
    CREDIT_START = 2000,
    CREDIT_PER_SECOND = 200,
    CREDIT_PER_REQUEST = 10,
};

struct http2 {
    nghttp2_session *session;
    int64_t credit, credit_at; /* see above; monotonic seconds of the last refill */
    size_t data_credit;        /* bytes of data not yet converted to credit */
    int64_t last_active;
};

static struct http2 *http2_of(struct conn *c)
{
    return c->state;
}

static const struct http_server_options *options(struct conn *c)
{
    return &c->worker->server->o;
}

/* --- floods --- */
static void spend(struct conn *c, int64_t cost)
{
    struct http2 *h = http2_of(c);
    int64_t second = loop_now(c->worker->loop) / NS_PER_S;

    h->credit -= cost;
    if (h->credit >= 0)
        return;
    h->credit = MIN(h->credit + (second - h->credit_at) * CREDIT_PER_SECOND, CREDIT_START);
    h->credit_at = second;
    if (h->credit >= 0 || c->draining)
        return;
    atomic_fetch_add_explicit(&c->worker->server->floods, 1, memory_order_relaxed);
    c->draining = true;
    nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void earn(struct conn *c, int64_t credit)
{
    struct http2 *h = http2_of(c);

    h->credit = MIN(h->credit + credit, CREDIT_START);
}

static void earn_bytes(struct conn *c, size_t n)
{
    struct http2 *h = http2_of(c);

    h->data_credit += n;
    if (h->data_credit >= 4096) {
        earn(c, (int64_t) (h->data_credit / 4096) * 2);
        h->data_credit %= 4096;
    }
}

/* --- requests --- */
static struct exchange *find(struct conn *c, int32_t id)
{
    return nghttp2_session_get_stream_user_data(http2_of(c)->session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
    struct conn *c = user;
    struct exchange *x;

    if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    x = exchange_new(c);
    if (!x)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    x->stream_id = f->hd.stream_id;
    x->q.version = 20;
    nghttp2_session_set_stream_user_data(session, f->hd.stream_id, x);
    return 0;
}

static void take_pseudo(struct exchange *x, struct str name, struct str value)
{
    if (str_is(name, ":method"))
        x->q.method = value;
    else if (str_is(name, ":path"))
        x->bad_head |= exchange_set_target(x, value) < 0;
    else if (str_is(name, ":authority"))
        x->q.authority = value;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t name_n,
                     const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
    struct conn *c = user;
    struct exchange *x = find(c, f->hd.stream_id);
    struct str n = {(const char *) name, (uint32_t) name_n}, v = {(const char *) value, (uint32_t) value_n};

    if (!x)
        return 0;
    x->head_bytes += name_n + value_n + 32; /* counted like SETTINGS_MAX_HEADER_LIST_SIZE */
    if (x->head_bytes > options(c)->max_head || x->q.headers.n >= options(c)->max_headers)
        /* Too large: nghttp2 resets the stream and passes no more of this head to us, whatever its decompressed
         * size. */
        return x->state == EXCHANGE_READING ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
    if (x->state == EXCHANGE_READING && exchange_account(x, name_n + value_n + 32) < 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (x->state != EXCHANGE_READING || f->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers of a request are ignored */
    if (n.n && n.p[0] == ':') {
        v = arena_str(&x->q.arena, v);
        if (!v.p)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        take_pseudo(x, n, v);
        return 0;
    }
    return http_headers_add(&x->q.headers, &x->q.arena, n, v) < 0 ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static void on_head(struct conn *c, struct exchange *x, bool end)
{
    if (x->bad_head || !x->q.method.p || !x->q.path.p) {
        exchange_refuse(x, 400, "malformed request\n");
        return;
    }
    if (!x->q.authority.p)
        x->q.authority = http_headers_get(&x->q.headers, "host");
    if (!exchange_begin(x))
        return;
    if (end)
        exchange_dispatch(x);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
    struct conn *c = user;
    bool end = f->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct exchange *x;

    switch (f->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        x = find(c, f->hd.stream_id);
        if (f->hd.type == NGHTTP2_DATA && f->hd.length == 0 && !end)
            spend(c, 1);
        if (!x)
            return 0;
        if (f->hd.type == NGHTTP2_HEADERS && f->headers.cat == NGHTTP2_HCAT_REQUEST)
            on_head(c, x, end);
        else if (end && x->state == EXCHANGE_READING)
            exchange_dispatch(x);
        return 0;
    case NGHTTP2_RST_STREAM:
        spend(c, 10);
        return 0;
    default:
        spend(c, 1);
        return 0;
    }
}

static const char *refusal_text(int status)
{
    return status == 413   ? "the body is larger than the limit\n"
           : status == 503 ? "busy\n"
                           : "cannot receive the body\n";
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
    struct conn *c = user;
    struct exchange *x = find(c, id);
    int r;

    earn_bytes(c, n);
    if (!x)
        return 0;
    if (x->state != EXCHANGE_READING) { /* discarded, up to a limit, because some clients treat a reset as a failure */
        x->body_seen += n;
        if (x->answer_sent && x->body_seen > BODY_LINGER_MAX)
            nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
        return 0;
    }
    r = exchange_body(x, (const char *) p, n);
    if (r > 0)
        exchange_refuse(x, r, refusal_text(r));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct conn *c = user;
    struct exchange *x = find(c, id);

    if (!x)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    exchange_abandon(x);
    conn_schedule(c);
    return 0;
}

/* --- answers --- */
/* True for headers that are specific to an HTTP/1.1 connection and not allowed in HTTP/2. */
static bool is_hop_header(struct str name)
{
    return str_is(name, "connection") || str_is(name, "keep-alive") || str_is(name, "transfer-encoding") ||
           str_is(name, "upgrade") || str_is(name, "proxy-connection");
}

/* The list with room for `more` entries at the front, to be freed; NULL without memory. */
static nghttp2_nv *nv_list(const struct http_headers *h, size_t more, size_t *ret_n)
{
    nghttp2_nv *nv = mem_alloc((h->n + more) * sizeof *nv);
    size_t n = more;

    for (uint32_t i = 0; nv && i < h->n; i++)
        if (!is_hop_header(h->v[i].name))
            nv[n++] = h2_nv(h->v[i].name, h->v[i].value);
    *ret_n = n;
    return nv;
}

static int submit_trailers(struct conn *c, struct exchange *x)
{
    size_t n;
    _cleanup_(mem_freep) nghttp2_nv *nv = nv_list(&x->q.trailers, 0, &n);

    return nv ? nghttp2_submit_trailer(http2_of(c)->session, x->stream_id, nv, n) : -ENOMEM;
}

/* Returns how much goes into the next frame; send_data() copies it. */
static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
                           nghttp2_data_source *source, void *user)
{
    struct conn *c = user;
    struct exchange *x = source->ptr;
    bool end;
    struct str s = exchange_output(x, &end);

    if (!end && !s.n) /* the file cannot be read */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    n = MIN(MIN(n, s.n), FRAME_OUT_MAX);
    if (s.n)
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (end || n == exchange_left(x)) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (x->q.trailers.n) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_trailers(c, x) < 0)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    return (ssize_t) n;
}

static int send_data(nghttp2_session *session, nghttp2_frame *f, const uint8_t *head, size_t n,
                     nghttp2_data_source *source, void *user)
{
    struct conn *c = user;
    struct exchange *x = source->ptr;
    bool end;
    struct str s = exchange_output(x, &end);

    if (stream_waiting(&c->stream) >= H2_OUTPUT_HIGH)
        return NGHTTP2_ERR_WOULDBLOCK;
    earn_bytes(c, n); /* the peer will send window updates for these */
    stream_put(&c->stream, head, 9);
    if (stream_put(&c->stream, s.p, n) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    exchange_sent(x, n);
    return 0;
}

static bool tells_length(const struct exchange *x)
{
    return !x->q.trailers.n && x->q.status != 204 && x->q.status != 304 &&
           !str_starts(http_headers_get(&x->q.answer_headers, "content-type"), STR("application/grpc"));
}

static void respond(struct conn *c, struct exchange *x)
{
    nghttp2_data_provider provider = {.source.ptr = x, .read_callback = read_answer};
    bool body = exchange_has_body(x) || (x->q.trailers.n && !x->head_only), length = tells_length(x);
    _cleanup_(mem_freep) nghttp2_nv *nv = NULL;
    char status[16], length_text[24];
    size_t n;

    if (x->head_sent)
        return;
    x->head_sent = true;
    nv = nv_list(&x->q.answer_headers, length ? 3 : 2, &n);
    if (!nv) {
        conn_fail(c);
        return;
    }
    snprintf(status, sizeof status, "%d", x->q.status);
    nv[0] = h2_nv(STR(":status"), str_from(status));
    nv[1] = h2_nv(STR("date"), str_from(worker_date(c->worker)));
    if (length) {
        snprintf(length_text, sizeof length_text, "%llu", (unsigned long long) exchange_length(x));
        nv[2] = h2_nv(STR("content-length"), str_from(length_text));
    }
    if (nghttp2_submit_response(http2_of(c)->session, x->stream_id, nv, n, body ? &provider : NULL) < 0)
        conn_fail(c);
}

/* After the response to a request whose body is still being received is sent, a peer that does not stop sending gets a
 * reset (RFC 9113, 8.1), from on_data() or, when the time is up, from reset_if_stuck(). */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
    struct conn *c = user;
    struct exchange *x;

    if (!(f->hd.flags & NGHTTP2_FLAG_END_STREAM) || (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA))
        return 0;
    x = find(c, f->hd.stream_id);
    earn(c, CREDIT_PER_REQUEST);
    if (x)
        x->answer_sent = true;
    return 0;
}

static void flush(struct conn *c)
{
    struct http2 *h = http2_of(c);

    while (stream_waiting(&c->stream) < H2_OUTPUT_HIGH) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(h->session, &p);

        if (n < 0 || (n > 0 && stream_put(&c->stream, p, (size_t) n) < 0)) {
            c->failed = true;
            return;
        }
        if (n == 0)
            break;
    }
    if (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session))
        c->closing = true;
}

/* --- the rest --- */
static void input(struct conn *c, char *p, size_t n)
{
    struct http2 *h = http2_of(c);
    ssize_t r = nghttp2_session_mem_recv(h->session, (const uint8_t *) p, n);

    if (r < 0) {
        struct http_server *s = c->worker->server;

        atomic_fetch_add_explicit(r == NGHTTP2_ERR_FLOODED ? &s->floods : &s->bad_requests, 1, memory_order_relaxed);
        conn_fail(c);
        return;
    }
    h->last_active = loop_now(c->worker->loop);
    if (!c->n_exchanges)
        conn_set_deadline(c, options(c)->idle_timeout_ns);
    else if (!c->deadline || c->deadline > h->last_active + options(c)->head_timeout_ns)
        conn_set_deadline(c, options(c)->head_timeout_ns);
    conn_schedule(c);
}

static void idle_timer(struct conn *c, int64_t now)
{
    struct http2 *h = http2_of(c);
    int64_t left = h->last_active + options(c)->idle_timeout_ns - now;

    if (c->draining) {
        conn_fail(c);
    } else if (left > 0) {
        conn_set_deadline(c, left);
    } else {
        c->draining = true;
        nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
        conn_set_deadline(c, NS_PER_S);
        conn_schedule(c);
    }
}

/* A connection whose output is stuck is closed, because a reset would be sent after that output. */
static void drop(struct conn *c, struct exchange *x)
{
    if (stream_waiting(&c->stream) >= H2_OUTPUT_HIGH / 2) {
        conn_fail(c);
        return;
    }
    nghttp2_submit_rst_stream(http2_of(c)->session, NGHTTP2_FLAG_NONE, x->stream_id, NGHTTP2_CANCEL);
    conn_schedule(c);
}

/* A peer that grants no window for a response would hold its memory forever. */
static bool reset_if_stuck(struct conn *c, struct exchange *x, int64_t now)
{
    if (x->state != EXCHANGE_FINISHED || now < x->touched + options(c)->write_timeout_ns)
        return false;
    atomic_fetch_add_explicit(&c->worker->server->timeouts, 1, memory_order_relaxed);
    x->touched = now;
    nghttp2_submit_rst_stream(http2_of(c)->session, NGHTTP2_FLAG_NONE, x->stream_id,
                              x->answer_sent ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    return true;
}

/* Requests that arrive too slowly are reset one by one; a connection without requests is idle. */
static void timer(struct conn *c, int64_t now)
{
    if (!c->n_exchanges) {
        idle_timer(c, now);
        return;
    }
    for (struct exchange *x = c->exchanges, *next; x; x = next) {
        bool head = !x->q.peer[0]; /* set when the head is complete */

        next = x->next;
        if (reset_if_stuck(c, x, now) || x->state != EXCHANGE_READING ||
            (head ? x->started + options(c)->head_timeout_ns : conn_body_deadline(c, x)) > now)
            continue;
        atomic_fetch_add_explicit(&c->worker->server->timeouts, 1, memory_order_relaxed);
        if (head) { /* in the middle of a header block: nothing else can be read on this connection */
            conn_fail(c);
            return;
        }
        exchange_refuse(x, 408, "the request took too long\n");
    }
    conn_set_deadline(c, MAX(options(c)->head_timeout_ns / 2, NS_PER_MS));
    conn_schedule(c);
}

static bool idle(const struct conn *c)
{
    return !c->n_exchanges && !stream_waiting(&c->stream);
}

static void drain(struct conn *c)
{
    struct http2 *h = http2_of(c);

    c->draining = true;
    nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->session),
                          NGHTTP2_NO_ERROR, NULL, 0);
    conn_schedule(c);
}

static void done(struct conn *c)
{
    struct http2 *h = http2_of(c);

    nghttp2_session_del(h->session);
    mem_free(h);
}

static void set_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    nghttp2_session_callbacks_set_send_data_callback(cb, send_data);
}

int conn_http2_new(struct conn *c)
{
    const struct http_server_options *o = options(c);
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o->max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t) MIN(o->max_head, UINT32_MAX)},
    };
    struct http2 *h = mem_zalloc(sizeof *h);

    if (!h || h2_session_new(H2_SERVER, set_callbacks, c, &h->session) < 0) {
        mem_free(h);
        return -ENOMEM;
    }
    h->credit = CREDIT_START;
    h->credit_at = loop_now(c->worker->loop) / NS_PER_S;
    c->state = h;
    c->protocol = &conn_http2;
    nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
    nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, H2_CONNECTION_WINDOW);
    conn_schedule(c);
    return 0;
}

const struct conn_protocol conn_http2 = {
    .input = input,
    .respond = respond,
    .flush = flush,
    .timer = timer,
    .drop = drop,
    .drain = drain,
    .idle = idle,
    .done = done,
};
