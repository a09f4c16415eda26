/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that the kernel writes; see proc_path.h. */
#include "proc/proc_path.h"

#include <unistd.h>

bool proc_path_cut_deleted(struct str *path)
{
    const struct str mark = STR(" (deleted)");

    if (!str_ends(*path, mark))
        return false;
    path->n -= mark.n;
    return true;
}

struct str proc_path_of_exe(const char *link, char *buf, size_t size)
{
    ssize_t n = readlink(link, buf, size);
    struct str path = {buf, n > 0 && (size_t) n < size ? (uint32_t) n : 0};

    proc_path_cut_deleted(&path);
    buf[path.n] = 0;
    return path;
}
