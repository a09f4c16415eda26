/* SPDX-License-Identifier: Apache-2.0 */
/* Moves memory to files with mmap() and mremap() (paged.h). */
#include "base/paged.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

size_t paged_length(size_t size)
{
    return ALIGN_UP(size, (size_t) sysconf(_SC_PAGESIZE));
}

void *paged_get(size_t size)
{
    void *p;

    if (size < PAGED_MIN)
        return mem_zalloc(size);
    p = mmap(NULL, paged_length(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void paged_put(void *p, size_t size)
{
    if (size < PAGED_MIN)
        mem_free(p);
    else if (p)
        munmap(p, paged_length(size));
}

int paged_write(int fd, off_t at, const void *p, size_t size)
{
    return fd_pwrite_all(fd, p, paged_length(size), at);
}

int paged_swap(int fd, off_t at, void *p, size_t size)
{
    size_t n = paged_length(size);
    void *q = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, at);
    int r = 0;

    if (q == MAP_FAILED)
        return -errno;
    if (memcmp(p, q, n) != 0)
        r = -EAGAIN;
    madvise(q, n, MADV_DONTNEED); /* what was compared is not needed in memory */
    if (r == 0 && mremap(q, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, p) == MAP_FAILED)
        r = -errno;
    if (r < 0)
        munmap(q, n);
    return r;
}
