/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine `segment`: the store on one machine's disk.
 *
 *   DIR/FORMAT        "wick store 1": what this directory is
 *   DIR/LOCK          flock: one process has the store
 *   DIR/RESERVE       bytes given back when the disk is full, so that retention can work
 *   DIR/catalog.db    catalog.h
 *   DIR/log/N.log     wal.h
 *   DIR/T/seg/N.seg   segment_file.h, of tenant number T
 *   DIR/T/sym/E.sym   symbols of the tenant's epoch E (symbol_file.h)
 *   DIR/T/NAME        the tenant's name, for when the catalogue is lost
 *   DIR/DAMAGE        damage that was found and that nobody has confirmed to have seen (damage.c)
 *   DIR/lost/         segments that the catalogue does not list and that nothing explains (lost.c)
 *
 * Threads and locks
 *   write_lock  the log writer's state: memtable in use, log, symbols' writer side, deduplication. Held by the writer
 *               thread for one group commit, by others to seal the memtable.
 *   flush_lock  flushing, compaction, retention, snapshots. Taken before write_lock. A deletion only adds a tombstone
 *               and does not wait for it; the catalogue has a lock of its own.
 *   lock        a few pointers: the snapshot that readers take, statistics. Held for instructions, last.
 *   Tenants are never removed while the store is open; their table grows by publication and needs no lock to be read.
 *   Readers take a reference of the snapshot (segments, memtables, symbols) and no other lock; what they look at is
 *   immutable or grows by publication. Writers never wait for them.
 *
 * What is true when
 *   appended  in the memtable and the log; acknowledged once the log is synced; visible from just before that
 *   flushed   symbols appended and synced, segments written and synced, then one catalogue transaction; then the log
 *             file goes. A crash anywhere in between leaves the log in force and unlisted segments in lost/.
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

enum { TENANTS_MAX = 4096, SEALED_MAX = 4, QUEUE_MAX = 65536 };

/* Epochs are added by whoever holds write_lock and freed under flush_lock and write_lock together: holding either one, or
 * `lock`, is enough to walk the list. */
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
    struct engine_epoch *_Atomic epochs; /* the first is written to */
};

/* What a reader sees. Immutable. */
struct snapshot {
    _Atomic uint32_t refs;
    struct snapshot_segment {
        struct segment *segment;
        struct symbols *symbols;
    } * segments;
    uint32_t n_segments;
    struct memtable **memtables; /* oldest first; the last is written to */
    uint32_t n_memtables;
    struct tombstone **tombstones; /* deletions to be carried out */
    uint32_t n_tombstones;
};

/* Damage that was found, each piece once: "TIME WORDS". */
struct engine_damage {
    pthread_mutex_t lock;
    char *lines[256];
    uint32_t n;
    uint64_t more; /* found when there was no room for more lines */
};

struct engine {
    struct store store;
    struct store_config config;
    struct intake_limits limits;
    char *dir, *place; /* as it was given, and where it was when it was opened (NULL: not known) */
    int dir_fd, log_dir, lock_fd;
    pthread_mutex_t lock, write_lock, flush_lock;
    struct snapshot *snapshot;   /* under lock */
    struct snapshot_room *rooms; /* under lock: changes that were announced and not yet published */
    struct stable tenants;       /* struct engine_tenant *; grows under write_lock or at opening, any thread reads */
    struct store_stats stats;    /* under lock */
    struct keep_clock clock;     /* under lock */
    struct engine_damage damage;
    bool catalog_damaged, catalog_rebuilt; /* at opening */
    int64_t clock_saved;                   /* under flush_lock: what the catalogue has of it */
    struct lru lru;                        /* of segments' footers and dictionaries, and of views */
    _Atomic uint32_t asking;               /* questions about sums that run now */
    uint32_t cpus;
    /* under write_lock */
    struct log log;
    struct memtable *active;
    uint64_t lsn, next_log;
    struct dedup dedup;
    struct cumulative cumulative;
    atomic_bool stopped; /* a sync failed */
    char stop_reason[240];
    int64_t space_checked;
    bool space_low;
    char low_reason[200];
    struct writer *writer;
    struct queue queue;
    pthread_t writer_thread, flusher_thread;
    bool has_writer, has_flusher;
    atomic_bool closing;
    pthread_cond_t flush_wake; /* with lock */
    bool flush_wanted;         /* under lock */
    char trouble[200];         /* under lock: why flushing or compaction failed last; "" = they work */
    atomic_size_t dictionary;  /* bytes of all symbols, as counted last */
    atomic_size_t answering;   /* bytes that questions need now, about */
    int64_t counted;           /* under write_lock: when, and what the memtable had then */
    size_t counted_bytes;
    atomic_bool no_log; /* there was no room to begin the log in use */
    bool opening;
    /* under flush_lock */
    struct catalog *catalog;
    char catalog_copy[200]; /* open to read only: where its copy is; empty: there is none */
    uint64_t next_segment;
    _Atomic int64_t retained; /* monotonic time of the last retention */
};

