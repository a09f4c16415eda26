/* SPDX-License-Identifier: Apache-2.0 */
/* Runs nm, objdump and `go tool objdump` and parses their output (pprof_tools.h). */
#include "pprof/pprof_tools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/child.h"
#include "base/mem.h"
#include "demangle/demangle.h"

enum { OUTPUT_MAX = 1 << 30, NAMES_MAX = 4096 };

/* The folders that -tools gives for one tool, then those for all tools, separated by ':'. */
static void tool_folders(struct str config, const char *tool, struct buf *out)
{
    for (int for_all = 0; for_all < 2; for_all++)
        for (struct str rest = config; rest.n;) {
            struct str path = str_cut(&rest, ','), name = STR("");

            if (str_find_char(path, ':') >= 0)
                name = str_cut(&path, ':');
            if (path.n && (for_all ? name.n == 0 : str_is(name, tool))) {
                if (out->n)
                    buf_putc(out, ':');
                buf_put_str(out, path);
            }
        }
}

static bool find_tool(struct str config, const char *tool, const char *program, struct buf *ret)
{
    _cleanup_(buf_done) struct buf folders = BUF_INIT;

    tool_folders(config, tool, &folders);
    if ((folders.n && child_find(buf_str(&folders), program, ret)) || child_find(STR(""), program, ret))
        return true;
    buf_reset(ret);
    return false;
}

/* True if the objdump at t->objdump is LLVM's, version 8 or later, or for llvm = false GNU's. */
static bool objdump_usable(struct pprof_tools *t, bool llvm)
{
    _cleanup_(buf_done) struct buf version = BUF_INIT;
    const char *const argv[] = {t->objdump.p, "--version", NULL};
    ptrdiff_t at;

    if (child_output(argv, 1 << 16, &version, NULL) < 0)
        return false;
    if (!llvm)
        return str_find(buf_str(&version), STR("GNU objdump")) >= 0;
    at = str_find(buf_str(&version), STR("LLVM version "));
    return at >= 0 && buf_cstr(&version) && strtol(version.p + at + 13, NULL, 10) >= 8;
}

/* Determines which objdump is installed and how its lines are parsed. This is done at the first disassembly, because
 * running it for its version takes longer than most reports. */
static int prepare_objdump(struct pprof_tools *t, struct err *e)
{
    const struct {
        struct regex **to;
        struct str text;
    } all[] = {
        {&t->asm_line, STR("^\\s*([[:xdigit:]]+):\\s+(.*)")},
        {&t->file_line, STR("^;?\\s?(.*):([0-9]+)")},
        {&t->function, STR("^;?\\s?(\\S.*)\\(\\):")},
        {&t->llvm_function, STR("^([[:xdigit:]]+)?\\s?(.*):")},
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        int r = *all[i].to ? 0 : regex_new(all[i].text, all[i].to, e);

        if (r < 0)
            return r;
    }
    if (t->objdump_asked)
        return 0;
    t->objdump_asked = true;
    if (find_tool(t->config, "objdump", "llvm-objdump", &t->objdump) && objdump_usable(t, true))
        t->llvm_objdump = true;
    else if (!find_tool(t->config, "objdump", "objdump", &t->objdump) || !objdump_usable(t, false))
        buf_reset(&t->objdump);
    return 0;
}

int pprof_tools_init(struct pprof_tools *t, struct str config, struct err *e)
{
    *t = (struct pprof_tools){.config = config.n ? config : str_from(getenv("PPROF_TOOLS"))};
    config = t->config;
    if (!find_tool(config, "nm", "llvm-nm", &t->nm))
        find_tool(config, "nm", "nm", &t->nm);
    find_tool(config, "go", "go", &t->go);
    return regex_new(STR("^\\s*([[:xdigit:]]+)\\s+(.)\\s+(.*)"), &t->nm_line, e);
}

void pprof_tools_done(struct pprof_tools *t)
{
    buf_done(&t->nm);
    buf_done(&t->objdump);
    buf_done(&t->go);
    regex_free(t->nm_line);
    regex_free(t->asm_line);
    regex_free(t->file_line);
    regex_free(t->function);
    regex_free(t->llvm_function);
    *t = (struct pprof_tools){0};
}

static uint64_t parse_hex(struct str s)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < s.n && hex_digit(s.p[i]) >= 0; i++)
        v = v << 4 | (uint64_t) hex_digit(s.p[i]);
    return v;
}

