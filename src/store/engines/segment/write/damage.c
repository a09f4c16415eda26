/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records damage, each piece once: it is reported to the opener of the store (a server logs it), counted, and written
 * to DIR/DAMAGE, one line with its time. It stays there across restarts, compaction and a new catalogue until a user
 * acknowledges it (`wick store confirm damage`).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"

enum { FILE_MAX = 1 << 20 };

void engine_tell(struct engine *g, const char *fmt, ...)
{
    char line[400];
    va_list ap;

    if (!g->config.report)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    g->config.report(g->config.report_ctx, line);
}

/* The message of a line, without its time. */
static const char *message_of(const char *line)
{
    const char *space = strchr(line, ' ');

    return space ? space + 1 : line;
}

/* Called under g->damage.lock. Returns false when it is already known, or when the list is full. */
static bool remember(struct engine_damage *d, const char *line)
{
    char *copy;

    for (uint32_t i = 0; i < d->n; i++)
        if (strcmp(message_of(d->lines[i]), message_of(line)) == 0)
            return false;
    if (d->n == ARRAY_SIZE(d->lines)) {
        d->more++;
        return false;
    }
    copy = mem_strdup(line);
    if (!copy) {
        d->more++;
        return false;
    }
    d->lines[d->n++] = copy;
    return true;
}

static void write_down(struct engine *g, const char *line)
{
    _cleanup_(fd_closep) int fd = -1;
    struct stat st;
    char text[420];
    int n = snprintf(text, sizeof text, "%s\n", line);

    if (g->config.read_only)
        return;
    fd = fd_open(g->dir_fd, "DAMAGE", O_RDWR | O_CREAT, 0644);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < FILE_MAX && fd_pwrite_all(fd, text, (size_t) n, st.st_size) == 0)
        fd_datasync(fd);
}

void engine_damage(struct engine *g, const char *what)
{
    _cleanup_(buf_done) struct buf when = BUF_INIT;
    char line[400];
    bool is_new;

    clock_format(&when, engine_now(g) / NS_PER_S * NS_PER_S);
    snprintf(line, sizeof line, "%s %.300s", buf_cstr(&when) ? when.p : "-", what);
    pthread_mutex_lock(&g->damage.lock);
    is_new = remember(&g->damage, line);
    if (is_new)
        write_down(g, line);
    pthread_mutex_unlock(&g->damage.lock);
    if (is_new)
        engine_tell(g, "damage: %s", what);
}

void engine_damagef(struct engine *g, const char *fmt, ...)
{
    char what[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    engine_damage(g, what);
}

void engine_damage_load(struct engine *g)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int fd = fd_open(g->dir_fd, "DAMAGE", O_RDONLY, 0);
    struct str rest;

    if (fd < 0 || fd_read_all(fd, 2 * FILE_MAX, &b) < 0)
        return;
    rest = buf_str(&b);
    pthread_mutex_lock(&g->damage.lock);
    while (rest.n) {
        struct str line = str_cut(&rest, '\n');
        char text[400];

        snprintf(text, sizeof text, "%.*s", STR_FMT(line));
        if (line.n)
            remember(&g->damage, text);
    }
    pthread_mutex_unlock(&g->damage.lock);
}

void engine_damage_stats(struct engine *g, struct store_stats *ret)
{
    pthread_mutex_lock(&g->damage.lock);
    ret->damaged = g->damage.n + g->damage.more;
    if (g->damage.n)
        snprintf(ret->damage, sizeof ret->damage, "%s", message_of(g->damage.lines[0]));
    pthread_mutex_unlock(&g->damage.lock);
}

void engine_each_damage(struct engine *g, void (*fn)(void *ctx, const char *line), void *ctx)
{
    pthread_mutex_lock(&g->damage.lock);
    for (uint32_t i = 0; i < g->damage.n; i++)
        fn(ctx, g->damage.lines[i]);
    pthread_mutex_unlock(&g->damage.lock);
}

static void forget(struct engine_damage *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        mem_free(d->lines[i]);
    d->n = 0;
    d->more = 0;
}

int engine_damage_seen(struct engine *g, struct err *e)
{
    int r;

    pthread_mutex_lock(&g->damage.lock);
    r = fd_unlink(g->dir_fd, "DAMAGE");
    r = r == -ENOENT ? 0 : r;
    if (r == 0)
        forget(&g->damage);
    pthread_mutex_unlock(&g->damage.lock);
    return r < 0 ? err_set(e, r, "cannot remove '%s/DAMAGE': %m", g->dir) : 0;
}

void engine_damage_done(struct engine *g)
{
    forget(&g->damage);
    pthread_mutex_destroy(&g->damage.lock);
}
