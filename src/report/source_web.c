/* SPDX-License-Identifier: Apache-2.0 */
/*
 * -weblist: source and instructions of functions that match. This file finds which addresses are of interest, the
 * ranges of instructions around them, and under which file and line each instruction is shown (also under those of
 * calls that were inlined around it, when they match).
 */
#include "report/source_web.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/gopath.h"

enum {
    EXPAND = 500,      /* bytes of instructions shown around an address */
    RANGES_MAX = 25,   /* ranges disassembled, those with the most samples */
    NEIGHBORHOOD = 32, /* an instruction without a line takes the line of one at most this far before it */
};

uint32_t web_names_find(const struct web_names *s, struct str name)
{
    for (struct map_pos p = map_find(&s->map, hash64_str(name)); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (str_eq(s->v[p.index], name))
            return p.index;
    return MAP_NONE;
}

static int names_add(struct web_names *s, struct str name, uint32_t *ret)
{
    int r;

    *ret = web_names_find(s, name);
    if (*ret != MAP_NONE)
        return 0;
    r = array_reserve(s->v, s->cap, s->n + 1, UINT32_MAX);
    if (r >= 0)
        r = array_reserve(s->other, s->cap_other, s->n + 1, UINT32_MAX);
    if (r >= 0)
        r = map_insert(&s->map, hash64_str(name), (uint32_t) s->n);
    if (r < 0)
        return r;
    s->v[s->n] = name;
    s->other[s->n] = (struct str){0};
    *ret = (uint32_t) s->n++;
    return 0;
}

static void names_done(struct web_names *s)
{
    mem_free(s->v);
    mem_free(s->other);
    map_done(&s->map);
}

static struct web_place *find_place(const struct web *w, uint64_t address)
{
    for (struct map_pos p = map_find(&w->place_map, hash64_u64(address)); p.index != MAP_NONE;
         p = map_next(&w->place_map, p))
        if (w->places[p.index].address == address)
            return &w->places[p.index];
    return NULL;
}

static int place_of(struct web *w, uint64_t address, uint32_t location, struct web_place **ret)
{
    int r;

    *ret = find_place(w, address);
    if (*ret)
        return 0;
    r = array_reserve(w->places, w->cap_places, w->n_places + 1, UINT32_MAX);
    if (r >= 0)
        r = map_insert(&w->place_map, hash64_u64(address), (uint32_t) w->n_places);
    if (r < 0)
        return r;
    *ret = &w->places[w->n_places++];
    **ret = (struct web_place){.address = address, .location = location};
    return 0;
}

const struct web_inst *web_find_inst(const struct web *w, uint64_t address)
{
    for (struct map_pos p = map_find(&w->inst_map, hash64_u64(address)); p.index != MAP_NONE;
         p = map_next(&w->inst_map, p))
        if (w->insts[p.index].address == address)
            return &w->insts[p.index];
    return NULL;
}

static int add_inst(struct web *w, const struct web_inst *x, uint32_t *ret)
{
    const struct web_inst *old = web_find_inst(w, x->address);
    int r = 0;

    if (old) {
        *ret = (uint32_t) (old - w->insts);
        w->insts[*ret] = *x;
        return 0;
    }
    r = array_reserve(w->insts, w->cap_insts, w->n_insts + 1, UINT32_MAX);
    if (r >= 0)
        r = map_insert(&w->inst_map, hash64_u64(x->address), (uint32_t) w->n_insts);
    if (r < 0)
        return r;
    *ret = (uint32_t) w->n_insts;
    w->insts[w->n_insts++] = *x;
    return 0;
}

/* --- samples --- */

/* The function of lines[index] of the location is one to show. */
static int mark(struct web *w, uint64_t address, uint32_t location, uint32_t index)
{
    struct prof *p = w->r->prof;
    const struct prof_location *l = &p->locations[location];
    const struct line *line = &p->lines[l->lines.off + index];
    const struct prof_function *f = &p->functions[line->function];
    const struct prof_mapping *m = &p->mappings[l->mapping];
    struct report_mapping where = {prof_str(p, m->file), m->start, m->limit, m->offset};
    struct web_place *place;
    uint32_t unused;
    int r;

    if (!line->function)
        return 0;
    r = names_add(&w->interest, prof_str(p, f->name), &unused);
    if (r >= 0)
        r = names_add(&w->interest, prof_str(p, f->system_name), &unused);
    if (r >= 0)
        r = place_of(w, address, location, &place);
    if (r < 0 || place->interesting)
        return r;
    place->interesting = true;
    place->location = location;
    if (l->mapping && w->objects && w->objects->open(w->objects, &where, &place->object, NULL) < 0)
        place->object = NULL;
    return 0;
}

static bool line_matches(const struct web *w, const struct line *line)
{
    const struct prof *p = w->r->prof;
    const struct prof_function *f = &p->functions[line->function];

    return line->function && (regex_search(w->r->o.symbol, prof_str(p, f->name)) ||
                              regex_search(w->r->o.symbol, prof_str(p, f->system_name)) ||
                              regex_search(w->r->o.symbol, prof_str(p, f->filename)));
}

static int remember_names(struct web *w, const struct prof_location *l)
{
    struct prof *p = w->r->prof;

    for (uint32_t i = 0; i < l->lines.n; i++) {
        const struct prof_function *f = &p->functions[p->lines[l->lines.off + i].function];
        uint32_t at;
        int r;

        if (!p->lines[l->lines.off + i].function)
            continue;
        r = names_add(&w->pretty, prof_str(p, f->system_name), &at);
        if (r < 0)
            return r;
        w->pretty.other[at] = prof_str(p, f->name);
    }
    return 0;
}

static uint64_t address_of(struct web *w, uint32_t location)
{
    if (w->r->prof->locations[location].address)
        return w->r->prof->locations[location].address;
    if (!w->made_up[location])
        w->made_up[location] = w->next_made_up++;
    return w->made_up[location];
}

/* Adds a value to the location and marks what matches in it. asked: the expression as an address. */
static int visit_location(struct web *w, uint32_t location, int64_t value, bool leaf, const uint64_t *asked)
{
    struct prof *p = w->r->prof;
    const struct prof_location *l = &p->locations[location];
    uint64_t address = address_of(w, location);
    struct web_place *place;
    bool file_matches;
    int r = remember_names(w, l);

    if (r >= 0)
        r = place_of(w, address, location, &place);
    if (r < 0)
        return r;
    place->cum += value;
    if (leaf)
        place->flat += value;
    if (!w->r->o.symbol || (asked && address == *asked))
        return l->lines.n ? mark(w, address, location, l->lines.n - 1) : 0;
    file_matches = l->mapping && regex_search(w->r->o.symbol, prof_str(p, p->mappings[l->mapping].file));
    for (uint32_t i = 0; i < l->lines.n && r >= 0; i++)
        if ((i == 0 && file_matches) || line_matches(w, &p->lines[l->lines.off + i]))
            r = mark(w, address, location, i);
    return r;
}

static int visit_samples(struct web *w)
{
    struct prof *p = w->r->prof;
    uint64_t number;
    const uint64_t *asked = source_parse_address(w->r->o.symbol_text, &number) ? &number : NULL;

    w->next_made_up = 1;
    for (size_t i = 1; i < p->n_mappings; i++)
        w->next_made_up = MAX(w->next_made_up, p->mappings[i].limit);
    w->made_up = mem_zalloc_array(p->n_locations + 1, sizeof(*w->made_up));
    if (!w->made_up)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct prof_sample *s = &p->samples[i];
        const int64_t *values = prof_sample_values(p, s);
        const uint32_t *frames = prof_sample_frames(p, s);
        int64_t value = values[w->r->o.value];

        if (w->r->o.mean && values[0])
            value /= values[0];
        for (uint32_t k = s->frames.n; k > 0; k--) {
            int r = visit_location(w, frames[k - 1], value, k == 1, asked);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* --- instructions --- */

/* The name under which a file is shown. */
static int canonical_name(struct web *w, struct str file, struct str *ret)
{
    _cleanup_(buf_done) struct buf clean = BUF_INIT;

    if (str_starts(file, STR("/proc/self/cwd/")))
        file = str_slice(file, 15, file.n);
    if (str_starts(file, STR("./")))
        file = str_slice(file, 2, file.n);
    gopath_clean(&clean, file);
    *ret = arena_str(&w->arena, buf_str(&clean));
    return ret->p ? 0 : -ENOMEM;
}

static int file_of(struct web *w, struct str name, struct web_file **ret)
{
    struct str clean;
    int r = canonical_name(w, name, &clean);

    if (r < 0)
        return r;
    for (size_t i = 0; i < w->n_files; i++)
        if (str_eq(w->files[i].name, clean)) {
            *ret = &w->files[i];
            return 0;
        }
    r = array_reserve(w->files, w->cap_files, w->n_files + 1, UINT32_MAX);
    if (r < 0)
        return r;
    *ret = &w->files[w->n_files++];
    **ret = (struct web_file){.name = clean};
    return 0;
}

/* The calls between frame i and the instruction, caller first. */
static int add_calls(struct web *w, const struct report_frame *frames, uint32_t i, uint32_t *ret)
{
    *ret = (uint32_t) w->n_calls;
    for (uint32_t k = i; k > 0; k--) {
        int r = array_push(w->calls, w->n_calls, w->cap_calls, UINT32_MAX,
                           (struct web_call){frames[k - 1].file, frames[k - 1].line});

        if (r < 0)
            return r;
    }
    return 0;
}

/* Shows the instruction under each frame that is of interest. */
static int add_uses(struct web *w, uint32_t inst, const struct report_frame *frames, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct web_file *f;
        uint32_t first;
        int r;

        if (web_names_find(&w->interest, frames[i].function) == MAP_NONE)
            continue;
        r = file_of(w, frames[i].file, &f);
        if (r >= 0)
            r = add_calls(w, frames, i, &first);
        if (r >= 0)
            r = array_reserve(f->uses, f->cap, f->n + 1, UINT32_MAX);
        if (r < 0)
            return r;
        f->uses[f->n] = (struct web_use){frames[i].line, frames[i].function, inst, first, i, (uint32_t) f->n};
        f->n++;
    }
    return 0;
}

/* An address without a binary: its frames are the profile's. */
static int add_bare_place(struct web *w, const struct web_place *place)
{
    struct prof *p = w->r->prof;
    const struct prof_location *l = &p->locations[place->location];
    struct web_inst x = {.address = place->address, .object_address = place->address, .length = 1};
    struct report_frame *frames = arena_zalloc_array(&w->arena, l->lines.n + 1, sizeof(*frames));
    uint32_t n = 0, at;
    int r;

    if (!frames)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->lines.n; i++) {
        const struct line *line = &p->lines[l->lines.off + i];
        const struct prof_function *f = &p->functions[line->function];

        if (line->function)
            frames[n++] = (struct report_frame){prof_str(p, f->name), prof_str(p, f->filename), line->line};
    }
    if (n) {
        x.file = frames[0].file;
        x.line = frames[0].line;
    }
    r = add_inst(w, &x, &at);
    return r < 0 ? r : add_uses(w, at, frames, n);
}

struct web_range {
    uint64_t begin, end;
    struct report_object *object;
    int64_t score;
    uint32_t order;
    const struct prof_mapping *mapping;
};

struct expansion {
    struct report_frames last;
    uint64_t last_address, max;
};

static int add_instruction(struct web *w, const struct web_range *range, const struct report_insts *insts, uint32_t i,
                           uint64_t base, struct expansion *x)
{
    const struct report_inst *in = &insts->v[i];
    uint64_t address = in->address + base;
    struct report_frame made = {in->function, in->file, in->line};
    struct web_inst out = {.address = address, .object_address = in->address, .length = 1, .text = in->text};
    struct report_frames frames;
    uint32_t at;
    int r;

    if (address <= x->max) /* a duplicate */
        return 0;
    x->max = address;
    if (i + 1 < insts->n && in[1].address > in->address)
        out.length = in[1].address - in->address;
    r = w->objects->lines(range->object, address, &frames);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        frames = (struct report_frames){&made, 1};
    if (frames.n) {
        out.file = frames.v[0].file;
        out.line = frames.v[0].line;
    }
    r = add_inst(w, &out, &at);
    if (r < 0)
        return r;
    if (frames.n && frames.v[0].line) {
        x->last = frames;
        x->last_address = address;
        if (frames.v == &made) {
            x->last.v = arena_zalloc_array(&w->arena, 1, sizeof(made));
            if (!x->last.v)
                return -ENOMEM;
            *x->last.v = made;
        }
    } else if (address - x->last_address <= NEIGHBORHOOD && x->last.v) {
        frames = x->last;
    }
    return add_uses(w, at, frames.v, frames.n);
}

static int expand(struct web *w, const struct web_range *range)
{
    struct expansion x = {0};
    struct report_insts insts;
    uint64_t begin, end;

    if (w->objects->address(range->object, range->begin, &begin) < 0 ||
        w->objects->address(range->object, range->end, &end) < 0)
        return 0;
    if (w->objects->disassemble(range->object, begin, end, w->r->o.intel_syntax, &insts, NULL) < 0)
        return 0;
    for (uint32_t i = 0; i < insts.n; i++) {
        int r = add_instruction(w, range, &insts, i, range->begin - begin, &x);

        if (r < 0)
            return r;
    }
    return 0;
}

static int compare_addresses(const void *a, const void *b)
{
    const struct web_place *x = *(const struct web_place *const *) a, *y = *(const struct web_place *const *) b;

    return x->address < y->address ? -1 : x->address > y->address;
}

static int compare_scores(const void *a, const void *b)
{
    const struct web_range *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Widens a range within its mapping. What is subtracted at its start is pprof's: an address is never before the start of
 * its mapping, so that nearly every range begins EXPAND bytes before its first address. */
static void widen_range(struct web_range *r)
{
    bool before = r->mapping->start - r->begin >= EXPAND, after = r->mapping->limit - r->end >= EXPAND;

    r->begin = before ? r->begin - EXPAND : r->mapping->start;
    r->end = after ? r->end + EXPAND : r->mapping->limit;
}

/* Ranges of instructions around n places, sorted by address, that have a binary. Returns how many. */
static uint32_t make_ranges(const struct web *w, struct web_place **v, size_t n, struct web_range *ret)
{
    const struct prof *p = w->r->prof;
    struct web_range *last = NULL;
    uint32_t n_ranges = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t address = v[i]->address;

        if (!last || address > last->end + 2 * EXPAND || address >= last->mapping->limit) {
            last = &ret[n_ranges];
            *last = (struct web_range){.begin = address, .object = v[i]->object, .order = n_ranges++};
            last->mapping = &p->mappings[p->locations[v[i]->location].mapping];
        }
        last->end = address;
        last->score += v[i]->flat;
    }
    for (uint32_t i = 0; i < n_ranges; i++)
        widen_range(&ret[i]);
    return n_ranges;
}

static int expand_places(struct web *w, struct web_place **v, struct web_range *ranges)
{
    size_t n = 0, n_objects = 0;
    uint32_t n_ranges;
    int r = 0;

    for (size_t i = 0; i < w->n_places; i++)
        if (w->places[i].interesting)
            v[n++] = &w->places[i];
    if (n)
        qsort(v, n, sizeof(*v), compare_addresses);
    for (size_t i = 0; i < n && r >= 0; i++)
        if (!v[i]->object)
            r = add_bare_place(w, v[i]);
    for (size_t i = 0; i < n; i++) /* those with a binary, without gaps */
        if (v[i]->object)
            v[n_objects++] = v[i];
    n_ranges = make_ranges(w, v, n_objects, ranges);
    if (n_ranges)
        qsort(ranges, n_ranges, sizeof(*ranges), compare_scores);
    for (uint32_t i = 0; i < MIN(n_ranges, (uint32_t) RANGES_MAX) && r >= 0; i++)
        r = expand(w, &ranges[i]);
    return r;
}

/* Samples in the middle of an instruction belong to it. */
static void assign_samples(struct web *w)
{
    for (size_t i = 0; i < w->n_insts; i++)
        for (uint64_t at = w->insts[i].address; at < w->insts[i].address + w->insts[i].length; at++) {
            const struct web_place *place = find_place(w, at);

            if (place) {
                w->insts[i].flat += place->flat;
                w->insts[i].cum += place->cum;
            }
        }
}

static int compare_uses(const void *a, const void *b)
{
    const struct web_use *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int compare_files(const void *a, const void *b)
{
    return str_cmp(((const struct web_file *) a)->name, ((const struct web_file *) b)->name);
}

static int compare_instructions(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return x < y ? -1 : x > y;
}

/* An instruction may appear at several lines of a file, because of inlined calls; it counts once. */
static int sum_file(const struct web *w, struct web_file *f)
{
    _cleanup_(mem_freep) uint32_t *insts = mem_alloc((f->n + 1) * sizeof(*insts));

    if (!insts)
        return -ENOMEM;
    for (size_t i = 0; i < f->n; i++)
        insts[i] = f->uses[i].inst;
    if (f->n)
        qsort(insts, f->n, sizeof(*insts), compare_instructions);
    f->flat = 0;
    for (size_t i = 0; i < f->n; i++)
        if (!i || insts[i] != insts[i - 1])
            f->flat += w->insts[insts[i]].flat;
    return 0;
}

static int compare_flats(const void *a, const void *b)
{
    const struct web_file *x = a, *y = b;

    return x->flat != y->flat ? (x->flat < y->flat ? 1 : -1) : str_cmp(x->name, y->name);
}

static int sort_files(struct web *w)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && w->r->o.part_of_page && i < w->n_files; i++)
        r = sum_file(w, &w->files[i]);
    if (w->n_files)
        qsort(w->files, w->n_files, sizeof(*w->files), w->r->o.part_of_page ? compare_flats : compare_files);
    return r;
}

