/* SPDX-License-Identifier: Apache-2.0 */
/* Reads everything that can be read of the input as an ELF file. */
#include "elf/elf.h"
#include "elf/elf_id.h"
#include "elf/elf_load.h"
#include "elf/elf_symbols.h"
#include "symbol/symbol_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    _cleanup_(buf_done) struct buf code = BUF_INIT;
    struct elf_symbols s;
    char id[ELF_ID_MAX];
    uint64_t v;

    if (elf_from_bytes(data, size, false, &f, NULL) < 0)
        return 0;
    elf_gnu_build_id(f, id);
    elf_go_build_id(f, id);
    elf_htlhash(f, id);
    elf_section_bytes(f, ".text");
    elf_load_bias(f->segments, f->n_segments, 0x10000, 0x20000, 100, &v);
    elf_at_address(f, f->entry, 16);
    for (int functions = 0; functions < 2; functions++)
        if (elf_symbols_load(f, functions, &s) == 0) {
            elf_symbols_find(&s, f->entry);
            elf_symbols_done(&s);
        }
    symbol_code_find(f, &(struct symbol_code_request){.address = f->entry, .end = f->entry + size}, &code, NULL);
    return 0;
}