/* --- symbols --- */

static int one_name(struct arena *a, struct str name, struct report_symbol *ret)
{
    struct str *v = arena_zalloc(a, sizeof(*v));

    if (!v)
        return -ENOMEM;
    *v = arena_str(a, name);
    ret->names = v;
    ret->n_names = 1;
    return v->p || !name.n ? 1 : -ENOMEM;
}

/* Returns 1 if a demangled form of the name matches. */
static int match_demangled(struct str name, const struct regex *re, struct arena *a, struct report_symbol *ret)
{
    static const unsigned forms[] = {
        DEMANGLE_NO_CLONES,
        DEMANGLE_NO_PARAMS | DEMANGLE_NO_ENCLOSING_PARAMS,
        DEMANGLE_NO_PARAMS | DEMANGLE_NO_ENCLOSING_PARAMS | DEMANGLE_NO_TEMPLATE_PARAMS,
    };
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        buf_reset(&b);
        if (demangle(name, forms[i], &b) == 0 && regex_search(re, buf_str(&b)))
            return one_name(a, buf_str(&b), ret);
    }
    return 0;
}

int pprof_match_symbol(const struct report_symbol *s, const struct regex *re, uint64_t address, struct arena *a,
                       struct report_symbol *ret)
{
    const struct str *names = s->names;
    uint32_t n = s->n_names;
    int r = 0;

    ret->start = s->start;
    ret->end = s->end;
    if (n == 0)
        return 0;
    if (address && address >= s->start && address <= s->end) {
        ret->names = arena_zalloc_array(a, n, sizeof(*ret->names));
        for (uint32_t i = 0; ret->names && i < n; i++)
            ret->names[i] = arena_str(a, names[i]);
        ret->n_names = n;
        return ret->names ? 1 : -ENOMEM;
    }
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = regex_search(re, names[i]) ? one_name(a, names[i], ret) : match_demangled(names[i], re, a, ret);
    return r;
}

struct symbol_list {
    struct report_symbol *v;
    size_t n, cap;
};

static int add_symbol(struct symbol_list *l, const struct report_symbol *all, const struct regex *re, uint64_t address,
                      struct arena *a)
{
    struct report_symbol s;
    int r = pprof_match_symbol(all, re, address, a, &s);

    return r <= 0 ? r : array_push(l->v, l->n, l->cap, UINT32_MAX, s);
}

/* A symbol extends to the next address that has one. */
static int read_symbols(struct pprof_tools *t, struct str text, const struct regex *re, uint64_t address,
                        struct arena *a, struct symbol_list *l)
{
    _cleanup_(mem_freep) struct str *names = mem_zalloc_array(NAMES_MAX, sizeof(*names));
    struct report_symbol s = {.names = names};
    int r = names ? 0 : -ENOMEM;

    while (r >= 0 && text.n) {
        struct str line = str_trim(str_cut(&text, '\n')), groups[3];
        size_t from, to;
        uint64_t at;

        if (!regex_find(t->nm_line, line, 0, &from, &to, groups, 3) || groups[0].n > 16)
            continue;
        at = parse_hex(groups[0]);
        if (at != s.start) {
            s.end = at - 1;
            r = add_symbol(l, &s, re, address, a);
            s.n_names = 0;
            s.start = at;
        }
        if (s.n_names < NAMES_MAX)
            names[s.n_names++] = groups[2];
    }
    s.end = UINT64_MAX;
    return r < 0 ? r : add_symbol(l, &s, re, address, a);
}

int pprof_tools_symbols(struct pprof_tools *t, const char *file, const struct regex *re, uint64_t address,
                        struct arena *a, struct report_symbols *ret)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    const char *const argv[] = {t->nm.p, "-n", file, NULL};
    struct symbol_list l = {0};
    int r;

    *ret = (struct report_symbols){0};
    if (!t->nm.n)
        return -ENOENT;
    r = child_output(argv, OUTPUT_MAX, &out, NULL);
    if (r >= 0)
        r = read_symbols(t, buf_str(&out), re, address, a, &l);
    if (r >= 0 && l.n) {
        ret->v = arena_zalloc_array(a, l.n, sizeof(*l.v));
        if (ret->v)
            memcpy(ret->v, l.v, l.n * sizeof(*l.v));
        ret->n = ret->v ? (uint32_t) l.n : 0;
        r = ret->v ? 0 : -ENOMEM;
    }
    mem_free(l.v);
    return r;
}

