/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the binaries of a profile, and adds names and lines from them (pprof_symbolize.h). */
#include "pprof/pprof_symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "pprof/pprof_objects.h"
#include "pprof/pprof_remote.h"
#include "pprof/pprof_source.h"
#include "demangle/demangle.h"
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

/* --- finding binaries --- */

/* Tries a binary for a mapping; returns 1 if it matches. Its build id must be the mapping's. */
static int try_binary(struct prof *p, struct prof_mapping *m, struct pprof_objects *o, struct buf *name)
{
    struct report_objects *table = pprof_objects_table(o);
    struct report_mapping where = {buf_str(name), m->start, m->limit, m->offset};
    struct str id = prof_str(p, m->build_id);
    struct report_object *x;

    if (!buf_cstr(name))
        return -ENOMEM;
    if (table->open(table, &where, &x, NULL) < 0)
        return 0;
    if (id.n && !str_is(id, pprof_object_build_id(x))) {
        fprintf(stderr, "Ignoring local file %s: build-id mismatch (%.*s != %s)\n", name->p, STR_FMT(id),
                pprof_object_build_id(x));
        return 0;
    }
    m->file = strtab_copy(&p->pool->strings, where.file);
    return strtab_error(&p->pool->strings) < 0 ? -ENOMEM : 1;
}

/* Joins the non-empty parts to a clean path. */
static void join(struct buf *out, struct str a, struct str b, struct str c, struct str d)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT;
    struct str all[] = {a, b, c, d};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i].n) {
            if (raw.n)
                buf_putc(&raw, '/');
            buf_put_str(&raw, all[i]);
        }
    gopath_clean(out, buf_str(&raw));
}

/* FOLDER/BUILD-ID/NAME, any file of FOLDER/BUILD-ID, perf's and LLVM's layouts. */
static int locate_by_id(struct prof *p, struct prof_mapping *m, struct pprof_objects *o, struct str folder)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT, rest = BUF_INIT;
    struct str id = prof_str(p, m->build_id), file = prof_str(p, m->file);
    glob_t found = {0};
    int r;

    join(&name, folder, id, file.n ? gopath_base(file) : STR(""), STR(""));
    r = try_binary(p, m, o, &name);
    join(&name, folder, id, STR("*"), STR(""));
    if (r == 0 && buf_cstr(&name) && glob(name.p, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && r == 0; i++) {
            buf_reset(&name);
            buf_puts(&name, found.gl_pathv[i]);
            r = try_binary(p, m, o, &name);
        }
    globfree(&found);
    join(&name, folder, file, id, STR(""));
    if (r == 0)
        r = try_binary(p, m, o, &name);
    if (r == 0 && id.n > 2) {
        buf_printf(&rest, "%.*s.debug", (int) id.n - 2, id.p + 2);
        join(&name, folder, str_slice(id, 0, 2), buf_str(&rest), STR(""));
        r = try_binary(p, m, o, &name);
    }
    return r;
}

/* By name: in the layouts of perf's symfs and of gdb's debug file directories. */
static int locate_by_name(struct prof *p, struct prof_mapping *m, struct pprof_objects *o, struct str folder)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT, debug = BUF_INIT, dir = BUF_INIT, whole = BUF_INIT;
    struct str file = prof_str(p, m->file), base = gopath_base(file);
    int r = 0;

    gopath_dir(&dir, file);
    buf_printf(&debug, "%.*s.debug", STR_FMT(base));
    buf_printf(&whole, "%.*s.debug", STR_FMT(file));
    for (int i = 0; i < 5 && r == 0; i++) {
        if (i == 0)
            join(&name, folder, base, STR(""), STR(""));
        else if (i == 1)
            join(&name, folder, file, STR(""), STR(""));
        else if (i == 2)
            join(&name, folder, buf_str(&whole), STR(""), STR(""));
        else if (i == 3)
            join(&name, folder, buf_str(&dir), STR(".debug"), buf_str(&debug));
        else
            join(&name, folder, STR("usr/lib/debug"), buf_str(&dir), buf_str(&debug));
        r = try_binary(p, m, o, &name);
    }
    return r;
}

static int locate_mapping(struct prof *p, struct prof_mapping *m, struct pprof_objects *o, struct str path)
{
    int r = 0;

    while (path.n && r == 0) {
        struct str folder = str_cut(&path, ':');

        if (m->build_id)
            r = locate_by_id(p, m, o, folder);
        if (r == 0 && m->file)
            r = locate_by_name(p, m, o, folder);
    }
    return r < 0 ? r : 0;
}

