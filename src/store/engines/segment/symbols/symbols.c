/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of symbols, and looking up or adding the symbols of a batch; see symbols.h. Definitions are read in
 * symbols_apply.c. */
#include "store/engines/segment/symbols/symbols.h"

#include <errno.h>

#include "model/identity.h"
#include "model/semconv.h"
#include "model/tree.h"
#include "store/engines/segment/format/blobs.h"
#include "store/engines/segment/read/view.h"
#include "store/engines/segment/symbols/symbols_add.h"

#define NONE UINT32_MAX

static const struct arena_source pages = {paged_get, paged_put};

int symbols_new(uint32_t tenant, uint32_t epoch, struct symbols **ret)
{
    struct symbols *s = mem_zalloc(sizeof *s);
    int r = 0;

    if (!s)
        return -ENOMEM;
    s->tenant = tenant;
    s->epoch = epoch;
    s->refs = 1;
    arena_init(&s->arena, 0);
    s->arena.source = &pages;
    pinned_init(&s->strings, sizeof(struct str));
    pinned_init(&s->mappings, sizeof(struct sym_mapping));
    pinned_init(&s->functions, sizeof(struct sym_function));
    pinned_init(&s->locations, sizeof(struct sym_location));
    pinned_init(&s->services, sizeof(struct sym_service *));
    pinned_init(&s->series, sizeof(struct sym_series));
    s->replaying = true; /* entry 0 of each exists without a definition */
    if (sym_add_string(s, (struct str){0}) == NONE || sym_add_mapping(s, &(struct sym_mapping){0}) == NONE ||
        sym_add_function(s, &(struct sym_function){0}) == NONE ||
        sym_add_location(s, &(struct sym_location){0}, NULL, 0) == NONE)
        r = -ENOMEM;
    s->replaying = false;
    if (r < 0)
        symbols_unref(s);
    else
        *ret = s;
    return r;
}

struct symbols *symbols_ref(struct symbols *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static void service_free(struct lru *lru, struct sym_service *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(v->views); i++)
        view_free(lru, v->views[i]);
    pthread_rwlock_destroy(&v->view_lock);
    pinned_done(&v->nodes);
    map_done(&v->node_map);
    mem_free(v->stacks);
    mem_free(v);
}

void symbols_unref(struct symbols *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < pinned_count(&s->services); i++)
        service_free(s->lru, sym_service(s, i));
    pinned_done(&s->strings);
    pinned_done(&s->mappings);
    pinned_done(&s->functions);
    pinned_done(&s->locations);
    pinned_done(&s->services);
    pinned_done(&s->series);
    map_done(&s->string_map);
    map_done(&s->mapping_map);
    map_done(&s->function_map);
    map_done(&s->location_map);
    map_done(&s->series_map);
    map_done(&s->service_map);
    idmap_done(&s->location_prints);
    buf_done(&s->defs);
    arena_done(&s->arena);
    mem_free(s);
}

/* --- adding one item, with its definition --- */

/* While definitions are replayed: returns the number of one that already exists. */
static uint32_t next_known(struct symbols *s, int kind, const struct pinned *table)
{
    return pinned_count(table) - s->known[kind]--;
}

uint32_t sym_add_string(struct symbols *s, struct str v)
{
    struct str *at, copy;

    if (s->known[0])
        return next_known(s, 0, &s->strings);
    at = pinned_next(&s->strings);
    copy = arena_str(&s->arena, v);
    if (!at || (v.n && !copy.p) || !sym_room(s, 1 + VARINT_MAX + v.n))
        return NONE;
    *at = copy;
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_STRING);
        put_bytes(&s->defs, v.p, v.n);
    }
    return pinned_publish(&s->strings);
}

uint32_t sym_add_mapping(struct symbols *s, const struct sym_mapping *m)
{
    struct sym_mapping *at = pinned_next(&s->mappings);

    if (s->known[1])
        return next_known(s, 1, &s->mappings);
    if (!at || !sym_room(s, 1 + 3 * VARINT_MAX))
        return NONE;
    *at = *m;
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_MAPPING);
        put_varint(&s->defs, m->build_id);
        put_varint(&s->defs, m->id_kind);
        put_varint(&s->defs, m->filename);
    }
    return pinned_publish(&s->mappings);
}

