/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine `segment`: the store on one machine's disk.
 *
 *   DIR/FORMAT        "wick store 1": identifies the directory and its format; then the version of wick that wrote to it
 *   DIR/LOCK          flock: only one process may open the store
 *   DIR/RESERVE       space that is freed when the disk is full, so that retention can work
 *   DIR/catalog.db    catalog.h
 *   DIR/log/N.log     wal.h
 *   DIR/T/seg/N.seg   segment_file.h, of tenant number T
 *   DIR/T/sym/E.sym   symbols of the tenant's epoch E (symbol_file.h)
 *   DIR/T/NAME        the tenant's name, for when the catalogue is lost
 *   DIR/DAMAGE        damage that was found and that no user has acknowledged (damage.c)
 *   DIR/COLD          where segments older than a day are, if in an object store (cold.h)
 *   DIR/lost/         unexplained segments that the catalogue does not list (lost.c)
 *
 * Threads and locks
 *   write_lock  the log writer's state: memtable in use, log, symbols' writer side, deduplication. Held by the writer
 *               thread for one group commit, by others to seal the memtable.
 *   flush_lock  flushing, compaction, retention, snapshots. Taken before write_lock. A deletion only adds a tombstone
 *               and does not wait for it; the catalogue has its own lock.
 *   lock        a few pointers: the current snapshot, statistics. Held only briefly; always taken last.
 *   Tenants are never removed while the store is open; their table grows by publication and needs no lock to be read.
 *   Readers take a reference to the snapshot (segments, memtables, symbols) and no other lock; the data they read is
 *   immutable or grows by publication. Writers never wait for them.
 *
 * States of data
 *   appended  in the memtable and the log; acknowledged once the log is synced; visible from just before that
 *   flushed   symbols appended and synced, segments written and synced, then one catalogue transaction; then the log
 *             file is removed. After a crash anywhere in between, the log is replayed and segments that were not listed
 *             are removed (lost.c).
 */
#ifndef SEGMENT_ENGINE_H
#define SEGMENT_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "store/cumulative.h"
#include "store/dedup.h"
#include "store/engines/segment/format/segment_file.h"
#include "store/engines/segment/read/lru.h"
#include "store/engines/segment/symbols/symbols.h"
#include "store/engines/segment/write/catalog.h"
#include "store/engines/segment/write/keep_clock.h"
#include "store/engines/segment/write/memtable.h"
#include "store/engines/segment/write/tombstone.h"
#include "store/engines/segment/write/wal.h"
#include "store/intake.h"
#include "store/store.h"

/* SEALED_MAX: memtables of full size that may wait for the flusher; small ones count by their bytes, up to LOGS_MAX. */
#define SEGMENT_FORMAT_NAME "wick store 1"
#define SEGMENT_FORMAT SEGMENT_FORMAT_NAME "\nwick " WICK_VERSION "\n"

enum { TENANTS_MAX = 4096, SEALED_MAX = 4, LOGS_MAX = 64, QUEUE_MAX = 65536 };

/* Epochs are added under write_lock and freed under flush_lock and write_lock together: holding either one, or `lock`,
 * is enough to walk the list. */
struct engine_epoch {
    uint32_t epoch;
    _Atomic uint64_t bytes; /* of its symbol file, committed */
    int64_t born;
    struct symbols *symbols;
    struct engine_epoch *_Atomic next; /* newest first */
};

struct engine_tenant {
    uint32_t number;
    char *name;
    bool listed; /* in the catalogue */
    int seg_dir, sym_dir;
    atomic_size_t dictionary;            /* bytes of its symbols at the last count */
    atomic_uint_least64_t disk;          /* bytes of its directory at the last count */
    atomic_uint_least64_t disk_limit;    /* of its bytes; that of the store if it has no lower one. 0: not known yet */
    struct engine_epoch *_Atomic epochs; /* the first is the one being written */
};

