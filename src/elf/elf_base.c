/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the difference between the addresses of a mapping and those of its binary, as pprof does. */
#include "elf/elf_base.h"

#include <errno.h>
#include <inttypes.h>

enum { PAGE = 4096 };
#define KERNEL_HALF 0x8000000000000000ull
#define PAGE_OFFSET_PPC64 0xc000000000000000ull

/* The segment with the program's code; NULL when the file does not say which that is. */
static const struct elf_segment *text_segment(const struct elf_file *f)
{
    const struct elf_section *text = elf_find_section(f, ".text");
    const struct elf_segment *found = NULL;

    for (uint32_t i = f->n_segments; text && i-- > 0;) {
        const struct elf_segment *p = &f->segments[i];

        if (p->type == PT_LOAD && (p->flags & PF_X) && text->address - p->vaddr < p->memsz)
            found = p;
    }
    return found;
}

/* What of the file is known to be at the start of the mapping. */
enum elf_anchor {
    ANCHOR_BYTES,   /* the bytes at the mapping's offset, as with every program and library */
    ANCHOR_OFFSET,  /* the mapping's addresses are those of the file, moved by its offset */
    ANCHOR_SYMBOL,  /* _stext: perf says so of kernels */
    ANCHOR_SEGMENT, /* the first byte of the segment */
    ANCHOR_UNKNOWN,
};

/* Kernels are mapped in several ways: from _stext on, by their segment, or (ChromeOS) at address 0. */
static enum elf_anchor find_anchor(uint16_t type, const struct elf_segment *p, const struct elf_mapping *m)
{
    bool at_zero = m->start == 0 && m->limit != 0;
    bool in_kernel = m->start >= KERNEL_HALF && m->limit > m->start;
    bool whole_kernel = in_kernel && (!m->offset || m->offset == PAGE_OFFSET_PPC64 || m->offset == m->start);
    bool on_symbol = m->has_kernel_symbol && (m->start - m->kernel_symbol) % PAGE == 0;

    if (type == ET_EXEC && !m->has_kernel_symbol && m->start && m->start < KERNEL_HALF)
        return ANCHOR_BYTES;
    if (m->start - m->offset == p->vaddr)
        return ANCHOR_OFFSET;
    if ((at_zero && m->has_kernel_symbol) || (on_symbol && (whole_kernel || m->start % PAGE)))
        return ANCHOR_SYMBOL;
    if (whole_kernel)
        return ANCHOR_SEGMENT;
    if (type == ET_DYN)
        return ANCHOR_BYTES;
    return at_zero ? ANCHOR_SEGMENT : ANCHOR_UNKNOWN;
}

static int loaded_base(uint16_t type, const struct elf_segment *p, const struct elf_mapping *m, uint64_t *ret,
                       struct err *e)
{
    switch (find_anchor(type, p, m)) {
    case ANCHOR_BYTES:
        *ret = m->start - m->offset - (p->vaddr - p->offset);
        return 0;
    case ANCHOR_OFFSET:
        *ret = m->offset;
        return 0;
    case ANCHOR_SYMBOL:
        *ret = m->start - m->kernel_symbol;
        return 0;
    case ANCHOR_SEGMENT:
        *ret = m->start - p->vaddr;
        return 0;
    case ANCHOR_UNKNOWN:
        break;
    }
    return err_set(e, -EINVAL,
                   "don't know how to handle EXEC segment: start=0x%" PRIx64 " limit=0x%" PRIx64 " offset=0x%" PRIx64,
                   m->start, m->limit, m->offset);
}

static int base_of(const struct elf_file *f, const struct elf_segment *p, const struct elf_mapping *m, uint64_t *ret,
                   struct err *e)
{
    bool everything = !m->start && !m->offset && (!m->limit || m->limit == UINT64_MAX);

    *ret = 0;
    if (everything)
        return 0; /* a synthetic mapping: the addresses are already those of the binary */
    if (f->type != ET_EXEC && f->type != ET_DYN && f->type != ET_REL)
        return err_set(e, -EINVAL, "don't know how to handle FileHeader.Type %u", f->type);
    if (f->type == ET_REL && m->offset)
        return err_set(e, -EINVAL, "don't know how to handle mapping.Offset");
    if (f->type != ET_REL && p)
        return loaded_base((uint16_t) f->type, p, m, ret, e);
    if (f->type != ET_EXEC)
        *ret = m->start - m->offset;
    return 0;
}

/* A segment that a mapping of [offset, offset + size) of the file can come from. */
static bool matches(const struct elf_segment *p, uint64_t offset, uint64_t size)
{
    uint64_t end = p->offset + p->memsz, limit = offset + size, in_page = p->vaddr & (PAGE - 1);
    uint64_t aligned = p->offset > in_page ? p->offset - in_page : 0;

    if (p->type != PT_LOAD || p->filesz == 0 || offset >= end || p->offset >= limit || offset < aligned)
        return false;
    /* Less than a page of the segment, and more after it: the mapping belongs to another segment. */
    return !(offset > p->offset && end < offset + PAGE && limit >= end + PAGE);
}

static int find_segment(const struct elf_file *f, const struct elf_mapping *m, uint64_t address,
                        const struct elf_segment **ret, struct err *e)
{
    const struct elf_segment *found = NULL, *exact = NULL;
    uint64_t at = address - m->start + m->offset;
    uint32_t n = 0, n_exact = 0, n_load = 0;

    *ret = NULL;
    for (uint32_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];

        n_load += p->type == PT_LOAD;
        if (!matches(p, m->offset, m->limit - m->start))
            continue;
        n++;
        found = p;
        if (at >= p->offset && at < p->offset + p->memsz) {
            exact = p;
            n_exact++;
        }
    }
    if (n_load == 0)
        return 0;
    if (n == 0)
        return err_set(e, -EINVAL, "no program header matches mapping info");
    *ret = n == 1 ? found : exact;
    if (n > 1 && n_exact != 1)
        return err_set(e, -EINVAL, "%s program header matches file offset %" PRIx64, n_exact ? "more than one" : "no",
                       at);
    return 0;
}

int elf_base_check(const struct elf_file *f, const struct elf_mapping *m, struct err *e)
{
    uint64_t base;

    return base_of(f, text_segment(f), m, &base, e);
}

int elf_base_find(const struct elf_file *f, const struct elf_mapping *m, uint64_t address, uint64_t *ret, struct err *e)
{
    const struct elf_segment *p = NULL;
    int r;

    if (address < m->start || address >= m->limit)
        return err_set(e, -ERANGE, "address %" PRIx64 " is outside the mapping [%" PRIx64 ", %" PRIx64 "]", address,
                       m->start, m->limit);
    if (m->has_kernel_symbol || m->start >= m->limit || m->limit >= KERNEL_HALF) {
        p = text_segment(f);
    } else {
        r = find_segment(f, m, address, &p, e);
        if (r < 0)
            return r;
    }
    return base_of(f, p, m, ret, e);
}
