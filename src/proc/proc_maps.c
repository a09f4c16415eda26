/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc_maps.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"

static bool read_hex(struct str *s, char stop, uint64_t *ret)
{
    struct str part = str_cut(s, stop);
    uint64_t v = 0;

    if (part.n == 0 || part.n > 16)
        return false;
    for (uint32_t i = 0; i < part.n; i++) {
        char c = part.p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit < 0)
            return false;
        v = v << 4 | (uint64_t) digit;
    }
    *ret = v;
    return true;
}

static bool parse_line(struct str line, struct proc_map *m)
{
    uint64_t major, minor;
    struct str perms, inode;

    *m = (struct proc_map){0};
    if (!read_hex(&line, '-', &m->start) || !read_hex(&line, ' ', &m->end) || m->end < m->start)
        return false;
    perms = str_cut(&line, ' ');
    if (perms.n != 4 || !read_hex(&line, ' ', &m->offset) || !read_hex(&line, ':', &major) ||
        !read_hex(&line, ' ', &minor))
        return false;
    inode = str_cut(&line, ' ');
    if (str_to_u64(inode, 10, &m->inode) < 0)
        return false;
    m->major = (uint32_t) major;
    m->minor = (uint32_t) minor;
    m->readable = perms.p[0] == 'r';
    m->writable = perms.p[1] == 'w';
    m->executable = perms.p[2] == 'x';
    m->shared = perms.p[3] == 's';
    while (line.n && line.p[0] == ' ')
        line = str_slice(line, 1, line.n);
    if (str_ends(line, STR(" (deleted)"))) {
        m->deleted = true;
        line.n -= 10;
    }
    m->path = line;
    return true;
}

int proc_maps_parse(struct str text, bool executable_only, struct proc_maps *ret)
{
    struct proc_maps maps = {0};
    uint32_t lines = 1;

    for (uint32_t i = 0; i < text.n; i++)
        lines += text.p[i] == '\n';
    arena_init(&maps.arena, 0);
    maps.v = arena_zalloc_array(&maps.arena, MIN(lines, PROC_MAPS_MAX), sizeof(*maps.v));
    while (maps.v && text.n && maps.n < MIN(lines, PROC_MAPS_MAX)) {
        struct proc_map *m = &maps.v[maps.n];

        if (!parse_line(str_cut(&text, '\n'), m) || (executable_only && !m->executable))
            continue;
        m->path = m->path.n ? arena_str(&maps.arena, m->path) : STR("");
        if (!m->path.p)
            maps.v = NULL;
        else
            maps.n++;
    }
    if (!maps.v) {
        arena_done(&maps.arena);
        return -ENOMEM;
    }
    *ret = maps;
    return 0;
}

int proc_maps_read(int pid, bool executable_only, struct proc_maps *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[64];
    int r;

    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    r = fd_read_file(path, 256u << 20, &b, e);
    if (r == -EACCES || r == -EPERM)
        return err_set(e, r, "process %d may not be read: it is another user's; run it as root or with CAP_SYS_PTRACE",
                       pid);
    if (r == -ENOENT || r == -ESRCH)
        return err_set(e, r, "there is no process %d", pid);
    return r < 0 ? r : proc_maps_parse(buf_str(&b), executable_only, ret);
}

void proc_maps_done(struct proc_maps *m)
{
    arena_done(&m->arena);
    *m = (struct proc_maps){0};
}

const struct proc_map *proc_maps_find(const struct proc_maps *m, uint64_t address)
{
    uint32_t low = 0, high = m->n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (m->v[mid].end <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->n && m->v[low].start <= address ? &m->v[low] : NULL;
}