static inline struct engine *to_engine(struct store *s)
{
    return container_of(s, struct engine, store);
}

int64_t engine_now(const struct engine *g); /* the wall clock */
/* The time that retention and deduplication go by (keep_clock.h); the time that is believed, which may be later. */
int64_t engine_keep_now(struct engine *g);
int64_t engine_believed(struct engine *g);
/* At opening; saves it in the catalogue, now and then or at once (under flush_lock). */
void engine_start_clock(struct engine *g);
void engine_save_clock(struct engine *g, bool at_once);
int engine_confirm(struct store *s, enum store_confirm what, struct err *e);
/* --- damage (damage.c); any thread --- */
void engine_damage(struct engine *g, const char *what);
void engine_damagef(struct engine *g, const char *fmt, ...) _printf_(2, 3);
/* To whoever opened the store, for its log. */
void engine_tell(struct engine *g, const char *fmt, ...) _printf_(2, 3);
void engine_damage_load(struct engine *g); /* what is known from before */
void engine_damage_stats(struct engine *g, struct store_stats *ret);
void engine_each_damage(struct engine *g, void (*fn)(void *ctx, const char *line), void *ctx);
int engine_damage_seen(struct engine *g, struct err *e);
void engine_damage_done(struct engine *g);

/* --- lost/ (lost.c) --- */
/* Removes what retention and deletions mean, and the oldest where there is too much. Under flush_lock. */
void engine_bound_lost(struct engine *g);
void engine_each_lost(struct engine *g, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx);

/* --- tenants (engine_tenant.c) --- */
static inline uint32_t engine_n_tenants(const struct engine *g)
{
    return stable_count(&g->tenants);
}
static inline struct engine_tenant *engine_tenant_at(const struct engine *g, uint32_t i)
{
    return *(struct engine_tenant **) stable_at(&g->tenants, i);
}
/* The tenant of this name, or NULL. */
struct engine_tenant *engine_find_tenant(struct engine *g, const char *name);
struct engine_tenant *engine_tenant_number(struct engine *g, uint32_t number);
/* The name that T/NAME has, "" for the first without one, else "tenant-T". */
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
/* A new one that differs from the present: segments added and removed, a memtable or a tombstone added or removed. A
 * change of segments is made under flush_lock. */
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
 * whatever others publish in between. n_added: the most segments that it will add. */
struct snapshot_room {
    struct engine *g;
    struct snapshot *next; /* NULL: not announced */
    uint32_t n_added, cap_segments, cap_memtables, cap_tombstones;
    struct snapshot_room *other;
};
int snapshot_make_room(struct engine *g, uint32_t n_added, struct snapshot_room *room);
void snapshot_publish_in(struct snapshot_room *room, const struct snapshot_change *c);
void snapshot_room_done(struct snapshot_room *room); /* gives up what was not published; takes a zeroed one */

/* --- writing (writer.c) --- */
int writer_new(struct writer **ret);
void writer_free(struct writer *w);
void engine_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack);
void *engine_writer_run(void *engine);
/* A sync failed: nobody knows what is on the disk, so nothing is acknowledged any more. what: "the log". */
void engine_stop(struct engine *g, const char *what, int r);
/* Ends the memtable in use and begins another; under write_lock. */
int engine_seal(struct engine *g, struct err *e);
int engine_begin_log(struct engine *g, struct err *e);
/* Names for locations that came without (writer_names.c). */
int engine_name_later(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                      const struct symbol_answer *names, struct err *e);
/* The file of the log in use, where there was no room for it when the store was opened. Under write_lock. */
int engine_need_log(struct engine *g);

