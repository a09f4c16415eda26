/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the address range of V8's builtins by their symbols. */
#include "agent/v8_builtins.h"

#include <string.h>

#include "elf/elf_symbols.h"

enum { HOST_BYTES = 16 << 20 }; /* a program with V8 in it has at least this many */

struct builtin_range {
    uint64_t lo, hi;
};

static int on_symbol(void *arg, const struct elf_symbol *s)
{
    struct builtin_range *r = arg;

    if (!str_starts(s->name, STR("Builtins_")) || !s->size)
        return 0;
    r->lo = r->hi ? MIN(r->lo, s->address) : s->address;
    r->hi = MAX(r->hi, s->address + s->size);
    return 0;
}

/* Electron's programs have any name; V8's variables for debuggers are among their dynamic symbols. */
static bool has_variables(const struct elf_file *f)
{
    static const char variable[] = "v8dbg_off_fp_function";
    struct elf_bytes names = elf_section_bytes(f, ".dynstr");

    return f->size >= HOST_BYTES && names.n && memmem(names.p, names.n, variable, sizeof variable);
}

static bool is_host(const struct elf_file *f, const char *path)
{
    static const char *const names[] = {"node", "libnode", "deno", "electron", "chrom", "libv8"};
    const char *base = strrchr(path, '/');

    base = base ? base + 1 : path;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strncmp(base, names[i], strlen(names[i])) == 0)
            return true;
    return has_variables(f);
}

bool v8_builtins_find(const struct elf_file *f, const char *path, uint64_t *ret_lo, uint64_t *ret_hi)
{
    struct elf_file *more = NULL;
    struct builtin_range r = {0};

    if (is_host(f, path)) {
        elf_symbols_each(f, true, &(struct elf_visitor){.visit = on_symbol, .arg = &r}, &more);
        elf_free(more);
    }
    *ret_lo = r.lo;
    *ret_hi = r.hi;
    return r.hi != 0;
}
