/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory map at the end of legacy profiles, and pprof's heuristics over it. Lines are those of /proc/PID/maps, or
 *
 *     START-END [PERMISSIONS] FILE [(@OFFSET)] [BUILD ID]
 *
 * possibly after a log prefix ("file.cc:12] "). NAME=VALUE lines define $NAME for the lines that follow.
 */
#include <errno.h>

#include "base/buf.h"
#include "base/mem.h"
#include "codec/pprof_legacy.h"

enum {
    VARIABLES_MAX = 256,          /* further ones are not remembered */
    EXPANDED_MAX = 1 << 20,       /* bytes of a line with its variables replaced */
    COMPARISONS_MAX = 2000000000, /* locations x mappings */
};

struct variable {
    struct str name, value; /* name with its '$' */
};

struct variables {
    struct variable v[VARIABLES_MAX];
    size_t n;
};

/* --- reading --- */

static void define(struct variables *vars, struct legacy *l, struct str line)
{
    ptrdiff_t eq = str_find_char(line, '=');
    struct str name, value;
    char *p;

    if (eq < 0 || vars->n == VARIABLES_MAX)
        return;
    name = str_trim(str_slice(line, 0, (size_t) eq));
    value = arena_str(&l->arena, str_trim(str_slice(line, (size_t) eq + 1, line.n)));
    p = arena_printf(&l->arena, "$%.*s", STR_FMT(name));
    if (p)
        vars->v[vars->n++] = (struct variable){{p, name.n + 1}, value};
}

static const struct variable *variable_at(const struct variables *vars, struct str text)
{
    for (size_t i = 0; i < vars->n; i++)
        if (str_starts(text, vars->v[i].name))
            return &vars->v[i];
    return NULL;
}

/* The line with its variables replaced, in scratch. */
static int expand(const struct variables *vars, struct str line, struct buf *scratch, struct str *ret)
{
    if (!vars->n || str_find_char(line, '$') < 0) {
        *ret = line;
        return 0;
    }
    buf_reset(scratch);
    while (line.n) {
        const struct variable *v = *line.p == '$' ? variable_at(vars, line) : NULL;

        if (v)
            buf_put_str(scratch, v->value);
        else
            buf_putc(scratch, *line.p);
        line = str_slice(line, v ? v->name.n : 1, line.n);
    }
    *ret = buf_str(scratch);
    return buf_error(scratch);
}

static int hex(struct str s, uint64_t *ret)
{
    return str_to_u64(s, 16, ret);
}

/* Returns 0 with *ret filled in, 1 for a mapping that is not to be kept, -ENOMSG for other lines. */
static int parse_mapping(struct legacy *l, struct str line, struct legacy_mapping *ret)
{
    struct str g[6], perm, file, offset, build_id = {0};

    if (legacy_match(l, RE_PROC_MAPS, line, g, 5)) {
        perm = g[2];
        offset = g[3];
        file = g[4];
    } else if (legacy_match(l, RE_BRIEF_MAPS, line, g, 6)) {
        perm = g[2];
        file = g[3];
        offset = g[4];
        build_id = g[5];
    } else {
        return -ENOMSG;
    }
    if (perm.n && str_find_char(perm, 'x') < 0)
        return 1;
    *ret = (struct legacy_mapping){0};
    if (hex(g[0], &ret->start) < 0 || hex(g[1], &ret->limit) < 0 || (offset.n && hex(offset, &ret->offset) < 0))
        return -ENOMSG;
    ret->file = arena_str(&l->arena, file);
    ret->build_id = arena_str(&l->arena, build_id);
    return (file.n && !ret->file.p) || (build_id.n && !ret->build_id.p) ? -ENOMEM : 0;
}

static struct str without_log_prefix(struct legacy *l, struct str line)
{
    struct str prefix;

    if (!legacy_match(l, RE_LOG_INFO, line, &prefix, 1))
        return line;
    return str_slice(line, prefix.n, line.n);
}

static int add_mapping(struct legacy *l, const struct legacy_mapping *m)
{
    return array_push(l->mappings, l->n_mappings, l->cap_mappings, UINT32_MAX, *m);
}

static int read_lines(struct legacy *l)
{
    _cleanup_(mem_freep) struct variables *vars = mem_zalloc(sizeof *vars);
    _cleanup_(buf_done) struct buf scratch = BUF_INIT;
    int r = 0;

    if (!vars)
        return -ENOMEM;
    buf_init(&scratch, EXPANDED_MAX);
    while (legacy_scan(l)) {
        struct legacy_mapping m;
        struct str line;

        r = expand(vars, without_log_prefix(l, l->line), &scratch, &line);
        if (r == 0)
            r = parse_mapping(l, line, &m);
        if (r == -ENOMSG)
            define(vars, l, line);
        else if (r == 0)
            r = add_mapping(l, &m);
        if (r < 0 && r != -ENOMSG)
            return r;
    }
    return l->scan_error;
}

/* --- heuristics --- */

static bool differ(struct str a, struct str b)
{
    return a.n && b.n && !str_eq(a, b);
}

/* True for two entries of one mapping that was split. */
static bool adjacent(const struct legacy_mapping *a, const struct legacy_mapping *b)
{
    if (differ(a->file, b->file) || differ(a->build_id, b->build_id) || a->limit != b->start)
        return false;
    return !a->offset || !b->offset || a->offset + (a->limit - a->start) == b->offset;
}

static void join_adjacent(struct legacy *l)
{
    size_t n = 1;

    for (size_t i = 1; i < l->n_mappings; i++) {
        struct legacy_mapping *last = &l->mappings[n - 1], *m = &l->mappings[i];

        if (!adjacent(last, m)) {
            l->mappings[n++] = *m;
            continue;
        }
        last->limit = m->limit;
        if (m->file.n)
            last->file = m->file;
        if (m->build_id.n)
            last->build_id = m->build_id;
    }
    if (l->n_mappings)
        l->n_mappings = n;
}

