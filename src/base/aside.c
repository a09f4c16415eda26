/* SPDX-License-Identifier: Apache-2.0 */
/* Sets unreadable files of state aside, and lists them, see aside.h. What is listed is never freed. */
#include "base/aside.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct aside_file listed[ASIDE_LISTED_MAX];
static uint64_t count;

static void list(const char *tenant, const char *path, const char *why)
{
    struct aside_file f = {.path = mem_strdup(path), .why = mem_strdup(why), .time_ns = clock_wall()};
    char *of = tenant ? mem_strdup(tenant) : NULL;

    f.tenant = of;
    pthread_mutex_lock(&lock);
    if (count++ < ASIDE_LISTED_MAX && f.path && f.why && (of || !tenant))
        listed[count - 1] = f;
    else
        mem_free((char *) f.path), mem_free((char *) f.why), mem_free(of);
    pthread_mutex_unlock(&lock);
}

/* The directory's own path, for messages: the server may have opened it by another one. */
static void path_of(int dirfd, char ret[PATH_MAX])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
    n = readlink(link, ret, PATH_MAX - 1);
    ret[MAX(n, 0)] = 0;
}

int aside_put(int dirfd, const char *name, const char *tenant, const char *why)
{
    _cleanup_(buf_done) struct buf to = BUF_INIT;
    char dir[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    const char *text;
    int r;

    buf_printf(&to, "%s" ASIDE_MARK "%lld", name, (long long) clock_wall());
    text = buf_cstr(&to);
    r = text ? fd_rename(dirfd, name, dirfd, text) : -ENOMEM;
    path_of(dirfd, dir);
    snprintf(path, sizeof path, "%s/%s", dir, r < 0 ? name : text);
    if (r < 0)
        log_error("cannot read '%s': %s; it is not used, and cannot be renamed: %s", path, why, strerror(-r));
    else
        log_error("cannot read '%s/%s': %s; it is set aside as %s and not used", dir, name, why, text);
    list(tenant, path, why);
    return r;
}

void aside_each(void (*fn)(void *arg, const struct aside_file *f), void *arg)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ASIDE_LISTED_MAX; i++)
        if (listed[i].path)
            fn(arg, &listed[i]);
    pthread_mutex_unlock(&lock);
}

uint64_t aside_count(void)
{
    uint64_t n;

    pthread_mutex_lock(&lock);
    n = count;
    pthread_mutex_unlock(&lock);
    return n;
}
