/* SPDX-License-Identifier: Apache-2.0 */
/* Finds V8's variables for debuggers, and its interpreter, among the symbols of a binary (v8_image.h). */
#include "agent/lang/v8js/v8_image.h"

#include "elf/elf_symbols.h"

/* A name that ends in '_' stands for all that begin with it. */
static bool is_name(struct str name, const char *wanted)
{
    struct str w = str_from(wanted);

    return w.p[w.n - 1] == '_' ? str_starts(name, w) : str_eq(name, w);
}

static void take_variable(struct v8_image *ret, struct str name, uint64_t address)
{
    static const char *const names[] = {
#define X(name, text, otherwise) text,
        V8_VALUES(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (is_name(name, names[i]))
            ret->at[i] = address;
}

/* The builtins of the interpreter are next to each other; the handlers of bytecodes are the last of all builtins. */
static void take_builtin(struct v8_image *ret, struct str name, const struct elf_symbol *s)
{
    ret->handlers.hi = MAX(ret->handlers.hi, s->address + s->size);
    if (str_is(name, "InterpreterEntryTrampoline"))
        ret->entry.lo = s->address;
    else if (str_is(name, "InterpreterOnStackReplacement"))
        ret->entry.hi = s->address;
    else if (str_is(name, "WideHandler"))
        ret->handlers.lo = s->address;
}

static int on_symbol(void *arg, const struct elf_symbol *s)
{
    if (str_starts(s->name, STR("v8dbg_")))
        take_variable(arg, str_slice(s->name, 6, s->name.n), s->address);
    else if (str_starts(s->name, STR("Builtins_")))
        take_builtin(arg, str_slice(s->name, 9, s->name.n), s);
    else if (str_is(s->name, "_ZN2v88internal7Version6major_E"))
        ((struct v8_image *) arg)->at[V8_MAJOR] = s->address;
    return 0;
}

bool v8_image_find(const struct elf_file *f, struct v8_image *ret)
{
    static const int32_t otherwise[] = {
#define X(name, text, otherwise) otherwise,
        V8_VALUES(X)
#undef X
    };
    struct elf_file *more = NULL;

    *ret = (struct v8_image){0};
    elf_symbols_each(f, false, &(struct elf_visitor){.visit = on_symbol, .arg = ret}, &more);
    elf_free(more);
    for (size_t i = 0; i < V8_VALUES_N; i++)
        if (!ret->at[i] && otherwise[i] == V8_REQUIRED)
            return false;
    if (ret->entry.lo >= ret->entry.hi || ret->handlers.lo >= ret->handlers.hi || !ret->handlers.lo)
        ret->entry = ret->handlers = (struct v8_range){0};
    return true;
}
