/* SPDX-License-Identifier: Apache-2.0 */
/* The heap's stacks as frame numbers, and what was exported of them before. Background thread only. */
#ifndef SDK_HEAP_VIEW_H
#define SDK_HEAP_VIEW_H

#include <stdint.h>

struct heap_view {
    const uint32_t *frames; /* leaf first */
    uint32_t n;
    uint8_t flags;
    int64_t v[4]; /* alloc_objects, alloc_space, inuse_objects, inuse_space */
};

/* Numbers the frames of stacks that are new, before their modules are forgotten. */
void heap_view_update(void);
uint32_t heap_view_count(void);
/* Stack i. delta: allocations since the last heap_view_mark(), else since start. */
void heap_view_at(uint32_t i, int delta, struct heap_view *ret);
void heap_view_mark(void);
/* The frames of all stacks, one after the other. */
const uint32_t *heap_view_frames(uint32_t *ret_n);
void heap_view_reset(void);

#endif
