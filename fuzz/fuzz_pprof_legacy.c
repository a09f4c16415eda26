/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy profiles: what decodes is a valid batch and can be written as a pprof that decodes. */
#include <stdlib.h>

#include "codec/pprof.h"
#include "codec/pprof_legacy.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *again = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct err e = {0};

    if (pprof_legacy_decode((struct str){(const char *) data, (uint32_t) size}, 64 << 20, &b, &e) < 0)
        return 0;
    if (batch_validate(b, &e) < 0 || pprof_encode(b, b->profiles, &out, &e) < 0 ||
        pprof_decode(&out, NULL, &again, &e) < 0 || again->n_samples != b->n_samples)
        abort();
    return 0;
}
