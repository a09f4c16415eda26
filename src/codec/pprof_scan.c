/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass of pprof_decode() and its tables of ids; see pprof_decode.c. */
#include <errno.h>
#include <inttypes.h>

#include "codec/pprof_decoder.h"

const struct pprof_shape pprof_value_type = {"value_type", 2, {"", "type", "unit"}};
const struct pprof_shape pprof_label = {"label", 4, {"", "key", "str", "num", "num_unit"}};
const struct pprof_shape pprof_line = {"line", 3, {"", "function_id", "line", "column"}};
const struct pprof_shape pprof_function = {"function", 5, {"", "id", "name", "system_name", "filename", "start_line"}};
const struct pprof_shape pprof_mapping = {
    "mapping",
    10,
    {"", "id", "memory_start", "memory_limit", "file_offset", "filename", "build_id", "has_functions", "has_filenames",
     "has_line_numbers", "has_inline_frames"},
};
const char *const pprof_profile_fields[PPROF_FIELDS] = {
    "unknown field",       "sample_type", "sample",     "mapping",        "location",    "function", "string_table",
    "drop_frames",         "keep_frames", "time_nanos", "duration_nanos", "period_type", "period",   "comment",
    "default_sample_type", "doc_url",
};

int pprof_bad(const struct pprof_decoder *d, const uint8_t *at, const char *message, const char *field, const char *why)
{
    return err_set(d->e, -EBADMSG, "pprof: %s%s%s at byte %zu: %s", message, *field ? "." : "", field,
                   pprof_offset(d, at), why);
}

static int bad_field(const struct pprof_decoder *d, const uint8_t *at, const struct pprof_shape *s,
                     const struct pb_field *f, const char *why)
{
    return pprof_bad(d, at, s->name, f->num <= s->n ? s->fields[f->num] : "", why);
}

static int bad_top(const struct pprof_decoder *d, const uint8_t *at, const struct pb_field *f, const char *why)
{
    return pprof_bad(d, at, "profile", pprof_profile_fields[f->num < PPROF_FIELDS ? f->num : 0], why);
}

/* --- pass 1: scan --- */

static int scan_sample(struct pprof_decoder *d, const uint8_t *p, const uint8_t *end)
{
    struct pb_field f = {0};

    while (p < end) {
        const uint8_t *at = p;

        p = pb_field(p, end, &f);
        if (unlikely(!p))
            return pprof_bad(d, at, "sample", "", f.why);
        if (f.num == 1) {
            d->n_refs += f.type == PB_LEN ? varint_count(f.p, (size_t) (f.end - f.p)) : 1;
        } else if (f.num == 2) {
            d->n_values += f.type == PB_LEN ? varint_count(f.p, (size_t) (f.end - f.p)) : 1;
        } else if (f.num == 3) {
            d->n_labels++;
            d->n_empty += f.type == PB_LEN && f.p == f.end;
        }
    }
    return 0;
}

/* Counts fields first..last of a mapping (its attributes) or of a location (its lines). */
static int scan_count(struct pprof_decoder *d, const struct pb_field *m, uint32_t first, uint32_t last, uint64_t *count)
{
    const uint8_t *p = m->p;
    struct pb_field f = {0};

    while (p < m->end) {
        const uint8_t *at = p;

        p = pb_field(p, m->end, &f);
        if (unlikely(!p))
            return pprof_bad(d, at, pprof_profile_fields[m->num], "", f.why);
        if (f.num < first || f.num > last)
            continue;
        if (unlikely(m->num == 4 && f.type == PB_LEN && f.p == f.end))
            return err_set(d->e, -EINVAL, "pprof: line.function_id at byte %zu: there is no function 0",
                           pprof_offset(d, at));
        ++*count;
    }
    return 0;
}

int pprof_scalars(struct pprof_decoder *d, const struct pprof_shape *s, const uint8_t *p, const uint8_t *end,
                  uint64_t *v)
{
    struct pb_field f = {0};

    while (p < end) {
        const uint8_t *at = p;

        p = pb_field(p, end, &f);
        if (unlikely(!p))
            return bad_field(d, at, s, &f, f.why);
        if (f.num > s->n || f.num == 0)
            continue;
        if (unlikely(f.type != PB_VARINT))
            return bad_field(d, at, s, &f, PPROF_WRONG_TYPE);
        v[f.num] = f.u;
    }
    return 0;
}

