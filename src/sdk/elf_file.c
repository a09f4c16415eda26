/* SPDX-License-Identifier: Apache-2.0 */
/* See elf_file.h. */
#include "sdk/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"

static bool is_elf(const struct elf_file *f)
{
    return f->n >= sizeof(Elf64_Ehdr) && !memcmp(f->p, ELFMAG, SELFMAG) && f->p[EI_CLASS] == ELFCLASS64 &&
           f->p[EI_DATA] == ELFDATA2LSB;
}

int elf_file_memory(struct elf_file *f, const void *p, size_t n)
{
    *f = (struct elf_file){p, n, false};
    return is_elf(f) ? 0 : -EINVAL;
}

int elf_file_open(struct elf_file *f, const char *path)
{
    struct stat st;
    void *p;
    int fd;

    *f = (struct elf_file){0};
    if (!path || path[0] != '/')
        return -ENOENT;
    fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t) sizeof(Elf64_Ehdr)) {
        fd_close(fd);
        return -EINVAL;
    }
    p = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    fd_close(fd);
    if (p == MAP_FAILED)
        return -ENOMEM;
    *f = (struct elf_file){p, (size_t) st.st_size, true};
    if (is_elf(f))
        return 0;
    elf_file_close(f);
    return -EINVAL;
}

void elf_file_close(struct elf_file *f)
{
    if (f->mapped)
        munmap((void *) f->p, f->n);
    *f = (struct elf_file){0};
}

static bool section_header(const struct elf_file *f, uint32_t i, Elf64_Shdr *ret)
{
    Elf64_Ehdr h;
    uint64_t off;

    memcpy(&h, f->p, sizeof h);
    if (i >= h.e_shnum || h.e_shentsize != sizeof *ret || h.e_shoff > f->n)
        return false;
    off = h.e_shoff + (uint64_t) i * sizeof *ret;
    if (off > f->n || f->n - off < sizeof *ret)
        return false;
    memcpy(ret, f->p + off, sizeof *ret);
    return ret->sh_type == SHT_NOBITS || (ret->sh_offset <= f->n && ret->sh_size <= f->n - ret->sh_offset);
}

/* A string of table s, "" when out of range. */
static struct str string_at(const struct elf_file *f, const Elf64_Shdr *s, uint64_t off)
{
    const char *p;
    size_t max;

    if (off >= s->sh_size)
        return (struct str){"", 0};
    p = (const char *) f->p + s->sh_offset + off;
    max = s->sh_size - off;
    return (struct str){p, (uint32_t) strnlen(p, MIN(max, (size_t) 65535))};
}

bool elf_file_section(const struct elf_file *f, const char *name, const uint8_t **ret, size_t *ret_n)
{
    Elf64_Ehdr h;
    Elf64_Shdr names, s;

    memcpy(&h, f->p, sizeof h);
    if (!section_header(f, h.e_shstrndx, &names) || names.sh_type == SHT_NOBITS)
        return false;
    for (uint32_t i = 1; i < h.e_shnum; i++) {
        if (!section_header(f, i, &s) || s.sh_type == SHT_NOBITS || s.sh_flags & SHF_COMPRESSED || !s.sh_size)
            continue;
        if (!str_is(string_at(f, &names, s.sh_name), name))
            continue;
        *ret = f->p + s.sh_offset;
        *ret_n = s.sh_size;
        return true;
    }
    return false;
}

/* The first query at or above the address. */
static size_t lower(const struct elf_query *q, size_t n, uint64_t address)
{
    size_t a = 0, z = n;

    while (a < z) {
        size_t mid = (a + z) / 2;

        if (q[mid].address < address)
            a = mid + 1;
        else
            z = mid;
    }
    return a;
}

/* Better: a symbol with a size that holds the address, then the nearest; global names before local ones. */
static uint8_t rank_of(const Elf64_Sym *s, bool inside)
{
    uint8_t r = inside ? 4 : 1;

    if (ELF64_ST_BIND(s->st_info) == STB_GLOBAL)
        r++;
    return r;
}

static void offer(struct elf_query *q, size_t n, const Elf64_Sym *s, struct str name)
{
    uint64_t end = s->st_size ? s->st_value + s->st_size : s->st_value + 4096;

    for (size_t i = lower(q, n, s->st_value); i < n && q[i].address < end; i++) {
        uint8_t rank = rank_of(s, s->st_size > 0);

        if (rank < q[i].rank || (rank == q[i].rank && s->st_value <= q[i].value))
            continue;
        if (q[i].rank >= 4 && rank >= 4 && s->st_value < q[i].value)
            continue;
        q[i].name = name;
        q[i].value = s->st_value;
        q[i].rank = rank;
    }
}

static void scan_symbols(const struct elf_file *f, uint32_t type, struct elf_query *q, size_t n)
{
    Elf64_Shdr s, strings;

    for (uint32_t i = 1; i < 65535 && section_header(f, i, &s); i++) {
        if (s.sh_type != type || s.sh_entsize != sizeof(Elf64_Sym) || !section_header(f, s.sh_link, &strings) ||
            strings.sh_type == SHT_NOBITS)
            continue;
        for (uint64_t k = 1; k < s.sh_size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym sym;
            uint8_t kind;

            memcpy(&sym, f->p + s.sh_offset + k * sizeof sym, sizeof sym);
            kind = ELF64_ST_TYPE(sym.st_info);
            if (sym.st_shndx == SHN_UNDEF || !sym.st_value || sym.st_value > q[n - 1].address ||
                (kind != STT_FUNC && kind != STT_GNU_IFUNC && kind != STT_NOTYPE))
                continue;
            if (kind == STT_NOTYPE && sym.st_size == 0 && sym.st_value + 4096 < q[0].address)
                continue;
            offer(q, n, &sym, string_at(f, &strings, sym.st_name));
        }
    }
}

size_t elf_file_names(const struct elf_file *f, struct elf_query *q, size_t n)
{
    size_t found = 0;

    if (!n)
        return 0;
    scan_symbols(f, SHT_SYMTAB, q, n);
    scan_symbols(f, SHT_DYNSYM, q, n);
    for (size_t i = 0; i < n; i++)
        found += q[i].name.n > 0;
    return found;
}
