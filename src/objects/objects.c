/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of objects.h as requests to S3. Objects above PART bytes are written in parts, which become visible
 * together. */
#include "objects/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "objects/s3_call.h"
#include "objects/s3_xml.h"

enum { PART = 16 << 20, PARTS_MAX = 10000, CONNECTIONS = 8, PARALLEL_MAX = 256 };

/* --- opening --- */

int objects_check_place(const char *place, struct err *e)
{
    struct s3_place p;
    int r = s3_place_parse(place, &p, e);

    s3_place_done(&p);
    return r;
}

struct object_making {
    struct loop_call post;
    struct object_store *o;
    struct err *e;
    int result;
    bool done;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static void make_client(struct loop_call *post)
{
    struct object_making *m = container_of(post, struct object_making, post);
    struct object_store *o = m->o;
    struct client_options co = {.loop = loop_group_at(o->loops, 0),
                                .url = o->place.endpoint,
                                .protocol = CLIENT_HTTP1,
                                .tls = o->tls,
                                .max_connections = CONNECTIONS};

    if (atomic_load(&o->cancelled)) {
        client_free(o->client); /* ends its requests */
        o->client = NULL;
    } else {
        m->result = client_new(&co, &o->client, m->e);
    }
    pthread_mutex_lock(&m->lock);
    m->done = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

/* Makes the client on its loop's thread, or frees it there. */
static int run_make(struct object_store *o, struct err *e)
{
    struct object_making m = {.post = {.run = make_client}, .o = o, .e = e};
    int r;

    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.wake, NULL);
    r = loop_post(loop_group_at(o->loops, 0), &m.post);
    pthread_mutex_lock(&m.lock);
    while (r == 0 && !m.done)
        pthread_cond_wait(&m.wake, &m.lock);
    pthread_mutex_unlock(&m.lock);
    pthread_cond_destroy(&m.wake);
    pthread_mutex_destroy(&m.lock);
    return r < 0 ? r : m.result;
}

int objects_open(const char *place, struct object_store **ret, struct err *e)
{
    _cleanup_(objects_closep) struct object_store *o = mem_zalloc(sizeof *o);
    struct tls_options tls = {.http1 = true};
    struct http_url url;
    int r;

    if (!o)
        return err_set(e, -ENOMEM, "out of memory");
    pthread_mutex_init(&o->lock, NULL);
    r = s3_place_parse(place, &o->place, e);
    if (r == 0)
        r = s3_credentials_read(&o->place, &o->credentials, e);
    if (r == 0)
        r = http_url_parse(o->place.endpoint, &url, e);
    if (r < 0)
        return r;
    snprintf(o->authority, sizeof o->authority, "%s", url.authority);
    snprintf(o->name, sizeof o->name, "s3://%s%s%s", o->place.bucket, o->place.prefix[0] ? "/" : "", o->place.prefix);
    tls.ca_file = o->place.ca;
    tls.insecure_skip_verify = o->place.insecure;
    if (url.https)
        r = tls_openssl.context_new(&tls, false, &o->tls, e);
    if (r == 0)
        r = loop_group_new(1, "objects", &o->loops, e);
    if (r == 0)
        r = run_make(o, e);
    if (r < 0)
        return r;
    *ret = TAKE(o);
    return 0;
}

void objects_close(struct object_store *o)
{
    if (!o)
        return;
    if (o->loops)
        objects_cancel(o);
    if (o->loops)
        loop_group_free(o->loops);
    tls_context_free(o->tls);
    s3_credentials_done(&o->credentials);
    s3_place_done(&o->place);
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}

void objects_cancel(struct object_store *o)
{
    if (!atomic_exchange(&o->cancelled, true))
        run_make(o, NULL);
}

void objects_path(const struct object_store *o, const char *name, struct buf *ret)
{
    buf_printf(ret, "/%s/%s%s%s", o->place.bucket, o->place.prefix, o->place.prefix[0] ? "/" : "", name);
}

void objects_stats(struct object_store *o, struct objects_stats *ret)
{
    pthread_mutex_lock(&o->lock);
    *ret = o->stats;
    pthread_mutex_unlock(&o->lock);
}

/* --- reading --- */

int objects_read(struct object_store *o, const char *path, const struct object_part *parts, uint32_t n, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i += PARALLEL_MAX) {
        uint32_t k = MIN(n - i, (uint32_t) PARALLEL_MAX);
        struct s3_call *calls = mem_zalloc_array(k, sizeof *calls);

        if (!calls)
            return err_set(e, -ENOMEM, "out of memory");
        for (uint32_t j = 0; j < k; j++)
            calls[j] = (struct s3_call){.method = "GET", .path = path, .part = &parts[i + j]};
        r = s3_run(o, calls, k, e);
        for (uint32_t j = 0; j < k; j++)
            s3_call_done(&calls[j]);
        mem_free(calls);
    }
    return r;
}

