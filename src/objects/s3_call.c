/* SPDX-License-Identifier: Apache-2.0 */
/* Signs, sends and repeats requests; see s3_call.h. The client and its requests belong to the loop's thread; the caller's
 * thread prepares them, posts them and waits. */
#include "objects/s3_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "objects/s3_xml.h"
#include "objects/sigv4.h"

enum { ATTEMPTS = 4, WAIT_MS = 100, LONGEST_S = 20, TEXT_MAX = 64 << 20 };

struct s3_batch {
    struct loop_call post;
    struct object_store *o;
    struct s3_call *calls;
    uint32_t n, left;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static void pause_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * NS_PER_MS};

    nanosleep(&t, NULL);
}

void s3_call_done(struct s3_call *c)
{
    buf_done(&c->text);
    arena_done(&c->arena);
}

/* --- on the loop's thread --- */

static void finish(struct s3_call *c)
{
    struct s3_batch *b = c->batch;

    pthread_mutex_lock(&b->lock);
    if (--b->left == 0)
        pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

static int on_data(struct client_request *r, struct str piece)
{
    struct s3_call *c = r->user;

    if (c->part && r->status == 206) {
        if (piece.n > c->part->len - c->got)
            return -EPROTO;
        memcpy(c->part->into + c->got, piece.p, piece.n);
        c->got += piece.n;
        return 0;
    }
    if (c->part && r->status == 200)
        return -EPROTO; /* the server ignored the range */
    if (c->text.n + piece.n > TEXT_MAX)
        return -EFBIG;
    buf_put_str(&c->text, piece);
    return buf_error(&c->text);
}

static void on_done(struct client_request *r)
{
    struct s3_call *c = r->user;
    struct str etag = http_headers_get(&r->headers_in, "etag");

    c->error = r->error;
    c->status = r->status;
    if (r->error)
        err_set(&c->err, r->error, "%s", err_message(&r->err, r->error));
    else
        str_to_u64(http_headers_get(&r->headers_in, "content-length"), 10, &c->size);
    if (!r->error && etag.n < sizeof c->etag)
        snprintf(c->etag, sizeof c->etag, "%.*s", STR_FMT(etag));
    client_request_done(r);
    finish(c);
}

static void start_all(struct loop_call *post)
{
    struct s3_batch *b = container_of(post, struct s3_batch, post);
    uint32_t n = b->n;

    for (uint32_t i = 0; i < n; i++) { /* b is gone once the last call has ended */
        struct s3_call *c = &b->calls[i];
        int r;

        if (c->done)
            continue;
        r = b->o->client ? client_start(b->o->client, &c->request) : -ECANCELED;
        if (r < 0) {
            c->error = err_set(&c->err, r, "cannot send the request: %m");
            finish(c);
        }
    }
}

/* --- on the caller's thread --- */

/* Adds a header whose value is kept until the call ends; NULL: out of memory, which prepare() reports. */
static void add_header(struct s3_call *c, size_t *n, struct str name, const char *value)
{
    c->headers[(*n)++] = (struct http_header){name, str_from(value ? value : "")};
}

/* Sets the request's headers, those that are signed first and by name. Under lock. */
static int sign(struct object_store *o, struct s3_call *c, size_t *n)
{
    _cleanup_(buf_done) struct buf authorization = BUF_INIT;
    char payload[2 * SHA256_SIZE + 1], date[SIGV4_DATE_SIZE];
    struct sigv4_request r = {.method = c->method,
                              .path = str_from(c->path),
                              .query = c->query,
                              .headers = c->headers,
                              .payload = payload,
                              .region = o->place.region,
                              .service = "s3",
                              .date = date};
    uint8_t hash[SHA256_SIZE];

    sha256_of(c->body.p, c->body.n, hash);
    sigv4_hex(hash, payload);
    sigv4_date(clock_wall(), date);
    add_header(c, n, STR("host"), o->authority);
    add_header(c, n, STR("x-amz-content-sha256"), arena_cstr(&c->arena, str_from(payload)));
    add_header(c, n, STR("x-amz-date"), arena_cstr(&c->arena, str_from(date)));
    if (o->credentials.token)
        add_header(c, n, STR("x-amz-security-token"), arena_cstr(&c->arena, str_from(o->credentials.token)));
    r.n_headers = *n;
    sigv4_sign(&(struct sigv4_keys){o->credentials.id, o->credentials.secret}, &r, &authorization);
    add_header(c, n, STR("authorization"), arena_cstr(&c->arena, buf_str(&authorization)));
    return buf_error(&authorization);
}

static int prepare(struct object_store *o, struct s3_call *c)
{
    const char *target;
    size_t n = 0;
    int r;

    arena_done(&c->arena);
    arena_init(&c->arena, 0);
    pthread_mutex_lock(&o->lock);
    r = sign(o, c, &n);
    pthread_mutex_unlock(&o->lock);
    if (c->part)
        add_header(c, &n, STR("range"),
                   arena_printf(&c->arena, "bytes=%llu-%llu", (unsigned long long) c->part->off,
                                (unsigned long long) (c->part->off + c->part->len - 1)));
    target = arena_printf(&c->arena, "%s%s%.*s", c->path, c->query.n ? "?" : "", STR_FMT(c->query));
    if (r < 0 || c->arena.failed || !target)
        return -ENOMEM;
    c->request = (struct client_request){.method = c->method,
                                         .target = str_from(target),
                                         .headers = c->headers + 1, /* the client sends host itself */
                                         .n_headers = n - 1,
                                         .body = c->body,
                                         .timeout_ns = o->place.timeout_ns,
                                         .done = on_done,
                                         .on_data = on_data,
                                         .user = c};
    buf_reset(&c->text);
    c->got = 0;
    c->error = c->status = 0;
    c->err = (struct err){0};
    return 0;
}

static int send_all(struct object_store *o, struct s3_call *calls, uint32_t n)
{
    struct s3_batch b = {.o = o, .calls = calls, .n = n, .post = {.run = start_all}};
    uint64_t sent = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i++)
        if (!calls[i].done) {
            calls[i].batch = &b;
            b.left++;
            sent += calls[i].body.n;
            r = prepare(o, &calls[i]);
        }
    if (r < 0)
        return r;
    pthread_mutex_lock(&o->lock);
    o->stats.rounds++;
    o->stats.requests += b.left;
    o->stats.bytes_written += sent;
    pthread_mutex_unlock(&o->lock);
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.wake, NULL);
    r = loop_post(loop_group_at(o->loops, 0), &b.post);
    pthread_mutex_lock(&b.lock);
    while (r == 0 && b.left)
        pthread_cond_wait(&b.wake, &b.lock);
    pthread_mutex_unlock(&b.lock);
    pthread_cond_destroy(&b.wake);
    pthread_mutex_destroy(&b.lock);
    return r;
}

