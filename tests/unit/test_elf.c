/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/elf.h"

#include <fcntl.h>
#include <lzma.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "elf/elf_debugdata.h"
#include "elf/elf_id.h"
#include "elf/elf_load.h"
#include "elf/elf_symbols.h"
#include "proc/proc_maps.h"
#include "tap.h"

static void test_self(void)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct elf_symbols s;
    const struct elf_symbol *x;
    struct elf_bytes text;
    struct proc_maps maps;
    const struct proc_map *m;
    char id[ELF_ID_MAX];
    uint64_t bias = 0;
    struct err e;

    eq_int(elf_open("/proc/self/exe", &f, &e), 0);
    ok(f && f->n_sections > 10 && f->n_segments > 3 && f->is64);
    text = elf_section_bytes(f, ".text");
    ok(text.n > 0);
    ok(elf_at_address(f, text.address, text.n) == text.p);
    ok(!elf_at_address(f, text.address, f->size + 1));
    ok(elf_section_bytes(f, ".bss").p == NULL);
    ok(elf_section_bytes(f, ".eh_frame").n > 0);
    ok(!elf_find_section(f, ".nothing"));

    eq_int(elf_symbols_load(f, true, &s), 0);
    x = elf_symbols_named(&s, STR("test_self"));
    ok(x && x->size > 0 && x->type == STT_FUNC);
    if (x) {
        eq_str(elf_symbols_find(&s, x->address)->name, STR("test_self"));
        eq_str(elf_symbols_find(&s, x->address + x->size - 1)->name, STR("test_self"));
        eq_int(proc_maps_read(getpid(), true, &maps, &e), 0);
        for (m = maps.v; m < maps.v + maps.n && m->end <= (uintptr_t) test_self;)
            m++;
        ok(m < maps.v + maps.n && m->executable &&
           elf_load_bias(f->segments, f->n_segments, m->start, m->end, m->offset, &bias));
        eq_int((uintptr_t) test_self - bias, x->address);
        proc_maps_done(&maps);
    }
    elf_symbols_done(&s);
    eq_str(elf_symbol_plain(STR("clock_nanosleep@@GLIBC_2.17")), STR("clock_nanosleep"));
    eq_str(elf_symbol_plain(STR("memcpy@GLIBC_2.2.5")), STR("memcpy"));
    eq_str(elf_symbol_plain(STR("@odd")), STR("@odd"));
    ok(!elf_go_build_id(f, id));
}

/* Segments as linkers lay them out: one page of the file in two mappings, address and offset apart by any distance. */
static void test_load_bias(void)
{
    static const struct elf_segment v[] = {
        {PT_LOAD, PF_R, 0, 0, 0x1234, 0x1234, 0x1000},
        {PT_LOAD, PF_R | PF_X, 0x1240, 0x3240, 0x5000, 0x5000,
         0x1000}, /* its first page is the end of the one before */
        {PT_LOAD, PF_R | PF_W, 0x6240, 0x9240, 0x100, 0x900, 0x1000},
        {PT_NOTE, PF_R | PF_X, 0, 0x77000, 0x9000, 0x9000, 8},
    };
    uint64_t bias = 0, base = 0x7f0000000000;

    ok(elf_load_bias(v, 4, base + 0x3000, base + 0x9000, 0x1000, &bias));
    eq_int(bias, base);
    ok(elf_load_bias(v, 4, base + 0x5000, base + 0x6000, 0x3000, &bias)); /* a part, after mprotect() */
    eq_int(bias, base);
    ok(elf_load_bias(v, 1, base, base + 0x2000, 0, &bias)); /* no code at all: READ_IMPLIES_EXEC */
    eq_int(bias, base);
    ok(!elf_load_bias(v, 4, base, base + 0x1000, 0x20000, &bias));
    ok(elf_load_bias(v, 4, base, UINT64_MAX, 0x1000, &bias)); /* hostile numbers do not wrap */
}

static void test_maps(void)
{
    static const char text[] =
        "5581a000-5581b000 r-xp 00001000 fd:01 1234                       /usr/bin/a b (deleted)\n"
        "7ffc1000-7ffc2000 rw-p 00000000 00:00 0 [stack]\n"
        "not a line\n"
        "7ffd0000-7ffd1000 r-xs 00000000 00:00 0 \n";
    struct proc_maps m;

    eq_int(proc_maps_parse(str_from(text), false, &m), 0);
    eq_int(m.n, 3);
    eq_int(m.v[0].start, 0x5581a000);
    eq_int(m.v[0].offset, 0x1000);
    eq_int(m.v[0].inode, 1234);
    eq_int(m.v[0].major, 0xfd);
    ok(m.v[0].deleted && m.v[0].executable && !m.v[0].writable);
    eq_str(m.v[0].path, STR("/usr/bin/a b"));
    eq_str(m.v[1].path, STR("[stack]"));
    eq_str(m.v[2].path, STR(""));
    ok(m.v[2].shared);
    proc_maps_done(&m);
}