int objects_size(struct object_store *o, const char *path, uint64_t *ret, struct err *e)
{
    struct s3_call c = {.method = "HEAD", .path = path};
    int r = s3_run(o, &c, 1, e);

    *ret = c.size;
    s3_call_done(&c);
    return r;
}

/* One page of a list. Sets *token to what the next page needs; empty: there is none. */
static int list_page(struct object_store *o, const char *path, struct buf *token,
                     int (*fn)(void *ctx, const char *path, uint64_t size), void *ctx, struct err *e)
{
    _cleanup_(buf_done) struct buf query = BUF_INIT;
    struct str prefix = str_from(path + 1), bucket, rest, item;
    struct s3_call c = {.method = "GET"};
    struct arena a;
    int r;

    arena_init(&a, 0);
    bucket = str_cut(&prefix, '/');
    c.path = arena_printf(&a, "/%.*s", STR_FMT(bucket));
    if (token->n) {
        buf_puts(&query, "continuation-token=");
        http_percent_encode(&query, buf_str(token));
        buf_putc(&query, '&');
    }
    buf_puts(&query, "list-type=2&prefix=");
    http_percent_encode(&query, prefix);
    c.query = buf_str(&query);
    r = c.path && !buf_error(&query) ? s3_run(o, &c, 1, e) : err_set(e, -ENOMEM, "out of memory");
    rest = buf_str(&c.text);
    while (r == 0 && s3_xml_next(&rest, "Contents", &item)) {
        struct str key = s3_xml_text(item, "Key", &a);
        const char *full = arena_printf(&a, "/%.*s/%.*s", STR_FMT(bucket), STR_FMT(key));
        uint64_t size = 0;

        str_to_u64(s3_xml_text(item, "Size", &a), 10, &size);
        r = full ? fn(ctx, full, size) : err_set(e, -ENOMEM, "out of memory");
    }
    buf_reset(token);
    if (str_is(s3_xml_text(buf_str(&c.text), "IsTruncated", &a), "true"))
        buf_put_str(token, s3_xml_text(buf_str(&c.text), "NextContinuationToken", &a));
    s3_call_done(&c);
    arena_done(&a);
    return r < 0 ? r : buf_error(token);
}

int objects_list(struct object_store *o, const char *path, int (*fn)(void *ctx, const char *path, uint64_t size),
                 void *ctx, struct err *e)
{
    _cleanup_(buf_done) struct buf token = BUF_INIT;
    int r;

    do
        r = list_page(o, path, &token, fn, ctx, e);
    while (r == 0 && token.n);
    return r;
}

/* --- writing --- */

/* Runs a single request; the answer's text is in c. */
static int put_bytes(struct object_store *o, struct s3_call *c, int fd, uint64_t off, uint32_t n, struct err *e)
{
    _cleanup_(mem_freep) char *p = mem_alloc(n + 1u);
    int r;

    if (!p)
        return err_set(e, -ENOMEM, "out of memory");
    r = fd_pread_all(fd, p, n, (off_t) off);
    if (r < 0)
        return err_set(e, r, "cannot read the segment: %m");
    c->body = (struct str){p, n};
    r = s3_run(o, c, 1, e);
    c->body = (struct str){NULL, 0};
    return r;
}