/* "name type address size" */
static bool parse_nm_line(struct str line, struct pprof_nm_symbol *ret)
{
    struct str parts[4];
    uint32_t n = 0;

    for (line = str_trim(line); line.n && n < 4; n++)
        parts[n] = str_cut(&line, ' ');
    if (n != 4 || line.n || !parts[2].n || parts[2].n > 16 || !parts[3].n || parts[3].n > 16)
        return false;
    *ret = (struct pprof_nm_symbol){parse_hex(parts[2]), parse_hex(parts[3]), parts[0], false};
    for (uint32_t i = 0; i < parts[1].n; i++)
        ret->data |= strchr("bBdDrRvVW", parts[1].p[i]) != NULL;
    return true;
}

int pprof_tools_nm(struct pprof_tools *t, const char *file, struct arena *a, struct pprof_nm *ret)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    const char *const argv[] = {t->nm.p, "--numeric-sort", "--print-size", "--format=posix", file, NULL};
    struct str text;
    int r;

    *ret = (struct pprof_nm){0};
    if (!t->nm.n)
        return -ENOENT;
    r = child_output(argv, OUTPUT_MAX, &out, NULL);
    if (r < 0)
        return r;
    text = out.n ? arena_str(a, buf_str(&out)) : STR("");
    r = text.p ? 0 : -ENOMEM;
    while (r >= 0 && text.n) {
        struct pprof_nm_symbol s;

        if (!parse_nm_line(str_cut(&text, '\n'), &s))
            continue;
        r = array_push(ret->v, ret->n, ret->cap, UINT32_MAX, s);
    }
    return r;
}

const struct pprof_nm_symbol *pprof_nm_find(const struct pprof_nm *nm, uint64_t address)
{
    const struct pprof_nm_symbol *s = nm->v;
    bool exact = false;

    if (!nm->n || address < s->address || address >= s[nm->n - 1].address + s[nm->n - 1].size)
        return NULL;
    /* Of several symbols at the address, the one that the halving meets first: pprof shows that one. */
    for (size_t n = nm->n; n > 1 && !exact;) {
        size_t half = n / 2;

        if (s[half].address > address) {
            n = half;
        } else {
            s += half;
            n -= half;
            exact = s->address == address;
        }
    }
    return s->data && address - s->address >= s->size ? NULL : s;
}

/* --- instructions --- */

struct inst_list {
    struct report_inst *v;
    size_t n, cap;
    struct arena *a;
};

static int add_inst(struct inst_list *l, const struct report_inst *in)
{
    return array_push(l->v, l->n, l->cap, UINT32_MAX, *in);
}

static int finish_insts(struct inst_list *l, int r, struct report_insts *ret)
{
    *ret = (struct report_insts){0};
    if (r >= 0 && l->n) {
        ret->v = arena_zalloc_array(l->a, l->n, sizeof(*l->v));
        if (ret->v)
            memcpy(ret->v, l->v, l->n * sizeof(*l->v));
        ret->n = ret->v ? (uint32_t) l->n : 0;
        r = ret->v ? 0 : -ENOMEM;
    }
    mem_free(l->v);
    return r;
}

/* objdump's lines: "address: text", "file:line", "function():", and headers that pprof also takes for functions. */
static int read_objdump(struct pprof_tools *t, struct str text, struct inst_list *l)
{
    struct report_inst now = {0};

    while (text.n) {
        struct str line = str_trim(str_cut(&text, '\n')), g[3];
        size_t from, to;

        if (regex_find(t->asm_line, line, 0, &from, &to, g, 2) && g[0].n <= 16) {
            int r;

            now.address = parse_hex(g[0]);
            now.text = g[1];
            r = add_inst(l, &now);
            if (r < 0)
                return r;
        } else if (regex_find(t->file_line, line, 0, &from, &to, g, 2)) {
            uint64_t v;

            if (str_to_u64(g[1], 10, &v) == 0 && v <= UINT32_MAX) {
                now.file = g[0];
                now.line = (int64_t) v;
            }
        } else if (regex_find(t->function, line, 0, &from, &to, g, 1)) {
            now.function = g[0];
        } else if (regex_find(t->llvm_function, line, 0, &from, &to, g, 2)) {
            now.function = g[1];
        } else {
            now = (struct report_inst){0};
        }
    }
    return 0;
}