/* $PPROF_BINARY_PATH, or $HOME/pprof/binaries; false if that folder does not exist. */
static bool search_path(struct buf *out)
{
    const char *own = getenv("PPROF_BINARY_PATH"), *home = getenv("HOME");
    struct stat st;

    if (own && *own) {
        buf_puts(out, own);
        return buf_cstr(out);
    }
    buf_printf(out, "%s/pprof/binaries", home ? home : "");
    return buf_cstr(out) && stat(out->p, &st) == 0;
}

/* Adds a fake mapping over all addresses, so that a profile without mappings can be symbolised. */
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
    _cleanup_(pprof_objects_freep) struct pprof_objects *o = NULL;
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    int r = 0;

    if (p->n_mappings > 1 && search_path(&path)) {
        r = pprof_objects_new(STR(""), &o, e);
        for (size_t i = 1; i < p->n_mappings && r >= 0; i++)
            r = locate_mapping(p, &p->mappings[i], o, buf_str(&path));
    }
    if (r >= 0)
        r = add_fake_mapping(p);
    if (r < 0)
        return err_set(e, r, "not enough memory for the profile");
    if (binary.n)
        p->mappings[1].file = strtab_copy(&p->pool->strings, binary);
    if (build_id.n && !p->mappings[1].build_id)
        p->mappings[1].build_id = strtab_copy(&p->pool->strings, build_id);
    return 0;
}

/* --- modes --- */

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

/* System mappings ("[vdso]") that have no file. */
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

struct symbolizing {
    struct prof *p;
    struct pprof_objects *objects;
    bool fast, force, missing;
    struct map functions; /* functions created here, by content */
    size_t first_function;
};

/* The function, shared by equal ones; only functions created by symbolization are compared. */
static int64_t function_of(struct symbolizing *s, const struct prof_function *f)
{
    struct prof *p = s->p;
    uint64_t h = hash_mix(hash64_u64((uint64_t) f->name << 32 | f->filename), hash64_u64((uint64_t) f->start_line));
    int64_t i;

    for (struct map_pos at = map_find(&s->functions, h); at.index != MAP_NONE; at = map_next(&s->functions, at)) {
        const struct prof_function *x = &p->functions[at.index];

        if (x->name == f->name && x->filename == f->filename && x->start_line == f->start_line)
            return at.index;
    }
    i = prof_add_function(p, f);
    return i >= 0 && map_insert(&s->functions, h, (uint32_t) i) < 0 ? -ENOMEM : i;
}

static int set_line(struct symbolizing *s, struct prof_mapping *m, const struct symbol_frame *f, struct line *ret)
{
    struct strtab *t = &s->p->pool->strings;
    struct prof_function fn = {.start_line = f->start_line};
    int64_t i;

    fn.name = fn.system_name = strtab_copy(t, f->system_name);
    fn.filename = strtab_copy(t, f->file);
    if (strtab_error(t) < 0)
        return -ENOMEM;
    m->has_functions |= f->system_name.n > 0;
    m->has_filenames |= f->file.n > 0;
    m->has_line_numbers |= f->line != 0;
    i = function_of(s, &fn);
    if (i < 0)
        return (int) i;
    *ret = (struct line){(uint32_t) i, f->line, f->column};
    return 0;
}

/* Sets the lines of a location; if nothing is known, it gets one without a name, as in pprof. */
static int set_lines(struct symbolizing *s, struct prof_mapping *m, struct prof_location *l,
                     const struct symbol_frame *frames, uint32_t n)
{
    static const struct symbol_frame nothing;
    struct line lines[512];
    int64_t at;

    if (n == 0) {
        frames = &nothing;
        n = 1;
    }
    n = MIN(n, (uint32_t) ARRAY_SIZE(lines));
    for (uint32_t i = 0; i < n; i++) {
        int r = set_line(s, m, &frames[i], &lines[i]);

        if (r < 0)
            return r;
    }
    at = prof_add_lines(s->p, lines, n);
    if (at < 0)
        return (int) at;
    l->lines = (struct run){(uint32_t) at, n};
    l->is_folded = false;
    m->has_inline_frames = true;
    return 0;
}

