/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of the span index from a damaged or foreign file. The checksum is corrected, so that the code after its check is reached. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/mem.h"
#include "span/span_block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span_block b = {0};
    struct span_head h;
    struct span_row row;
    uint8_t *p = mem_dup(data, size);

    if (p && size >= SPAN_BLOCK_HEADER && span_head_read(p, &h) == 0 && h.payload <= size - SPAN_BLOCK_HEADER)
        store_u32(p + 4, crc32c(0, p + 8, SPAN_BLOCK_HEADER - 8 + (size_t) h.payload));
    if (p && span_block_read(&b, p, size) == 0)
        for (uint32_t i = 0; i < b.head.n_rows; i++) {
            span_block_row(&b, i, &row);
            if (row.duration < 0 || row.kind >= SPAN_KINDS || row.name.n > size)
                abort();
        }
    span_block_done(&b);
    mem_free(p);
    return 0;
}
