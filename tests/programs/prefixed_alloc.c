/* SPDX-License-Identifier: Apache-2.0 */
/* As a Rust program with the crate of jemalloc, or of mimalloc (-DMIMALLOC): an allocator of its own, called directly and by
 * pointers. Holds 40 MB at the end, 20 MB of them by a pointer, after 80 MB in passing. -DTOUCHED: it writes to all that it maps. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifdef MIMALLOC
#define ALLOCATE mi_malloc
#define RELEASE mi_free
#else
#define ALLOCATE _rjem_malloc
#define RELEASE _rjem_free
#endif

enum { BLOCK = 100000, KEPT = 4096 };

static char *next, *end;
static void *released[KEPT];
static int n_released;

__attribute__((noipa)) void *ALLOCATE(size_t n)
{
    if (n_released)
        return released[--n_released];
    if (!next || end - next < (ptrdiff_t) n) {
        next = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = next + (16 << 20);
#ifdef TOUCHED
        memset(next, 1, 16 << 20);
#endif
    }
    next += n;
    return next - n;
}

__attribute__((noipa)) void RELEASE(void *p)
{
    if (p && n_released < KEPT)
        released[n_released++] = p;
}

void *(*volatile by_pointer)(size_t) = ALLOCATE;
void (*volatile release_by_pointer)(void *) = RELEASE;

__attribute__((noipa)) static void direct(void)
{
    for (int i = 0; i < 200; i++)
        *(volatile char *) ALLOCATE(BLOCK) = 1;
}

__attribute__((noipa)) static void pointed(void)
{
    for (int i = 0; i < 200; i++)
        *(volatile char *) by_pointer(BLOCK) = 1;
}

__attribute__((noipa)) static void passing(void)
{
    for (int i = 0; i < 400; i++) {
        RELEASE(ALLOCATE(BLOCK));
        release_by_pointer(by_pointer(BLOCK));
    }
}

int main(void)
{
    passing();
    direct();
    pointed();
    return 0;
}
