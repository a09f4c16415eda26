/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the process that holds a TCP socket, by the kernel's socket table and /proc/PID/fd (socket_owner.h). */
#include "proc/socket_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "proc/proc_path.h"
#include "proc/proc_stat.h"

enum { TABLE_MAX = 64 << 20, HOLDERS_MAX = 256, STATE_OPEN = 1, STATE_LISTEN = 10 };

/* An address as /proc/net/tcp and tcp6 print it. */
struct socket_names {
    char exact[48], any[48];
    const char *table;
};

static int names_of(const char *address, struct socket_names *ret)
{
    const char *colon = strrchr(address, ':');
    char host[SOCKET_ADDRESS_MAX];
    uint32_t v[4];
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

    if (!port || port > 65535)
        return -EINVAL;
    snprintf(host, sizeof host, "%.*s", (int) (colon - address), address);
    if (inet_pton(AF_INET, host, v) == 1) {
        snprintf(ret->exact, sizeof ret->exact, "%08X:%04lX", v[0], port);
        snprintf(ret->any, sizeof ret->any, "00000000:%04lX", port);
        ret->table = "/proc/net/tcp";
        return 0;
    }
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        memmove(host, host + 1, strlen(host));
        host[strlen(host) - 1] = 0;
    }
    if (inet_pton(AF_INET6, host, v) != 1)
        return -EINVAL;
    snprintf(ret->exact, sizeof ret->exact, "%08X%08X%08X%08X:%04lX", v[0], v[1], v[2], v[3], port);
    snprintf(ret->any, sizeof ret->any, "%032d:%04lX", 0, port);
    ret->table = "/proc/net/tcp6";
    return 0;
}

/* The inode of the best entry in a table: 2 for a connection, 1 for a listener, 0 for none. */
static int search_table(const char *path, const struct socket_names *n, uint64_t *ret_inode)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int best = 0;

    if (fd_read_file(path, TABLE_MAX, &text, NULL) < 0)
        return 0;
    for (struct str rest = buf_str(&text); rest.n;) {
        struct str line = str_cut(&rest, '\n');
        char copy[512], local[48];
        unsigned state;
        unsigned long inode;
        int found = 0;

        snprintf(copy, sizeof copy, "%.*s", STR_FMT(line));
        if (sscanf(copy, " %*u: %47s %*s %x %*s %*s %*s %*u %*u %lu", local, &state, &inode) != 3 || !inode)
            continue;
        if (state == STATE_OPEN && strcmp(local, n->exact) == 0)
            found = 2;
        else if (state == STATE_LISTEN && (strcmp(local, n->exact) == 0 || strcmp(local, n->any) == 0))
            found = 1;
        if (found > best) {
            best = found;
            *ret_inode = inode;
        }
    }
    return best;
}

/* A socket for both families is listed in tcp6: an IPv4 address there is "mapped", and a listener listens on [::]. */
static int find_inode(const char *address, uint64_t *ret)
{
    struct socket_names n, mapped;
    char text[SOCKET_ADDRESS_MAX + 16];
    uint64_t other = 0;
    int r = names_of(address, &n), best, best_mapped = 0;

    if (r < 0)
        return r;
    best = search_table(n.table, &n, ret);
    if (best < 2 && address[0] != '[') {
        snprintf(text, sizeof text, "[::ffff:%.*s]%s", (int) (strrchr(address, ':') - address), address,
                 strrchr(address, ':'));
        if (names_of(text, &mapped) == 0)
            best_mapped = search_table(mapped.table, &mapped, &other);
        if (best_mapped > best)
            *ret = other;
    }
    return MAX(best, best_mapped) ? 0 : -ENOENT;
}

static bool holds(pid_t pid, const char *link)
{
    char path[64], text[64];
    struct dirent *d;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/fd", (int) pid);
    dir = opendir(path);
    while (dir && !found && (d = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), d->d_name, text, sizeof text - 1);

        text[MAX(n, 0)] = 0;
        found = strcmp(text, link) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

struct socket_holders {
    pid_t v[HOLDERS_MAX], parents[HOLDERS_MAX];
    size_t n;
};

static void find_holders(uint64_t inode, struct socket_holders *ret)
{
    char link[48];
    struct dirent *d;
    DIR *dir = opendir("/proc");

    snprintf(link, sizeof link, "socket:[%llu]", (unsigned long long) inode);
    ret->n = 0;
    while (dir && ret->n < HOLDERS_MAX && (d = readdir(dir))) {
        struct proc_stat st;
        uint64_t pid;

        if (str_to_u64(str_from(d->d_name), 10, &pid) < 0 || !holds((pid_t) pid, link))
            continue;
        if (proc_stat_read((pid_t) pid, &st) < 0)
            continue;
        ret->v[ret->n] = (pid_t) pid;
        ret->parents[ret->n++] = st.parent;
    }
    if (dir)
        closedir(dir);
}

/* The holder whose parent does not hold the socket; 0 when there are several. */
static pid_t first_holder(const struct socket_holders *h)
{
    pid_t first = 0;

    for (size_t i = 0; i < h->n; i++) {
        bool inherited = false;

        for (size_t k = 0; k < h->n; k++)
            inherited |= h->parents[i] == h->v[k];
        if (inherited)
            continue;
        if (first)
            return 0;
        first = h->v[i];
    }
    return first;
}

int socket_owner_find(const char *address, struct socket_owner *ret)
{
    struct socket_holders holders;
    struct socket_owner o = {0};
    uint64_t inode = 0;
    char link[32];
    struct proc_stat st;
    int r = find_inode(address, &inode);

    if (r < 0)
        return r;
    find_holders(inode, &holders);
    o.pid = first_holder(&holders);
    if (!o.pid || proc_stat_read(o.pid, &st) < 0)
        return -ENOENT;
    o.start_ticks = st.start_ticks;
    snprintf(link, sizeof link, "/proc/%d/exe", (int) o.pid);
    proc_path_of_exe(link, o.exe, sizeof o.exe);
    *ret = o;
    return 0;
}

void socket_owner_put(const struct socket_owner *o, struct buf *out)
{
    buf_printf(out, "%d %llu %s", (int) o->pid, (unsigned long long) o->start_ticks, o->exe);
    buf_putc(out, '\0');
    buf_put(out, o->service, strlen(o->service) + 1);
    buf_put(out, o->command, strlen(o->command) + 1);
}

static int take_text(struct str *rest, char *ret, size_t size)
{
    struct str s = str_cut(rest, '\0');

    if (s.n >= size)
        return -EBADMSG;
    snprintf(ret, size, "%.*s", STR_FMT(s));
    return 0;
}

int socket_owner_parse(struct str text, struct socket_owner *ret)
{
    struct str pid = str_cut(&text, ' '), start = str_cut(&text, ' ');
    struct socket_owner o = {0};
    uint64_t v;

    if (str_to_u64(pid, 10, &v) < 0 || !v || v > INT32_MAX || str_to_u64(start, 10, &o.start_ticks) < 0 ||
        take_text(&text, o.exe, sizeof o.exe) < 0 || take_text(&text, o.service, sizeof o.service) < 0 ||
        take_text(&text, o.command, sizeof o.command) < 0)
        return -EBADMSG;
    o.pid = (pid_t) v;
    *ret = o;
    return 0;
}
