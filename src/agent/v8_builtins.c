/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the address range of V8's builtins by their symbols. */
#include "agent/v8_builtins.h"

#include <string.h>

#include "elf/elf_symbols.h"

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

bool v8_builtins_find(const struct elf_file *f, const char *path, uint64_t *ret_lo, uint64_t *ret_hi)
{
    static const char *const names[] = {"node", "libnode", "deno", "electron", "chrom", "libv8"};
    const char *base = strrchr(path, '/');
    struct elf_file *more = NULL;
    struct builtin_range r = {0};

    base = base ? base + 1 : path;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strncmp(base, names[i], strlen(names[i])) == 0) {
            elf_symbols_each(f, true, &(struct elf_visitor){.visit = on_symbol, .arg = &r}, &more);
            elf_free(more);
            break;
        }
    *ret_lo = r.lo;
    *ret_hi = r.hi;
    return r.hi != 0;
}
