/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small object store with S3's protocol, in this process, that can be told to fail. It checks the access key's id, not the
 * signature: tests/integration/test_cold.py runs against a real server.
 */
#ifndef TESTS_FAKE_S3_H
#define TESTS_FAKE_S3_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/server.h"

struct fake_object {
    char path[300];
    struct buf data;
    bool used;
};

struct fake_s3 {
    pthread_mutex_t lock;
    struct fake_object v[512];
    struct buf parts[64]; /* of the upload in parts */
    struct loop_group *loops;
    struct http_server *server;
    int port;
    char key_id[64];
    char place[200];
    atomic_int cut_puts;    /* the next n PUTs store only half of the object, and report success */
    atomic_int fail_calls;  /* the next n calls are answered with 503 */
    atomic_int drop_calls;  /* the next n answers have half of what was asked for */
    atomic_bool refuse_all; /* 403 for everything */
    atomic_int gets, puts, deletes;
};

static struct fake_object *fake_find(struct fake_s3 *f, struct str path, bool make)
{
    for (size_t i = 0; i < ARRAY_SIZE(f->v); i++)
        if (f->v[i].used && str_is(path, f->v[i].path))
            return &f->v[i];
    for (size_t i = 0; make && i < ARRAY_SIZE(f->v); i++)
        if (!f->v[i].used) {
            f->v[i].used = true;
            snprintf(f->v[i].path, sizeof f->v[i].path, "%.*s", STR_FMT(path));
            return &f->v[i];
        }
    return NULL;
}

_unused_ static uint32_t fake_count(struct fake_s3 *f)
{
    uint32_t n = 0;

    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < ARRAY_SIZE(f->v); i++)
        n += f->v[i].used;
    pthread_mutex_unlock(&f->lock);
    return n;
}

static void fake_put(struct fake_s3 *f, struct http_request *q)
{
    uint64_t part = 0;
    struct str number = http_query_get(q->query, &q->arena, "partNumber");
    struct buf *to;

    atomic_fetch_add(&f->puts, 1);
    if (number.p && (str_to_u64(number, 10, &part) < 0 || !part || part > ARRAY_SIZE(f->parts))) {
        http_reply(q, 400, "application/xml", STR("<Error><Code>InvalidPart</Code></Error>"));
        return;
    }
    to = part ? &f->parts[part - 1] : &fake_find(f, q->path, true)->data;
    buf_reset(to);
    buf_put(to, q->body.p, atomic_fetch_sub(&f->cut_puts, 1) > 0 ? q->body.n / 2 : q->body.n);
    if (atomic_load(&f->cut_puts) < 0)
        atomic_store(&f->cut_puts, 0);
    http_add_header(q, "etag", STR("\"e\""));
    http_reply(q, 200, NULL, STR(""));
}

/* Begins or completes an upload in parts. */
static void fake_post(struct fake_s3 *f, struct http_request *q)
{
    struct fake_object *o;

    if (str_starts(q->query, STR("uploads"))) {
        for (size_t i = 0; i < ARRAY_SIZE(f->parts); i++)
            buf_reset(&f->parts[i]);
        http_reply(q, 200, "application/xml", STR("<R><UploadId>a&amp;b</UploadId></R>"));
        return;
    }
    o = fake_find(f, q->path, true);
    buf_reset(&o->data);
    for (size_t i = 0; i < ARRAY_SIZE(f->parts); i++)
        buf_put_buf(&o->data, &f->parts[i]);
    http_reply(q, 200, "application/xml", STR("<CompleteMultipartUploadResult/>"));
}

static void fake_list(struct fake_s3 *f, struct http_request *q)
{
    struct str prefix = http_query_get(q->query, &q->arena, "prefix");
    struct str token = http_query_get(q->query, &q->arena, "continuation-token");
    size_t from = token.p ? (size_t) atoi(token.p) : 0, n = 0;

    buf_puts(&q->answer, "<?xml version=\"1.0\"?><ListBucketResult>");
    for (size_t i = from; i < ARRAY_SIZE(f->v); i++) {
        struct str key = str_from(f->v[i].path + 1);

        str_cut(&key, '/');
        if (!f->v[i].used || !str_starts(key, prefix))
            continue;
        if (n++ == 2) { /* pages of two */
            buf_printf(&q->answer, "<IsTruncated>true</IsTruncated><NextContinuationToken>%zu</NextContinuationToken>",
                       i);
            break;
        }
        buf_printf(&q->answer, "<Contents><Key>%.*s</Key><Size>%zu</Size></Contents>", STR_FMT(key), f->v[i].data.n);
    }
    buf_puts(&q->answer, "</ListBucketResult>");
    http_finish(q);
}

