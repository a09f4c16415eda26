/* SPDX-License-Identifier: Apache-2.0 */
/* The text of perf script: what decodes is a valid batch. */
#include <stdlib.h>

#include "codec/perf_script.h"
#include "model/batch.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, (uint32_t) size};
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    (void) perf_script_probe(text);
    if (perf_script_decode(text, 64 << 20, true, &b, &e) == 0 && batch_validate(b, &e) < 0)
        abort();
    return 0;
}
