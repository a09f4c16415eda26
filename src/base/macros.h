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
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ALIGN_UP(x, a) (((x) + ((a) -1)) & ~((__typeof__(x)) (a) -1))
#define container_of(p, type, member) ((type *) ((char *) (p) -offsetof(type, member)))

/* Returns a pointer and sets the variable to NULL, so that its cleanup does nothing. */
#define TAKE(p)                     \
    ({                              \
        __typeof__(p) taken_ = (p); \
        (p) = NULL;                 \
        taken_;                     \
    })

/* Defines name##p(), the form of a destructor that _cleanup_ needs. */
#define DEFINE_CLEANUP(type, name)      \
    static inline void name##p(type *p) \
    {                                   \
        if (*p)                         \
            name(*p);                   \
    }

#endif
