/* SPDX-License-Identifier: Apache-2.0 */
/* Filters by function, file and mapping names (prof_filter.h). Every expression is evaluated once per function and
 * mapping, not once per frame. */
#include "report/prof_filter.h"

#include <errno.h>

#include "base/mem.h"

/* One expression with its cached results. */
struct name_matcher {
    const struct prof *p;
    const struct regex *re;
    uint8_t *functions, *mappings; /* 0 = not evaluated, 1 = no, 2 = yes */
};

static int matcher_init(struct name_matcher *m, const struct prof *p, const struct regex *re)
{
    *m = (struct name_matcher){.p = p, .re = re};
    if (!re)
        return 0;
    m->functions = mem_zalloc(p->n_functions);
    m->mappings = mem_zalloc(p->n_mappings);
    return m->functions && m->mappings ? 0 : -ENOMEM;
}

static void matcher_done(struct name_matcher *m)
{
    mem_free(m->functions);
    mem_free(m->mappings);
}

static bool matches_function(struct name_matcher *m, uint32_t f)
{
    const struct prof_function *fn = &m->p->functions[f];

    if (!f)
        return false;
    if (!m->functions[f])
        m->functions[f] =
            1 + (regex_search(m->re, prof_str(m->p, fn->name)) || regex_search(m->re, prof_str(m->p, fn->filename)));
    return m->functions[f] == 2;
}

static bool matches_mapping(struct name_matcher *m, uint32_t i)
{
    if (!i)
        return false;
    if (!m->mappings[i])
        m->mappings[i] = 1 + regex_search(m->re, prof_str(m->p, m->p->mappings[i].file));
    return m->mappings[i] == 2;
}

static bool matches_location(struct name_matcher *m, const struct prof_location *l)
{
    for (uint32_t i = 0; i < l->lines.n; i++)
        if (matches_function(m, m->p->lines[l->lines.off + i].function))
            return true;
    return matches_mapping(m, l->mapping);
}

/* The lines of l that match (or do not), as a new run. */
static int keep_lines(struct prof *p, struct prof_location *l, struct name_matcher *m, bool matching)
{
    uint32_t first = 0, n = 0;
    bool all;

    if (matches_mapping(m, l->mapping)) {
        if (!matching)
            l->lines.n = 0;
        return 0;
    }
    for (uint32_t i = 0; i < l->lines.n; i++)
        n += matches_function(m, p->lines[l->lines.off + i].function) == matching;
    all = n == l->lines.n;
    if (all || !n) {
        l->lines.n = n;
        return 0;
    }
    first = (uint32_t) p->n_lines;
    for (uint32_t i = 0; i < l->lines.n; i++) {
        struct line ln = p->lines[l->lines.off + i];

        if (matches_function(m, ln.function) == matching && prof_add_lines(p, &ln, 1) < 0)
            return -ENOMEM;
    }
    l->lines = (struct run){first, n};
    return 0;
}

enum { SEEN_FOCUS = 1, SEEN_IGNORE = 2, SEEN_HIDDEN = 4 };

static bool sample_wanted(const struct prof *p, const struct prof_sample *s, const uint8_t *marks)
{
    uint8_t all = 0;

    for (uint32_t i = 0; i < s->frames.n; i++)
        all |= marks[p->frames[s->frames.off + i]];
    return (all & SEEN_FOCUS) && !(all & SEEN_IGNORE);
}

/* The sample's frames without the hidden ones, as a new run. */
static int drop_hidden(struct prof *p, struct prof_sample *s, const uint8_t *marks)
{
    uint32_t hidden = 0, off = (uint32_t) p->n_frames;

    for (uint32_t i = 0; i < s->frames.n; i++)
        hidden += !!(marks[p->frames[s->frames.off + i]] & SEEN_HIDDEN);
    if (!hidden)
        return 0;
    for (uint32_t i = 0; i < s->frames.n; i++) {
        uint32_t f = p->frames[s->frames.off + i];

        if (!(marks[f] & SEEN_HIDDEN) && prof_add_frames(p, &f, 1) < 0)
            return -ENOMEM;
    }
    s->frames = (struct run){off, s->frames.n - hidden};
    return 0;
}

