/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the difference between the addresses of a mapping and those of its binary, as pprof does. */
#include "elf/elf_base.h"

#include <errno.h>
#include <inttypes.h>

enum { PAGE = 4096 };
#define KERNEL_HALF 0x8000000000000000ull
#define PAGE_OFFSET_PPC64 0xc000000000000000ull

static const struct elf_segment *text_segment(const struct elf_file *f)
{
    for (uint32_t s = 0; s < f->n_sections; s++) {
        uint64_t at = f->sections[s].address;

        if (!str_is(f->sections[s].name, ".text"))
            continue;
        for (uint32_t i = 0; i < f->n_segments; i++) {
            const struct elf_segment *p = &f->segments[i];

            if (p->type == PT_LOAD && (p->flags & PF_X) && at >= p->vaddr && at < p->vaddr + p->memsz)
                return p;
        }
    }
    return NULL;
}

/* Kernels: perf reports the address of _stext as the start; ChromeOS maps its kernel to page 0. */
static bool kernel_base(const struct elf_segment *p, const struct elf_mapping *m, uint64_t *ret)
{
    bool aligned_alike = m->has_kernel_symbol && m->start % PAGE == m->kernel_symbol % PAGE;

    if (p->vaddr == m->start - m->offset) {
        *ret = m->offset;
        return true;
    }
    if (m->start == 0 && m->limit != 0 && m->has_kernel_symbol) {
        *ret = m->start - m->kernel_symbol;
        return true;
    }
    if (m->start >= KERNEL_HALF && m->limit > m->start &&
        (m->offset == 0 || m->offset == PAGE_OFFSET_PPC64 || m->offset == m->start)) {
        *ret = aligned_alike ? m->start - m->kernel_symbol : m->start - p->vaddr;
        return true;
    }
    if (m->start % PAGE != 0 && aligned_alike) {
        *ret = m->start - m->kernel_symbol;
        return true;
    }
    return false;
}

static int exec_base(const struct elf_segment *p, const struct elf_mapping *m, uint64_t *ret, struct err *e)
{
    if (!p) {
        *ret = 0;
        return 0;
    }
    if (!m->has_kernel_symbol && m->start > 0 && m->start < KERNEL_HALF) {
        *ret = m->start - m->offset + p->offset - p->vaddr;
        return 0;
    }
    if (kernel_base(p, m, ret))
        return 0;
    if (m->start == 0 && m->limit != 0 && !m->has_kernel_symbol) {
        *ret = m->start - p->vaddr;
        return 0;
    }
    return err_set(e, -EINVAL,
                   "don't know how to handle EXEC segment: start=0x%" PRIx64 " limit=0x%" PRIx64 " offset=0x%" PRIx64,
                   m->start, m->limit, m->offset);
}

static int base_of(const struct elf_file *f, const struct elf_segment *p, const struct elf_mapping *m, uint64_t *ret,
                   struct err *e)
{
    *ret = 0;
    if (m->start == 0 && m->offset == 0 && (m->limit == UINT64_MAX || m->limit == 0))
        return 0; /* a synthetic mapping over everything: the addresses are already those of the binary */
    switch (f->type) {
    case ET_EXEC:
        return exec_base(p, m, ret, e);
    case ET_REL:
        if (m->offset != 0)
            return err_set(e, -EINVAL, "don't know how to handle mapping.Offset");
        *ret = m->start;
        return 0;
    case ET_DYN:
        if (!p)
            *ret = m->start - m->offset;
        else if (!kernel_base(p, m, ret))
            *ret = m->start - m->offset + p->offset - p->vaddr;
        return 0;
    default:
        return err_set(e, -EINVAL, "don't know how to handle FileHeader.Type %u", f->type);
    }
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
