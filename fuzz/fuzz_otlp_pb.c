/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP protobuf: what decodes keeps the batch's promises, stays in proportion to the request, and says the same after
 * another trip. Only the evidence of the generation may get lost on the way (an explicit zero is not written again).
 */
#include <errno.h>
#include <stdlib.h>

#include "codec/otlp.h"
#include "model/batch.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *again = NULL;
    _cleanup_(buf_done) struct buf first = BUF_INIT, second = BUF_INIT;
    struct otlp_encode_options refs = {.references = size % 2};
    struct err e = {0};
    int r = otlp_decode_borrowed(data, size, NULL, &b, &e);

    if (r < 0) {
        check(e.message[0] != 0);
        return 0;
    }
    check(batch_validate(b, &e) == 0);
    check(batch_memory(b) <= 8 * size + (3 << 20));
    check(otlp_encode(b, NULL, &first, &e) == 0);
    check(otlp_encode(b, &refs, &second, &e) == 0);
    r = otlp_decode(&second, NULL, &again, &e);
    check(r == 0 || r == -EPROTONOSUPPORT || r == -EFBIG);
    if (r < 0)
        return 0;
    check(batch_validate(again, &e) == 0);
    again->dict.n_strings = b->dict.n_strings; /* references added some */
    buf_reset(&second);
    check(otlp_encode(again, NULL, &second, &e) == 0);
    check(str_eq(buf_str(&first), buf_str(&second)));
    return 0;
}
