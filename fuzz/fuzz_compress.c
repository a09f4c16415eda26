/* SPDX-License-Identifier: Apache-2.0 */
/* Inflating: never more than the limit, and what came out goes through deflating and inflating unchanged. */
#include <stdlib.h>

#include "base/compress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 1 << 18 };

/* The first byte chooses the method; 5 and up: by detection. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT, packed = BUF_INIT, back = BUF_INIT;
    enum compression c;
    struct err e;

    if (!size)
        return 0;
    c = data[0] <= COMPRESS_ZSTD ? (enum compression) data[0] : compress_detect(data + 1, size - 1);
    if (compress_inflate(c, data + 1, size - 1, LIMIT, &plain, &e) < 0)
        return 0;
    if (plain.n > LIMIT || compress_deflate(c, 1, plain.p, plain.n, &packed, &e) < 0 ||
        compress_inflate(c, packed.p, packed.n, LIMIT, &back, &e) < 0 || !str_eq(buf_str(&plain), buf_str(&back)))
        abort();
    return 0;
}
