/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parent of every running process, and follows parents up to the given processes (proc_children.h). */
#include "proc/proc_children.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>

#include "base/mem.h"
#include "base/str.h"
#include "proc/proc_stat.h"

enum { PROCESSES_MAX = 1 << 20 };

struct proc_child {
    pid_t pid, parent;
};

static pid_t parent_of(pid_t pid)
{
    struct proc_stat st;

    return proc_stat_read(pid, &st) == 0 ? st.parent : 0;
}

static int list_all(struct proc_child **ret, size_t *ret_n)
{
    struct proc_child *v = NULL;
    size_t n = 0, cap = 0;
    struct dirent *d;
    uint64_t pid;
    DIR *dir = opendir("/proc");
    int r = dir ? 0 : -errno;

    while (r == 0 && (d = readdir(dir)))
        if (str_to_u64(str_from(d->d_name), 10, &pid) == 0 && pid <= INT32_MAX)
            r = array_push(v, n, cap, PROCESSES_MAX, ((struct proc_child){(pid_t) pid, parent_of((pid_t) pid)}));
    if (dir)
        closedir(dir);
    if (r < 0) {
        mem_free(v);
        return r;
    }
    *ret = v;
    *ret_n = n;
    return 0;
}

static bool is_in(const pid_t *pids, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

int proc_add_descendants(pid_t *pids, size_t *n, size_t max)
{
    struct proc_child *all;
    size_t n_all, before;
    int r = list_all(&all, &n_all);

    if (r < 0)
        return r;
    do { /* one generation, or more, in each pass */
        before = *n;
        for (size_t i = 0; i < n_all && *n < max; i++)
            if (all[i].parent && is_in(pids, *n, all[i].parent) && !is_in(pids, *n, all[i].pid))
                pids[(*n)++] = all[i].pid;
    } while (*n > before);
    mem_free(all);
    return 0;
}