/* The state that a reader sees. Immutable. */
struct snapshot {
    _Atomic uint32_t refs;
    struct snapshot_segment {
        struct segment *segment;
        struct symbols *symbols;
    } * segments;
    uint32_t n_segments;
    struct memtable **memtables; /* oldest first; the last is the one being written */
    uint32_t n_memtables;
    struct tombstone **tombstones; /* deletions still to be carried out */
    uint32_t n_tombstones;
};

/* Damage that was found, each piece once: "TIME MESSAGE". */
struct engine_damage {
    pthread_mutex_t lock;
    char *lines[256];
    uint32_t n;
    uint64_t more; /* pieces found after the list was full */
};

struct engine {
    struct store store;
    struct store_config config;
    struct intake_limits limits;
    struct label_choice choice; /* of the writer */
    char *dir, *place;          /* as given, and its absolute path when it was opened (NULL: unknown) */
    int dir_fd, log_dir, lock_fd;
    pthread_mutex_t lock, write_lock, flush_lock;
    struct snapshot *snapshot _guarded_by_(lock);   /* under lock */
    struct snapshot_room *rooms _guarded_by_(lock); /* under lock: changes that were announced but not yet published */
    struct pinned tenants; /* struct engine_tenant *; grows under write_lock or at opening, any thread reads */
    struct store_stats stats _guarded_by_(lock); /* under lock */
    struct keep_clock clock _guarded_by_(lock);  /* under lock */
    struct engine_damage damage;
    bool catalog_damaged, catalog_rebuilt;        /* set at opening */
    int64_t clock_saved _guarded_by_(flush_lock); /* under flush_lock: the time saved in the catalogue */
    struct lru lru;                               /* of segments' footers and dictionaries, and of views */
    _Atomic uint32_t asking;                      /* running queries for sums */
    uint32_t cpus;
    /* under write_lock */
    struct log log _guarded_by_(write_lock);
    struct memtable *active _guarded_by_(write_lock);
    uint64_t lsn _guarded_by_(write_lock), next_log _guarded_by_(write_lock);
    struct dedup dedup _guarded_by_(write_lock);
    struct cumulative cumulative _guarded_by_(write_lock);
    atomic_bool stopped; /* a sync failed */
    char stop_reason[240] _guarded_by_(write_lock);
    int64_t space_checked _guarded_by_(write_lock);
    bool space_low _guarded_by_(write_lock);
    char low_reason[200] _guarded_by_(write_lock);
    struct writer *writer;
    struct queue queue;
    pthread_t writer_thread, flusher_thread;
    bool has_writer, has_flusher;
    atomic_bool closing;
    pthread_cond_t flush_wake;            /* with lock */
    bool flush_wanted _guarded_by_(lock); /* under lock */
    char trouble[200] _guarded_by_(lock); /* under lock: why flushing or compaction last failed; "" = no failure */
    atomic_size_t dictionary;             /* bytes of all symbols at the last count */
    uint32_t n_hungry _guarded_by_(write_lock); /* under write_lock: tenants that have more than a little of it */
    atomic_uint_least64_t
        disk_beside; /* bytes below the directory that are not of the store's own files, at the last count */
    atomic_uint_least64_t paged; /* bytes of symbols in files without names */
    atomic_size_t paged_pieces;  /* mappings of these */
    atomic_size_t answering;     /* approximate number of bytes that running queries need */
    int64_t
        counted _guarded_by_(write_lock); /* under write_lock: time of the last count, and size of the memtable then */
    size_t counted_bytes _guarded_by_(write_lock);
    atomic_bool no_log; /* the current log could not be created for lack of space */
    bool opening;
    /* under flush_lock */
    struct catalog *catalog;
    char catalog_copy[200]; /* read-only: path of the copy of the catalogue; empty: none */
    uint64_t next_segment _guarded_by_(flush_lock);
    _Atomic int64_t retained; /* monotonic time of the last retention */
    /* the object store (cold.h) */
    struct cold *cold; /* NULL: there is none. Set at opening */
    pthread_t cold_thread;
    bool has_cold_thread;
    pthread_cond_t cold_wake;                  /* with lock */
    char cold_problem[200] _guarded_by_(lock); /* under lock: why segments could not be moved; "" = no failure */
};