int pprof_tools_disassemble(struct pprof_tools *t, const struct pprof_code *code, struct arena *a,
                            struct report_insts *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct inst_list l = {.a = a};
    char from[64], to[64];
    const char *argv[12] = {NULL, "--disassemble", "--demangle", "--no-show-raw-insn", "--line-numbers", from, to};
    size_t n = 7;
    struct str text;
    int r = prepare_objdump(t, e);

    if (r < 0)
        return r;
    argv[0] = t->objdump.p;
    if (!t->objdump.n)
        return err_set(e, -ENOENT, "cannot disasm: no objdump tool available");
    snprintf(from, sizeof(from), "--start-address=0x%" PRIx64, code->start);
    snprintf(to, sizeof(to), "--stop-address=0x%" PRIx64, code->end);
    if (code->intel && t->llvm_objdump) {
        argv[n++] = "--x86-asm-syntax=intel";
    } else if (code->intel) {
        argv[n++] = "-M";
        argv[n++] = "intel";
    }
    argv[n++] = code->file;
    r = child_output(argv, OUTPUT_MAX, &out, e);
    if (r < 0)
        return r;
    text = out.n ? arena_str(a, buf_str(&out)) : STR("");
    return finish_insts(&l, text.p ? read_objdump(t, text, &l) : -ENOMEM, ret);
}

/* "  file:line <tabs> 0xaddress <tabs> code <tabs> text <tabs>" */
static bool parse_go_line(struct str line, struct report_inst *ret, uint64_t *ret_size)
{
    struct str parts[3] = {0}, place;

    for (int i = 0; i < 3; i++) {
        parts[i] = str_trim(str_cut(&line, '\t'));
        while (line.n && line.p[0] == '\t')
            line = str_slice(line, 1, line.n);
    }
    *ret = (struct report_inst){.text = str_trim(line)};
    if (!str_starts(parts[1], STR("0x")) || parts[1].n > 18 || !ret->text.n)
        return false;
    ret->address = parse_hex(str_slice(parts[1], 2, parts[1].n));
    *ret_size = parts[2].n / 2;
    place = parts[0];
    for (uint32_t i = place.n; i > 0; i--)
        if (place.p[i - 1] == ':') {
            ret->file = str_slice(place, 0, i - 1);
            str_to_i64(str_slice(place, i, place.n), 10, &ret->line);
            break;
        }
    return true;
}

/* Between functions the linker puts one-byte traps, which `go tool objdump` leaves out. */
static int add_padding(struct inst_list *l, uint64_t from, uint64_t to)
{
    int r = 0;

    if (!from || to < from || to - from >= 64)
        return 0;
    for (; from < to && r >= 0; from++)
        r = add_inst(l, &(struct report_inst){.address = from, .text = STR("INT $0x3"), .line = -1});
    return r;
}

int pprof_tools_disassemble_go(struct pprof_tools *t, const struct pprof_code *code, struct arena *a,
                               struct report_insts *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct inst_list l = {.a = a};
    char from[32], to[32];
    const char *const argv[] = {t->go.p, "tool", "objdump", code->file, from, to, NULL};
    uint64_t next = 0;
    struct str text;
    int r;

    snprintf(from, sizeof(from), "0x%" PRIx64, code->start);
    snprintf(to, sizeof(to), "0x%" PRIx64, code->end);
    r = child_output(argv, OUTPUT_MAX, &out, e);
    if (r < 0)
        return r;
    text = out.n ? arena_str(a, buf_str(&out)) : STR("");
    r = text.p ? 0 : -ENOMEM;
    while (r >= 0 && text.n) {
        struct str line = str_cut(&text, '\n');
        struct report_inst in;
        uint64_t size;

        if (!parse_go_line(line, &in, &size) || in.address < code->start)
            continue; /* a symbol is shown from its start */
        r = add_padding(&l, next, in.address);
        if (r >= 0)
            r = add_inst(&l, &in);
        next = in.address + size;
    }
    if (r >= 0)
        r = add_padding(&l, next, next ? MIN(code->end, ALIGN_UP(next, 32)) : 0);
    return finish_insts(&l, r, ret);
}