/* Begins a write in parts. */
static int begin_parts(struct object_store *o, const char *path, struct arena *a, struct str *ret_id, struct err *e)
{
    struct s3_call c = {.method = "POST", .path = path, .query = STR("uploads=")};
    int r = s3_run(o, &c, 1, e);

    if (r == 0) {
        *ret_id = s3_xml_text(buf_str(&c.text), "UploadId", a);
        if (!ret_id->n)
            r = err_set(e, -EREMOTEIO, "%s: the server's answer has no UploadId", o->name);
    }
    s3_call_done(&c);
    return r;
}

static int end_parts(struct object_store *o, const char *path, struct str query, struct str list, struct err *e)
{
    struct s3_call c = {.method = "POST", .path = path, .query = query, .body = list};
    int r = s3_run(o, &c, 1, e);
    struct str rest = buf_str(&c.text), error;

    if (r == 0 && s3_xml_next(&rest, "Error", &error)) /* it may come after status 200 */
        r = err_set(e, -EREMOTEIO, "%s: the object could not be completed: %.*s", o->name, (int) MIN(error.n, 300),
                    error.p);
    s3_call_done(&c);
    return r;
}

static int write_parts(struct object_store *o, const char *path, int fd, uint64_t size, struct err *e)
{
    _cleanup_(buf_done) struct buf id = BUF_INIT, list = BUF_INIT;
    uint64_t step = MAX((uint64_t) PART, (size + PARTS_MAX - 1) / PARTS_MAX);
    struct str upload = {0}, query;
    uint32_t number = 0;
    struct arena a;
    int r;

    arena_init(&a, 0);
    r = begin_parts(o, path, &a, &upload, e);
    http_percent_encode(&id, upload);
    buf_puts(&list, "<CompleteMultipartUpload>");
    for (uint64_t off = 0; r == 0 && off < size; off += step) {
        struct s3_call c = {.method = "PUT", .path = path};

        query = str_from(arena_printf(&a, "partNumber=%u&uploadId=%.*s", ++number, STR_FMT(buf_str(&id))));
        c.query = query;
        r = query.n ? put_bytes(o, &c, fd, off, (uint32_t) MIN(step, size - off), e) : -ENOMEM;
        buf_printf(&list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number, c.etag);
        s3_call_done(&c);
    }
    buf_puts(&list, "</CompleteMultipartUpload>");
    query = str_from(arena_printf(&a, "uploadId=%.*s", STR_FMT(buf_str(&id))));
    if (r == 0)
        r = buf_error(&list) || buf_error(&id) || !query.n ? err_set(e, -ENOMEM, "out of memory")
                                                           : end_parts(o, path, query, buf_str(&list), e);
    if (r < 0 && upload.n && query.n) { /* else the server would keep the parts */
        struct s3_call c = {.method = "DELETE", .path = path, .query = query};

        s3_run(o, &c, 1, NULL);
        s3_call_done(&c);
    }
    arena_done(&a);
    return r;
}

int objects_write(struct object_store *o, const char *path, int fd, uint64_t size, struct err *e)
{
    struct s3_call c = {.method = "PUT", .path = path};
    int r;

    if (size > PART)
        return write_parts(o, path, fd, size, e);
    r = put_bytes(o, &c, fd, 0, (uint32_t) size, e);
    s3_call_done(&c);
    return r;
}

int objects_remove(struct object_store *o, const char *path, struct err *e)
{
    struct s3_call c = {.method = "DELETE", .path = path};
    int r = s3_run(o, &c, 1, e);

    s3_call_done(&c);
    return r == -ENOENT ? 0 : r;
}
