/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 on a client's connection, using libnghttp2. See client_conn.h. */
#include "net/client_conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/h2.h"

enum { HEAD_MAX = 64 << 10, HEADERS_MAX = 200, FRAME_OUT_MAX = 16384 };

struct wire2 {
    nghttp2_session *session;
};

static nghttp2_session *session_of(const struct client_conn *c)
{
    return ((struct wire2 *) c->state_of_wire)->session;
}

static struct client_request *find(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* --- out --- */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct client_request *r = find(session, id); /* NULL if the request ended early: its memory belongs to the caller
                                                   * again */
    size_t left;

    if (!r)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    left = r->body.n - r->sent;
    n = MIN(MIN(n, left), FRAME_OUT_MAX);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t) n;
}

static int send_data(nghttp2_session *session, nghttp2_frame *f, const uint8_t *head, size_t n,
                     nghttp2_data_source *source, void *user)
{
    struct client_conn *c = user;
    struct client_request *r = find(session, f->hd.stream_id);

    if (!r)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (stream_waiting(&c->stream) >= H2_OUTPUT_HIGH)
        return NGHTTP2_ERR_WOULDBLOCK;
    stream_put(&c->stream, head, 9);
    if (stream_put(&c->stream, r->body.p + r->sent, n) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    r->sent += n;
    return 0;
}

static int start(struct client_conn *c, struct client_request *r)
{
    nghttp2_data_provider provider = {.read_callback = read_body};
    struct client *client = c->client;
    nghttp2_nv nv[64];
    struct str target = r->target.n && r->target.p[0] == '/' ? r->target : STR("/");
    size_t n = 0;
    int32_t id;

    if (r->n_headers > ARRAY_SIZE(nv) - 5)
        return -E2BIG;
    nv[n++] = h2_nv(STR(":method"), str_from(r->method));
    nv[n++] = h2_nv(STR(":scheme"), client->url.https ? STR("https") : STR("http"));
    nv[n++] = h2_nv(STR(":path"), target);
    nv[n++] = h2_nv(STR(":authority"), str_from(client->url.authority));
    nv[n++] = h2_nv(STR("user-agent"), str_from(client->user_agent));
    for (size_t i = 0; i < r->n_headers; i++)
        nv[n++] = h2_nv(r->headers[i].name, r->headers[i].value);
    id = nghttp2_submit_request(session_of(c), NULL, nv, n, r->body.n ? &provider : NULL, r);
    if (id < 0) {
        c->no_more = true; /* out of stream ids, or the session is closing */
        return id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ECONNRESET;
    }
    r->stream_id = id;
    return 0;
}

static void flush(struct client_conn *c)
{
    nghttp2_session *session = session_of(c);

    while (stream_waiting(&c->stream) < H2_OUTPUT_HIGH) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(session, &p);

        if (n < 0 || (n > 0 && stream_put(&c->stream, p, (size_t) n) < 0)) {
            client_conn_fail(c, -EPROTO, "%s: HTTP/2: %s", c->peer, nghttp2_strerror((int) MIN(n, 0)));
            return;
        }
        if (n == 0)
            break;
    }
    if (!nghttp2_session_want_read(session) && !nghttp2_session_want_write(session) && !stream_waiting(&c->stream))
        client_conn_fail(c, -ECONNRESET, "%s ended the HTTP/2 session", c->peer);
}

