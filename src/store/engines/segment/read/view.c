/* SPDX-License-Identifier: Apache-2.0 */
/* Builds and extends the views of view.h. Symbols' strings are interned, so frames are compared by pointer. */
#include "store/engines/segment/read/view.h"

#include <errno.h>

#include "base/mem.h"
#include "store/frames.h"

static void free_view(struct sym_view *v)
{
    mem_free(v->map);
    mem_free(v->parent);
    mem_free(v->frame);
    mem_free(v->frames);
    mem_free(v->unlined);
    map_done(&v->child_map);
    map_done(&v->frame_map);
    mem_free(v);
}

void view_free(struct lru *lru, struct sym_view *v)
{
    if (!v)
        return;
    lru_forget(lru, &v->item);
    free_view(v);
}

static size_t view_bytes(const struct sym_view *v)
{
    return sizeof *v + v->cap_map * sizeof *v->map + (v->cap_nodes + v->cap_nodes2) * sizeof *v->parent +
           v->cap_frames * sizeof *v->frames + (v->child_map.mask + (size_t) 1) * sizeof *v->child_map.slots +
           (v->frame_map.mask + (size_t) 1) * sizeof *v->frame_map.slots + v->cap_unlined * sizeof *v->unlined;
}

/* Drops a view to make room, unless it is in use. */
static bool drop_view(struct lru_item *item)
{
    struct sym_view *v = container_of(item, struct sym_view, item);
    struct sym_service *service = v->service;

    if (pthread_rwlock_trywrlock(&service->view_lock) != 0)
        return false;
    service->views[v->index] = NULL;
    free_view(v);
    pthread_rwlock_unlock(&service->view_lock);
    return true;
}

void view_frame(const struct symbols *s, const struct sym_location *l, const struct sym_lines *lines, uint32_t line,
                struct frame *ret)
{
    const struct sym_mapping *m = pinned_at(&s->mappings, l->mapping);

    *ret = (struct frame){.mapping = sym_string(s, m->filename),
                          .build_id = sym_string(s, m->build_id),
                          .address = l->address,
                          .kind = l->kind};
    if (lines && line < lines->n) {
        const struct sym_function *f = pinned_at(&s->functions, lines->v[line].function);

        ret->function = sym_string(s, f->name ? f->name : f->system_name);
        ret->system_name = sym_string(s, f->system_name);
        ret->file = sym_string(s, f->file);
        ret->line = lines->v[line].line;
        ret->start_line = f->start_line;
        ret->inlined = line + 1 < lines->n;
    }
}

static uint64_t frame_hash(const struct frame *f)
{
    uint64_t h = hash64_u64((uintptr_t) f->function.p ^ (uint64_t) f->kind << 56);

    h = hash_mix(h ^ (uintptr_t) f->file.p, 0x9e3779b97f4a7c15ull ^ (uint64_t) f->line);
    h = hash_mix(h ^ (uintptr_t) f->mapping.p, 0xe7037ed1a0b428dbull ^ f->address);
    return hash_mix(h ^ (uintptr_t) f->build_id.p, 0x8ebc6af09c88c6e3ull ^ (uint64_t) f->start_line);
}

static bool frame_same(const struct frame *a, const struct frame *b)
{
    return a->function.p == b->function.p && a->file.p == b->file.p && a->mapping.p == b->mapping.p &&
           a->build_id.p == b->build_id.p && a->system_name.p == b->system_name.p && a->line == b->line &&
           a->start_line == b->start_line && a->address == b->address && a->kind == b->kind && a->inlined == b->inlined;
}

static uint32_t intern_frame(struct sym_view *v, const struct frame *f)
{
    uint64_t h = frame_hash(f);

    for (struct map_pos p = map_find(&v->frame_map, h); p.index != MAP_NONE; p = map_next(&v->frame_map, p))
        if (frame_same(&v->frames[p.index], f)) {
            if (!v->frames[p.index].unlined.n)
                v->frames[p.index].unlined = f->unlined;
            frame_add_file(&v->frames[p.index], f);
            return p.index;
        }
    if (array_reserve(v->frames, v->cap_frames, (size_t) v->n_frames + 1, 1 << 28) < 0 ||
        map_insert(&v->frame_map, h, v->n_frames) < 0)
        return UINT32_MAX;
    v->frames[v->n_frames] = *f;
    return v->n_frames++;
}

