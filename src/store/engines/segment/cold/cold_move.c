/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves segments to the object store and back, and deletes objects; see cold.h. Uploads and downloads hold no lock of the
 * engine except when a rewrite needs a file back. A crash at any point leaves N.seg, N.cold, or both; N.seg is removed only
 * after the object was read back and N.cold is on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/engines/segment/write/recovery.h"

enum { PIECE = 1 << 20, ROUND_S = 10 };

/* --- opening --- */

static int make_id(char ret[33])
{
    unsigned char random[16];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -EIO;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(ret + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* Reads DIR/COLD: a line with the location, and one with the id. Returns 1 if there is none. */
static int read_file(struct engine *g, struct buf *place, char id[33], struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(fd_closep) int fd = fd_open(g->dir_fd, "COLD", O_RDONLY, 0);
    struct str rest, line;
    int r = fd == -ENOENT ? 1 : fd < 0 ? fd : fd_read_all(fd, 8192, &text);

    if (r)
        return r < 0 ? err_set(e, r, "cannot read '%s/COLD': %m", g->dir) : r;
    rest = buf_str(&text);
    line = str_cut(&rest, '\n');
    buf_put_str(place, line);
    line = str_trim(str_cut(&rest, '\n'));
    if (!buf_cstr(place))
        return -ENOMEM;
    if (line.n != 32)
        return err_set(e, -EBADMSG, "'%s/COLD' is damaged", g->dir);
    snprintf(id, 33, "%.*s", STR_FMT(line));
    return 0;
}

int engine_open_cold(struct engine *g, struct err *e)
{
    _cleanup_(buf_done) struct buf place = BUF_INIT, text = BUF_INIT;
    const char *wanted = g->config.cold;
    size_t cache = (g->config.cache ? g->config.cache : (size_t) 256 << 20) / 4;
    char id[33] = "";
    int r = read_file(g, &place, id, e);

    if (r < 0 || (r > 0 && !wanted))
        return MIN(r, 0);
    if (r > 0)
        r = make_id(id);
    if (r == 0 && wanted && !g->config.read_only && (!place.n || strcmp(place.p, wanted) != 0)) {
        buf_printf(&text, "%s\n%s\n", wanted, id);
        r = buf_error(&text);
        if (r == 0)
            r = fd_replace(g->dir_fd, "COLD", &(struct fd_owner){0600, (uid_t) -1, (gid_t) -1}, text.p, text.n, e);
    }
    if (r == 0)
        r = cold_new(wanted ? wanted : place.p, id, cache, &g->cold);
    if (r == 0 && wanted && !g->cold->objects)
        return err_set(e, -EINVAL, "store.cold: %s", g->cold->problem);
    return r < 0 && !e->code ? err_set(e, r, "cannot open the object store: %m") : r;
}

void engine_close_cold(struct engine *g)
{
    cold_free(g->cold);
    g->cold = NULL;
}

/* --- to the object store --- */

static int checksum(int fd, uint64_t bytes, uint32_t *ret)
{
    _cleanup_(mem_freep) char *p = mem_alloc(PIECE);
    int r = p ? 0 : -ENOMEM;

    *ret = 0;
    for (uint64_t at = 0; r == 0 && at < bytes; at += PIECE) {
        size_t n = (size_t) MIN((uint64_t) PIECE, bytes - at);

        r = fd_pread_all(fd, p, n, (off_t) at);
        if (r == 0)
            *ret = crc32c(*ret, p, n);
    }
    return r;
}

static int make_stub(struct engine *g, struct segment *s, int fd, struct cold_stub *ret, struct err *e)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    const struct segment_footer *f;
    char name[120];
    int r = segment_footer(s, &f, e);

    if (r < 0)
        return r;
    snprintf(name, sizeof name, "%s/%u/%012llu.seg", g->cold->id, s->meta.tenant, (unsigned long long) s->meta.number);
    objects_path(g->cold->objects, name, &path);
    if (!buf_cstr(&path) || path.n > STUB_PATH_MAX)
        return err_set(e, -ENAMETOOLONG, "the path of an object is too long");
    *ret = (struct cold_stub){.size = s->meta.bytes};
    memcpy(ret->path, path.p, path.n + 1);
    segment_cold_extents(f, s->meta.bytes, ret);
    if (ret->v[0].off > ret->v[1].off || ret->v[0].len > ret->v[1].off - ret->v[0].off || ret->v[1].off > ret->size)
        return segment_bad(s, "its footer is damaged", e);
    r = checksum(fd, s->meta.bytes, &ret->crc);
    return r < 0 ? err_set(e, r, "cannot read segment %llu: %m", (unsigned long long) s->meta.number) : 0;
}

static bool is_current(struct engine *g, const struct segment *s)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);

    for (uint32_t i = 0; i < snap->n_segments; i++)
        if (snap->segments[i].segment == s)
            return true;
    return false;
}