/* The file name without "(deleted)" and surrounding white space, in scratch. */
static struct str plain_file(struct str file, struct buf *scratch)
{
    ptrdiff_t at;

    buf_reset(scratch);
    while ((at = str_find(file, STR("(deleted)"))) >= 0) {
        buf_put_str(scratch, str_slice(file, 0, (size_t) at));
        file = str_slice(file, (size_t) at + strlen("(deleted)"), file.n);
    }
    buf_put_str(scratch, file);
    return str_trim(buf_str(scratch));
}

/* The first mapping that is neither a library nor part of the kernel is assumed to be the program and comes first. */
static int main_first(struct legacy *l)
{
    _cleanup_(buf_done) struct buf scratch = BUF_INIT;

    for (size_t i = 0; i < l->n_mappings; i++) {
        struct str file = plain_file(l->mappings[i].file, &scratch);
        struct legacy_mapping m = l->mappings[0];

        if (!file.n || legacy_match(l, RE_LIBRARY, file, NULL, 0) || file.p[0] == '[')
            continue;
        l->mappings[0] = l->mappings[i];
        l->mappings[i] = m;
        break;
    }
    return buf_error(&scratch);
}

static bool find_mapping(struct legacy *l, uint64_t address, uint32_t *ret)
{
    for (size_t i = 0; i < l->n_mappings; i++)
        if (l->mappings[i].start <= address && address < l->mappings[i].limit) {
            *ret = (uint32_t) i + 1;
            return true;
        }
    /* Some profilers left out the first part of a mapping that was split. */
    for (size_t i = 0; i < l->n_mappings; i++) {
        struct legacy_mapping *m = &l->mappings[i];

        if (m->offset && m->start - m->offset <= address && address < m->start) {
            m->start -= m->offset;
            m->offset = 0;
            *ret = (uint32_t) i + 1;
            return true;
        }
    }
    return false;
}

int legacy_map_locations(struct legacy *l)
{
    static const uint64_t program_start = 0x400000;
    struct legacy_mapping *m = l->mappings;
    uint32_t fake = 0;

    if (l->n_mappings > 1 && str_starts(m->file, STR("/anon_hugepage")) && m[0].limit == m[1].start)
        memmove(m, m + 1, --l->n_mappings * sizeof *m);
    if (l->n_mappings && m->start - m->offset == program_start) {
        m->start = program_start;
        m->offset = 0;
    }
    if ((uint64_t) l->n_locations * l->n_mappings > COMPARISONS_MAX)
        return err_set(l->e, -E2BIG, "pprof: %zu locations and %zu mappings are too many", l->n_locations,
                       l->n_mappings);
    for (size_t i = 0; i < l->n_locations; i++) {
        struct legacy_location *loc = &l->locations[i];

        if (!loc->address || find_mapping(l, loc->address, &loc->mapping))
            continue;
        if (!fake) {
            int r = add_mapping(l, &(struct legacy_mapping){.limit = UINT64_MAX});

            if (r < 0)
                return r;
            fake = (uint32_t) l->n_mappings;
        }
        loc->mapping = fake;
    }
    return 0;
}

/* --- numbering --- */

static int renumber_locations(struct legacy *l)
{
    _cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(l->n_locations + 1, sizeof *to);
    struct legacy_location *kept = mem_zalloc_array(l->n_locations + 1, sizeof *kept);
    uint32_t n = 0;

    if (!to || !kept) {
        mem_free(kept);
        return -ENOMEM;
    }
    for (size_t i = 0; i < l->n_samples; i++)
        for (size_t k = 0; k < l->samples[i].n; k++) {
            uint32_t *ref = &l->refs[l->samples[i].first + k];

            if (!to[*ref]) {
                kept[n] = l->locations[*ref];
                to[*ref] = ++n;
            }
            *ref = to[*ref] - 1;
        }
    mem_free(l->locations);
    l->locations = kept;
    l->cap_locations = l->n_locations + 1;
    l->n_locations = n;
    map_reset(&l->by_address);
    return 0;
}

static int renumber_functions(struct legacy *l)
{
    _cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(l->n_functions + 1, sizeof *to);
    struct legacy_function *kept = mem_zalloc_array(l->n_functions + 1, sizeof *kept);
    uint32_t n = 0;

    if (!to || !kept) {
        mem_free(kept);
        return -ENOMEM;
    }
    for (size_t i = 0; i < l->n_locations; i++) {
        uint32_t f = l->locations[i].function;

        if (!f)
            continue;
        if (!to[f - 1]) {
            kept[n] = l->functions[f - 1];
            to[f - 1] = ++n;
        }
        l->locations[i].function = to[f - 1];
    }
    mem_free(l->functions);
    l->functions = kept;
    l->cap_functions = l->n_functions + 1;
    l->n_functions = n;
    map_reset(&l->by_name);
    return 0;
}

int legacy_renumber(struct legacy *l)
{
    int r = renumber_locations(l);

    return r < 0 ? r : renumber_functions(l);
}

int legacy_read_maps(struct legacy *l)
{
    int r = read_lines(l);

    if (r < 0)
        return r;
    join_adjacent(l);
    r = main_first(l);
    if (r == 0)
        r = legacy_renumber(l);
    return r < 0 ? r : legacy_map_locations(l);
}

int legacy_read_sections(struct legacy *l)
{
    while (!legacy_is_maps_start(l->line) && legacy_scan(l))
        ;
    return l->scan_error < 0 ? l->scan_error : legacy_read_maps(l);
}