static int grow_nodes(struct sym_view *v, uint32_t n)
{
    int r = array_reserve(v->parent, v->cap_nodes, n, 1 << 30);

    return r < 0 ? r : array_reserve(v->frame, v->cap_nodes2, n, 1 << 30);
}

static uint32_t view_child(struct sym_view *v, uint32_t parent, uint32_t frame)
{
    uint64_t h = hash64_u64((uint64_t) parent << 32 | frame);

    for (struct map_pos p = map_find(&v->child_map, h); p.index != MAP_NONE; p = map_next(&v->child_map, p))
        if (v->parent[p.index] == parent && v->frame[p.index] == frame)
            return p.index;
    if (unlikely(v->n_nodes >= v->cap_nodes || v->n_nodes >= v->cap_nodes2) && grow_nodes(v, v->n_nodes + 1) < 0)
        return UINT32_MAX;
    if (map_insert(&v->child_map, h, v->n_nodes) < 0)
        return UINT32_MAX;
    v->parent[v->n_nodes] = parent;
    v->frame[v->n_nodes] = frame;
    return v->n_nodes++;
}

static struct sym_view *view_new(struct sym_service *service, uint32_t index, uint64_t generation)
{
    struct sym_view *v = mem_zalloc(sizeof *v);
    struct frame folded = {.function = STR("(folded)")};

    if (!v)
        return NULL;
    v->generation = generation;
    v->service = service;
    v->index = index;
    v->item.drop = drop_view;
    if (intern_frame(v, &folded) != TREE_FOLDED || grow_nodes(v, 64) < 0 ||
        array_reserve(v->map, v->cap_map, 64, UINT32_MAX) < 0) {
        free_view(v);
        return NULL;
    }
    v->parent[0] = TREE_NONE;
    v->frame[0] = TREE_NONE;
    v->n_nodes = 1;
    v->map[0] = 0;
    v->n_mapped = 1;
    return v;
}

/* The frames of locations to be added to a view, outermost call first: n, then n frames, for each location in turn. */
struct spelling {
    const struct symbols *symbols;
    enum granularity by;
    bool no_inlines;
    uint32_t *at; /* per location: offset in v + 1; 0 = not yet. NULL for a few nodes, where nothing is kept */
    uint32_t *v;
    size_t cap;
    uint32_t n;
};

static int add_unlined(struct sym_view *v, uint32_t location, const struct sym_lines *lines)
{
    return array_push(v->unlined, v->n_unlined, v->cap_unlined, UINT32_MAX, (struct view_unlined){location, lines});
}

/* Returns the offset of the location's frames in x->v; UINT32_MAX when memory runs out. */
static uint32_t spell(struct spelling *x, struct sym_view *v, uint32_t location)
{
    struct sym_location *l = sym_location(x->symbols, location);
    const struct sym_lines *lines = atomic_load_explicit(&l->lines, memory_order_acquire);
    uint32_t count = lines ? lines->n : 0, start = x->at ? x->n : 0;

    if (array_reserve(x->v, x->cap, (size_t) start + count + 2, UINT32_MAX) < 0 ||
        (l->address && sym_lines_rank(x->symbols, lines) < RANK_LINES && add_unlined(v, location, lines) < 0))
        return UINT32_MAX;
    x->n = start + 1;
    for (uint32_t k = count ? count : 1; k-- > 0;) {
        struct frame f;

        if (x->no_inlines && count && k + 1 < count)
            break;
        view_frame(x->symbols, l, lines, k, &f);
        frame_reduce(&f, x->by);
        x->v[x->n] = intern_frame(v, &f);
        if (x->v[x->n++] == UINT32_MAX)
            return UINT32_MAX;
    }
    x->v[start] = x->n - start - 1;
    if (x->at)
        x->at[location] = start + 1;
    return start;
}

static uint32_t add_node(struct sym_view *v, struct spelling *x, const struct sym_node *n)
{
    uint32_t k = x->at && x->at[n->location] ? x->at[n->location] - 1 : spell(x, v, n->location),
             at = v->map[n->parent];

    if (k == UINT32_MAX)
        return UINT32_MAX;
    for (uint32_t i = 1; i <= x->v[k] && at != UINT32_MAX; i++)
        at = view_child(v, at, x->v[k + i]);
    return at;
}

enum { FEW = 256 };

