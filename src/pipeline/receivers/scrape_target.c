/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrapes one target: see scrape_target.h. Addresses are checked before a connection is opened, so that a token is
 * never sent to a link-local one; a password in a URL is never printed.
 */
#include "pipeline/receivers/scrape_target.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/url.h"
#include "codec/input.h"
#include "model/batch.h"
#include "model/semconv.h"
#include "model/sink.h"
#include "net/address.h"
#include "net/client.h"
#include "pipeline/receivers/received.h"
#include "pipeline/receivers/scrape_delta.h"
#include "pipeline/receivers/scrape_waits.h"

struct scrape_job {
    struct scrape_target *target;
    enum scrape_type type;
    struct loop_timer timer;
    struct client_request request;
    bool under_way;
    char path[512];
    char auth[600];
    struct http_header headers[2];
    struct delta *delta;
    int64_t started; /* wall clock of this scrape, and of the previous one */
    int64_t before;
    int64_t due; /* monotonic */
};

struct scrape_target {
    struct scrape_env env;
    struct arena arena;
    struct scrape_spec spec;
    char shown[256]; /* the URL without a password, for messages */
    struct client *client;
    struct scrape_job jobs[SCRAPE_TYPES];
    struct label *labels; /* those of spec, with the program's name */
    char prefix[300];     /* path of the URL, without a slash at the end */
    bool begun;           /* the jobs of the profiles have been started */
    struct log_limit log;
};

enum { PROGRAM_NAME_MAX = 200 };

static void start_profiles(struct scrape_target *t);

static int64_t interval_of(const struct scrape_job *j)
{
    const struct scrape_config *c = j->target->env.config;
    const struct scrape_type_config *t = &c->types[j->type];

    return MAX(t->interval ? t->interval : c->interval, t->seconds);
}

static void schedule(struct scrape_job *j)
{
    int64_t now = clock_mono(), step = interval_of(j);

    j->due = MAX(j->due + step, now); /* CPU profiles follow each other without a gap */
    loop_timer_set(j->target->env.loop, &j->timer, j->due);
}

static void scrape_failed(struct scrape_job *j, const char *why)
{
    struct scrape_target *t = j->target;
    uint64_t held;

    metric_add(t->env.failed, 1);
    if (log_limited(&t->log, 60 * NS_PER_S, &held))
        log_warn("%s: cannot scrape %s%s: %s", t->env.id, t->shown, j->path, why);
}

static void hand_on(struct scrape_job *j, struct batch *b)
{
    struct scrape_target *t = j->target;
    struct received meta = {.labels = t->labels,
                            .n_labels = t->spec.n_labels,
                            .time_ns = j->started,
                            .duration_ns = j->before ? j->started - j->before : 0,
                            .name = str_find(str_from(j->path), STR("/block")) >= 0 ? STR("block") : (struct str){0}};
    struct sink_context ctx = {.tenant = "", .peer = t->shown, .received_ns = clock_wall()};
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    struct err e = {0};

    if (received_finish(b, &meta, &x, &e) < 0) {
        scrape_failed(j, err_message(&e, -ENOMEM));
        return;
    }
    metric_add(t->env.scraped, x->n_samples);
    sink_consume(t->env.sink, x, &ctx, NULL);
}

static void decode(struct scrape_job *j, struct client_request *r)
{
    struct input_limits limits = {.inflated = j->target->env.config->max_inflated};
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct batch *b = NULL;
    struct err e = {0};
    int rc;

    buf_put_str(&in, r->answer);
    rc = buf_error(&in) ? buf_error(&in) : input_decode(&in, INPUT_AUTO, &limits, &b, NULL, &e);
    if (rc < 0) {
        scrape_failed(j, err_message(&e, rc));
        return;
    }
    if (!j->delta && delta_new(&j->delta) < 0)
        rc = -ENOMEM;
    if (rc == 0)
        rc = delta_apply(j->delta, b);
    scrape_waits_drop(b);
    if (rc < 0 || !b->n_profiles || !b->profiles[0].samples.n) {
        if (rc < 0)
            scrape_failed(j, "out of memory while computing differences");
        batch_unref(b);
    } else {
        hand_on(j, b);
    }
    j->before = j->started;
}

