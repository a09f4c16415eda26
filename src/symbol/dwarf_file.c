/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads debug information with elfutils (dwarf_file.h). Each unit has two tables: `functions` holds every subprogram
 * and inlined call in tree order (a call inlined into another comes after it, and `end` is the index after everything
 * nested inside), `tops` the address ranges of the subprograms. A lookup finds the subprogram and then descends: into a
 * call that contains the address, past one that does not. elfutils' own dwarf_getscopes() walks the whole unit for each
 * address.
 */
#include "symbol/dwarf_file.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "elf/elf.h"

enum {
    UNITS_MAX = 1 << 20,
    RANGES_MAX = 8 << 20,
    FUNCTIONS_MAX = 8 << 20,
    DIES_MAX = 64 << 20, /* maximum visited in one unit */
    TREE_DEPTH_MAX = 256,
};

struct range {
    uint64_t low, high;
    uint32_t index; /* index of the unit or the function */
};

struct dwarf_function {
    Dwarf_Die die;
    uint32_t end;             /* index after the nested calls */
    uint32_t first, n_ranges; /* in unit->ranges */
    bool inlined;
};

struct dwarf_unit {
    Dwarf_Die die, tree; /* tree: the DIE that contains the functions: the same, or that of the .dwo file */
    struct dwarf_function *functions;
    struct range *ranges, *tops;
    size_t n_functions, n_ranges, n_tops, cap_functions, cap_ranges, cap_tops, visited;
    bool loaded;
};

struct dwarf_file {
    Dwfl *dwfl;
    Dwarf *dwarf;
    uint64_t bias; /* difference between an ELF address and one of the debug information */
    struct dwarf_unit *units;
    struct range *ranges; /* ranges of units, by low */
    size_t n_units, cap_units, n_ranges, cap_ranges;
};

static int add_range(struct range **v, size_t *n, size_t *cap, struct range r)
{
    int e = array_push(*v, *n, *cap, RANGES_MAX, r);

    if (e < 0)
        return e;
    return 0;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The range that contains the address; if there are several, the one that begins last. */
static const struct range *find_range(const struct range *v, size_t n, uint64_t address)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (v[mid].low <= address)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i > 0 && low - i < 64; i--)
        if (address < v[i - 1].high)
            return &v[i - 1];
    return NULL;
}

/* Adds every range of a DIE. */
static int die_ranges(Dwarf_Die *die, uint32_t index, struct range **v, size_t *n, size_t *cap)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;

    while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
        if (start < end) {
            int r = add_range(v, n, cap, (struct range){start, end, index});

            if (r < 0)
                return r;
        }
    return 0;
}

static int add_unit(struct dwarf_file *d, Dwarf_Die *die, Dwarf_Die *split)
{
    int r = array_reserve(d->units, d->cap_units, d->n_units + 1, UNITS_MAX);
    struct dwarf_unit *u;

    if (r < 0)
        return r;
    u = &d->units[d->n_units];
    *u = (struct dwarf_unit){.die = *die, .tree = split ? *split : *die};
    r = die_ranges(die, (uint32_t) d->n_units, &d->ranges, &d->n_ranges, &d->cap_ranges);
    if (r < 0)
        return r;
    d->n_units++;
    return 0;
}

static int index_units(struct dwarf_file *d)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    uint8_t type;

    while (dwarf_get_units(d->dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
        bool has_split = type == DW_UT_skeleton && dwarf_tag(&split) != DW_TAG_invalid;
        int r;

        if (type == DW_UT_type || type == DW_UT_partial)
            continue;
        r = add_unit(d, &die, has_split ? &split : NULL);
        if (r == -E2BIG)
            break;
        if (r < 0)
            return r;
    }
    if (d->n_ranges)
        qsort(d->ranges, d->n_ranges, sizeof(*d->ranges), compare_ranges);
    return 0;
}

/* True if a file that .gnu_debuglink may name is too large to compute its checksum. */
static bool is_link_too_large(const char *binary, const char *link)
{
    const char *slash = binary ? strrchr(binary, '/') : NULL;
    int folder = slash ? (int) (slash - binary) : 0;
    char path[4096];
    struct stat st;

    for (int i = 0; link && i < 3; i++) {
        snprintf(path, sizeof path, "%s%.*s/%s%s", i == 2 ? "/usr/lib/debug" : "", folder, binary ? binary : "",
                 i == 1 ? ".debug/" : "", link);
        if (stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size > ELF_DEBUGLINK_MAX))
            return true;
    }
    return false;
}

