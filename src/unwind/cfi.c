/* SPDX-License-Identifier: Apache-2.0 */
/* Reads call frame information and runs its programs (cfi.h). Specified in DWARF 5 section 6.4 and the LSB's chapter on
 * .eh_frame, which have the tables of augmentation letters and encodings. */
#include "unwind/cfi.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/wrap.h"

enum { CFI_STATES_MAX = 8 };

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_reg;
    uint8_t fde_enc;
    bool signal, has_aug;
    const uint8_t *program, *program_end;
};

/* How one register of the caller is found. */
struct reg_state {
    enum {
        REG_SAME,
        REG_UNDEFINED,
        REG_CFA,
        REG_FP,
        REG_IN,
        REG_LOST
    } how; /* REG_FP: saved at fp + off; REG_IN: in register off */
    int64_t off;
};

struct state {
    uint8_t cfa; /* enum unwind_cfa */
    uint64_t reg;
    int64_t off;
    uint8_t deref_add;
    struct reg_state fp, bx, ra;
};

struct machine {
    uint8_t sp, fp, bx, ra;
    bool arm;
};

static const struct machine machines[] = {
    [CFI_X86_64] = {.sp = 7, .fp = 6, .bx = 3, .ra = 16},
    [CFI_ARM64] = {.sp = 31, .fp = 29, .bx = 255, .ra = 30, .arm = true},
};

/* --- reading --- */
static struct cursor sub_cursor(struct cursor *r, uint64_t n)
{
    if (n > (uint64_t) (r->end - r->p)) {
        r->bad = true;
        n = 0;
    }
    r->p += n;
    return (struct cursor){r->p - n, r->p, false};
}

/* A pointer as `enc` (DW_EH_PE_*) says; only what occurs in FDEs: absolute and pc-relative. */
static uint64_t get_pointer(struct cursor *r, const struct cfi_section *s, uint8_t enc)
{
    uint64_t at = s->vaddr + (uint64_t) (r->p - s->p), v;

    switch (enc & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        v = get_u64(r);
        break;
    case 0x01:
        v = get_varint(r);
        break;
    case 0x02:
        v = get_u16(r);
        break;
    case 0x03:
        v = get_u32(r);
        break;
    case 0x09:
        v = (uint64_t) get_sleb(r);
        break;
    case 0x0a:
        v = (uint64_t) (int16_t) get_u16(r);
        break;
    case 0x0b:
        v = (uint64_t) (int32_t) get_u32(r);
        break;
    default:
        r->bad = true;
        return 0;
    }
    if ((enc & 0x70) == 0x10)
        v += at;
    else if (enc & 0xf0) /* data-relative and indirect: not used in FDEs */
        r->bad = true;
    return v;
}

/* --- entries --- */
struct cfi_entry {
    struct cursor body; /* after the id */
    size_t offset, next;
    uint64_t id, id_pos; /* id_pos: section offset of the id field */
    bool wide;
};

/* 1, 0 at the end of the section or at its terminator. */
static int entry_at(const struct cfi_section *s, size_t pos, struct cfi_entry *ret)
{
    struct cursor r = {s->p + pos, s->p + s->n, false};
    uint64_t n;

    if (pos >= s->n)
        return 0;
    ret->offset = pos;
    n = get_u32(&r);
    ret->wide = n == 0xffffffff;
    if (ret->wide)
        n = get_u64(&r);
    if (r.bad || (n == 0 && !s->debug))
        return 0;
    ret->body = sub_cursor(&r, n);
    if (r.bad)
        return 0;
    ret->next = (size_t) (r.p - s->p);
    ret->id_pos = (uint64_t) (ret->body.p - s->p);
    ret->id = ret->wide ? get_u64(&ret->body) : get_u32(&ret->body);
    return 1;
}

static bool entry_is_cie(const struct cfi_section *s, const struct cfi_entry *e)
{
    if (s->debug)
        return e->wide ? e->id == UINT64_MAX : e->id == 0xffffffff;
    return e->id == 0;
}

