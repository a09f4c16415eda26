/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the instructions from one on until the function returns, and notes what they do to rsp, rbp and rbx; everything else is
 * only measured. At a branch the path that falls through is followed first, then, if it leads nowhere, the others: in a function
 * all paths from an instruction agree on where its frame ends.
 *
 * rsp is a sum of a base (its own value now, that of rbp, of another register, or of a word in memory) and a number. Calls leave it
 * as it is.
 */
#include "unwind/code_rule.h"

#include <string.h>

#include "base/bytes.h"
#include "base/macros.h"
#include "unwind/rows.h"

enum { STEPS = 4096, BRANCHES = 32, RBX = 3, RSP = 4, RBP = 5, LONGEST = 15 };

/* --- the length of an instruction --- */
enum { MODRM = 1, IMM8 = 2, IMMZ = 4, NONE = 8 }; /* IMMZ: 4 bytes, 2 with the prefix 66; NONE: no instruction */

/* What follows opcodes of one byte, 80 and up: a character for each. '.': nothing; m: MODRM, b: MODRM and a byte, z: MODRM and
 * IMMZ, i: a byte, I: IMMZ, x: invalid, or treated apart. */
static const char one_byte[] = "bzxbmmmmmmmmmmmm"  /* 80 */
                               "..........x....."  /* 90 */
                               "xxxx....iI......"  /* a0 */
                               "iiiiiiiixxxxxxxx"  /* b0 */
                               "bbx.xxbzx..x.ix."  /* c0 */
                               "mmmmxxx.mmmmmmmm"  /* d0 */
                               "iiiiiiiixxxi...."  /* e0 */
                               "x.xx..xx......mm"; /* f0 */

struct insn {
    const uint8_t *code;
    size_t n;         /* bytes until the end of what is known */
    size_t op;        /* where the opcode is, after prefixes */
    uint8_t rex;      /* 0: none */
    bool small, vex;  /* has the prefix 66; is VEX, EVEX or XOP */
    uint32_t map;     /* 0: one byte; 1: 0f; 2: 0f38; 3: 0f3a; 4 to 7: EVEX; 8 to 10: XOP */
    size_t modrm;     /* its place; 0: none */
    size_t immediate; /* its place, also of a relative address */
    size_t length;
};

static int one_byte_kind(const struct insn *x, uint8_t op)
{
    static const char low[] = "mmmmiIxx";

    if (op < 0x40)
        op = (uint8_t) low[op & 7];
    else if (op < 0x60)
        return op < 0x50 ? NONE : 0;
    else if (op < 0x70)
        op = (uint8_t) "xxxmxxxxIzib...."[op - 0x60];
    else if (op < 0x80)
        op = 'i';
    else if (op == 0xf6 || op == 0xf7) /* test has an immediate, not and neg have none */
        op = x->n > x->op + 1 && x->code[x->op + 1] & 0x38 & 0x30 ? 'm' : op == 0xf6 ? 'b' : 'z';
    else
        op = (uint8_t) one_byte[op - 0x80];
    return op == 'm'   ? MODRM
           : op == 'b' ? MODRM | IMM8
           : op == 'z' ? MODRM | IMMZ
           : op == 'i' ? IMM8
           : op == 'I' ? IMMZ
           : op == '.' ? 0
                       : NONE;
}

/* Of the opcodes that begin with 0f. */
static int two_byte_kind(const struct insn *x, uint8_t op)
{
    if (x->vex && op == 0x77)
        return 0;
    if (op >= 0x80 && op < 0x90)
        return x->vex ? MODRM : IMMZ;
    if ((op >= 0x70 && op <= 0x73) || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
        (op >= 0xc4 && op <= 0xc6) || op == 0x0f)
        return MODRM | IMM8;
    if (op == 0x0b || op == 0x04 || op == 0x0a || op == 0x0c)
        return NONE;
    if (x->vex || (op & 0xf0) == 0x10 || op == 0x00 || op == 0x01 || op == 0x02 || op == 0x03 || op == 0x0d)
        return MODRM;
    if (op < 0x10 || (op >= 0x30 && op < 0x38) || op == 0x77 || (op >= 0xa0 && op <= 0xa2) ||
        (op >= 0xa8 && op <= 0xaa) || op >= 0xc8)
        return op >= 0xd0 ? MODRM : 0;
    return MODRM;
}

