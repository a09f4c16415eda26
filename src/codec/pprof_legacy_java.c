/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java's heap and contention text, and the symbols at the end of any Java profile:
 *
 *   --- heapz 1 ---                       or "--- contentionz 1 ---"
 *   format = java
 *   resolution = bytes                    the unit of the second value; contention: sampling period, ms since reset
 *   BYTES COUNT @ 0xADDRESS ...           heap: sampled every 512 KiB, scaled up
 *   0xADDRESS FUNCTION (FILE:LINE)        or FUNCTION (PATH), or a word such as GC
 *
 * Addresses only identify frames: they are removed from locations that get a symbol, and finally from all others.
 */
#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "codec/pprof_legacy.h"

enum { HEAP_RATE = 512 << 10 };

/* --- symbols --- */

static int find_function(struct legacy *l, struct str name, struct str file, uint32_t *ret)
{
    uint64_t h = hash64_str(name);
    int r;

    for (struct map_pos p = map_find(&l->by_name, h); p.index != MAP_NONE; p = map_next(&l->by_name, p))
        if (str_eq(l->functions[p.index].name, name)) {
            *ret = p.index;
            return 0;
        }
    r = array_reserve(l->functions, l->cap_functions, l->n_functions + 1, UINT32_MAX);
    if (r == 0)
        r = map_insert(&l->by_name, h, (uint32_t) l->n_functions);
    if (r < 0)
        return r;
    l->functions[l->n_functions] = (struct legacy_function){name, file};
    *ret = (uint32_t) l->n_functions++;
    return 0;
}

/* As Go's filepath.Base(): the last element, "." for an empty path, "/" for slashes only. */
static struct str base_name(struct str path)
{
    uint32_t start = 0;

    if (!path.n)
        return STR(".");
    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    for (uint32_t i = 0; i + 1 < path.n; i++)
        if (path.p[i] == '/')
            start = i + 1;
    return str_slice(path, start, path.n);
}

static int read_symbol(struct legacy *l, struct legacy_location *loc, struct str text)
{
    struct str g[3], name, file = {0};
    uint32_t function;
    int64_t line = 0, n;
    int r;

    if (legacy_match(l, RE_JAVA_FILE_LINE, text, g, 3)) {
        name = g[0];
        file = g[1];
        if (legacy_decimal(g[2], &n) == 0 && n > 0)
            line = n;
    } else if (legacy_match(l, RE_JAVA_PATH, text, g, 2)) {
        name = g[0];
        file = base_name(g[1]);
    } else {
        name = str_find(text, STR("generated stub/JIT")) >= 0 ? STR("STUB") : text;
    }
    r = find_function(l, name, file, &function);
    if (r < 0)
        return r;
    loc->function = function + 1;
    loc->line = line;
    return 0;
}

int legacy_java_symbols(struct legacy *l, struct str rest)
{
    int r = 0;

    while (rest.n && r == 0) {
        struct str line = str_trim(str_cut(&rest, '\n')), g[2];
        uint64_t address;

        if (!line.n || !legacy_match(l, RE_JAVA_LOCATION, line, g, 2))
            continue;
        if (str_to_u64(g[0], 16, &address) < 0)
            return err_set(l->e, -EINVAL, "pprof: malformed profile: address 0x%.*s is too large", STR_FMT(g[0]));
        for (struct map_pos p = map_find(&l->by_address, hash64_u64(address)); p.index != MAP_NONE;
             p = map_next(&l->by_address, p))
            if (l->locations[p.index].address == address) {
                r = read_symbol(l, &l->locations[p.index], g[1]);
                break;
            }
    }
    for (size_t i = 0; i < l->n_locations; i++)
        if (l->locations[i].function)
            l->locations[i].address = 0;
    if (r == 0)
        r = legacy_renumber(l);
    if (r == 0)
        r = legacy_map_locations(l);
    for (size_t i = 0; i < l->n_locations; i++)
        l->locations[i].address = 0;
    return r;
}

/* --- text profiles --- */

