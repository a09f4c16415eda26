/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program of a version by the attributes of its resources (program_of.h). */
#include "query/program_of.h"

#include <errno.h>

#include "base/mem.h"
#include "model/semconv.h"

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Go's: two to four words of 20 characters with slashes between. */
static bool is_go_id(struct str v)
{
    uint32_t words = 0;

    while (v.n) {
        if (str_cut(&v, '/').n != 20 || ++words > 4)
            return false;
    }
    return words >= 1;
}

bool program_is_build_id(struct str version)
{
    uint32_t hex = 0;

    while (hex < version.n && is_hex(version.p[hex]))
        hex++;
    return (hex == version.n && hex >= 16) || is_go_id(version);
}

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

/* "python3.11" is python, "php-fpm8.2" is php-fpm: without the version at its end. */
static struct str without_version(struct str name)
{
    uint32_t n = name.n;

    while (n && (is_digit(name.p[n - 1]) || name.p[n - 1] == '.' || name.p[n - 1] == '-'))
        n--;
    return n ? str_slice(name, 0, n) : name;
}

static bool is_interpreter(struct str path)
{
    static const char *const names[] = {"python", "pypy",    "node",    "nodejs", "java",   "ruby",   "perl",
                                        "php",    "php-fpm", "php-cgi", "lua",    "luajit", "bash",   "dash",
                                        "sh",     "zsh",     "busybox", "deno",   "bun",    "dotnet", "beam.smp",
                                        "erl",    "R",       "guile",   "tclsh",  "awk",    "mawk",   "gawk"};
    struct str name = without_version(base_name(path));

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}

int program_read(struct store *s, const struct query_params *p, struct str version, struct arena *a,
                 struct program *ret, struct err *e)
{
    const struct str by[] = {STR(SEMCONV_PROCESS_EXECUTABLE_PATH), STR(SEMCONV_BUILD_ID_GNU),
                             STR(SEMCONV_BUILD_ID_HTLHASH)};
    struct store_series_query sq = {.by = by, .n_by = ARRAY_SIZE(by)};
    struct store_points points;
    _cleanup_(query_freep) struct query *q = NULL;
    double most = 0;
    int r = query_compile(p, &q, e);

    *ret = (struct program){0};
    if (r < 0)
        return r;
    q->q.notes = NULL;
    sq.step = q->q.columns[0].to - q->q.columns[0].from;
    r = s->ops->series(s, &q->q, &sq, &points, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < points.n_series; i++) {
        struct str path = labels_get(&points.labels[i], by[0]);
        double v = 0;

        for (uint32_t k = 0; k < points.n_points; k++)
            v += points.values[(size_t) i * points.n_points + k];
        if (v <= most || !path.n)
            continue;
        most = v;
        ret->path = arena_str(a, path);
        ret->is_interpreters_id = is_interpreter(path) && (str_eq(labels_get(&points.labels[i], by[1]), version) ||
                                                           str_eq(labels_get(&points.labels[i], by[2]), version));
    }
    store_points_done(&points);
    return a->failed ? -ENOMEM : 0;
}

int program_processes_read(struct store *s, const struct query_params *p, int64_t step, struct program_processes *ret,
                           struct err *e)
{
    const struct str by[] = {STR(SEMCONV_PROCESS_PID)};
    struct store_series_query sq = {.by = by, .n_by = ARRAY_SIZE(by), .step = step};
    struct store_points points;
    _cleanup_(query_freep) struct query *q = NULL;
    int r = query_compile(p, &q, e);

    *ret = (struct program_processes){0};
    if (r < 0)
        return r;
    q->q.notes = NULL;
    r = s->ops->series(s, &q->q, &sq, &points, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < points.n_series; i++) {
        const double *v = points.values + (size_t) i * points.n_points;
        uint32_t first = points.n_points, last = 0;

        if (!labels_get(&points.labels[i], by[0]).n)
            continue;
        for (uint32_t k = 0; k < points.n_points; k++)
            if (v[k] > 0) {
                first = MIN(first, k);
                last = k;
            }
        ret->n++;
        if (first < last)
            ret->longest = MAX(ret->longest, (last - first) * step);
    }
    store_points_done(&points);
    return 0;
}

/* The next folder of a path without digits in its name. */
static struct str next_folder(struct str *rest)
{
    while (rest->n) {
        struct str part = str_cut(rest, '/');
        bool digits = false;

        if (!rest->n) /* the file */
            break;
        for (uint32_t i = 0; i < part.n; i++)
            digits |= is_digit(part.p[i]);
        if (part.n && !digits)
            return part;
    }
    return (struct str){0};
}

bool program_is_same(const struct program *a, const struct program *b)
{
    struct str x = a->path, y = b->path, folder;

    if (!x.n || !y.n)
        return true;
    if (!str_eq(without_version(base_name(x)), without_version(base_name(y))))
        return false;
    do {
        folder = next_folder(&x);
        if (!str_eq(folder, next_folder(&y)))
            return false;
    } while (folder.n);
    return true;
}
