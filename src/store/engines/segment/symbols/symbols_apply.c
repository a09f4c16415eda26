/* SPDX-License-Identifier: Apache-2.0 */
/* Applies definitions to the tables of symbols.h. The bytes come from disk, so every number is checked. */
#include <errno.h>

#include "store/engines/segment/symbols/symbols_add.h"

#define NONE UINT32_MAX

/* Gaps are limited to what one damaged block may have contained. */
enum { LINES_MAX = 256, LABELS_MAX = 64, GAP_MAX = 1 << 22, SERVICE_GAP_MAX = 1 << 14 };

void symbols_put_start(const struct symbols *s, struct buf *out)
{
    buf_putc(out, DEF_START);
    put_varint(out, pinned_count(&s->strings));
    put_varint(out, pinned_count(&s->mappings));
    put_varint(out, pinned_count(&s->functions));
    put_varint(out, pinned_count(&s->locations));
    put_varint(out, pinned_count(&s->services));
    put_varint(out, pinned_count(&s->series));
}

static uint32_t read_lines(struct symbols *s, struct cursor *r, struct sym_line *lines)
{
    uint32_t n = get_below(r, LINES_MAX + 1);

    for (uint32_t i = 0; i < n && !r->bad; i++) {
        lines[i].function = get_below(r, pinned_count(&s->functions));
        lines[i].line = get_zigzag(r);
        lines[i].column = get_zigzag(r);
    }
    return n;
}

static int apply_mapping(struct symbols *s, struct cursor *r)
{
    struct sym_mapping m;

    m.build_id = get_below(r, pinned_count(&s->strings));
    m.id_kind = (uint8_t) get_below(r, 4);
    m.filename = get_below(r, pinned_count(&s->strings));
    return r->bad ? -EINVAL : sym_add_mapping(s, &m) == NONE ? -ENOMEM : 0;
}

static int apply_function(struct symbols *s, struct cursor *r)
{
    uint32_t n = pinned_count(&s->strings);
    struct sym_function f;

    f.name = get_below(r, n);
    f.system_name = get_below(r, n);
    f.file = get_below(r, n);
    f.start_line = get_zigzag(r);
    return r->bad ? -EINVAL : sym_add_function(s, &f) == NONE ? -ENOMEM : 0;
}

static int apply_location(struct symbols *s, struct cursor *r)
{
    _uninit_ struct sym_line lines[LINES_MAX];
    struct sym_location l = {0};
    uint32_t n;

    l.mapping = get_below(r, pinned_count(&s->mappings));
    l.address = get_varint(r);
    l.kind = (uint8_t) get_below(r, 256);
    l.flags = (uint8_t) get_below(r, 256);
    l.attrs = get_below(r, pinned_count(&s->strings));
    n = read_lines(s, r, lines);
    return r->bad ? -EINVAL : sym_add_location(s, &l, lines, n) == NONE ? -ENOMEM : 0;
}

static int apply_names(struct symbols *s, struct cursor *r)
{
    _uninit_ struct sym_line lines[LINES_MAX];
    uint32_t location = get_below(r, pinned_count(&s->locations)), n = read_lines(s, r, lines);

    return r->bad ? -EINVAL : symbols_name(s, location, lines, n);
}

static int apply_series(struct symbols *s, struct cursor *r)
{
    uint32_t strings[2 + 2 * LABELS_MAX], service, rule, n, limit = pinned_count(&s->strings);

    service = get_below(r, pinned_count(&s->services));
    strings[0] = get_below(r, limit);
    strings[1] = get_below(r, limit);
    rule = get_below(r, 3);
    n = get_below(r, LABELS_MAX + 1);
    for (uint32_t i = 0; i < 2 * n; i++)
        strings[2 + i] = get_below(r, limit);
    return r->bad ? -EINVAL : sym_add_series(s, service, strings, rule, n) == NONE ? -ENOMEM : 0;
}

int sym_fill_nodes(struct sym_service *v, uint32_t first)
{
    if (first > pinned_count(&v->nodes) && first - pinned_count(&v->nodes) > GAP_MAX)
        return -EINVAL;
    while (pinned_count(&v->nodes) < first) /* lost nodes become children of the root, at the unknown location */
        if (sym_add_node(v, 0, 0) == NONE)
            return -ENOMEM;
    return 0;
}

