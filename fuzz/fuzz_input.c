/* SPDX-License-Identifier: Apache-2.0 */
/* Any file: the format is guessed, and what decodes converts to one profile, to split types and back. */
#include <stdlib.h>

#include "codec/input.h"
#include "model/batch.h"
#include "model/convert.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *single = NULL, *split = NULL, *joined = NULL;
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct input_limits limits = {.inflated = 1 << 20};
    struct err e = {0};

    buf_put(&in, data, size);
    if (input_decode(&in, INPUT_AUTO, &limits, &b, NULL, &e) < 0)
        return 0;
    check(batch_validate(b, &e) == 0);
    check(convert_to_single(b, &single, &e) == 0 && batch_validate(single, &e) == 0);
    check(convert_split_types(b, &split, &e) == 0 && batch_validate(split, &e) == 0);
    check(convert_join_types(split, &joined, &e) == 0 && batch_validate(joined, &e) == 0);
    return 0;
}
