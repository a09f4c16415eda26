/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of a profile as a tree of calls (call_tree.h). */
#include "codec/jsonfile/call_tree.h"

#include <errno.h>

#include "base/mem.h"
#include "codec/frame_name.h"

static int child_of(struct call_tree *t, const struct call_tree_node *node, uint32_t *ret)
{
    uint64_t h = hash64_u64((uint64_t) node->parent << 32 | node->location) ^ hash64_u64(node->line);
    int r;

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (memcmp(&t->nodes[p.index], node, sizeof *node) == 0) {
            *ret = p.index;
            return 0;
        }
    *ret = (uint32_t) t->n;
    r = map_insert(&t->map, h, *ret);
    return r < 0 ? r : array_push(t->nodes, t->n, t->cap, UINT32_MAX - 1, *node);
}

static int add_stack(struct call_tree *t, const struct batch *b, struct run stack, uint32_t *ret)
{
    struct call_tree_node node = {0};
    int r = 0;

    *ret = 0;
    for (uint32_t i = stack.n; i > 0 && r == 0; i--) {
        node.location = b->dict.indices[stack.off + i - 1];
        for (uint32_t k = frame_count(&b->dict.locations[node.location]); k > 0 && r == 0; k--) {
            node.line = k - 1;
            node.parent = *ret;
            r = child_of(t, &node, ret);
        }
    }
    return r;
}

int call_tree_build(const struct batch *b, const struct profile *p, struct call_tree *ret)
{
    int r;

    *ret = (struct call_tree){.leaves = mem_zalloc_array((size_t) p->samples.n + 1, sizeof *ret->leaves)};
    r = ret->leaves ? array_push(ret->nodes, ret->n, ret->cap, UINT32_MAX, (struct call_tree_node){0}) : -ENOMEM;
    for (uint32_t i = 0; i < p->samples.n && r == 0; i++)
        r = add_stack(ret, b, b->dict.stacks[b->samples[p->samples.off + i].stack], &ret->leaves[i]);
    return r;
}

void call_tree_done(struct call_tree *t)
{
    mem_free(t->nodes);
    mem_free(t->leaves);
    map_done(&t->map);
}
