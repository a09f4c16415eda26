/* SPDX-License-Identifier: Apache-2.0 */
/* Finds .eh_frame of an object that is loaded into this process. The section's length is not in memory: it ends at its
 * terminator, at the latest with its segment. */
#include "unwind/loaded.h"

#include <string.h>

static const ElfW(Phdr) * segment_of(const struct dl_phdr_info *info, uint64_t vaddr)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz)
            return p;
    }
    return NULL;
}

bool loaded_eh_frame(const struct dl_phdr_info *info, struct cfi_section *ret)
{
    const ElfW(Phdr) *header = NULL, *segment;
    const uint8_t *h;
    uint64_t vaddr;
    int32_t rel;

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            header = &info->dlpi_phdr[i];
    if (!header || header->p_memsz < 8 || !segment_of(info, header->p_vaddr))
        return false;
    h = (const uint8_t *) (info->dlpi_addr + header->p_vaddr);
    if (h[0] != 1 || h[1] != 0x1b) /* version; eh_frame_ptr as a pc-relative sdata4: what every linker writes */
        return false;
    memcpy(&rel, h + 4, sizeof rel);
    vaddr = header->p_vaddr + 4 + (uint64_t) (int64_t) rel;
    segment = segment_of(info, vaddr);
    if (!segment)
        return false;
    *ret = (struct cfi_section){(const uint8_t *) (info->dlpi_addr + vaddr),
                                segment->p_filesz - (vaddr - segment->p_vaddr), vaddr, false};
    return true;
}

bool loaded_text(const struct dl_phdr_info *info, uint64_t *lo, uint64_t *hi)
{
    *lo = UINT64_MAX;
    *hi = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        *lo = MIN(*lo, info->dlpi_addr + p->p_vaddr);
        *hi = MAX(*hi, info->dlpi_addr + p->p_vaddr + p->p_memsz);
    }
    return *hi > *lo;
}