/* The result of a call, with a message. */
static int judge(struct object_store *o, struct s3_call *c, struct err *e)
{
    struct arena a;
    struct str code, message;
    int r;

    if (c->error)
        return err_set(e, c->error, "%s at %s: %s", o->name, o->place.endpoint, err_message(&c->err, c->error));
    if (c->status >= 200 && c->status < 300) {
        if (c->part && c->got != c->part->len)
            return err_set(e, -EBADMSG, "object %s: it is shorter than expected", c->path);
        return 0;
    }
    arena_init(&a, 0);
    code = s3_xml_text(buf_str(&c->text), "Code", &a);
    message = s3_xml_text(buf_str(&c->text), "Message", &a);
    if (c->status == 404 && !str_is(code, "NoSuchBucket"))
        r = err_set(e, -ENOENT, "object %s does not exist", c->path);
    else if (c->status == 416)
        r = err_set(e, -EBADMSG, "object %s: it is shorter than expected", c->path);
    else
        r = err_set(e, c->status == 401 || c->status == 403 ? -EACCES : -EREMOTEIO, "%s at %s answered %d%s%.*s%s%.*s",
                    o->name, o->place.endpoint, c->status, code.n ? ": " : "", STR_FMT(code), message.n ? ": " : "",
                    (int) MIN(message.n, 300), message.p);
    arena_done(&a);
    return r;
}

static bool is_temporary(const struct s3_call *c)
{
    return c->error ? c->error != -ENOMEM && c->error != -EFBIG && c->error != -ECANCELED
                    : c->status == 429 || (c->status >= 500 && c->status != 501);
}

/* Reads the credentials again after they were refused. Returns true if it is worth trying again with them. */
static bool refresh(struct object_store *o, uint64_t *generation)
{
    struct s3_credentials fresh;
    bool changed = false;

    if (s3_credentials_read(&o->place, &fresh, NULL) == 0) {
        pthread_mutex_lock(&o->lock);
        changed = *generation != o->generation || strcmp(fresh.id, o->credentials.id) != 0 ||
                  strcmp(fresh.secret, o->credentials.secret) != 0;
        if (changed && *generation == o->generation) {
            struct s3_credentials old = o->credentials;

            o->credentials = fresh;
            fresh = old;
            o->generation++;
        }
        *generation = o->generation;
        pthread_mutex_unlock(&o->lock);
    }
    s3_credentials_done(&fresh);
    return changed;
}

int s3_run(struct object_store *o, struct s3_call *calls, uint32_t n, struct err *e)
{
    uint64_t generation, bytes = 0;
    int64_t began = clock_mono();
    uint32_t left = n;

    pthread_mutex_lock(&o->lock);
    generation = o->generation;
    pthread_mutex_unlock(&o->lock);
    for (int attempt = 1;; attempt++) {
        bool refused = false, again = true;
        int r = send_all(o, calls, n);

        if (r < 0)
            return err_set(e, r, "object store: %m");
        for (uint32_t i = 0; i < n; i++) {
            bool old = calls[i].done;

            refused |= !old && !calls[i].error && calls[i].status == 403;
            calls[i].done = old || !is_temporary(&calls[i]);
            left -= calls[i].done && !old;
            bytes += calls[i].done && !old ? calls[i].got + calls[i].text.n : 0;
        }
        if (refused && refresh(o, &generation)) {
            for (uint32_t i = 0; i < n; i++)
                if (!calls[i].error && calls[i].status == 403) {
                    calls[i].done = false;
                    left++;
                }
            again = false;
        }
        if (!left || attempt == ATTEMPTS || atomic_load(&o->cancelled) || clock_mono() - began > LONGEST_S * NS_PER_S)
            break;
        if (again)
            pause_ms(WAIT_MS << (2 * (attempt - 1)));
    }
    pthread_mutex_lock(&o->lock);
    o->stats.bytes_read += bytes;
    pthread_mutex_unlock(&o->lock);
    for (uint32_t i = 0; i < n; i++) {
        int r = judge(o, &calls[i], e);

        if (r < 0)
            return r;
    }
    return 0;
}
