/* SPDX-License-Identifier: Apache-2.0 */
/* Frees the answers of a symbolizer; the interface is in symbolizer.h. */
#include "model/symbolizer.h"

#include "base/mem.h"

void symbol_answer_free(struct symbol_answer *a)
{
    if (!a)
        return;
    arena_done(&a->arena);
    mem_free(a);
}