uint32_t sym_add_function(struct symbols *s, const struct sym_function *f)
{
    struct sym_function *at = pinned_next(&s->functions);

    if (s->known[2])
        return next_known(s, 2, &s->functions);
    if (!at || !sym_room(s, 1 + 4 * VARINT_MAX))
        return NONE;
    *at = *f;
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_FUNCTION);
        put_varint(&s->defs, f->name);
        put_varint(&s->defs, f->system_name);
        put_varint(&s->defs, f->file);
        put_zigzag(&s->defs, f->start_line);
    }
    return pinned_publish(&s->functions);
}

static void put_lines(struct buf *b, const struct sym_line *lines, uint32_t n)
{
    put_varint(b, n);
    for (uint32_t i = 0; i < n; i++) {
        put_varint(b, lines[i].function);
        put_zigzag(b, lines[i].line);
        put_zigzag(b, lines[i].column);
    }
}

static struct sym_lines *keep_lines(struct symbols *s, const struct sym_line *lines, uint32_t n)
{
    struct sym_lines *l = arena_alloc(&s->arena, sizeof *l + n * sizeof *lines);

    if (!l)
        return NULL;
    l->n = n;
    memcpy(l->v, lines, n * sizeof *lines);
    return l;
}

uint32_t sym_add_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint32_t n)
{
    struct sym_location *at;
    struct sym_lines *kept;

    if (s->known[3])
        return next_known(s, 3, &s->locations);
    at = pinned_next(&s->locations);
    kept = n ? keep_lines(s, lines, n) : NULL;
    if (!at || (n && !kept) || !sym_room(s, 1 + (6 + 3 * (size_t) n) * VARINT_MAX))
        return NONE;
    at->address = l->address;
    at->mapping = l->mapping;
    at->kind = l->kind;
    at->flags = l->flags;
    at->attrs = l->attrs;
    atomic_store_explicit(&at->lines, kept, memory_order_relaxed);
    s->n_unlined += l->address && sym_rank(s, lines, n) == RANK_NAMES;
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_LOCATION);
        put_varint(&s->defs, l->mapping);
        put_varint(&s->defs, l->address);
        put_varint(&s->defs, l->kind);
        put_varint(&s->defs, l->flags);
        put_varint(&s->defs, l->attrs);
        put_lines(&s->defs, lines, n);
    }
    return pinned_publish(&s->locations);
}

int symbols_name(struct symbols *s, uint32_t location, const struct sym_line *lines, uint32_t n)
{
    struct sym_location *l = sym_location(s, location);
    enum sym_rank before = sym_lines_rank(s, atomic_load_explicit(&l->lines, memory_order_relaxed)),
                  after = sym_rank(s, lines, n);
    struct sym_lines *kept;

    if (after <= before)
        return 0;
    kept = keep_lines(s, lines, n);
    if (!kept || !sym_room(s, 1 + (2 + 3 * (size_t) n) * VARINT_MAX))
        return -ENOMEM;
    if (l->address)
        s->n_unlined += (after == RANK_NAMES) - (uint32_t) (before == RANK_NAMES);
    atomic_store_explicit(&l->lines, kept, memory_order_release);
    atomic_fetch_add_explicit(&s->names_generation, 1, memory_order_release);
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_NAMES);
        put_varint(&s->defs, location);
        put_lines(&s->defs, lines, n);
    }
    return 0;
}

uint32_t sym_add_service(struct symbols *s, uint32_t name)
{
    struct sym_service **at, *v;
    struct sym_node *root;

    if (s->known[4])
        return next_known(s, 4, &s->services);
    at = pinned_next(&s->services);
    v = mem_zalloc(sizeof *v);
    if (!at || !v || !sym_room(s, 1 + VARINT_MAX)) {
        mem_free(v);
        return NONE;
    }
    v->name = name;
    pthread_rwlock_init(&v->view_lock, NULL);
    pinned_init(&v->nodes, sizeof(struct sym_node));
    root = pinned_next(&v->nodes);
    if (!root) {
        service_free(NULL, v);
        return NONE;
    }
    *root = (struct sym_node){0, 0};
    pinned_publish(&v->nodes);
    *at = v;
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_SERVICE);
        put_varint(&s->defs, name);
    }
    return pinned_publish(&s->services);
}