/* Prefixes, REX, VEX and EVEX: sets where the opcode is and which map it is of. */
static bool read_prefixes(struct insn *x)
{
    static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3};
    const uint8_t *c = x->code;
    size_t i = 0;

    for (; i < x->n && i < LONGEST && memchr(prefixes, c[i], sizeof prefixes); i++)
        x->small |= c[i] == 0x66;
    if (i < x->n && (c[i] & 0xf0) == 0x40)
        x->rex = c[i++];
    if (i + 4 >= x->n) /* short enough instructions at the very end are padded by the caller */
        return false;
    x->op = i;
    if (c[i] == 0xc5 || c[i] == 0xc4 || c[i] == 0x62 || (c[i] == 0x8f && (c[i + 1] & 0x1f) >= 8)) {
        x->vex = true;
        x->map = c[i] == 0xc5 ? 1 : c[i] == 0x62 ? c[i + 1] & 7u : c[i + 1] & 0x1fu;
        x->op = i + (c[i] == 0xc5 ? 2 : c[i] == 0x62 ? 4 : 3);
        return x->map && x->map <= 10 && x->op < x->n;
    }
    if (c[i] == 0x0f) {
        x->map = c[i + 1] == 0x38 ? 2 : c[i + 1] == 0x3a ? 3 : 1;
        x->op = i + (x->map == 1 ? 1 : 2);
    }
    return true;
}

static size_t modrm_size(const struct insn *x)
{
    uint8_t m = x->code[x->modrm], mod = m >> 6, rm = m & 7;
    size_t size = 1;

    if (mod == 3)
        return 1;
    if (rm == 4) {
        if (x->modrm + 1 >= x->n)
            return LONGEST;
        size++;
        rm = x->code[x->modrm + 1] & 7;
    }
    return size + (mod == 1 ? 1 : mod == 2 || rm == 5 ? 4 : 0);
}

/* Instructions whose immediates are like no other's. 0: it is none of these. */
static size_t odd_immediate(const struct insn *x, uint8_t op)
{
    if (x->map || x->vex)
        return 0;
    if (op >= 0xb8 && op <= 0xbf)
        return x->rex & 8 ? 8 : x->small ? 2 : 4;
    if (op == 0xe8 || op == 0xe9)
        return 4;
    if (op == 0xc2)
        return 2;
    if (op == 0xc8)
        return 3;
    return op >= 0xa0 && op <= 0xa3 ? 8 : 0;
}

static bool decode(const uint8_t *code, size_t n, struct insn *x)
{
    size_t odd;
    uint8_t op;
    int kind;

    *x = (struct insn){.code = code, .n = n};
    if (!read_prefixes(x))
        return false;
    op = code[x->op];
    odd = odd_immediate(x, op);
    kind = odd                          ? 0
           : x->map == 0                ? one_byte_kind(x, op)
           : x->map == 1                ? two_byte_kind(x, op)
           : x->map == 3 || x->map == 8 ? MODRM | IMM8
           : x->map == 10               ? MODRM | IMMZ
                                        : MODRM;
    if (kind == NONE)
        return false;
    x->immediate = x->op + 1;
    if (kind & MODRM) {
        x->modrm = x->immediate;
        if (x->modrm >= n)
            return false;
        x->immediate += modrm_size(x);
    }
    x->length = x->immediate + odd +
                (kind & IMM8   ? 1
                 : kind & IMMZ ? (x->small && !(x->rex & 8) && x->map == 0 ? 2 : 4)
                               : 0);
    return x->length <= n && x->length <= LONGEST;
}

