/* SPDX-License-Identifier: Apache-2.0 */
/* Turns batches into trees and splits profiles of several types (see convert.h). Joining is in convert_join.c. */
#include "model/convert.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/identity.h"
#include "model/semconv.h"

/* --- trees --- */

struct grower {
    const struct batch *b;
    struct tree *t;
    uint32_t *first;  /* per location: index of its first frame in `frames`, TREE_NONE = not looked up yet */
    uint32_t *frames; /* innermost first */
    size_t n_frames, cap_frames;
    uint32_t *nodes; /* per stack, TREE_NONE = not added yet */
};

/* A frame without a name is identified by its address, so that a name can be found later. */
static void bare_frame(const struct batch *b, const struct location *l, struct frame *f)
{
    const struct mapping *m = &b->dict.mappings[l->mapping];

    f->mapping = b->dict.strings[m->filename];
    f->build_id = identity_build_id(b, l->mapping);
    f->address = identity_elf_address(m, l->address);
}

static void named_frame(const struct grower *g, const struct location *l, const struct line *line, struct frame *f)
{
    const struct dict *d = &g->b->dict;
    const struct function *fn = &d->functions[line->function];

    f->function = d->strings[fn->name].n ? d->strings[fn->name] : d->strings[fn->system_name];
    if (f->function.n) {
        f->in_file = d->strings[fn->filename];
        f->in_line = fn->start_line;
    } else {
        bare_frame(g->b, l, f);
    }
}

static int add_frame(struct grower *g, const struct frame *f)
{
    uint32_t index = tree_frame(g->t, f);
    int r = array_reserve(g->frames, g->cap_frames, g->n_frames + 1, UINT32_MAX);

    if (index == TREE_NONE)
        return -ENOMEM;
    if (r == 0)
        g->frames[g->n_frames++] = index;
    return r;
}

static int location_frames(struct grower *g, uint32_t location)
{
    const struct batch *b = g->b;
    const struct location *l = &b->dict.locations[location];
    const struct attr *kind = l->attrs.n ? batch_attr(b, l->attrs, STR(SEMCONV_FRAME_TYPE)) : NULL;
    int r = 0;

    g->first[location] = (uint32_t) g->n_frames;
    for (uint32_t i = 0; r == 0 && i < MAX(l->lines.n, 1u); i++) {
        struct frame f = {.kind = kind ? frame_kind_parse(value_str(&kind->value)) : FRAME_UNKNOWN};

        if (l->lines.n)
            named_frame(g, l, &b->dict.lines[l->lines.off + i], &f);
        else
            bare_frame(b, l, &f);
        r = add_frame(g, &f);
    }
    return r;
}

/* Returns the node of a stack, adding its path from the root down. */
static int stack_node(struct grower *g, uint32_t stack, uint32_t *ret)
{
    const struct dict *d = &g->b->dict;
    struct run s = d->stacks[stack];
    uint32_t node = 0;

    if (g->nodes[stack] != TREE_NONE) {
        *ret = g->nodes[stack];
        return 0;
    }
    for (uint32_t i = s.n; i > 0; i--) {
        uint32_t location = d->indices[s.off + i - 1];
        int r = g->first[location] == TREE_NONE ? location_frames(g, location) : 0;

        if (r < 0)
            return r;
        for (uint32_t k = MAX(d->locations[location].lines.n, 1u); k > 0; k--) {
            node = tree_child(g->t, node, g->frames[g->first[location] + k - 1]);
            if (node == TREE_NONE)
                return -ENOMEM;
        }
    }
    *ret = g->nodes[stack] = node;
    return 0;
}