static int mark_location(struct prof *p, uint32_t i, struct name_matcher m[4], uint8_t *mark, struct name_match *ret)
{
    struct prof_location *l = &p->locations[i];

    if (m[1].re && matches_location(&m[1], l)) {
        ret->ignore = true;
        *mark |= SEEN_IGNORE;
    } else if (!m[0].re || matches_location(&m[0], l)) {
        ret->focus = true;
        *mark |= SEEN_FOCUS;
    }
    if (m[2].re && matches_location(&m[2], l)) {
        ret->hide = true;
        if (keep_lines(p, l, &m[2], false) < 0)
            return -ENOMEM;
        if (!l->lines.n)
            *mark |= SEEN_HIDDEN;
    }
    if (m[3].re) {
        if (keep_lines(p, l, &m[3], true) < 0)
            return -ENOMEM;
        if (!l->lines.n)
            *mark |= SEEN_HIDDEN;
        else
            ret->show = true;
    }
    return 0;
}

static int select_samples(struct prof *p, const uint8_t *marks)
{
    size_t kept = 0;
    bool hidden = false;

    for (size_t i = 1; i < p->n_locations; i++)
        hidden |= marks[i] & SEEN_HIDDEN;
    for (size_t i = 0; i < p->n_samples; i++) {
        struct prof_sample s = p->samples[i];

        if (!sample_wanted(p, &s, marks))
            continue;
        if (hidden) {
            if (drop_hidden(p, &s, marks) < 0)
                return -ENOMEM;
            if (!s.frames.n)
                continue;
        }
        p->samples[kept++] = s;
    }
    p->n_samples = kept;
    return 0;
}

int filter_by_name(struct prof *p, const struct regex *focus, const struct regex *ignore, const struct regex *hide,
                   const struct regex *show, struct name_match *ret)
{
    const struct regex *re[4] = {focus, ignore, hide, show};
    struct name_matcher m[4];
    _cleanup_(mem_freep) uint8_t *marks = NULL;
    int r = 0;

    *ret = (struct name_match){0};
    if (!focus && !ignore && !hide && !show) {
        ret->focus = true;
        return 0;
    }
    marks = mem_zalloc(p->n_locations);
    if (!marks)
        return -ENOMEM;
    for (int i = 0; i < 4; i++)
        r |= matcher_init(&m[i], p, re[i]);
    for (uint32_t i = 1; r >= 0 && i < p->n_locations; i++)
        r = mark_location(p, i, m, &marks[i], ret);
    if (r >= 0)
        r = select_samples(p, marks);
    for (int i = 0; i < 4; i++)
        matcher_done(&m[i]);
    return r;
}

/* Removes lines after the last match; true when anything of the location matches. */
static bool show_from_location(struct prof *p, struct prof_location *l, struct name_matcher *m)
{
    if (matches_mapping(m, l->mapping))
        return true;
    for (uint32_t i = l->lines.n; i-- > 0;)
        if (matches_function(m, p->lines[l->lines.off + i].function)) {
            l->lines.n = i + 1;
            return true;
        }
    return false;
}

int filter_show_from(struct prof *p, const struct regex *from, bool *ret_matched)
{
    _cleanup_(mem_freep) uint8_t *marks = mem_zalloc(p->n_locations);
    _cleanup_(matcher_done) struct name_matcher m = {0};
    size_t kept = 0;

    *ret_matched = false;
    if (!marks || matcher_init(&m, p, from) < 0)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_locations; i++) {
        marks[i] = show_from_location(p, &p->locations[i], &m);
        *ret_matched |= marks[i];
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        struct prof_sample s = p->samples[i];

        while (s.frames.n && !marks[p->frames[s.frames.off + s.frames.n - 1]])
            s.frames.n--;
        if (s.frames.n)
            p->samples[kept++] = s;
    }
    p->n_samples = kept;
    return 0;
}

struct str filter_simple_name(struct str name)
{
    static const struct str reserved[] = {STR("(anonymous namespace)"), STR("operator()")};

