/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, checks and parses the perf map of a process. */
#include "proc/jit_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/fd.h"

static bool take_hex(struct str *line, uint64_t *ret)
{
    struct str s = str_cut(line, ' ');

    if (s.n > 2 && s.p[0] == '0' && (s.p[1] == 'x' || s.p[1] == 'X'))
        s = str_slice(s, 2, s.n);
    return hex_number(s, ret);
}

bool jit_names_line(struct str line, uint64_t *ret_start, uint64_t *ret_size, struct str *ret_name)
{
    if (!take_hex(&line, ret_start) || !take_hex(&line, ret_size) || !*ret_size || *ret_start + *ret_size < *ret_start)
        return false;
    *ret_name = str_trim(line);
    return ret_name->n > 0;
}

int jit_names_parse(struct str text, size_t *ret_used, struct addr_names *t)
{
    const char *begin = text.p;
    int r = 0;

    *ret_used = 0;
    while (r == 0 && text.n && str_find_char(text, '\n') >= 0) {
        struct str line = str_cut(&text, '\n'), name;
        uint64_t start, size;

        *ret_used = (size_t) (line.p + line.n + 1 - begin);
        if (jit_names_line(line, &start, &size, &name))
            r = addr_names_add(t, start, size, name);
    }
    return r;
}

/* The value after a name as "\nUid:" in /proc/PID/status, whose text b receives. */
static struct str status_line(const char *proc, int pid, struct str name, struct buf *b)
{
    char path[4096];
    struct str text;
    ptrdiff_t at;

    snprintf(path, sizeof path, "%s/%d/status", proc, pid);
    if (fd_read_file(path, 65536, b, NULL) < 0)
        return (struct str){0};
    text = buf_str(b);
    at = str_find(text, name);
    if (at < 0)
        return (struct str){0};
    text = str_slice(text, (size_t) at + name.n, text.n);
    return str_trim(str_cut(&text, '\n'));
}

/* The innermost number of "NSpid:\t812\t7", which is the pid in the process's own namespace; else pid. */
static int own_pid(const char *proc, int pid)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str text = status_line(proc, pid, STR("\nNSpid:"), &b), last = {0};
    uint64_t v;

    while (text.n)
        last = str_cut(&text, '\t');
    return str_to_u64(last, 10, &v) == 0 && v <= INT32_MAX ? (int) v : pid;
}

/* 0 when the file belongs to the user of the process: any user can write to /tmp. The owner of /proc/PID cannot be
 * used, because it is root for processes that are not dumpable. */
static int check_owner(const char *proc, int pid, int fd)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str uids = status_line(proc, pid, STR("\nUid:"), &b); /* real, effective, saved, of files */
    struct stat file;
    uint64_t uid;

    str_cut(&uids, '\t');
    if (fd_stat(fd, &file) < 0)
        return -errno;
    return str_to_u64(str_cut(&uids, '\t'), 10, &uid) == 0 && file.st_uid == uid ? 0 : -EPERM;
}

int jit_names_open(const char *proc, int pid, struct err *e)
{
    char root[4096], name[64];
    int fd, r;

    snprintf(root, sizeof root, "%s/%d/root", proc, pid);
    snprintf(name, sizeof name, "/tmp/perf-%d.map", own_pid(proc, pid));
    fd = fd_open_in_root(root, name);
    if (fd < 0)
        return err_set(e, fd, "cannot open '%s' of process %d: %m", name, pid);
    r = check_owner(proc, pid, fd);
    if (r == 0)
        return fd;
    fd_close(fd);
    return err_set(e, r, "'%s' of process %d is not its own", name, pid);
}

static const struct {
    const char *name, *hint;
} runtimes[] = {
    {"node", "[node: run with --perf-basic-prof]"},
    {"nodejs", "[node: run with --perf-basic-prof]"},
    {"java", "[java: run with -XX:+PreserveFramePointer, then jcmd PID Compiler.perfmap]"},
    {"dotnet", "[dotnet: run with DOTNET_PerfMapEnabled=1]"},
    {"luajit", "[luajit: run with -jdump or a perf-map]"},
    {"beam.smp", "[erlang: run with +JPperf true]"},
    {"php-fpm", "[php: set opcache.jit_debug for perf maps]"},
    {"ruby", "[ruby: run with --yjit-perf]"},
    {"deno", "[deno: run with --v8-flags=--perf-basic-prof]"},
};

const char *jit_names_hint(struct str executable, bool has_map)
{
    if (has_map)
        return "[JIT code that the perf map does not name]";
    for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++)
        if (str_is(executable, runtimes[i].name))
            return runtimes[i].hint;
    return NULL;
}
