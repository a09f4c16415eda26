/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds one unwind rule with the search table of a loaded object (direct.h). .eh_frame_hdr as every linker writes it:
 *   u8 version = 1, u8 0x1b, u8 0x03, u8 0x3b   encodings: pc-relative s32, u32, header-relative s32
 *   s32 eh_frame, u32 n, n * { s32 start, s32 fde }   sorted by start
 */
#include "unwind/direct.h"

#include <dlfcn.h>
#include <string.h>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

extern int _dl_find_object(void *address, struct dl_find_object *ret) __attribute__((weak));

struct wanted_rows {
    uint64_t pc;
    struct unwind_rule *rule;
};

static int on_row(void *arg, uint64_t pc, const struct unwind_rule *rule)
{
    struct wanted_rows *w = arg;

    if (pc > w->pc)
        return -1; /* the previous one was the match */
    *w->rule = *rule;
    return 0;
}

static int32_t s32(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* The entry with the highest start at or below pc; NULL when pc is below all. */
static const uint8_t *find_fde(const uint8_t *header, uint64_t pc)
{
    const uint8_t *table = header + 12;
    int64_t off = (int64_t) (pc - (uint64_t) (uintptr_t) header);
    uint32_t a = 0, z = (uint32_t) s32(header + 8);

    while (a < z) {
        uint32_t mid = a + (z - a) / 2;

        if (s32(table + mid * 8ul) <= off)
            a = mid + 1;
        else
            z = mid;
    }
    return a ? header + s32(table + (a - 1) * 8ul + 4) : NULL;
}

bool direct_works(void)
{
    return _dl_find_object != NULL;
}

bool direct_rule(uint64_t pc, enum cfi_arch arch, struct unwind_rule *ret)
{
    struct dl_find_object object;
    struct wanted_rows w = {pc, ret};
    struct cfi_section s = {0};
    const uint8_t *header, *fde;
    struct cfi_fde f;
    size_t pos;

    if (!_dl_find_object || _dl_find_object((void *) (uintptr_t) pc, &object) != 0)
        return false;
    header = object.dlfo_eh_frame;
    if (!header || memcmp(header, "\x01\x1b\x03\x3b", 4) != 0)
        return false;
    s.p = header + 4 + s32(header + 4);
    fde = find_fde(header, pc);
    if (!fde || fde < s.p || s.p < (const uint8_t *) object.dlfo_map_start ||
        fde >= (const uint8_t *) object.dlfo_map_end)
        return false;
    s.n = (size_t) ((const uint8_t *) object.dlfo_map_end - s.p);
    s.vaddr = (uint64_t) (uintptr_t) s.p; /* addresses come out as they are in memory */
    pos = (size_t) (fde - s.p);
    if (cfi_next(&s, arch, &pos, &f) != 1 || f.offset != (size_t) (fde - s.p) || pc < f.start || pc >= f.end)
        return false;
    *ret = (struct unwind_rule){0};
    cfi_run(&s, arch, &f, on_row, &w);
    return ret->cfa != UNWIND_CFA_NONE;
}

#else

bool direct_works(void)
{
    return false;
}

bool direct_rule(uint64_t pc, enum cfi_arch arch, struct unwind_rule *ret)
{
    return false;
}

#endif
