/* SPDX-License-Identifier: Apache-2.0 */
/* Files of OTLP profiles in any form, compressed or not. */
#include <stdlib.h>

#include "base/compress.h"
#include "codec/otlp_file.h"
#include "model/batch.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct otlp_limits limits = {.input = 1 << 20};
    struct err e = {0};

    buf_put(&in, data, size);
    if (compress_inflate_detect(&in, 1 << 20, &e) < 0 || otlp_file_decode(&in, &limits, &b, &e) < 0)
        return 0;
    if (batch_validate(b, &e) < 0)
        abort();
    return 0;
}
