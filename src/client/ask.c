/* SPDX-License-Identifier: Apache-2.0 */
/* Queries a server over HTTP or a store's directory directly (ask.h). */
#include "client/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/record.h"
#include "net/fetch.h"
#include "net/tls.h"
#include "query/answer.h"
#include "span/span_index.h"

enum { ANSWER_MAX = 64 << 20 }; /* far above what any question of a person returns */

/* --- a store's directory --- */

static int ask_store(const struct ask_target *t, const struct question *what, ask_param_fn param, void *ctx,
                     struct buf *out, struct err *e)
{
    struct store_config config = {.dir = t->store, .read_only = true};
    _cleanup_(store_closep) struct store *s = NULL;
    _cleanup_(span_index_closep) struct span_index *spans = NULL;
    _cleanup_(buf_done) struct buf dir = BUF_INIT;
    struct arena arena;
    struct answer_request q = {.tenant = t->tenant ? t->tenant : "", .now = clock_wall(), .param = param, .ctx = ctx};
    int r = store_open_place(&config, &s, e);

    if (r == 0 && s->ops->in_dir) {
        struct span_index_config traces = {.read_only = true};

        buf_printf(&dir, "%s/spans", t->store);
        traces.dir = buf_cstr(&dir);
        r = traces.dir ? span_index_open(&traces, &spans, e) : -ENOMEM;
    }
    if (r < 0)
        return r;
    arena_init(&arena, 0);
    q.store = s;
    q.spans = spans;
    q.arena = &arena;
    r = answer(what, &q, out, e);
    arena_done(&arena);
    return r;
}

/* --- a server --- */

static const struct record_field error_fields[] = {{"message", RECORD_STR, 0}, {0}};
static const struct record_field refusal_fields[] = {{"error", RECORD_ONE, 0, .fields = error_fields}, {0}};

/* The message in {"error":{"message":…}}, or the response as received. -EINVAL: the question was wrong. */
static int server_error(const struct fetch_result *res, const char *server, struct err *e)
{
    struct str text = buf_str(&res->body);
    int r = res->status == 400 ? -EINVAL : -EPROTO;
    struct str message = {0};
    struct arena arena;

    arena_init(&arena, 0);
    if (record_read(text, refusal_fields, RECORD_ANSWER, &arena, &message, NULL) == 0 && message.n)
        text = message;
    text = str_slice(str_trim(text), 0, 500);
    if (r == -EINVAL)
        err_set(e, r, "%.*s", STR_FMT(text));
    else
        err_set(e, r, "%s answers %d: %.*s", server, res->status, STR_FMT(text));
    arena_done(&arena);
    return r;
}

static const char *server_of(const struct ask_target *t)
{
    const char *server = t->server ? t->server : getenv("WICK_SERVER");

    return server && *server ? server : "http://localhost:4040";
}

static void put_url(struct buf *url, const char *server, const char *path)
{
    size_t n = strlen(server);

    while (n && server[n - 1] == '/')
        n--;
    if (!strstr(server, "://")) /* HOST:PORT */
        buf_puts(url, "http://");
    buf_put(url, server, n);
    buf_puts(url, path);
}

int ask_send(const struct ask_target *t, const struct ask_request *q, struct buf *out, int *ret_status, struct err *e)
{
    const char *server = server_of(t), *token = t->token ? t->token : getenv("WICK_TOKEN");
    _cleanup_(buf_done) struct buf url = BUF_INIT, bearer = BUF_INIT;
    _cleanup_(fetch_result_done) struct fetch_result res = {0};
    struct http_header headers[3] = {{STR("accept-encoding"), STR("zstd, gzip")}};
    struct fetch_options f = {.method = q->method,
                              .headers = headers,
                              .n_headers = 1,
                              .body = q->body,
                              .timeout_ns = q->timeout_ns ? q->timeout_ns : 60 * NS_PER_S,
                              .max_answer = ANSWER_MAX,
                              .tls = &tls_openssl};
    int r;

    put_url(&url, server, q->path);
    f.url = buf_cstr(&url);
    if (!f.url)
        return -ENOMEM;
    if (token) {
        buf_printf(&bearer, "Bearer %s", token);
        headers[f.n_headers++] = (struct http_header){STR("authorization"), buf_str(&bearer)};
    }
    if (q->encoding)
        headers[f.n_headers++] = (struct http_header){STR("content-encoding"), str_from(q->encoding)};
    r = fetch_url(&f, &res, e);
    if (r == -ECONNREFUSED && !t->server && !getenv("WICK_SERVER"))
        return err_set(
            e, r,
            "no server is listening on localhost:4040; start one with 'wick serve', or name another with --server URL");
    if (r == 0)
        r = fetch_decode(&res, ANSWER_MAX, e);
    if (r < 0)
        return r;
    if (ret_status)
        *ret_status = res.status;
    if (res.status != 200 && res.status != q->expect)
        return server_error(&res, server, e);
    buf_put(out, res.body.p, res.body.n);
    return buf_error(out);
}

int ask_server(const struct ask_target *t, const char *path, struct buf *out, struct err *e)
{
    return ask_send(t, &(struct ask_request){.path = path}, out, NULL, e);
}

int ask_question(const struct ask_target *t, const struct question *what, ask_param_fn param, void *ctx,
                 struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    char sep = '?', *text;

    if (t->store)
        return ask_store(t, what, param, ctx, out, e);
    buf_printf(&path, "/api/v1/%s", what->name);
    for (size_t i = 0; answer_params[i].name; i++) {
        struct str v = param(ctx, answer_params[i].name);

        if (!v.n)
            continue;
        buf_printf(&path, "%c%s=", sep, answer_params[i].name);
        http_percent_encode(&path, v);
        sep = '&';
    }
    text = buf_cstr(&path);
    return text ? ask_server(t, text, out, e) : -ENOMEM;
}
