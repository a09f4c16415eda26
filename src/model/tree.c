/* SPDX-License-Identifier: Apache-2.0 */
/* Interns frames and nodes, and adds up and merges trees; see tree.h. The arrays of nodes grow together; strings of
 * frames live in the arena. */
#include "model/tree.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/wrap.h"

enum { NODES_MAX = 1u << 30, FRAMES_MAX = 1u << 28 };

const char *const frame_kind_names[FRAME_KINDS + 1] = {
    [FRAME_UNKNOWN] = "",  [FRAME_NATIVE] = "native",   [FRAME_KERNEL] = "kernel", [FRAME_GO] = "go",
    [FRAME_RUST] = "rust", [FRAME_CPYTHON] = "cpython", [FRAME_JVM] = "jvm",       [FRAME_V8JS] = "v8js",
    [FRAME_PHP] = "php",   [FRAME_RUBY] = "ruby",       [FRAME_PERL] = "perl",     [FRAME_DOTNET] = "dotnet",
    [FRAME_BEAM] = "beam", [FRAME_LUAJIT] = "luajit",
};

const char *frame_kind_name(enum frame_kind k)
{
    return k < FRAME_KINDS ? frame_kind_names[k] : "";
}

enum frame_kind frame_kind_parse(struct str s)
{
    for (int k = 1; k < FRAME_KINDS; k++)
        if (str_is(s, frame_kind_names[k]))
            return (enum frame_kind) k;
    return FRAME_UNKNOWN;
}

static int grow_array(void *p, uint32_t cap, size_t elem)
{
    void **array = p, *q = mem_realloc_array(*array, cap, elem);

    if (!q)
        return -ENOMEM;
    *array = q;
    return 0;
}

static int grow_nodes(struct tree *t)
{
    uint32_t cap = t->cap_nodes ? t->cap_nodes * 2 : 64;
    int r = 0;

    if (cap > NODES_MAX)
        return -E2BIG;
    if (t->arena.limit && (size_t) cap * (8 + 16 * t->n_columns) > t->arena.limit)
        return -E2BIG;
    if (grow_array(&t->parent, cap, sizeof *t->parent) < 0 || grow_array(&t->frame, cap, sizeof *t->frame) < 0)
        r = -ENOMEM;
    if (r == 0 && t->folded) {
        r = grow_array(&t->folded, cap, sizeof *t->folded);
        if (r == 0)
            memset(t->folded + t->n_nodes, 0, (cap - t->n_nodes) * sizeof *t->folded);
    }
    for (uint32_t c = 0; r == 0 && c < t->n_columns; c++)
        if (grow_array(&t->self[c], cap, sizeof *t->self[c]) < 0 ||
            grow_array(&t->total[c], cap, sizeof *t->total[c]) < 0)
            r = -ENOMEM;
    if (r == 0)
        t->cap_nodes = cap;
    return r;
}

int tree_new(uint32_t n_columns, size_t memory_limit, struct tree **ret)
{
    _cleanup_(tree_freep) struct tree *t = mem_zalloc(sizeof *t);
    struct frame folded = {.function = STR("(folded)")};

    if (!t)
        return -ENOMEM;
    if (n_columns < 1 || n_columns > 2)
        return -EINVAL;
    arena_init(&t->arena, memory_limit);
    t->n_columns = n_columns;
    if (grow_nodes(t) < 0 || tree_frame(t, &folded) != TREE_FOLDED)
        return -ENOMEM;
    t->parent[0] = TREE_NONE;
    t->frame[0] = TREE_NONE;
    for (uint32_t c = 0; c < n_columns; c++)
        t->self[c][0] = t->total[c][0] = 0;
    t->n_nodes = 1;
    *ret = TAKE(t);
    return 0;
}

void tree_free(struct tree *t)
{
    if (!t)
        return;
    mem_free(t->frames);
    mem_free(t->parent);
    mem_free(t->frame);
    mem_free(t->folded);
    for (int c = 0; c < 2; c++) {
        mem_free(t->self[c]);
        mem_free(t->total[c]);
    }
    map_done(&t->node_map);
    map_done(&t->frame_map);
    arena_done(&t->arena);
    mem_free(t);
}

