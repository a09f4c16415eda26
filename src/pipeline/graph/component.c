/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all components, and finding one by name. See component.h. */
#include "pipeline/graph/component.h"

#define COMPONENT(name) extern const struct component component_##name;
#include "pipeline/graph/components.h"
#undef COMPONENT

const struct component *const components[] = {
#define COMPONENT(name) &component_##name,
#include "pipeline/graph/components.h"
#undef COMPONENT
    NULL,
};

const char *const component_kind_names[COMPONENT_KINDS] = {"receiver", "processor", "exporter", "extension"};

const struct component *component_find(enum component_kind kind, struct str type)
{
    for (const struct component *const *c = components; *c; c++) {
        if ((*c)->kind != kind)
            continue;
        if (str_is(type, (*c)->name))
            return *c;
        for (const char *const *a = (*c)->aliases; a && *a; a++)
            if (str_is(type, *a))
                return *c;
    }
    return NULL;
}

const char *component_closest(enum component_kind kind, struct str type)
{
    const char *names[64];
    size_t n = 0;

    for (const struct component *const *c = components; *c && n < ARRAY_SIZE(names) - 1; c++)
        if ((*c)->kind == kind)
            names[n++] = (*c)->name;
    names[n] = NULL;
    return option_closest(type, names);
}

void instance_init(struct instance *i, const struct component_args *args)
{
    i->type = args->type;
    i->id = args->id;
    i->signal = args->signal;
}
