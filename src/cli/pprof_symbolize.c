/* SPDX-License-Identifier: Apache-2.0 */
/* See pprof_symbolize.h. */
#include "cli/pprof_symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/pprof_source.h"
#include "elf/demangle.h"
#include "report/gopath.h"

bool pprof_is_binary(const char *path)
{
    char magic[4];
    int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    bool elf;

    if (fd < 0)
        return false;
    elf = fd_pread_all(fd, magic, sizeof(magic), 0) >= 0 && memcmp(magic, "\177ELF", 4) == 0;
    fd_close(fd);
    return elf;
}

/* A fake mapping over everything, so that a profile without any can still be symbolised. */
static int add_fake_mapping(struct prof *p)
{
    int64_t m;

    if (p->n_mappings > 1)
        return 0;
    m = prof_add_mapping(p, &(struct prof_mapping){0});
    if (m < 0)
        return (int) m;
    for (size_t i = 1; i < p->n_locations; i++)
        p->locations[i].mapping = (uint32_t) m;
    return 0;
}

int pprof_locate_binaries(struct prof *p, struct str binary, struct str build_id, struct err *e)
{
    int r = add_fake_mapping(p);

    if (r < 0)
        return err_set(e, r, "not enough memory for the profile");
    if (binary.n)
        p->mappings[1].file = strtab_copy(&p->pool->strings, binary);
    if (build_id.n && !p->mappings[1].build_id)
        p->mappings[1].build_id = strtab_copy(&p->pool->strings, build_id);
    return 0;
}

struct mode {
    bool none, local, remote, fast, force;
    enum demangle_mode demangle;
};

static void parse_mode(struct str text, struct mode *m)
{
    struct str rest = text;

    *m = (struct mode){.local = true, .remote = true, .demangle = DEMANGLE_SIMPLE};
    while (rest.n) {
        struct str o = str_cut(&rest, ':');
        char low[32] = "";

        for (size_t i = 0; i < o.n && i < sizeof(low) - 1; i++)
            low[i] = (char) (o.p[i] >= 'A' && o.p[i] <= 'Z' ? o.p[i] | 0x20 : o.p[i]);
        o = str_from(low);
        if (!o.n)
            continue;
        if (str_starts(o, STR("demangle=")))
            o = str_slice(o, 9, o.n);
        if (str_is(o, "none") || str_is(o, "no")) {
            if (low[0] == 'd') {
                m->demangle = DEMANGLE_NONE;
                m->force = true;
                continue;
            }
            m->none = true;
            return;
        }
        if (str_is(o, "local") || str_is(o, "fastlocal")) {
            m->local = true;
            m->remote = false;
            m->fast = str_is(o, "fastlocal");
        } else if (str_is(o, "remote")) {
            m->remote = true;
            m->local = false;
        } else if (str_is(o, "force")) {
            m->force = true;
        } else if (str_is(o, "full") || str_is(o, "templates")) {
            m->demangle = str_is(o, "full") ? DEMANGLE_FULL : DEMANGLE_TEMPLATES;
            m->force = true;
        } else if (!str_is(o, "default")) {
            fprintf(stderr, "ignoring unrecognized symbolization option: %.*s\n", STR_FMT(text));
            fputs(
                "expecting -symbolize=[local|fastlocal|remote|none][:force][:demangle=[none|full|templates|default]\n",
                stderr);
        }
    }
}

/* System mappings ("[vdso]") that no file stands behind. */
static bool unsymbolizable(struct str file)
{
    struct str name = gopath_base(file);

    return str_starts(name, STR("[")) || str_starts(name, STR("linux-vdso")) || str_starts(file, STR("/dev/dri/")) ||
           str_is(file, "//anon") || !file.n || str_starts(file, STR("/memfd:"));
}

static bool is_url(struct str file)
{
    ptrdiff_t at = str_find(file, STR("://"));

    return at > 0 && str_find(str_slice(file, 0, (size_t) at), STR("http")) >= 0;
}

static void say_failed(const struct prof *p, const struct prof_mapping *m, const char *why)
{
    struct str file = prof_str(p, m->file), id = prof_str(p, m->build_id);

    fprintf(stderr, "Local symbolization failed for %.*s", STR_FMT(gopath_base(file)));
    if (id.n)
        fprintf(stderr, " (build ID %.*s)", STR_FMT(id));
    fprintf(stderr, ": %s\n", why);
}

/* False when the mapping's binary is not there. */
static bool symbolize_mapping(struct prof *p, uint32_t i, bool force)
{
    struct prof_mapping *m = &p->mappings[i];
    struct str file = prof_str(p, m->file);
    char path[4096], why[4200];
    struct stat st;

    if (!force && (m->has_functions || m->has_filenames || m->has_line_numbers))
        return true;
    if (!file.n) {
        if (i == 1)
            fputs("Main binary filename not available.\n", stderr);
        return i == 1;
    }
    if (unsymbolizable(file) || (!m->build_id && is_url(file)))
        return true;
    snprintf(path, sizeof(path), "%.*s", STR_FMT(file));
    if (stat(path, &st) < 0) {
        snprintf(why, sizeof(why), "stat %s: %s", path,
                 errno == ENOENT ? "no such file or directory" : strerror(errno));
        say_failed(p, m, why);
        return false;
    }
    return true;
}

static int symbolize_local(struct prof *p, bool force)
{
    _cleanup_(mem_freep) uint8_t *used = mem_zalloc(p->n_mappings);
    bool missing = false;

    if (!used)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_locations; i++)
        used[p->locations[i].mapping] = 1;
    for (uint32_t i = 1; i < p->n_mappings; i++)
        missing |= used[i] && !symbolize_mapping(p, i, force);
    if (missing)
        fputs("Some binary filenames not available. Symbolization may be incomplete.\n"
              "Try setting PPROF_BINARY_PATH to the search path for local binaries.\n",
              stderr);
    return 0;
}

static int demangle_all(struct prof *p, const struct mode *m)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct strtab *t = &p->pool->strings;

    for (size_t i = 1; i < p->n_functions; i++) {
        struct prof_function *f = &p->functions[i];

        if (m->force && f->name && f->system_name)
            f->name = f->system_name;
        if (m->demangle == DEMANGLE_NONE || (f->name && f->name != f->system_name))
            continue;
        buf_reset(&out);
        if (demangle_function(strtab_get(t, f->system_name), m->demangle, &out) < 0)
            return -ENOMEM;
        f->name = strtab_copy(t, buf_str(&out));
    }
    return strtab_error(t);
}

int pprof_symbolize(struct prof *p, struct str text, struct err *e)
{
    struct mode m;
    int r;

    parse_mode(text, &m);
    if (m.none)
        return 0;
    r = m.local ? symbolize_local(p, m.force) : 0;
    if (r >= 0)
        r = demangle_all(p, &m);
    return r < 0 ? err_set(e, r, "not enough memory to symbolize") : 0;
}
