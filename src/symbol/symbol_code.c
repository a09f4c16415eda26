/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the bytes of a function in a binary (symbol_code.h). */
#include "symbol/symbol_code.h"

#include <errno.h>

#include "elf/elf.h"
#include "elf/elf_id.h"
#include "elf/elf_symbols.h"

static bool has_id(const struct elf_file *f, struct str id)
{
    char own[ELF_ID_MAX];

    if (!id.n || (elf_gnu_build_id(f, own) && str_is(id, own)) || (elf_go_build_id(f, own) && str_is(id, own)))
        return true;
    elf_htlhash(f, own);
    return str_is(id, own);
}

int symbol_code_find(const struct elf_file *f, const struct symbol_code_request *q, struct buf *out, struct err *e)
{
    _cleanup_(elf_symbols_done) struct elf_symbols symbols = {0};
    const struct elf_symbol *s;
    uint64_t from = q->address, n = q->end > q->address ? q->end - q->address : 0, end;
    struct str name = {0};
    const void *bytes = NULL;
    int r;

    if (!has_id(f, q->build_id))
        return err_set(e, -ESTALE, "the file has another build ID");
    r = elf_symbols_load(f, true, &symbols);
    if (r < 0)
        return r;
    s = elf_symbols_find(&symbols, q->address);
    if (s && s->size) {
        from = s->address;
        n = s->size;
        name = str_slice(s->name, 0, MIN(s->name.n, SYMBOL_CODE_NAME_MAX));
    }
    n = MIN(n, (uint64_t) SYMBOL_CODE_MAX);
    if (n && from <= UINT64_MAX - n)
        bytes = elf_at_address(f, from, (size_t) n);
    if (!bytes)
        return err_set(e, -ENOENT, "the file has no code at 0x%llx", (unsigned long long) q->address);
    end = from + n;
    buf_printf(out, "%u %llx %llx ", f->machine, (unsigned long long) from, (unsigned long long) end);
    buf_put_str(out, name);
    buf_putc(out, '\n');
    buf_put(out, bytes, (size_t) n);
    return buf_error(out);
}

int symbol_code(int fd, const struct symbol_code_request *q, struct buf *out, struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int r = elf_open_fd(fd, &f, e);

    return r < 0 ? r : symbol_code_find(f, q, out, e);
}
