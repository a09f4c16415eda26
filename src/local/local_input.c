/* SPDX-License-Identifier: Apache-2.0 */
/* Adds names to a decoded perf.data (local_input.h). */
#include "local/local_input.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/kernel_names.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "local/local_objects.h"
#include "local/local_unwind.h"
#include "model/batch_names.h"
#include "model/identity.h"
#include "symbol/dwarf_symbolizer.h"

struct namer {
    struct batch_resolver resolver;
    struct local_objects *objects;
    struct symbolizer *symbolizer;
    struct kernel_names *kernel;
    bool kernel_tried;
};

/* An answer with one name for each address that the kernel's list has. */
static int name_kernel(struct namer *m, const uint64_t *addresses, uint32_t n, struct symbol_answer **ret)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = mem_zalloc(sizeof *a);
    uint32_t found = 0;

    if (!a)
        return -ENOMEM;
    arena_init(&a->arena, 0);
    a->n_addresses = n;
    a->first = arena_zalloc_array(&a->arena, (size_t) n + 1, sizeof *a->first);
    a->frames = arena_zalloc_array(&a->arena, (size_t) n + 1, sizeof *a->frames);
    if (!a->first || !a->frames)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        struct kernel_name name;

        a->first[i] = found;
        if (!kernel_names_find(m->kernel, addresses[i], &name))
            continue;
        a->frames[found].function = a->frames[found].system_name = arena_str(&a->arena, name.name);
        if (!a->frames[found++].function.p)
            return -ENOMEM;
    }
    a->first[n] = found;
    *ret = TAKE(a);
    return 0;
}

/* The list of kernel functions is that of the running kernel, which each boot puts elsewhere. */
static bool is_running_kernel(struct namer *m, struct str build_id, uint64_t start)
{
    struct kernel_name first;

    if (!build_id.n || !str_is(build_id, kernel_build_id()))
        return false;
    if (!m->kernel_tried)
        kernel_names_new(&m->kernel, NULL);
    m->kernel_tried = true;
    return m->kernel && kernel_names_find(m->kernel, start, &first) && first.start == start;
}

static int resolve(struct batch_resolver *r, const struct batch *b, uint32_t mapping, uint64_t *addresses, uint32_t n,
                   struct symbol_answer **ret)
{
    struct namer *m = container_of(r, struct namer, resolver);
    const struct mapping *map = &b->dict.mappings[mapping];
    struct str file = batch_string(b, map->filename), build_id = identity_build_id(b, mapping);
    struct local_object *x;
    struct symbol_request q = {.addresses = addresses, .n_addresses = n, .lines = true};

    if (str_is(file, "[kernel.kallsyms]"))
        return is_running_kernel(m, build_id, map->start) ? name_kernel(m, addresses, n, ret) : 0;
    x = local_object_find(m->objects, file, build_id);
    if (!x || !*x->path)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!local_object_address(x, addresses[i] - map->start + map->offset, &addresses[i]))
            addresses[i] = 0;
    q.path = str_from(x->path);
    return symbolizer_resolve(m->symbolizer, &q, ret, NULL) == -ENOMEM ? -ENOMEM : 0;
}

static int add_names(struct batch **b, struct local_objects *objects)
{
    _cleanup_(symbolizer_freep) struct symbolizer *s = dwarf_symbolizer_new();
    struct namer m = {.resolver = {resolve}, .objects = objects, .symbolizer = s};
    struct batch *named = NULL;
    int r = s ? batch_add_names(*b, &m.resolver, &named) : -ENOMEM;

    kernel_names_free(m.kernel);
    if (r < 0)
        return r;
    batch_unref(*b);
    *b = named;
    return 0;
}

static int64_t written_ns(const char *path)
{
    struct stat st;

    return path && stat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : 0;
}

int local_input_decode(struct buf *in, const char *path, enum input_format as, struct batch **ret,
                       enum input_format *ret_format, struct err *e)
{
    _cleanup_(local_objects_freep) struct local_objects *objects = local_objects_new();
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf note = BUF_INIT;
    struct input_limits limits = input_local;
    enum input_format format = INPUT_AUTO;
    struct local_unwind unwind;
    int r;

    if (!objects)
        return -ENOMEM;
    local_unwind_init(&unwind, objects, written_ns(path));
    limits.unwinder = &unwind.unwinder;
    r = input_decode(in, as, &limits, &b, &format, e);
    if (r == 0 && format == INPUT_PERF_DATA) {
        local_unwind_say(&unwind, &note);
        if (note.n)
            fprintf(stderr, "perf.data: %.*s\n", STR_FMT(buf_str(&note)));
        r = add_names(&b, objects);
    }
    if (r < 0)
        return r;
    if (ret_format)
        *ret_format = format;
    *ret = TAKE(b);
    return 0;
}

int local_input_open(const char *path, enum input_format as, struct batch **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct err why = {0};
    int r = fd_read_file(path, input_local.inflated, &in, e);

    if (r < 0)
        return r;
    r = local_input_decode(&in, path, as, ret, NULL, &why);
    return r < 0 ? err_set(e, r, "%s: %s", strcmp(path, "-") == 0 ? "standard input" : path, err_message(&why, r)) : 0;
}