static uint64_t frame_hash(const struct frame *f)
{
    uint64_t h = hash64_str(f->function);

    h = hash_mix(h ^ hash64_str(f->file), (uint64_t) f->line * 0x9e3779b97f4a7c15ull + 0x6a09e667f3bcc909ull);
    h = hash_mix(h ^ hash64_str(f->mapping), hash64_u64(f->address ^ (uint64_t) f->start_line << 32) ^ f->kind);
    return hash_mix(h ^ hash64_str(f->system_name), hash64_str(f->build_id) | 1);
}

static bool frame_eq(const struct frame *a, const struct frame *b)
{
    return a->line == b->line && a->address == b->address && a->kind == b->kind && a->inlined == b->inlined &&
           a->start_line == b->start_line && str_eq(a->function, b->function) && str_eq(a->file, b->file) &&
           str_eq(a->system_name, b->system_name) && str_eq(a->mapping, b->mapping) && str_eq(a->build_id, b->build_id);
}

static bool copy_str(struct arena *a, struct str s, struct str *ret)
{
    *ret = arena_str(a, s);
    return !s.n || ret->p;
}

bool frame_is_of_script(const struct frame *f)
{
    static const char *const suffixes[] = {".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".php", ".pl", ".pm", ".lua"};

    if (f->kind == FRAME_CPYTHON || f->kind == FRAME_V8JS || f->kind == FRAME_PHP || f->kind == FRAME_RUBY ||
        f->kind == FRAME_PERL || f->kind == FRAME_LUAJIT)
        return true;
    if (f->kind != FRAME_UNKNOWN || !f->file.n)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        if (str_ends(f->file, str_from(suffixes[i])))
            return true;
    return f->file.p[0] == '<'; /* Python's <string> and <frozen os> */
}

void frame_add_file(struct frame *f, const struct frame *other)
{
    bool differ = f->in_file.n && other->in_file.n && !str_eq(f->in_file, other->in_file);

    if (f->in_files)
        return;
    if (other->in_files || differ) {
        f->in_files = true;
        f->in_file = (struct str){0};
        f->in_line = 0;
    } else if (other->in_file.n) {
        f->in_file = f->in_file.n ? f->in_file : other->in_file;
        f->in_line = MAX(f->in_line, other->in_line);
    }
}

/* Adds the hints of an equal frame. They stay empty when memory runs out. */
static void add_hints(struct tree *t, struct frame *to, const struct frame *f)
{
    bool has_file = to->in_file.n > 0;

    if (unlikely(f->unlined.n && !to->unlined.n))
        to->unlined = arena_str(&t->arena, f->unlined);
    frame_add_file(to, f);
    if (to->in_file.n && !has_file)
        to->in_file = arena_str(&t->arena, f->in_file);
}

uint32_t tree_frame(struct tree *t, const struct frame *f)
{
    uint64_t h = frame_hash(f);
    struct frame *n;

    for (struct map_pos p = map_find(&t->frame_map, h); p.index != MAP_NONE; p = map_next(&t->frame_map, p))
        if (frame_eq(&t->frames[p.index], f)) {
            add_hints(t, &t->frames[p.index], f);
            return p.index;
        }
    if (array_reserve(t->frames, t->cap_frames, (size_t) t->n_frames + 1, FRAMES_MAX) < 0)
        return TREE_NONE;
    n = &t->frames[t->n_frames];
    *n = *f;
    if (!copy_str(&t->arena, f->function, &n->function) || !copy_str(&t->arena, f->system_name, &n->system_name) ||
        !copy_str(&t->arena, f->file, &n->file) || !copy_str(&t->arena, f->mapping, &n->mapping) ||
        !copy_str(&t->arena, f->build_id, &n->build_id) || !copy_str(&t->arena, f->home, &n->home) ||
        !copy_str(&t->arena, f->unlined, &n->unlined) || !copy_str(&t->arena, f->in_file, &n->in_file))
        return TREE_NONE;
    if (map_insert(&t->frame_map, h, t->n_frames) < 0)
        return TREE_NONE;
    return t->n_frames++;
}

static uint64_t node_hash(uint32_t parent, uint32_t frame)
{
    return hash64_u64((uint64_t) parent << 32 | frame);
}

/* Adds the nodes that tree_append() created to the map: it then holds all nodes but the root, in order. */
static int map_appended(struct tree *t)
{
    int r = map_reserve(&t->node_map, t->n_nodes);

    for (uint32_t i = t->node_map.n + 1; r == 0 && i < t->n_nodes; i++)
        r = map_insert(&t->node_map, node_hash(t->parent[i], t->frame[i]), i);
    return r;
}

uint32_t tree_append(struct tree *t, uint32_t parent, uint32_t frame)
{
    uint32_t n = t->n_nodes;

    if (n == t->cap_nodes && grow_nodes(t) < 0)
        return TREE_NONE;
    t->parent[n] = parent;
    t->frame[n] = frame;
    for (uint32_t c = 0; c < t->n_columns; c++)
        t->self[c][n] = t->total[c][n] = 0;
    if (t->folded)
        t->folded[n] = 0;
    return t->n_nodes++;
}

uint32_t tree_child(struct tree *t, uint32_t parent, uint32_t frame)
{
    uint64_t h = node_hash(parent, frame);
    uint32_t n;

    if (unlikely(t->node_map.n + 1 != t->n_nodes) && map_appended(t) < 0)
        return TREE_NONE;
    for (struct map_pos p = map_find(&t->node_map, h); p.index != MAP_NONE; p = map_next(&t->node_map, p))
        if (t->parent[p.index] == parent && t->frame[p.index] == frame)
            return p.index;
    n = tree_append(t, parent, frame);
    if (n == TREE_NONE)
        return TREE_NONE;
    if (map_insert(&t->node_map, h, n) < 0) {
        t->n_nodes--;
        return TREE_NONE;
    }
    return n;
}

void tree_sum_up(struct tree *t)
{
    for (uint32_t c = 0; c < t->n_columns; c++) {
        int64_t *total = t->total[c];

        memcpy(total, t->self[c], t->n_nodes * sizeof *total);
        for (uint32_t i = t->n_nodes; i-- > 1;)
            total[t->parent[i]] = wrap_add(total[t->parent[i]], total[i]);
    }
}

int tree_set_folded(struct tree *t, uint32_t node, uint32_t count)
{
    if (!t->folded) {
        t->folded = mem_zalloc_array(t->cap_nodes, sizeof *t->folded);
        if (!t->folded)
            return -ENOMEM;
    }
    t->folded[node] += count;
    return 0;
}

int tree_merge_selfs(struct tree *dst, uint32_t dst_column, const struct tree *src, uint32_t src_column)
{
    uint32_t *nodes = mem_alloc(src->n_nodes * sizeof *nodes), *frames = mem_alloc(src->n_frames * sizeof *frames);
    int r = nodes && frames ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < src->n_frames; i++)
        frames[i] = i == TREE_FOLDED ? TREE_FOLDED : TREE_NONE;
    if (r == 0)
        nodes[0] = 0;
    for (uint32_t i = 0; r == 0 && i < src->n_nodes; i++) {
        if (i) {
            uint32_t f = src->frame[i];

            if (frames[f] == TREE_NONE)
                frames[f] = tree_frame(dst, &src->frames[f]);
            nodes[i] = frames[f] == TREE_NONE ? TREE_NONE : tree_child(dst, nodes[src->parent[i]], frames[f]);
            if (nodes[i] == TREE_NONE) {
                r = -ENOMEM;
                break;
            }
        }
        dst->self[dst_column][nodes[i]] = wrap_add(dst->self[dst_column][nodes[i]], src->self[src_column][i]);
        if (src_column == 0 && src->folded && src->folded[i]) /* the number is that of all columns */
            r = tree_set_folded(dst, nodes[i], src->folded[i]);
    }
    mem_free(nodes);
    mem_free(frames);
    return r;
}

int tree_merge(struct tree *dst, uint32_t dst_column, const struct tree *src, uint32_t src_column)
{
    int r = tree_merge_selfs(dst, dst_column, src, src_column);

    if (r == 0)
        tree_sum_up(dst);
    return r;
}