size_t code_length(const uint8_t *code, size_t n)
{
    uint8_t padded[LONGEST + 5] = {0};
    struct insn x;

    memcpy(padded, code, MIN(n, sizeof padded));
    return decode(padded, sizeof padded, &x) && x.length <= n ? x.length : 0;
}

/* --- what it does to the stack pointer --- */
enum base { LOST, OWN_SP, OWN_FP, OTHER, WORD };

/* base + off; reg: which register is OTHER; word: where from the stack pointer WORD is. */
struct sum {
    enum base base;
    int32_t off, word;
    uint8_t reg;
};

struct path {
    size_t at;
    struct sum sp, fp;
    struct sum fp_slot, bx_slot; /* where they were restored from; LOST: they were not */
    struct sum regs[16];         /* copies of sp that were made on the way */
};

struct follow {
    const uint8_t *code;
    size_t n, begin;
    struct path p, others[BRANCHES];
    uint32_t n_others;
    bool after_call;
    uint8_t seen[CODE_RULE_WINDOW / 8];
};

static int32_t number(const struct insn *x, size_t at, size_t size)
{
    return size == 1 ? (int8_t) x->code[at] : (int32_t) load_u32(x->code + at);
}

static uint8_t reg_of(const struct insn *x)
{
    return (uint8_t) ((x->code[x->modrm] >> 3 & 7) | (x->rex & 4) << 1);
}

static uint8_t rm_of(const struct insn *x)
{
    return (uint8_t) ((x->code[x->modrm] & 7) | (x->rex & 1) << 3);
}

static bool is_register(const struct insn *x)
{
    return x->code[x->modrm] >> 6 == 3;
}

static struct sum plus(struct sum s, int64_t n)
{
    int64_t off = s.off + n;

    if (off > INT32_MAX / 2 || off < INT32_MIN / 2)
        return (struct sum){LOST, 0, 0, 0};
    s.off = (int32_t) off;
    return s;
}

/* The address in memory that the instruction names, if it is relative to rsp or rbp. */
static struct sum address(const struct insn *x, const struct path *p)
{
    uint8_t m = x->code[x->modrm], mod = m >> 6;
    size_t at = x->modrm + 1;
    struct sum s = p->fp;

    if (mod == 3 || x->rex & 1 || ((m & 7) == RSP ? x->code[at] != 0x24 : (m & 7) != RBP || mod == 0))
        return (struct sum){LOST, 0, 0, 0};
    if ((m & 7) == RSP) {
        s = p->sp;
        at++;
    }
    return mod == 0 ? s : plus(s, number(x, at, mod == 1 ? 1 : 4));
}

static struct sum value_of(const struct path *p, uint8_t reg)
{
    if (reg == RSP)
        return p->sp;
    if (reg == RBP)
        return p->fp;
    if (p->regs[reg].base != LOST)
        return p->regs[reg];
    return (struct sum){OTHER, 0, 0, reg};
}

/* The register has the word at the address now. */
static void load(struct path *p, uint8_t reg, struct sum from)
{
    if (reg == RSP && from.base == OWN_SP)
        p->sp = (struct sum){WORD, 0, from.off, 0};
    else if (reg == RSP)
        p->sp.base = LOST;
    if (reg == RBP) {
        p->fp.base = LOST;
        p->fp_slot = from;
    }
    if (reg == RBX)
        p->bx_slot = from;
}

static void assign(struct path *p, uint8_t reg, struct sum value)
{
    if (reg == RSP)
        p->sp = value;
    else if (reg == RBP)
        p->fp = value.base == OTHER ? (struct sum){LOST, 0, 0, 0} : value;
    else
        p->regs[reg] = value.base == OTHER ? (struct sum){LOST, 0, 0, 0} : value;
}

static void pop(struct path *p, uint8_t reg)
{
    struct sum from = p->sp;

    p->sp = plus(p->sp, 8);
    if (reg == RSP)
        p->sp.base = LOST;
    else
        load(p, reg, from);
}