static bool parse_augmentation(struct cursor *r, const char *aug, struct cie *c)
{
    struct cursor data;

    if (aug[0] != 'z')
        return aug[0] == 0;
    c->has_aug = true;
    data = sub_cursor(r, get_varint(r));
    for (const char *a = aug + 1; *a && !data.bad; a++) {
        if (*a == 'R') {
            c->fde_enc = get_u8(&data);
        } else if (*a == 'L') {
            get_u8(&data);
        } else if (*a == 'P') {
            uint8_t enc = get_u8(&data), size = enc & 7;

            if (size == 1)
                get_varint(&data);
            else
                get_raw(&data, size == 2 ? 2 : size == 3 ? 4 : 8);
        } else if (*a == 'S') {
            c->signal = true;
        } else if (*a != 'B' && *a != 'G') { /* pointer authentication keys, memory tagging: no data */
            break;
        }
    }
    return !data.bad;
}

static bool parse_cie(const struct cfi_section *s, uint64_t offset, struct cie *ret)
{
    struct cfi_entry e;
    const char *aug;
    size_t aug_len;
    uint8_t version;

    memset(ret, 0, sizeof *ret);
    if (offset >= s->n || entry_at(s, (size_t) offset, &e) != 1 || !entry_is_cie(s, &e))
        return false;
    version = get_u8(&e.body);
    if (version != 1 && version != 3 && version != 4)
        return false;
    aug = (const char *) e.body.p;
    aug_len = strnlen(aug, (size_t) (e.body.end - e.body.p));
    if (aug_len == (size_t) (e.body.end - e.body.p))
        return false;
    e.body.p += aug_len + 1;
    if (version == 4 && get_u16(&e.body) != 8) /* address size 8, no segments */
        return false;
    if (strcmp(aug, "eh") == 0)
        get_u64(&e.body);
    ret->code_align = get_varint(&e.body);
    ret->data_align = get_sleb(&e.body);
    ret->ra_reg = version == 1 ? get_u8(&e.body) : get_varint(&e.body);
    if (strcmp(aug, "eh") != 0 && !parse_augmentation(&e.body, aug, ret))
        return false;
    ret->program = e.body.p;
    ret->program_end = e.body.end;
    return !e.body.bad;
}

static bool parse_fde(const struct cfi_section *s, struct cfi_entry *e, struct cie *cie, struct cfi_fde *ret)
{
    uint64_t cie_pos = s->debug ? e->id : e->id_pos - e->id;

    if ((!s->debug && e->id > e->id_pos) || !parse_cie(s, cie_pos, cie))
        return false;
    ret->offset = (uint32_t) e->offset;
    ret->start = get_pointer(&e->body, s, s->debug ? 0 : cie->fde_enc);
    ret->end = ret->start + get_pointer(&e->body, s, s->debug ? 0 : cie->fde_enc & 0x0f);
    if (cie->has_aug)
        sub_cursor(&e->body, get_varint(&e->body));
    return !e->body.bad && ret->start && ret->end > ret->start;
}

int cfi_next(const struct cfi_section *s, enum cfi_arch arch, size_t *pos, struct cfi_fde *ret)
{
    struct cfi_entry e;
    struct cie cie;

    while (*pos < UINT32_MAX && entry_at(s, *pos, &e) == 1) {
        *pos = e.next;
        if (!entry_is_cie(s, &e) && parse_fde(s, &e, &cie, ret) && cie.ra_reg == machines[arch].ra)
            return 1;
    }
    return 0;
}

