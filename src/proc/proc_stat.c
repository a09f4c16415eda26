/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/stat. The name of the process may contain any character, so fields are counted from the last ')'. */
#include "proc/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_START = 22 };

int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
    char path[32], text[1024], *end;
    _cleanup_(fd_closep) int fd = -1;
    uint64_t parent = 0, start = 0;
    char state = 0;
    struct str rest;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
    fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    n = fd < 0 ? fd : fd_read(fd, text, sizeof text - 1);
    if (n <= 0)
        return -ENOENT;
    text[n] = 0;
    end = strrchr(text, ')');
    rest = str_trim(str_from(end ? end + 1 : ""));
    for (int field = FIELD_STATE; rest.n && field <= FIELD_START; field++) {
        struct str one = str_cut(&rest, ' ');

        if (field == FIELD_STATE && one.n)
            state = one.p[0];
        if ((field == FIELD_PARENT && str_to_u64(one, 10, &parent) < 0) ||
            (field == FIELD_START && str_to_u64(one, 10, &start) < 0))
            return -EBADMSG;
    }
    if (!start)
        return -EBADMSG;
    *ret = (struct proc_stat){state, (pid_t) parent, start};
    return 0;
}
