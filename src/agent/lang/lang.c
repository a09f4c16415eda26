/* SPDX-License-Identifier: Apache-2.0 */
/* The list of languages: see lang.h. */
#include "agent/lang/lang.h"

#include "agent/lang/go/lang_go.h"
#include "agent/lang/python/lang_python.h"
#include "unwind/lang/go/go_table.h"

const struct lang *const langs[] = {&lang_python, &lang_go, NULL};

int lang_table_new(const struct elf_file *f, struct unwind_table **ret, struct err *e)
{
    return go_table_new(f, ret, e);
}