uint32_t sym_add_series(struct symbols *s, uint32_t service, const uint32_t *strings, enum type_rule rule,
                        uint32_t n_labels)
{
    struct sym_series *at;
    struct label *v;

    if (s->known[5])
        return next_known(s, 5, &s->series);
    at = pinned_next(&s->series);
    v = arena_zalloc_array(&s->arena, n_labels + 1, sizeof *v);
    if (!at || !v || !sym_room(s, 1 + (5 + 2 * (size_t) n_labels) * VARINT_MAX))
        return NONE;
    for (uint32_t i = 0; i < n_labels; i++)
        v[i] = (struct label){sym_string(s, strings[2 + 2 * i]), sym_string(s, strings[3 + 2 * i])};
    at->service = service;
    at->type_name = strings[0];
    if (!type_by_name(sym_string(s, strings[0]), &at->type) || !str_eq(at->type.name, sym_string(s, strings[0])))
        at->type = (struct type){.name = sym_string(s, strings[0]),
                                 .unit = sym_string(s, strings[1]),
                                 .rule = rule,
                                 .pprof_type = sym_string(s, strings[0]),
                                 .pprof_unit = sym_string(s, strings[1]),
                                 .title = sym_string(s, strings[0])};
    at->labels = (struct labels){v, n_labels};
    at->labels_id = labels_id(&at->labels);
    if (!s->replaying) {
        buf_putc(&s->defs, DEF_SERIES);
        put_varint(&s->defs, service);
        put_varint(&s->defs, strings[0]);
        put_varint(&s->defs, strings[1]);
        put_varint(&s->defs, rule);
        put_varint(&s->defs, n_labels);
        for (uint32_t i = 0; i < 2 * n_labels; i++)
            put_varint(&s->defs, strings[2 + i]);
    }
    return pinned_publish(&s->series);
}

/* --- lookups for the writer --- */

/* The maps are needed only for writing. They are brought up to date here, so that opening read-only builds none. */
static int catch_up_strings(struct symbols *s)
{
    uint32_t n = pinned_count(&s->strings);
    int r = s->mapped[0] < n ? map_reserve(&s->string_map, n) : 0;

    for (; r == 0 && s->mapped[0] < n; s->mapped[0]++)
        r = map_insert(&s->string_map, hash64_str(sym_string(s, s->mapped[0])), s->mapped[0]);
    return r;
}

uint32_t symbols_string(struct symbols *s, struct str v)
{
    uint64_t h;

    if (!v.n)
        return 0;
    if (catch_up_strings(s) < 0)
        return NONE;
    h = hash64_str(v);
    for (struct map_pos p = map_find(&s->string_map, h); p.index != MAP_NONE; p = map_next(&s->string_map, p))
        if (str_eq(sym_string(s, p.index), v))
            return p.index;
    return sym_add_string(s, v);
}

static uint64_t mapping_hash(uint32_t key, bool is_id)
{
    return hash64_u64((uint64_t) key << 1 | is_id);
}

static uint32_t find_mapping(struct symbols *s, const struct sym_mapping *m)
{
    bool is_id = m->build_id != 0;
    uint32_t key = is_id ? m->build_id : m->filename, n = pinned_count(&s->mappings);
    uint64_t h = mapping_hash(key, is_id);

    for (; s->mapped[1] < n; s->mapped[1]++) {
        const struct sym_mapping *x = pinned_at(&s->mappings, s->mapped[1]);

        if (map_insert(&s->mapping_map, mapping_hash(x->build_id ? x->build_id : x->filename, x->build_id != 0),
                       s->mapped[1]) < 0)
            return NONE;
    }
    for (struct map_pos p = map_find(&s->mapping_map, h); p.index != MAP_NONE; p = map_next(&s->mapping_map, p)) {
        const struct sym_mapping *x = pinned_at(&s->mappings, p.index);

        if (is_id ? x->build_id == key : !x->build_id && x->filename == key)
            return p.index;
    }
    return sym_add_mapping(s, m);
}

static uint64_t function_hash(const struct sym_function *f)
{
    return hash_mix(hash64_u64((uint64_t) f->name << 32 | f->system_name),
                    hash64_u64((uint64_t) f->file << 32 ^ (uint64_t) f->start_line));
}

