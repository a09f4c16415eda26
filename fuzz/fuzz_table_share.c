/* SPDX-License-Identifier: Apache-2.0 */
/* An unwind table from a process that is not trusted: whatever is accepted can be searched at every page. */
#include <string.h>

#include "base/mem.h"
#include "unwind/table_share.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = mem_alloc(size + 8); /* aligned, as a mapping is */
    struct unwind_table t;

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (unwind_table_check(copy, size, &t) == 0)
        for (uint64_t i = 0; i < t.n_pages; i++)
            for (uint64_t low = 0; low < 65536; low += 251)
                unwind_find(&t, (t.first_page + i) << UNWIND_PAGE_BITS | low);
    mem_free(copy);
    return 0;
}
