/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by recover.c, rebuild.c and lost.c: what is found in the store's directory when it is opened. */
#ifndef SEGMENT_RECOVERY_H
#define SEGMENT_RECOVERY_H

#include "store/engines/segment/engine.h"

struct numbers {
    uint64_t *v;
    size_t cap;
    uint32_t n;
};

int numbers_add(struct numbers *n, uint64_t v);
void numbers_sort(struct numbers *n);
bool numbers_have(const struct numbers *n, uint64_t v); /* sorted */
void numbers_done(struct numbers *n);

/* Numbers of the files NUMBER + suffix in dir, sorted. Incomplete files (.tmp) are removed, unless the store is
 * read-only. A negative dir counts as empty. */
int recovery_list(const struct engine *g, int dir, const char *suffix, struct numbers *ret);
/* The same, and nothing is removed. */
int recovery_list_kept(int dir, const char *suffix, struct numbers *ret);
/* Numbers of the segments in dir, sorted, each once: of complete files, and of those in the object store. */
int recovery_segments(const struct engine *g, int dir, struct numbers *ret);
/* Numbers of all tenants that have a directory of segments, sorted, whether or not they are in the catalogue. */
int recovery_tenants(struct engine *g, struct numbers *ret);
/* Removes new versions of small files (NAME, FORMAT) that a process was killed over. */
void recovery_remove_left_over(struct engine *g);

struct recovery_damage {
    struct engine *g;
    uint32_t tenant;
};
void recovery_damage(void *damage, const char *what); /* reports damage to a tenant's symbols */

/* What the catalogue records: the segments that it lists, those that were removed, how far logs are flushed. */
struct recovery_known {
    struct numbers listed, removed;
    uint64_t flushed;
};
int recovery_known(struct engine *g, struct recovery_known *ret);
void recovery_known_done(struct recovery_known *k);

/* Why a segment that the catalogue does not list may exist. */
enum unlisted {
    UNLISTED_DEAD,      /* it was removed, or its data is in its log or in the segments it was made of */
    UNLISTED_COMMITTED, /* it was listed by a transaction that the catalogue has lost */
    UNLISTED_NEWER,     /* written by a later version of wick */
    UNLISTED_UNKNOWN,   /* anything else, including a damaged file */
};
/* The number must not be in k->listed. */
int recovery_classify(struct engine *g, int seg_dir, uint64_t number, const struct recovery_known *k,
                      enum unlisted *ret);
/* Returns 1 when some segment shows that the catalogue has lost a transaction, else 0. */
int recovery_is_stale(struct engine *g);
/* Clears files that the catalogue does not list, after the logs were replayed. log_damaged: they had damage, so nothing
 * that was made of them is removed. */
int recovery_clear_unlisted(struct engine *g, bool log_damaged);

/* Moves everything in lost/ back to where it came from, for rebuilding. */
int lost_bring_back(struct engine *g);
/* Copies a damaged segment to lost/, synced: the segment that replaces it omits what could not be read. */
int lost_copy(struct engine *g, uint32_t tenant, int seg_dir, const struct segment_meta *m, struct err *e);
/* Copies a file of that many bytes, synced. damaged: unreadable parts become zeros, and an existing file is
 * overwritten. */
struct file_place {
    int dir;
    const char *name;
};
int file_copy(struct file_place from, struct file_place to, uint64_t bytes, bool damaged, struct err *e);
int lost_put(struct engine *g, uint32_t tenant, int seg_dir, uint64_t number);

#endif