static int extend(struct sym_view *v, const struct symbols *s, const struct sym_service *service, enum granularity by,
                  bool no_inlines, uint32_t n)
{
    struct spelling x = {.symbols = s, .by = by, .no_inlines = no_inlines};
    int r = array_reserve(v->map, v->cap_map, n, UINT32_MAX);

    if (r == 0 && n > v->n_mapped + FEW) {
        x.at = mem_zalloc_array(pinned_count(&s->locations) + 1, sizeof *x.at);
        r = x.at ? map_reserve(&v->child_map, v->n_nodes + (n - v->n_mapped)) : -ENOMEM;
    }
    for (; r == 0 && v->n_mapped < n; v->n_mapped++) {
        uint32_t at = add_node(v, &x, sym_node(service, v->n_mapped));

        if (at == UINT32_MAX) {
            r = -ENOMEM;
            break;
        }
        v->map[v->n_mapped] = at;
    }
    mem_free(x.at);
    mem_free(x.v);
    return r;
}

/* Whether names or lines have arrived for any of its frames since. */
static bool is_outdated(const struct sym_view *v, const struct symbols *s)
{
    for (uint32_t i = 0; i < v->n_unlined; i++)
        if (atomic_load_explicit(&sym_location(s, v->unlined[i].location)->lines, memory_order_acquire) !=
            v->unlined[i].lines)
            return true;
    return false;
}

int view_lock(struct symbols *s, struct sym_service *service, enum granularity by, bool no_inlines, uint32_t n_nodes,
              struct sym_view **ret)
{
    uint64_t generation = atomic_load_explicit(&s->names_generation, memory_order_acquire);
    uint32_t index = (uint32_t) by * 2 + no_inlines;
    struct sym_view **at = &service->views[index];
    int r = 0;

    pthread_rwlock_rdlock(&service->view_lock);
    if (*at && (*at)->generation >= generation && (*at)->n_mapped >= n_nodes) {
        *ret = *at;
        lru_used(s->lru, &(*at)->item, view_bytes(*at));
        return 0;
    }
    pthread_rwlock_unlock(&service->view_lock);
    pthread_rwlock_wrlock(&service->view_lock);
    if (*at && (*at)->generation < generation) {
        if (is_outdated(*at, s)) {
            view_free(s->lru, *at);
            *at = NULL;
        } else {
            (*at)->generation = generation;
        }
    }
    if (!*at)
        *at = view_new(service, index, generation);
    r = *at ? extend(*at, s, service, by, no_inlines, n_nodes) : -ENOMEM;
    pthread_rwlock_unlock(&service->view_lock);
    if (r < 0)
        return r;
    pthread_rwlock_rdlock(&service->view_lock); /* views only grow, except for new names, which give as many nodes */
    *ret = *at;
    if (!*ret || (*ret)->n_mapped < n_nodes) { /* or was dropped to make room in between */
        pthread_rwlock_unlock(&service->view_lock);
        return view_lock(s, service, by, no_inlines, n_nodes, ret);
    }
    lru_used(s->lru, &(*ret)->item, view_bytes(*ret));
    return 0;
}

void view_unlock(struct sym_service *service)
{
    pthread_rwlock_unlock(&service->view_lock);
}

static bool location_has(const struct symbols *s, uint32_t location, struct str function)
{
    struct sym_lines *lines = atomic_load_explicit(&sym_location(s, location)->lines, memory_order_acquire);

    for (uint32_t k = 0; lines && k < lines->n; k++) {
        const struct sym_function *f = pinned_at(&s->functions, lines->v[k].function);

        if (str_eq(sym_string(s, f->name ? f->name : f->system_name), function))
            return true;
    }
    return false;
}

int view_mark_function(const struct symbols *s, const struct sym_service *service, struct str function, uint8_t *ret,
                       uint32_t n)
{
    uint32_t n_locations = pinned_count(&s->locations);
    _cleanup_(mem_freep) uint8_t *known = mem_zalloc_array(n_locations + 1, 1); /* 1 no, 2 yes */

    if (!known)
        return -ENOMEM;
    ret[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        const struct sym_node *x = sym_node(service, i);

        if (x->location < n_locations && !known[x->location])
            known[x->location] = location_has(s, x->location, function) ? 2 : 1;
        ret[i] = ret[x->parent] | (x->location < n_locations && known[x->location] == 2);
    }
    return 0;
}