static int number(struct legacy *l, struct str s, struct str line, int64_t *ret)
{
    if (legacy_int(s, ret) < 0)
        return err_set(l->e, -EINVAL, "pprof: malformed profile: '%.*s' is not a number in '%.*s'", STR_FMT(s),
                       STR_FMT(line));
    return 0;
}

static int read_attr(struct legacy *l, bool heap, struct str key, struct str value, struct str line)
{
    int64_t ms;
    int r;

    if (str_is(key, "format"))
        return str_is(value, "java") ? 0 : -ENOMSG;
    if (str_is(key, "resolution")) {
        struct legacy_type types[] = {{heap ? STR("inuse_objects") : STR("contentions"), STR("count")},
                                      {heap ? STR("inuse_space") : STR("delay"), value}};

        legacy_set_types(l, types, 2);
        return 0;
    }
    if (heap)
        return -ENOMSG;
    if (str_is(key, "sampling period")) {
        l->period_type = (struct legacy_type){STR("contentions"), STR("count")};
        return number(l, value, line, &l->period);
    }
    if (!str_is(key, "ms since reset"))
        return -ENOMSG;
    r = number(l, value, line, &ms);
    if (r == 0)
        l->duration_ns = wrap_mul(ms, 1000000);
    return r;
}

static int scale(struct legacy *l, bool heap, struct legacy_sample *s, struct str line)
{
    if (!heap) {
        if (l->period) {
            s->values[0] = wrap_mul(s->values[0], l->period);
            s->values[1] = wrap_mul(s->values[1], l->period);
        }
        return 0;
    }
    if (!s->values[0])
        return err_set(l->e, -EINVAL, "pprof: malformed profile: second value must be non-zero in '%.*s'",
                       STR_FMT(line));
    s->bytes = wrap_div(s->values[1], s->values[0]);
    s->has_bytes = true;
    legacy_unsample(&s->values[0], &s->values[1], HEAP_RATE);
    return 0;
}

/* Returns 0, or -ENOMSG if the line is not a sample. */
static int read_sample(struct legacy *l, bool heap, struct str line)
{
    struct legacy_sample *s;
    struct str g[3];
    int r;

    if (!legacy_match(l, RE_JAVA_SAMPLE, line, g, 3))
        return -ENOMSG;
    s = legacy_add_sample(l);
    if (!s)
        return -ENOMEM;
    r = number(l, g[1], line, &s->values[0]);
    if (r == 0)
        r = number(l, g[0], line, &s->values[1]);
    if (r == 0)
        r = scale(l, heap, s, line);
    return r < 0 ? r : legacy_add_refs(l, g[2], 0, 0);
}

/* Takes whole lines off *rest as long as they are samples (if `sample`) or attributes. A last line without a line end
 * is left. */
static int read_lines(struct legacy *l, bool heap, bool sample, struct str *rest)
{
    ptrdiff_t end;
    int r;

    for (; (end = str_find_char(*rest, '\n')) >= 0; *rest = str_slice(*rest, (size_t) end + 1, rest->n)) {
        struct str line = str_trim(str_slice(*rest, 0, (size_t) end)), g[2];

        if (!line.n)
            continue;
        if (sample) {
            r = read_sample(l, heap, line);
            if (r == -ENOMSG)
                return 0;
        } else {
            if (!legacy_match(l, RE_JAVA_ATTRIBUTE, line, g, 2))
                return 0;
            r = read_attr(l, heap, str_trim(g[0]), str_trim(g[1]), line);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int legacy_java(struct legacy *l)
{
    struct str rest = l->data, header;
    bool heap;
    int r;

    if (str_find_char(rest, '\n') < 0)
        return -ENOMSG;
    header = str_trim(str_cut(&rest, '\n'));
    heap = str_is(header, "--- heapz 1 ---");
    if (!heap && !str_is(header, "--- contentionz 1 ---"))
        return -ENOMSG;
    r = read_lines(l, heap, false, &rest);
    if (r == 0)
        r = read_lines(l, heap, true, &rest);
    if (r == 0)
        r = legacy_java_symbols(l, rest);
    if (r == 0 && l->n_samples && l->n_types != 2)
        return err_set(l->e, -EINVAL, "pprof: malformed profile: samples without a resolution");
    return r;
}
