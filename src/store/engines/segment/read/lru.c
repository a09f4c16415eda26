/* SPDX-License-Identifier: Apache-2.0 */
/* The list of cached items in order of use, and the limit on their memory and open files; see lru.h. */
#include "store/engines/segment/read/lru.h"

#include <sys/resource.h>

#include "base/macros.h"

enum { FILES_MAX = 1024 };

/* A quarter of the files that this process may open; the rest is for connections and for files in use. */
static long files_max(void)
{
    struct rlimit l;

    return getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur / 4 < FILES_MAX ? (long) (l.rlim_cur / 4) : FILES_MAX;
}

void lru_init(struct lru *l, size_t max)
{
    *l = (struct lru){.max = max, .max_files = files_max()};
    pthread_mutex_init(&l->lock, NULL);
}

void lru_done(struct lru *l)
{
    pthread_mutex_destroy(&l->lock);
}

static void unlink_item(struct lru *l, struct lru_item *i)
{
    if (!i->bytes)
        return;
    *(i->newer ? &i->newer->older : &l->newest) = i->older;
    *(i->older ? &i->older->newer : &l->oldest) = i->newer;
    l->bytes -= i->bytes;
    i->newer = i->older = NULL;
    i->bytes = 0;
}

static void link_newest(struct lru *l, struct lru_item *i, size_t bytes)
{
    i->older = l->newest;
    *(l->newest ? &l->newest->newer : &l->oldest) = i;
    l->newest = i;
    i->bytes = bytes;
    l->bytes += bytes;
}

/* Drops the least recently used items, except those that are in use. */
static void trim(struct lru *l, const struct lru_item *keep)
{
    struct lru_item *newer;

    for (struct lru_item *i = l->oldest; i && l->bytes > l->max; i = newer) {
        struct lru_item was = *i;

        newer = i->newer;
        if (i == keep)
            continue;
        unlink_item(l, i);
        if (!i->drop(i)) { /* put back in its place */
            i->newer = was.newer;
            i->older = was.older;
            i->bytes = was.bytes;
            *(i->newer ? &i->newer->older : &l->newest) = i;
            *(i->older ? &i->older->newer : &l->oldest) = i;
            l->bytes += i->bytes;
        }
    }
}

void lru_used(struct lru *l, struct lru_item *item, size_t bytes)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    unlink_item(l, item);
    link_newest(l, item, bytes);
    trim(l, item);
    pthread_mutex_unlock(&l->lock);
}

void lru_forget(struct lru *l, struct lru_item *item)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    unlink_item(l, item);
    pthread_mutex_unlock(&l->lock);
}

void lru_trim(struct lru *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    trim(l, NULL);
    pthread_mutex_unlock(&l->lock);
}

size_t lru_bytes(struct lru *l)
{
    size_t n;

    pthread_mutex_lock(&l->lock);
    n = l->bytes;
    pthread_mutex_unlock(&l->lock);
    return n;
}
