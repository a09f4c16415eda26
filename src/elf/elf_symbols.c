/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/elf_symbols.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

struct raw_symbol {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
};

static struct raw_symbol read_symbol(const struct elf_file *f, const uint8_t *p)
{
    if (f->is64) {
        Elf64_Sym s;

        memcpy(&s, p, sizeof(s));
        return (struct raw_symbol){s.st_name, s.st_info, s.st_other, s.st_shndx, s.st_value, s.st_size};
    } else {
        Elf32_Sym s;

        memcpy(&s, p, sizeof(s));
        return (struct raw_symbol){s.st_name, s.st_info, s.st_other, s.st_shndx, s.st_value, s.st_size};
    }
}

static const struct elf_section *find_table(const struct elf_file *f, uint32_t type)
{
    for (uint32_t i = 0; i < f->n_sections; i++)
        if (f->sections[i].type == type && elf_bytes_of(f, &f->sections[i]).n)
            return &f->sections[i];
    return NULL;
}

static bool is_code(const struct elf_file *f, const struct raw_symbol *s)
{
    uint8_t type = ELF64_ST_TYPE(s->info);

    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    if (type != STT_NOTYPE || s->section >= f->n_sections)
        return false;
    return f->sections[s->section].flags & SHF_EXECINSTR;
}

/* Which of two symbols of one address is the better name. */
static int rank(const struct elf_symbol *s)
{
    int r = 0;

    if (s->type == STT_FUNC || s->type == STT_GNU_IFUNC)
        r += 4;
    if (s->size)
        r += 2;
    if (s->bind == STB_GLOBAL)
        r += 1;
    return r;
}

static int compare(const void *a, const void *b)
{
    const struct elf_symbol *x = a, *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (rank(x) != rank(y))
        return rank(x) - rank(y);
    return str_cmp(y->name, x->name);
}

int elf_symbols_load(const struct elf_file *f, bool functions, struct elf_symbols *ret)
{
    const struct elf_section *t = find_table(f, SHT_SYMTAB);
    size_t entry = f->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym), n;
    struct elf_symbols s = {0};
    struct elf_bytes b, names;

    if (!t)
        t = find_table(f, SHT_DYNSYM);
    *ret = (struct elf_symbols){0};
    if (!t || t->link >= f->n_sections)
        return 0;
    b = elf_bytes_of(f, t);
    names = elf_bytes_of(f, &f->sections[t->link]);
    n = MIN(b.n / entry, ELF_SYMBOLS_MAX);
    s.v = mem_zalloc_array(n + 1, sizeof(*s.v));
    if (!s.v)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct raw_symbol x = read_symbol(f, b.p + i * entry);
        struct elf_symbol *to = &s.v[s.n];

        if (x.section == SHN_UNDEF || x.name >= names.n || !names.p[x.name] || (functions && !is_code(f, &x)))
            continue;
        *to = (struct elf_symbol){.address = x.value, .size = x.size, .section = x.section};
        to->type = ELF64_ST_TYPE(x.info);
        to->bind = ELF64_ST_BIND(x.info);
        to->name = (struct str){(const char *) names.p + x.name,
                                (uint32_t) strnlen((const char *) names.p + x.name, names.n - x.name)};
        s.n++;
    }
    qsort(s.v, s.n, sizeof(*s.v), compare);
    *ret = s;
    return 0;
}

void elf_symbols_done(struct elf_symbols *s)
{
    mem_free(s->v);
    *s = (struct elf_symbols){0};
}

const struct elf_symbol *elf_symbols_find(const struct elf_symbols *s, uint64_t address)
{
    uint32_t low = 0, high = s->n;

    while (low < high) { /* the first one behind the address */
        uint32_t mid = low + (high - low) / 2;

        if (s->v[mid].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    /* A small symbol inside a large one: look back a little for one that covers the address. */
    for (uint32_t i = low; i > 0 && low - i < 16; i--) {
        const struct elf_symbol *x = &s->v[i - 1];

        if (x->size ? address - x->address < x->size : x->address == s->v[low - 1].address)
            return x;
    }
    return NULL;
}

const struct elf_symbol *elf_symbols_named(const struct elf_symbols *s, struct str name)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (str_eq(s->v[i].name, name))
            return &s->v[i];
    return NULL;
}