static int apply_nodes(struct symbols *s, struct cursor *r)
{
    uint32_t service = get_below(r, pinned_count(&s->services)), first = get_below(r, NONE), n = get_below(r, NONE);
    struct sym_service *v;
    int rc;

    if (r->bad || n > (size_t) (r->end - r->p))
        return -EINVAL;
    v = sym_service(s, service);
    rc = sym_fill_nodes(v, first);
    if (rc < 0)
        return rc;
    for (uint32_t i = first; n-- > 0; i++) {
        uint32_t up = get_below(r, (uint64_t) i + 1), location = get_below(r, pinned_count(&s->locations));

        if (r->bad || !up)
            return -EINVAL;
        if (i < pinned_count(&v->nodes))
            continue; /* already known */
        if (sym_add_node(v, i - up, location) == NONE)
            return -ENOMEM;
    }
    return 0;
}

static int apply_start(struct symbols *s, struct cursor *r)
{
    uint32_t counts[6];

    for (int i = 0; i < 6; i++)
        counts[i] = get_below(r, NONE);
    return r->bad ? -EINVAL : sym_fill_gaps(s, counts);
}

/* Definitions before this one were lost: placeholders take their numbers, so that the others stay correct. */
int sym_fill_gaps(struct symbols *s, const uint32_t counts[6])
{
    const struct pinned *const tables[6] = {&s->strings,   &s->mappings, &s->functions,
                                            &s->locations, &s->services, &s->series};

    for (int i = 0; i < 6; i++) {
        uint32_t n = pinned_count(tables[i]);

        if (counts[i] > n && counts[i] - n > (i == 4 ? SERVICE_GAP_MAX : GAP_MAX))
            return -EINVAL;
        s->known[i] = counts[i] < n ? n - counts[i] : 0; /* a log whose symbols are already in the symbol file */
    }
    while (pinned_count(&s->strings) < counts[0])
        if (sym_add_string(s, STR("(damaged)")) == NONE)
            return -ENOMEM;
    while (pinned_count(&s->mappings) < counts[1])
        if (sym_add_mapping(s, &(struct sym_mapping){0}) == NONE)
            return -ENOMEM;
    while (pinned_count(&s->functions) < counts[2])
        if (sym_add_function(s, &(struct sym_function){.name = counts[0] - 1}) == NONE)
            return -ENOMEM;
    while (pinned_count(&s->locations) < counts[3])
        if (sym_add_location(s, &(struct sym_location){0}, NULL, 0) == NONE)
            return -ENOMEM;
    while (pinned_count(&s->services) < counts[4])
        if (sym_add_service(s, counts[0] - 1) == NONE)
            return -ENOMEM;
    while (pinned_count(&s->series) < counts[5])
        if (!counts[4] || sym_add_series(s, 0, (uint32_t[]){0, 0}, TYPE_DELTA, 0) == NONE)
            return -ENOMEM;
    return 0;
}

static int apply_one(struct symbols *s, struct cursor *r)
{
    switch (*r->p++) {
    case DEF_STRING: {
        struct str v = get_bytes(r);

        return r->bad ? -EINVAL : sym_add_string(s, v) == NONE ? -ENOMEM : 0;
    }
    case DEF_MAPPING:
        return apply_mapping(s, r);
    case DEF_FUNCTION:
        return apply_function(s, r);
    case DEF_LOCATION:
        return apply_location(s, r);
    case DEF_NAMES:
        return apply_names(s, r);
    case DEF_SERVICE: {
        uint32_t name = get_below(r, pinned_count(&s->strings));

        return r->bad ? -EINVAL : sym_add_service(s, name) == NONE ? -ENOMEM : 0;
    }
    case DEF_SERIES:
        return apply_series(s, r);
    case DEF_NODES:
        return apply_nodes(s, r);
    case DEF_START:
        return apply_start(s, r);
    default:
        return -EINVAL;
    }
}

int symbols_apply(struct symbols *s, const void *p, size_t n)
{
    struct cursor r = cursor_of(p, n);
    bool before = s->replaying;
    int rc = 0;

    s->replaying = true;
    while (rc == 0 && r.p < r.end)
        rc = apply_one(s, &r);
    memset(s->known, 0, sizeof s->known);
    s->replaying = before;
    return rc;
}