static inline struct engine *to_engine(struct store *s)
{
    return container_of(s, struct engine, store);
}

int64_t engine_now(const struct engine *g); /* the wall clock */
/* The time that retention and deduplication use (keep_clock.h); and the trusted time, which may be later. */
int64_t engine_keep_now(struct engine *g);
int64_t engine_believed(struct engine *g);
/* Starts the clock at opening; saves it in the catalogue, periodically or immediately (under flush_lock). */
void engine_start_clock(struct engine *g);
void engine_save_clock(struct engine *g, bool at_once) _locked_(g->flush_lock);
int engine_confirm(struct store *s, enum store_confirm what, struct err *e);
/* --- damage (damage.c); any thread --- */
void engine_damage(struct engine *g, const char *what);
void engine_damagef(struct engine *g, const char *fmt, ...) _printf_(2, 3);
/* Reports a line to the opener of the store, for its log. */
void engine_tell(struct engine *g, const char *fmt, ...) _printf_(2, 3);
void engine_damage_load(struct engine *g); /* loads damage that was recorded before */
void engine_damage_stats(struct engine *g, struct store_stats *ret);
void engine_each_damage(struct engine *g, void (*fn)(void *ctx, const char *line), void *ctx);
int engine_damage_seen(struct engine *g, struct err *e);
void engine_damage_done(struct engine *g);

/* --- lost/ (lost.c) --- */
/* Removes lost segments that retention or deletions cover, and the oldest ones when there are too many. Under
 * flush_lock. */
void engine_bound_lost(struct engine *g) _locked_(g->flush_lock);
void engine_each_lost(struct engine *g, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx);

/* --- tenants (engine_tenant.c) --- */
static inline uint32_t engine_n_tenants(const struct engine *g)
{
    return pinned_count(&g->tenants);
}
static inline struct engine_tenant *engine_tenant_at(const struct engine *g, uint32_t i)
{
    return *(struct engine_tenant **) pinned_at(&g->tenants, i);
}
/* The tenant of this name, or NULL. */
struct engine_tenant *engine_find_tenant(struct engine *g, const char *name);
struct engine_tenant *engine_tenant_number(struct engine *g, uint32_t number);
/* The name in T/NAME, "" for the first tenant without one, else "tenant-T". */
void engine_tenant_name(struct engine *g, uint32_t number, char *out, size_t size);
int engine_add_tenant(struct engine *g, uint32_t number, const char *name, struct engine_tenant **ret, struct err *e);
struct engine_epoch *engine_find_epoch(struct engine_tenant *t, uint32_t epoch);
int engine_add_epoch(struct engine *g, struct engine_tenant *t, uint32_t epoch, int64_t born,
                     struct engine_epoch **ret);
void engine_tenants_free(struct engine *g);

/* --- snapshots (snapshot.c) --- */
struct snapshot *snapshot_get(struct engine *g);
void snapshot_unref(struct snapshot *s);
DEFINE_CLEANUP(struct snapshot *, snapshot_unref)
/* Publishes a new snapshot that differs from the current one: segments added and removed, a memtable or a tombstone
 * added or removed. Segments are changed only under flush_lock. */
struct snapshot_change {
    struct segment *const *added;
    struct symbols *const *added_symbols;
    uint32_t n_added;
    const uint64_t *removed; /* sorted */
    uint32_t n_removed;
    struct memtable *add_memtable, *remove_memtable;
    struct tombstone *add_tombstone;
    const struct tombstone *remove_tombstone;
};
int snapshot_publish(struct engine *g, const struct snapshot_change *c);
/* Memory for a change whose cause must be on disk first: after snapshot_make_room(), snapshot_publish_in() cannot fail,
 * whatever other threads publish in between. n_added: the maximum number of segments that it will add. */
