/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process with process_vm_readv(). */
#include "proc/proc_memory.h"

#include <errno.h>
#include <sys/uio.h>

static int read_process(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    struct iovec here = {p, n}, there = {(void *) (uintptr_t) address, n};
    ssize_t got = process_vm_readv(m->pid, &here, 1, &there, 1, 0);

    if (got < 0)
        return -errno;
    return (size_t) got == n ? 0 : -EFAULT;
}

struct proc_memory proc_memory_of(int pid)
{
    return (struct proc_memory){.read = read_process, .pid = pid};
}
