/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text formats of gperftools and of old Go runtimes. A line that starts with '#' is a comment everywhere; a memory
 * map may follow ("MAPPED_LIBRARIES:" or "--- Memory map: ---").
 *
 *   heap        heap profile: COUNT: BYTES [COUNT: BYTES] @ heap_v2/PERIOD     in use, and in brackets allocated
 *               COUNT: BYTES [COUNT: BYTES] @ 0xADDRESS ...
 *               "heapz_v2", "heap_v2" and "heap" (PERIOD is then twice the rate) are sampled: values are scaled up to
 *               what was allocated; "heapprofile", "growthz" and "fragmentationz" are not
 *   count       NAME profile: total N
 *               COUNT @ 0xADDRESS ...
 *   contention  --- contentionz ... (or mutex:, contention:), then KEY = VALUE lines, then DELAY COUNT @ 0xADDRESS ...
 *   thread      --- threadz N ---, then per thread "--- Thread ID (name: NAME/N) stack: ---" and lines of addresses
 */
#include <errno.h>

#include "codec/pprof_legacy.h"

static int malformed(const struct legacy *l, const char *why)
{
    return err_set(l->e, -EINVAL, "pprof: malformed profile: %s in the line before byte %zu: %.*s", why, l->pos,
                   (int) MIN(l->line.n, 100u), l->line.p ? l->line.p : "");
}

/* --- heap --- */

struct heap {
    bool sampled;   /* values are to be scaled by the period */
    bool has_alloc; /* four values rather than two */
};

static int read_heap_header(struct legacy *l, struct heap *h)
{
    struct str g[6];

    *h = (struct heap){0};
    l->period = 0;
    if (!legacy_match(l, RE_HEAP_HEADER, l->line, g, 6)) {
        l->period = 1;
        return legacy_match(l, RE_GROWTH_HEADER, l->line, NULL, 0) ||
                       legacy_match(l, RE_FRAGMENTATION_HEADER, l->line, NULL, 0)
                   ? 0
                   : -ENOMSG;
    }
    if (g[5].n && legacy_decimal(g[5], &l->period) < 0)
        return -ENOMSG;
    h->has_alloc = (!str_eq(g[2], g[0]) && !str_is(g[2], "0")) || (!str_eq(g[3], g[1]) && !str_is(g[3], "0"));
    h->sampled = !str_is(g[4], "heapprofile");
    if (str_is(g[4], "heap"))
        l->period /= 2;
    else if (!h->sampled)
        l->period = 1;
    else if (!str_is(g[4], "heapz_v2") && !str_is(g[4], "heap_v2"))
        return -ENOMSG;
    return 0;
}

/* Count and bytes into values[0] and [1]; the size of a block into *block. */
static int heap_values(struct legacy *l, const struct heap *h, struct str count, struct str size, int64_t *values,
                       int64_t *block)
{
    if (legacy_decimal(count, &values[0]) < 0 || legacy_decimal(size, &values[1]) < 0)
        return malformed(l, "a number is too large");
    if (values[0] == 0 && values[1] != 0)
        return malformed(l, "a count of 0 with bytes that are not 0");
    if (values[0] != 0) {
        *block = wrap_div(values[1], values[0]);
        if (h->sampled)
            legacy_unsample(&values[0], &values[1], l->period);
    }
    return 0;
}

static int read_heap_sample(struct legacy *l, const struct heap *h)
{
    int64_t values[LEGACY_VALUES] = {0}, block = 0;
    struct legacy_sample *s;
    struct str g[5];
    int r = 0;

    if (!legacy_match(l, RE_HEAP_SAMPLE, str_trim(l->line), g, 5))
        return malformed(l, "unexpected number of sample values");
    if (h->has_alloc)
        r = heap_values(l, h, g[2], g[3], values, &block);
    if (r == 0)
        r = heap_values(l, h, g[0], g[1], values + (h->has_alloc ? 2 : 0), &block);
    if (r < 0)
        return r;
    s = legacy_add_sample(l);
    if (!s)
        return -ENOMEM;
    memcpy(s->values, values, sizeof values);
    s->bytes = block;
    s->has_bytes = true;
    return legacy_add_refs(l, g[4], 1, 1);
}

