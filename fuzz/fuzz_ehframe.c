/* SPDX-License-Identifier: Apache-2.0 */
/* Byte 0 picks section kind and machine, the rest is the section. The table must be well-formed whatever comes in. */
#include <stddef.h>
#include <stdlib.h>

#include "unwind/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct unwind_table *t)
{
    for (uint32_t p = 0; p < t->n_pages; p++) {
        const struct unwind_page *g = &t->pages[p];

        if (g->n && (g->row / UNWIND_SHARD_ROWS != (g->row + g->n - 1) / UNWIND_SHARD_ROWS || t->rows[g->row].pc))
            abort();
        for (uint32_t i = 0; i < g->n; i++) {
            const struct unwind_row *r = &t->rows[g->row + i];

            if (r->rule >= t->n_rules || (i && r->pc <= r[-1].pc))
                abort();
        }
        for (uint32_t low = 0; low < 65536; low += 4093)
            unwind_find(t, ((t->first_page + p) << UNWIND_PAGE_BITS) + low);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct unwind_table *t;
    struct cfi_section s;

    if (!size)
        return 0;
    s = (struct cfi_section){data + 1, size - 1, 0x400000, data[0] & 1};
    if (unwind_table_new(&s, 1, data[0] & 2 ? CFI_ARM64 : CFI_X86_64, &t) == 0) {
        check(t);
        unwind_table_free(t);
    }
    return 0;
}
