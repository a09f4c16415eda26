/* SPDX-License-Identifier: Apache-2.0 */
/* Finds how a thread-local variable of a file is addressed, from its symbols and relocations, and its address in a
 * thread. */
#include "elf/tls_symbol.h"

#include <errno.h>

enum { MODULES_MAX = 65536, OFFSET_MAX = 1 << 26, TCB = 16 /* arm64: between the thread pointer and the first block */ };

/* The distance of a block from the thread pointer: a pointer is not so small, nor so large. */
#if defined(__x86_64__)
enum { DISTANCE_MIN = -(1 << 26), DISTANCE_MAX = -1 };
#else
enum { DISTANCE_MIN = 16, DISTANCE_MAX = 1 << 20 };
#endif

/* A TLS symbol that the table defines; its index into *ret_index. */
static bool find_in(const struct elf_file *f, const struct elf_section *table, struct str name, Elf64_Sym *ret,
                    uint32_t *ret_index)
{
    struct elf_bytes symbols = elf_bytes_of(f, table), strings = {0};

    if (table->link < f->n_sections)
        strings = elf_bytes_of(f, &f->sections[table->link]);
    for (uint32_t i = 1; ((size_t) i + 1) * sizeof *ret <= symbols.n; i++) {
        memcpy(ret, symbols.p + (size_t) i * sizeof *ret, sizeof *ret);
        if (ELF64_ST_TYPE(ret->st_info) != STT_TLS || ret->st_shndx == SHN_UNDEF || ret->st_name >= strings.n ||
            strings.n - ret->st_name <= name.n)
            continue;
        if (memcmp(strings.p + ret->st_name, name.p, name.n) == 0 && strings.p[ret->st_name + name.n] == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

/* Relocations name the variable by its symbol, or by its offset when it cannot be interposed. */
static bool is_for(const Elf64_Rela *r, uint32_t symbol, uint64_t value)
{
    uint32_t of = ELF64_R_SYM(r->r_info);

    return of == symbol || (of == 0 && (uint64_t) r->r_addend == value);
}

static enum tls_access access_by(uint32_t relocation, bool arm)
{
    if (relocation == (arm ? R_AARCH64_TLS_TPREL : R_X86_64_TPOFF64))
        return TLS_INITIAL_EXEC;
    if (relocation == (arm ? R_AARCH64_TLSDESC : R_X86_64_TLSDESC))
        return TLS_DESCRIPTOR;
    return relocation == (arm ? R_AARCH64_TLS_DTPMOD : R_X86_64_DTPMOD64) ? TLS_GENERAL : TLS_NO_SLOT;
}

static void find_slot(const struct elf_file *f, const struct elf_section *rela, uint32_t symbol, struct tls_symbol *ret)
{
    struct elf_bytes b = elf_bytes_of(f, rela);

    for (size_t at = 0; at + sizeof(Elf64_Rela) <= b.n && ret->access == TLS_NO_SLOT; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;

        memcpy(&r, b.p + at, sizeof r);
        ret->access = access_by((uint32_t) ELF64_R_TYPE(r.r_info), f->machine == EM_AARCH64);
        /* the slot after a module's has the offset, filled by the linker when there is no symbol */
        if (ret->access == TLS_GENERAL ? ELF64_R_SYM(r.r_info) != symbol : !is_for(&r, symbol, ret->value))
            ret->access = TLS_NO_SLOT;
        ret->slot = r.r_offset;
    }
}

bool tls_symbol_find(const struct elf_file *f, struct str name, struct tls_symbol *ret)
{
    const struct elf_section *table = elf_find_section(f, ".dynsym");
    uint32_t symbol = 0;
    bool dynamic = true;
    Elf64_Sym s;

    *ret = (struct tls_symbol){0};
    if (!f->is64 || (f->machine != EM_X86_64 && f->machine != EM_AARCH64))
        return false;
    if (!table) {
        table = elf_find_section(f, ".symtab"); /* a static program, which exports no symbols */
        dynamic = false;
    }
    if (!table || !find_in(f, table, name, &s, &symbol))
        return false;
    ret->value = s.st_value;
    for (uint32_t i = 0; i < f->n_segments; i++)
        if (f->segments[i].type == PT_TLS) {
            uint64_t align = MAX(f->segments[i].align, (uint64_t) 1), size = f->segments[i].memsz;

            if (align > OFFSET_MAX || align & (align - 1) || size > OFFSET_MAX || s.st_value >= size)
                return false;
            ret->exec = f->machine == EM_AARCH64 ? (int64_t) (s.st_value + ALIGN_UP(TCB, align))
                                                 : (int64_t) s.st_value - (int64_t) ALIGN_UP(size, align);
        }
    if (!ret->exec)
        return false;
    for (uint32_t i = 0; i < f->n_sections && dynamic; i++)
        if (f->sections[i].type == SHT_RELA)
            find_slot(f, &f->sections[i], symbol, ret);
    return true;
}

static bool near_pointer(uint64_t v)
{
    return (int64_t) v >= DISTANCE_MIN && (int64_t) v <= DISTANCE_MAX;
}

int tls_symbol_place(const struct tls_symbol *s, bool executable, const struct proc_memory *m, uint64_t bias,
                     struct tls_place *ret)
{
    uint64_t v[2], d[2];

    if (executable) {
        *ret = (struct tls_place){.is_static = true, .offset = s->exec};
        return 0;
    }
    if (s->access == TLS_NO_SLOT)
        return -ENOTSUP;
    if (proc_memory_read(m, s->slot + bias, v, s->access == TLS_INITIAL_EXEC ? 8 : 16) < 0)
        return -EFAULT;
    if (!v[0])
        return -EAGAIN;
    if (s->access == TLS_INITIAL_EXEC) {
        if (!near_pointer(v[0]))
            return -EAGAIN;
        *ret = (struct tls_place){.is_static = true, .offset = (int64_t) v[0]};
        return 0;
    }
    memcpy(d, v, sizeof d);
    if (s->access == TLS_DESCRIPTOR) {
        if (near_pointer(v[1])) {
            *ret = (struct tls_place){.is_static = true, .offset = (int64_t) v[1]};
            return 0;
        }
        if (!v[1] || proc_memory_read(m, v[1], d, sizeof d) < 0)
            return -EAGAIN;
    }
    if (!d[0] || d[0] > MODULES_MAX || d[1] > OFFSET_MAX)
        return -EAGAIN;
    *ret = (struct tls_place){.module = d[0], .offset = (int64_t) d[1]};
    return 0;
}
