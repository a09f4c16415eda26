/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks for allocators inside the program (static_alloc.h). */
#include "sdk/static_alloc.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "sdk/heap.h"
#include "sdk/modules.h"
#include "sdk/program_symbols.h"

/* One line per function: identifier, name without prefix, parameters, arguments, size. */
#define ALLOCATIONS(X)                                                                                          \
    X(je_malloc, JE, "malloc", (size_t n), (n), n)                                                              \
    X(je_calloc, JE, "calloc", (size_t n, size_t size), (n, size), n *size)                                     \
    X(je_aligned_alloc, JE, "aligned_alloc", (size_t a, size_t n), (a, n), n)                                   \
    X(je_memalign, JE, "memalign", (size_t a, size_t n), (a, n), n)                                             \
    X(je_mallocx, JE, "mallocx", (size_t n, int flags), (n, flags), n)                                          \
    X(mi_malloc, MI, "malloc", (size_t n), (n), n)                                                              \
    X(mi_zalloc, MI, "zalloc", (size_t n), (n), n)                                                              \
    X(mi_malloc_small, MI, "malloc_small", (size_t n), (n), n)                                                  \
    X(mi_zalloc_small, MI, "zalloc_small", (size_t n), (n), n)                                                  \
    X(mi_calloc, MI, "calloc", (size_t n, size_t size), (n, size), n *size)                                     \
    X(mi_malloc_aligned, MI, "malloc_aligned", (size_t n, size_t a), (n, a), n)                                 \
    X(mi_zalloc_aligned, MI, "zalloc_aligned", (size_t n, size_t a), (n, a), n)                                 \
    X(mi_aligned_alloc, MI, "aligned_alloc", (size_t a, size_t n), (a, n), n)                                   \
    X(mi_new, MI, "new", (size_t n), (n), n)
#define REALLOCATIONS(X)                                                                                        \
    X(je_realloc, JE, "realloc", (void *p, size_t n), (p, n), n)                                                \
    X(je_rallocx, JE, "rallocx", (void *p, size_t n, int flags), (p, n, flags), n)                              \
    X(mi_realloc, MI, "realloc", (void *p, size_t n), (p, n), n)                                                \
    X(mi_rezalloc, MI, "rezalloc", (void *p, size_t n), (p, n), n)                                              \
    X(mi_realloc_aligned, MI, "realloc_aligned", (void *p, size_t n, size_t a), (p, n, a), n)
#define FREES(X)                                                                                                \
    X(je_free, JE, "free", (void *p), (p), 0)                                                                   \
    X(je_dallocx, JE, "dallocx", (void *p, int flags), (p, flags), 0)                                           \
    X(je_sdallocx, JE, "sdallocx", (void *p, size_t n, int flags), (p, n, flags), 0)                            \
    X(mi_free, MI, "free", (void *p), (p), 0)                                                                   \
    X(mi_free_size, MI, "free_size", (void *p, size_t n), (p, n), 0)                                            \
    X(mi_free_aligned, MI, "free_aligned", (void *p, size_t a), (p, a), 0)                                      \
    X(mi_free_size_aligned, MI, "free_size_aligned", (void *p, size_t n, size_t a), (p, n, a), 0)

