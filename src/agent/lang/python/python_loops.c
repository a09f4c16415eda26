/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the interpreter's loop when its symbol is not enough: builds with tail calls and link-time optimisation (3.14)
 * inline _PyEval_EvalFrameDefault into its callers. Each copy of it makes a shim frame, whose instruction is in no code
 * object; the address of that instruction is read from a shim of the process, and the functions that refer to it are
 * the copies.
 */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "unwind/cfi.h"

enum { SMALL = 4096, HITS_MAX = 64 };

void python_loops_add(struct python_loops *l, uint64_t lo, uint64_t hi)
{
    if (l->n < PYTHON_LOOPS_MAX && lo < hi)
        l->v[l->n++] = (struct python_loop){lo, hi};
}

void python_loops_set(struct python *py, const struct python_loops *l)
{
    py->loops.n = 0;
    for (unsigned i = 0; i < l->n; i++)
        python_loops_add(&py->loops, l->v[i].lo + py->bias, l->v[i].hi + py->bias);
}

bool python_loops_have(const struct python_loops *l, uint64_t address)
{
    for (unsigned i = 0; i < l->n; i++)
        if (address >= l->v[i].lo && address < l->v[i].hi)
            return true;
    return false;
}

bool python_loops_wanted(const struct python *py)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < py->loops.n; i++)
        n += py->loops.v[i].hi - py->loops.v[i].lo;
    return py->at.minor >= 12 && n < SMALL; /* a loop with all instructions in it is 30 KB and more */
}

/* Finds addresses in code that refer to the target: as an absolute number, or relative to the next instruction. x86-64.
 * Reads at most as many bytes as the file has, because the sections of a hostile file may overlap. */
static unsigned find_mentions(const struct elf_file *f, uint64_t target, uint64_t ret[HITS_MAX])
{
    size_t left = f->size;
    unsigned n = 0;

    for (uint32_t i = 0; i < f->n_sections && left; i++) {
        const struct elf_section *s = &f->sections[i];
        struct elf_bytes b = s->flags & SHF_EXECINSTR ? elf_bytes_of(f, s) : (struct elf_bytes){0};

        b.n = MIN(b.n, left);
        left -= b.n;
        for (size_t k = 0; k + 4 <= b.n && n < HITS_MAX; k++) {
            int32_t v;

            memcpy(&v, b.p + k, sizeof v);
            if ((uint32_t) v == target || s->address + k + 4 + (uint64_t) (int64_t) v == target)
                ret[n++] = s->address + k;
        }
    }
    return n;
}

void python_loops_find(const struct elf_file *f, uint64_t shim_instr, struct python_loops *ret)
{
    struct elf_bytes b = elf_section_bytes(f, ".eh_frame");
    struct cfi_section section = {b.p, b.n, b.address, false};
    uint64_t hits[HITS_MAX];
    unsigned n = f->machine == EM_X86_64 ? find_mentions(f, shim_instr, hits) : 0;
    struct cfi_fde fde;
    size_t pos = 0;

    *ret = (struct python_loops){0};
    while (n && b.n && cfi_next(&section, CFI_X86_64, &pos, &fde) == 1)
        for (unsigned i = 0; i < n; i++)
            if (hits[i] >= fde.start && hits[i] < fde.end) {
                python_loops_add(ret, fde.start, fde.end);
                break;
            }
}
