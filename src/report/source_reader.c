/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads source files by the names in a profile, line by line. */
#include "report/source_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "report/gopath.h"

enum { SCAN_LINE_MAX = 64 << 10 }; /* pprof stops reading a file at a longer line */

struct source_file {
    struct str path;   /* as named in the profile */
    struct str *lines; /* [0] is line 1 */
    uint32_t n_lines;
    char *error;
};

int source_reader_init(struct source_reader *s, struct str search_path, struct str trim_path, struct err *e)
{
    char here[4096];

    *s = (struct source_reader){.trim_path = trim_path, .search_path = search_path};
    arena_init(&s->arena, 0);
    if (search_path.n)
        return 0;
    if (!getcwd(here, sizeof(here)))
        return err_set(e, -errno, "could not stat current dir: %m");
    s->search_path = arena_str(&s->arena, str_from(here));
    return s->search_path.p ? 0 : -ENOMEM;
}

void source_reader_done(struct source_reader *s)
{
    mem_free(s->files);
    arena_done(&s->arena);
    *s = (struct source_reader){0};
}

/* Without a trim path, returns what follows the last component of a search path in the name; else removes the
 * prefix. */
static struct str trim(struct str path, struct str trim_path, struct str search_path)
{
    static const struct str usual[] = {{"/proc/self/cwd/./", 17}, {"/proc/self/cwd/", 15}};

    for (struct str rest = search_path; !trim_path.n && rest.n;) {
        _cleanup_(buf_done) struct buf want = BUF_INIT;
        ptrdiff_t at;

        buf_putc(&want, '/');
        buf_put_str(&want, gopath_base(str_cut(&rest, ':')));
        buf_putc(&want, '/');
        at = str_find(path, buf_str(&want));
        if (at >= 0)
            return str_slice(path, (size_t) at + want.n, path.n);
    }
    while (trim_path.n) {
        struct str one = str_cut(&trim_path, ':');
        uint32_t n = one.n;

        if (str_starts(path, one) && n && (one.p[n - 1] == '/' || (path.n > n && path.p[n] == '/')))
            return str_slice(path, n + (one.p[n - 1] != '/'), path.n);
    }
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
        if (str_starts(path, usual[i]))
            return str_slice(path, usual[i].n, path.n);
    return path;
}

/* Names come from profiles: a device or a FIFO is never opened, and opening never blocks. */
static int open_regular(const char *name)
{
    struct stat st;
    int fd;

    if (stat(name, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return -EINVAL;
    fd = fd_open(AT_FDCWD, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd >= 0 && (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))) {
        fd_close(fd);
        return -EINVAL;
    }
    return fd;
}

/* Opens dir/path, or in a parent of dir. */
static int open_upwards(struct str dir, struct str path)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT, at = BUF_INIT, parent = BUF_INIT;

    buf_put_str(&at, dir);
    for (;;) {
        int fd;

        gopath_join(&name, buf_str(&at), path);
        if (!buf_cstr(&name))
            return -ENOMEM;
        fd = open_regular(name.p);
        if (fd >= 0)
            return fd;
        gopath_dir(&parent, buf_str(&at));
        if (buf_error(&parent) || str_eq(buf_str(&parent), buf_str(&at)))
            return -ENOENT;
        buf_reset(&at);
        buf_put_str(&at, buf_str(&parent));
    }
}

static const char *go_error(int code)
{
    switch (-code) {
    case ENOENT:
        return "no such file or directory";
    case EACCES:
        return "permission denied";
    case EISDIR:
        return "is a directory";
    case ENOTDIR:
        return "not a directory";
    case EINVAL:
        return "not a regular file";
    default:
        return strerror(-code);
    }
}

static int open_source(struct source_reader *s, struct source_file *f)
{
    struct str path = trim(f->path, s->trim_path, s->search_path);
    struct str rest = s->search_path;
    char *name;
    int fd;

    if (path.n && path.p[0] == '/') {
        name = arena_cstr(&s->arena, path);
        fd = name ? open_regular(name) : -ENOMEM;
        if (fd < 0)
            f->error = arena_printf(&s->arena, "open %.*s: %s", STR_FMT(path), go_error(fd));
        return fd;
    }
    while (rest.n) {
        fd = open_upwards(str_cut(&rest, ':'), path);
        if (fd >= 0)
            return fd;
    }
    f->error = arena_printf(&s->arena, "could not find file %.*s on path %.*s", STR_FMT(path), STR_FMT(s->search_path));
    return -ENOENT;
}

static int read_lines(struct source_reader *s, struct source_file *f)
{
    _cleanup_(fd_closep) int fd = open_source(s, f);
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str text;
    uint32_t n = 1;

    if (fd < 0)
        return f->error ? 0 : -ENOMEM;
    if (fd_read_all(fd, SOURCE_FILE_MAX, &b) < 0)
        return 0; /* as in pprof: no lines, no error message */
    text = b.n ? arena_str(&s->arena, buf_str(&b)) : STR("");
    for (uint32_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    f->lines = arena_zalloc_array(&s->arena, n, sizeof(*f->lines));
    if (!text.p || !f->lines)
        return -ENOMEM;
    while (text.n) {
        struct str line = str_cut(&text, '\n');

        if (line.n >= SCAN_LINE_MAX)
            break;
        if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        f->lines[f->n_lines++] = line;
    }
    return 0;
}

static int find_file(struct source_reader *s, struct str path, struct source_file **ret)
{
    int r;

    for (size_t i = 0; i < s->n_files; i++)
        if (str_eq(s->files[i].path, path)) {
            *ret = &s->files[i];
            return 0;
        }
    r = array_reserve(s->files, s->cap_files, s->n_files + 1, SOURCE_FILES_MAX);
    if (r < 0)
        return r;
    *ret = &s->files[s->n_files];
    **ret = (struct source_file){.path = path.n ? arena_str(&s->arena, path) : STR("")};
    if (!(*ret)->path.p)
        return -ENOMEM;
    s->n_files++;
    return read_lines(s, *ret);
}

int source_reader_line(struct source_reader *s, struct str path, int64_t line, struct str *ret)
{
    struct source_file *f;
    int r = find_file(s, path, &f);

    if (r < 0)
        return r;
    if (line <= 0 || line > f->n_lines)
        return 0;
    *ret = f->lines[line - 1];
    return 1;
}

const char *source_reader_error(struct source_reader *s, struct str path)
{
    for (size_t i = 0; i < s->n_files; i++)
        if (str_eq(s->files[i].path, path))
            return s->files[i].error;
    return NULL;
}
