/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log and its thread (audit.h). */
#include "server/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/server.h"
#include "server/front.h"

enum { FILE_MAX = 16 << 20, WAITING_MAX = 1 << 20, TARGET_MAX = 500 };

struct audit {
    char *path;
    int fd;
    off_t size;
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t changed;
    struct buf waiting;
    uint64_t dropped;
    bool stopping;
    struct log_limit failed;
};

static int open_file(struct audit *a, struct err *e)
{
    struct stat st;

    a->fd = fd_open(AT_FDCWD, a->path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (a->fd < 0)
        return err_set(e, a->fd, "cannot open the audit log '%s': %s", a->path, strerror(-a->fd));
    a->size = fstat(a->fd, &st) == 0 ? st.st_size : 0;
    return 0;
}

static void rotate(struct audit *a)
{
    _cleanup_(buf_done) struct buf old = BUF_INIT;
    struct err e = {0};

    buf_printf(&old, "%s.1", a->path);
    if (!buf_cstr(&old) || fd_rename(AT_FDCWD, a->path, AT_FDCWD, buf_cstr(&old)) < 0)
        return;
    fd_close(a->fd);
    a->fd = -1;
    if (open_file(a, &e) < 0)
        log_error("%s", e.message);
}

static void write_lines(struct audit *a, struct buf *lines)
{
    uint64_t held;

    if (a->size + (off_t) lines->n > FILE_MAX)
        rotate(a);
    if ((a->fd < 0 || fd_write_all(a->fd, lines->p, lines->n) < 0) && log_limited(&a->failed, 60 * NS_PER_S, &held))
        log_error("cannot write the audit log '%s'", a->path);
    a->size += (off_t) lines->n;
}

static void *run(void *arg)
{
    struct audit *a = arg;

    pthread_mutex_lock(&a->lock);
    while (!a->stopping || a->waiting.n) {
        _cleanup_(buf_done) struct buf lines = BUF_INIT;

        if (!a->waiting.n) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        lines = a->waiting;
        a->waiting = BUF_INIT;
        if (a->dropped)
            buf_printf(&lines, "{\"dropped\":%llu}\n", (unsigned long long) a->dropped);
        a->dropped = 0;
        pthread_mutex_unlock(&a->lock);
        write_lines(a, &lines);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

int audit_open(const char *path, struct audit **ret, struct err *e)
{
    struct audit *a = mem_zalloc(sizeof *a);
    int r;

    if (!a)
        return -ENOMEM;
    a->fd = -1;
    a->path = mem_strdup(path);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    r = a->path ? open_file(a, e) : -ENOMEM;
    if (r == 0)
        r = thread_start(&a->thread, "audit", run, a, e);
    if (r == 0) {
        *ret = a;
        return 0;
    }
    fd_close(a->fd);
    mem_free(a->path);
    mem_free(a);
    return r;
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    fd_close(a->fd);
    buf_done(&a->waiting);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    mem_free(a->path);
    mem_free(a);
}

bool route_is_audited(const struct route *r)
{
    bool changes = strcmp(r->method, "GET") != 0 && (r->scope == AUTH_WRITE || r->scope == AUTH_ADMIN) && !r->take;

    return changes || r->audited;
}

void audit_note(struct audit *a, const struct http_request *q, const struct auth_identity *who, int status)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT, time = BUF_INIT;
    bool first = true;

    if (!a)
        return;
    clock_format(&time, clock_wall());
    buf_putc(&line, '{');
    json_put_key_str(&line, &first, "time", buf_str(&time));
    json_put_key_text(&line, &first, "person", who->person);
    json_put_key_text(&line, &first, "token", who->token_id);
    json_put_key_text(&line, &first, "tenant", who->tenant);
    json_put_key_text(&line, &first, "scope", auth_scope_name(who->scope));
    json_put_key_text(&line, &first, "peer", q->peer);
    json_put_key_str(&line, &first, "method", q->method);
    json_put_key_str(&line, &first, "target", str_slice(q->target, 0, MIN(q->target.n, TARGET_MAX)));
    json_put_key_i64(&line, &first, "status", status);
    buf_puts(&line, "}\n");
    pthread_mutex_lock(&a->lock);
    if (buf_error(&line) || a->waiting.n + line.n > WAITING_MAX ||
        (buf_put_str(&a->waiting, buf_str(&line)), buf_error(&a->waiting)))
        a->dropped++;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}