uint32_t symbols_function(struct symbols *s, const struct sym_function *f)
{
    uint32_t n = pinned_count(&s->functions);
    uint64_t h = function_hash(f);

    for (; s->mapped[2] < n; s->mapped[2]++)
        if (map_insert(&s->function_map, function_hash(pinned_at(&s->functions, s->mapped[2])), s->mapped[2]) < 0)
            return NONE;
    for (struct map_pos p = map_find(&s->function_map, h); p.index != MAP_NONE; p = map_next(&s->function_map, p)) {
        const struct sym_function *x = pinned_at(&s->functions, p.index);

        if (x->name == f->name && x->system_name == f->system_name && x->file == f->file &&
            x->start_line == f->start_line)
            return p.index;
    }
    return sym_add_function(s, f);
}

/* A native location is identified by its address in its binary; others by their kind and lines, as in identity.h. */
static bool is_native(uint64_t address, uint32_t mapping, uint32_t n_lines)
{
    return address && (mapping || !n_lines);
}

static uint64_t location_hash(uint64_t address, uint32_t mapping, uint8_t kind, const struct sym_line *lines,
                              uint32_t n)
{
    uint64_t h;

    if (is_native(address, mapping, n))
        return hash_mix(hash64_u64(address), 0x9e3779b97f4a7c15ull ^ mapping);
    h = hash64_u64(kind) ^ (n ? 0 : hash64_u64(~(uint64_t) mapping));
    for (uint32_t i = 0; i < n; i++)
        h = hash_mix(h ^ lines[i].function, 0xe7037ed1a0b428dbull ^ (uint64_t) lines[i].line);
    return h;
}

static bool location_eq(const struct sym_location *x, const struct sym_location *l, const struct sym_line *lines,
                        uint32_t n)
{
    const struct sym_lines *xl = atomic_load_explicit(&x->lines, memory_order_relaxed);

    if (x->mapping != l->mapping && (is_native(l->address, l->mapping, n) || !n))
        return false;
    if (is_native(l->address, l->mapping, n))
        return x->address == l->address;
    if (x->address != l->address || x->kind != l->kind || (xl ? xl->n : 0) != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (xl->v[i].function != lines[i].function || xl->v[i].line != lines[i].line)
            return false;
    return true;
}

static int catch_up_locations(struct symbols *s)
{
    uint32_t n = pinned_count(&s->locations);
    int r = s->mapped[3] < n ? map_reserve(&s->location_map, n) : 0;

    for (; r == 0 && s->mapped[3] < n; s->mapped[3]++) {
        const struct sym_location *x = sym_location(s, s->mapped[3]);
        const struct sym_lines *xl = atomic_load_explicit(&x->lines, memory_order_relaxed);

        r = map_insert(&s->location_map,
                       location_hash(x->address, x->mapping, x->kind, xl ? xl->v : NULL, xl ? xl->n : 0), s->mapped[3]);
    }
    return r;
}

static uint32_t find_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint32_t n,
                              bool add)
{
    uint64_t h = location_hash(l->address, l->mapping, l->kind, lines, n);

    if (catch_up_locations(s) < 0)
        return NONE;
    for (struct map_pos p = map_find(&s->location_map, h); p.index != MAP_NONE; p = map_next(&s->location_map, p))
        if (p.index && location_eq(sym_location(s, p.index), l, lines, n)) {
            if (n && is_native(l->address, l->mapping, n) && add && symbols_name(s, p.index, lines, n) < 0)
                return NONE;
            return p.index;
        }
    return add ? sym_add_location(s, l, lines, n) : NONE;
}

uint32_t symbols_find_binary(const struct symbols *s, struct str build_id)
{
    uint32_t n = pinned_count(&s->mappings);

    for (uint32_t i = 1; i < n; i++) {
        const struct sym_mapping *m = pinned_at(&s->mappings, i);

        if (m->build_id && str_eq(sym_string(s, m->build_id), build_id))
            return i;
    }
    return NONE;
}

uint32_t symbols_find_native(struct symbols *s, uint32_t mapping, uint64_t address)
{
    return find_location(s, &(struct sym_location){.address = address, .mapping = mapping}, NULL, 0, false);
}

/* --- from a batch --- */

int sym_memo_init(struct sym_memo *m, const struct batch *b, struct arena *a)
{
    *m = (struct sym_memo){.batch = b, .arena = a};
    return fingerprints_init(&m->prints, b, a);
}

