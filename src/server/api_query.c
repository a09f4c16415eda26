/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1: the questions of query/answer.h over HTTP, one route each. Trees are also available in the binary form of
 * query/tree_form.h (Accept: application/vnd.wick.tree, or format=binary).
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "net/encoding.h"
#include "query/answer.h"
#include "query/query_delete.h"
#include "query/tree_form.h"
#include "server/answer_cache.h"
#include "server/api.h"
#include "server/api_query.h"
#include "server/front.h"
#include "server/name_source.h"
#include "store/store.h"

enum { QUESTIONS_MAX = 32, PATH_MAX_OF_QUESTION = 40, AGE_MAX_S = 60 };

static struct str param_of_call(void *ctx, const char *name)
{
    struct call *c = ctx;

    if (strcmp(name, "label") == 0 && c->path_arg.n)
        return c->path_arg;
    return call_param(c, name);
}

static bool wants_binary(struct call *c)
{
    struct str format = call_param(c, "format");

    if (format.n)
        return str_is(format, "binary");
    return http_list_has(http_headers_get(&c->q->headers, "accept"), TREE_MEDIA_TYPE);
}

struct answer_request call_request(struct call *c)
{
    const struct front_options *o = front_options(c->front);

    return (struct answer_request){
        .store = o->store,
        .names = name_source_names(o->names),
        .spans = o->spans,
        .trace_link = o->trace_link,
        .tenant = c->who.tenant,
        .now = clock_wall(),
        .memory_limit = o->memory_limit,
        .cancel = &c->cancel,
        .arena = &c->q->arena,
        .param = param_of_call,
        .ctx = c,
    };
}

static int make_answer(struct call *c, struct err *e)
{
    struct answer_request q = call_request(c);
    int r = call_store(c, &q.store, e);
    struct str name = str_slice(str_from(c->route->path), sizeof "/api/v1/" - 1, SIZE_MAX);
    const struct question *what = question_find(str_cut(&name, '/'));

    if (r < 0)
        return r;
    q.binary = what->tree && wants_binary(c);
    if (q.binary)
        c->content_type = TREE_MEDIA_TYPE;
    else if (str_is(call_param(c, "format"), "text") && c->q->query.n)
        c->content_type = "text/plain; charset=utf-8";
    r = answer(what, &q, &c->out, e);
    c->notes = q.notes;
    return r;
}

/* --- answers that are given again (answer_cache.h) --- */

/* How old an answer the client accepts, in ns: Cache-Control: max-age=N, at most AGE_MAX_S; 0 if it does not say. */
static int64_t accepted_age(struct call *c)
{
    struct str list = http_headers_get(&c->q->headers, "cache-control");

    while (list.n) {
        struct str item = str_trim(str_cut(&list, ','));
        uint64_t seconds;

        if (str_starts(item, STR("max-age=")) && str_to_u64(str_slice(item, 8, SIZE_MAX), 10, &seconds) == 0)
            return (int64_t) MIN(seconds, (uint64_t) AGE_MAX_S) * NS_PER_S;
    }
    return 0;
}

/* Whatever changes a byte of the answer, in the request's arena; empty when memory runs out. */
static struct str key_of(struct call *c)
{
    char *text = arena_printf(&c->q->arena, "%zu %s %s %u %.*s %d %d %.*s", strlen(c->who.tenant), c->who.tenant,
                              c->route->path, c->path_arg.n, STR_FMT(c->path_arg), wants_binary(c),
                              (int) http_accepted_coding(&c->q->headers), STR_FMT(c->q->query));

    return text ? str_from(text) : (struct str){0};
}

static void resume_call(struct answer_waiter *w)
{
    call_resume(container_of(w, struct call, waiter));
}

static int send_kept(struct call *c, struct kept_answer *a)
{
    char age[24];

    snprintf(age, sizeof age, "%lld", (long long) (a->age_ns / NS_PER_S));
    buf_done(&c->out);
    c->out = a->body;
    c->content_type = a->content_type;
    c->notes = a->notes;
    http_add_header(c->q, "age", str_from(age));
    return http_add_coding(c->q, a->coding);
}

/* Makes an answer that others are given, too. */
static int make_shared(struct call *c, struct str key, struct err *e)
{
    struct answer_cache *cache = front_answers(c->front);
    int r = make_answer(c, e);
    struct kept_answer a = {0};

    if (r < 0 || buf_error(&c->out)) {
        answer_cache_fail(cache, key);
        return r;
    }
    a.coding = http_encode_body(c->q, &c->out);
    a.body = c->out;
    a.content_type = c->content_type;
    a.notes = c->notes;
    answer_cache_keep(cache, key, &a);
    return http_add_coding(c->q, a.coding);
}

static int run_question(struct call *c, struct err *e)
{
    int64_t age = accepted_age(c);
    struct str key = age > 0 && !front_options(c->front)->store_of ? key_of(c) : (struct str){0};
    struct kept_answer a;

    if (!key.n)
        return make_answer(c, e);
    c->waiter.resume = resume_call;
    switch (answer_cache_find(front_answers(c->front), &(struct answer_question){key, c->started - age, clock_mono()},
                              &c->waiter, &a)) {
    case ANSWER_SHARED:
        return send_kept(c, &a);
    case ANSWER_WAIT:
        return CALL_WAITS;
    case ANSWER_MAKE:
        return make_shared(c, key, e);
    default:
        return make_answer(c, e);
    }
}

static int run_delete(struct call *c, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct store *s = front_options(c->front)->store;
    static const char *const names[] = {"query", "from", "to", NULL};
    struct query_params p = {.tenant = c->who.tenant, .with_uploads = true, .now = clock_wall()};
    int r = query_params_read(&p, names, param_of_call, c, e);

    if (r == 0 && (!p.query.n || !p.from.given || !p.to.given))
        r = err_set(e, -EINVAL, "query, from and to are all required");
    if (r == 0)
        r = query_compile(&p, &q, e);
    if (r == 0 && q->any_type) /* not only the default type */
        q->selectors[0].type = (struct str){0};
    if (r == 0)
        r = query_delete(s, front_options(c->front)->spans, q->q.tenant, &q->q.columns[0], e);
    answer_cache_clear(front_answers(c->front));
    if (r == 0)
        buf_puts(&c->out, "{\"deleted\":true}\n");
    return r;
}

static const struct route routes[] = {
    {"GET", "/api/v1/labels/{name}/values", AUTH_READ, false, run_question},
    {"POST", "/api/v1/delete", AUTH_ADMIN, false, run_delete},
};

/* A route for each question, made once. */
static const struct route *question_routes(size_t *ret_n)
{
    static char paths[QUESTIONS_MAX][PATH_MAX_OF_QUESTION];
    static struct route of_questions[QUESTIONS_MAX];
    size_t n = 0;

    for (const struct question *q = questions; q->name && n < QUESTIONS_MAX; q++, n++) {
        snprintf(paths[n], sizeof paths[n], "/api/v1/%s", q->name);
        of_questions[n] = (struct route){"GET", paths[n], AUTH_READ, false, run_question};
    }
    *ret_n = n;
    return of_questions;
}

int api_mount_query(struct front *s)
{
    size_t n;
    const struct route *of_questions = question_routes(&n);
    int r = front_mount(s, of_questions, n);

    return r < 0 ? r : front_mount(s, routes, ARRAY_SIZE(routes));
}
