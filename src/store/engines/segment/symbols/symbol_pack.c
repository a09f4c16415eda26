/* SPDX-License-Identifier: Apache-2.0 */
/* Packs symbol definitions into columns and unpacks them; see symbol_pack.h. The input of unpacking comes from disk, so
 * every number is checked. */
#include "store/engines/segment/symbols/symbol_pack.h"

#include <errno.h>
#include <stdlib.h>

#include "store/engines/segment/format/column.h"
#include "store/engines/segment/symbols/symbols_add.h"

#define NONE UINT32_MAX

enum { LEVEL = 6, LINES_MAX = 256, LABELS_MAX = 64 };

enum counted { STRINGS, MAPPINGS, FUNCTIONS, LOCATIONS, SERVICES, SERIES, NAMES, RUNS, COUNTED, STARTS = 6 };

enum column {
    C_LENGTH,
    C_BYTES,
    C_MAPPING,
    C_F_NAME,
    C_F_SYSTEM,
    C_F_FILE,
    C_F_START,
    C_L_MAPPING,
    C_L_ADDRESS,
    C_L_REST,
    C_N_FUNCTION,
    C_N_LINE,
    C_SERVICE,
    C_SERIES,
    C_NAMED,
    C_RUN,
    C_PARENT,
    C_NODE_LOW,
    C_NODE_REST,
    COLUMNS
};

/* --- packing --- */

/* Nodes in the order in which they were added, one run per stack; adjacent runs of one service are joined. */
struct run_of_nodes {
    uint32_t service, first, n;
    size_t at;
};

struct packed_node {
    uint32_t up, location;
};

struct packing {
    struct cursor *r;
    struct run_of_nodes *runs;
    struct packed_node *nodes;
    size_t cap_runs, cap_nodes, n_runs, n_nodes;
    bool no_memory;
    struct buf names; /* in order: their lines come after those of all locations */
    struct buf columns[COLUMNS];
    uint64_t start[STARTS], n[COUNTED];
    uint64_t name, file, mapping, address, function; /* the previous value of each */
};

/* Writes v relative to *last, which becomes v. */
static void put_against(struct buf *b, uint64_t v, uint64_t *last)
{
    put_zigzag(b, (int64_t) (v - *last));
    *last = v;
}

static void copy_varints(struct cursor *r, struct buf *to, uint32_t n)
{
    while (n-- > 0)
        put_varint(to, get_varint(r));
}

static void pack_function(struct packing *x)
{
    put_against(&x->columns[C_F_NAME], get_varint(x->r), &x->name);
    put_varint(&x->columns[C_F_SYSTEM], get_varint(x->r));
    put_against(&x->columns[C_F_FILE], get_varint(x->r), &x->file);
    put_varint(&x->columns[C_F_START], get_varint(x->r));
}

static void pack_lines(struct packing *x, struct buf *count)
{
    uint64_t n = get_varint(x->r);

    put_varint(count, n);
    for (; n && !x->r->bad; n--) {
        put_against(&x->columns[C_N_FUNCTION], get_varint(x->r), &x->function);
        copy_varints(x->r, &x->columns[C_N_LINE], 2);
    }
}

static void pack_location(struct packing *x)
{
    put_against(&x->columns[C_L_MAPPING], get_varint(x->r), &x->mapping);
    put_against(&x->columns[C_L_ADDRESS], get_varint(x->r), &x->address);
    copy_varints(x->r, &x->columns[C_L_REST], 3);
    pack_lines(x, &x->columns[C_L_REST]);
}

static void take_names(struct packing *x)
{
    uint64_t n;

    copy_varints(x->r, &x->names, 1);
    n = get_varint(x->r);
    put_varint(&x->names, n);
    for (; n && !x->r->bad; n--)
        copy_varints(x->r, &x->names, 3);
    x->n[NAMES]++;
}

static void pack_names(struct packing *x)
{
    struct cursor names = cursor_of(x->names.p, x->names.n), *r = x->r;

    x->r = &names;
    for (uint64_t i = 0; i < x->n[NAMES]; i++) {
        copy_varints(x->r, &x->columns[C_NAMED], 1);
        pack_lines(x, &x->columns[C_NAMED]);
    }
    x->r = r;
}

static void take_nodes(struct packing *x)
{
    struct run_of_nodes run = {.service = get_below(x->r, NONE), .first = get_below(x->r, NONE), .at = x->n_nodes};

    run.n = get_below(x->r, (uint64_t) (x->r->end - x->r->p) + 1);
    if (array_reserve(x->runs, x->cap_runs, x->n_runs + 1, NONE) < 0 ||
        array_reserve(x->nodes, x->cap_nodes, x->n_nodes + run.n, NONE) < 0) {
        x->no_memory = x->r->bad = true;
        return;
    }
    for (uint32_t i = 0; i < run.n; i++) {
        struct packed_node *v = &x->nodes[x->n_nodes++];

        v->up = get_below(x->r, NONE);
        v->location = get_below(x->r, NONE);
    }
    if (run.n)
        x->runs[x->n_runs++] = run;
}