/* --- in --- */
static int on_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t name_n,
                     const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
    struct client_request *r = find(session, f->hd.stream_id);
    struct str n = {(const char *) name, (uint32_t) name_n}, v = {(const char *) value, (uint32_t) value_n};
    struct http_headers *to;
    uint64_t status;

    if (!r || f->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (str_is(n, ":status")) {
        if (str_to_u64(v, 10, &status) < 0 || status > 999)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        r->status = (int) status;
        return 0;
    }
    if (r->status >= 100 && r->status < 200)
        return 0;
    to = r->head_seen ? &r->trailers : &r->headers_in;
    if (to->n >= HEADERS_MAX || r->arena.used > 4 * HEAD_MAX)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return http_headers_add(to, &r->arena, n, v) < 0 ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

/* The requests in progress may still be answered; those that the peer did not process are refused one by one. */
static void going_away(struct client_conn *c, const nghttp2_goaway *f)
{
    char why[128];
    size_t n = MIN(f->opaque_data_len, sizeof why - 3);

    c->no_more = true;
    if (c->error)
        return;
    snprintf(why, sizeof why, "%s%.*s", n ? ": " : "", (int) n, (const char *) f->opaque_data);
    for (char *p = why; *p; p++)
        if ((unsigned char) *p < 0x20 || (unsigned char) *p >= 0x7f)
            *p = '?';
    c->error = err_set(&c->err, -ECONNRESET, "%s ended the HTTP/2 connection (GOAWAY, %s%s)", c->peer,
                       nghttp2_http2_strerror(f->error_code), why);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
    struct client_conn *c = user;
    struct client_request *r;

    switch (f->hd.type) {
    case NGHTTP2_HEADERS:
        r = find(session, f->hd.stream_id);
        if (r && !r->head_seen && r->status >= 200)
            client_take_head(r);
        break;
    case NGHTTP2_GOAWAY:
        going_away(c, &f->goaway);
        break;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
    struct client_request *r = find(session, id);

    if (r)
        client_take_data(r, (struct str){(const char *) p, (uint32_t) n});
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct client_conn *c = user;
    struct client_request *r = find(session, id);
    struct err e = {0};

    if (!r)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    r->stream_id = 0;
    if (code == NGHTTP2_REFUSED_STREAM && !r->retried) {
        client_requeue(r); /* the peer guarantees that it has not processed the request */
    } else if (code == NGHTTP2_NO_ERROR && r->head_seen) {
        client_end(r, 0, NULL);
    } else {
        err_set(&e, -EPROTO, "%s reset the request: %s", c->peer, nghttp2_http2_strerror(code));
        client_end(r, -EPROTO, &e);
    }
    client_conn_schedule(c);
    return 0;
}

static void input(struct client_conn *c, char *p, size_t n)
{
    ssize_t r = nghttp2_session_mem_recv(session_of(c), (const uint8_t *) p, n);

    if (r < 0)
        client_conn_fail(c, -EPROTO, "%s: HTTP/2: %s", c->peer, nghttp2_strerror((int) r));
}

static void eof(struct client_conn *c)
{
}

static void abort_request(struct client_conn *c, struct client_request *r)
{
    if (!r->stream_id)
        return;
    nghttp2_session_set_stream_user_data(session_of(c), r->stream_id, NULL);
    nghttp2_submit_rst_stream(session_of(c), NGHTTP2_FLAG_NONE, r->stream_id, NGHTTP2_CANCEL);
    r->stream_id = 0;
    client_conn_schedule(c);
}

static unsigned room(const struct client_conn *c)
{
    uint32_t max = nghttp2_session_get_remote_settings(session_of(c), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    return c->n_requests < MIN(max, 1000u) && nghttp2_session_check_request_allowed(session_of(c));
}

static void ping(struct client_conn *c)
{
    nghttp2_submit_ping(session_of(c), NGHTTP2_FLAG_NONE, NULL);
}

static void done(struct client_conn *c)
{
    nghttp2_session_del(session_of(c));
    mem_free(c->state_of_wire);
}

static void set_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, send_data);
}

int client_http2_new(struct client_conn *c)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX},
    };
    struct wire2 *w = mem_zalloc(sizeof *w);

    if (!w || h2_session_new(H2_CLIENT, set_callbacks, c, &w->session) < 0) {
        mem_free(w);
        return -ENOMEM;
    }
    c->state_of_wire = w;
    c->wire = &client_http2;
    nghttp2_submit_settings(w->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
    nghttp2_session_set_local_window_size(w->session, NGHTTP2_FLAG_NONE, 0, H2_CONNECTION_WINDOW);
    return 0;
}

const struct client_wire client_http2 = {
    .start = start,
    .input = input,
    .eof = eof,
    .flush = flush,
    .abort = abort_request,
    .room = room,
    .ping = ping,
    .done = done,
};
