/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on hostile input is linear: each case is measured with n and with 2n entries, and twice the input must not take
 * more than three times the CPU time. Sizes are such that quadratic work would take minutes.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/fd.h"
#include "elf/elf.h"
#include "elf/elf_symbols.h"
#include "model/builder.h"
#include "model/labels.h"
#include "model/sink.h"
#include "model/symbolizer.h"
#include "proc/proc_maps.h"
#include "store/fingerprints.h"
#include "store/intake.h"
#include "symbol/dwarf_symbolizer.h"
#include "tap.h"

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* The shortest of three runs, since the machine may be busy. run() measures its own work. */
static double best_of(double (*run)(uint32_t n), uint32_t n)
{
    double best = 1e9;

    for (int i = 0; i < 3; i++) {
        double t = run(n);

        best = MIN(best, t);
    }
    return best;
}

static void check_linear(const char *what, double (*run)(uint32_t n), uint32_t n)
{
    double once = best_of(run, n), twice = best_of(run, 2 * n);

    printf("# %s: %.1f ms for %u, %.1f ms for %u\n", what, once * 1e3, n, twice * 1e3, 2 * n);
    if (twice > 3 * once + 0.02)
        tap_fail("%s: twice the input takes %.1f times as long", what, twice / once);
}

/* --- profiles of one request --- */

static double plan(uint32_t n)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    struct intake_memo memo = {0};
    struct intake_limits limits = {
        .allow = labels_default_allow, .max_late = INT64_MAX, .max_early = INT64_MAX, .now = 1767225600000000000};
    struct sink_context ctx = {.tenant = ""};
    struct intake in;
    struct fingerprints prints;
    struct arena a;
    double start, took;

    builder_new(NULL, &b);
    builder_resource(b);
    builder_scope(b, STR(""), STR(""));
    for (uint32_t i = 0; i < n; i++) {
        struct value_type t = {builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
        struct profile *p = builder_profile(b, &t, 1);

        p->time_ns = 1767225600000000000 + i;
    }
    eq_int(builder_finish(b, &batch, NULL), 0);
    arena_init(&a, 0);
    eq_int(fingerprints_init(&prints, batch, &a), 0);
    start = cpu_seconds();
    ok(intake_plan(&prints, &ctx, &limits, &memo, &a, &in) >= 0);
    took = cpu_seconds() - start;
    eq_int(in.n_items, n);
    intake_memo_done(&memo);
    arena_done(&a);
    return took;
}

static void test_profiles_of_a_request(void)
{
    check_linear("profiles of a request", plan, 40000);
}

/* --- ELF --- */

enum { SECTIONS = 4 };

/* A file with n symbols whose names begin everywhere in a table of `names` bytes without a zero. */
static uint8_t *make_elf(uint32_t n, size_t names, size_t *ret_size)
{
    size_t symbols = n * sizeof(Elf64_Sym), sections_at = sizeof(Elf64_Ehdr) + names + symbols;
    uint8_t *p = mem_zalloc(sections_at + SECTIONS * sizeof(Elf64_Shdr));
    Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                    .e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_shoff = sections_at,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = SECTIONS};
    Elf64_Shdr s[SECTIONS] = {
        {0},
        {.sh_type = SHT_STRTAB, .sh_offset = sizeof h, .sh_size = names},
        {.sh_type = SHT_SYMTAB, .sh_link = 1, .sh_offset = sizeof h + names, .sh_size = symbols},
        {.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR},
    };

    memcpy(p, &h, sizeof h);
    memset(p + sizeof h, 'x', names);
    for (uint32_t i = 0; i < n; i++) {
        Elf64_Sym x = {
            .st_name = i % 1000, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 3, .st_value = i};

        memcpy(p + sizeof h + names + i * sizeof x, &x, sizeof x);
    }
    memcpy(p + sections_at, s, sizeof s);
    *ret_size = sections_at + sizeof s;
    return p;
}