/* Sets service.name to the last part of the program's path, which is the first string of the answer. */
static void set_name(struct scrape_target *t, struct str cmdline)
{
    ptrdiff_t end = str_find_char(cmdline, '\0');
    struct str name = end < 0 ? cmdline : str_slice(cmdline, 0, (size_t) end), old;

    for (ptrdiff_t slash; (slash = str_find_char(name, '/')) >= 0;)
        name = str_slice(name, (size_t) slash + 1, name.n);
    if (!name.n || name.n > PROGRAM_NAME_MAX || !str_is_utf8(name))
        return;
    for (uint32_t i = 0; i < t->spec.n_labels; i++) {
        old = t->labels[i].value;
        if (!str_is(t->labels[i].name, SEMCONV_SERVICE_NAME) || str_eq(old, name))
            continue;
        t->labels[i].value = arena_str(&t->arena, name);
        if (!t->labels[i].value.p)
            t->labels[i].value = old;
        log_info("%s: %s is '%.*s'", t->env.id, t->shown, STR_FMT(t->labels[i].value));
    }
}

/* The program's name is known, or the target does not report it. */
static void program_answered(struct scrape_job *j, const struct client_request *r)
{
    struct scrape_target *t = j->target;

    if (r->status == 200)
        set_name(t, r->answer);
    if (!t->begun)
        start_profiles(t);
}

/* A target that was away may come back as another program. */
static void ask_again(struct scrape_target *t)
{
    struct scrape_job *j = &t->jobs[SCRAPE_PROGRAM];

    if (j->target && !j->under_way && !j->timer.at)
        schedule(j);
}

static void refused(struct scrape_job *j, const struct client_request *r)
{
    struct str to = http_headers_get(&r->headers_in, "location");
    char text[160];

    if (r->status >= 300 && r->status < 400)
        snprintf(text, sizeof text, "redirects are not followed (HTTP %d to %.*s)", r->status, (int) MIN(to.n, 100u),
                 to.n ? to.p : "");
    else
        snprintf(text, sizeof text, "HTTP %d %.*s", r->status, (int) MIN(r->answer.n, 100u),
                 r->answer.p ? r->answer.p : "");
    scrape_failed(j, text);
}

static void finished(struct client_request *r)
{
    struct scrape_job *j = container_of(r, struct scrape_job, request);
    bool optional = j->target->env.config->name_from_program && j->type != SCRAPE_CPU && j->type != SCRAPE_ONE;
    bool again = true;

    j->under_way = false;
    if (r->error == -ECANCELED) {
        client_request_done(r);
        return;
    }
    if (r->error) {
        scrape_failed(j, err_message(&r->err, r->error));
        ask_again(j->target);
    } else if (j->type == SCRAPE_PROGRAM) {
        program_answered(j, r);
        again = false;
    } else if (r->status == 200) {
        decode(j, r);
    } else if (r->status != 404 || !optional) {
        refused(j, r);
    }
    client_request_done(r);
    if (again)
        schedule(j);
}

static void fire(struct loop_timer *timer)
{
    struct scrape_job *j = container_of(timer, struct scrape_job, timer);
    const struct scrape_config *c = j->target->env.config;
    struct client_request *r = &j->request;
    int rc;

    *r = (struct client_request){
        .method = "GET",
        .target = str_from(j->path),
        .timeout_ns = c->timeout + c->types[j->type].seconds,
        .max_answer = c->max_inflated,
        .done = finished,
        .headers = j->headers,
        .n_headers = c->token ? 1 : 0,
    };
    j->started = clock_wall();
    rc = client_start(j->target->client, r);
    j->under_way = rc == 0;
    if (rc < 0) {
        scrape_failed(j, strerror(-rc));
        schedule(j);
    }
}

static void start_job(struct scrape_target *t, enum scrape_type type)
{
    const struct scrape_type_config *c = &t->env.config->types[type];
    struct scrape_job *j = &t->jobs[type];
    uint64_t spread;
    const char *path = type == SCRAPE_ONE ? "" : type == SCRAPE_PROGRAM ? "/debug/pprof/cmdline" : c->path;

    *j = (struct scrape_job){.target = t, .type = type};
    j->timer.fire = fire;
    snprintf(j->path, sizeof j->path, "%s%s", t->prefix, path);
    if (c->seconds && type != SCRAPE_ONE) {
        size_t n = strlen(j->path);

        snprintf(j->path + n, sizeof j->path - n, "%cseconds=%lld", strchr(j->path, '?') ? '&' : '?',
                 (long long) (c->seconds / NS_PER_S));
    }
    if (t->env.config->token) {
        snprintf(j->auth, sizeof j->auth, "Bearer %s", t->env.config->token);
        j->headers[0] = (struct http_header){STR("authorization"), str_from(j->auth)};
    }
    spread = hash64_str(str_from(t->spec.url)) % (uint64_t) MAX(MIN(interval_of(j), NS_PER_S), 1);
    j->due = clock_mono() + t->env.config->initial_delay + (int64_t) (spread / 10);
    loop_timer_set(t->env.loop, &j->timer, j->due);
}

