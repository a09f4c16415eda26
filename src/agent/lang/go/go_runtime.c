/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where the Go runtime keeps goroutines and their pprof labels by reading the machine code of a few functions, and
 * reads the labels. */
#include "agent/lang/go/go_runtime.h"

#include "agent/lang/go/go_code.h"
#include "elf/go_build.h"
#include "elf/pclntab.h"

enum {
    CODE_MAX = 256,
    LONG_CODE_MAX = 4096,
    ADDRESSES_MAX = 64,
    SLICE_SINCE = 24,
    OFFSET_MAX = GO_CODE_OFFSET_MAX,
    BUCKET = 8
};

/* The code of a function, with or without its ".abi0". */
static struct elf_bytes code_of(const struct elf_file *f, const struct pclntab *t, const char *name, size_t max)
{
    struct str want = str_from(name);

    for (uint32_t i = 0; i < t->n_functions; i++) {
        struct pclntab_function fn;
        const void *p;
        size_t n;

        if (!pclntab_function(t, i, &fn) || !str_starts(fn.name, want) ||
            (fn.name.n != want.n && !str_is(str_slice(fn.name, want.n, fn.name.n), ".abi0")))
            continue;
        n = MIN(fn.end - fn.entry, (uint64_t) max);
        p = fn.end > fn.entry ? elf_at_address(f, fn.entry, n) : NULL;
        return (struct elf_bytes){p, p ? n : 0, fn.entry};
    }
    return (struct elf_bytes){0};
}

/* The 32-bit number after the first occurrence of these bytes. */
static bool number_after(struct elf_bytes code, const char *bytes, size_t n, int32_t *ret, size_t *ret_at)
{
    for (size_t at = 0; at + n + 4 <= code.n; at++)
        if (memcmp(code.p + at, bytes, n) == 0) {
            memcpy(ret, code.p + at + n, sizeof *ret);
            if (ret_at)
                *ret_at = at;
            return true;
        }
    return false;
}

/* mov %fs:N,%rax; or mov $N,%rcx; or mov N(%rip),%rcx, where the linker has put the offset. */
static bool find_g(const struct elf_file *f, struct elf_bytes code, int64_t *ret)
{
    const void *slot;
    int32_t v;
    size_t at;

    if (number_after(code, "\x64\x48\x8b\x04\x25", 5, &v, NULL) || number_after(code, "\x48\xc7\xc1", 3, &v, NULL)) {
        *ret = v;
        return v < 0;
    }
    if (!number_after(code, "\x48\x8b\x0d", 3, &v, &at))
        return false;
    slot = elf_at_address(f, code.address + at + 7 + (uint64_t) (int64_t) v, 8);
    if (!slot)
        return false;
    memcpy(ret, slot, sizeof *ret);
    if (!*ret) /* a relocation fills it: the executable's only thread-local variable */
        *ret = -8;
    return *ret < 0 && *ret > -OFFSET_MAX;
}

/* The addresses that instructions `mov` (8b, 89) or `lea` (8d) of 8 bytes refer to, relative to rip; each once. */
static uint32_t addresses_in(struct elf_bytes code, bool lea, uint64_t *ret, uint32_t max)
{
    uint32_t n = 0;

    for (size_t i = 0; i + 7 <= code.n && n < max; i++) {
        const uint8_t *p = code.p + i;
        uint64_t address;
        int32_t off;
        uint32_t k = 0;

        if ((p[0] & 0xfb) != 0x48 || (p[2] & 0xc7) != 0x05 || (lea ? p[1] != 0x8d : p[1] != 0x8b && p[1] != 0x89))
            continue;
        memcpy(&off, p + 3, sizeof off);
        address = code.address + i + 7 + (uint64_t) (int64_t) off;
        while (k < n && ret[k] != address)
            k++;
        if (k == n)
            ret[n++] = address;
    }
    return n;
}

static bool has(const uint64_t *v, uint32_t n, uint64_t address)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] == address)
            return true;
    return false;
}

/* allgadd() reads and writes all three words of the slice allgs, and reads gp.atomicstatus first. */
static void find_goroutines(const struct elf_file *f, const struct pclntab *t, struct go_runtime *ret)
{
    struct elf_bytes add = code_of(f, t, "runtime.allgadd", LONG_CODE_MAX);
    struct elf_bytes header = code_of(f, t, "runtime.goroutineheader", LONG_CODE_MAX);
    uint32_t (*addresses)(struct elf_bytes, bool, uint64_t *, uint32_t) =
        f->machine == EM_AARCH64 ? go_arm64_addresses : addresses_in;
    uint64_t v[ADDRESSES_MAX];
    uint32_t n = addresses(add, false, v, ADDRESSES_MAX);
    int32_t status = 0;

    for (uint32_t i = 0; i < n && !ret->allgs; i++)
        if (has(v, n, v[i] + 8) && has(v, n, v[i] + 16))
            ret->allgs = v[i];
    ret->n_tables = addresses(header, true, ret->tables, GO_TABLES_MAX);
    if (f->machine == EM_AARCH64) {
        ret->status = go_arm64_status(add);
        return;
    }
    /* mov N(%rax),%ecx */
    if (number_after(add, "\x8b\x88", 2, &status, NULL) && status > 0 && status < OFFSET_MAX && status % 8 == 0)
        ret->status = (uint32_t) status;
}

