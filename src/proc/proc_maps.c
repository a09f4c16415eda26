/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/maps. The process may be hostile: memory and work are bounded. */
#include "proc/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proc/proc_path.h"

enum {
    PIECE = 32 << 10, /* the kernel returns a page or two at a time; a larger buffer would be mapped for each file */
    PROC_PATH_MAX = 4 * 4096 + 128,
    ARENA_SLACK = 4 << 20
}; /* a byte of a path may be escaped as four characters */

static bool read_hex(struct str *s, char stop, uint64_t *ret)
{
    return hex_number(str_cut(s, stop), ret);
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
    m->deleted = proc_path_cut_deleted(&line);
    m->path = line;
    return true;
}

static void begin(struct proc_maps *m)
{
    *m = (struct proc_maps){0};
    arena_init(&m->arena, PROC_MAPS_TEXT_MAX);
}

/* Adds the complete lines of text, up to the limits; what is beyond them is counted. */
static int add_lines(struct proc_maps *m, struct str text, bool executable_only)
{
    while (text.n) {
        struct proc_map x;
        int r;

        if (!parse_line(str_cut(&text, '\n'), &x) || (executable_only && !x.executable))
            continue;
        r = array_reserve(m->v, m->cap, m->n + (size_t) 1, PROC_MAPS_MAX);
        if (r == -E2BIG) {
            m->left_out++;
            continue;
        }
        if (r < 0)
            return r;
        if (m->n && str_eq(x.path, m->v[m->n - 1].path)) /* the parts of one file follow each other */
            x.path = m->v[m->n - 1].path;
        else
            x.path = x.path.n ? arena_str(&m->arena, x.path) : STR("");
        if (!x.path.p && m->arena.used + ARENA_SLACK <= PROC_MAPS_TEXT_MAX)
            return -ENOMEM;
        if (!x.path.p) {
            m->left_out++;
            continue;
        }
        m->v[m->n++] = x;
    }
    return 0;
}

int proc_maps_parse(struct str text, bool executable_only, struct proc_maps *ret)
{
    struct proc_maps maps;
    int r;

    begin(&maps);
    r = add_lines(&maps, text, executable_only);
    if (r < 0) {
        proc_maps_done(&maps);
        return r;
    }
    *ret = maps;
    return 0;
}

/* Reads the file piece by piece: it may be hundreds of megabytes long, with only few executable mappings. */
static int read_pieces(int fd, bool executable_only, struct proc_maps *m)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    size_t total = 0;
    ssize_t n;
    int r = 0;

    while (r == 0 && total < PROC_MAPS_FILE_MAX) {
        char *p = buf_reserve(&b, PIECE);
        ptrdiff_t end;

        if (!p)
            return -ENOMEM;
        n = fd_read(fd, p, PIECE);
        if (n <= 0)
            return n < 0 ? (int) n : add_lines(m, buf_str(&b), executable_only);
        b.n += (size_t) n;
        total += (size_t) n;
        for (end = (ptrdiff_t) b.n; end > 0 && b.p[end - 1] != '\n';)
            end--;
        r = add_lines(m, (struct str){b.p, (uint32_t) end}, executable_only);
        memmove(b.p, b.p + end, b.n - (size_t) end);
        b.n -= (size_t) end;
        if (b.n > 2 * PROC_PATH_MAX)
            b.n = 0; /* not a line that the kernel wrote */
    }
    m->left_out += r == 0;
    return r;
}

static int why(int pid, int r, struct err *e)
{
    if (r == -EACCES || r == -EPERM)
        return err_set(e, r,
                       "cannot read the maps of process %d: it belongs to another user; run wick as root or with "
                       "CAP_SYS_PTRACE",
                       pid);
    if (r == -ENOENT || r == -ESRCH)
        return err_set(e, r, "no such process: %d", pid);
    return err_set(e, r, "cannot read the maps of process %d: %m", pid);
}

int proc_maps_read_file(const char *path, bool executable_only, struct proc_maps *ret)
{
    _cleanup_(fd_closep) int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    struct proc_maps maps;
    int r;

    if (fd < 0)
        return fd;
    begin(&maps);
    r = read_pieces(fd, executable_only, &maps);
    if (r < 0) {
        proc_maps_done(&maps);
        return r;
    }
    *ret = maps;
    return 0;
}

int proc_maps_read(int pid, bool executable_only, struct proc_maps *ret, struct err *e)
{
    char path[64];
    int r;

    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    r = proc_maps_read_file(path, executable_only, ret);
    return r < 0 ? why(pid, r, e) : 0;
}

void proc_maps_done(struct proc_maps *m)
{
    mem_free(m->v);
    arena_done(&m->arena);
    *m = (struct proc_maps){0};
}