static void start_profiles(struct scrape_target *t)
{
    t->begun = true;
    for (int i = 0; i < SCRAPE_ONE; i++)
        if (t->env.config->types[i].enabled && (!t->spec.types || t->spec.types & 1u << i))
            start_job(t, (enum scrape_type) i);
}

static bool not_link_local(const char *address)
{
    return !address_is_link_local(address);
}

static int copy_spec(struct scrape_target *t, const struct scrape_spec *s)
{
    t->spec = *s;
    t->spec.url = arena_cstr(&t->arena, str_from(s->url));
    t->spec.labels = arena_zalloc_array(&t->arena, s->n_labels + 1, sizeof *s->labels);
    t->labels = arena_zalloc_array(&t->arena, s->n_labels + 1, sizeof *s->labels);
    if (!t->spec.url || !t->spec.labels || !t->labels)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n_labels; i++)
        t->labels[i] = t->spec.labels[i] =
            (struct label){arena_str(&t->arena, s->labels[i].name), arena_str(&t->arena, s->labels[i].value)};
    return 0;
}

int scrape_target_new(const struct scrape_env *env, const struct scrape_spec *spec, struct scrape_target **ret,
                      struct err *e)
{
    struct scrape_target *t = mem_zalloc(sizeof *t);
    struct client_options o = {.loop = env->loop, .url = spec->url, .protocol = CLIENT_HTTP1, .tls = env->tls};
    struct http_url url;
    int r, n;

    if (!t)
        return -ENOMEM;
    t->env = *env;
    arena_init(&t->arena, 1 << 20);
    url_redact(spec->url, t->shown, sizeof t->shown);
    /* The process that listens at the target's address, if it is on this host, could be found here: url.host and url.port name
     * it, and the label process.pid would let the server count its CPU time once beside the agent's. */
    o.allow = env->config->allow_link_local ? NULL : not_link_local;
    r = http_url_parse(spec->url, &url, e);
    if (r == 0 && !env->config->allow_link_local && address_is_link_local(url.host))
        r = err_set(e, -EPERM, "'%s' is a link-local address (allow_link_local is off)", t->shown);
    if (r == 0)
        r = copy_spec(t, spec);
    if (r == 0)
        r = client_new(&o, &t->client, e);
    if (r < 0) {
        scrape_target_free(t);
        return r;
    }
    n = (int) strlen(url.target);
    if (n && url.target[n - 1] == '/' && !(spec->types & 1u << SCRAPE_ONE))
        n--;
    snprintf(t->prefix, sizeof t->prefix, "%.*s", n, url.target);
    if (spec->types & 1u << SCRAPE_ONE)
        start_job(t, SCRAPE_ONE);
    else if (env->config->name_from_program && !spec->named)
        start_job(t, SCRAPE_PROGRAM);
    else
        start_profiles(t);
    *ret = t;
    return 0;
}

void scrape_target_free(struct scrape_target *t)
{
    if (!t)
        return;
    for (int i = 0; i < SCRAPE_TYPES; i++)
        loop_timer_cancel(&t->jobs[i].timer);
    client_free(t->client); /* ends requests in progress with -ECANCELED */
    for (int i = 0; i < SCRAPE_TYPES; i++) {
        if (t->jobs[i].under_way) { /* has ended, but its done() was deferred to the end of this round */
            loop_defer_cancel(t->env.loop, &t->jobs[i].request.finish);
            client_request_done(&t->jobs[i].request);
        }
        loop_timer_cancel(&t->jobs[i].timer);
        delta_free(t->jobs[i].delta);
    }
    arena_done(&t->arena);
    mem_free(t);
}

bool scrape_target_is(const struct scrape_target *t, const struct scrape_spec *s)
{
    if (strcmp(t->spec.url, s->url) != 0 || t->spec.types != s->types || t->spec.n_labels != s->n_labels)
        return false;
    for (uint32_t i = 0; i < s->n_labels; i++)
        if (!str_eq(t->spec.labels[i].name, s->labels[i].name) || !str_eq(t->spec.labels[i].value, s->labels[i].value))
            return false;
    return true;
}
