/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants of the store, each in a directory named after its number, and their epochs; see engine.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/bytes.h"
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

/* NAME holds the name on one line and its CRC-32C on the next. Returns false when it is missing or damaged. */
static bool read_name(struct engine *g, uint32_t number, char *out, size_t size)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    struct str rest, name;
    uint64_t crc;
    char path[32];

    snprintf(path, sizeof path, "%u/NAME", number);
    fd = fd_open(g->dir_fd, path, O_RDONLY, 0);
    if (fd < 0 || fd_read_all(fd, 1024, &b) < 0)
        return false;
    rest = buf_str(&b);
    name = str_cut(&rest, '\n');
    if (!str_ends(rest, STR("\n")) || str_to_u64(str_slice(rest, 0, rest.n - 1), 16, &crc) < 0 ||
        crc != crc32c(0, name.p, name.n))
        return false;
    snprintf(out, size, "%.*s", STR_FMT(name));
    return true;
}

void engine_tenant_name(struct engine *g, uint32_t number, char *out, size_t size)
{
    if (read_name(g, number, out, size))
        return;
    if (number == 1) {
        out[0] = 0;
        return;
    }
    snprintf(out, size, "tenant-%u", number);
    engine_damagef(g, "tenant %u: its name was lost with the catalogue; it is now called '%s'", number, out);
}

/* Writes the name, so that a lost catalogue can be rebuilt. A new tenant (!opening) may get the number of one whose first
 * append a crash ended before it was in a log: the name that this one left is replaced, without a report of damage. */
static int write_name(struct engine *g, struct engine_tenant *t)
{
    char path[4096], text[200], known[128];
    bool there, valid;
    int n;

    snprintf(path, sizeof path, "%u/NAME", t->number);
    there = faccessat(g->dir_fd, path, F_OK, 0) == 0;
    valid = there && read_name(g, t->number, known, sizeof known);
    if (g->config.read_only || (valid && strcmp(known, t->name) == 0))
        return 0;
    if (there && (!valid || g->opening))
        engine_damagef(g, "tenant %u: '%s' was invalid and was rewritten", t->number, path);
    n = snprintf(text, sizeof text, "%s\n%08x\n", t->name, crc32c(0, t->name, strlen(t->name)));
    snprintf(path, sizeof path, "%s/%u/NAME", g->dir, t->number);
    n = fd_write_file(path, text, (size_t) n, NULL);
    return there || g->opening ? (fd_is_full(n) ? 0 : n) : n; /* a full disk does not stop a known tenant */
}

static int open_dirs(struct engine *g, struct engine_tenant *t, struct err *e)
{
    char name[32];
    int r;

    if (g->config.read_only) { /* a missing tenant has nothing to read */
        snprintf(name, sizeof name, "%u/seg", t->number);
        t->seg_dir = fd_open(g->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        snprintf(name, sizeof name, "%u/sym", t->number);
        t->sym_dir = fd_open(g->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        return 0;
    }
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
    if (r >= 0)
        r = write_name(g, t);
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
        return err_set(e, -E2BIG, "the store has reached its limit of %d tenants", TENANTS_MAX);
    at = pinned_next(&g->tenants);
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
    pinned_publish(&g->tenants);
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
    pinned_done(&g->tenants);
    pinned_init(&g->tenants, sizeof(struct engine_tenant *));
}
