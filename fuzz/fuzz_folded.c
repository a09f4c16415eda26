/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks: what was written is read again and written the same. */
#include <stdlib.h>

#include "codec/folded.h"
#include "model/batch.h"
#include "batch_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool write_once(struct str text, struct buf *out)
{
    struct folded_options opts = {.memory = 256 << 20};
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    (void) folded_probe(text);
    if (folded_decode(text, &opts, &b, &e) < 0)
        return false;
    if (batch_validate(b, &e) < 0 || folded_encode(b, b->profiles, 0, false, out, &e) < 0)
        abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(buf_done) struct buf first = BUF_INIT, one = BUF_INIT, two = BUF_INIT;

    /* Once to get rid of suffixes, white space and zeroes, which may leave others behind; then it must stay. */
    if (!write_once((struct str){(const char *) data, (uint32_t) size}, &first))
        return 0;
    if (write_once(buf_str(&first), &one) && write_once(buf_str(&one), &two) && one.n < two.n)
        abort();
    return 0;
}
