/* SPDX-License-Identifier: Apache-2.0 */
/* Finds HotSpot's variables for debuggers among the symbols of a binary (hotspot.h). */
#include "agent/lang/hotspot/hotspot.h"
#include "elf/elf_symbols.h"

static int on_symbol(void *arg, const struct elf_symbol *s)
{
    static const char *const names[] = {
#define X(name, text) text,
        HOTSPOT_SYMBOLS(X)
#undef X
    };
    struct hotspot_image *ret = arg;

    if (!str_starts(s->name, STR("gHotSpotVM")))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(elf_symbol_plain(s->name), names[i]))
            ret->at[i] = s->address;
    return 0;
}

bool hotspot_image_find(const struct elf_file *f, struct hotspot_image *ret)
{
    struct elf_file *more = NULL;

    *ret = (struct hotspot_image){0};
    elf_symbols_each(f, false, &(struct elf_visitor){.visit = on_symbol, .arg = ret}, &more);
    elf_free(more);
    for (size_t i = 0; i < HOTSPOT_SYMBOLS_N; i++)
        if (!ret->at[i])
            return false;
    return true;
}
