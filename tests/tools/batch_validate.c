/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the guarantees of model/batch.h one by one (batch_validate.h). */
#include "batch_validate.h"

#include <errno.h>

#include "model/batch.h"

static int check_run(struct run r, uint32_t pool, const char *what, uint32_t i, struct err *e)
{
    if ((uint64_t) r.off + r.n > pool)
        return err_set(e, -EINVAL, "%s %u: run %u+%u is outside a pool of %u", what, i, r.off, r.n, pool);
    return 0;
}

static int check_index(uint32_t index, uint32_t n, const char *what, uint32_t i, struct err *e)
{
    if (index >= n)
        return err_set(e, -EINVAL, "%s %u: index %u is outside a table of %u", what, i, index, n);
    return 0;
}

static int check_list(const struct batch *b, struct run r, uint32_t n, const char *what, uint32_t i, struct err *e)
{
    int rc = check_run(r, b->dict.n_indices, what, i, e);

    for (uint32_t k = 0; rc == 0 && k < r.n; k++)
        rc = check_index(b->dict.indices[r.off + k], n, what, i, e);
    return rc;
}

static int check_symbols(const struct batch *b, struct err *e)
{
    const struct dict *d = &b->dict;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < d->n_mappings; i++) {
        r = check_index(d->mappings[i].filename, d->n_strings, "mapping", i, e);
        if (r == 0)
            r = check_list(b, d->mappings[i].attrs, d->n_attrs, "mapping", i, e);
    }
    for (uint32_t i = 0; r == 0 && i < d->n_functions; i++) {
        const struct function *f = &d->functions[i];

        r = check_index(MAX(f->name, MAX(f->system_name, f->filename)), d->n_strings, "function", i, e);
    }
    for (uint32_t i = 0; r == 0 && i < d->n_lines; i++)
        r = check_index(d->lines[i].function, d->n_functions, "line", i, e);
    for (uint32_t i = 0; r == 0 && i < d->n_locations; i++) {
        const struct location *l = &d->locations[i];

        r = check_index(l->mapping, d->n_mappings, "location", i, e);
        if (r == 0)
            r = check_run(l->lines, d->n_lines, "location", i, e);
        if (r == 0)
            r = check_list(b, l->attrs, d->n_attrs, "location", i, e);
    }
    return r;
}

static int check_dict(const struct batch *b, struct err *e)
{
    const struct dict *d = &b->dict;
    int r = 0;

    if (!d->n_strings || !d->n_mappings || !d->n_functions || !d->n_locations || !d->n_stacks || !d->n_links ||
        !d->n_attrs)
        return err_set(e, -EINVAL, "a table lacks its entry 0");
    if (d->strings[0].n)
        return err_set(e, -EINVAL, "string 0 is not empty");
    r = check_symbols(b, e);
    for (uint32_t i = 0; r == 0 && i < d->n_stacks; i++)
        r = check_list(b, d->stacks[i], d->n_locations, "stack", i, e);
    for (uint32_t i = 0; r == 0 && i < d->n_attrs; i++)
        r = check_index(MAX(d->attrs[i].key, d->attrs[i].unit), d->n_strings, "attribute", i, e);
    return r;
}

static int check_sample(const struct batch *b, const struct profile *p, uint32_t i, struct err *e)
{
    const struct sample *s = &b->samples[i];
    int r = check_index(s->stack, b->dict.n_stacks, "sample", i, e);

    if (r == 0)
        r = check_index(s->link, b->dict.n_links, "sample", i, e);
    if (r == 0)
        r = check_list(b, s->attrs, b->dict.n_attrs, "sample", i, e);
    if (r == 0)
        r = check_run(s->values, b->n_values, "sample values", i, e);
    if (r == 0)
        r = check_run(s->timestamps, b->n_timestamps, "sample timestamps", i, e);
    if (r < 0)
        return r;
    if (p->n_types > 1 && (s->values.n != p->n_types || s->timestamps.n))
        return err_set(e, -EINVAL, "sample %u has %u values for %u types", i, s->values.n, p->n_types);
    if (p->n_types == 1 && s->values.n && s->timestamps.n && s->values.n != s->timestamps.n)
        return err_set(e, -EINVAL, "sample %u has %u values and %u timestamps", i, s->values.n, s->timestamps.n);
    return 0;
}

static int check_profile(const struct batch *b, uint32_t i, struct err *e)
{
    const struct profile *p = &b->profiles[i];
    int r;

    if (!p->n_types || p->n_types > PROFILE_TYPES_MAX || p->default_type > p->n_types)
        return err_set(e, -EINVAL, "profile %u has %u types, default %u", i, p->n_types, p->default_type);
    r = check_index(MAX(p->period_type.type, p->period_type.unit), b->dict.n_strings, "profile", i, e);
    for (uint32_t k = 0; r == 0 && k < p->n_types; k++)
        r = check_index(MAX(p->types[k].type, p->types[k].unit), b->dict.n_strings, "profile", i, e);
    if (r == 0)
        r = check_list(b, p->attrs, b->dict.n_attrs, "profile", i, e);
    if (r == 0)
        r = check_run(p->samples, b->n_samples, "profile", i, e);
    for (uint32_t k = 0; r == 0 && k < p->samples.n; k++)
        r = check_sample(b, p, p->samples.off + k, e);
    return r;
}

int batch_validate(const struct batch *b, struct err *e)
{
    int r = check_dict(b, e);

    for (uint32_t i = 0; r == 0 && i < b->n_resources; i++)
        r = check_run(b->resources[i].scopes, b->n_scopes, "resource", i, e);
    for (uint32_t i = 0; r == 0 && i < b->n_scopes; i++)
        r = check_run(b->scopes[i].profiles, b->n_profiles, "scope", i, e);
    for (uint32_t i = 0; r == 0 && i < b->n_profiles; i++)
        r = check_profile(b, i, e);
    return r;
}
