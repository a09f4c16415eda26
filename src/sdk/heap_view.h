/* SPDX-License-Identifier: Apache-2.0 */
/* The heap's stacks as frame numbers, and the values that were already exported. Background thread only. */
#ifndef SDK_HEAP_VIEW_H
#define SDK_HEAP_VIEW_H

#include <stdint.h>

struct heap_view {
    const uint32_t *frames; /* leaf first */
    uint32_t n;
    uint8_t flags;
    int64_t v[5]; /* alloc_objects, alloc_space, inuse_objects, inuse_space, peak_space */
};

/* Assigns frame numbers to new stacks, before their modules are forgotten. */
void heap_view_update(void);
uint32_t heap_view_count(void);
/* Reads stack i. If delta is set, allocations are those since the last heap_view_mark(), else those since the start. */
void heap_view_at(uint32_t i, int delta, struct heap_view *ret);
void heap_view_mark(void);
/* The frames of all stacks, one after the other. */
const uint32_t *heap_view_frames(uint32_t *ret_n);

#endif
