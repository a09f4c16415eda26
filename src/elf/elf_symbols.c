/* SPDX-License-Identifier: Apache-2.0 */
/* Reads symbol tables of untrusted files: the work is linear in the size of the file, whatever the tables contain. */
#include "elf/elf_symbols.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "elf/elf_debugdata.h"

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

/* ARM marks code and data with mapping symbols. */
static bool is_mapping_symbol(const struct elf_file *f, struct str name)
{
    return (f->machine == EM_ARM || f->machine == EM_AARCH64) && name.n >= 2 && name.p[0] == '$' &&
           strchr("adtx", name.p[1]) && (name.n == 2 || name.p[2] == '.');
}

static bool is_wanted(const struct elf_file *f, const struct raw_symbol *s, bool functions)
{
    uint8_t type = ELF64_ST_TYPE(s->info);
    uint64_t flags = s->section < f->n_sections ? f->sections[s->section].flags : 0;

    if (s->section == SHN_UNDEF || !(flags & SHF_ALLOC))
        return false;
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    if (type == STT_OBJECT)
        return !functions;
    return type == STT_NOTYPE && (!functions || (flags & SHF_EXECINSTR));
}

static int compare(const void *a, const void *b)
{
    const struct elf_symbol *x = a, *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Keeps the last of each address. */
static void remove_aliases(struct elf_symbols *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++)
        if (i + 1 == s->n || s->v[i + 1].address != s->v[i].address)
            s->v[n++] = s->v[i];
    s->n = n;
}

/* The table of names, and how many of its bytes may still be read. In real files names overlap a little; in a hostile
 * file all names may run through the same megabytes, and are ignored once the budget is used up. */
struct symbol_names {
    struct elf_bytes b;
    uint64_t budget;
};

static struct symbol_names names_of(const struct elf_file *f, const struct elf_section *table, size_t n_symbols)
{
    struct symbol_names t = {0};

    if (table && table->link < f->n_sections)
        t.b = elf_bytes_of(f, &f->sections[table->link]);
    t.budget = 8 * (uint64_t) t.b.n + 64 * (uint64_t) n_symbols;
    return t;
}

static struct str name_at(struct symbol_names *t, uint32_t at)
{
    size_t most = at < t->b.n ? MIN(MIN(t->b.n - at, t->budget), (uint64_t) ELF_NAME_MAX) : 0;
    struct str s = STR("");

    if (most)
        s = (struct str){(const char *) t->b.p + at, (uint32_t) strnlen((const char *) t->b.p + at, most)};
    t->budget -= s.n;
    return s;
}

static size_t symbol_size(const struct elf_file *f)
{
    return f->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

/* How many entries of the table are read; 0 for NULL. */
static size_t table_entries(const struct elf_file *f, const struct elf_section *t)
{
    return t ? MIN(elf_bytes_of(f, t).n / symbol_size(f), ELF_SYMBOLS_MAX) : 0;
}

static int each_of_table(const struct elf_file *f, const struct elf_section *t, bool functions,
                         const struct elf_visitor *v)
{
    size_t n = table_entries(f, t);
    struct elf_bytes b = elf_bytes_of(f, t);
    struct symbol_names names = names_of(f, t, n);
    struct str file = STR("");
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        struct raw_symbol x = read_symbol(f, b.p + i * symbol_size(f));
        bool local = ELF64_ST_BIND(x.info) == STB_LOCAL;
        struct str name;

        if (ELF64_ST_TYPE(x.info) == STT_FILE)
            file = name_at(&names, x.name);
        if (!is_wanted(f, &x, functions) || (v->wants && !v->wants(v->arg, x.value, x.size)))
            continue;
        name = name_at(&names, x.name);
        if (name.n == 0 || is_mapping_symbol(f, name))
            continue;
        r = v->visit(v->arg, &(struct elf_symbol){.address = x.value,
                                                  .size = x.size,
                                                  .name = elf_symbol_plain(name),
                                                  .file = local ? file : STR(""),
                                                  .index = (uint32_t) i,
                                                  .type = ELF64_ST_TYPE(x.info),
                                                  .bind = ELF64_ST_BIND(x.info)});
    }
    return r;
}

static int append(void *arg, const struct elf_symbol *s)
{
    struct elf_symbols *to = arg;

    to->v[to->n++] = *s;
    return 0;
}

static void read_table(const struct elf_file *f, const struct elf_section *t, bool functions, struct elf_symbols *s)
{
    each_of_table(f, t, functions, &(struct elf_visitor){.visit = append, .arg = s});
}

int elf_symbols_each(const struct elf_file *f, bool functions, const struct elf_visitor *v, struct elf_file **ret_more)
{
    const struct elf_section *t = find_table(f, SHT_SYMTAB);
    int r;

    *ret_more = NULL;
    if (t)
        return each_of_table(f, t, functions, v);
    if (elf_debugdata_open(f, ret_more, NULL) == -ENOMEM)
        return -ENOMEM;
    r = each_of_table(f, find_table(f, SHT_DYNSYM), functions, v);
    if (r == 0 && *ret_more)
        r = each_of_table(*ret_more, find_table(*ret_more, SHT_SYMTAB), functions, v);
    return r;
}

int elf_symbols_load(const struct elf_file *f, bool functions, struct elf_symbols *ret)
{
    const struct elf_section *t = find_table(f, SHT_SYMTAB), *u = NULL;
    struct elf_symbols s = {0};
    size_t n;

    *ret = s;
    if (!t) {
        t = find_table(f, SHT_DYNSYM);
        if (elf_debugdata_open(f, &s.more, NULL) == -ENOMEM)
            return -ENOMEM;
        u = s.more ? find_table(s.more, SHT_SYMTAB) : NULL;
    }
    n = table_entries(f, t) + (u ? table_entries(s.more, u) : 0);
    s.v = n ? mem_zalloc_array(n, sizeof(*s.v)) : NULL;
    if (n && !s.v) {
        elf_symbols_done(&s);
        return -ENOMEM;
    }
    read_table(f, t, functions, &s);
    if (u)
        read_table(s.more, u, functions, &s);
    if (s.n)
        qsort(s.v, s.n, sizeof(*s.v), compare);
    remove_aliases(&s);
    *ret = s;
    return 0;
}

void elf_symbols_done(struct elf_symbols *s)
{
    mem_free(s->v);
    elf_free(s->more);
    *s = (struct elf_symbols){0};
}

const struct elf_symbol *elf_symbols_find(const struct elf_symbols *s, uint64_t address)
{
    uint32_t low = 0, high = s->n;

    while (low < high) { /* the first one after the address */
        uint32_t mid = low + (high - low) / 2;

        if (s->v[mid].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return NULL;
    if (s->v[low - 1].size && address - s->v[low - 1].address >= s->v[low - 1].size)
        return NULL;
    return &s->v[low - 1];
}

const struct elf_symbol *elf_symbols_named(const struct elf_symbols *s, struct str name)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (str_eq(s->v[i].name, name))
            return &s->v[i];
    return NULL;
}