static int no_id(const struct pprof_decoder *d, const uint8_t *at, const char *name)
{
    return err_set(d->e, -EINVAL, "pprof: %s.id at byte %zu: found %s with reserved id=0", name, pprof_offset(d, at),
                   name);
}

static int scan_message(struct pprof_decoder *d, const uint8_t *at, const struct pb_field *f)
{
    struct pprof_span *s = &d->spans[f->num];

    if (f->type != PB_LEN)
        return bad_top(d, at, f, PPROF_WRONG_TYPE);
    if (unlikely(f->p == f->end && f->num >= 3 && f->num <= 5)) /* two bytes of the file for a whole entry: not
                                                                   accepted */
        return no_id(d, at, pprof_profile_fields[f->num]);
    if (!s->first)
        s->first = at;
    s->end = f->end;
    s->n++;
    d->n_empty += f->p == f->end;
    switch (f->num) {
    case 2:
        return scan_sample(d, f->p, f->end);
    case 3:
        return scan_count(d, f, 6, 10, &d->n_mapping_attrs);
    case 4:
        return scan_count(d, f, 4, 4, &d->n_lines);
    case 11:
        memset(d->period_type, 0, sizeof d->period_type);
        return pprof_scalars(d, &pprof_value_type, f->p, f->end, d->period_type);
    default:
        return 0;
    }
}

static int scan_comment(struct pprof_decoder *d, const uint8_t *at, const struct pb_field *f, const uint8_t *next)
{
    struct pprof_span *s = &d->spans[13];

    if (f->type != PB_LEN && f->type != PB_VARINT)
        return bad_top(d, at, f, PPROF_WRONG_TYPE);
    if (!s->first)
        s->first = at;
    s->end = next;
    d->n_comments += f->type == PB_LEN ? varint_count(f->p, (size_t) (f->end - f->p)) : 1;
    return 0;
}

int pprof_scan(struct pprof_decoder *d)
{
    const uint8_t *p = d->start;
    struct pb_field f = {0};
    int r = 0;

    while (p < d->end && r == 0) {
        const uint8_t *at = p;

        p = pb_field(p, d->end, &f);
        if (unlikely(!p))
            return bad_top(d, at, &f, f.why);
        if (f.num == 0 || f.num >= PPROF_FIELDS)
            continue;
        if (f.num <= 6 || f.num == 11) {
            r = scan_message(d, at, &f);
        } else if (f.num == 13) {
            r = scan_comment(d, at, &f, p);
        } else if (f.type != PB_VARINT) {
            return bad_top(d, at, &f, PPROF_WRONG_TYPE);
        } else if (f.num == 9 && d->scalars[9]) {
            return err_set(d->e, -EINVAL, "pprof: profile.time_nanos at byte %zu: concatenated profiles detected",
                           pprof_offset(d, at));
        } else {
            d->scalars[f.num] = f.u;
        }
    }
    return r;
}

/* --- ids --- */

uint32_t pprof_ids_large(const struct pprof_ids *ids, uint64_t id)
{
    for (struct map_pos p = map_find(&ids->map, hash64_u64(id)); p.index != MAP_NONE; p = map_next(&ids->map, p))
        if (ids->all[p.index] == id)
            return p.index;
    return 0;
}

static int ids_insert(struct pprof_decoder *d, struct pprof_ids *ids, uint64_t id, uint32_t index)
{
    if (!ids->dense) {
        ids->dense = arena_zalloc_array(&d->scratch, (size_t) ids->n + 1, sizeof *ids->dense);
        ids->all = arena_zalloc_array(&d->b->arena, (size_t) ids->n + 1, sizeof *ids->all);
        if (!ids->dense || !ids->all)
            return -ENOMEM;
        for (uint32_t i = 1; i < index; i++) {
            ids->dense[i] = i;
            ids->all[i] = i;
        }
    }
    ids->all[index] = id;
    if (id <= ids->n) {
        ids->dense[id] = index;
        return 0;
    }
    return map_insert(&ids->map, hash64_u64(id), index);
}

int pprof_ids_add(struct pprof_decoder *d, struct pprof_ids *ids, uint64_t id, uint32_t index, const uint8_t *at)
{
    if (likely(id == index && !ids->dense))
        return 0;
    if (id == 0)
        return no_id(d, at, ids->name);
    if (ids->dense ? pprof_ids_find(ids, id) : id < index)
        return err_set(d->e, -EINVAL, "pprof: %s.id at byte %zu: multiple %ss with same id: %" PRIu64, ids->name,
                       pprof_offset(d, at), ids->name, id);
    return ids_insert(d, ids, id, index);
}
