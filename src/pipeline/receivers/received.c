/* SPDX-License-Identifier: Apache-2.0 */
/* Completes a decoded profile, see received.h. The batch comes directly from a decoder and is not shared yet, so it may
 * be changed. */
#include "pipeline/receivers/received.h"

#include <errno.h>

#include "model/convert.h"
#include "model/identity.h"
#include "pipeline/processors/kvs_edit.h"

static int set_labels(struct batch *b, const struct received *r)
{
    for (uint32_t i = 0; i < b->n_resources; i++) {
        struct kvs_edit x;

        kvs_edit_init(&x, &b->resources[i].attrs, &b->arena);
        for (uint32_t k = 0; k < r->n_labels; k++) {
            struct str name = arena_str(&b->arena, r->labels[k].name), value = arena_str(&b->arena, r->labels[k].value);

            if (!name.p || !value.p)
                return -ENOMEM;
            kvs_edit_set(&x, name, value_from_str(value));
        }
        if (x.err)
            return x.err;
    }
    return 0;
}

static void set_times_and_ids(struct batch *b, const struct received *r)
{
    static const uint8_t none[16];

    for (uint32_t i = 0; i < b->n_profiles; i++) {
        struct profile *p = &b->profiles[i];

        if (!p->time_ns)
            p->time_ns = r->time_ns;
        if (!p->duration_ns)
            p->duration_ns = r->duration_ns;
    }
    for (uint32_t i = 0; i < b->n_resources; i++)
        for (uint32_t k = 0; k < b->resources[i].scopes.n; k++) {
            struct run profiles = b->scopes[b->resources[i].scopes.off + k].profiles;

            for (uint32_t j = 0; j < profiles.n; j++) {
                struct profile *p = &b->profiles[profiles.off + j];
                struct id128 id;

                if (!p->time_ns || memcmp(p->id, none, sizeof none) != 0)
                    continue;
                id = identity_profile(b, &b->resources[i], p);
                memcpy(p->id, &id, sizeof p->id);
            }
        }
}

int received_finish(struct batch *b, const struct received *r, struct batch **ret, struct err *e)
{
    struct batch *split = NULL;
    int rc = set_labels(b, r);

    if (rc == 0)
        rc = received_links(b);
    if (rc == 0 && r->name.n)
        rc = received_name(b, r->name);
    if (rc == 0)
        rc = convert_split_types(b, &split, e);
    batch_unref(b);
    if (rc < 0)
        return rc;
    set_times_and_ids(split, r);
    *ret = split;
    return 0;
}
