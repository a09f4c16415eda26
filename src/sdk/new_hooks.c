/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks for operator new and delete and for mallocx() (new_hooks.h). Names are those of the Itanium C++ ABI where
 * size_t is unsigned long. */
#include "sdk/new_hooks.h"

#include <dlfcn.h>

#include "sdk/got.h"
#include "sdk/heap.h"

/* One line per function: identifier, symbol, parameters, arguments, size. */
#define NEWS(X)                                                                                                      \
    X(new, "_Znwm", (size_t n), (n), n)                                                                              \
    X(new_array, "_Znam", (size_t n), (n), n)                                                                        \
    X(new_nothrow, "_ZnwmRKSt9nothrow_t", (size_t n, const void *t), (n, t), n)                                      \
    X(new_array_nothrow, "_ZnamRKSt9nothrow_t", (size_t n, const void *t), (n, t), n)                                \
    X(new_align, "_ZnwmSt11align_val_t", (size_t n, size_t a), (n, a), n)                                            \
    X(new_array_align, "_ZnamSt11align_val_t", (size_t n, size_t a), (n, a), n)                                      \
    X(new_align_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", (size_t n, size_t a, const void *t), (n, a, t), n)    \
    X(new_array_align_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", (size_t n, size_t a, const void *t), (n, a, t), \
      n)                                                                                                             \
    X(mallocx, "mallocx", (size_t n, int flags), (n, flags), n)

#define DELETES(X)                                                                                                \
    X(delete, "_ZdlPv", (void *p), (p))                                                                           \
    X(delete_array, "_ZdaPv", (void *p), (p))                                                                     \
    X(delete_sized, "_ZdlPvm", (void *p, size_t n), (p, n))                                                       \
    X(delete_array_sized, "_ZdaPvm", (void *p, size_t n), (p, n))                                                 \
    X(delete_nothrow, "_ZdlPvRKSt9nothrow_t", (void *p, const void *t), (p, t))                                   \
    X(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", (void *p, const void *t), (p, t))                             \
    X(delete_align, "_ZdlPvSt11align_val_t", (void *p, size_t a), (p, a))                                         \
    X(delete_array_align, "_ZdaPvSt11align_val_t", (void *p, size_t a), (p, a))                                   \
    X(delete_sized_align, "_ZdlPvmSt11align_val_t", (void *p, size_t n, size_t a), (p, n, a))                     \
    X(delete_array_sized_align, "_ZdaPvmSt11align_val_t", (void *p, size_t n, size_t a), (p, n, a))               \
    X(delete_align_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", (void *p, size_t a, const void *t), (p, a, t)) \
    X(delete_array_align_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", (void *p, size_t a, const void *t),      \
      (p, a, t))                                                                                                  \
    X(dallocx, "dallocx", (void *p, int flags), (p, flags))                                                       \
    X(sdallocx, "sdallocx", (void *p, size_t n, int flags), (p, n, flags))

#define DEFINE_NEW(id, symbol, params, args, size) \
    static void *(*real_##id) params;              \
    static void *hook_##id params                  \
    {                                              \
        bool sample = heap_crosses(size);          \
        void *got = real_##id args;                \
                                                   \
        if (unlikely(sample))                      \
            heap_record(got, size);                \
        return got;                                \
    }
#define DEFINE_DELETE(id, symbol, params, args) \
    static void(*real_##id) params;             \
    static void hook_##id params                \
    {                                           \
        if (unlikely(heap_may_be_sampled(p)))   \
            heap_forget(p);                     \
        real_##id args;                         \
    }

NEWS(DEFINE_NEW)
DELETES(DEFINE_DELETE)

static void *(*real_rallocx)(void *p, size_t n, int flags);

static void *hook_rallocx(void *p, size_t n, int flags)
{
    struct heap_live was = {0};
    bool sample;
    void *got;

    if (unlikely(heap_may_be_sampled(p)))
        heap_take(p, &was);
    sample = heap_crosses(n);
    got = real_rallocx(p, n, flags);
    if (unlikely(!got && was.p))
        heap_put_back(&was);
    if (unlikely(sample))
        heap_record(got, n);
    return got;
}

#define ENTRY_NEW(id, symbol, params, args, size) {symbol, hook_##id, (void **) &real_##id},
#define ENTRY_DELETE(id, symbol, params, args) {symbol, hook_##id, (void **) &real_##id},

static const struct entrance {
    const char *symbol;
    void *hook, **real;
} entrances[] = {NEWS(ENTRY_NEW) DELETES(ENTRY_DELETE){"rallocx", hook_rallocx, (void **) &real_rallocx}};

static const void *object_of(void *address)
{
    Dl_info info;

    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

void new_hooks_install(void *allocator)
{
    static struct got_hook hooks[ARRAY_SIZE(entrances)];
    const void *home = object_of(allocator);
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(entrances); i++) {
        void *real = dlsym(RTLD_DEFAULT, entrances[i].symbol);

        if (!real || object_of(real) != home)
            continue;
        *entrances[i].real = real;
        hooks[n++] = (struct got_hook){entrances[i].symbol, entrances[i].hook};
    }
    if (n)
        got_install(hooks, n, home);
}
