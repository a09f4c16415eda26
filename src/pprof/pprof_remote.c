/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up names in the process that a profile was fetched from (pprof_remote.h). */
#include "pprof/pprof_remote.h"

#include <errno.h>
#include <inttypes.h>

#include "base/hash.h"
#include "base/mem.h"
#include "pprof/pprof_fetch.h"
#include "report/gopath.h"

enum { ORIGINS_MAX = 1 << 20 };

void pprof_origins_done(struct pprof_origins *o)
{
    mem_free(o->v);
    *o = (struct pprof_origins){0};
}

int pprof_origins_add(struct pprof_origins *o, struct prof *p, struct str url)
{
    uint32_t id = strtab_copy(&p->pool->strings, url);

    if (strtab_error(&p->pool->strings) < 0)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_mappings; i++) {
        struct prof_mapping *m = &p->mappings[i];
        int r = array_reserve(o->v, o->cap, o->n + 1, ORIGINS_MAX);

        if (r < 0)
            return r;
        if (!m->build_id && !m->file)
            m->file = id;
        o->v[o->n++] = (struct pprof_origin){m->build_id ? m->build_id : m->file, id, m->start};
    }
    return 0;
}

void pprof_origins_forget(struct prof *p)
{
    for (size_t i = 1; i < p->n_mappings; i++) {
        struct prof_mapping *m = &p->mappings[i];

        if (!m->build_id && str_find(prof_str(p, m->file), STR("://")) > 0)
            m->file = 0;
    }
}

static bool is_symbol_path(struct str path)
{
    static const char *const gperftools[] = {"/pprof/heap", "/pprof/growth", "/pprof/profile", "/pprof/pmuprofile",
                                             "/pprof/contention"};

    if (str_find(path, STR("/debug/pprof/")) >= 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(gperftools); i++)
        if (str_ends(path, str_from(gperftools[i])))
            return true;
    return false;
}

bool pprof_symbol_url(struct str url, struct buf *out)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT, clean = BUF_INIT;
    ptrdiff_t scheme = str_find(url, STR("://")), slash, query;
    struct str host, path;

    if (scheme <= 0)
        return false;
    query = str_find_char(url, '?');
    url = str_slice(url, 0, query >= 0 ? (size_t) query : url.n);
    host = str_slice(url, (size_t) scheme + 3, url.n);
    slash = str_find_char(host, '/');
    path = slash >= 0 ? str_slice(host, (size_t) slash, host.n) : STR("");
    host = str_slice(host, 0, host.n - path.n);
    if (!host.n)
        return false;
    buf_put_str(&raw, path);
    buf_puts(&raw, is_symbol_path(path) ? "/../symbol" : "/../symbolz");
    gopath_clean(&clean, buf_str(&raw));
    buf_put_str(out, str_slice(url, 0, (size_t) scheme + 3 + host.n));
    if (clean.n && clean.p[0] != '/')
        buf_putc(out, '/');
    buf_put_str(out, buf_str(&clean));
    return true;
}

/* --- the answer --- */

struct named {
    uint64_t address;
    uint32_t function;
};

struct remote_naming {
    struct prof *p;
    int64_t offset; /* difference between the profile's addresses and those of the process */
    struct named *v;
    size_t n, cap;
    struct map by_address, by_name; /* indices into v; functions by the id of their name */
};

/* Adds the offset to an address; false if it would wrap around. */
static bool adjust(uint64_t address, int64_t offset, uint64_t *ret)
{
    *ret = address + (uint64_t) offset;
    return offset < 0 ? *ret < address : *ret >= address;
}

static int64_t function_named(struct remote_naming *x, struct str name)
{
    uint32_t id = strtab_copy(&x->p->pool->strings, name);
    uint64_t h = hash64_u64(id);
    int64_t i;

    if (strtab_error(&x->p->pool->strings) < 0)
        return -ENOMEM;
    for (struct map_pos at = map_find(&x->by_name, h); at.index != MAP_NONE; at = map_next(&x->by_name, at))
        if (x->p->functions[at.index].name == id)
            return at.index;
    i = prof_add_function(x->p, &(struct prof_function){.name = id, .system_name = id});
    return i >= 0 && map_insert(&x->by_name, h, (uint32_t) i) < 0 ? -ENOMEM : i;
}

static struct named *find_named(const struct remote_naming *x, uint64_t address)
{
    for (struct map_pos at = map_find(&x->by_address, hash64_u64(address)); at.index != MAP_NONE;
         at = map_next(&x->by_address, at))
        if (x->v[at.index].address == address)
            return &x->v[at.index];
    return NULL;
}

