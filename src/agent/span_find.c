/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the thread-local variable with the current span in the mapped files of a process. */
#include "agent/span_find.h"

#include <errno.h>

#include "agent/process.h"
#include "elf/tls_symbol.h"

bool span_find(struct process *p)
{
    struct proc_memory memory = proc_memory_of((int) p->pid);
    bool again = false;

    for (uint32_t i = 0; i < p->n_mappings && p->span.kind == AGENT_SPAN_NONE; i++) {
        struct process_mapping *m = &p->mappings[i];
        const struct tls_symbol *s = m->object ? m->object->span : NULL;
        struct tls_place place;
        int r;

        if (!s)
            continue;
        r = tls_symbol_place(s, m->object == p->exe, &memory, m->bias, &place);
        if (r == 0)
            p->span = (struct agent_span){.kind = place.is_static ? AGENT_SPAN_STATIC : AGENT_SPAN_DTV,
                                          .module = (uint32_t) place.module,
                                          .offset = place.offset};
        again |= r == -EAGAIN;
    }
    return again && p->span.kind == AGENT_SPAN_NONE;
}