static int run_cmp(const void *a, const void *b)
{
    const struct run_of_nodes *x = a, *y = b;

    if (x->service != y->service)
        return x->service < y->service ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void pack_runs(struct packing *x)
{
    struct buf *run = &x->columns[C_RUN];

    if (x->n_runs)
        qsort(x->runs, x->n_runs, sizeof *x->runs, run_cmp);
    for (size_t i = 0, j; i < x->n_runs; i = j) {
        uint32_t n = 0, anchor = x->nodes[x->runs[i].at].location;

        for (j = i;
             j < x->n_runs && x->runs[j].service == x->runs[i].service && x->runs[j].first == x->runs[i].first + n; j++)
            n += x->runs[j].n;
        put_varint(run, x->runs[i].service);
        put_varint(run, x->runs[i].first);
        put_varint(run, n);
        put_varint(run, anchor);
        for (size_t k = i; k < j; k++)
            for (size_t m = x->runs[k].at; m < x->runs[k].at + x->runs[k].n; m++) {
                uint64_t location = zigzag((int64_t) x->nodes[m].location - anchor);

                put_varint(&x->columns[C_PARENT], x->nodes[m].up);
                buf_putc(&x->columns[C_NODE_LOW], (char) location);
                put_varint(&x->columns[C_NODE_REST], location >> 8);
            }
        x->n[RUNS]++;
    }
}

static void pack_one(struct packing *x, uint8_t kind)
{
    switch (kind) {
    case DEF_STRING: {
        struct str v = get_bytes(x->r);

        put_varint(&x->columns[C_LENGTH], v.n);
        buf_put(&x->columns[C_BYTES], v.p, v.n);
        x->n[STRINGS]++;
        break;
    }
    case DEF_MAPPING:
        copy_varints(x->r, &x->columns[C_MAPPING], 3);
        x->n[MAPPINGS]++;
        break;
    case DEF_FUNCTION:
        pack_function(x);
        x->n[FUNCTIONS]++;
        break;
    case DEF_LOCATION:
        pack_location(x);
        x->n[LOCATIONS]++;
        break;
    case DEF_NAMES:
        take_names(x);
        break;
    case DEF_SERVICE:
        copy_varints(x->r, &x->columns[C_SERVICE], 1);
        x->n[SERVICES]++;
        break;
    case DEF_SERIES: {
        uint64_t n;

        copy_varints(x->r, &x->columns[C_SERIES], 4);
        n = get_varint(x->r);
        put_varint(&x->columns[C_SERIES], n);
        copy_varints(x->r, &x->columns[C_SERIES], (uint32_t) MIN(2 * n, 2u * LABELS_MAX));
        x->n[SERIES]++;
        break;
    }
    case DEF_NODES:
        take_nodes(x);
        break;
    default:
        x->r->bad = true;
    }
}

/* Reads a `start` and returns whether this block continues there. The first one sets where the block begins. */
static bool continues(struct packing *x, bool first)
{
    bool same = true;

    for (int i = 0; i < STARTS; i++) {
        uint64_t at = get_varint(x->r);

        if (first)
            x->start[i] = at;
        same &= at == x->start[i] + x->n[i];
    }
    return same;
}

static void packing_done(struct packing *x)
{
    for (int i = 0; i < COLUMNS; i++)
        buf_done(&x->columns[i]);
    buf_done(&x->names);
    mem_free(x->runs);
    mem_free(x->nodes);
}

int symbols_pack(struct cursor *defs, struct buf *out)
{
    _cleanup_(packing_done) struct packing x = {.r = defs};
    ZSTD_CCtx *z;
    bool first = true;
    int r = 0;

    while (defs->p < defs->end && !defs->bad) {
        const unsigned char *at = defs->p++;

        if (*at != DEF_START) {
            pack_one(&x, *at);
        } else if (!continues(&x, first)) {
            defs->p = at;
            break;
        }
        first = false;
    }
    if (defs->bad)
        return x.no_memory ? -ENOMEM : -EINVAL;
    if (buf_error(&x.names) < 0)
        return -ENOMEM;
    pack_names(&x);
    pack_runs(&x);
    z = ZSTD_createCCtx();
    if (!z)
        return -ENOMEM;
    for (int i = 0; i < STARTS; i++)
        put_varint(out, x.start[i]);
    for (int i = 0; i < COUNTED; i++)
        put_varint(out, x.n[i]);
    for (int i = 0; i < COLUMNS; i++) {
        if (buf_error(&x.columns[i]) < 0)
            r = -ENOMEM;
        else
            column_put(z, out, &x.columns[i], LEVEL);
    }
    ZSTD_freeCCtx(z);
    return r < 0 ? r : buf_error(out);
}

/* --- unpacking --- */

struct unpacking {
    struct symbols *s;
    struct cursor columns[COLUMNS];
    uint64_t n[COUNTED];
    uint64_t function; /* the previous one */
};

static uint64_t get_against(struct cursor *r, uint64_t *last)
{
    return *last += (uint64_t) get_zigzag(r);
}

static int unpack_strings(struct unpacking *x)
{
    for (uint64_t i = 0; i < x->n[STRINGS]; i++) {
        uint32_t n = get_below(&x->columns[C_LENGTH], NONE);
        const unsigned char *p = get_raw(&x->columns[C_BYTES], n);

        if (x->columns[C_LENGTH].bad || !p)
            return -EINVAL;
        if (sym_add_string(x->s, (struct str){(const char *) p, n}) == NONE)
            return -ENOMEM;
    }
    return 0;
}

static int unpack_mappings(struct unpacking *x)
{
    struct cursor *r = &x->columns[C_MAPPING];
    uint32_t strings = pinned_count(&x->s->strings);

    for (uint64_t i = 0; i < x->n[MAPPINGS]; i++) {
        struct sym_mapping m = {.build_id = get_below(r, strings)};

        m.id_kind = (uint8_t) get_below(r, 4);
        m.filename = get_below(r, strings);
        if (r->bad)
            return -EINVAL;
        if (sym_add_mapping(x->s, &m) == NONE)
            return -ENOMEM;
    }
    return 0;
}

static int unpack_functions(struct unpacking *x)
{
    uint64_t name = 0, file = 0;
    uint32_t strings = pinned_count(&x->s->strings);

    for (uint64_t i = 0; i < x->n[FUNCTIONS]; i++) {
        struct sym_function f;

        get_against(&x->columns[C_F_NAME], &name);
        get_against(&x->columns[C_F_FILE], &file);
        f.system_name = get_below(&x->columns[C_F_SYSTEM], strings);
        f.start_line = get_zigzag(&x->columns[C_F_START]);
        f.name = (uint32_t) name;
        f.file = (uint32_t) file;
        if (name >= strings || file >= strings || x->columns[C_F_NAME].bad || x->columns[C_F_FILE].bad ||
            x->columns[C_F_SYSTEM].bad || x->columns[C_F_START].bad)
            return -EINVAL;
        if (sym_add_function(x->s, &f) == NONE)
            return -ENOMEM;
    }
    return 0;
}

static int unpack_lines(struct unpacking *x, struct sym_line *lines, uint32_t n)
{
    uint32_t functions = pinned_count(&x->s->functions);

    for (uint32_t i = 0; i < n; i++) {
        uint64_t f = get_against(&x->columns[C_N_FUNCTION], &x->function);

        lines[i].function = (uint32_t) f;
        lines[i].line = get_zigzag(&x->columns[C_N_LINE]);
        lines[i].column = get_zigzag(&x->columns[C_N_LINE]);
        if (f >= functions || x->columns[C_N_FUNCTION].bad || x->columns[C_N_LINE].bad)
            return -EINVAL;
    }
    return 0;
}

static int unpack_locations(struct unpacking *x)
{
    struct cursor *rest = &x->columns[C_L_REST];
    uint64_t mapping = 0, address = 0;
    uint32_t mappings = pinned_count(&x->s->mappings), strings = pinned_count(&x->s->strings);
    int r = 0;

    for (uint64_t i = 0; r == 0 && i < x->n[LOCATIONS]; i++) {
        _uninit_ struct sym_line lines[LINES_MAX];
        struct sym_location l = {0};
        uint32_t n;

        l.mapping = (uint32_t) get_against(&x->columns[C_L_MAPPING], &mapping);
        l.address = get_against(&x->columns[C_L_ADDRESS], &address);
        l.kind = (uint8_t) get_below(rest, 256);
        l.flags = (uint8_t) get_below(rest, 256);
        l.attrs = get_below(rest, strings);
        n = get_below(rest, LINES_MAX + 1);
        if (mapping >= mappings || x->columns[C_L_MAPPING].bad || x->columns[C_L_ADDRESS].bad || rest->bad)
            return -EINVAL;
        r = unpack_lines(x, lines, n);
        if (r == 0 && sym_add_location(x->s, &l, lines, n) == NONE)
            r = -ENOMEM;
    }
    return r;
}

static int unpack_series(struct unpacking *x)
{
    struct cursor *r = &x->columns[C_SERIES];
    uint32_t limit = pinned_count(&x->s->strings);

    for (uint64_t i = 0; i < x->n[SERIES]; i++) {
        uint32_t strings[2 + 2 * LABELS_MAX], service = get_below(r, pinned_count(&x->s->services)), rule, n;

        strings[0] = get_below(r, limit);
        strings[1] = get_below(r, limit);
        rule = get_below(r, 3);
        n = get_below(r, LABELS_MAX + 1);
        for (uint32_t k = 0; k < 2 * n; k++)
            strings[2 + k] = get_below(r, limit);
        if (r->bad)
            return -EINVAL;
        if (sym_add_series(x->s, service, strings, rule, n) == NONE)
            return -ENOMEM;
    }
    return 0;
}

static int unpack_names(struct unpacking *x)
{
    struct cursor *r = &x->columns[C_NAMED];
    int rc = 0;

    for (uint64_t i = 0; rc == 0 && i < x->n[NAMES]; i++) {
        _uninit_ struct sym_line lines[LINES_MAX];
        uint32_t location = get_below(r, pinned_count(&x->s->locations)), n = get_below(r, LINES_MAX + 1);

        if (r->bad)
            return -EINVAL;
        rc = unpack_lines(x, lines, n);
        if (rc == 0)
            rc = symbols_name(x->s, location, lines, n);
    }
    return rc;
}

static int unpack_run(struct unpacking *x)
{
    struct cursor *run = &x->columns[C_RUN], *parents = &x->columns[C_PARENT];
    uint32_t service = get_below(run, pinned_count(&x->s->services)), first = get_below(run, NONE),
             n = get_below(run, NONE), locations = pinned_count(&x->s->locations), anchor = get_below(run, locations);
    struct sym_service *v;
    int r;

    if (run->bad || n > (size_t) (parents->end - parents->p))
        return -EINVAL;
    v = sym_service(x->s, service);
    r = sym_fill_nodes(v, first);
    for (uint32_t i = first; r == 0 && n-- > 0; i++) {
        uint32_t up = get_below(parents, (uint64_t) i + 1);
        const unsigned char *low = get_raw(&x->columns[C_NODE_LOW], 1);
        uint64_t rest = get_varint(&x->columns[C_NODE_REST]), location;

        if (!low || !up || x->columns[C_NODE_REST].bad || parents->bad)
            return -EINVAL;
        location = anchor + (uint64_t) unzigzag(rest << 8 | *low);
        if (location >= locations)
            return -EINVAL;
        if (i < pinned_count(&v->nodes))
            continue; /* already known */
        if (sym_add_node(v, i - up, (uint32_t) location) == NONE)
            r = -ENOMEM;
    }
    return r;
}

static int unpack_services(struct unpacking *x)
{
    for (uint64_t i = 0; i < x->n[SERVICES]; i++) {
        uint32_t name = get_below(&x->columns[C_SERVICE], pinned_count(&x->s->strings));

        if (x->columns[C_SERVICE].bad)
            return -EINVAL;
        if (sym_add_service(x->s, name) == NONE)
            return -ENOMEM;
    }
    return 0;
}

static int unpack_all(struct unpacking *x)
{
    int r = unpack_strings(x);

    if (r == 0)
        r = unpack_mappings(x);
    if (r == 0)
        r = unpack_functions(x);
    if (r == 0)
        r = unpack_locations(x);
    if (r == 0)
        r = unpack_services(x);
    if (r == 0)
        r = unpack_series(x);
    if (r == 0)
        r = unpack_names(x);
    for (uint64_t i = 0; r == 0 && i < x->n[RUNS]; i++)
        r = unpack_run(x);
    return r;
}

int symbols_unpack(struct symbols *s, const void *p, size_t n)
{
    struct unpacking x = {.s = s};
    struct cursor r = cursor_of(p, n);
    bool before = s->replaying;
    uint32_t start[STARTS];
    struct arena a;
    int rc;

    arena_init(&a, (size_t) 2 << 30);
    for (int i = 0; i < STARTS; i++)
        start[i] = get_below(&r, NONE);
    for (int i = 0; i < COUNTED; i++)
        x.n[i] = get_varint(&r);
    for (int i = 0; i < COLUMNS; i++)
        x.columns[i] = column_get(&r, &a);
    s->replaying = true;
    rc = !r.bad ? sym_fill_gaps(s, start) : a.failed ? -ENOMEM : -EINVAL;
    if (rc == 0)
        rc = unpack_all(&x);
    memset(s->known, 0, sizeof s->known);
    s->replaying = before;
    arena_done(&a);
    return rc;
}