/* The object has been verified: N.cold takes the place of N.seg. Under flush_lock. */
static int replace_file(struct engine *g, struct engine_tenant *t, struct segment *s, int fd, struct cold_stub *stub,
                        struct err *e)
{
    char name[64], cold[64];
    int r;

    segment_name(name, sizeof name, s->meta.number);
    segment_cold_name(cold, sizeof cold, s->meta.number);
    r = cold_stub_write((struct cold_stub_place){t->seg_dir, cold}, fd, stub, e);
    if (r < 0)
        return r;
    segment_set_cold(s, g->cold);
    fd_unlink(t->seg_dir, name); /* on failure N.seg is used on, and removed in a later round */
    segment_moved(s, faccessat(t->seg_dir, name, F_OK, 0) < 0);
    return 0;
}

static int cool_segment(struct engine *g, struct segment *s, struct err *e)
{
    struct engine_tenant *t = engine_tenant_number(g, s->meta.tenant);
    struct cold_stub stub;
    struct cold_source source = {g->cold, &stub, s->meta.number};
    char name[64];
    bool gone;
    int fd, r;

    if (!t)
        return 0;
    segment_name(name, sizeof name, s->meta.number);
    fd = fd_open(t->seg_dir, name, O_RDONLY, 0);
    if (fd < 0)
        return fd == -ENOENT ? 0 : err_set(e, fd, "cannot open segment '%s': %m", name);
    r = make_stub(g, s, fd, &stub, e);
    if (r == 0 && cold_read_all(&source, NULL, NULL, NULL) < 0) { /* it may be there from before a crash */
        r = objects_write(g->cold->objects, stub.path, fd, stub.size, e);
        if (r == 0)
            r = cold_read_all(&source, NULL, NULL, e);
        r = r == -EBADMSG ? -EREMOTEIO : r; /* the object is damaged, not the segment */
    }
    if (r == 0) {
        pthread_mutex_lock(&g->flush_lock);
        gone = !is_current(g, s);
        if (!gone)
            r = replace_file(g, t, s, fd, &stub, e);
        pthread_mutex_unlock(&g->flush_lock);
        if (gone) /* retention or a rewrite was faster */
            objects_remove(g->cold->objects, stub.path, NULL);
    }
    fd_close(fd);
    return r;
}

/* Sealed: no compaction is due for it any more. */
static bool is_due(struct engine *g, const struct snapshot *snap, const struct segment *s, int64_t now)
{
    const struct segment_meta *m = &s->meta;
    int64_t after = g->config.cold_after ? g->config.cold_after : WINDOW_1D;

    if (atomic_load(&s->is_cold) || atomic_load(&s->unreadable) || m->t1 >= now - after ||
        (m->has_detail && m->level < SEGMENT_LEVELS - 1))
        return false;
    for (uint32_t i = 0; i < snap->n_tombstones; i++)
        if (tombstone_concerns(snap->tombstones[i], m->tenant, m->log, m->t0, m->t1))
            return false;
    return true;
}

/* --- deleting objects --- */

static int remove_gone(struct engine *g, struct engine_tenant *t, uint64_t number, struct err *e)
{
    struct cold_stub stub;
    char name[64];
    int fd, r;

    segment_gone_name(name, sizeof name, number);
    fd = fd_open(t->seg_dir, name, O_RDONLY, 0);
    r = fd < 0 ? fd : cold_stub_read(fd, &stub);
    fd_close(fd);
    if (r == -EBADMSG) {
        engine_damagef(g, "tenant %u: '%s' is damaged: the object of a removed segment was not deleted", t->number,
                       name);
        return fd_unlink(t->seg_dir, name);
    }
    if (r == 0)
        r = objects_remove(g->cold->objects, stub.path, e);
    return r < 0 ? r : fd_unlink(t->seg_dir, name);
}