/* Looks up all locations of mapping i in the binary. */
static int symbolize_locations(struct symbolizing *s, uint32_t i, struct report_object *x)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *answer = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = mem_zalloc_array(s->p->n_locations + 1, sizeof(*addresses));
    uint32_t n = 0;
    int r;

    if (!addresses)
        return -ENOMEM;
    for (size_t k = 1; k < s->p->n_locations; k++)
        if (s->p->locations[k].mapping == i)
            addresses[n++] = s->p->locations[k].address;
    r = pprof_object_resolve(x, addresses, n, &answer, NULL);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* the addresses do not belong to the binary: nothing is known about them */
    n = 0;
    for (size_t k = 1; k < s->p->n_locations && r >= 0; k++)
        if (s->p->locations[k].mapping == i) {
            uint32_t from = answer->first[n], to = answer->first[n + 1];

            r = set_lines(s, &s->p->mappings[i], &s->p->locations[k], answer->frames + from, to - from);
            n++;
        }
    return r;
}

/* fastlocal: one name each, if nm has one. */
static int name_locations(struct symbolizing *s, uint32_t i, struct report_object *x)
{
    for (size_t k = 1; k < s->p->n_locations; k++) {
        struct prof_location *l = &s->p->locations[k];
        struct symbol_frame f = {0};
        int r;

        if (l->mapping != i || pprof_object_name(x, l->address, &f.system_name) < 0 || !f.system_name.n)
            continue;
        r = set_lines(s, &s->p->mappings[i], l, &f, 1);
        if (r < 0)
            return r;
    }
    return 0;
}

static int symbolize_mapping(struct symbolizing *s, uint32_t i)
{
    struct prof *p = s->p;
    struct prof_mapping *m = &p->mappings[i];
    struct report_objects *table = pprof_objects_table(s->objects);
    struct str file = prof_str(p, m->file), id = prof_str(p, m->build_id);
    struct report_mapping where = {file, m->start, m->limit, m->offset};
    struct report_object *x;
    struct err e = {0};
    int r;

    if (!s->force && (m->has_functions || m->has_filenames || m->has_line_numbers))
        return 0;
    if (!file.n) {
        if (i == 1)
            fputs("Main binary filename not available.\n", stderr);
        s->missing |= i != 1;
        return 0;
    }
    if (unsymbolizable(file) || (!m->build_id && is_url(file)))
        return 0;
    r = table->open(table, &where, &x, &e);
    if (r == -ENOMEM)
        return r;
    if (r < 0) {
        say_failed(p, m, err_message(&e, r));
        s->missing = true;
        return 0;
    }
    if (id.n && *pprof_object_build_id(x) && !str_is(id, pprof_object_build_id(x))) {
        say_failed(p, m, "build ID mismatch");
        return 0;
    }
    return s->fast ? name_locations(s, i, x) : symbolize_locations(s, i, x);
}

static int symbolize_local(struct prof *p, const struct mode *m, struct str tools, struct err *e)
{
    _cleanup_(mem_freep) uint8_t *used = mem_zalloc(p->n_mappings);
    _cleanup_(pprof_objects_freep) struct pprof_objects *objects = NULL;
    struct symbolizing s = {.p = p, .fast = m->fast, .force = m->force};
    int r = used ? pprof_objects_new(tools, &objects, e) : -ENOMEM;

    s.objects = objects;
    for (size_t i = 1; i < p->n_locations && r >= 0; i++)
        used[p->locations[i].mapping] = 1;
    for (uint32_t i = 1; i < p->n_mappings && r >= 0; i++)
        if (used[i])
            r = symbolize_mapping(&s, i);
    map_done(&s.functions);
    if (s.missing)
        fputs("Some binary filenames not available. Symbolization may be incomplete.\n"
              "Try setting PPROF_BINARY_PATH to the search path for local binaries.\n",
              stderr);
    return r;
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

int pprof_symbolize(struct prof *p, const struct pprof_args *a, const struct pprof_origins *origins, struct err *e)
{
    struct mode m;
    int r;

    parse_mode(a->symbolize, &m);
    if (m.none)
        return 0;
    r = m.local ? symbolize_local(p, &m, a->tools, e) : 0;
    if (r >= 0 && m.remote) {
        r = pprof_symbolize_remote(p, m.force, origins, a, e);
        if (r < 0 && r != -ENOMEM)
            return r;
    }
    if (r >= 0)
        r = demangle_all(p, &m);
    return r < 0 ? err_set(e, r, "not enough memory to symbolize") : 0;
}
