/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of the filter processor: any text, compiled at every level and asked about an empty profile. */
#include "model/builder.h"
#include "pipeline/processors/ottl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct batch *b;
    struct sample sample = {0};

    if (!b) {
        _cleanup_(builder_freep) struct builder *x = NULL;
        struct value_type type = {0};

        if (builder_new(NULL, &x) < 0)
            return 0;
        builder_profile(x, &type, 1);
        builder_finish(x, &b, NULL);
    }
    for (int level = OTTL_RESOURCE; size < 1 << 16 && level <= OTTL_SAMPLE; level++) {
        struct ottl_subject s = {b, &b->resources[0], &b->scopes[0], &b->profiles[0], &sample};
        struct ottl *o = NULL;
        struct arena a;
        struct err e;

        arena_init(&a, 16 << 20);
        if (ottl_compile((struct str){(const char *) data, (uint32_t) size}, (enum ottl_scope) level, &a, &o, &e) == 0)
            ottl_matches(o, &s);
        ottl_free(o);
        arena_done(&a);
    }
    return 0;
}