/* Called for a new stack, which needs numbers. */
int sym_memo_tables(struct sym_memo *m)
{
    const struct dict *d = &m->batch->dict;
    uint32_t depth = 1;

    if (m->scratch)
        return 0;
    m->strings = arena_zalloc_array(m->arena, d->n_strings, sizeof *m->strings);
    m->mappings = arena_zalloc_array(m->arena, d->n_mappings, sizeof *m->mappings);
    m->functions = arena_zalloc_array(m->arena, d->n_functions, sizeof *m->functions);
    m->locations = arena_zalloc_array(m->arena, d->n_locations, sizeof *m->locations);
    for (uint32_t i = 0; i < d->n_stacks; i++)
        depth = MAX(depth, d->stacks[i].n);
    if (!m->strings || !m->mappings || !m->functions || !m->locations)
        return -ENOMEM;
    m->scratch = arena_alloc(m->arena, depth * sizeof *m->scratch);
    return m->scratch ? 0 : -ENOMEM;
}

static uint32_t memo_string(struct symbols *s, struct sym_memo *m, uint32_t i)
{
    if (!m->strings[i])
        m->strings[i] = symbols_string(s, m->batch->dict.strings[i]) + 1;
    return m->strings[i] - 1;
}

static uint32_t memo_mapping(struct symbols *s, struct sym_memo *m, uint32_t i)
{
    static const struct str keys[] = {
        {0}, STR(SEMCONV_BUILD_ID_GNU), STR(SEMCONV_BUILD_ID_GO), STR(SEMCONV_BUILD_ID_HTLHASH)};
    const struct mapping *x = &m->batch->dict.mappings[i];
    struct sym_mapping y = {0};

    if (!i)
        return 0;
    if (!m->mappings[i]) {
        struct str id = identity_build_id(m->batch, i);

        y.build_id = symbols_string(s, id);
        y.filename = memo_string(s, m, x->filename);
        for (uint8_t k = 3; k > 0 && id.n; k--) {
            const struct attr *a = batch_attr(m->batch, x->attrs, keys[k]);

            if (a && str_eq(value_str(&a->value), id))
                y.id_kind = k;
        }
        if (y.build_id == NONE || y.filename == NONE)
            return NONE;
        m->mappings[i] = find_mapping(s, &y) + 1;
    }
    return m->mappings[i] - 1;
}

static uint32_t memo_function(struct symbols *s, struct sym_memo *m, uint32_t i)
{
    const struct function *x = &m->batch->dict.functions[i];
    struct sym_function f;

    if (!i)
        return 0;
    if (!m->functions[i]) {
        f = (struct sym_function){memo_string(s, m, x->name), memo_string(s, m, x->system_name),
                                  memo_string(s, m, x->filename), x->start_line};
        if (f.name == NONE || f.system_name == NONE || f.file == NONE)
            return NONE;
        m->functions[i] = symbols_function(s, &f) + 1;
    }
    return m->functions[i] - 1;
}

enum { LINES_MAX = 256 };

/* Looks a location up by its strings and functions. */
static uint32_t look_up_location(struct symbols *s, struct sym_memo *m, uint32_t i)
{
    const struct location *x = &m->batch->dict.locations[i];
    _uninit_ struct sym_line lines[LINES_MAX];
    struct sym_location l = {0};
    uint32_t n = MIN(x->lines.n, (uint32_t) LINES_MAX);
    const struct attr *kind;

    l.mapping = memo_mapping(s, m, x->mapping);
    if (l.mapping == NONE)
        return NONE;
    l.address = x->address ? identity_elf_address(&m->batch->dict.mappings[x->mapping], x->address) : 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct line *y = &m->batch->dict.lines[x->lines.off + k];

        lines[k] = (struct sym_line){memo_function(s, m, y->function), y->line, y->column};
        if (lines[k].function == NONE)
            return NONE;
    }
    kind = x->attrs.n ? batch_attr(m->batch, x->attrs, STR(SEMCONV_FRAME_TYPE)) : NULL;
    if (kind)
        l.kind = (uint8_t) frame_kind_parse(value_str(&kind->value));
    if (x->attrs.n > (l.kind ? 1 : 0)) {
        _cleanup_(buf_done) struct buf attrs = BUF_INIT;

        blob_attrs_encode(&attrs, m->batch, x->attrs, l.kind ? STR(SEMCONV_FRAME_TYPE) : (struct str){0});
        l.attrs = buf_error(&attrs) < 0 ? NONE : symbols_string(s, buf_str(&attrs));
        if (l.attrs == NONE)
            return NONE;
    }
    return find_location(s, &l, lines, n, true);
}