/* --- flushing, compaction, retention --- */
int engine_flush(struct store *s, struct err *e);
int engine_flush_sealed(struct engine *g, struct err *e);      /* under flush_lock */
int engine_compact(struct engine *g, bool all, struct err *e); /* under flush_lock */
int engine_purge(struct engine *g, struct err *e);             /* under flush_lock: carries deletions out (delete.c) */
void engine_wake_flusher(struct engine *g);
/* Into a catalogue; the id is what the catalogue gives. */
int engine_keep_tombstone(struct catalog *c, struct tombstone *t, struct err *e);
int engine_retain(struct store *s, bool compact_all, struct err *e);
void engine_set_retention(struct store *s, const struct store_config *c);
int engine_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e);
int engine_snapshot(struct store *s, const char *dir, struct err *e);
void *engine_flusher_run(void *engine);

/* --- memory (memory_bound.c) --- */
/* Counts symbols, now and then or at once, and says whether new stacks are accepted. Under write_lock. */
void engine_count_memory(struct engine *g, bool at_once);
/* Whether a request of so many stacks may add some that were not seen before. */
bool engine_takes_stacks(struct engine *g, uint32_t n_stacks);
/* The epoch in use is so large that another should begin; any tenant's is. Under write_lock. */
bool engine_epoch_is_large(struct engine *g, const struct engine_epoch *k);
bool engine_wants_epoch(struct engine *g);
/* A question is about to need so much. -EAGAIN or -E2BIG where that is too much; else it is given back. */
int engine_take_answer(struct engine *g, size_t bytes, struct err *e);
void engine_give_answer(struct engine *g, size_t bytes);

/* --- room (room.c) --- */
/* Sets the reserve aside where there is room; gives it back to the disk. */
void engine_make_reserve(struct engine *g);
void engine_release_reserve(struct engine *g);
void engine_release_if_full(struct engine *g);
/* Why there is no room, for r = -ENOSPC or -EDQUOT. */
void engine_full_reason(struct engine *g, int r, char *out, size_t size);
/* Less room than writes are accepted with; the directory is not there any more. */
bool engine_is_low(struct engine *g, char *why, size_t size);
bool engine_is_gone(struct engine *g, char *why, size_t size);
/* Remembers where the directory is; says it, for people. */
void engine_note_place(struct engine *g);
const char *engine_place(const struct engine *g);
/* ret->problem: why nothing is accepted now. */
void engine_find_problem(struct engine *g, const struct snapshot *snap, struct store_stats *ret);
/* Flushing or compaction failed, or works (NULL). */
void engine_trouble(struct engine *g, const char *what);

/* Rewrites segments into one (level `level`, 0 = keep theirs) leaving out what is deleted and what `keep` refuses. */
struct rewrite {
    struct segment *const *inputs;
    uint32_t n;
    struct symbols *symbols;
    uint32_t level;
    bool drop_detail;
    bool (*keep)(void *ctx, const struct sym_series *s, int64_t time_ns);
    void *ctx;
};
int engine_rewrite(struct engine *g, struct engine_tenant *t, const struct rewrite *w, struct err *e);

/* --- opening (recover.c) --- */
int engine_recover(struct engine *g, struct err *e);
int engine_rebuild_catalog(struct engine *g, struct err *e);
/* The catalogue of a store that is only read (catalog_copy.c). */
int engine_open_catalog_copy(struct engine *g, struct err *e);
void engine_remove_catalog_copy(struct engine *g);

/* --- checking (check.c) --- */
int engine_check(struct store *s, store_report_fn fn, void *ctx, struct err *e);

/* --- questions --- */
int engine_select(struct store *s, const struct store_query *q, struct tree **ret, struct store_notes *notes,
                  struct err *e);
int engine_table(struct store *s, const struct store_query *q, struct store_table *t, struct store_notes *notes,
                 struct err *e);
int engine_callers(struct store *s, const struct store_query *q, struct str function, struct tree **ret_callers,
                   struct tree **ret_callees, struct store_notes *notes, struct err *e);
int engine_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct store_notes *notes, struct err *e);
int engine_each_series(struct store *s, const char *tenant, int64_t from, int64_t to, store_series_fn fn, void *ctx);
int engine_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e);
int engine_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);

#endif
