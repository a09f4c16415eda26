/* SPDX-License-Identifier: Apache-2.0 */
/* Between recover.c, rebuild.c and lost.c: what is found in the store's directory when it is opened. */
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

/* Numbers of the files NUMBER + suffix in dir, sorted. Half-written ones (.tmp) are removed on the way, unless
 * the store is only read. A negative dir is an empty one. */
int recovery_list(const struct engine *g, int dir, const char *suffix, struct numbers *ret);
/* Numbers of all tenants that have a directory of segments, sorted, in the catalogue or not. */
int recovery_tenants(struct engine *g, struct numbers *ret);

struct recovery_damage {
    struct engine *g;
    uint32_t tenant;
};
void recovery_damage(void *damage, const char *what); /* tells of damage in a tenant's symbols */

/* What the catalogue knows: the segments that it lists, those that it removed, how far logs are flushed. */
struct recovery_known {
    struct numbers listed, removed;
    uint64_t flushed;
};
int recovery_known(struct engine *g, struct recovery_known *ret);
void recovery_known_done(struct recovery_known *k);

/* Why a segment may lie there that the catalogue does not list. */
enum unlisted {
    UNLISTED_DEAD,      /* it was removed, or all that it holds is in its log or in the segments it was made of */
    UNLISTED_COMMITTED, /* a transaction listed it, and the catalogue has lost that transaction */
    UNLISTED_NEWER,     /* a later version of wick wrote it */
    UNLISTED_UNKNOWN,   /* anything else, damage of the file among it */
};
/* The number is not among k->listed. */
int recovery_classify(struct engine *g, int seg_dir, uint64_t number, const struct recovery_known *k,
                      enum unlisted *ret);
/* 1 when some segment says that the catalogue has lost a transaction, else 0. */
int recovery_is_stale(struct engine *g);
/* Clears away what the catalogue does not list, once the logs were replayed. log_damaged: they had damage, so nothing
 * that was made of them is thrown away. */
int recovery_clear_unlisted(struct engine *g, bool log_damaged);

/* Everything in lost/ back to where it came from, for rebuilding. */
int lost_bring_back(struct engine *g);
/* A copy of a damaged segment into lost/, synced: what replaces it leaves out what could not be read. */
int lost_copy(struct engine *g, uint32_t tenant, int seg_dir, const struct segment_meta *m, struct err *e);
/* Copies a file of that many bytes, synced. damaged: what cannot be read becomes zeros, and a file that is there already is
 * written anew. */
int file_copy(int from_dir, const char *from, int to_dir, const char *to, uint64_t bytes, bool damaged, struct err *e);
int lost_put(struct engine *g, uint32_t tenant, int seg_dir, uint64_t number);

#endif