/* --- expressions: the few that compilers and linkers write --- */
/* DW_OP_bregN off [DW_OP_deref [DW_OP_plus_uconst n]], and the linker's expression for PLT entries. */
static void cfa_expression(struct state *st, const struct machine *m, struct cursor x)
{
    uint64_t n = (uint64_t) (x.end - x.p), add = 0;
    uint8_t op = get_u8(&x);
    int64_t off;

    st->cfa = UNWIND_CFA_NONE;
    if (!m->arm && n == 11 && x.p[0] == 8 && !memcmp(x.p + 1, "\x80\0\x3f\x1a", 4) && x.p[5] >= 0x30 &&
        x.p[5] <= 0x4f && !memcmp(x.p + 6, "\x2a\x33\x24\x22", 4)) {
        st->cfa = UNWIND_CFA_PLT;
        st->reg = x.p[5] - 0x30u;
        st->off = 8;
        return;
    }
    if (op < 0x70 || op > 0x8f)
        return;
    off = get_sleb(&x);
    if (x.p == x.end) { /* plain register + offset */
        st->reg = op - 0x70u;
        st->off = off;
        st->cfa = st->reg == m->sp ? UNWIND_CFA_SP : st->reg == m->fp ? UNWIND_CFA_FP : UNWIND_CFA_REG;
        return;
    }
    if (get_u8(&x) != 0x06) /* DW_OP_deref */
        return;
    if (x.p != x.end && get_u8(&x) == 0x23)
        add = get_varint(&x);
    if (x.bad || x.p != x.end || add % 8 || add / 8 > 255)
        return;
    st->off = off;
    st->deref_add = (uint8_t) (add / 8);
    if (op - 0x70u == m->sp)
        st->cfa = UNWIND_CFA_DEREF_SP;
    else if (op - 0x70u == m->fp)
        st->cfa = UNWIND_CFA_DEREF_FP;
}

/* A register saved where an expression says: DW_OP_breg(fp) off is what realigned frames have. */
static struct reg_state reg_expression(const struct machine *m, struct cursor x)
{
    uint8_t op = get_u8(&x);
    int64_t off = get_sleb(&x);

    if (!x.bad && x.p == x.end && op == 0x70 + m->fp)
        return (struct reg_state){REG_FP, off};
    return (struct reg_state){REG_LOST, 0};
}

/* --- states to rules --- */
static bool reg_rule(const struct reg_state *r, uint8_t at_fp, uint8_t saved, uint8_t *flags, int16_t *ret)
{
    if (r->how == REG_SAME || r->how == REG_UNDEFINED)
        return true;
    if (r->how == REG_LOST || r->how == REG_IN || r->off % 8 || r->off / 8 != (int16_t) (r->off / 8))
        return false;
    *ret = (int16_t) (r->off / 8);
    *flags |= saved | (r->how == REG_FP ? at_fp : 0);
    return true;
}

static bool ra_rule(const struct state *st, const struct machine *m, struct unwind_rule *r)
{
    if (!m->arm && st->ra.how == REG_IN) { /* where an exception lands: jmp *%rcx */
        r->ra = UNWIND_RA_REG;
        r->reg = (uint8_t) st->ra.off;
        return st->ra.off >= 0 && st->ra.off < 16 && (st->cfa == UNWIND_CFA_SP || st->cfa == UNWIND_CFA_FP);
    }
    if (!m->arm) {
        r->ra = UNWIND_RA_X86;
        return st->ra.how == REG_CFA && st->ra.off == -8;
    }
    if (st->ra.how == REG_SAME) {
        r->ra = UNWIND_RA_REG;
        return true;
    }
    r->ra = UNWIND_RA_OFFSET;
    r->aux = (int16_t) (st->ra.off / 8);
    return st->ra.how == REG_CFA && st->ra.off % 8 == 0 && r->aux == st->ra.off / 8;
}

static struct unwind_rule make_rule(const struct state *st, const struct cie *cie, const struct machine *m)
{
    struct unwind_rule r = {0}, none = {0};
    bool deref = st->cfa == UNWIND_CFA_DEREF_SP || st->cfa == UNWIND_CFA_DEREF_FP;

    if (cie->signal) {
        r.cfa = UNWIND_CFA_SIGNAL;
        return r;
    }
    if (st->ra.how == REG_UNDEFINED) {
        r.cfa = UNWIND_CFA_END;
        return r;
    }
    if (st->cfa == UNWIND_CFA_NONE || st->off != (int32_t) st->off || !ra_rule(st, m, &r))
        return none;
    r.cfa = st->cfa;
    r.cfa_off = (int32_t) st->off;
    if (st->cfa != UNWIND_CFA_SP && st->cfa != UNWIND_CFA_FP)
        r.reg = deref ? st->deref_add : (uint8_t) st->reg;
    if (!reg_rule(&st->fp, UNWIND_FP_AT_FP, UNWIND_FP_SAVED, &r.flags, &r.fp))
        return none;
    if (!m->arm && !reg_rule(&st->bx, UNWIND_BX_AT_FP, UNWIND_BX_SAVED, &r.flags, &r.aux))
        return none;
    return r;
}

