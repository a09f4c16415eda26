/* SPDX-License-Identifier: Apache-2.0 */
/* Finds V8's variables for debuggers among the symbols of a binary (v8_symbols.h). */
#include "agent/v8_symbols.h"

#include "elf/elf_symbols.h"

static int on_symbol(void *arg, const struct elf_symbol *s)
{
    static const char *const names[] = {
#define X(name, text) text,
        V8_VALUES(X)
#undef X
    };
    struct v8_symbols *ret = arg;
    struct str rest = s->name;

    if (!str_starts(rest, STR("v8dbg_")))
        return 0;
    rest = str_slice(rest, 6, rest.n);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(rest, names[i]))
            ret->at[i] = s->address;
    return 0;
}

bool v8_symbols_find(const struct elf_file *f, struct v8_symbols *ret)
{
    struct elf_file *more = NULL;

    *ret = (struct v8_symbols){0};
    elf_symbols_each(f, false, &(struct elf_visitor){.visit = on_symbol, .arg = ret}, &more);
    elf_free(more);
    for (size_t i = 0; i < V8_VALUES_N; i++)
        if (!ret->at[i])
            return false;
    return true;
}
