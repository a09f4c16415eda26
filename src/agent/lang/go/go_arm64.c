/* SPDX-License-Identifier: Apache-2.0 */
/* Reads offsets and addresses off the arm64 code that Go's compiler makes. x28 is g. */
#include "agent/lang/go/go_code.h"

#include <string.h>

enum { G = 28, SP = 31, STATUS_MIN = 64, REGS = 32 };

static uint32_t instruction(struct elf_bytes code, size_t i)
{
    uint32_t v;

    memcpy(&v, code.p + i, sizeof v);
    return v;
}

static uint32_t rt(uint32_t v)
{
    return v & 31;
}

static uint32_t rn(uint32_t v)
{
    return v >> 5 & 31;
}

static uint32_t imm12(uint32_t v)
{
    return v >> 10 & 0xfff;
}

static uint32_t offset_of(uint32_t v)
{
    return imm12(v) * 8 < GO_CODE_OFFSET_MAX ? imm12(v) * 8 : 0;
}

static bool is_load(uint32_t v)
{
    return v >> 22 == 0xf9400000 >> 22;
}

static bool is_store(uint32_t v)
{
    return v >> 22 == 0xf9000000 >> 22;
}

static bool is_add(uint32_t v) /* of a number below 4096 */
{
    return v >> 22 == 0x91000000 >> 22;
}

/* ldr xA, [xB, #N]; cmp xA, x28; b.eq: the last of them that jumps ahead, after those with gsignal and g0. */
uint32_t go_arm64_curg(struct elf_bytes code)
{
    uint32_t ret = 0, n = 0;

    for (size_t i = 0; i + 12 <= code.n && n < 3; i += 4) {
        uint32_t v = instruction(code, i);

        if (!is_load(v) || instruction(code, i + 4) != (0xeb00001f | G << 16 | rt(v) << 5))
            continue;
        ret = offset_of(v);
        n++;
    }
    return n == 3 ? ret : 0;
}

/* str x0, [xA, #N]: the argument, into g */
uint32_t go_arm64_labels(struct elf_bytes code)
{
    for (size_t i = 0; i + 4 <= code.n; i += 4) {
        uint32_t v = instruction(code, i);

        if (is_store(v) && rt(v) == 0 && rn(v) != SP && imm12(v))
            return offset_of(v);
    }
    return 0;
}

/* add xA, x0, #N; ldar wA, [xA] */
uint32_t go_arm64_status(struct elf_bytes code)
{
    for (size_t i = 0; i + 8 <= code.n; i += 4) {
        uint32_t v = instruction(code, i), next = instruction(code, i + 4);

        if (is_add(v) && rn(v) == 0 && imm12(v) >= STATUS_MIN && imm12(v) % 8 == 0 &&
            next >> 10 == 0x88dffc00 >> 10 && rn(next) == rt(v))
            return imm12(v);
    }
    return 0;
}

static uint32_t add_once(uint64_t *v, uint32_t n, uint32_t max, uint64_t address)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] == address)
            return n;
    if (n < max)
        v[n++] = address;
    return n;
}

static int64_t sign_extended(uint64_t v, unsigned bits)
{
    return (int64_t) (v << (64 - bits)) >> (64 - bits);
}

/* adrp forms the address of a page in a register; the next instructions with this register add to it. */
uint32_t go_arm64_addresses(struct elf_bytes code, bool lea, uint64_t *ret, uint32_t max)
{
    uint64_t known[REGS] = {0};
    uint32_t n = 0;

    for (size_t i = 0; i + 4 <= code.n; i += 4) {
        uint32_t v = instruction(code, i);
        uint64_t base = known[rn(v)];

        if (v >> 31 && (v >> 24 & 31) == 16) {
            int64_t pages = sign_extended((v >> 5 & 0x7ffff) << 2 | (v >> 29 & 3), 21);

            known[rt(v)] = ((code.address + i) & ~(uint64_t) 4095) + (uint64_t) pages * 4096;
        } else if (base && is_add(v)) {
            n = lea ? add_once(ret, n, max, base + imm12(v)) : n;
            known[rt(v)] = base + imm12(v);
        } else if (base && !lea && (is_load(v) || is_store(v))) {
            n = add_once(ret, n, max, base + (uint64_t) imm12(v) * 8);
        } else if (base && !lea && (v >> 22 == 0xa9400000 >> 22 || v >> 22 == 0xa9000000 >> 22)) { /* ldp, stp */
            uint64_t first = base + (uint64_t) (sign_extended(v >> 15 & 0x7f, 7) * 8);

            n = add_once(ret, add_once(ret, n, max, first), max, first + 8);
        }
    }
    return n;
}