/* --- the program --- */
struct cfi_run {
    const struct cfi_section *s;
    const struct machine *m;
    const struct cie *cie;
    struct state st, initial, saved[CFI_STATES_MAX];
    struct reg_state ignored; /* for registers that are not tracked */
    unsigned n_saved;
    uint64_t pc, end;
    cfi_emit *emit;
    void *arg;
    int error;
};

static struct reg_state *tracked(struct cfi_run *x, struct state *st, uint64_t reg)
{
    if (reg == x->m->fp)
        return &st->fp;
    if (reg == x->m->ra)
        return &st->ra;
    if (reg == x->m->bx)
        return &st->bx;
    return &x->ignored;
}

static void set_cfa(struct cfi_run *x, uint64_t reg, int64_t off)
{
    struct state *st = &x->st;

    st->reg = reg;
    st->off = off;
    st->cfa = reg == x->m->sp ? UNWIND_CFA_SP : reg == x->m->fp ? UNWIND_CFA_FP : UNWIND_CFA_REG;
    if (st->cfa == UNWIND_CFA_REG && reg >= x->m->ra)
        st->cfa = UNWIND_CFA_NONE;
}

static void emit_here(struct cfi_run *x)
{
    struct unwind_rule r = make_rule(&x->st, x->cie, x->m);

    if (x->emit && x->pc < x->end && !x->error)
        x->error = x->emit(x->arg, x->pc, &r);
}

static void advance(struct cfi_run *x, uint64_t delta)
{
    emit_here(x);
    if (__builtin_mul_overflow(delta, x->cie->code_align, &delta) || __builtin_add_overflow(x->pc, delta, &x->pc))
        x->pc = x->end;
}

static int64_t scaled(struct cfi_run *x, int64_t v)
{
    return wrap_mul(v, x->cie->data_align);
}

/* DW_CFA_restore_state restores registers and, as every compiler expects, the CFA. */
static bool remember(struct cfi_run *x, bool restore)
{
    if (restore) {
        if (!x->n_saved)
            return false;
        x->st = x->saved[--x->n_saved];
        return true;
    }
    if (x->n_saved == CFI_STATES_MAX)
        return false;
    x->saved[x->n_saved++] = x->st;
    return true;
}

/* Instructions that say where the canonical frame address is. false: not one of them. */
static bool step_cfa(struct cfi_run *x, struct cursor *r, uint8_t op)
{
    uint64_t reg;

    switch (op) {
    case 0x0c: /* def_cfa */
        reg = get_varint(r);
        set_cfa(x, reg, (int64_t) get_varint(r));
        return true;
    case 0x0d: /* def_cfa_register */
        set_cfa(x, get_varint(r), x->st.off);
        return true;
    case 0x0e: /* def_cfa_offset */
        set_cfa(x, x->st.reg, (int64_t) get_varint(r));
        return true;
    case 0x0f: /* def_cfa_expression */
        cfa_expression(&x->st, x->m, sub_cursor(r, get_varint(r)));
        return true;
    case 0x12: /* def_cfa_sf */
        reg = get_varint(r);
        set_cfa(x, reg, scaled(x, get_sleb(r)));
        return true;
    case 0x13: /* def_cfa_offset_sf */
        set_cfa(x, x->st.reg, scaled(x, get_sleb(r)));
        return true;
    default:
        return false;
    }
}