struct snapshot_room {
    struct engine *g;
    struct snapshot *next; /* NULL: not announced */
    uint32_t n_added, cap_segments, cap_memtables, cap_tombstones;
    struct snapshot_room *other;
};
int snapshot_make_room(struct engine *g, uint32_t n_added, struct snapshot_room *room);
void snapshot_publish_in(struct snapshot_room *room, const struct snapshot_change *c);
void snapshot_room_done(struct snapshot_room *room); /* gives up an unpublished change; accepts a zeroed room */

/* --- writing (writer.c) --- */
int writer_new(struct writer **ret);
void writer_free(struct writer *w);
void engine_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack);
void *engine_writer_run(void *engine);
/* A sync failed: the state of the disk is unknown, so nothing is acknowledged from then on. what: "the log". */
void engine_stop(struct engine *g, const char *what, int r);
/* Seals the current memtable and begins another. */
int engine_seal(struct engine *g, struct err *e) _locked_(g->write_lock);
int engine_begin_log(struct engine *g, struct err *e) _locked_(g->write_lock);
/* The log is gone: begins another, and has what was acknowledged written to segments. If that is impossible, the store
 * stops. */
void engine_replace_log(struct engine *g) _locked_(g->write_lock);
/* Adds names to locations that were stored without (writer_names.c). */
int engine_name_later(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                      const struct symbol_answer *names, struct err *e);
/* Creates the file of the current log if there was no space for it when the store was opened. */
int engine_need_log(struct engine *g) _locked_(g->write_lock);

/* --- flushing, compaction, retention --- */
int engine_flush(struct store *s, struct err *e);
int engine_flush_sealed(struct engine *g, struct err *e) _locked_(g->flush_lock);
int engine_compact(struct engine *g, bool all, struct err *e) _locked_(g->flush_lock);
int engine_purge(struct engine *g, struct err *e) _locked_(g->flush_lock); /* carries deletions out (delete.c) */
void engine_wake_flusher(struct engine *g);
/* Whether so much waits to be flushed that nothing more is accepted. */
bool engine_is_behind(const struct engine *g, const struct snapshot *s);
/* Stores a tombstone in a catalogue, which assigns its id. */
int engine_keep_tombstone(struct catalog *c, struct tombstone *t, struct err *e);
int engine_retain(struct store *s, bool compact_all, struct err *e);
int engine_drop_segment(struct engine *g, struct segment *s, struct err *e) _locked_(g->flush_lock);
/* --- retention by size (retain_size.c) --- */
uint64_t engine_size_limit(const struct engine *g);
/* That of the tenant, as known since the last count; at most that of the store. */
uint64_t engine_tenant_limit(const struct engine *g, const struct engine_tenant *t);
/* Counts what is on the disk, of all and of each tenant; returns the former. */
uint64_t engine_measure(struct engine *g) _locked_(g->flush_lock);
int engine_retain_size(struct engine *g, struct err *e) _locked_(g->flush_lock);
int engine_disk(struct store *s, const char *tenant, struct store_disk *ret);
/* Drops what is over the limits of age and size, without rewriting anything. */
int engine_drop_old(struct engine *g, struct err *e);
void engine_set_retention(struct store *s, const struct store_config *c);
int engine_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e);
int engine_snapshot(struct store *s, const char *dir, struct err *e);
void *engine_flusher_run(void *engine);