static void fake_get(struct fake_s3 *f, struct http_request *q)
{
    struct str range = http_headers_get(&q->headers, "range");
    struct fake_object *o = fake_find(f, q->path, false);
    uint64_t from = 0, to;

    atomic_fetch_add(&f->gets, 1);
    if (!o) {
        http_reply(q, 404, "application/xml", STR("<Error><Code>NoSuchKey</Code></Error>"));
        return;
    }
    to = o->data.n ? o->data.n - 1 : 0;
    if (str_starts(range, STR("bytes="))) {
        struct str last = str_slice(range, 6, range.n), first = str_cut(&last, '-');

        str_to_u64(first, 10, &from);
        str_to_u64(last, 10, &to);
        if (from >= o->data.n) {
            http_reply(q, 416, NULL, STR(""));
            return;
        }
        q->status = 206;
    }
    to = MIN(to, o->data.n - 1);
    buf_put(&q->answer, o->data.p + from, (size_t) (to - from + 1));
    if (atomic_load(&f->drop_calls) > 0) {
        atomic_fetch_sub(&f->drop_calls, 1);
        q->answer.n /= 2; /* less than was asked for: the client must not take it for the whole */
    }
    http_finish(q);
}

static void fake_handle(void *arg, struct http_request *q)
{
    struct fake_s3 *f = arg;
    struct str auth = http_headers_get(&q->headers, "authorization");
    char wanted[128];

    snprintf(wanted, sizeof wanted, "AWS4-HMAC-SHA256 Credential=%s/", f->key_id);
    if (atomic_load(&f->refuse_all) || !str_starts(auth, str_from(wanted))) {
        http_reply(q, 403, "application/xml",
                   STR("<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist.</Message></Error>"));
        return;
    }
    if (atomic_load(&f->fail_calls) > 0) {
        atomic_fetch_sub(&f->fail_calls, 1);
        http_reply(q, 503, "application/xml", STR("<Error><Code>SlowDown</Code></Error>"));
        return;
    }
    pthread_mutex_lock(&f->lock);
    if (str_is(q->method, "PUT")) {
        fake_put(f, q);
    } else if (str_is(q->method, "POST")) {
        fake_post(f, q);
    } else if (str_is(q->method, "DELETE")) {
        struct fake_object *o = fake_find(f, q->path, false);

        atomic_fetch_add(&f->deletes, 1);
        if (o) {
            buf_done(&o->data);
            o->used = false;
        }
        http_reply(q, 204, NULL, STR(""));
    } else if (str_is(q->method, "HEAD")) {
        struct fake_object *o = fake_find(f, q->path, false);

        if (o)
            buf_put_buf(&q->answer, &o->data);
        q->status = o ? 200 : 404;
        http_finish(q);
    } else if (str_starts(q->query, STR("continuation-token")) || str_starts(q->query, STR("list-type"))) {
        fake_list(f, q);
    } else {
        fake_get(f, q);
    }
    pthread_mutex_unlock(&f->lock);
}

/* Sets the environment's credentials to key_id. */
static void fake_keys(const char *key_id)
{
    setenv("AWS_ACCESS_KEY_ID", key_id, 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
}

static int fake_start(struct fake_s3 *f)
{
    struct http_server_options o = {.n_loops = 1, .arg = f, .handle = fake_handle};
    struct loop *loop;
    struct err e = {0};
    int r;

    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    snprintf(f->key_id, sizeof f->key_id, "AKID");
    fake_keys("AKID");
    r = loop_group_new(1, "fake", &f->loops, &e);
    if (r < 0)
        return r;
    loop = loop_group_at(f->loops, 0);
    o.loops = &loop;
    r = http_server_new(&o, &f->server, &e);
    if (r == 0)
        r = http_server_listen(f->server, "127.0.0.1:0", &f->port, &e);
    snprintf(f->place, sizeof f->place, "s3://bucket/some/prefix?endpoint=http://127.0.0.1:%d&timeout=10", f->port);
    return r;
}

static void fake_stop(struct fake_s3 *f)
{
    http_server_stop_wait(f->server, 0);
    http_server_free(f->server);
    loop_group_free(f->loops);
    for (size_t i = 0; i < ARRAY_SIZE(f->v); i++)
        buf_done(&f->v[i].data);
    for (size_t i = 0; i < ARRAY_SIZE(f->parts); i++)
        buf_done(&f->parts[i]);
    pthread_mutex_destroy(&f->lock);
}

#endif
