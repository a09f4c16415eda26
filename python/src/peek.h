/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of the interpreter's memory that cannot fault.
 *
 * On the sampled thread itself (in its signal handler, or in a hook) memory is read directly, after the kernel was asked
 * whether the page is mapped; the answer is kept for up to a second. What is read there is alive in all likelihood,
 * because the thread is using it: the check is for the few instructions between which the interpreter links a frame that
 * is not complete.
 *
 * Of another thread, everything is copied by the kernel, because its memory may disappear at any moment.
 */
#ifndef PYTHON_PEEK_H
#define PYTHON_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peek {
    bool other; /* another thread's memory: always through the kernel */
    uint32_t second;
};

/* Before the walk of another thread: what was copied of the one before is no longer valid. wick's own thread only. */
void peek_forget(void);
void peek_init(struct peek *p, bool other);
/* Copies n bytes; false if they cannot be read. Async-signal-safe. */
bool peek_copy(struct peek *p, uint64_t from, void *to, size_t n);

static inline bool peek_u64(struct peek *p, uint64_t from, uint64_t *ret)
{
    return peek_copy(p, from, ret, sizeof *ret);
}

#endif
