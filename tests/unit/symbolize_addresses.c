/* SPDX-License-Identifier: Apache-2.0 */
/* symbolize_addresses FILE: reads hexadecimal addresses, one a line; writes for each its frames as
 * "address|name|file|line|column|start line", innermost first: for comparison with llvm-symbolizer and others. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "symbol/dwarf_symbolizer.h"

static void print_frames(uint64_t address, const struct symbol_answer *a, uint32_t i)
{
    for (uint32_t k = a->first[i]; k < a->first[i + 1]; k++) {
        const struct symbol_frame *f = &a->frames[k];

        printf("%" PRIx64 "|%.*s|%.*s|%" PRId64 "|%" PRId64 "|%" PRId64 "\n", address, STR_FMT(f->system_name),
               STR_FMT(f->file), f->line, f->column, f->start_line);
    }
}

int main(int argc, char **argv)
{
    _cleanup_(symbolizer_freep) struct symbolizer *s = dwarf_symbolizer_new();
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    _cleanup_(mem_freep) uint64_t *v = NULL;
    struct symbol_request q = {.lines = true};
    struct err e = {0};
    struct str rest;

    if (argc != 2 || fd_read_all(0, 1u << 30, &in) < 0)
        return 2;
    v = mem_alloc((in.n + 1) * sizeof(*v));
    for (rest = buf_str(&in); rest.n;)
        v[q.n_addresses++] = strtoull(str_cut(&rest, '\n').p, NULL, 16);
    q.path = str_from(argv[1]);
    q.addresses = v;
    if (symbolizer_resolve(s, &q, &a, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    for (uint32_t i = 0; i < q.n_addresses; i++)
        print_frames(v[i], a, i);
    return 0;
}
