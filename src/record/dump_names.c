/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the symbolizer for the lines and inlined calls of the frames of a dump (dump_names.h). */
#include "record/dump_names.h"

#include <stdlib.h>

#include "agent/dump/dump.h"
#include "agent/object.h"
#include "base/mem.h"
#include "model/symbolizer.h"
#include "symbol/symbol_process.h"

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static uint32_t collect_stack(const struct dump_stack *t, uint32_t module, uint64_t *out, uint32_t n)
{
    for (uint32_t k = 0; k < t->n_frames; k++) {
        if (t->frames[k].module != (int32_t) module)
            continue;
        if (out)
            out[n] = t->frames[k].elf;
        n++;
    }
    return n;
}

static uint32_t collect(const struct dump *s, uint32_t module, uint64_t *out)
{
    uint32_t n = 0, kept = 0;

    for (uint32_t i = 0; i < s->n_threads; i++)
        n = collect_stack(&s->threads[i].stack, module, out, n);
    for (uint32_t i = 0; i < s->n_tasks; i++)
        n = collect_stack(&s->tasks[i].stack, module, out, n);
    if (!out || !n)
        return n;
    qsort(out, n, sizeof *out, compare_u64);
    for (uint32_t i = 0; i < n; i++)
        if (!i || out[i] != out[i - 1])
            out[kept++] = out[i];
    return kept;
}

static void ask_module(const struct dump *s, uint32_t module, struct symbolizer *y, struct dump_names *a)
{
    const struct object *o = s->modules[module].object;
    struct symbol_request q = {.build_id = str_from(o->gnu_id), .lines = true};
    uint32_t n = collect(s, module, NULL);
    int fd = o->fd;
    char path[4200];

    if (!n || o->kind != OBJECT_FILE)
        return;
    object_reach(o, path, sizeof path);
    q.path = str_from(path);
    if (fd >= 0)
        q.fd = &fd; /* the confined symbolizer may not reach the file */
    a->addresses[module] = mem_zalloc_array(n, sizeof(uint64_t));
    if (!a->addresses[module])
        return;
    a->n[module] = q.n_addresses = collect(s, module, a->addresses[module]);
    q.addresses = a->addresses[module];
    symbolizer_resolve(y, &q, &a->v[module], NULL);
}

void dump_names_ask(const struct dump *s, struct dump_names *a)
{
    _cleanup_(symbolizer_freep) struct symbolizer *y = NULL;
    const char *const argv[] = {"/proc/self/exe", "symbolize", NULL};

    a->n_modules = s->n_modules;
    a->v = mem_zalloc_array(s->n_modules + 1u, sizeof *a->v);
    a->addresses = mem_zalloc_array(s->n_modules + 1u, sizeof *a->addresses);
    a->n = mem_zalloc_array(s->n_modules + 1u, sizeof *a->n);
    y = symbol_process_new(argv, 0);
    for (uint32_t i = 0; y && a->v && a->addresses && a->n && i < s->n_modules; i++)
        ask_module(s, i, y, a);
}

void dump_names_done(struct dump_names *a)
{
    for (uint32_t i = 0; i < a->n_modules; i++) {
        if (a->v)
            symbol_answer_free(a->v[i]);
        if (a->addresses)
            mem_free(a->addresses[i]);
    }
    mem_free(a->v);
    mem_free(a->addresses);
    mem_free(a->n);
}

uint32_t dump_names_find(const struct dump_names *a, const struct dump_frame *f, const struct symbol_frame **ret)
{
    const uint64_t *at;
    uint32_t i;

    if (f->module < 0 || !a->v || (uint32_t) f->module >= a->n_modules || !a->v[f->module])
        return 0;
    at = bsearch(&f->elf, a->addresses[f->module], a->n[f->module], sizeof *at, compare_u64);
    if (!at)
        return 0;
    i = (uint32_t) (at - a->addresses[f->module]);
    if (a->v[f->module]->quality != SYMBOLS_LINES && f->n_lines && f->lines[0].file.n) /* Go's table has more */
        return 0;
    *ret = a->v[f->module]->frames + a->v[f->module]->first[i];
    return a->v[f->module]->first[i + 1] - a->v[f->module]->first[i];
}
