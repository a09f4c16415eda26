/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one HTTP request to its end on a loop of its own. See fetch.h. */
#include "net/fetch.h"

#include <errno.h>

#include "base/clock.h"
#include "base/compress.h"
#include "net/client.h"

struct fetch {
    const struct fetch_options *o;
    struct fetch_result *result;
    struct client_request request;
    struct loop *loop;
    struct loop_timer tick;
    uint64_t total;
    int error;
    struct err *e;
};

static bool wants_on(struct fetch *f)
{
    const struct fetch_options *o = f->o;

    if (o->cancel && atomic_load(o->cancel))
        return false;
    return !o->progress || o->progress(o->arg, f->request.seen, f->total);
}

static void tick(struct loop_timer *t)
{
    struct fetch *f = container_of(t, struct fetch, tick);

    if (!wants_on(f)) {
        client_cancel(&f->request);
        return;
    }
    loop_timer_set(f->loop, t, loop_now(f->loop) + 100 * NS_PER_MS);
}

static int on_head(struct client_request *r)
{
    struct fetch *f = r->user;

    str_to_u64(http_headers_get(&r->headers_in, "content-length"), 10, &f->total);
    return 0;
}

static int on_data(struct client_request *r, struct str piece)
{
    struct fetch *f = r->user;

    if (!wants_on(f))
        return -ECANCELED;
    if (f->o->on_data)
        return f->o->on_data(f->o->arg, piece);
    buf_put_str(&f->result->body, piece);
    return buf_error(&f->result->body);
}

static void done(struct client_request *r)
{
    struct fetch *f = r->user;

    f->error = r->error;
    if (r->error) {
        err_set(f->e, r->error, "%s", r->error == -ECANCELED ? "cancelled" : err_message(&r->err, r->error));
    } else {
        f->result->status = r->status;
        for (uint32_t i = 0; i < r->headers_in.n; i++)
            if (http_headers_add(&f->result->headers, &f->result->arena, r->headers_in.v[i].name,
                                 r->headers_in.v[i].value) < 0)
                f->error = -ENOMEM;
    }
    client_request_done(r);
    loop_stop(f->loop);
}

static int run(struct fetch *f, struct tls_context *tls, struct err *e)
{
    const struct fetch_options *o = f->o;
    struct client_options co = {
        .loop = f->loop, .url = o->url, .protocol = CLIENT_HTTP1, .tls = tls, .max_connections = 1, .allow = o->allow};
    _cleanup_(client_freep) struct client *client = NULL;
    struct http_url url;
    int r = http_url_parse(o->url, &url, e);

    if (r == 0)
        r = client_new(&co, &client, e);
    if (r < 0)
        return r;
    f->request.method = o->method ? o->method : o->body.n ? "POST" : "GET";
    f->request.target = str_from(o->target ? o->target : url.target);
    f->request.target = str_cut(&f->request.target, '#');
    f->request.headers = o->headers;
    f->request.n_headers = o->n_headers;
    f->request.body = o->body;
    f->request.timeout_ns = o->timeout_ns;
    f->request.max_answer = o->max_answer;
    f->request.on_head = on_head;
    f->request.on_data = on_data;
    f->request.done = done;
    f->request.user = f;
    r = client_start(client, &f->request);
    if (r < 0)
        return err_set(e, r, "%s", err_message(&f->request.err, r));
    f->tick.fire = tick;
    loop_timer_set(f->loop, &f->tick, clock_mono() + 100 * NS_PER_MS);
    r = loop_run(f->loop);
    loop_timer_cancel(&f->tick);
    return r < 0 ? r : f->error;
}

int fetch_url(const struct fetch_options *o, struct fetch_result *ret, struct err *e)
{
    struct fetch f = {.o = o, .result = ret, .e = e};
    struct tls_options defaults = {.http1 = true};
    struct tls_context *tls = NULL;
    struct http_url url;
    int r;

    *ret = (struct fetch_result){0};
    r = http_url_parse(o->url, &url, e);
    if (r < 0)
        return r;
    if (url.https) {
        if (!o->tls)
            return err_set(e, -EOPNOTSUPP, "'%s': TLS is not available in this build", o->url);
        r = o->tls->context_new(o->tls_options ? o->tls_options : &defaults, false, &tls, e);
    }
    if (r == 0)
        r = loop_new(&f.loop, e);
    if (r == 0) {
        r = run(&f, tls, e);
        loop_free(f.loop);
    }
    tls_context_free(tls);
    return r;
}

int fetch_decode(struct fetch_result *r, size_t max, struct err *e)
{
    struct str coding = str_trim(http_headers_get(&r->headers, "content-encoding"));
    struct buf plain = BUF_INIT;
    enum compression c;
    int code;

    if (compress_by_name(coding, &c) < 0)
        return err_set(e, -EOPNOTSUPP, "content-encoding '%.*s' is not supported", STR_FMT(coding));
    if (c == COMPRESS_NONE)
        return 0;
    code = compress_inflate(c, r->body.p, r->body.n, max, &plain, e);
    if (code < 0) {
        buf_done(&plain);
        return code;
    }
    buf_done(&r->body);
    r->body = plain;
    return 0;
}

void fetch_result_done(struct fetch_result *r)
{
    buf_done(&r->body);
    arena_done(&r->arena);
    *r = (struct fetch_result){0};
}
