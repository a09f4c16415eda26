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
    struct engine_tenant *t = NULL;

    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; !t && i < g->n_tenants; i++)
        if (strcmp(g->tenants[i]->name, name) == 0)
            t = g->tenants[i];
    pthread_mutex_unlock(&g->lock);
    return t;
}

struct engine_tenant *engine_tenant_number(struct engine *g, uint32_t number)
{
    struct engine_tenant *t = NULL;

    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; !t && i < g->n_tenants; i++)
        if (g->tenants[i]->number == number)
            t = g->tenants[i];
    pthread_mutex_unlock(&g->lock);
    return t;
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
    struct engine_tenant *t, **grown;
    int r;

    if (g->n_tenants >= TENANTS_MAX)
        return err_set(e, -E2BIG, "there are %d tenants already", TENANTS_MAX);
    t = mem_zalloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    t->number = number;
    t->seg_dir = t->sym_dir = -1;
    t->name = mem_strdup(name);
    r = t->name ? open_dirs(g, t, e) : -ENOMEM;
    grown = r == 0 ? mem_alloc((g->n_tenants + 1) * sizeof *grown) : NULL;
    if (!grown) {
        tenant_free(t);
        return r < 0 ? r : -ENOMEM;
    }
    pthread_mutex_lock(&g->lock);
    if (g->n_tenants)
        memcpy(grown, g->tenants, g->n_tenants * sizeof *grown);
    grown[g->n_tenants] = t;
    mem_free(g->tenants);
    g->tenants = grown;
    g->n_tenants++;
    pthread_mutex_unlock(&g->lock);
    *ret = t;
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
    struct engine_epoch *k = mem_zalloc(sizeof *k), **at;
    int r = k ? symbols_new(t->number, epoch, &k->symbols) : -ENOMEM;

    if (r < 0) {
        mem_free(k);
        return r;
    }
    k->epoch = epoch;
    k->born = born;
    k->symbols->lru = &g->lru;
    pthread_mutex_lock(&g->lock);
    for (at = &t->epochs; *at && (*at)->epoch > epoch;)
        at = &(*at)->next;
    k->next = *at;
    *at = k;
    pthread_mutex_unlock(&g->lock);
    *ret = k;
    return 0;
}

void engine_tenants_free(struct engine *g)
{
    for (uint32_t i = 0; i < g->n_tenants; i++)
        tenant_free(g->tenants[i]);
    mem_free(g->tenants);
    g->tenants = NULL;
    g->n_tenants = 0;
}