static double read_symbols(uint32_t n)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    struct elf_symbols s;
    size_t size;
    uint8_t *p = make_elf(n, (size_t) n * 32, &size);
    double start = cpu_seconds(), took;

    eq_int(elf_from_bytes(p, size, true, &f, NULL), 0);
    eq_int(elf_symbols_load(f, true, &s), 0);
    took = cpu_seconds() - start;
    ok(s.n > 0 && s.v[0].name.n > 0);
    elf_symbols_done(&s);
    return took;
}

static void test_names_of_symbols(void)
{
    check_linear("names of ELF symbols", read_symbols, 100000);
}

/* A section that says it inflates to 8 GiB: the symbols are read, the debug information is not. */
static void test_inflated_sections(void)
{
    char path[] = "/tmp/wick-bounded-XXXXXX";
    _cleanup_(symbolizer_freep) struct symbolizer *s = dwarf_symbolizer_new();
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    Elf64_Chdr c = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = 8ull << 30};
    uint64_t address = 5;
    struct symbol_request q = {.addresses = &address, .n_addresses = 1, .lines = true};
    struct err e = {0};
    size_t size;
    uint8_t *p = make_elf(10, 4096, &size);
    Elf64_Shdr *sections = (Elf64_Shdr *) (void *) (p + size - SECTIONS * sizeof(Elf64_Shdr));
    int fd = mkstemp(path);

    memcpy(p + sizeof(Elf64_Ehdr), &c, sizeof c);
    sections[0] = (Elf64_Shdr){
        .sh_type = SHT_PROGBITS, .sh_flags = SHF_COMPRESSED, .sh_offset = sizeof(Elf64_Ehdr), .sh_size = 64};
    eq_int(elf_from_bytes(p, size, false, &f, NULL), 0);
    ok(elf_inflated_size(f) == 8ull << 30);
    eq_int(fd_write_all(fd, p, size), 0);
    fd_close(fd);
    q.path = str_from(path);
    eq_int(symbolizer_resolve(s, &q, &a, &e), 0);
    ok(a && a->quality == SYMBOLS_NAMES);
    unlink(path);
    mem_free(p);
}

/* --- /proc/PID/maps --- */

static void put_maps(struct buf *b, uint32_t n, size_t path)
{
    for (uint32_t i = 0; i < n; i++) {
        buf_printf(b, "%x000-%x000 r-xp 00000000 08:01 %u /", 16 + i, 17 + i, i + 1);
        for (size_t k = 0; k < path; k++)
            buf_putc(b, (char) ('a' + (i + k) % 26));
        buf_putc(b, '\n');
    }
}

static double read_maps(uint32_t n)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[] = "/tmp/wick-bounded-XXXXXX";
    struct proc_maps m;
    int fd = mkstemp(path);
    double start, took;

    put_maps(&b, n, 40);
    eq_int(fd_write_all(fd, b.p, b.n), 0);
    fd_close(fd);
    start = cpu_seconds();
    eq_int(proc_maps_read_file(path, true, &m), 0);
    took = cpu_seconds() - start;
    unlink(path);
    eq_int(m.n, n);
    ok(m.n == n && m.v[n - 1].start == (uint64_t) (16 + n - 1) << 12 && m.v[n - 1].path.n == 41);
    proc_maps_done(&m);
    return took;
}

static void test_maps(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct proc_maps m;

    check_linear("lines of /proc/PID/maps", read_maps, 50000);
    put_maps(&b, 20000, 4000); /* 80 MB of paths */
    eq_int(proc_maps_parse(buf_str(&b), true, &m), 0);
    ok(m.n > 1000 && m.n < 20000);
    eq_int(m.n + m.left_out, 20000); /* nothing is dropped without being counted */
    ok(m.arena.used <= PROC_MAPS_TEXT_MAX);
    proc_maps_done(&m);
    buf_reset(&b);
    put_maps(&b, PROC_MAPS_MAX + 77, 4);
    eq_int(proc_maps_parse(buf_str(&b), true, &m), 0);
    eq_int(m.n, PROC_MAPS_MAX);
    eq_int(m.left_out, 77);
    proc_maps_done(&m);
}

int main(void)
{
    tap_run(test_profiles_of_a_request);
    tap_run(test_names_of_symbols);
    tap_run(test_inflated_sections);
    tap_run(test_maps);
    return tap_done();
}