#define DEFINE_ALLOCATION(id, family, name, params, args, size) \
    static void *(*real_##id) params;                           \
    static void *hook_##id params                               \
    {                                                           \
        bool sample = heap_crosses(size);                       \
        void *got = real_##id args;                             \
                                                                \
        if (unlikely(sample))                                   \
            heap_record(got, size);                             \
        return got;                                             \
    }
#define DEFINE_REALLOCATION(id, family, name, params, args, size) \
    static void *(*real_##id) params;                             \
    static void *hook_##id params                                 \
    {                                                             \
        struct heap_live was = {0};                               \
        bool sample;                                              \
        void *got;                                                \
                                                                  \
        if (p && unlikely(heap_may_be_sampled(p)))                \
            heap_take(p, &was);                                   \
        sample = heap_crosses(size);                              \
        got = real_##id args;                                     \
        if (unlikely(!got && n && was.p))                         \
            heap_put_back(&was);                                  \
        if (unlikely(sample))                                     \
            heap_record(got, size);                               \
        return got;                                               \
    }
#define DEFINE_FREE(id, family, name, params, args, size) \
    static void(*real_##id) params;                       \
    static void hook_##id params                          \
    {                                                     \
        if (unlikely(heap_may_be_sampled(p)))             \
            heap_forget(p);                               \
        real_##id args;                                   \
    }

ALLOCATIONS(DEFINE_ALLOCATION)
REALLOCATIONS(DEFINE_REALLOCATION)
FREES(DEFINE_FREE)

enum { JE, MI };
static const struct {
    const char *prefix, *name;
    int family;
} prefixes[] = {{"_rjem_", "jemalloc", JE}, {"je_", "jemalloc", JE}, {"mi_", "mimalloc", MI}};

static struct function {
    int family;
    const char *name;
    void *hook, **real;
    uint64_t address; /* 0: the program does not have it */
    uint64_t thunk;
} functions[] = {
#define ENTRY(id, family, name, params, args, size) {family, name, (void *) hook_##id, (void **) &real_##id, 0, 0},
    ALLOCATIONS(ENTRY) REALLOCATIONS(ENTRY) FREES(ENTRY)};

enum { THUNK_SIZE = 16, RANGES_MAX = 1 << 16 };

struct own_range {
    uint64_t lo, hi;
};

struct static_work {
    uint64_t bias;
    struct own_range *own; /* the allocator's own functions, whose calls of each other stay as they are */
    size_t n_own, cap_own;
    uint64_t lo, hi; /* of the functions that are hooked */
    uint32_t found, changed;
    const char *name;
    const struct dl_phdr_info *program;
};

/* --- finding them --- */
static void add_own(struct static_work *w, uint64_t lo, uint64_t hi)
{
    if (array_reserve(w->own, w->cap_own, w->n_own + 1, RANGES_MAX) == 0)
        w->own[w->n_own++] = (struct own_range){lo, hi};
}

static void take_symbol(void *arg, struct str name, uint64_t lo, uint64_t hi)
{
    struct static_work *w = arg;

    if (!name.n || !strchr("_jm", name.p[0]))
        return;
    if (str_starts(name, STR("_mi_")))
        add_own(w, lo, hi);
    for (size_t k = 0; k < ARRAY_SIZE(prefixes); k++) {
        struct str prefix = str_from(prefixes[k].prefix), rest;

        if (!str_starts(name, prefix))
            continue;
        add_own(w, lo, hi);
        rest = str_slice(name, prefix.n, name.n);
        for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
            struct function *f = &functions[i];

            if (f->family != prefixes[k].family || f->address || !str_is(rest, f->name))
                continue;
            f->address = lo;
            w->lo = w->found ? MIN(w->lo, f->address) : f->address;
            w->hi = w->found ? MAX(w->hi, f->address) : f->address;
            w->found++;
            w->name = prefixes[k].name;
        }
    }
}

#if defined(__x86_64__)
/* --- changing the calls --- */
static struct function *function_at(const struct static_work *w, uint64_t address)
{
    if (address < w->lo || address > w->hi)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
        if (functions[i].address == address)
            return &functions[i];
    return NULL;
}

static bool is_own(const struct static_work *w, uint64_t address)
{
    for (size_t i = 0; i < w->n_own; i++)
        if (address >= w->own[i].lo && address < w->own[i].hi)
            return true;
    return false;
}

/* Room for the thunks in reach of a 32-bit distance: below the program, where nothing is in most cases. */
static uint8_t *map_near(uint64_t lo)
{
    size_t size = ALIGN_UP(ARRAY_SIZE(functions) * THUNK_SIZE, 4096ul);

    for (uint64_t at = (lo & ~0xfffull) - size, k = 0; k < 4096 && at > 65536; k++, at -= 16 * 4096) {
        void *p = mmap((void *) at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        if (p == (void *) at)
            return p;
        if (p != MAP_FAILED) /* a kernel that does not know the flag */
            munmap(p, size);
    }
    return NULL;
}

/* jmp *0(%rip), and the hook's address */
static bool make_thunks(uint64_t lo)
{
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};
    uint8_t *p = map_near(lo);

    if (!p)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        uint8_t *thunk = p + i * THUNK_SIZE;

        memcpy(thunk, jump, sizeof jump);
        memcpy(thunk + sizeof jump, &functions[i].hook, sizeof functions[i].hook);
        functions[i].thunk = (uint64_t) (uintptr_t) thunk;
    }
    return mprotect(p, ALIGN_UP(ARRAY_SIZE(functions) * THUNK_SIZE, 4096ul), PROT_READ | PROT_EXEC) == 0;
}

/* The last four bytes of an instruction: a call, a jump, or one that takes the address. */
static bool is_reference(const uint8_t *text, size_t i)
{
    if (text[i - 1] == 0xe8 || text[i - 1] == 0xe9)
        return true;
    if (text[i - 2] == 0x0f && (text[i - 1] & 0xf0) == 0x80)
        return true;
    return (text[i - 3] & 0xf8) == 0x48 && text[i - 2] == 0x8d && (text[i - 1] & 0xc7) == 0x05;
}

static bool write_over(uint64_t at, const void *p, size_t n, int protection)
{
    uint64_t page = at & ~0xfffull, size = ALIGN_UP(at + n, 4096ul) - page;

    if (mprotect((void *) page, size, protection | PROT_READ | PROT_WRITE) < 0)
        return false;
    memcpy((void *) at, p, n);
    return protection & PROT_WRITE || mprotect((void *) page, size, protection) == 0;
}

static void change_code(struct static_work *w, uint64_t lo, uint64_t hi)
{
    const uint8_t *text = (const uint8_t *) lo;

    for (size_t i = 3; i + 4 <= hi - lo; i++) {
        struct function *f;
        int64_t distance;
        int32_t d;

        memcpy(&d, text + i, sizeof d);
        f = function_at(w, lo + i + 4 + (uint64_t) (int64_t) d);
        if (likely(!f) || !is_reference(text, i) || is_own(w, lo + i))
            continue;
        distance = (int64_t) (f->thunk - (lo + i + 4));
        d = (int32_t) distance;
        if (d == distance && write_over(lo + i, &d, sizeof d, PROT_READ | PROT_EXEC))
            w->changed++;
    }
}

/* Addresses in tables: of functions that are called by way of the offset table, or of a vtable. */
static void change_data(struct static_work *w, const ElfW(Phdr) * segment)
{
    uint64_t lo = w->bias + segment->p_vaddr, relro_lo = 0, relro_hi = 0;

    for (int i = 0; i < w->program->dlpi_phnum; i++)
        if (w->program->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            relro_lo = (w->bias + w->program->dlpi_phdr[i].p_vaddr) & ~0xfffull;
            relro_hi = w->bias + w->program->dlpi_phdr[i].p_vaddr + w->program->dlpi_phdr[i].p_memsz;
        }
    for (uint64_t at = ALIGN_UP(lo, 8ul); at + 8 <= lo + segment->p_filesz; at += 8) {
        struct function *f = function_at(w, *(const uint64_t *) at);

        if (f && write_over(at, &f->thunk, 8, PROT_READ | (at >= relro_lo && at < relro_hi ? 0 : PROT_WRITE)))
            w->changed++;
    }
}

static int change_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct static_work *w = arg;

    w->program = info;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *s = &info->dlpi_phdr[i];

        if (s->p_type == PT_LOAD && s->p_flags & PF_X)
            change_code(w, w->bias + s->p_vaddr, w->bias + s->p_vaddr + s->p_filesz);
        else if (s->p_type == PT_LOAD && s->p_flags & PF_W)
            change_data(w, s);
    }
    return 1; /* the program is the first object */
}

static void change_calls(struct static_work *w)
{
    if (!make_thunks(modules_file(1)->lo))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
        *functions[i].real = (void *) functions[i].address;
    dl_iterate_phdr(change_program, w);
}
#else
static void change_calls(struct static_work *w)
{
}
#endif

const char *static_alloc_install(void)
{
    static bool done;
    struct static_work w = {0};

    if (done)
        return NULL;
    done = true;
    w.bias = modules_files() > 1 ? modules_file(1)->bias : 0;
    program_symbols(take_symbol, &w);
    if (w.found)
        change_calls(&w);
    mem_free(w.own);
    return w.found && !w.changed ? w.name : NULL;
}
