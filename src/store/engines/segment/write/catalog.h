/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogue: which segments are valid, how far the log has been flushed, how long each symbol file is, which
 * profiles were seen recently. It is one SQLite database (write-ahead log, synchronous = FULL) over base/fd; one
 * transaction commits a flush or a compaction. Everything in it except the deduplication window and pending deletions
 * can be rebuilt from the segments (store check --rebuild).
 *
 *   meta(k, v)                        format, log (the last one flushed), next (segment number), clock (keep_clock.h)
 *   tenants(no, name)
 *   epochs(tenant, epoch, bytes, born)    bytes: valid length of its symbol file
 *   segments(no, tenant, epoch, level, log, t0, t1, bytes, rows, profiles, detail)
 *   dedup(id, newest, n, keys)        per flush: n keys, packed (dedup.h)
 *   removed(no)                       segments that were removed since opening: their files may still exist
 *   deletions(id, tenant, log, t0, t1, selector)    pending (tombstone.h)
 *
 * Any thread may call these functions; a lock serialises them.
 */
#ifndef SEGMENT_CATALOG_H
#define SEGMENT_CATALOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "store/engines/segment/format/segment_file.h"

struct catalog;
struct dedup;
struct dedup_entry;

struct catalog_epoch {
    uint32_t tenant, epoch;
    uint64_t bytes;
    int64_t born;
};

/* What one transaction changes. */
struct catalog_change {
    const struct segment_meta *added;
    uint32_t n_added;
    const uint64_t *removed;
    uint32_t n_removed;
    uint64_t log;                       /* flushed up to here; 0 = unchanged */
    const struct catalog_epoch *epochs; /* set or added */
    uint32_t n_epochs;
    const struct dedup_entry *keys;
    uint32_t n_keys;
    int64_t keys_before; /* keys older than this may be dropped; 0 = none */
    uint64_t next;       /* the next segment number; 0 = unchanged */
    bool *unsure;        /* set when the sync of a commit failed, so that it may or may not be on disk; may be NULL */
};

struct catalog_deletion {
    uint64_t id;
    uint32_t tenant;
    uint64_t log;
    int64_t from, to;
    struct str selector;
};

/* Returns -EBADMSG when the file is not a sound database. *ret_new: whether it was created. */
int catalog_open(const char *path, struct catalog **ret, bool *ret_new, struct err *e);
void catalog_close(struct catalog *c);
DEFINE_CLEANUP(struct catalog *, catalog_close)

int catalog_commit(struct catalog *c, const struct catalog_change *change, struct err *e);
/* Replaces all segments and epochs that it lists. */
int catalog_replace(struct catalog *c, const struct catalog_change *change, struct err *e);
/* Saves the time that retention trusts (keep_clock.h). */
int catalog_set_clock(struct catalog *c, int64_t now, struct err *e);
int catalog_add_tenant(struct catalog *c, uint32_t number, const char *name, struct err *e);
int catalog_drop_epoch(struct catalog *c, uint32_t tenant, uint32_t epoch, struct err *e);
/* The change is synced when the function returns. */
int catalog_add_deletion(struct catalog *c, const struct catalog_deletion *d, uint64_t *ret_id, struct err *e);
int catalog_drop_deletion(struct catalog *c, uint64_t id, struct err *e);

/* Reads all pages of the database file. Returns -EBADMSG when one is wrong. */
int catalog_check(struct catalog *c, const char *path, struct err *e);
/* Writes SQLite's log back into the database and truncates it. */
void catalog_checkpoint(struct catalog *c);

uint64_t catalog_meta(struct catalog *c, const char *key);
int catalog_tenants(struct catalog *c, int (*fn)(void *ctx, uint32_t number, const char *name), void *ctx);
int catalog_epochs(struct catalog *c, int (*fn)(void *ctx, const struct catalog_epoch *e), void *ctx);
int catalog_segments(struct catalog *c, int (*fn)(void *ctx, const struct segment_meta *m), void *ctx);
int catalog_removed(struct catalog *c, int (*fn)(void *ctx, uint64_t number), void *ctx);
void catalog_forget_removed(struct catalog *c);
/* Returns -EBADMSG when some keys are invalid; the others are in d. */
int catalog_load_dedup(struct catalog *c, struct dedup *d);
/* Adds the keys of one row of the table dedup. */
int catalog_unpack_keys(const void *p, size_t n, int64_t time, struct dedup *d);
int catalog_deletions(struct catalog *c, int (*fn)(void *ctx, const struct catalog_deletion *d), void *ctx);

#endif