/* systemstack and runtime_setProfLabel. False when systemstack is not recognised. */
static bool find_places(const struct elf_file *f, struct elf_bytes stack, struct elf_bytes label, struct go_runtime *ret)
{
    int32_t curg = 0, labels = 0;

    if (f->machine == EM_AARCH64) {
        ret->curg = go_arm64_curg(stack);
        ret->labels = go_arm64_labels(label);
        return ret->curg != 0;
    }
    /* cmp N(%rbx),%rax */
    if (!number_after(stack, "\x48\x3b\x83", 3, &curg, NULL) || !find_g(f, stack, &ret->g) || curg <= 0 ||
        curg > OFFSET_MAX || curg % 8)
        return false;
    ret->curg = (uint32_t) curg;
    /* mov N(%r14),%rcx or mov %rax,N(%r14) */
    if ((number_after(label, "\x49\x8b\x8e", 3, &labels, NULL) ||
         number_after(label, "\x49\x89\x86", 3, &labels, NULL)) &&
        labels > 0 && labels < OFFSET_MAX && labels % 8 == 0)
        ret->labels = (uint32_t) labels;
    return true;
}

bool go_runtime_probe(const struct elf_file *f, struct go_runtime *ret)
{
    struct elf_bytes stack, label;
    struct go_build build;
    struct pclntab t;

    *ret = (struct go_runtime){0};
    if (!f->is64 || (f->machine != EM_X86_64 && f->machine != EM_AARCH64) || pclntab_open(f, &t, NULL) < 0 || !go_build_read(f, &build))
        return false;
    ret->minor = go_build_minor(build.version);
    stack = code_of(f, &t, "runtime.systemstack", CODE_MAX);
    label = code_of(f, &t, "runtime/pprof.runtime_setProfLabel", CODE_MAX);
    if (!find_places(f, stack, label, ret))
        return false;
    ret->is_slice = ret->minor >= SLICE_SINCE;
    find_goroutines(f, &t, ret);
    return true;
}

static bool read_string(const struct proc_memory *m, const uint64_t v[2], struct arena *a, struct str *ret)
{
    size_t n = MIN(v[1], (uint64_t) GO_LABEL_BYTES);
    char *p = arena_alloc(a, n + 1);

    if (!p || v[1] > 1u << 20 || (n && proc_memory_read(m, v[0], p, n) < 0))
        return false;
    *ret = (struct str){p, (uint32_t) n};
    return str_is_utf8(*ret);
}

static uint32_t add(const struct proc_memory *m, const uint64_t key[2], const uint64_t value[2], struct arena *a,
                    struct go_label *ret, uint32_t n)
{
    if (n == GO_LABELS_MAX || !key[1] || !read_string(m, key, a, &ret[n].key) ||
        !read_string(m, value, a, &ret[n].value))
        return n;
    return n + 1;
}

static uint32_t read_slice(const struct proc_memory *m, uint64_t at, struct arena *a, struct go_label *ret)
{
    uint64_t slice[2], v[4];
    uint32_t n = 0;

    if (proc_memory_read(m, at, slice, sizeof slice) < 0)
        return 0;
    for (uint64_t i = 0; i < slice[1] && i < GO_LABELS_MAX; i++) {
        if (proc_memory_read(m, slice[0] + i * sizeof v, v, sizeof v) < 0)
            break;
        n = add(m, v, v + 2, a, ret, n);
    }
    return n;
}

/* Reads the buckets one after another, ignoring overflow buckets: so many labels are unusual. */
static uint32_t read_map(const struct proc_memory *m, uint64_t at, struct arena *a, struct go_label *ret)
{
    uint8_t head[24], tops[BUCKET];
    uint64_t map, buckets, v[2][BUCKET * 2];
    uint32_t n = 0;

    if (!proc_memory_u64(m, at, &map) || !map || proc_memory_read(m, map, head, sizeof head) < 0 || head[9] > 4)
        return 0;
    memcpy(&buckets, head + 16, sizeof buckets);
    for (uint64_t b = 0; b < 1u << head[9]; b++) {
        uint64_t bucket = buckets + b * (BUCKET + sizeof v + 8);

        if (proc_memory_read(m, bucket, tops, sizeof tops) < 0 || proc_memory_read(m, bucket + BUCKET, v, sizeof v) < 0)
            break;
        for (int i = 0; i < BUCKET; i++)
            if (tops[i] >= 5) /* smaller values mark empty and moved slots */
                n = add(m, &v[0][2 * i], &v[1][2 * i], a, ret, n);
    }
    return n;
}

uint64_t go_current(const struct go_runtime *g, const struct proc_memory *m, uint64_t thread_pointer, uint64_t x28)
{
    uint64_t at = x28;

    if ((g->g && !proc_memory_u64(m, thread_pointer + (uint64_t) g->g, &at)) || !at ||
        !proc_memory_u64(m, at + GO_G_M, &at) || !at || !proc_memory_u64(m, at + g->curg, &at))
        return 0;
    return at;
}

uint32_t go_labels_read(const struct go_runtime *g, const struct proc_memory *m, uint64_t goroutine, struct arena *a,
                        struct go_label ret[GO_LABELS_MAX])
{
    uint64_t at;

    if (!g->labels || !goroutine || !proc_memory_u64(m, goroutine + g->labels, &at) || !at)
        return 0;
    return g->is_slice ? read_slice(m, at, a, ret) : read_map(m, at, a, ret);
}
