/* SPDX-License-Identifier: Apache-2.0 */
/* What the languages and spans read out of a hostile process's files: Go's rows, offsets and build; Python's symbols;
 * thread-local symbols. And its memory, as Go's labels and goroutines. */
#include <errno.h>

#include "agent/lang/go/go_goroutines.h"
#include "agent/lang/python/python.h"
#include "elf/go_build.h"
#include "elf/tls_symbol.h"
#include "unwind/elf_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t n;
};

static int read_input(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    const struct input *in = m->data;

    if (address > in->n || n > in->n - address)
        return -EFAULT;
    memcpy(p, in->p + address, n);
    return 0;
}

static void labels(const struct proc_memory *m)
{
    for (int slice = 0; slice < 2; slice++) {
        struct go_runtime g = {.g = 0, .curg = 8, .labels = 16, .is_slice = slice};
        struct go_label v[GO_LABELS_MAX];
        struct arena a;

        arena_init(&a, 1 << 20);
        go_labels_read(&g, m, go_current(&g, m, 0, 0), &a, v);
        arena_done(&a);
    }
}

static int on_goroutine(void *arg, const struct goroutine *g)
{
    return 0;
}

static void goroutines(const struct proc_memory *m)
{
    struct go_process p = {.runtime = {.minor = 26, .allgs = 8, .status = 144, .n_tables = 2, .tables = {32, 48}},
                           .memory = *m};
    struct arena a;

    arena_init(&a, 1 << 20);
    go_states_find(&p, &a);
    go_each_goroutine(&p, on_goroutine, NULL, NULL);
    arena_done(&a);
}

static void file(const struct elf_file *f, const struct proc_memory *m)
{
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    struct python_image python;
    struct python_loops loops;
    struct tls_symbol tls;
    struct tls_place place;
    struct go_runtime go;
    struct go_build build;

    elf_table_new(f, NULL, &t, NULL);
    if (t)
        for (uint32_t i = 0; i < MIN(t->n_pages, 16u); i++)
            unwind_find(t, (t->first_page + i) << UNWIND_PAGE_BITS);
    go_build_read(f, &build);
    go_runtime_probe(f, &go);
    python_probe(f, STR("/usr/bin/python3.11"), &python);
    python_loops_find(f, f->entry, &loops);
    if (tls_symbol_find(f, STR("otel_thread_ctx_v1"), &tls))
        tls_symbol_place(&tls, false, m, 0, &place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct proc_memory m = {.read = read_input, .data = &in};
    _cleanup_(elf_freep) struct elf_file *f = NULL;

    labels(&m);
    goroutines(&m);
    if (elf_from_bytes(data, size, false, &f, NULL) == 0)
        file(f, &m);
    return 0;
}