    if (name.n && name.p[0] == '.')
        name = str_slice(name, 1, name.n);
    for (size_t i = 0; i < name.n; i++) {
        struct str rest = str_slice(name, i, name.n);
        bool skipped = false;

        for (size_t k = 0; k < ARRAY_SIZE(reserved) && !skipped; k++)
            if (str_starts(rest, reserved[k])) {
                i += reserved[k].n - 1;
                skipped = true;
            }
        if (!skipped && name.p[i] == '(')
            return str_slice(name, 0, i);
    }
    return name;
}

/* Which functions the expressions of a profile drop. */
static uint8_t *dropped_functions(const struct prof *p, const struct regex *drop, const struct regex *keep)
{
    uint8_t *hit = mem_zalloc(p->n_functions);

    for (size_t i = 1; hit && i < p->n_functions; i++) {
        struct str name = prof_str(p, p->functions[i].name), simple;

        if (!name.n)
            continue;
        simple = filter_simple_name(name);
        hit[i] = regex_search(drop, simple) && !(keep && regex_search(keep, simple));
    }
    return hit;
}

enum { PRUNE = 1, PRUNE_BENEATH = 2 };

static void prune_sample(const struct prof *p, struct prof_sample *s, const uint8_t *marks)
{
    bool user = false; /* frames before the first one that is kept are never removed: nothing would be left */

    for (uint32_t i = s->frames.n; i-- > 0;) {
        uint8_t mark = marks[p->frames[s->frames.off + i]];
        uint32_t cut;

        if (!mark) {
            user = true;
            continue;
        }
        if (!user)
            continue;
        cut = mark & PRUNE ? i + 1 : i;
        s->frames.off += cut;
        s->frames.n -= cut;
        return;
    }
}

static int prune(struct prof *p, const struct regex *drop, const struct regex *keep)
{
    _cleanup_(mem_freep) uint8_t *hit = dropped_functions(p, drop, keep);
    _cleanup_(mem_freep) uint8_t *marks = mem_zalloc(p->n_locations);

    if (!hit || !marks)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_locations; i++) {
        struct run *lines = &p->locations[i].lines;
        uint32_t k = lines->n;

        while (k && !hit[p->lines[lines->off + k - 1].function])
            k--;
        if (!k)
            continue;
        if (k == lines->n) {
            marks[i] = PRUNE | PRUNE_BENEATH;
        } else {
            marks[i] = PRUNE_BENEATH;
            lines->off += k;
            lines->n -= k;
        }
    }
    for (size_t i = 0; i < p->n_samples; i++)
        prune_sample(p, &p->samples[i], marks);
    return 0;
}

static int whole_regex(struct str s, struct regex **ret)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    buf_printf(&text, "^(%.*s)$", STR_FMT(s));
    return regex_new(buf_str(&text), ret, NULL);
}

int filter_uninteresting(struct prof *p)
{
    struct regex *drop = NULL, *keep = NULL;
    int r = 0;

    if (!p->drop_frames || whole_regex(prof_str(p, p->drop_frames), &drop) < 0)
        return 0;
    if (!p->keep_frames || whole_regex(prof_str(p, p->keep_frames), &keep) >= 0)
        r = prune(p, drop, keep);
    regex_free(drop);
    regex_free(keep);
    return r;
}

int filter_prune_from(struct prof *p, const struct regex *from)
{
    _cleanup_(mem_freep) uint8_t *hit = dropped_functions(p, from, NULL);
    _cleanup_(mem_freep) uint8_t *marks = mem_zalloc(p->n_locations);

    if (!hit || !marks)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_locations; i++) {
        struct run *lines = &p->locations[i].lines;

        for (uint32_t k = 0; k < lines->n && !marks[i]; k++)
            if (hit[p->lines[lines->off + k].function]) {
                marks[i] = 1;
                lines->off += k;
                lines->n -= k;
            }
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        struct prof_sample *s = &p->samples[i];

        for (uint32_t k = 0; k < s->frames.n; k++)
            if (marks[p->frames[s->frames.off + k]]) {
                s->frames.off += k;
                s->frames.n -= k;
                break;
            }
    }
    return 0;
}
