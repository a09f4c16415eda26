/* SPDX-License-Identifier: Apache-2.0 */
/* Makes unwind rules for Go functions from the stack offsets in pclntab. */
#include "unwind/go_table.h"

#include <errno.h>

#include "elf/pclntab.h"

struct go_source {
    struct unwind_source source;
    struct pclntab table;
    enum cfi_arch arch;
};

struct go_run {
    cfi_emit *emit;
    void *arg;
    enum cfi_arch arch;
};

static const struct {
    const char *name;
    enum unwind_cfa cfa;
} specials[] = {
    {"runtime.goexit", UNWIND_CFA_END},
    {"runtime.mstart", UNWIND_CFA_END},
    {"runtime.rt0_go", UNWIND_CFA_END},
    {"runtime.mcall", UNWIND_CFA_END},
    {"runtime.morestack", UNWIND_CFA_END},
    {"runtime.systemstack", UNWIND_CFA_SWITCH},
    {"runtime.asmcgocall", UNWIND_CFA_SWITCH},
    {"runtime.sigreturn", UNWIND_CFA_SIGNAL},
    {"runtime.sigreturn__sigaction", UNWIND_CFA_SIGNAL},
};

/* Where code switches stacks, the frame pointer is that of the frame on the other one. arm64: it is 8 below that frame, which is
 * of 16 bytes. */
static bool special_rule(struct str name, enum cfi_arch arch, struct unwind_rule *ret)
{
    if (str_ends(name, STR(".abi0")))
        name.n -= 5;
    *ret = (struct unwind_rule){0};
    if (str_starts(name, STR("_rt0_"))) {
        ret->cfa = UNWIND_CFA_END;
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
        if (!str_is(name, specials[i].name))
            continue;
        ret->cfa = (__u8) specials[i].cfa;
        if (ret->cfa == UNWIND_CFA_SWITCH) {
            ret->cfa_off = arch == CFI_X86_64 ? 16 : 24;
            ret->flags = UNWIND_FP_SAVED;
            ret->fp = arch == CFI_X86_64 ? -2 : -3;
            ret->ra = arch == CFI_X86_64 ? UNWIND_RA_X86 : UNWIND_RA_OFFSET;
            ret->aux = arch == CFI_X86_64 ? 0 : -2;
        }
        return true;
    }
    return false;
}

/* x86: the return address is at the top of the frame, and below it the frame pointer once there is a frame. arm64: a
 * frame has the return address at its bottom and the frame pointer right below that. */
static int emit_value(void *data, uint64_t start, int32_t value)
{
    struct go_run *r = data;
    struct unwind_rule rule = {0};

    if (value >= 0 && value < 1 << 18 && value % 8 == 0) {
        rule.cfa = UNWIND_CFA_SP;
        rule.flags = value ? UNWIND_FP_SAVED : 0;
        if (r->arch == CFI_X86_64) {
            rule.cfa_off = value + 8;
            rule.fp = value ? -2 : 0;
        } else {
            rule.cfa_off = value;
            rule.ra = value ? UNWIND_RA_OFFSET : UNWIND_RA_REG;
            rule.aux = (__s16) (-value / 8);
            rule.fp = value ? (__s16) (-value / 8 - 1) : 0;
        }
    }
    return r->emit(r->arg, start, &rule);
}

static bool range(const struct unwind_source *s, uint32_t i, uint64_t *ret_start, uint64_t *ret_end)
{
    const struct go_source *g = container_of(s, const struct go_source, source);
    struct pclntab_function fn;

    if (!pclntab_function(&g->table, i, &fn))
        return false;
    *ret_start = fn.entry;
    *ret_end = fn.end;
    return true;
}

static int run(const struct unwind_source *s, uint32_t i, cfi_emit *emit, void *arg)
{
    const struct go_source *g = container_of(s, const struct go_source, source);
    struct go_run r = {emit, arg, g->arch};
    struct pclntab_function fn;
    struct unwind_rule rule;

    if (!pclntab_function(&g->table, i, &fn))
        return 0;
    if (special_rule(fn.name, g->arch, &rule))
        return emit(arg, fn.entry, &rule);
    return pclntab_each_sp(&g->table, &fn, emit_value, &r);
}

static void add_section(struct cfi_section *v, uint32_t *n, struct elf_bytes b, bool debug)
{
    if (b.n)
        v[(*n)++] = (struct cfi_section){b.p, b.n, b.address, debug};
}

int go_table_new(const struct elf_file *f, struct unwind_table **ret, struct err *e)
{
    struct go_source g = {.source = {.range = range, .run = run},
                          .arch = f->machine == EM_AARCH64 ? CFI_ARM64 : CFI_X86_64};
    struct cfi_section v[2];
    uint32_t n = 0;
    int r = pclntab_open(f, &g.table, e);

    if (r < 0)
        return r;
    if (!f->is64 || (f->machine != EM_X86_64 && f->machine != EM_AARCH64))
        return err_set(e, -ENOTSUP, "Go code of machine %u", f->machine);
    g.source.n = g.table.n_functions;
    add_section(v, &n, elf_section_bytes(f, ".eh_frame"), false);
    add_section(v, &n, elf_section_bytes(f, ".debug_frame"), true);
    return unwind_table_new_from(&g.source, v, n, g.arch, ret);
}