static int add_name(struct remote_naming *x, uint64_t address, struct str name)
{
    struct named *known = find_named(x, address);
    int64_t f = function_named(x, name);
    int r;

    if (f < 0)
        return (int) f;
    if (known) { /* the last one wins */
        known->function = (uint32_t) f;
        return 0;
    }
    r = array_reserve(x->v, x->cap, x->n + 1, UINT32_MAX / 2);
    if (r < 0)
        return r;
    x->v[x->n] = (struct named){address, (uint32_t) f};
    return map_insert(&x->by_address, hash64_u64(address), (uint32_t) x->n++);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Finds "0xADDRESS NAME" anywhere in a line that still has its '\n'. */
static bool split_line(struct str line, struct str *ret_address, struct str *ret_name)
{
    for (size_t i = 0; i + 2 < line.n; i++) {
        size_t end = i + 2, name;

        if (line.p[i] != '0' || line.p[i + 1] != 'x')
            continue;
        while (end < line.n && is_hex(line.p[end]))
            end++;
        name = end;
        while (name < line.n && is_blank(line.p[name]))
            name++;
        if (end == i + 2 || name == end)
            continue;
        *ret_address = str_slice(line, i + 2, end);
        *ret_name = name < line.n ? str_slice(line, name, line.n - 1) : STR("");
        return true;
    }
    return false;
}

static int read_answer(struct remote_naming *x, struct str text, struct err *e)
{
    while (text.n) {
        ptrdiff_t end = str_find_char(text, '\n');
        struct str line, digits, name;
        uint64_t asked, address;
        int r;

        if (end < 0) /* cut short */
            return 0;
        line = str_slice(text, 0, (size_t) end + 1);
        text = str_slice(text, (size_t) end + 1, text.n);
        if (!split_line(line, &digits, &name))
            continue;
        if (str_to_u64(digits, 16, &asked) < 0)
            return err_set(e, -EBADMSG,
                           "unexpected parse failure 0x%.*s: strconv.ParseUint: parsing \"0x%.*s\": value out of range",
                           STR_FMT(digits), STR_FMT(digits));
        if (!adjust(asked, -x->offset, &address))
            return err_set(e, -ERANGE, "cannot adjust symbolz address %" PRIu64 " by %" PRId64 ", it would overflow",
                           asked, -x->offset);
        r = add_name(x, address, name);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- the request --- */

static int put_question(const struct remote_naming *x, uint32_t mapping, struct buf *out, struct err *e)
{
    for (size_t i = 1; i < x->p->n_locations; i++) {
        const struct prof_location *l = &x->p->locations[i];
        uint64_t address;

        if (l->mapping != mapping || !l->address || l->lines.n)
            continue;
        if (!adjust(l->address, x->offset, &address))
            return err_set(e, -ERANGE, "cannot adjust address %" PRIu64 " by %" PRId64 ", it would overflow",
                           l->address, x->offset);
        buf_printf(out, "%s0x%" PRIx64, out->n ? "+" : "", address);
    }
    return buf_error(out);
}

static int set_names(struct remote_naming *x, uint32_t mapping)
{
    for (size_t i = 1; i < x->p->n_locations; i++) {
        struct prof_location *l = &x->p->locations[i];
        const struct named *known = l->mapping == mapping ? find_named(x, l->address) : NULL;
        int64_t at;

        if (!known)
            continue;
        at = prof_add_lines(x->p, &(struct line){.function = known->function}, 1);
        if (at < 0)
            return (int) at;
        l = &x->p->locations[i];
        l->lines = (struct run){(uint32_t) at, 1};
    }
    return 0;
}

static int symbolize_mapping(struct prof *p, uint32_t mapping, const struct pprof_origin *from, struct str url,
                             const struct pprof_args *a, struct err *e)
{
    _cleanup_(buf_done) struct buf question = BUF_INIT, answer = BUF_INIT;
    struct remote_naming x = {.p = p, .offset = (int64_t) (from->start - p->mappings[mapping].start)};
    int r = put_question(&x, mapping, &question, e);

    if (r >= 0 && question.n) {
        r = pprof_post(a, url, buf_str(&question), &answer, e);
        if (r >= 0)
            r = read_answer(&x, buf_str(&answer), e);
        if (r >= 0)
            r = set_names(&x, mapping);
    }
    map_done(&x.by_address);
    map_done(&x.by_name);
    mem_free(x.v);
    return r;
}

/* By file first, then by build id, as in pprof. */
static const struct pprof_origin *find_origin(const struct prof *p, const struct prof_mapping *m,
                                              const struct pprof_origins *o, struct buf *url)
{
    const uint32_t keys[] = {m->file, m->build_id};

    for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
        for (size_t i = 0; keys[k] && i < o->n; i++)
            if (o->v[i].key == keys[k] && pprof_symbol_url(prof_str(p, o->v[i].url), url))
                return &o->v[i];
    return NULL;
}

int pprof_symbolize_remote(struct prof *p, bool force, const struct pprof_origins *o, const struct pprof_args *a,
                           struct err *e)
{
    _cleanup_(buf_done) struct buf url = BUF_INIT;

    for (uint32_t i = 1; i < p->n_mappings; i++) {
        const struct pprof_origin *from;
        int r;

        if (!force && p->mappings[i].has_functions)
            continue;
        buf_reset(&url);
        from = find_origin(p, &p->mappings[i], o, &url);
        if (!from)
            continue;
        r = symbolize_mapping(p, i, from, buf_str(&url), a, e);
        if (r < 0)
            return r;
        p->mappings[i].has_functions = true;
    }
    return 0;
}
