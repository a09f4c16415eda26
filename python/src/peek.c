/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that cannot fault (peek.h). The cache of checked pages has one 64-bit word per slot, page number and second
 * together, so that threads and handlers share it without a lock. */
#include "peek.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "sdk/sys.h"
#include "unwind/walk.h"

enum { SLOTS = 2048, SECOND_BITS = 12, COPIES = 64 };

static _Atomic uint64_t pages[SLOTS];

/* Copies of pages for the walk of another thread; wick's own thread only. A system call for each word would be most of
 * the cost of looking at waiting threads. */
static struct {
    uint64_t page[COPIES]; /* number; 0 = none */
    _Alignas(8) char data[COPIES][WALK_PAGE];
} copies;

void peek_init(struct peek *p, bool other)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    p->other = other;
    p->second = (uint32_t) t.tv_sec & ((1u << SECOND_BITS) - 1);
}

static bool page_is_mapped(struct peek *p, uint64_t addr)
{
    uint64_t page = addr / WALK_PAGE, word = page << SECOND_BITS | p->second;
    _Atomic uint64_t *slot = &pages[(page ^ page >> 11) % SLOTS];

    if (atomic_load_explicit(slot, memory_order_relaxed) == word)
        return true;
    if (addr < WALK_PAGE || addr >> 47 || !walk_probe(addr))
        return false;
    atomic_store_explicit(slot, word, memory_order_relaxed);
    return true;
}

/* Not checked by the address sanitizer: what is read was checked above, and may be any object. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static void copy(char *to, const volatile char *from,
                                                                                size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n && !(((uintptr_t) from + i) & 7); i += 8) {
        uint64_t v = *(const volatile uint64_t *) (from + i);

        memcpy(to + i, &v, 8);
    }
    for (; i < n; i++)
        to[i] = from[i];
}

static bool copy_by_kernel(uint64_t from, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *) (uintptr_t) from, n};
    long r, pid = sys_call(SYS_getpid, 0, 0, 0, 0); /* before the registers are set */

#if defined(__x86_64__)
    register long r10 __asm__("r10") = (long) &remote;
    register long r8 __asm__("r8") = 1;
    register long r9 __asm__("r9") = 0;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "0"(SYS_process_vm_readv), "D"(pid), "S"(&local), "d"(1l), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#else
    r = process_vm_readv((pid_t) pid, &local, 1, &remote, 1, 0);
#endif
    return r == (long) n;
}

void peek_forget(void)
{
    memset(copies.page, 0, sizeof copies.page);
}

static bool copy_of_other(uint64_t from, char *to, size_t n)
{
    while (n) {
        uint64_t page = from / WALK_PAGE, at = from % WALK_PAGE;
        size_t part = n < WALK_PAGE - at ? n : WALK_PAGE - at, slot = (page ^ page >> 6) % COPIES;

        if (copies.page[slot] != page) {
            copies.page[slot] = 0;
            if (!copy_by_kernel(page * WALK_PAGE, copies.data[slot], WALK_PAGE))
                return false;
            copies.page[slot] = page;
        }
        memcpy(to, copies.data[slot] + at, part);
        from += part;
        to += part;
        n -= part;
    }
    return true;
}

bool peek_copy(struct peek *p, uint64_t from, void *to, size_t n)
{
    if (from >> 47 || !from)
        return false;
    if (p->other)
        return copy_of_other(from, to, n);
    for (uint64_t at = from & ~(uint64_t) (WALK_PAGE - 1); at < from + n; at += WALK_PAGE)
        if (!page_is_mapped(p, at))
            return false;
    copy(to, (const volatile char *) (uintptr_t) from, n);
    return true;
}
