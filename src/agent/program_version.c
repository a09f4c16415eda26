/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the manifest of a program beside or above its script. The files are written by anybody: only short versions of plain
 * characters are taken. See program_version.h. */
#include "agent/program_version.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/hash.h"

enum { MANIFEST_MAX = 256 << 10, SCRIPT_MAX = 1 << 20, LEVELS = 4, VERSION_MAX_BYTES = 64, JAR_TAIL = 64 << 10 };

struct script_place {
    char root[64];       /* /proc/PID/root, or /proc/PID/cwd for a relative path */
    char path[PATH_MAX]; /* of the script, below it */
};

static int read_in(const struct script_place *at, const char *path, size_t limit, struct buf *b)
{
    _cleanup_(fd_closep) int fd = fd_open_in_root(at->root, path);

    buf_reset(b);
    return fd < 0 ? fd : fd_read_all(fd, limit, b);
}

static bool take(struct str v, char *ret, size_t size)
{
    if (!v.n || v.n > VERSION_MAX_BYTES || v.n >= size)
        return false;
    for (uint32_t i = 0; i < v.n; i++)
        if (v.p[i] <= ' ' || v.p[i] >= 127 || strchr("\"'\\<>", v.p[i]))
            return false;
    snprintf(ret, size, "%.*s", STR_FMT(v));
    return true;
}

/* The value after KEY and a separator, between quotes: "version": "1.2", version = '1.2'. */
static bool quoted(struct str line, const char *key, char ret[VERSION_MAX_BYTES + 1])
{
    struct str s = str_trim(line), v;
    char q;

    if (s.n && s.p[0] == '"') /* JSON */
        s = str_slice(s, 1, s.n);
    if (!str_starts(s, str_from(key)))
        return false;
    s = str_slice(s, (uint32_t) strlen(key), s.n);
    if (s.n && s.p[0] == '"')
        s = str_slice(s, 1, s.n);
    s = str_trim(s);
    if (!s.n || (s.p[0] != ':' && s.p[0] != '='))
        return false;
    s = str_trim(str_slice(s, 1, s.n));
    if (!s.n || (s.p[0] != '"' && s.p[0] != '\''))
        return false;
    q = s.p[0];
    s = str_slice(s, 1, s.n);
    v = str_cut(&s, q);
    return take(v, ret, VERSION_MAX_BYTES + 1);
}

/* package.json: the member of the outermost object, which is on a line of its own or on the only line. */
static bool in_package(struct str text, char *ret)
{
    int depth = 0;

    for (uint32_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c != '"')
            continue;
        if (depth == 1 && quoted(str_slice(text, i, text.n), "version", ret))
            return true;
        for (i++; i < text.n && text.p[i] != '"'; i++)
            i += text.p[i] == '\\';
    }
    return false;
}

static bool in_pyproject(struct str text, char *ret)
{
    bool mine = false;

    while (text.n) {
        struct str line = str_trim(str_cut(&text, '\n'));

        if (line.n && line.p[0] == '[')
            mine = str_is(line, "[project]") || str_is(line, "[tool.poetry]");
        else if (mine && quoted(line, "version", ret))
            return true;
    }
    return false;
}

static const struct manifest {
    const char *name;
    bool (*find)(struct str text, char *ret);
} manifests[] = {{"package.json", in_package}, {"pyproject.toml", in_pyproject}};

/* Cuts the last component. False at the root. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static bool in_manifest(const struct script_place *at, struct buf *b, char *ret)
{
    char folder[PATH_MAX], path[PATH_MAX + 32];

    snprintf(folder, sizeof folder, "%s", at->path);
    for (int level = 0; level < LEVELS && go_up(folder); level++)
        for (size_t i = 0; i < ARRAY_SIZE(manifests); i++) {
            snprintf(path, sizeof path, "%s/%s", folder, manifests[i].name);
            if (read_in(at, path, MANIFEST_MAX, b) == 0 && manifests[i].find(buf_str(b), ret))
                return true;
        }
    return false;
}

/* Of a script its text; of a jar the directory at its end. */
static void hash_file(const struct script_place *at, struct buf *b, char *ret, size_t size)
{
    _cleanup_(fd_closep) int fd = fd_open_in_root(at->root, at->path);
    size_t n = strlen(at->path), want;
    bool is_jar = n > 4 && strcmp(at->path + n - 4, ".jar") == 0;
    struct id128 id;
    struct stat st;
    char *p;

    if (fd < 0 || fd_stat(fd, &st) < 0 || st.st_size <= 0 || (!is_jar && st.st_size > SCRIPT_MAX))
        return;
    want = (size_t) MIN(st.st_size, is_jar ? (off_t) JAR_TAIL : (off_t) SCRIPT_MAX);
    buf_reset(b);
    p = buf_reserve(b, want);
    if (!p || fd_pread_all(fd, p, want, st.st_size - (off_t) want) < 0)
        return;
    id = hash128_long(p, want);
    snprintf(ret, size, "%016llx", (unsigned long long) id.hi);
}

void program_version(const char *dir, const struct service_script *s, char *ret, size_t size)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char found[VERSION_MAX_BYTES + 1] = "";
    struct script_place at;

    ret[0] = 0;
    if (!s->path.n || s->is_module || s->path.n >= sizeof at.path || memchr(s->path.p, 0, s->path.n))
        return;
    snprintf(at.root, sizeof at.root, "%.40s/%s", dir, s->path.p[0] == '/' ? "root" : "cwd");
    snprintf(at.path, sizeof at.path, "%s%.*s", s->path.p[0] == '/' ? "" : "/", STR_FMT(s->path));
    if (in_manifest(&at, &b, found))
        snprintf(ret, size, "%s", found);
    else
        hash_file(&at, &b, ret, size);
}
