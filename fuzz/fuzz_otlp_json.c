/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP JSON: as fuzz_otlp_pb, through JSON and through protobuf. Bytes that are not UTF-8 change once, not twice. */
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

/* b through `encode` and `decode`, as JSON once more. */
static void again(const struct batch *b, bool json, struct buf *out)
{
    _cleanup_(batch_unrefp) struct batch *back = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct err e = {0};
    int r = json ? otlp_json_encode(b, &text, &e) : otlp_encode(b, NULL, &text, &e);

    check(r == 0);
    r = json ? otlp_json_decode(&text, NULL, &back, &e) : otlp_decode(&text, NULL, &back, &e);
    check(r == 0 || r == -EFBIG || (r == -EPROTONOSUPPORT && !json));
    if (r == 0) {
        check(batch_validate(back, &e) == 0);
        check(otlp_json_encode(back, out, &e) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf first = BUF_INIT, second = BUF_INIT, third = BUF_INIT;
    struct err e = {0};
    int r = otlp_json_decode_borrowed((const char *) data, size, NULL, &b, &e);

    if (r < 0) {
        check(e.message[0] != 0);
        return 0;
    }
    check(batch_validate(b, &e) == 0);
    check(batch_memory(b) <= 8 * size + (3 << 20));
    check(otlp_json_encode(b, &first, &e) == 0);
    again(b, true, &second);
    again(b, false, &third);
    check(!second.n || str_eq(buf_str(&first), buf_str(&second)));
    check(!third.n || str_eq(buf_str(&first), buf_str(&third)));
    return 0;
}
