/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/maps:  start-end perms offset major:minor inode   path
 * Only the requested mappings are kept; a path may contain any byte except a newline, which the kernel writes as \012.
 */
#ifndef PROC_PROC_MAPS_H
#define PROC_PROC_MAPS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct proc_map {
    uint64_t start, end, offset, inode;
    uint32_t major, minor;
    bool readable, writable, executable, shared, deleted; /* deleted: " (deleted)" was cut off the path */
    struct str path;                                      /* "", "[vdso]", "/usr/lib/x.so" */
};

struct proc_maps {
    struct proc_map *v; /* by address, as the kernel gives them */
    uint32_t n;
    size_t cap;
    struct arena arena; /* the paths */
    uint32_t
        left_out; /* requested mappings beyond the limits; at least so many: a file that is too long counts as one */
};

/* Limits; the rest is counted and not kept: mappings, bytes of their paths, bytes that are read. */
enum { PROC_MAPS_MAX = 1 << 18, PROC_MAPS_TEXT_MAX = 32 << 20, PROC_MAPS_FILE_MAX = 512 << 20 };

/* text may be freed afterwards. Malformed lines are ignored. 0 or -ENOMEM. */
int proc_maps_parse(struct str text, bool executable_only, struct proc_maps *ret);
int proc_maps_read(int pid, bool executable_only, struct proc_maps *ret, struct err *e);
int proc_maps_read_file(const char *path, bool executable_only, struct proc_maps *ret);
void proc_maps_done(struct proc_maps *m);

#endif
