/* SPDX-License-Identifier: Apache-2.0 */
/* profile.proto: what decodes is a valid batch, encodes, and what was encoded decodes and encodes to the same bytes. */
#include <stdlib.h>

#include "codec/pprof.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void encode(const struct batch *b, struct buf *out)
{
    struct err e = {0};

    check(batch_validate(b, &e) == 0);
    check(pprof_encode(b, b->profiles, out, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *again = NULL;
    _cleanup_(buf_done) struct buf in = BUF_INIT, one = BUF_INIT, copy = BUF_INIT, two = BUF_INIT;
    struct pprof_limits limits = {.inflated = 1 << 20};
    struct err e = {0};

    buf_put(&in, data, size);
    if (pprof_decode(&in, &limits, &b, &e) < 0)
        return 0;
    encode(b, &one);
    buf_put(&copy, one.p, one.n);
    check(pprof_decode(&copy, NULL, &again, &e) == 0);
    encode(again, &two);
    check(str_eq(buf_str(&one), buf_str(&two)));
    return 0;
}