/* As elfutils does, except for files without a build id, which it recognizes by a checksum over the whole file. */
static int find_debuginfo(Dwfl_Module *m, void **user, const char *name, GElf_Addr base, const char *file,
                          const char *link, GElf_Word crc, char **ret)
{
    const unsigned char *id;
    GElf_Addr at;

    if (dwfl_module_build_id(m, &id, &at) <= 0 && is_link_too_large(file, link))
        return -1;
    return dwfl_standard_find_debuginfo(m, user, name, base, file, link, crc, ret);
}

static int open_dwfl(struct dwarf_file *d, const char *path, int fd, struct err *e)
{
    static char *debug_path; /* the default: beside the binary, .debug, /usr/lib/debug */
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &debug_path,
    };
    GElf_Addr main_bias, debug_bias;
    Dwfl_Module *m;

    d->dwfl = dwfl_begin(&callbacks);
    if (!d->dwfl)
        return -ENOMEM;
    if (fd >= 0) {
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* owned by the module from here on */
        if (fd < 0)
            return err_set(e, -errno, "cannot reopen '%s': %m", path);
    }
    m = dwfl_report_offline(d->dwfl, "", path, fd);
    if (!m)
        fd_close(fd);
    if (!m || dwfl_report_end(d->dwfl, NULL, NULL) != 0)
        return err_set(e, -ENOEXEC, "cannot read '%s': %s", path, dwfl_errmsg(-1));
    if (!dwfl_module_getelf(m, &main_bias))
        return err_set(e, -ENOEXEC, "cannot read '%s': %s", path, dwfl_errmsg(-1));
    d->dwarf = dwfl_module_getdwarf(m, &debug_bias);
    if (!d->dwarf)
        return err_set(e, -ENODATA, "'%s' has no debug information: %s", path, dwfl_errmsg(-1));
    d->bias = main_bias - debug_bias;
    return 0;
}

int dwarf_file_open(const char *path, int fd, struct dwarf_file **ret, struct err *e)
{
    _cleanup_(dwarf_file_freep) struct dwarf_file *d = mem_zalloc(sizeof(*d));
    int r;

    if (!d)
        return -ENOMEM;
    r = open_dwfl(d, path, fd, e);
    if (r >= 0)
        r = index_units(d);
    if (r < 0)
        return r;
    *ret = TAKE(d);
    return 0;
}

void dwarf_file_free(struct dwarf_file *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_units; i++) {
        mem_free(d->units[i].functions);
        mem_free(d->units[i].ranges);
        mem_free(d->units[i].tops);
    }
    mem_free(d->units);
    mem_free(d->ranges);
    if (d->dwfl)
        dwfl_end(d->dwfl);
    mem_free(d);
}

static int add_function(struct dwarf_unit *u, Dwarf_Die *die, bool inlined, uint32_t *ret)
{
    uint32_t index = (uint32_t) u->n_functions;
    size_t first = u->n_ranges;
    int r = array_reserve(u->functions, u->cap_functions, u->n_functions + 1, FUNCTIONS_MAX);

    if (r >= 0)
        r = die_ranges(die, index, &u->ranges, &u->n_ranges, &u->cap_ranges);
    if (r < 0)
        return r;
    if (u->n_ranges == first) /* a declaration, or an abstract one */
        return 0;
    u->functions[index] = (struct dwarf_function){
        .die = *die, .first = (uint32_t) first, .n_ranges = (uint32_t) (u->n_ranges - first), .inlined = inlined};
    u->n_functions++;
    *ret = index;
    for (size_t i = first; !inlined && i < u->n_ranges; i++) {
        r = add_range(&u->tops, &u->n_tops, &u->cap_tops, u->ranges[i]);
        if (r < 0)
            return r;
    }
    return 1;
}

static bool may_hold_functions(int tag)
{
    switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_call_site:
    case DW_TAG_GNU_call_site:
        return true;
    default:
        return false;
    }
}

static int walk(struct dwarf_unit *u, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    int more = depth < TREE_DEPTH_MAX ? dwarf_child(parent, &die) : 1;

    for (; more == 0; more = dwarf_siblingof(&die, &die)) {
        int tag = dwarf_tag(&die), r = 0;
        uint32_t index;

        if (++u->visited > DIES_MAX)
            return -E2BIG;
        if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
            r = add_function(u, &die, tag == DW_TAG_inlined_subroutine, &index);
            if (r < 0)
                return r;
        }
        if (may_hold_functions(tag) && dwarf_haschildren(&die) > 0) {
            int w = walk(u, &die, depth + 1);

            if (w < 0)
                return w;
        }
        if (r > 0)
            u->functions[index].end = (uint32_t) u->n_functions;
    }
    return 0;
}

