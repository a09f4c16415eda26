/* SPDX-License-Identifier: Apache-2.0 */
/* perf.data: what decodes is a valid batch within the limit. */
#include <stdlib.h>
#include <string.h>

#include "batch_validate.h"
#include "codec/perf_data.h"
#include "model/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all that it is given. */
static uint32_t walk(struct perf_unwinder *u, const struct perf_stack *s, const struct perf_space *space,
                     uint64_t ret[PERF_STACK_FRAMES], bool *whole)
{
    struct perf_place place;
    uint32_t n = 0;

    (void) u;
    for (uint32_t i = 0; i < s->bytes.n && n < PERF_STACK_FRAMES; i++)
        if (s->bytes.p[i] && space->find(space, s->pc + (uint8_t) s->bytes.p[i], &place))
            ret[n++] = place.start + place.file.n + place.build_id.n;
    *whole = n & 1;
    return n;
}

static bool identify(struct perf_unwinder *u, struct str file, const struct perf_inode *inode, char ret[PERF_ID_MAX])
{
    (void) u;
    memcpy(ret, "c0ffee", 7);
    return (file.n + inode->inode) & 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, (uint32_t) size};
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct perf_unwinder unwinder = {walk, identify};
    struct perf_data_options o = {16 << 20, &unwinder, true};
    struct err e = {0};

    if (perf_data_decode(text, &o, &b, &e) == 0 && (batch_validate(b, &e) < 0 || batch_memory(b) > o.memory))
        abort();
    return 0;
}
