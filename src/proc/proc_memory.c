/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process with process_vm_readv(). */
#include "proc/proc_memory.h"

#include <errno.h>

#include "proc/far_call.h"

static int read_process(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    ssize_t got = far_read_memory(m->pid, address, p, n);

    if (got < 0)
        return (int) got;
    return (size_t) got == n ? 0 : -EFAULT;
}

struct proc_memory proc_memory_of(int pid)
{
    return (struct proc_memory){.read = read_process, .pid = pid};
}
