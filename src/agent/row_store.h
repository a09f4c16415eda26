/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind rows that the BPF programs can see: pages of objects' tables, copied into shards when a walk misses them.
 *
 * Shards are 256 KiB each and are created as needed, up to a budget. When it is used up, the shard that was filled
 * first is emptied: its pages are taken out of the map, and its rows are overwritten only after a pause that is much
 * longer than a program runs, so that no walk reads half of a page.
 */
#ifndef AGENT_ROW_STORE_H
#define AGENT_ROW_STORE_H

#include "agent/object.h"

struct row_store;
struct unwind_rule;

struct row_store_maps {
    int shards, rules, pages, code_rules; /* descriptors of the BPF maps; owned by the caller; code_rules may be -1 */
};

int row_store_new(const struct row_store_maps *maps, struct objects *objects, size_t budget, struct row_store **ret,
                  struct err *e);
void row_store_free(struct row_store *s);
/* Makes the page of the object (ELF address >> 16) visible. -EAGAIN: not now (an emptied shard must not be written
 * yet); -ENODATA: the object has no table. */
int row_store_load(struct row_store *s, struct object *o, uint32_t page, uint64_t now_ns);
/* The same for all pages of it, if it was not done before and there is room for them. */
void row_store_load_all(struct row_store *s, struct object *o, uint64_t now_ns);
/* From now on, stacks in code of the object without call frame information are walked at this ELF address by the rule; NULL: they
 * end there. */
void row_store_learn(struct row_store *s, const struct object *o, uint64_t address, const struct unwind_rule *rule);
size_t row_store_memory(const struct row_store *s); /* bytes of shards */
/* Why the kernel takes no further shards, a negative errno; 0: it has taken all. */
int row_store_refused(const struct row_store *s);

#endif
