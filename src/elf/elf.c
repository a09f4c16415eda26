/* SPDX-License-Identifier: Apache-2.0 */
/* Opens ELF files and checks every offset and size once. */
#include "elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/mem.h"

static bool inside(const struct elf_file *f, uint64_t offset, uint64_t n)
{
    return offset <= f->size && n <= f->size - offset;
}

static int read_header(struct elf_file *f, Elf64_Ehdr *ret, struct err *e)
{
    if (f->size < EI_NIDENT || memcmp(f->data, ELFMAG, SELFMAG) != 0)
        return err_set(e, -ENOEXEC, "not an ELF file");
    if (f->data[EI_DATA] != ELFDATA2LSB)
        return err_set(e, -ENOEXEC, "big-endian ELF files are not supported");
    f->is64 = f->data[EI_CLASS] == ELFCLASS64;
    if (f->is64) {
        if (f->size < sizeof(Elf64_Ehdr))
            return err_set(e, -ENOEXEC, "the ELF header is truncated");
        memcpy(ret, f->data, sizeof(*ret));
    } else {
        Elf32_Ehdr h;

        if (f->data[EI_CLASS] != ELFCLASS32 || f->size < sizeof(h))
            return err_set(e, -ENOEXEC, "the ELF header is truncated or its class is unknown");
        memcpy(&h, f->data, sizeof(h));
        *ret = (Elf64_Ehdr){.e_type = h.e_type,
                            .e_machine = h.e_machine,
                            .e_entry = h.e_entry,
                            .e_phoff = h.e_phoff,
                            .e_shoff = h.e_shoff,
                            .e_phentsize = h.e_phentsize,
                            .e_phnum = h.e_phnum,
                            .e_shentsize = h.e_shentsize,
                            .e_shnum = h.e_shnum,
                            .e_shstrndx = h.e_shstrndx};
    }
    f->type = ret->e_type;
    f->machine = ret->e_machine;
    f->entry = ret->e_entry;
    return 0;
}

static struct elf_section read_section(const struct elf_file *f, const uint8_t *p, uint32_t *ret_name)
{
    struct elf_section s = {0};

    if (f->is64) {
        Elf64_Shdr h;

        memcpy(&h, p, sizeof(h));
        *ret_name = h.sh_name;
        s = (struct elf_section){.type = h.sh_type, .link = h.sh_link, .info = h.sh_info, .flags = h.sh_flags};
        s.address = h.sh_addr;
        s.offset = h.sh_offset;
        s.size = h.sh_size;
        s.align = h.sh_addralign;
        s.entry_size = h.sh_entsize;
    } else {
        Elf32_Shdr h;

        memcpy(&h, p, sizeof(h));
        *ret_name = h.sh_name;
        s = (struct elf_section){.type = h.sh_type, .link = h.sh_link, .info = h.sh_info, .flags = h.sh_flags};
        s.address = h.sh_addr;
        s.offset = h.sh_offset;
        s.size = h.sh_size;
        s.align = h.sh_addralign;
        s.entry_size = h.sh_entsize;
    }
    return s;
}

/* The name of a section, truncated at a length beyond all names that are searched for: a hostile file may have a
 * million sections whose names each run through the whole file. */
static struct str string_at(struct elf_bytes table, uint32_t offset)
{
    enum { SECTION_NAME_MAX = 256 };
    const char *p;

    if (offset >= table.n)
        return STR("");
    p = (const char *) table.p + offset;
    return (struct str){p, (uint32_t) strnlen(p, MIN(table.n - offset, (size_t) SECTION_NAME_MAX))};
}

static int read_sections(struct elf_file *f, const Elf64_Ehdr *h)
{
    size_t entry = f->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    uint64_t n = h->e_shnum, names = h->e_shstrndx;
    struct elf_bytes table;
    uint32_t unused;

    if (h->e_shoff == 0 || h->e_shentsize != entry || !inside(f, h->e_shoff, entry))
        return 0;
    if (n == 0 || names == SHN_XINDEX) { /* too many for the header: section 0 has the numbers */
        struct elf_section zero = read_section(f, f->data + h->e_shoff, &unused);

        n = n ? n : zero.size;
        names = names == SHN_XINDEX ? zero.link : names;
    }
    n = MIN(n, (f->size - h->e_shoff) / entry);
    n = MIN(n, ELF_SECTIONS_MAX);
    f->sections = mem_zalloc_array(n + 1, sizeof(*f->sections));
    if (!f->sections)
        return -ENOMEM;
    f->n_sections = (uint32_t) n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t name;

        f->sections[i] = read_section(f, f->data + h->e_shoff + i * entry, &name);
        f->sections[i].name.n = name; /* until the table of names is known */
    }
    table = names < n ? elf_bytes_of(f, &f->sections[names]) : (struct elf_bytes){0};
    for (uint32_t i = 0; i < n; i++)
        f->sections[i].name = string_at(table, f->sections[i].name.n);
    return 0;
}

