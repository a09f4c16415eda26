/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the process that holds a TCP port, see holder.h. /proc/net/tcp and tcp6 give the inode of the listening socket:
 *   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
 *    0: 0100007F:10DD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 …
 * and a link /proc/PID/fd/N -> "socket:[12345]" gives the process.
 */
#include "net/holder.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

enum { TCP_STATE_LISTEN = 0x0A };

static bool inode_in(const char *path, int port, unsigned long *ret)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str text, line;

    if (fd_read_file(path, 16 << 20, &b, NULL) < 0)
        return false;
    text = buf_str(&b);
    str_cut(&text, '\n'); /* the header line */
    while (text.p) {
        char copy[256];
        unsigned local_port, state;
        unsigned long inode;

        line = str_cut(&text, '\n');
        snprintf(copy, sizeof copy, "%.*s", (int) MIN(line.n, sizeof copy - 1), line.p);
        if (sscanf(copy, " %*u: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*u %*u %lu", &local_port, &state, &inode) == 3 &&
            (int) local_port == port && state == TCP_STATE_LISTEN) {
            *ret = inode;
            return true;
        }
    }
    return false;
}

static bool process_has(const char *pid, const char *want)
{
    char path[64], target[64];
    DIR *d;
    bool found = false;

    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; !found && (e = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);

        if (n > 0) {
            target[n] = 0;
            found = strcmp(target, want) == 0;
        }
    }
    closedir(d);
    return found;
}

static void describe(const char *pid, char *out, size_t n)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[64];
    struct str name;

    snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    fd_read_file(path, 4096, &b, NULL);
    name = str_trim(buf_str(&b));
    snprintf(out, n, "process %.16s (%.*s)", pid, STR_FMT(name));
}

bool holder_of_port(int port, char *out, size_t n)
{
    unsigned long inode;
    char want[64];
    bool found = false;
    DIR *d;

    if (port <= 0 || (!inode_in("/proc/net/tcp", port, &inode) && !inode_in("/proc/net/tcp6", port, &inode)))
        return false;
    snprintf(want, sizeof want, "socket:[%lu]", inode);
    d = opendir("/proc");
    if (!d)
        return false;
    for (struct dirent *e; !found && (e = readdir(d));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && process_has(e->d_name, want)) {
            describe(e->d_name, out, n);
            found = true;
        }
    closedir(d);
    return found;
}