/* A header, a note section with a build id, and nothing else. */
static void test_ids(void)
{
    struct {
        Elf64_Ehdr h;
        Elf64_Phdr p;
        uint32_t note[3];
        char name[4];
        uint8_t id[4];
        char tail[5000];
    } x = {.h = {.e_phoff = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1},
           .note = {4, 4, NT_GNU_BUILD_ID},
           .name = "GNU",
           .id = {0xde, 0xad, 0xbe, 0xef}};
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    char id[ELF_ID_MAX];
    struct err e;

    memcpy(x.h.e_ident, ELFMAG, SELFMAG);
    x.h.e_ident[EI_CLASS] = ELFCLASS64;
    x.h.e_ident[EI_DATA] = ELFDATA2LSB;
    x.p = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = sizeof(x.h) + sizeof(x.p), .p_filesz = 20, .p_align = 4};
    eq_int(elf_from_bytes(&x, sizeof(x), false, &f, &e), 0);
    ok(elf_gnu_build_id(f, id));
    eq_str(str_from(id), STR("deadbeef"));
    elf_htlhash(f, id);
    eq_int(strlen(id), 32);
    eq_int(elf_from_bytes("\177ELF", 4, false, &f, &e), -ENOEXEC);
    eq_int(elf_open("/proc/nonexistent", &f, &e), -ENOENT);
    ok(strstr(e.message, "/nonexistent"));
}

/* A file whose only content is this program, compressed, as .gnu_debugdata. */
struct mini {
    Elf64_Ehdr h;
    Elf64_Shdr s[3];
    char names[32];
    uint8_t data[];
};

static struct mini *make_mini(size_t *ret_n)
{
    static const char names[] = "\0.gnu_debugdata\0.shstrtab";
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    size_t room, n = 0;
    struct mini *m;

    if (elf_open("/proc/self/exe", &f, NULL) < 0)
        return NULL;
    room = lzma_stream_buffer_bound(f->size);
    m = mem_zalloc(sizeof(*m) + room);
    if (!m)
        return NULL;
    if (lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, f->data, f->size, m->data, &n, room) != LZMA_OK)
        abort();
    memcpy(m->h.e_ident, ELFMAG, SELFMAG);
    m->h.e_ident[EI_CLASS] = ELFCLASS64;
    m->h.e_ident[EI_DATA] = ELFDATA2LSB;
    m->h.e_shoff = offsetof(struct mini, s);
    m->h.e_shentsize = sizeof(Elf64_Shdr);
    m->h.e_shnum = ARRAY_SIZE(m->s);
    m->h.e_shstrndx = 2;
    memcpy(m->names, names, sizeof(names));
    m->s[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = sizeof(*m), .sh_size = n};
    m->s[2] =
        (Elf64_Shdr){.sh_name = 16, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct mini, names), .sh_size = 32};
    *ret_n = sizeof(*m) + n;
    return m;
}

static void test_debugdata(void)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL, *cut = NULL, *inside = NULL;
    struct elf_symbols s;
    struct err e;
    size_t n;
    _cleanup_(mem_freep) struct mini *m = make_mini(&n);

    eq_int(elf_from_bytes(m, n, false, &f, &e), 0);
    eq_int(elf_symbols_load(f, true, &s), 0);
    ok(s.more && elf_symbols_named(&s, STR("test_debugdata")));
    elf_symbols_done(&s);

    m->s[1].sh_size -= 1000; /* the end is missing: no names, and words when they are asked for */
    eq_int(elf_from_bytes(m, n, false, &cut, &e), 0);
    eq_int(elf_debugdata_open(cut, &inside, &e), -EBADMSG);
    ok(strstr(e.message, ".gnu_debugdata") && !inside);
    eq_int(elf_symbols_load(cut, true, &s), 0);
    eq_int(s.n, 0);
    elf_symbols_done(&s);
}

static int torture_debugdata(void)
{
    static struct mini *m;
    static size_t n;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct elf_symbols s;
    int r;

    if (!m)
        m = make_mini(&n);
    if (!m)
        return -ENOMEM;
    r = elf_from_bytes(m, n, false, &f, NULL);
    if (r >= 0)
        r = elf_symbols_load(f, true, &s);
    if (r >= 0)
        elf_symbols_done(&s);
    return r;
}

static int torture(void)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct elf_symbols s;
    int r = elf_open("/proc/self/exe", &f, NULL);

    if (r < 0)
        return r;
    r = elf_symbols_load(f, false, &s);
    if (r >= 0)
        elf_symbols_done(&s);
    return r;
}

int main(void)
{
    tap_run(test_self);
    tap_run(test_load_bias);
    tap_run(test_maps);
    tap_run(test_ids);
    tap_run(test_debugdata);
    tap_torture(torture);
    tap_torture(torture_debugdata);
    return tap_done();
}