/* Instructions that say where a register was saved. false: not one of them. */
static bool step_register(struct cfi_run *x, struct cursor *r, uint8_t op)
{
    uint64_t reg;

    switch (op) {
    case 0x05: /* offset_extended */
        reg = get_varint(r);
        *tracked(x, &x->st, reg) = (struct reg_state){REG_CFA, scaled(x, (int64_t) get_varint(r))};
        return true;
    case 0x06: /* restore_extended */
        reg = get_varint(r);
        *tracked(x, &x->st, reg) = *tracked(x, &x->initial, reg);
        return true;
    case 0x07: /* undefined */
        *tracked(x, &x->st, get_varint(r)) = (struct reg_state){REG_UNDEFINED, 0};
        return true;
    case 0x08: /* same_value */
        *tracked(x, &x->st, get_varint(r)) = (struct reg_state){REG_SAME, 0};
        return true;
    case 0x09: /* register */
        reg = get_varint(r);
        *tracked(x, &x->st, reg) = (struct reg_state){REG_IN, (int64_t) get_varint(r)};
        return true;
    case 0x10: /* expression */
        reg = get_varint(r);
        *tracked(x, &x->st, reg) = reg_expression(x->m, sub_cursor(r, get_varint(r)));
        return true;
    case 0x11: /* offset_extended_sf */
        reg = get_varint(r);
        *tracked(x, &x->st, reg) = (struct reg_state){REG_CFA, scaled(x, get_sleb(r))};
        return true;
    case 0x14: /* val_offset, val_offset_sf */
    case 0x15:
        reg = get_varint(r);
        get_varint(r);
        *tracked(x, &x->st, reg) = (struct reg_state){REG_LOST, 0};
        return true;
    case 0x16: /* val_expression */
        reg = get_varint(r);
        sub_cursor(r, get_varint(r));
        *tracked(x, &x->st, reg) = (struct reg_state){REG_LOST, 0};
        return true;
    default:
        return false;
    }
}

/* Instructions whose operand is not in the opcode. false: not understood. */
static bool step_extended(struct cfi_run *x, struct cursor *r, uint8_t op)
{
    uint64_t pc;

    switch (op) {
    case 0x00: /* nop */
        return true;
    case 0x01: /* set_loc */
        emit_here(x);
        pc = get_pointer(r, x->s, x->s->debug ? 0 : x->cie->fde_enc);
        if (pc < x->pc) /* only forward */
            return false;
        x->pc = pc;
        return true;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        advance(x, op == 2 ? get_u8(r) : op == 3 ? get_u16(r) : get_u32(r));
        return true;
    case 0x0a: /* remember_state */
        return remember(x, false);
    case 0x0b:
        return remember(x, true);
    case 0x2d: /* AARCH64_negate_ra_state: the return address is signed; readers mask it */
        return x->m->arm;
    case 0x2e: /* GNU_args_size */
        get_varint(r);
        return true;
    default:
        return step_cfa(x, r, op) || step_register(x, r, op);
    }
}

static void run_program(struct cfi_run *x, struct cursor r)
{
    while (r.p < r.end && !x->error && x->pc < x->end) {
        uint8_t op = get_u8(&r), low = op & 0x3f;
        bool known = true;

        if (op >> 6 == 1)
            advance(x, low);
        else if (op >> 6 == 2)
            *tracked(x, &x->st, low) = (struct reg_state){REG_CFA, scaled(x, (int64_t) get_varint(&r))};
        else if (op >> 6 == 3)
            *tracked(x, &x->st, low) = *tracked(x, &x->initial, low);
        else
            known = step_extended(x, &r, op);
        if (!known || r.bad) {
            x->st.cfa = UNWIND_CFA_NONE;
            break;
        }
    }
}

int cfi_run(const struct cfi_section *s, enum cfi_arch arch, const struct cfi_fde *fde, cfi_emit *emit, void *arg)
{
    struct cfi_entry e;
    struct cie cie;
    struct cfi_fde f;
    struct cfi_run x = {.s = s, .m = &machines[arch], .cie = &cie, .pc = fde->start, .end = fde->end, .arg = arg};

    if (fde->offset >= s->n || entry_at(s, fde->offset, &e) != 1 || !parse_fde(s, &e, &cie, &f))
        return -EINVAL;
    x.st.ra.how = x.m->arm ? REG_SAME : REG_UNDEFINED;
    run_program(&x, (struct cursor){cie.program, cie.program_end, false}); /* no emit yet: sets the initial rules */
    x.initial = x.st;
    x.pc = fde->start;
    x.emit = emit;
    run_program(&x, e.body);
    emit_here(&x);
    return x.error;
}