static int read_segments(struct elf_file *f, const Elf64_Ehdr *h)
{
    size_t entry = f->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    uint64_t n = h->e_phnum == PN_XNUM && f->n_sections ? f->sections[0].info : h->e_phnum;

    if (h->e_phoff == 0 || h->e_phentsize != entry || !inside(f, h->e_phoff, entry))
        return 0;
    n = MIN(n, (f->size - h->e_phoff) / entry);
    n = MIN(n, ELF_SEGMENTS_MAX);
    f->segments = mem_zalloc_array(n + 1, sizeof(*f->segments));
    if (!f->segments)
        return -ENOMEM;
    f->n_segments = (uint32_t) n;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = f->data + h->e_phoff + i * entry;

        if (f->is64) {
            Elf64_Phdr x;

            memcpy(&x, p, sizeof(x));
            f->segments[i] =
                (struct elf_segment){x.p_type, x.p_flags, x.p_offset, x.p_vaddr, x.p_filesz, x.p_memsz, x.p_align};
        } else {
            Elf32_Phdr x;

            memcpy(&x, p, sizeof(x));
            f->segments[i] =
                (struct elf_segment){x.p_type, x.p_flags, x.p_offset, x.p_vaddr, x.p_filesz, x.p_memsz, x.p_align};
        }
    }
    return 0;
}

static int parse(struct elf_file *f, struct err *e)
{
    Elf64_Ehdr h;
    int r = read_header(f, &h, e);

    if (r >= 0)
        r = read_sections(f, &h);
    if (r >= 0)
        r = read_segments(f, &h);
    return r;
}

int elf_from_bytes(const void *p, size_t n, bool take, struct elf_file **ret, struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *f = mem_zalloc(sizeof(*f));
    int r;

    if (!f)
        return -ENOMEM;
    f->data = p;
    f->size = n;
    r = parse(f, e);
    if (r < 0)
        return r;
    if (take)
        f->owned = (void *) p;
    *ret = TAKE(f);
    return 0;
}

int elf_open_fd(int fd, struct elf_file **ret, struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *f = mem_zalloc(sizeof(*f));
    struct stat st;
    int r;

    if (!f)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return err_set(e, -errno, "cannot stat the file: %m");
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return err_set(e, -ENOEXEC, "not a regular file, or empty");
    f->map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        return err_set(e, -errno, "cannot map the file: %m");
    }
    f->data = f->map;
    f->size = (size_t) st.st_size;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    f->mtime_ns = (int64_t) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    r = parse(f, e);
    if (r < 0)
        return r;
    *ret = TAKE(f);
    return 0;
}

int elf_open(const char *path, struct elf_file **ret, struct err *e)
{
    _cleanup_(fd_closep) int fd = fd_open_regular(path);
    int r;

    if (fd < 0)
        return err_set(e, fd, "cannot open '%s': %m", path);
    r = elf_open_fd(fd, ret, e);
    return r < 0 ? err_prefix(e, r, "'%s': ", path) : 0;
}

void elf_free(struct elf_file *f)
{
    if (!f)
        return;
    if (f->map)
        munmap(f->map, f->size);
    mem_free(f->owned);
    mem_free(f->sections);
    mem_free(f->segments);
    mem_free(f);
}

const struct elf_section *elf_find_section(const struct elf_file *f, const char *name)
{
    struct str want = str_from(name);

    for (uint32_t i = 0; i < f->n_sections; i++)
        if (str_eq(f->sections[i].name, want))
            return &f->sections[i];
    return NULL;
}

struct elf_bytes elf_bytes_of(const struct elf_file *f, const struct elf_section *s)
{
    if (!s || s->type == SHT_NOBITS || s->type == SHT_NULL || (s->flags & SHF_COMPRESSED) ||
        !inside(f, s->offset, s->size) || s->size == 0)
        return (struct elf_bytes){0};
    return (struct elf_bytes){f->data + s->offset, s->size, s->address};
}

struct elf_bytes elf_segment_bytes(const struct elf_file *f, const struct elf_segment *p)
{
    if (!inside(f, p->offset, p->filesz) || p->filesz == 0)
        return (struct elf_bytes){0};
    return (struct elf_bytes){f->data + p->offset, p->filesz, p->vaddr};
}

const void *elf_at_address(const struct elf_file *f, uint64_t address, size_t n)
{
    for (uint32_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];
        struct elf_bytes b = p->type == PT_LOAD ? elf_segment_bytes(f, p) : (struct elf_bytes){0};

        if (b.p && address >= p->vaddr && address - p->vaddr <= b.n && n <= b.n - (address - p->vaddr))
            return b.p + (address - p->vaddr);
    }
    return NULL;
}

/* SHF_COMPRESSED has a header (Elf64_Chdr, Elf32_Chdr); the older .zdebug_* begin with "ZLIB" and eight bytes, big-endian. */
static uint64_t inflated_size(const struct elf_file *f, const struct elf_section *s)
{
    const uint8_t *p = f->data + s->offset;
    uint64_t v = 0;

    if (s->type == SHT_NOBITS || s->size < 12 || !inside(f, s->offset, s->size))
        return 0;
    if (s->flags & SHF_COMPRESSED) {
        if (f->is64 && s->size >= sizeof(Elf64_Chdr))
            memcpy(&v, p + offsetof(Elf64_Chdr, ch_size), sizeof v);
        else if (!f->is64)
            memcpy(&v, p + offsetof(Elf32_Chdr, ch_size), 4);
        return v;
    }
    if (!str_starts(s->name, STR(".zdebug")) || memcmp(p, "ZLIB", 4) != 0)
        return 0;
    memcpy(&v, p + 4, sizeof v);
    return __builtin_bswap64(v);
}

uint64_t elf_inflated_size(const struct elf_file *f)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < f->n_sections; i++)
        if (__builtin_add_overflow(sum, inflated_size(f, &f->sections[i]), &sum))
            return UINT64_MAX;
    return sum;
}