int legacy_heap(struct legacy *l)
{
    static const struct legacy_type both[] = {
        {STR("alloc_objects"), STR("count")},
        {STR("alloc_space"), STR("bytes")},
        {STR("inuse_objects"), STR("count")},
        {STR("inuse_space"), STR("bytes")},
    };
    static const struct legacy_type one[] = {{STR("objects"), STR("count")}, {STR("space"), STR("bytes")}};
    struct heap h;
    int r;

    if (!legacy_scan(l))
        return l->scan_error < 0 ? l->scan_error : -ENOMSG;
    r = read_heap_header(l, &h);
    if (r < 0)
        return r;
    l->period_type = one[1];
    legacy_set_types(l, h.has_alloc ? both : one, h.has_alloc ? 4 : 2);
    while (legacy_scan(l)) {
        if (legacy_is_comment(l->line))
            continue;
        if (legacy_is_maps_start(l->line))
            break;
        r = read_heap_sample(l, &h);
        if (r < 0)
            return r;
    }
    return l->scan_error < 0 ? l->scan_error : legacy_read_sections(l);
}

/* --- counts --- */

int legacy_go_count(struct legacy *l)
{
    struct legacy_sample *s;
    struct str g[2];
    int64_t n;
    int r;

    while (legacy_scan(l) && legacy_is_comment(l->line))
        ;
    if (l->scan_error < 0)
        return l->scan_error;
    if (!legacy_match(l, RE_COUNT_START, l->line, g, 1))
        return -ENOMSG;
    l->period_type = (struct legacy_type){g[0], STR("count")};
    l->period = 1;
    legacy_set_types(l, &l->period_type, 1);
    while (legacy_scan(l)) {
        if (legacy_is_comment(l->line))
            continue;
        if (str_starts(l->line, STR("---")))
            break;
        if (!legacy_match(l, RE_COUNT, l->line, g, 2) || legacy_int(g[0], &n) < 0)
            return malformed(l, "not COUNT @ ADDRESS...");
        s = legacy_add_sample(l);
        if (!s)
            return -ENOMEM;
        s->values[0] = n;
        r = legacy_add_refs(l, g[1], 1, 1);
        if (r < 0)
            return r;
    }
    return l->scan_error < 0 ? l->scan_error : legacy_read_sections(l);
}

/* --- contention --- */

/* KEY = VALUE. -ENOMSG for keys that this format does not have (but Java's has). */
static int read_contention_attr(struct legacy *l, struct str key, struct str value, int64_t *cpu_hz)
{
    int64_t v;

    if (str_is(key, "discarded samples"))
        return 0;
    if (legacy_int(value, &v) < 0)
        return -ENOMSG;
    if (str_is(key, "cycles/second"))
        *cpu_hz = v;
    else if (str_is(key, "sampling period"))
        l->period = v;
    else if (str_is(key, "ms since reset"))
        l->duration_ns = wrap_mul(v, 1000000);
    else
        return -ENOMSG;
    return 0;
}

/* Afterwards the current line is the first one after the attributes. */
static int read_contention_header(struct legacy *l, int64_t *cpu_hz)
{
    while (legacy_scan(l)) {
        struct str line = str_trim(l->line);
        ptrdiff_t eq = str_find_char(line, '=');
        int r;

        if (legacy_is_comment(line))
            continue;
        if (str_starts(line, STR("---")) || eq < 0)
            break;
        r = read_contention_attr(l, str_trim(str_slice(line, 0, (size_t) eq)),
                                 str_trim(str_slice(line, (size_t) eq + 1, line.n)), cpu_hz);
        if (r < 0)
            return r;
    }
    return l->scan_error;
}