/* mov, lea, and arithmetic with rsp. */
static void on_modrm(struct path *p, const struct insn *x, uint8_t op)
{
    bool wide = x->rex & 8;
    uint8_t kind = x->code[x->modrm] >> 3 & 7;

    if (op == 0x89 && wide && is_register(x)) {
        assign(p, rm_of(x), value_of(p, reg_of(x)));
    } else if (op == 0x8b && wide) {
        if (is_register(x))
            assign(p, reg_of(x), value_of(p, rm_of(x)));
        else if (address(x, p).base != LOST || reg_of(x) == RSP)
            load(p, reg_of(x), address(x, p));
    } else if (op == 0x8d && wide) {
        struct sum to = address(x, p);

        if (to.base != LOST || reg_of(x) == RSP || reg_of(x) == RBP)
            assign(p, reg_of(x), to);
    } else if ((op == 0x83 || op == 0x81) && is_register(x) && rm_of(x) == RSP && (kind == 0 || kind == 5)) {
        int64_t by = number(x, x->immediate, op == 0x83 ? 1 : 4);

        p->sp = plus(p->sp, kind == 0 ? by : -by);
    } else if (kind != 7 && is_register(x) && (op == 0x83 || op == 0x81 || op == 0xff) && rm_of(x) == RSP) {
        p->sp.base = LOST; /* aligned */
    } else if (op < 0x38 && (op & 7) < 4 && is_register(x) && (op & 2 ? reg_of(x) : rm_of(x)) == RSP && op & 1) {
        p->sp.base = LOST; /* plus a register */
    }
}

static void on_plain(struct path *p, const struct insn *x, uint8_t op)
{
    if ((op & 0xf8) == 0x50 || op == 0x68 || op == 0x6a || op == 0x9c)
        p->sp = plus(p->sp, -8);
    else if ((op & 0xf8) == 0x58)
        pop(p, (uint8_t) ((op & 7) | (x->rex & 1) << 3));
    else if (op == 0x9d)
        p->sp = plus(p->sp, 8);
    else if (op == 0xff && (x->code[x->modrm] >> 3 & 7) == 6)
        p->sp = plus(p->sp, -8);
    else if (op == 0x8f)
        p->sp = plus(p->sp, 8);
    else if (op == 0xc9) { /* leave */
        p->sp = p->fp;
        pop(p, RBP);
    } else if (x->modrm)
        on_modrm(p, x, op);
}

/* --- the rule --- */
/* What is below the stack pointer was not saved yet. Returns false if a rule cannot say where it is. */
static bool saved_at(struct sum slot, struct sum cfa, uint8_t at_fp, uint8_t saved, uint8_t *flags, int16_t *ret)
{
    int64_t units;

    if (slot.base == LOST || (slot.base == OWN_SP && slot.off < 0))
        return true;
    if (slot.base == cfa.base && slot.word == cfa.word && slot.reg == cfa.reg)
        units = (int64_t) slot.off - cfa.off;
    else if (slot.base == OWN_FP)
        units = slot.off, *flags |= at_fp;
    else
        return false;
    if (units % 8 || units / 8 > INT16_MAX || units / 8 < INT16_MIN)
        return false;
    *flags |= saved;
    *ret = (int16_t) (units / 8);
    return true;
}

/* At a return: the return address is at sp. */
static bool make_rule(const struct path *p, struct unwind_rule *ret)
{
    static const uint8_t bases[] = {
        [OWN_SP] = UNWIND_CFA_SP, [OWN_FP] = UNWIND_CFA_FP, [OTHER] = UNWIND_CFA_REG, [WORD] = UNWIND_CFA_DEREF_SP};
    struct sum cfa = plus(p->sp, 8);
    struct unwind_rule u = {.ra = UNWIND_RA_X86};

    if (cfa.base == LOST || cfa.off & 7 || (cfa.base == OWN_SP && cfa.off < 8))
        return false;
    u.cfa = bases[cfa.base];
    u.reg = cfa.reg;
    u.cfa_off = cfa.off;
    if (cfa.base == WORD) {
        if (cfa.off < 8 || cfa.off / 8 > UINT8_MAX)
            return false;
        u.cfa_off = cfa.word;
        u.reg = (uint8_t) (cfa.off / 8);
    }
    if (!saved_at(p->fp_slot, cfa, UNWIND_FP_AT_FP, UNWIND_FP_SAVED, &u.flags, &u.fp) ||
        !saved_at(p->bx_slot, cfa, UNWIND_BX_AT_FP, UNWIND_BX_SAVED, &u.flags, &u.aux))
        return false;
    *ret = u;
    return true;
}