static int load_functions(struct dwarf_unit *u)
{
    int r;

    if (u->loaded)
        return 0;
    r = walk(u, &u->tree, 0);
    if (r < 0 && r != -E2BIG)
        return r;
    for (size_t i = 0; i < u->n_functions; i++) /* functions that the walk did not finish */
        if (u->functions[i].end <= i)
            u->functions[i].end = (uint32_t) (i + 1);
    if (u->n_tops)
        qsort(u->tops, u->n_tops, sizeof(*u->tops), compare_ranges);
    u->loaded = true;
    return 0;
}

static bool has_address(const struct dwarf_unit *u, const struct dwarf_function *f, uint64_t address)
{
    for (uint32_t i = 0; i < f->n_ranges; i++)
        if (address >= u->ranges[f->first + i].low && address < u->ranges[f->first + i].high)
            return true;
    return false;
}

/* The subprogram that contains the address and the calls inlined into it, outermost first. */
static uint32_t find_chain(const struct dwarf_unit *u, uint64_t address, uint32_t ret[DWARF_FRAMES_MAX])
{
    const struct range *top = find_range(u->tops, u->n_tops, address);
    uint32_t n = 0, end;

    if (!top)
        return 0;
    ret[n++] = top->index;
    end = u->functions[top->index].end;
    for (uint32_t i = top->index + 1; i < end && n < DWARF_FRAMES_MAX;) {
        const struct dwarf_function *f = &u->functions[i];

        if (f->inlined && has_address(u, f, address)) {
            ret[n++] = i;
            end = f->end;
            i++;
        } else {
            i = f->end;
        }
    }
    return n;
}

static int attribute_number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute a;
    Dwarf_Word v = 0;

    if (!dwarf_attr_integrate(die, name, &a) || dwarf_formudata(&a, &v) != 0 || v > INT32_MAX)
        return 0;
    return (int) v;
}

static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute a;
    const char *name = NULL;

    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) || dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a))
        name = dwarf_formstring(&a);
    return name ? name : dwarf_diename(die);
}

static const char *call_file(struct dwarf_unit *u, Dwarf_Die *call)
{
    Dwarf_Files *files;
    size_t n;
    int index = attribute_number(call, DW_AT_call_file);
    Dwarf_Half version = 0;
    Dwarf_Die cu;

    dwarf_cu_die(u->die.cu, &cu, &version, NULL, NULL, NULL, NULL, NULL);
    if ((index == 0 && version < 5) || dwarf_getsrcfiles(&u->die, &files, &n) != 0 || (size_t) index >= n)
        return NULL;
    return dwarf_filesrc(files, (size_t) index, NULL, NULL);
}

/* elfutils leaves a file relative if its folder is relative; then the compilation directory must be put in front. */
static const char *folder_of(struct dwarf_unit *u, const char *file)
{
    Dwarf_Attribute a;

    if (!file || file[0] == '/' || !dwarf_attr(&u->die, DW_AT_comp_dir, &a))
        return NULL;
    return dwarf_formstring(&a);
}

static void fill_line(struct dwarf_unit *u, uint64_t address, struct dwarf_frame *f)
{
    Dwarf_Line *line = dwarf_getsrc_die(&u->die, address);

    if (!line)
        return;
    f->file = dwarf_linesrc(line, NULL, NULL);
    dwarf_lineno(line, &f->line);
    dwarf_linecol(line, &f->column);
}

static struct dwarf_unit *unit_of(struct dwarf_file *d, uint64_t address)
{
    const struct range *r = find_range(d->ranges, d->n_ranges, address);

    return r ? &d->units[r->index] : NULL;
}

int dwarf_file_lookup(struct dwarf_file *d, uint64_t address, struct dwarf_frame ret[DWARF_FRAMES_MAX])
{
    struct dwarf_unit *u;
    uint32_t chain[DWARF_FRAMES_MAX], n;
    int r;

    address += d->bias;
    u = unit_of(d, address);
    if (!u)
        return 0;
    r = load_functions(u);
    if (r < 0)
        return r;
    n = find_chain(u, address, chain);
    ret[0] = (struct dwarf_frame){0};
    fill_line(u, address, &ret[0]);
    if (n == 0) {
        ret[0].dir = folder_of(u, ret[0].file);
        return ret[0].file ? 1 : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct dwarf_function *f = &u->functions[chain[n - 1 - i]];

        ret[i].name = function_name(&f->die);
        ret[i].start_line = attribute_number(&f->die, DW_AT_decl_line);
        if (f->inlined && i + 1 < n)
            ret[i + 1] = (struct dwarf_frame){.file = call_file(u, &f->die),
                                              .line = attribute_number(&f->die, DW_AT_call_line),
                                              .column = attribute_number(&f->die, DW_AT_call_column)};
    }
    for (uint32_t i = 0; i < n; i++)
        ret[i].dir = folder_of(u, ret[i].file);
    return (int) n;
}
