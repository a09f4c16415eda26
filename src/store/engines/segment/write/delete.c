/* SPDX-License-Identifier: Apache-2.0 */
/* Deletions (see tombstone.h): a deletion is recorded, hides its data, and is carried out when segments are
 * rewritten. */
#include <errno.h>

#include "base/mem.h"
#include "store/engines/segment/engine.h"
#include "store/match.h"

int engine_keep_tombstone(struct catalog *c, struct tombstone *t, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct catalog_deletion d = {.tenant = t->tenant, .log = t->log, .from = t->from, .to = t->to};

    selector_print(&text, &t->selector);
    if (buf_error(&text) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    d.selector = buf_str(&text);
    return catalog_add_deletion(c, &d, &t->id, e);
}

/* Called under write_lock: data that arrives from now on is not in an earlier log, and none of it reaches a segment
 * before the tombstone is visible to rewrites. */
static int record_deletion(struct engine *g, const struct engine_tenant *tenant, const struct store_column *what,
                           struct err *e) _locked_(g->write_lock)
{
    _cleanup_(tombstone_unrefp) struct tombstone *t = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct snapshot_room room = {0};
    int r;

    if (atomic_load(&g->stopped))
        return err_set(e, -EIO, "%s", g->stop_reason);
    selector_print(&text, what->selector);
    r = buf_error(&text);
    if (r == 0)
        r = engine_seal(g, e);
    if (r == 0)
        r = tombstone_new(
            &(struct catalog_deletion){0, tenant->number, g->active->log - 1, what->from, what->to, buf_str(&text)}, &t,
            e);
    if (r == 0)
        r = snapshot_make_room(g, 0, &room);
    if (r == 0)
        r = engine_keep_tombstone(g->catalog, t, e);
    if (r == 0)
        snapshot_publish_in(&room, &(struct snapshot_change){.add_tombstone = t});
    else
        snapshot_room_done(&room);
    return r;
}

/* Each deletion may end a log and adds a tombstone, so a deletion waits when they arrive faster than they are carried
 * out. */
static int wait_for_room(struct engine *g, struct err *e)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int r;

    if (snap->n_tombstones < TOMBSTONES_MAX && snap->n_memtables < SEALED_MAX)
        return 0;
    pthread_mutex_lock(&g->flush_lock);
    r = engine_flush_sealed(g, e);
    if (r == 0)
        r = engine_purge(g, e);
    pthread_mutex_unlock(&g->flush_lock);
    return r;
}

int engine_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e)
{
    struct engine *g = to_engine(s);
    struct engine_tenant *t = engine_find_tenant(g, tenant);
    struct match match;
    int r = match_init(&match, what->selector, g->limits.allow, false, e);

    if (r == 0 && match.n_detail)
        r = err_set(e, -EINVAL, "delete selects by series labels, and '%.*s' is not one",
                    STR_FMT(match.detail[0]->name));
    if (r == 0 && g->config.read_only)
        r = err_set(e, -EROFS, "the store is opened read-only");
    if (r < 0 || !t || what->from >= what->to)
        return r;
    r = wait_for_room(g, e);
    if (r < 0)
        return r;
    pthread_mutex_lock(&g->write_lock);
    r = record_deletion(g, t, what, e);
    pthread_mutex_unlock(&g->write_lock);
    engine_wake_flusher(g);
    return r;
}

/* --- carrying out --- */

static bool is_hit(struct engine *g, const struct snapshot *snap, struct snapshot_segment *s, struct err *e, int *ret)
{
    for (uint32_t i = 0; i < snap->n_tombstones; i++) {
        int r = tombstone_hits(snap->tombstones[i], s->segment, s->symbols, e);

        if (r == -EBADMSG) { /* unreadable: none of it is shown, and nothing can be removed from it */
            engine_damage(g, err_message(e, r));
            return false;
        }
        *ret = MIN(r, 0);
        if (r != 0)
            return r > 0;
    }
    return false;
}

/* Whether no data from before the tombstone is still waiting to become a segment. */
static bool is_ready(const struct snapshot *snap, const struct tombstone *t)
{
    for (uint32_t i = 0; i < snap->n_memtables; i++)
        if (snap->memtables[i]->log <= t->log)
            return false;
    return true;
}

static int forget(struct engine *g, const struct snapshot *snap, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < snap->n_tombstones; i++) {
        if (!is_ready(snap, snap->tombstones[i]))
            continue;
        r = catalog_drop_deletion(g->catalog, snap->tombstones[i]->id, e);
        if (r == 0)
            r = snapshot_publish(g, &(struct snapshot_change){.remove_tombstone = snap->tombstones[i]});
    }
    return r;
}

int engine_purge(struct engine *g, struct err *e)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    bool unreadable = false;
    int r = 0;

    if (!snap->n_tombstones)
        return 0;
    r = engine_flush_sealed(g, e);
    snapshot_unref(snap);
    snap = snapshot_get(g);
    for (uint32_t i = 0; r == 0 && i < snap->n_segments; i++) {
        struct snapshot_segment *s = &snap->segments[i];
        struct rewrite w = {.inputs = &s->segment, .n = 1, .symbols = s->symbols, .level = s->segment->meta.level};

        if (is_hit(g, snap, s, e, &r))
            r = engine_rewrite(g, engine_tenant_number(g, s->segment->meta.tenant), &w, e);
        if (r == -EREMOTEIO) /* the object store cannot be reached: later */
            engine_cold_problem(g, err_message(e, r));
        unreadable |= r == -EBADMSG || r == -EREMOTEIO;
        r = r == -EBADMSG || r == -EREMOTEIO ? 0 : r;
    }
    if (r == 0)
        engine_bound_lost(g);                            /* while the deletions are still known */
    return r < 0 || unreadable ? r : forget(g, snap, e); /* data that could not be rewritten stays hidden */
}
