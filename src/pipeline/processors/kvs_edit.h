/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a resource's attributes in a batch made by batch_share(): the list is copied once, strings are shared. */
#ifndef PIPELINE_KVS_EDIT_H
#define PIPELINE_KVS_EDIT_H

#include <stdbool.h>

#include "base/arena.h"
#include "model/batch.h"

struct conf_node;

struct kvs_edit {
    struct kvs *kvs;
    struct arena *arena;
    uint32_t cap; /* 0: the list is still shared */
    int err;      /* sticky, -ENOMEM */
};

void kvs_edit_init(struct kvs_edit *x, struct kvs *kvs, struct arena *a);
struct value *kvs_edit_find(struct kvs_edit *x, struct str key);       /* for reading; NULL if absent */
void kvs_edit_set(struct kvs_edit *x, struct str key, struct value v); /* adds or replaces; v is not copied */
void kvs_edit_remove(struct kvs_edit *x, struct str key);
/* Keeps the attributes for which keep() is true. */
void kvs_edit_filter(struct kvs_edit *x, bool (*keep)(void *arg, const struct kv *kv), void *arg);

/* Converts a scalar of a configuration to a value, with the type that YAML gives it. Strings point into the node. */
struct value value_from_conf(const struct conf_node *n, struct arena *a);

static inline struct value value_from_str(struct str s)
{
    return (struct value){.kind = VALUE_STR, .n = s.n, .str = s.p ? s.p : ""};
}

#endif
