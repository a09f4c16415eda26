/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the thread-local variable with the current span in the mapped files of a process. */
#include "agent/span_find.h"

#include <errno.h>

#include "agent/object_guard.h"
#include "agent/process.h"
#include "base/mem.h"
#include "elf/tls_symbol.h"

struct look {
    struct object *object;
    struct tls_symbol symbol;
};

static int look_into(void *arg)
{
    struct look *l = arg;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int r = object_open_elf(l->object, &f, NULL);

    if (r < 0)
        return r;
    return tls_symbol_find(f, STR("otel_thread_ctx_v1"), &l->symbol);
}

static const struct tls_symbol *symbol_of(struct object *o)
{
    struct look l = {.object = o};

    if (o->span_tried)
        return o->span;
    o->span_tried = true;
    if (o->kind == OBJECT_FILE && object_guard(look_into, &l) == 1)
        o->span = mem_dup(&l.symbol, sizeof l.symbol);
    return o->span;
}

bool span_find(struct process *p)
{
    struct proc_memory memory = proc_memory_of((int) p->pid);
    bool again = false;

    for (uint32_t i = 0; i < p->n_mappings && p->span.kind == AGENT_SPAN_NONE; i++) {
        struct process_mapping *m = &p->mappings[i];
        const struct tls_symbol *s = m->object ? symbol_of(m->object) : NULL;
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
