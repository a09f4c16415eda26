/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the load bias of a mapping: the difference between addresses of the process and ELF addresses. */
#include "elf/elf_load.h"

/* Bytes of the file that the segment and [from, to) have in common. */
static uint64_t common(const struct elf_segment *p, uint64_t from, uint64_t to)
{
    uint64_t end = p->offset + p->filesz < p->offset ? UINT64_MAX : p->offset + p->filesz;
    uint64_t low = MAX(p->offset, from), high = MIN(end, to);

    return high > low ? high - low : 0;
}

bool elf_load_bias(const struct elf_segment *segments, uint32_t n, uint64_t start, uint64_t end, uint64_t offset,
                   uint64_t *ret)
{
    const struct elf_segment *best = NULL;
    uint64_t most = 0, to = offset + (end - start) < offset ? UINT64_MAX : offset + (end - start);

    for (uint32_t i = 0; i < n; i++) {
        const struct elf_segment *p = &segments[i];
        uint64_t bytes = p->type == PT_LOAD ? common(p, offset, to) : 0;
        bool code = p->flags & PF_X, had = best && best->flags & PF_X;

        if (bytes && (code > had || (code == had && bytes > most))) {
            best = p;
            most = bytes;
        }
    }
    if (!best)
        return false;
    *ret = start - (best->vaddr - best->offset + offset);
    return true;
}
