/* SPDX-License-Identifier: Apache-2.0 */
/* The heap's stacks for exports (heap_view.h). Counts are kept in 1/65536 and rounded here, once. */
#include "sdk/heap_view.h"

#include <string.h>

#include "base/mem.h"
#include "sdk/core.h"
#include "sdk/frame_table.h"
#include "sdk/heap.h"

enum { VIEWS_MAX = 1 << 17, POOL_MAX = 1 << 23 };

struct heap_seen {
    uint32_t off, n;
    uint8_t flags;
    uint64_t count, bytes;           /* at the last mark */
    uint64_t next_count, next_bytes; /* as last read */
};

static struct heap_seen *seen;
static uint32_t *pool;
static size_t n_seen, cap_seen, n_pool, cap_pool;

void heap_view_update(void)
{
    uint64_t pc[CORE_DEPTH_MAX];
    uint32_t ids[CORE_DEPTH_MAX + 1];

    for (uint32_t n = heap_stacks(); n_seen < n;) {
        struct heap_stack s;
        struct heap_seen v = {.off = (uint32_t) n_pool};

        heap_stack_at((uint32_t) n_seen, &s, pc);
        v.n = frames_resolve(pc, s.n, s.generation, ids);
        v.flags = s.flags;
        if (n_seen == 0)
            ids[v.n++] = FRAME_TRUNCATED;
        else if (s.flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE))
            ids[v.n++] = FRAME_CUT;
        if (array_reserve(seen, cap_seen, n_seen + 1, VIEWS_MAX) < 0 ||
            array_reserve(pool, cap_pool, n_pool + v.n, POOL_MAX) < 0)
            return;
        memcpy(pool + n_pool, ids, v.n * sizeof *ids);
        n_pool += v.n;
        seen[n_seen++] = v;
    }
}

uint32_t heap_view_count(void)
{
    return (uint32_t) n_seen;
}

static int64_t rounded(uint64_t count)
{
    return (int64_t) ((count + 32768) >> 16);
}

void heap_view_at(uint32_t i, int delta, struct heap_view *ret)
{
    struct heap_seen *v = &seen[i];
    struct heap_stack s;

    heap_stack_at(i, &s, NULL);
    *ret = (struct heap_view){.frames = pool + v->off, .n = v->n, .flags = v->flags};
    ret->v[0] = rounded(s.alloc_count) - (delta ? rounded(v->count) : 0);
    ret->v[1] = (int64_t) (s.alloc_bytes - (delta ? v->bytes : 0));
    ret->v[2] = rounded(s.live_count);
    ret->v[3] = (int64_t) s.live_bytes;
    ret->v[4] = (int64_t) s.peak_bytes;
    if (delta) {
        v->next_count = s.alloc_count;
        v->next_bytes = s.alloc_bytes;
    }
}

const uint32_t *heap_view_frames(uint32_t *ret_n)
{
    *ret_n = (uint32_t) n_pool;
    return pool;
}

void heap_view_mark(void)
{
    for (size_t i = 0; i < n_seen; i++) {
        seen[i].count = seen[i].next_count;
        seen[i].bytes = seen[i].next_bytes;
    }
}