static int read_contention_sample(struct legacy *l, struct str line, int64_t cpu_hz)
{
    struct legacy_sample *s;
    int64_t delay, count;
    struct str g[3];

    if (!legacy_match(l, RE_CONTENTION_SAMPLE, line, g, 3))
        return -ENOMSG;
    if (legacy_decimal(g[0], &delay) < 0 || legacy_decimal(g[1], &count) < 0)
        return malformed(l, "a number is too large");
    if (l->period > 0) {
        if (cpu_hz > 0)
            delay = wrap_int64((double) delay * (double) l->period / ((double) cpu_hz / 1e9));
        count = wrap_mul(count, l->period);
    }
    s = legacy_add_sample(l);
    if (!s)
        return -ENOMEM;
    s->values[0] = count;
    s->values[1] = delay;
    return legacy_add_refs(l, g[2], 1, 1);
}

int legacy_contention(struct legacy *l)
{
    static const struct legacy_type types[] = {{STR("contentions"), STR("count")}, {STR("delay"), STR("nanoseconds")}};
    int64_t cpu_hz = 0;
    int r;

    if (!legacy_scan(l))
        return l->scan_error < 0 ? l->scan_error : -ENOMSG;
    if (!str_starts(l->line, STR("--- contentionz ")) && !str_starts(l->line, STR("--- mutex:")) &&
        !str_starts(l->line, STR("--- contention:")))
        return -ENOMSG;
    legacy_set_types(l, types, 2);
    l->period_type = types[0];
    l->period = 1;
    r = read_contention_header(l, &cpu_hz);
    if (r < 0)
        return r;
    do {
        struct str line = str_trim(l->line);

        if (str_starts(line, STR("---")))
            break;
        if (!legacy_is_comment(line))
            r = read_contention_sample(l, line, cpu_hz);
        if (r < 0)
            return r;
    } while (legacy_scan(l));
    return l->scan_error < 0 ? l->scan_error : legacy_read_sections(l);
}

/* --- threads --- */

/* Reads the stack of one thread; leaves the line after it in *line. A thread without a stack, or whose stack is said to
 * be the same as that of the previous thread, is added to the previous sample. */
static int read_thread(struct legacy *l, struct str *line)
{
    size_t before = l->n_samples;
    struct legacy_sample *s = legacy_add_sample(l);
    bool same = false;
    int r;

    if (!s)
        return -ENOMEM;
    s->values[0] = 1;
    *line = (struct str){0};
    while (legacy_scan(l)) {
        *line = str_trim(l->line);
        if (!line->n)
            continue;
        if (str_starts(*line, STR("---")))
            break;
        if (str_find(*line, STR("same as previous thread")) >= 0) {
            same = true;
            continue;
        }
        r = legacy_add_refs(l, *line, 0, 1);
        if (r < 0)
            return r;
    }
    s = &l->samples[before];
    if (same || !s->n) {
        l->n_refs -= s->n;
        l->n_samples--;
        if (before)
            l->samples[before - 1].values[0]++;
    }
    return l->scan_error;
}

int legacy_thread(struct legacy *l)
{
    static const struct legacy_type type = {STR("thread"), STR("count")};
    struct str line, g[3];
    int r;

    while (legacy_scan(l) && legacy_is_comment(l->line))
        ;
    line = l->line;
    if (legacy_match(l, RE_THREADZ_START, line, NULL, 0)) {
        while (legacy_scan(l)) {
            line = l->line;
            if (legacy_is_maps_start(line) || str_starts(line, STR("-")))
                break;
        }
    } else if (!legacy_match(l, RE_THREAD_START, line, g, 3)) {
        return -ENOMSG;
    }
    legacy_set_types(l, &type, 1);
    l->period_type = type;
    l->period = 1;
    while (!legacy_is_maps_start(line) && !str_starts(line, STR("---- no stack trace for"))) {
        if (!legacy_match(l, RE_THREAD_START, line, g, 3))
            return -ENOMSG;
        r = read_thread(l, &line);
        if (r < 0)
            return r;
    }
    r = legacy_read_sections(l);
    if (r == 0)
        legacy_drop_double_leaf(l);
    return r;
}