static int collect(struct web *w, struct err *e)
{
    _cleanup_(mem_freep) struct web_place **v = NULL;
    _cleanup_(mem_freep) struct web_range *ranges = NULL;
    int r = source_reader_init(&w->reader, w->r->o.source_path, w->r->o.trim_path, e);

    if (r >= 0)
        r = visit_samples(w);
    if (r < 0)
        return r;
    if (!w->interest.n)
        return err_set(e, -ENOENT, "no matches found for regexp: %.*s", STR_FMT(w->r->o.symbol_text));
    v = mem_zalloc_array(w->n_places + 1, sizeof(struct web_place *));
    ranges = mem_zalloc_array(w->n_places + 1, sizeof(*ranges));
    if (!v || !ranges)
        return -ENOMEM;
    r = expand_places(w, v, ranges);
    if (r < 0)
        return r;
    assign_samples(w);
    for (size_t i = 0; i < w->n_files; i++)
        qsort(w->files[i].uses, w->files[i].n, sizeof(*w->files[i].uses), compare_uses);
    return sort_files(w);
}

static void web_done(struct web *w)
{
    for (size_t i = 0; i < w->n_files; i++)
        mem_free(w->files[i].uses);
    mem_free(w->files);
    mem_free(w->places);
    mem_free(w->insts);
    mem_free(w->calls);
    mem_free(w->made_up);
    map_done(&w->place_map);
    map_done(&w->inst_map);
    names_done(&w->interest);
    names_done(&w->pretty);
    source_reader_done(&w->reader);
    arena_done(&w->arena);
}

int report_weblist(struct report *r, struct report_objects *objects, struct buf *out, struct err *e)
{
    struct web w = {.r = r, .objects = objects};
    int n;

    arena_init(&w.arena, 0);
    n = collect(&w, e);
    if (n >= 0)
        n = web_print(&w, out);
    web_done(&w);
    return n < 0 ? n : buf_error(out);
}
