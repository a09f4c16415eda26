/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: tenants, each in a directory under its number, and their epochs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"

struct engine_tenant *engine_find_tenant(struct engine *g, const char *name)
{
    uint32_t n = engine_n_tenants(g);

    for (uint32_t i = 0; i < n; i++)
        if (strcmp(engine_tenant_at(g, i)->name, name) == 0)
            return engine_tenant_at(g, i);
    return NULL;
}

struct engine_tenant *engine_tenant_number(struct engine *g, uint32_t number)
{
    uint32_t n = engine_n_tenants(g);

    for (uint32_t i = 0; i < n; i++)
        if (engine_tenant_at(g, i)->number == number)
            return engine_tenant_at(g, i);
    return NULL;
}

static void tenant_free(struct engine_tenant *t)
{
    struct engine_epoch *next;

    if (!t)
        return;
    for (struct engine_epoch *k = t->epochs; k; k = next) {
        next = k->next;
        symbols_unref(k->symbols);
        mem_free(k);
    }
    fd_close(t->seg_dir);
    fd_close(t->sym_dir);
    mem_free(t->name);
    mem_free(t);
}

static int open_dirs(struct engine *g, struct engine_tenant *t, struct err *e)
{
    char name[32];
    int r;

    snprintf(name, sizeof name, "%u", t->number);
    r = fd_mkdir(g->dir_fd, name, 0755);
    snprintf(name, sizeof name, "%u/seg", t->number);
    if (r == 0)
        r = fd_mkdir(g->dir_fd, name, 0755);
    if (r == 0)
        r = t->seg_dir = fd_open(g->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    snprintf(name, sizeof name, "%u/sym", t->number);
    if (r >= 0)
        r = fd_mkdir(g->dir_fd, name, 0755);
    if (r == 0)
        r = t->sym_dir = fd_open(g->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    snprintf(name, sizeof name, "%u", t->number);
    if (r >= 0) {
        _cleanup_(fd_closep) int fd = fd_open(g->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);

        r = fd < 0 ? fd : fd_sync(fd);
    }
    if (r == 0)
        r = fd_sync(g->dir_fd);
    return r < 0 ? err_set(e, r, "cannot make tenant %u's directories in '%s': %m", t->number, g->dir) : 0;
}

int engine_add_tenant(struct engine *g, uint32_t number, const char *name, struct engine_tenant **ret, struct err *e)
{
    struct engine_tenant **at, *t;
    int r;

    if (engine_n_tenants(g) >= TENANTS_MAX)
        return err_set(e, -E2BIG, "the store holds %d tenants, which is the limit", TENANTS_MAX);
    at = stable_next(&g->tenants);
    t = at ? mem_zalloc(sizeof *t) : NULL;
    if (!t)
        return -ENOMEM;
    t->number = number;
    t->seg_dir = t->sym_dir = -1;
    t->name = mem_strdup(name);
    r = t->name ? open_dirs(g, t, e) : -ENOMEM;
    if (r < 0) {
        tenant_free(t);
        return r;
    }
    *at = *ret = t;
    stable_publish(&g->tenants);
    return 0;
}

struct engine_epoch *engine_find_epoch(struct engine_tenant *t, uint32_t epoch)
{
    struct engine_epoch *k = t->epochs;

    while (k && k->epoch != epoch)
        k = k->next;
    return k;
}

int engine_add_epoch(struct engine *g, struct engine_tenant *t, uint32_t epoch, int64_t born, struct engine_epoch **ret)
{
    struct engine_epoch *k = mem_zalloc(sizeof *k), *_Atomic * at;
    int r = k ? symbols_new(t->number, epoch, &k->symbols) : -ENOMEM;

    if (r < 0) {
        mem_free(k);
        return r;
    }
    k->epoch = epoch;
    k->born = born;
    k->symbols->lru = &g->lru;
    pthread_mutex_lock(&g->lock);
    for (at = &t->epochs; *at && atomic_load(at)->epoch > epoch;)
        at = &atomic_load(at)->next;
    k->next = atomic_load(at);
    atomic_store(at, k);
    pthread_mutex_unlock(&g->lock);
    *ret = k;
    return 0;
}

void engine_tenants_free(struct engine *g)
{
    for (uint32_t i = 0; i < engine_n_tenants(g); i++)
        tenant_free(engine_tenant_at(g, i));
    stable_done(&g->tenants);
    stable_init(&g->tenants, sizeof(struct engine_tenant *));
}
