/* SPDX-License-Identifier: Apache-2.0 */
/* Small queries on a profile, and changes of its labels: see prof.h. */
#include <errno.h>

#include "base/mem.h"
#include "report/prof.h"

/* Passes every label set once to `edit`, which writes the new content; samples then point to the new sets. */
static int edit_label_sets(struct prof *p, uint32_t key, uint32_t value)
{
    size_t n_sets = p->n_label_sets;
    _cleanup_(mem_freep) uint32_t *moved = mem_zalloc_array(n_sets, sizeof(*moved));
    _cleanup_(mem_freep) struct prof_label *out = NULL;
    struct strtab *t = &p->pool->strings;
    size_t cap = 0;

    if (!moved)
        return -ENOMEM;
    for (size_t i = 0; i < n_sets; i++) {
        struct prof_labels s = p->label_sets[i];
        uint32_t n = 0, n_str;
        bool placed = !value;
        int64_t set;

        if (array_reserve(out, cap, s.n_str + s.n_num + 1, 1u << 24) < 0)
            return -ENOMEM;
        for (uint32_t k = 0; k < s.n_str; k++) {
            const struct prof_label *l = &p->labels[s.off + k];

            if (l->key == key)
                continue;
            if (!placed && str_cmp(strtab_get(t, l->key), strtab_get(t, key)) > 0) {
                out[n++] = (struct prof_label){.key = key, .str = value};
                placed = true;
            }
            out[n++] = *l;
        }
        if (!placed)
            out[n++] = (struct prof_label){.key = key, .str = value};
        n_str = n;
        for (uint32_t k = 0; k < s.n_num; k++)
            out[n++] = p->labels[s.off + s.n_str + k];
        set = prof_add_labels(p, out, n_str, s.n_num);
        if (set < 0)
            return (int) set;
        moved[i] = (uint32_t) set;
    }
    for (size_t i = 0; i < p->n_samples; i++)
        p->samples[i].labels = moved[p->samples[i].labels];
    return 0;
}

int prof_set_label(struct prof *p, struct str key, struct str value)
{
    uint32_t k = strtab_copy(&p->pool->strings, key), v = strtab_copy(&p->pool->strings, value);

    return strtab_error(&p->pool->strings) ? -ENOMEM : edit_label_sets(p, k, v);
}

static void type_list(struct buf *out, const struct prof *p)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        buf_printf(out, "%s%.*s", i ? " " : "", STR_FMT(prof_str(p, p->types[i].type)));
}

/* The first type of this name; n_types if there is none. */
static uint32_t find_type(const struct prof *p, struct str name)
{
    uint32_t i = 0;

    while (i < p->n_types && !str_eq(prof_str(p, p->types[i].type), name))
        i++;
    return i;
}

int prof_type_index(const struct prof *p, struct str wanted, struct err *e)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    int last = (int) p->n_types - 1;
    uint32_t found = p->n_types;
    int64_t number;

    if (wanted.n && str_to_i64(wanted, 10, &number) == 0) {
        if (number >= 0 && number <= last)
            return (int) number;
        return err_set(e, -EINVAL, "sample_index %.*s is outside the range [0..%d]", STR_FMT(wanted), last);
    }
    if (wanted.n || p->default_type)
        found = find_type(p, wanted.n ? wanted : prof_str(p, p->default_type));
    if (str_starts(wanted, STR("inuse_"))) /* heap profiles of old: "space" */
        found = MIN(found, find_type(p, str_slice(wanted, 6, wanted.n)));
    if (found < p->n_types || !wanted.n)
        return found < p->n_types ? (int) found : last;
    type_list(&list, p);
    return err_set(e, -EINVAL, "sample_index \"%.*s\" must be one of: [%.*s]", STR_FMT(wanted),
                   STR_FMT(buf_str(&list)));
}

int prof_check(const struct prof *p, struct err *e)
{
    if (!p->n_types && p->n_samples)
        return err_set(e, -EINVAL, "missing sample type information");
    for (size_t i = 1; i < p->n_locations; i++)
        for (uint32_t k = 0; k < p->locations[i].lines.n; k++)
            if (!p->lines[p->locations[i].lines.off + k].function)
                return err_set(e, -EINVAL, "location id: %llu has a line with nil function",
                               (unsigned long long) prof_location_id(p, (uint32_t) i));
    return 0;
}