/* --- the way there --- */
enum code_step { ON, RETURNS, DEAD };

/* Padding after a call that does not return, or the entry of another function. */
static bool is_beginning(const struct follow *f, const struct insn *x, uint8_t op)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    bool nop = (x->map == 1 && op == 0x1f) || (x->map == 0 && op == 0x90);

    return (nop && f->after_call) || (x->length == sizeof endbr && memcmp(x->code, endbr, sizeof endbr) == 0);
}

static bool target(const struct follow *f, const struct insn *x, size_t *ret)
{
    int64_t to =
        (int64_t) f->p.at + (int64_t) x->length + number(x, x->immediate, x->length - x->immediate == 1 ? 1 : 4);

    *ret = (size_t) to;
    return to >= 0 && to < (int64_t) f->n;
}

static enum code_step jump(struct follow *f, const struct insn *x)
{
    return target(f, x, &f->p.at) ? ON : DEAD;
}

static enum code_step step(struct follow *f)
{
    struct insn x;
    size_t to;
    uint8_t op;

    if (f->p.at >= f->n || f->seen[f->p.at / 8] & 1 << f->p.at % 8 || !decode(f->code + f->p.at, f->n - f->p.at, &x))
        return DEAD;
    f->seen[f->p.at / 8] |= (uint8_t) (1 << f->p.at % 8);
    op = f->code[f->p.at + x.op];
    if (is_beginning(f, &x, op) && f->p.at != f->begin)
        return DEAD;
    f->after_call = x.map == 0 && (op == 0xe8 || (op == 0xff && (x.code[x.modrm] >> 3 & 7) == 2));
    if (x.map == 0 && (op == 0xc3 || op == 0xc2))
        return RETURNS;
    if (x.map == 0 && (op == 0xe9 || op == 0xeb))
        return jump(f, &x);
    if (x.map == 0 && (op == 0xf4 || op == 0xcc || (op == 0xff && (x.code[x.modrm] >> 3 & 6) == 4)))
        return DEAD;
    if ((x.map == 0 && ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3))) ||
        (x.map == 1 && !x.vex && (op & 0xf0) == 0x80))
        if (f->n_others < BRANCHES && target(f, &x, &to)) {
            f->others[f->n_others] = f->p;
            f->others[f->n_others++].at = to;
        }
    if (x.map == 0)
        on_plain(&f->p, &x, op);
    f->p.at += x.length;
    return ON;
}

bool code_rule(const uint8_t *code, size_t n, size_t at, struct unwind_rule *ret)
{
    struct follow f = {.code = code, .n = MIN(n, (size_t) CODE_RULE_WINDOW)};

    f.p.at = f.begin = at;
    f.p.sp.base = OWN_SP;
    f.p.fp.base = OWN_FP;
    for (int i = 0; i < STEPS; i++) {
        enum code_step s = step(&f);

        if (s == RETURNS && make_rule(&f.p, ret))
            return true;
        if (s == ON)
            continue;
        if (!f.n_others)
            return false;
        f.p = f.others[--f.n_others];
    }
    return false;
}

/* call rel32; call *reg, *mem, with and without a prefix REX. */
bool code_ends_with_call(const uint8_t *code, size_t n)
{
    if (n >= 5 && code[n - 5] == 0xe8)
        return true;
    for (size_t k = 2; k <= MIN(n, (size_t) CODE_RULE_CALL); k++)
        if (code[n - k] == 0xff && (code[n - k + 1] >> 3 & 7) == 2 && code_length(code + n - k, k) == k)
            return true;
    return false;
}