/* --- memory (memory_bound.c) --- */
/* Counts the memory of symbols, periodically or immediately, and decides whether new stacks are accepted. */
void engine_count_memory(struct engine *g, bool at_once) _locked_(g->write_lock);
/* Whether a request of the tenant with this many stacks may add new ones. */
bool engine_takes_stacks(struct engine *g, const struct engine_tenant *t, uint32_t n_stacks) _locked_(g->write_lock);
/* Moves symbols of earlier epochs to files if all of them take much memory. Under flush_lock, or while opening. */
void engine_page_out(struct engine *g);
/* Whether the tenant's current epoch is so large that another should begin; whether any tenant's is. */
bool engine_epoch_is_large(struct engine *g, const struct engine_tenant *t) _locked_(g->write_lock);
bool engine_wants_epoch(struct engine *g) _locked_(g->write_lock);
/* Reserves memory for a query. Returns -EAGAIN or -E2BIG when that is too much; otherwise it must be given back. */
int engine_take_answer(struct engine *g, size_t bytes, struct err *e);
void engine_give_answer(struct engine *g, size_t bytes);

/* --- room (room.c) --- */
/* Allocates the reserve where there is space; and releases it. */
void engine_make_reserve(struct engine *g);
void engine_release_reserve(struct engine *g);
void engine_release_if_full(struct engine *g);
/* Explains why there is no space, for r = -ENOSPC or -EDQUOT. */
void engine_full_reason(struct engine *g, int r, char *out, size_t size);
/* Whether there is less free space than writes require; whether the directory no longer exists. */
bool engine_is_low(struct engine *g, char *why, size_t size);
bool engine_is_gone(struct engine *g, char *why, size_t size);
/* Whether an open file is still the one of that name, as far as can be known. */
bool engine_is_same(int fd, int dir, const char *name);
/* Whether the file of the current log was removed or moved. */
bool engine_log_is_gone(const struct engine *g) _locked_(g->write_lock);
/* Records the path of the directory; returns it for messages. */
void engine_note_place(struct engine *g);
const char *engine_place(const struct engine *g);
/* Sets ret->problem: why nothing is accepted at present. */
void engine_find_problem(struct engine *g, const struct snapshot *snap, struct store_stats *ret);
/* Records that flushing or compaction failed, or works again (NULL). */
void engine_trouble(struct engine *g, const char *what);

/* Rewrites segments into one (level `level`, 0 = keep theirs) without deleted data and without what `keep` refuses. */
struct rewrite {
    struct segment *const *inputs;
    uint32_t n;
    struct symbols *symbols;
    uint32_t level;
    bool drop_detail;
    bool (*keep)(void *ctx, const struct sym_series *s, int64_t time_ns);
    void *ctx;
};
int engine_rewrite(struct engine *g, struct engine_tenant *t, const struct rewrite *w, struct err *e)
    _locked_(g->flush_lock);

/* --- opening (recover.c) --- */
int engine_recover(struct engine *g, struct err *e);
int engine_rebuild_catalog(struct engine *g, struct err *e);
/* Opens a copy of the catalogue for a read-only store (catalog_copy.c). */
int engine_open_catalog_copy(struct engine *g, struct err *e);
void engine_remove_catalog_copy(struct engine *g);

/* --- checking (check.c) --- */
int engine_check(struct store *s, store_report_fn fn, void *ctx, struct err *e);

/* --- questions --- */
int engine_select(struct store *s, const struct store_query *q, struct tree **ret, struct err *e);
int engine_table(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                 struct store_table *ret, struct err *e);
int engine_spans(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e);
int engine_moments(struct store *s, const struct store_query *q, store_moment_fn fn, void *ctx, struct err *e);
int engine_cube(struct store *s, const struct store_query *q, const struct store_cube_query *cq, struct store_cube *ret,
                struct err *e);
int engine_callers(struct store *s, const struct store_query *q, struct str function, struct store_callers *ret,
                   struct err *e);
int engine_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct err *e);
int engine_each_series(struct store *s, const struct store_range *range, store_series_fn fn, void *ctx);
int engine_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                      struct err *e);
int engine_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e);
int engine_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);

#endif