int convert_to_tree(const struct batch *b, const struct profile *p, uint32_t type, struct tree *t, uint32_t column)
{
    struct grower g = {.b = b, .t = t};
    int r = 0;

    g.first = mem_alloc(b->dict.n_locations * sizeof *g.first);
    g.nodes = mem_alloc(b->dict.n_stacks * sizeof *g.nodes);
    if (g.first && g.nodes) {
        memset(g.first, 0xff, b->dict.n_locations * sizeof *g.first);
        memset(g.nodes, 0xff, b->dict.n_stacks * sizeof *g.nodes);
    } else {
        r = -ENOMEM;
    }
    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];
        uint32_t node = 0;

        r = stack_node(&g, s->stack, &node);
        if (r == 0)
            tree_add(t, node, column, batch_sample_value(b, p, s, type));
    }
    mem_free(g.first);
    mem_free(g.nodes);
    mem_free(g.frames);
    if (r == 0)
        tree_sum_up(t);
    return r;
}

uint32_t convert_rate(const struct batch *b, const struct profile *p, uint32_t type)
{
    if (p->period <= 1 || /* every event, not a rate */ !str_is(batch_string(b, p->period_type.unit), "nanoseconds") ||
        !str_is(batch_string(b, p->types[type].unit), "nanoseconds"))
        return 0;
    return (uint32_t) ((NS_PER_S + p->period / 2) / p->period);
}

/* --- splitting --- */

/* Counts the profiles and samples that the result will have. */
static void count_split(const struct batch *b, uint64_t *ret_profiles, uint64_t *ret_samples)
{
    *ret_profiles = *ret_samples = 0;
    for (uint32_t i = 0; i < b->n_profiles; i++) {
        *ret_profiles += b->profiles[i].n_types;
        *ret_samples += (uint64_t) b->profiles[i].n_types * b->profiles[i].samples.n;
    }
}

/* Writes one profile per type of p. Values stay where they are; each sample points at its own value. */
static void split_profile(struct batch *x, const struct batch *b, const struct profile *p, uint32_t group)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        struct profile *q = &x->profiles[x->n_profiles++];

        *q = *p;
        q->samples.off = x->n_samples;
        if (p->n_types > 1) {
            q->types = &p->types[t];
            q->n_types = 1;
            q->default_type = p->default_type == t + 1;
            q->group = group;
        }
        for (uint32_t i = 0; i < p->samples.n; i++) {
            struct sample *s = &x->samples[x->n_samples++];

            *s = b->samples[p->samples.off + i];
            if (p->n_types > 1)
                s->values = (struct run){s->values.off + t, 1};
        }
    }
}

static uint32_t last_group(const struct batch *b)
{
    uint32_t group = 0;

    for (uint32_t i = 0; i < b->n_profiles; i++)
        group = MAX(group, b->profiles[i].group);
    return group;
}

int convert_split_types(struct batch *b, struct batch **ret, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    uint64_t profiles, samples;
    uint32_t group = last_group(b);
    int r;

    count_split(b, &profiles, &samples);
    if (profiles == b->n_profiles) {
        *ret = batch_ref(b);
        return 0;
    }
    if (samples > UINT32_MAX || profiles > UINT32_MAX)
        return err_set(e, -E2BIG, "too many samples for one batch");
    r = batch_share(b, &x);
    if (r < 0)
        return r;
    x->scopes = arena_zalloc_array(&x->arena, b->n_scopes, sizeof *x->scopes);
    x->profiles = arena_zalloc_array(&x->arena, profiles, sizeof *x->profiles);
    x->samples = arena_zalloc_array(&x->arena, samples, sizeof *x->samples);
    if (!x->scopes || !x->profiles || !x->samples)
        return -ENOMEM;
    x->n_profiles = x->n_samples = 0;
    for (uint32_t i = 0; i < b->n_scopes; i++) {
        const struct scope *s = &b->scopes[i];

        x->scopes[i] = *s;
        x->scopes[i].profiles.off = x->n_profiles;
        for (uint32_t k = 0; k < s->profiles.n; k++)
            split_profile(x, b, &b->profiles[s->profiles.off + k], ++group);
        x->scopes[i].profiles.n = x->n_profiles - x->scopes[i].profiles.off;
    }
    *ret = TAKE(x);
    return 0;
}