static int remove_all_gone(struct engine *g, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < engine_n_tenants(g); i++) {
        struct engine_tenant *t = engine_tenant_at(g, i);
        struct numbers files = {0};

        r = recovery_list_kept(t->seg_dir, ".gone", &files);
        for (uint32_t k = 0; r == 0 && k < files.n; k++)
            r = remove_gone(g, t, files.v[k], e);
        numbers_done(&files);
    }
    return r;
}

int engine_cool(struct engine *g, struct err *e)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = NULL;
    int64_t now = engine_keep_now(g);
    int r;

    if (!g->cold || !g->cold->objects || g->config.read_only)
        return 0;
    r = remove_all_gone(g, e);
    snap = snapshot_get(g);
    for (uint32_t i = 0; r == 0 && g->config.cold && i < snap->n_segments && !atomic_load(&g->closing); i++) {
        if (!is_due(g, snap, snap->segments[i].segment, now))
            continue;
        r = cool_segment(g, snap->segments[i].segment, e);
        if (r == -EBADMSG) { /* of the segment: it stays where it is */
            engine_damage(g, err_message(e, r));
            atomic_store(&snap->segments[i].segment->unreadable, true);
            r = 0;
        }
    }
    return r;
}

/* --- back --- */

struct fetching {
    struct engine *g;
    int fd;
    off_t at;
};

/* Called with flush_lock held. */
_aliased_lock_ static int write_piece(void *ctx, const char *p, size_t n)
{
    struct fetching *x = ctx;
    int r = fd_pwrite_all(x->fd, p, n, x->at);

    x->at += (off_t) n;
    return r < 0 ? r : engine_flush_sealed(x->g, NULL); /* a long download must not block incoming data */
}

int engine_fetch_file(struct engine *g, struct segment *s, int dir, const char *name, struct err *e)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    struct fetching x = {.g = g};
    char tmp[80];
    int r;

    if (!used->stub)
        return err_set(e, -ENOENT, "segment %llu: its file is missing", (unsigned long long) s->meta.number);
    snprintf(tmp, sizeof tmp, "%s.tmp", name);
    x.fd = fd_open(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (x.fd < 0)
        return err_set(e, x.fd, "cannot create '%s': %m", tmp);
    r = cold_read_all(&(struct cold_source){used->cold, used->stub, s->meta.number}, write_piece, &x, e);
    if (r == 0)
        r = fd_sync(x.fd);
    fd_close(x.fd);
    if (r == 0)
        r = fd_rename(dir, tmp, dir, name);
    if (r == 0)
        r = fd_sync(dir);
    if (r < 0)
        fd_unlink(dir, tmp);
    return r < 0 && e && !e->code ? err_set(e, r, "cannot write '%s': %m", name) : r;
}

int engine_thaw(struct engine *g, struct segment *s, struct err *e)
{
    struct engine_tenant *t = engine_tenant_number(g, s->meta.tenant);
    char name[64];
    int r;

    if (!atomic_load(&s->is_cold) || !t)
        return 0;
    segment_name(name, sizeof name, s->meta.number);
    r = engine_fetch_file(g, s, t->seg_dir, name, e);
    if (r == 0)
        segment_moved(s, false);
    return r;
}

/* --- the thread --- */

static void wait_a_round(struct engine *g)
{
    int64_t until = clock_mono() + ROUND_S * NS_PER_S;

    pthread_mutex_lock(&g->lock);
    while (!atomic_load(&g->closing) && thread_wait(&g->cold_wake, &g->lock, until) == 0)
        ;
    pthread_mutex_unlock(&g->lock);
}

void engine_cold_problem(struct engine *g, const char *problem)
{
    bool is_new;

    pthread_mutex_lock(&g->lock);
    is_new = problem && strcmp(problem, g->cold_problem) != 0;
    snprintf(g->cold_problem, sizeof g->cold_problem, "%s", problem ? problem : "");
    pthread_mutex_unlock(&g->lock);
    if (is_new)
        engine_tell(g, "the object store cannot be used, and segments stay where they are: %s", problem);
}

void *engine_cold_run(void *arg)
{
    struct engine *g = arg;

    while (!atomic_load(&g->closing)) {
        struct err e = {0};
        int r = engine_cool(g, &e);

        engine_cold_problem(g, r < 0 && !atomic_load(&g->closing) ? err_message(&e, r) : NULL);
        wait_a_round(g);
    }
    return NULL;
}
