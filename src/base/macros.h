/* SPDX-License-Identifier: Apache-2.0 */
/* The few macros that every file may use. Nothing here allocates or can fail. */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>

/* Runs f on the variable's address when it goes out of scope: _cleanup_(buf_done) struct buf b = BUF_INIT; */
#define _cleanup_(f) __attribute__((cleanup(f)))
/* On a large array that is written before it is read, in code that runs often: the compiler does not zero it first
 * (-ftrivial-auto-var-init). */
#define _uninit_ __attribute__((uninitialized))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_ __attribute__((unused))
#define _noreturn_ __attribute__((noreturn))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* These evaluate each argument once. A constant is used as it is, so that its type does not matter in a comparison. */
#define MIN(a, b) PICK_(a, b, <, __COUNTER__)
#define MAX(a, b) PICK_(a, b, >, __COUNTER__)
#define PICK_(a, b, op, n) PICK_AS_(a, b, op, NAME_(pick_a_, n), NAME_(pick_b_, n))
#define PICK_AS_(a, b, op, va, vb)                                                  \
    ({                                                                              \
        __auto_type va = (a);                                                       \
        __auto_type vb = (b);                                                       \
        VALUE_OF_(a, va) op VALUE_OF_(b, vb) ? VALUE_OF_(a, va) : VALUE_OF_(b, vb); \
    })
#define VALUE_OF_(x, v) __builtin_choose_expr(__builtin_constant_p(x), (x), (v))
#define NAME_(name, n) NAME_AS_(name, n)
#define NAME_AS_(name, n) name##n
/* x + 0: also an atomic x has a type without _Atomic then. */
#define ALIGN_UP(x, a)                                          \
    ({                                                          \
        __auto_type align_mask_ = (__typeof__((x) + 0)) (a) -1; \
        ((x) + align_mask_) & ~align_mask_;                     \
    })
#define container_of(p, type, member) ((type *) ((char *) (p) -offsetof(type, member)))

/* Returns a pointer and sets the variable to NULL, so that its cleanup does nothing. */
#define TAKE(p)                            \
    ({                                     \
        __typeof__(p) *taken_at_ = &(p);   \
        __typeof__(p) taken_ = *taken_at_; \
        *taken_at_ = NULL;                 \
        taken_;                            \
    })

/* What tests/locks.py checks by clang's thread-safety analysis: a member that is used with a lock held (the lock is declared
 * before it), a function that is called with it held, one whose object no other thread has yet, or any more,
 * one that holds the lock by another pointer to its owner, and one that returns 0 when it has taken a lock. */
#ifdef WICK_CHECK_LOCKS
#define _guarded_by_(lock) __attribute__((guarded_by(lock)))
#define _locked_(...) __attribute__((requires_capability(__VA_ARGS__)))
#define _unshared_ __attribute__((no_thread_safety_analysis))
#define _aliased_lock_ __attribute__((no_thread_safety_analysis))
#define _tries_lock_(lock) __attribute__((try_acquire_capability(0, lock)))
#else
#define _guarded_by_(lock)
#define _locked_(...)
#define _unshared_
#define _aliased_lock_
#define _tries_lock_(lock)
#endif

/* Defines name##p(), the form of a destructor that _cleanup_ needs. */
#define DEFINE_CLEANUP(type, name)      \
    static inline void name##p(type *p) \
    {                                   \
        if (*p)                         \
            name(*p);                   \
    }

#endif