/* How much the batch itself contains about one of its locations. */
static enum sym_rank batch_rank(const struct batch *b, const struct location *x)
{
    for (uint32_t k = 0; k < x->lines.n; k++) {
        const struct line *y = &b->dict.lines[x->lines.off + k];

        if (y->line || b->dict.functions[y->function].filename)
            return RANK_LINES;
    }
    return x->lines.n ? RANK_NAMES : RANK_NONE;
}

static enum sym_rank rank_of(const struct symbols *s, uint32_t location)
{
    return sym_lines_rank(s, atomic_load_explicit(&sym_location(s, location)->lines, memory_order_relaxed));
}

/* Many new stacks consist of known locations, which are found by their fingerprint, unless the batch contains more
 * about one than is known. */
uint32_t symbols_location(struct symbols *s, struct sym_memo *m, uint32_t i)
{
    struct id128 print = m->prints.locations[i];
    uint32_t n;

    if (m->locations[i])
        return m->locations[i] - 1;
    n = id128_is_zero(print) ? NONE : idmap_find(&s->location_prints, print);
    if (n == NONE || batch_rank(m->batch, &m->batch->dict.locations[i]) > rank_of(s, n)) {
        bool known = n != NONE;

        n = look_up_location(s, m, i);
        if (n != NONE && !known && !id128_is_zero(print))
            idmap_put(&s->location_prints, print, n); /* if memory runs out, it is only slower */
    }
    m->locations[i] = n + 1;
    return n;
}

/* A known stack is found without looking at its locations (symbols_tree.c), so lines that have arrived since are added
 * here. */
int symbols_improve(struct symbols *s, struct sym_memo *m)
{
    const struct dict *d = &m->batch->dict;

    for (uint32_t i = 1; i < d->n_locations && s->n_unlined && d->n_lines; i++) {
        const struct location *l = &d->locations[i];
        uint32_t n;

        if (!l->address || id128_is_zero(m->prints.locations[i]) || (m->scratch && m->locations[i]) ||
            batch_rank(m->batch, l) != RANK_LINES)
            continue;
        n = idmap_find(&s->location_prints, m->prints.locations[i]);
        if (n == NONE || rank_of(s, n) != RANK_NAMES)
            continue;
        if (sym_memo_tables(m) < 0 || symbols_location(s, m, i) == NONE)
            return -ENOMEM;
    }
    return 0;
}

uint32_t symbols_series(struct symbols *s, const struct type *t, const struct labels *l, struct id128 id)
{
    uint32_t n = pinned_count(&s->series), strings[2 + 2 * 64], service, name;
    uint64_t h = hash64_id(id) ^ hash64_str(t->name);

    for (; s->mapped[4] < n; s->mapped[4]++) {
        const struct sym_series *x = sym_series(s, s->mapped[4]);

        if (map_insert(&s->series_map, hash64_id(x->labels_id) ^ hash64_str(x->type.name), s->mapped[4]) < 0)
            return NONE;
    }
    for (struct map_pos p = map_find(&s->series_map, h); p.index != MAP_NONE; p = map_next(&s->series_map, p))
        if (id128_eq(sym_series(s, p.index)->labels_id, id) && str_eq(sym_series(s, p.index)->type.name, t->name))
            return p.index;
    name = symbols_string(s, labels_get(l, STR(SEMCONV_SERVICE_NAME)));
    if (name == NONE || l->n > 64)
        return NONE;
    n = pinned_count(&s->services);
    for (service = 0; service < n && sym_service(s, service)->name != name;)
        service++;
    if (service == n)
        service = sym_add_service(s, name);
    strings[0] = symbols_string(s, t->name);
    strings[1] = symbols_string(s, t->unit);
    for (uint32_t i = 0; i < l->n; i++) {
        strings[2 + 2 * i] = symbols_string(s, l->v[i].name);
        strings[3 + 2 * i] = symbols_string(s, l->v[i].value);
    }
    for (uint32_t i = 0; i < 2 + 2 * l->n; i++)
        if (strings[i] == NONE)
            return NONE;
    return service == NONE ? NONE : sym_add_series(s, service, strings, t->rule, l->n);
}
