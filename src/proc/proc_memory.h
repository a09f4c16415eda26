/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interface for reading the memory of a process: of another process with process_vm_readv(), or bytes of a test.
 * Reading never stops or changes the process; the data may be inconsistent or hostile, so every reader must validate
 * it.
 */
#ifndef PROC_PROC_MEMORY_H
#define PROC_PROC_MEMORY_H

#include <stdbool.h>

#include "base/macros.h"

struct proc_memory {
    /* Reads all n bytes at the address, or fails with a negative errno (-EFAULT, -ESRCH, -EPERM). */
    int (*read)(const struct proc_memory *m, uint64_t address, void *p, size_t n);
    int pid;          /* of proc_memory_of() */
    const void *data; /* for other implementations */
};

struct proc_memory proc_memory_of(int pid);

static inline int proc_memory_read(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    return m->read(m, address, p, n);
}

static inline bool proc_memory_u64(const struct proc_memory *m, uint64_t address, uint64_t *ret)
{
    return m->read(m, address, ret, sizeof *ret) >= 0;
}

#endif
