/* SPDX-License-Identifier: Apache-2.0 */
/* Reads .symtab of the program's file (program_symbols.h). */
#include "sdk/program_symbols.h"

#include <link.h>
#include <string.h>

#include "elf/elf.h"
#include "sdk/modules.h"

enum { NAME_MOST = 255 };

void program_symbols(void (*f)(void *arg, struct str name, uint64_t lo, uint64_t hi), void *arg)
{
    _cleanup_(elf_freep) struct elf_file *file = NULL;
    const struct module_file *program = modules_file(1);
    struct elf_bytes symbols, names;

    if (!program || !program->is_program || modules_open(program, &file) < 0)
        return;
    symbols = elf_section_bytes(file, ".symtab");
    names = elf_section_bytes(file, ".strtab");
    for (size_t i = 0; (i + 1) * sizeof(ElfW(Sym)) <= symbols.n; i++) {
        const ElfW(Sym) *s = (const ElfW(Sym) *) symbols.p + i;
        const char *name = (const char *) names.p + s->st_name;
        uint64_t lo = program->bias + s->st_value;

        if (s->st_name < names.n && ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF)
            f(arg, (struct str){name, (uint32_t) strnlen(name, MIN(names.n - s->st_name, (size_t) NAME_MOST))}, lo,
              lo + s->st_size);
    }
}
