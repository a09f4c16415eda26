/* SPDX-License-Identifier: Apache-2.0 */
/* Makes links to a line of a source file, from the template of a forge or of the configuration. See source_link.h. */
#include "server/source_link.h"

#include <string.h>

#include "net/http.h"
#include "server/serve_config.h"

/* How forges write the URL of a line of a file at a revision. */
static const struct {
    const char *host, *link;
} forges[] = {
    {"gitlab", "{repository}/-/blob/{revision}/{path}#L{line}"},
    {"bitbucket", "{repository}/src/{revision}/{path}#lines-{line}"},
    {"codeberg", "{repository}/src/commit/{revision}/{path}#L{line}"},
    {"gitea", "{repository}/src/commit/{revision}/{path}#L{line}"},
    {"", "{repository}/blob/{revision}/{path}#L{line}"}, /* GitHub's form, which other forges use too */
};

static const char *template_of(const struct serve_source *s)
{
    if (s->link || !s->repository)
        return s->link;
    for (size_t i = 0;; i++)
        if (strstr(s->repository, forges[i].host))
            return forges[i].link;
}

/* https://host/path of a repository's URL, without .git and without a trailing slash. */
static struct str repository_url(const char *url)
{
    struct str s = str_from(url);

    while (s.n && s.p[s.n - 1] == '/')
        s.n--;
    if (str_ends(s, STR(".git")))
        s.n -= 4;
    return s;
}

static struct str folder(const char *dir)
{
    struct str s = str_from(dir);

    while (s.n > 1 && s.p[s.n - 1] == '/')
        s.n--;
    return s;
}

/* Appends the path percent-encoded, except for slashes. */
static void put_path(struct buf *out, struct str path)
{
    while (path.n && path.p[0] == '/')
        path = str_slice(path, 1, path.n);
    for (bool more = true; more;) {
        ptrdiff_t at = str_find_char(path, '/');

        http_percent_encode(out, str_slice(path, 0, at < 0 ? path.n : (size_t) at));
        more = at >= 0;
        if (more) {
            buf_putc(out, '/');
            path = str_slice(path, (size_t) at + 1, path.n);
        }
    }
}

bool source_link_template(const struct serve_source *s, struct buf *out)
{
    struct str t = str_from(template_of(s));
    ptrdiff_t at;

    if (!t.n)
        return false;
    while ((at = str_find_char(t, '{')) >= 0) {
        buf_put_str(out, str_slice(t, 0, (size_t) at));
        t = str_slice(t, (size_t) at, t.n);
        if (str_starts(t, STR("{repository}"))) {
            buf_put_str(out, repository_url(s->repository ? s->repository : ""));
            t = str_slice(t, sizeof "{repository}" - 1, t.n);
        } else if (str_starts(t, STR("{dir}"))) {
            buf_put_str(out, folder(s->dir ? s->dir : ""));
            t = str_slice(t, sizeof "{dir}" - 1, t.n);
        } else {
            buf_putc(out, '{');
            t = str_slice(t, 1, t.n);
        }
    }
    buf_put_str(out, t);
    return !buf_error(out);
}

bool source_link(const struct serve_source *s, struct str file, uint64_t line, struct str revision, struct buf *out)
{
    _cleanup_(buf_done) struct buf half = BUF_INIT;
    struct str t, prefix = str_from(s->prefix);

    if (!str_starts(file, prefix) || !source_link_template(s, &half))
        return false;
    t = buf_str(&half);
    while (t.n) {
        static const char *const names[] = {"{path}", "{file}", "{line}", "{revision}", "{version}"};
        size_t k = 0;

        while (k < ARRAY_SIZE(names) && !str_starts(t, str_from(names[k])))
            k++;
        if (k == ARRAY_SIZE(names)) {
            buf_putc(out, t.p[0]);
            t = str_slice(t, 1, t.n);
            continue;
        }
        t = str_slice(t, strlen(names[k]), t.n);
        if (k < 2)
            put_path(out, str_slice(file, prefix.n, file.n));
        else if (k == 2)
            buf_printf(out, "%llu", (unsigned long long) line);
        else
            http_percent_encode(out, revision.n ? revision : STR("HEAD"));
    }
    return !buf_error(out);
}
