/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second pass of pprof_decode() over what Profile itself has: types, comments, texts, times and the period. Texts become
 * attributes of the profile.
 */
#include <errno.h>

#include "base/wire.h"
#include "codec/pprof_decoder.h"
#include "model/semconv.h"

static int value_type(const struct pprof_decoder *d, const uint64_t *v, const uint8_t *at, struct value_type *ret)
{
    if (v[1] >= pprof_file_strings(d) || v[2] >= pprof_file_strings(d))
        return pprof_bad(d, at, "value_type", v[1] >= pprof_file_strings(d) ? "type" : "unit", PPROF_NO_STRING);
    *ret = (struct value_type){(uint32_t) v[1], (uint32_t) v[2]};
    return 0;
}

int pprof_fill_types(struct pprof_decoder *d)
{
    struct profile *p = d->b->profiles;
    const uint8_t *pos = NULL;
    struct pb_field f = {0};

    p->n_types = MAX(d->spans[1].n, 1u);
    p->types = arena_zalloc_array(&d->b->arena, p->n_types, sizeof *p->types);
    if (!p->types)
        return -ENOMEM;
    for (struct value_type *t = p->types; pprof_next(d, 1, &pos, &f); t++) {
        uint64_t v[3] = {0};
        int r = pprof_scalars(d, &pprof_value_type, f.p, f.end, v);

        if (r == 0)
            r = value_type(d, v, f.p, t);
        if (r < 0)
            return r;
    }
    return 0;
}

static int comment_string(struct pprof_decoder *d, const uint8_t *at, uint64_t string, struct value **out)
{
    if (string >= pprof_file_strings(d))
        return pprof_bad(d, at, "profile", "comment", PPROF_NO_STRING);
    *(*out)++ = pprof_string_value(d, (uint32_t) string);
    return 0;
}

static int fill_comments(struct pprof_decoder *d, struct profile *p)
{
    struct value list = {.kind = VALUE_ARRAY, .n = (uint32_t) d->n_comments}, *out;
    const uint8_t *pos = NULL;
    struct pb_field f = {0};
    int r = 0;

    if (!d->n_comments)
        return 0;
    list.array = out = arena_zalloc_array(&d->b->arena, d->n_comments, sizeof *out);
    if (!out)
        return -ENOMEM;
    while (r == 0 && pprof_next(d, 13, &pos, &f)) {
        if (f.type == PB_VARINT) {
            r = comment_string(d, pos, f.u, &out);
            continue;
        }
        for (const uint8_t *q = f.p; r == 0 && q < f.end;) {
            uint64_t v;

            q = varint_read(q, f.end, &v);
            r = q ? comment_string(d, q, v, &out) : pprof_bad(d, f.p, "profile", "comment", PPROF_BAD_VARINT);
        }
    }
    if (r < 0)
        return r;
    return pprof_put_index(
        d, &p->attrs,
        pprof_intern_attr(d, &(struct attr){.key = pprof_own_string(d, STR(SEMCONV_PPROF_COMMENT)), .value = list}));
}

/* A string of Profile as an attribute, if it is set. */
static int fill_text(struct pprof_decoder *d, struct profile *p, uint32_t field, struct str key)
{
    uint64_t s = d->scalars[field];

    if (s >= pprof_file_strings(d))
        return pprof_bad(d, d->end, "profile", pprof_profile_fields[field], PPROF_NO_STRING);
    if (!d->b->dict.strings[s].n)
        return 0;
    return pprof_put_index(d, &p->attrs,
                           pprof_intern_attr(d, &(struct attr){.key = pprof_own_string(d, key),
                                                               .value = pprof_string_value(d, (uint32_t) s)}));
}

static int fill_default_type(struct pprof_decoder *d, struct profile *p)
{
    const struct str *strings = d->b->dict.strings;
    uint64_t s = d->scalars[14];

    for (uint32_t i = 0; s && s < pprof_file_strings(d) && strings[s].n && i < p->n_types; i++)
        if (str_eq(strings[p->types[i].type], strings[s])) {
            p->default_type = i + 1;
            return 0;
        }
    return fill_text(d, p, 14, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE));
}

int pprof_fill_profile(struct pprof_decoder *d)
{
    struct profile *p = d->b->profiles;
    int r = value_type(d, d->period_type, d->start, &p->period_type);

    if (r == 0)
        r = fill_comments(d, p);
    if (r == 0)
        r = fill_text(d, p, 15, STR(SEMCONV_PPROF_DOC_URL));
    if (r == 0)
        r = fill_text(d, p, 7, STR(SEMCONV_PPROF_DROP_FRAMES));
    if (r == 0)
        r = fill_text(d, p, 8, STR(SEMCONV_PPROF_KEEP_FRAMES));
    if (r == 0)
        r = fill_default_type(d, p);
    p->time_ns = (int64_t) d->scalars[9];
    p->duration_ns = (int64_t) d->scalars[10];
    p->period = (int64_t) d->scalars[12];
    p->samples = (struct run){0, d->b->n_samples};
    return r;
}
